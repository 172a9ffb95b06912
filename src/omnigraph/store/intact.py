"""A table and an operation on it -> the result, with the table's indexes if their files are intact, and without them otherwise.

Indexes are derived data, so no read or write may depend on one. But Lance fails if a file of an index it uses is missing or truncated,
and finds other rows if a byte of it changed. So each index is checked before its first use: the total size must be what the version file
records, and on a disk its files are compared with their checksums. Index files never change, so one check for each open graph is enough.
An index without recorded checksums may have a damaged page. If that raises an error, the operation runs again without the index.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from omnigraph.errors import OmniGraphError
from omnigraph.grid import counted
from omnigraph.store.bases import home
from omnigraph.store.checked import TableChecks, WrongChecksum
from omnigraph.store.damage import IndexDamage, IndexFiles
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.root import Root

log = logging.getLogger(__name__)

T = TypeVar("T")

_STAGING: Final = "staging"
"""A subdirectory in which a full-text index is assembled. Files that a crashed builder left there are not part of the index."""


class Indexed(Protocol):
    """A table with indexes."""

    @property
    def root(self) -> Root: ...

    @property
    def indexes(self) -> tuple[IndexFiles, ...]: ...

    @property
    def checks(self) -> TableChecks: ...


def index_files(dataset: Any, *, path: str, branch: str | None) -> tuple[IndexFiles, ...]:
    """The files of every index of an open version. They come from the version file; no storage is read."""
    bases: dict[int, Any] = {}
    found = []
    for index in dataset.describe_indices():
        for segment in index.segments:
            owner = branch
            if segment.base_id is not None:  # inherited from the native branch that this one was made from
                bases = bases or dataset.base_paths()
                owner = bases[segment.base_id].name
            directory = f"{home(path, owner)}/_indices/{segment.uuid}"
            about = index.name, index.field_names[0], index.index_type
            found.append(IndexFiles(*about, str(segment.uuid), directory, segment.size_bytes, frozenset(segment.fragment_ids)))
    return tuple(found)


def damaged_indexes(table: Indexed, *, among: Iterable[IndexFiles] | None = None, anew: bool = False) -> tuple[IndexDamage, ...]:
    """The indexes of a table, or those `among` them, that cannot be used. `anew` repeats the check for indexes that passed it before."""
    return tuple(_damages(table, table.indexes if among is None else among, anew=anew))


def lacks_files(table: Indexed, indexes: Iterable[IndexFiles]) -> bool:
    """Whether an index is known to be damaged, or its files do not have their sizes. The caller compares what it reads with checksums."""
    root = table.root
    for index in indexes:
        if index.uuid not in root.index_damage and index.uuid not in root.index_sizes:
            if (reason := _look(root, index)) is not None:
                record(root, IndexDamage(index, reason))
            root.index_sizes.add(index.uuid)
        if root.index_damage.get(index.uuid) is not None:
            return True
    return False


def _damages(table: Indexed, indexes: Iterable[IndexFiles], *, anew: bool = False) -> Iterator[IndexDamage]:
    root = table.root
    for index in indexes:
        if index.uuid not in root.index_damage or (anew and root.index_damage[index.uuid] is None):
            if (anew or index.uuid not in root.index_sizes) and (reason := _look(root, index)) is not None:
                record(root, IndexDamage(index, reason))
            elif (reason := _compare(table, index)) is not None:
                record(root, IndexDamage(index, reason, hidden=True))
            else:
                root.index_damage[index.uuid] = None
        if (damage := root.index_damage[index.uuid]) is not None:
            yield damage


def _compare(table: Indexed, index: IndexFiles) -> str | None:
    try:
        table.checks.folder(index.directory)
    except WrongChecksum as error:
        return f"{error.facts['file']} {error.facts['what']}"
    return None


def record(root: Root, damage: IndexDamage) -> None:
    """Records a damaged index. This open graph does not use the index from now on."""
    index = damage.index
    if root.index_damage.get(index.uuid) is None:
        log.warning("index %s in %s is damaged and is not used: %s; %s", index.name, index.directory, damage.reason, damage.remedy)
    root.index_damage[index.uuid] = damage


def passed_by(root: Root, indexes: Iterable[IndexFiles]) -> bool:
    """Whether filters skip the indexes of this table because one is known to be damaged. Makes no storage call."""
    return any(index.is_scalar and root.index_damage.get(index.uuid) is not None for index in indexes)


class Access(StrEnum):
    """How rows are found: with the indexes, or by a scan."""

    BY_INDEX = "by_index"
    BY_SCAN = "by_scan"


def by_index(table: Indexed, ask: Callable[[Access], T], *, on: object) -> T:
    """Calls `ask` with the table's indexes, or without them if one is damaged or fails.

    `on` is the filter or the column that the call uses. `ask` may be called twice, so it must have no visible effect.
    """
    if on is None or not (every := [index for index in table.indexes if index.is_scalar]):
        return ask(Access.BY_INDEX)
    if lacks_files(table, every) or any(_damages(table, _scalar(table, on))):
        return ask(Access.BY_SCAN)
    try:
        return ask(Access.BY_INDEX)
    except raised_by_lance() as error:
        return without_index(table, ask, on=on, error=error)


def by_search_index(table: Indexed, files: Sequence[IndexFiles], ask: Callable[[], T]) -> T | None:
    """Calls `ask`, which searches an index with these files. Returns None if there are none, or if the index is damaged or fails."""
    if not files or any(_damages(table, files)):
        return None
    try:
        return ask()
    except raised_by_lance() as error:
        if "KeyboardInterrupt" in str(error):
            raise
        if not list(_damages(table, files, anew=True)):
            for index in files:
                record(table.root, IndexDamage(index, f"a search in it failed: {str(error).splitlines()[0][:200]}", hidden=True))
        return None


def without_index(table: Indexed, ask: Callable[[Access], T], *, on: object, error: BaseException) -> T:
    """Calls `ask` again without indexes, after `error`. Raises `error` if no index can have caused it."""
    if on is None or not _scalar(table, on) or "KeyboardInterrupt" in str(error):
        raise error
    answer = ask(Access.BY_SCAN)
    _blame(table, on, error)
    return answer


def mentions(on: object, column: str) -> bool:
    """Whether a filter may use a column. True also if only a text in the filter has its name."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", str(on)) is not None


def _scalar(table: Indexed, on: object) -> list[IndexFiles]:
    return [index for index in table.indexes if index.is_scalar and mentions(on, index.column)]


def _blame(table: Indexed, on: object, error: BaseException) -> None:
    """Finds the index that failed a call which succeeded without it, and records it as damaged."""
    if list(_damages(table, used := _scalar(table, on), anew=True)):
        return
    for index in used:
        record(table.root, IndexDamage(index, f"a lookup in it failed: {str(error).splitlines()[0][:200]}", hidden=True))


def files_of(root: Root, index: IndexFiles) -> dict[str, int]:
    """The files of an index, with their sizes. Costs one listing."""
    return {file: size for file, size in root.objects.sizes(index.directory).items() if f"/{_STAGING}/" not in file}


def _look(root: Root, index: IndexFiles) -> str | None:
    try:
        found = files_of(root, index)
    except OmniGraphError as error:
        log.info("could not check the index files in %s: %s", index.directory, error)
        return None
    if not found:
        return "its files are missing"
    if index.size_bytes is not None and (total := sum(found.values())) != index.size_bytes:
        return f"its files have {counted(total, 'byte')}, but {index.size_bytes:,} were written"
    return None
