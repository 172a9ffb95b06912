"""Two versions of one table -> the stored rows that only one of them shows. Fragments that both share are not read.

A fragment is a set of files that never change, and a deletion file lists the rows of it that a version does not show. So two versions
with the same files and the same deletions show the same rows there. Where only the deletions differ, the deletion files alone say which
rows differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.store.arrays import joined, whole
from omnigraph.store.deletions import deleted_offsets
from omnigraph.store.fragments import Fragment, fragments, scan_fragments
from omnigraph.store.origins import Origins, Places, Runs, live_ranges
from omnigraph.store.origins import joined as joined_runs
from omnigraph.store.tables import ADDRESS, KEY, Table

Addresses = npt.NDArray[np.uint64]
"""Physical addresses of rows: fragment << 32 | offset."""


class RowsApart(NamedTuple):
    """The rows of one version that another does not show: all rows of some fragments, and single rows of others."""

    fragments: tuple[Fragment, ...]
    single: Addresses

    def has(self, addresses: Addresses) -> npt.NDArray[np.bool_]:
        """Which of these rows of the version are among them. Reads nothing."""
        owners = np.array([part.id for part in self.fragments], np.uint64)
        return np.isin(addresses >> np.uint64(32), owners) | np.isin(addresses, self.single)


class StoredRows(NamedTuple):
    """The ids and addresses of some rows of a table, in the order of the table."""

    ids: pa.Array
    addresses: Addresses


KnownOrigins = Callable[[], Origins]
"""Returns what is known about the origins of fragments. Called only if it may save reading many rows."""
TRACED_ROWS: Final = 4_096
"""Up to this many rows in other files are read, rather than the origins of the files."""


def rows_apart(
    before: Table | None, after: Table | None, *, origins: KnownOrigins = dict, traced_rows: int = TRACED_ROWS
) -> tuple[RowsApart, RowsApart]:
    """The rows that only `before` shows, and those that only `after` shows. None is a table without rows. Reads deletion files only.

    An entity whose row was rewritten with the same values is in both, unless `origins` tell that it is the same row. An entity that is in
    neither is the same in both versions.
    """
    gone, come = _stored_apart(before, after)
    if before is None or after is None or min(sum(part.rows for part in side.fragments) for side in (gone, come)) <= traced_rows:
        return gone, come
    if not (known := origins()):
        return gone, come
    places = Places(known)
    old, new = (_placed(table, side.fragments, places) for table, side in ((before, gone), (after, come)))
    only_old, only_new = (one.cut(other.at, other.at + other.length, inside=False) for one, other in ((old, new), (new, old)))
    if 2 * (only_old.length.sum() + only_new.length.sum()) > old.length.sum() + new.length.sum():
        return gone, come  # so many rows are read faster in the order of their fragments
    return _with_single(gone, only_old), _with_single(come, only_new)


def _with_single(rows: RowsApart, only: Runs) -> RowsApart:
    """Single rows in place of whole fragments."""
    return RowsApart((), np.sort(np.concatenate([rows.single, only.turned().numbers()])))


def _placed(table: Table, parts: Sequence[Fragment], places: Places) -> Runs:
    """Where the rows of some fragments were first stored -> their addresses. Deleted rows are left out."""
    found = []
    for part in parts:
        live = places.of(part.files, part.rows).cut(*live_ranges(part.rows, deleted_rows(table, part)))
        found.append(Runs(live.at + np.uint64(part.id << 32), live.length, live.to))
    return joined_runs(found).turned()


def _stored_apart(before: Table | None, after: Table | None) -> tuple[RowsApart, RowsApart]:
    old, new = fragments(before) if before is not None else (), fragments(after) if after is not None else ()
    newer, older = {part.files: part for part in new}, {part.files: part for part in old}
    gone: list[Addresses] = []
    come: list[Addresses] = []
    for part in old:
        other = newer.get(part.files)
        if other is None or before is None or after is None or other.deletions == part.deletions:
            continue
        here, there = deleted_rows(before, part), deleted_rows(after, other)
        gone.append(_addresses(part, np.setdiff1d(there, here, assume_unique=True)))
        come.append(_addresses(other, np.setdiff1d(here, there, assume_unique=True)))
    return (
        RowsApart(tuple(part for part in old if part.files not in newer), _joined(gone)),
        RowsApart(tuple(part for part in new if part.files not in older), _joined(come)),
    )


def stored_rows(table: Table | None, rows: RowsApart) -> StoredRows:
    """Read the ids of these rows."""
    ids: list[pa.Array] = []
    addresses: list[Addresses] = []
    if table is not None and rows.fragments:
        for batch in scan_fragments(table, rows.fragments, [KEY]):
            ids.append(batch.column(KEY))
            addresses.append(batch.column(ADDRESS).to_numpy())
    if table is not None and len(rows.single):
        ids += table.take(rows.single, [KEY]).column(KEY).chunks
        addresses.append(rows.single)
    return StoredRows(whole(joined(ids, pa.string())), _joined(addresses))


def moved_to(before: Table, after: Table, addresses: Addresses, *, origins: KnownOrigins = dict) -> Addresses:
    """The addresses in `after` of rows that both versions show, by the same `origins` as in `rows_apart`."""
    ids = {part.files: part.id for part in fragments(after)}
    moves = {part.id: ids[part.files] for part in fragments(before) if part.files in ids}
    owners, at = np.unique(addresses >> np.uint64(32), return_inverse=True)
    same = np.array([owner in moves for owner in owners.tolist()], np.bool_)[at]
    moved = np.array([moves.get(owner, 0) for owner in owners.tolist()], np.uint64)[at] << np.uint64(32) | addresses & np.uint64(0xFFFFFFFF)
    if same.all():
        return moved
    places, shared = Places(origins()), {part.files for part in fragments(before)}.intersection(ids)
    old, new = (
        joined_runs([_addressed(part, places) for part in fragments(table) if part.files not in shared]) for table in (before, after)
    )
    first, known = old.moved(addresses[~same])
    moved[~same], there = new.turned().moved(first)
    if not (known & there).all():
        raise KeyError("a row that both versions show is not known in both")
    return moved


def _addressed(part: Fragment, places: Places) -> Runs:
    runs = places.of(part.files, part.rows)
    return Runs(runs.at + np.uint64(part.id << 32), runs.length, runs.to)


def _addresses(part: Fragment, offsets: npt.NDArray[np.uint32]) -> Addresses:
    return offsets.astype(np.uint64) | np.uint64(part.id << 32)


def _joined(parts: list[Addresses]) -> Addresses:
    return np.concatenate([np.empty(0, np.uint64), *parts])


def deleted_rows(table: Table, part: Fragment) -> npt.NDArray[np.uint32]:
    """The offsets of the deleted rows of a fragment, ascending."""
    if part.deletions is None:
        return np.empty(0, np.uint32)
    if (known := deleted_offsets(table, part.id)) is not None:
        return known
    alive = [batch.column(ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF) for batch in scan_fragments(table, [part], [])]
    every = np.arange(part.rows, dtype=np.uint32)
    return np.setdiff1d(every, np.concatenate([np.empty(0, np.uint64), *alive]).astype(np.uint32), assume_unique=True)
