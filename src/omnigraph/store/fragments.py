"""One table version -> the physical parts of it: which files hold which rows, and which of those rows are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from omnigraph.store.failure import raised_by_lance
from omnigraph.store.tables import Table

_BATCH: Final = 65_536
GROUP_ROWS: Final = 131_072
"""Small fragments are read together up to about this many rows; a larger one is a group of its own."""


class Fragment(msgspec.Struct, frozen=True, array_like=True):
    """A run of rows that was written at once. Equal fragments of two versions hold the same rows at the same offsets.

    Fragment ids of two native branches collide, so the files are part of the comparison; a file's name is never used twice.
    """

    id: int
    rows: int
    """Physical rows, deleted ones included."""
    files: tuple[str, ...]
    deletions: tuple[int, int, int] | None
    """Version and id of the deletion file, and how many rows it names; None when all rows are there."""


def fragments(table: Table) -> tuple[Fragment, ...]:
    """The fragments in the order in which a scan meets them. From the open version alone: nothing is read."""
    try:
        found = [fragment.metadata for fragment in table.dataset.get_fragments()]
        return tuple(Fragment(part.id, part.physical_rows, _files(part), _deletions(part.deletion_file)) for part in found)
    except raised_by_lance() as error:
        raise table.failed(error, doing="list the fragments of") from error


def _files(part: Any) -> tuple[str, ...]:
    # An overlay replaces values of some rows in place: to be safe, a fragment that has any equals only itself.
    return (*(str(file.path) for file in part.files), *map(repr, part.overlays))


def _deletions(file: Any) -> tuple[int, int, int] | None:
    return None if file is None else (file.read_version, file.id, file.num_deleted_rows)


def scan_fragments(table: Table, parts: Sequence[Fragment], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All rows of some fragments, with their addresses, in order."""
    try:
        chosen = [table.dataset.get_fragment(part.id) for part in parts]
        scanner = table.dataset.scanner(columns=list(columns), fragments=chosen, with_row_address=True, batch_size=_BATCH)
        yield from scanner.to_reader()
    except raised_by_lance() as error:
        raise table.failed(error, doing="scan") from error


class FragmentGroup(msgspec.Struct, frozen=True):
    """Some fragments of a table, in their order: the work of one task."""

    ids: tuple[int, ...]
    rows: int


def groups(table: Table, *, group_rows: int = GROUP_ROWS) -> list[FragmentGroup]:
    """Neighbouring fragments together. A table without rows is one group without fragments."""
    found: list[FragmentGroup] = []
    for part in fragments(table):
        live = part.rows - (part.deletions[2] if part.deletions is not None else 0)
        if found and found[-1].rows + live <= group_rows:
            found[-1] = FragmentGroup((*found[-1].ids, part.id), found[-1].rows + live)
        else:
            found.append(FragmentGroup((part.id,), live))
    return found or [FragmentGroup((), 0)]
