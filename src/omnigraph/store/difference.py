"""Two versions of one table -> the stored rows that only one of them shows. Fragments that both share are not read.

A fragment is a set of files that never change, and a deletion file lists the rows of it that a version does not show. So two versions
with the same files and the same deletions show the same rows there. Where only the deletions differ, the deletion files alone say which
rows differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.store.arrays import joined, whole
from omnigraph.store.deletions import deleted_offsets
from omnigraph.store.fragments import Fragment, fragments, scan_fragments
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


def rows_apart(before: Table | None, after: Table | None) -> tuple[RowsApart, RowsApart]:
    """The rows that only `before` shows, and those that only `after` shows. None is a table without rows. Reads deletion files only.

    An entity whose row was rewritten with the same values is in both. An entity that is in neither is the same in both versions.
    """
    old, new = fragments(before) if before is not None else (), fragments(after) if after is not None else ()
    newer, older = {part.files: part for part in new}, {part.files: part for part in old}
    gone: list[Addresses] = []
    come: list[Addresses] = []
    for part in old:
        other = newer.get(part.files)
        if other is None or before is None or after is None or other.deletions == part.deletions:
            continue
        here, there = _deleted(before, part), _deleted(after, other)
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


def moved_to(before: Table, after: Table, addresses: Addresses) -> Addresses:
    """The addresses in `after` of rows that both versions show."""
    ids = {part.files: part.id for part in fragments(after)}
    moves = {part.id: ids[part.files] for part in fragments(before) if part.files in ids}
    owners, places = np.unique(addresses >> np.uint64(32), return_inverse=True)
    moved = np.array([moves[owner] for owner in owners.tolist()], np.uint64)[places]
    return moved << np.uint64(32) | addresses & np.uint64(0xFFFFFFFF)


def _addresses(part: Fragment, offsets: npt.NDArray[np.uint32]) -> Addresses:
    return offsets.astype(np.uint64) | np.uint64(part.id << 32)


def _joined(parts: list[Addresses]) -> Addresses:
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _deleted(table: Table, part: Fragment) -> npt.NDArray[np.uint32]:
    """The offsets of the deleted rows of a fragment, ascending."""
    if part.deletions is None:
        return np.empty(0, np.uint32)
    if (known := deleted_offsets(table, part.id)) is not None:
        return known
    alive = [batch.column(ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF) for batch in scan_fragments(table, [part], [])]
    every = np.arange(part.rows, dtype=np.uint32)
    return np.setdiff1d(every, np.concatenate([np.empty(0, np.uint64), *alive]).astype(np.uint32), assume_unique=True)
