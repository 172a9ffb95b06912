"""One table version -> its fragments: the files that hold its rows, and the rows deleted from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from omnigraph.store.failure import raised_by_lance
from omnigraph.store.file_memory import files_of
from omnigraph.store.tables import Table

_BATCH: Final = 65_536
GROUP_ROWS: Final = 131_072
"""Small fragments are grouped up to about this many rows. A larger fragment is its own group."""


class Fragment(msgspec.Struct, frozen=True, array_like=True):
    """A run of rows written together. Equal fragments of two versions hold the same rows at the same offsets.

    Two native branches can use the same fragment id, so the file names are part of the comparison. A file name is never reused.
    """

    id: int
    rows: int
    """Physical rows, deleted ones included."""
    files: tuple[str, ...]
    deletions: tuple[int, int, int] | None
    """The version and id of the deletion file, and the number of rows deleted. None if no row is deleted."""


def fragments(table: Table) -> tuple[Fragment, ...]:
    """The fragments in scan order. They come from the open version; no storage is read."""
    try:
        found = [fragment.metadata for fragment in table.dataset.get_fragments()]
        return tuple(Fragment(part.id, part.physical_rows, _files(part), _deletions(part.deletion_file)) for part in found)
    except raised_by_lance() as error:
        raise table.failed(error, doing="list the fragments of") from error


def _files(part: Any) -> tuple[str, ...]:
    # An overlay replaces values of some rows in place. To be safe, a fragment with overlays equals no other.
    return (*files_of(part), *map(repr, part.overlays))


def _deletions(file: Any) -> tuple[int, int, int] | None:
    return None if file is None else (file.read_version, file.id, file.num_deleted_rows)


def scan_fragments(table: Table, parts: Sequence[Fragment], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Reads all rows of some fragments in order, with their addresses."""
    try:
        chosen = [table.dataset.get_fragment(part.id) for part in parts]
        scanner = table.dataset.scanner(columns=list(columns), fragments=chosen, with_row_address=True, batch_size=_BATCH)
        yield from scanner.to_reader()
    except raised_by_lance() as error:
        raise table.failed(error, doing="scan") from error


class FragmentGroup(msgspec.Struct, frozen=True):
    """Some fragments of a table, in order. They are the work of one task."""

    ids: tuple[int, ...]
    rows: int


def groups(table: Table, *, group_rows: int = GROUP_ROWS) -> list[FragmentGroup]:
    """Groups neighbouring fragments. A table without rows gives one group without fragments."""
    found: list[FragmentGroup] = []
    for part in fragments(table):
        live = part.rows - (part.deletions[2] if part.deletions is not None else 0)
        if found and found[-1].rows + live <= group_rows:
            found[-1] = FragmentGroup((*found[-1].ids, part.id), found[-1].rows + live)
        else:
            found.append(FragmentGroup((part.id,), live))
    return found or [FragmentGroup((), 0)]
