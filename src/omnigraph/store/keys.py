"""A table and a few keys -> the addresses of the rows with these keys, found without a scan.

A scan for one key takes longer than all other steps of staging one row: Lance plans it, and reads the newest fragments, which no index
covers. Here the keys of small fragments and the pages of the B-tree are read once and stay in memory. Both also list deleted rows. So
the deletion files of the fragments in question are read, too.

None means that a scan is needed: there is too much that no index covers, an index is damaged, or a file is not as expected.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileReader

from omnigraph.errors import NotFound, StorageError
from omnigraph.store.damage import IndexFiles
from omnigraph.store.deletions import deleted_offsets
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.file_memory import KeyBlock, files_of
from omnigraph.store.fragments import Fragment, fragments
from omnigraph.store.intact import damaged_indexes
from omnigraph.store.membership import is_in
from omnigraph.store.tables import KEY, Table

FEW: Final = 64
"""Up to this many keys are looked up here. Each can need a page of its own."""
UNCOVERED_ROWS: Final = 65_536
"""With more rows that no index covers, their keys are not read into memory."""

_BTREE: Final = "BTree"
_TEXT: Final = methodcaller("as_py")
_PAGE_ROWS: Final = 4096
_ROW_ID: Final = "_rowid"
"""Our tables have no stable row ids, so this is the address of a row."""


class _Unexpected(Exception):
    """A file of an index does not have the structure that this release knows."""


def addresses_of(table: Table, keys: pa.Array) -> Any | None:
    """The addresses (numpy uint64) of the rows with these distinct texts as keys, in no particular order; or None, if a scan is needed."""
    parts = fragments(table)
    indexes = [index for index in table.indexes if index.column == KEY and index.kind == _BTREE]
    covered = frozenset[int]().union(*(index.fragments for index in indexes))
    uncovered = [part for part in parts if part.id not in covered]
    if len(keys) > FEW or sum(part.rows for part in uncovered) > UNCOVERED_ROWS or damaged_indexes(table, among=indexes):
        return None
    here = {part.id for part in parts}
    try:
        found = {*_in_fragments(table, uncovered, keys), *(place for index in indexes for place in _in_index(table, index, keys))}
        # An index also lists rows of fragments that were removed since.
        living = [address for address in found if address >> 32 in here and not _is_deleted(table, address)]
    except (_Unexpected, StorageError, NotFound, pa.ArrowException, *raised_by_lance()):
        return None  # the scan finds the rows without this index, or reports what is wrong
    return np.array(sorted(living), np.uint64)


def remember(table: Table, written: Sequence[Any], rows: pa.Table) -> None:
    """Keeps the keys of rows that were just written to one new fragment, so that they need not be read."""
    if len(written) == 1 and len(rows) <= UNCOVERED_ROWS and written[0].physical_rows == len(rows):
        table.root.memory.keys.put(files_of(written[0]), _block(rows.column(KEY)))


# -- deleted rows


def _is_deleted(table: Table, address: int) -> bool:
    deleted = deleted_offsets(table, address >> 32)
    if deleted is None:
        raise _Unexpected
    offset = address & 0xFFFFFFFF
    at = int(np.searchsorted(deleted, offset))
    return at < len(deleted) and int(deleted[at]) == offset


# -- fragments that no index covers


def _in_fragments(table: Table, parts: Sequence[Fragment], wanted: pa.Array) -> Iterator[int]:
    if not parts:
        return
    held = table.root.memory.keys
    known = {part.id: held.get(part.files) for part in parts}
    known |= _read(table, [part for part in parts if known[part.id] is None])
    blocks = [block for part in parts if (block := known[part.id]) is not None]
    if [len(block.keys) for block in blocks] != [part.rows for part in parts]:
        raise _Unexpected
    ends = np.cumsum([part.rows for part in parts])
    # Joined first: a lookup in an array of a few keys costs more than to copy all of them.
    for met in np.flatnonzero(is_in(pa.concat_arrays([block.keys for block in blocks]), wanted)):
        at = int(np.searchsorted(ends, met, side="right"))
        yield parts[at].id << 32 | int(met - ends[at]) + parts[at].rows


def _read(table: Table, parts: Sequence[Fragment]) -> dict[int, KeyBlock]:
    """Reads the keys of fragments, those of deleted rows too: another version may show them."""
    if not parts:
        return {}
    dataset = table.dataset
    scanned = dataset.scanner(
        columns=[KEY],
        fragments=[dataset.get_fragment(part.id) for part in parts],
        include_deleted_rows=True,
        with_row_id=True,  # with the addresses of rows; empty for deleted rows
    ).to_table()
    expected = pa.array(np.concatenate([np.arange(part.rows, dtype=np.uint64) + np.uint64(part.id << 32) for part in parts]))
    if len(scanned) != len(expected) or pc.any(pc.not_equal(scanned.column(_ROW_ID), expected)).as_py():
        raise _Unexpected  # the rows are not in the order in which their offsets count
    found: dict[int, KeyBlock] = {}
    start = 0
    for part in parts:
        found[part.id] = table.root.memory.keys.put(part.files, _block(scanned.column(KEY).slice(start, part.rows)))
        start += part.rows
    return found


def _block(keys: pa.ChunkedArray) -> KeyBlock:
    return KeyBlock(keys.combine_chunks(), np.arange(len(keys), dtype=np.uint64))


# -- B-trees


def _in_index(table: Table, index: IndexFiles, keys: pa.Array) -> Iterator[int]:
    firsts = _first_keys(table, index)
    for key in keys.to_pylist():
        # Equal keys may begin in the page before the one that begins with them.
        for page in range(max(0, bisect_left(firsts, key) - 1), bisect_right(firsts, key)):
            block = _page(table, index, page)
            start = bisect_left(block.keys, key, key=_TEXT)
            yield from block.places[start : bisect_right(block.keys, key, lo=start, key=_TEXT)].tolist()


def _first_keys(table: Table, index: IndexFiles) -> list[str]:
    held = table.root.memory.first_keys
    if (known := held.get(index.uuid)) is not None:
        return known
    lookup = _open(table, index, "page_lookup.lance").read_all().to_table().sort_by("page_idx")
    metadata = lookup.schema.metadata or {}
    if (metadata.get(b"batch_size"), metadata.get(b"range_partitioned")) != (str(_PAGE_ROWS).encode(), b"false"):
        raise _Unexpected
    if lookup.column("page_idx").to_pylist() != list(range(len(lookup))) or pc.any(pc.not_equal(lookup.column("null_count"), 0)).as_py():
        raise _Unexpected
    return held.put(index.uuid, lookup.column("min").to_pylist())


def _page(table: Table, index: IndexFiles, page: int) -> KeyBlock:
    held = table.root.memory.keys
    if (known := held.get((index.uuid, page))) is not None:
        return known
    reader = _open(table, index, "page_data.lance")
    start = page * _PAGE_ROWS
    read = reader.read_range(start, min(_PAGE_ROWS, reader.num_rows() - start)).to_table()
    keys = read.column("values").combine_chunks()
    if pc.any(pc.greater(keys[:-1], keys[1:])).as_py():
        raise _Unexpected
    return held.put((index.uuid, page), KeyBlock(keys, read.column("ids").to_numpy()))


def _open(table: Table, index: IndexFiles, name: str) -> Any:
    return LanceFileReader(table.root.of(f"{index.directory}/{name}"), table.root.storage_options or None)
