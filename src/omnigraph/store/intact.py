"""A table and a question to it -> the answer, by its indexes while their files are whole, and without them when they are not.

An index is derived: no read and no write depends on one. Lance does: it fails when a file of an index that it wants to ask is gone
or cut short. So each index is looked at before it is first used, by one listing of its folder: the bytes found there must be
as many as the version file says. Index files never change, so once per open graph will do. What sizes do not show, a damaged
page, shows as an error where the index is asked; then the same is asked without it.

A changed byte that still decodes shows in neither way. `deep.py` compares indexes with the rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from omnigraph.errors import OmniGraphError
from omnigraph.store.damage import IndexDamage, IndexFiles
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.root import Root

log = logging.getLogger(__name__)

T = TypeVar("T")

_WORKSHOP: Final = "staging"
"""A folder in that of a full-text index where its parts are put together; what a dead builder left there belongs to nothing."""


class Indexed(Protocol):
    """A table, as far as its indexes go."""

    @property
    def root(self) -> Root: ...

    @property
    def indexes(self) -> tuple[IndexFiles, ...]: ...


def index_files(dataset: Any, *, path: str, home: str) -> tuple[IndexFiles, ...]:
    """The files of every index of an open version. From the version file alone: nothing is read."""
    bases: dict[int, Any] = {}
    found = []
    for index in dataset.describe_indices():
        for segment in index.segments:
            place = home
            if segment.base_id is not None:  # inherited from the native branch that this one was made from
                bases = bases or dataset.base_paths()
                base = str(bases[segment.base_id].path)
                place = base[base.rindex(path) :]
            folder = f"{place}/_indices/{segment.uuid}"
            about = index.name, index.field_names[0], index.index_type
            found.append(IndexFiles(*about, str(segment.uuid), folder, segment.size_bytes, frozenset(segment.fragment_ids)))
    return tuple(found)


def damaged_indexes(table: Indexed, *, anew: bool = False) -> tuple[IndexDamage, ...]:
    """The indexes of a table that cannot be used. What was found whole before is looked at again only `anew`."""
    return tuple(_damages(table.root, table.indexes, anew=anew))


def _damages(root: Root, indexes: Iterable[IndexFiles], *, anew: bool = False) -> Iterator[IndexDamage]:
    for index in indexes:
        if index.uuid not in root.index_damage or (anew and root.index_damage[index.uuid] is None):
            if (reason := _look(root, index)) is not None:
                record(root, IndexDamage(index, reason))
            else:
                root.index_damage[index.uuid] = None
        if (damage := root.index_damage[index.uuid]) is not None:
            yield damage


def record(root: Root, damage: IndexDamage) -> None:
    """From now on, whoever works with this open graph goes without the index."""
    index = damage.index
    if root.index_damage.get(index.uuid) is None:
        log.warning("index %s in %s is damaged and is not used: %s; %s", index.name, index.folder, damage.reason, damage.remedy)
    root.index_damage[index.uuid] = damage


def passed_by(root: Root, indexes: Iterable[IndexFiles]) -> bool:
    """Whether filters go without these indexes of a table, because one of them was found damaged. Asks nothing of the store."""
    return any(index.is_scalar and root.index_damage.get(index.uuid) is not None for index in indexes)


class Access(StrEnum):
    """How rows are found: Lance may ask the indexes, or must look at the rows themselves."""

    BY_INDEX = "by_index"
    BY_SCAN = "by_scan"


def by_index(table: Indexed, ask: Callable[[Access], T], *, on: object) -> T:
    """What `ask` gives, by the table's indexes; without them when one is damaged, or turns out to be.

    `on` is the filter, or the column, that the question is about. `ask` may be called twice: nobody must see an effect of it.
    """
    if on is None or not (scalar := _scalar(table)):
        return ask(Access.BY_INDEX)
    if any(_damages(table.root, scalar)):
        return ask(Access.BY_SCAN)
    try:
        return ask(Access.BY_INDEX)
    except raised_by_lance() as error:
        return without_index(table, ask, on=on, error=error)


def without_index(table: Indexed, ask: Callable[[Access], T], *, on: object, error: BaseException) -> T:
    """The same question once more, after `error`. It is raised again when no index can be to blame for it."""
    if on is None or not _scalar(table) or "KeyboardInterrupt" in str(error):
        raise error
    answer = ask(Access.BY_SCAN)
    _blame(table, on, error)
    return answer


def _scalar(table: Indexed) -> list[IndexFiles]:
    return [index for index in table.indexes if index.is_scalar]


def _blame(table: Indexed, on: object, error: BaseException) -> None:
    """An index failed a question that went well without it: find out which one, and use it no more."""
    if list(_damages(table.root, _scalar(table), anew=True)):
        return
    for index in _scalar(table):
        if re.search(rf"\b{re.escape(index.column)}\b", str(on)):
            record(table.root, IndexDamage(index, f"it cannot be asked: {str(error).splitlines()[0][:200]}", hidden=True))


def _look(root: Root, index: IndexFiles) -> str | None:
    try:
        found = {file: size for file, size in root.objects.sizes(index.folder).items() if f"/{_WORKSHOP}/" not in file}
    except OmniGraphError as error:
        log.info("could not look at %s: %s", index.folder, error)
        return None
    if not found:
        return "its files are gone"
    if index.size_bytes is not None and (total := sum(found.values())) != index.size_bytes:
        return f"its files have {total} bytes, and had {index.size_bytes}"
    return None
