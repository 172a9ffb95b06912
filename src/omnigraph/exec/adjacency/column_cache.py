"""Columns that are read repeatedly -> whole columns in memory, by row number, so that reading a row needs no storage call.

A column is loaded once reading single rows has cost as much as reading the whole column. So the cost is at most twice that of
reading only what is needed.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbering, Numbers64
from omnigraph.lru import Lru
from omnigraph.store.arrays import joined, whole
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.tables import ADDRESS, Table, TableRef
from omnigraph.store.words import Words

LIMIT_BYTES: Final = 512 << 20
"""The size limit of all columns in memory together."""
SHARE: Final = 4
"""One column may take at most one part in this many of the limit."""
CALL_ROWS: Final = 5_000
"""The fixed cost of a call that reads some rows, in scanned rows."""
ROW_ROWS: Final = 20
"""The additional cost of each of its rows, in scanned rows."""
WORDS_ROWS: Final = 8
"""The cost of finding the words of a text, in scanned rows."""
TEXT_BYTES: Final = 32
"""The assumed size of a text."""
TRACKED_COLUMNS: Final = 4_096
SMALLEST_SQUARE: Final = 1e-30
LARGEST_SQUARE: Final = 1e30
"""The squares of lengths between which single precision loses nothing but its last digits."""


class ColumnRef(NamedTuple):
    """A column of a table version."""

    table: TableRef
    name: str


class VectorMatrix(NamedTuple):
    """The vectors of a column by row number, in single precision, as they are stored. A row without a vector has zeros."""

    rows: npt.NDArray[np.float32]
    reciprocals: npt.NDArray[np.float32]
    """One over the length of each vector; 0 where that is not a number of single precision."""
    doubtful: Numbers64
    """The vectors with such a length."""

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.reciprocals.nbytes + self.doubtful.nbytes


WordParts: TypeAlias = "tuple[tuple[Numbers64, Words], ...]"
"""Row numbers and the words of their texts."""


class ColumnCache:
    """The columns of one graph that are in memory. Safe to use from many threads."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes: Final = limit_bytes
        self._columns: Final = Lru[ColumnRef, pa.Array](limit_bytes, weigh=lambda column: int(column.nbytes))
        self._spent: Final = Lru[ColumnRef, int](TRACKED_COLUMNS)
        self._words: Final = Lru[ColumnRef, WordParts](limit_bytes // SHARE, weigh=lambda parts: sum(part.nbytes for _, part in parts))
        self._vectors: Final = Lru[ColumnRef, VectorMatrix](limit_bytes // SHARE, weigh=lambda matrix: matrix.nbytes)
        self._mutex = threading.Lock()

    def get(self, table: Table, numbers: Numbering, name: str, *, rows: int) -> pa.Array | None:
        """Return the whole column if it is in memory, or if reading `rows` rows makes it worth loading; otherwise None."""
        key = ColumnRef(table.ref, name)
        if (held := self._columns.get(key)) is not None:
            return held
        if not self._worth_it(key, rows, numbers.size, table.schema.field(name).type):
            return None
        column = whole_column(table, numbers, numbers.fragments, name)
        if column.nbytes * SHARE > self._limit_bytes:
            self._spent.put(key, -(1 << 62))  # wider than its type suggests: never load it whole again
            return column
        return self._columns.put(key, column)

    def held(self, table: Table, name: str) -> pa.Array | None:
        """Return the whole column if it is in memory, otherwise None."""
        return self._columns.get(ColumnRef(table.ref, name))

    def spend_words(self, table: Table, name: str, *, rows: int, calls: int, size: int) -> bool:
        """Count searches: calls of an index, and texts read. Return whether they have cost as much as finding the words of all texts."""
        key = ColumnRef(table.ref, f"{name} words")
        with self._mutex:
            spent = (self._spent.get(key) or 0) + calls * CALL_ROWS + rows * ROW_ROWS
            self._spent.put(key, spent)
        return spent >= size * WORDS_ROWS

    def words(self, table: Table, name: str) -> WordParts | None:
        """Return the words of a whole column of texts if they are in memory."""
        return self._words.get(ColumnRef(table.ref, name))

    def keep_words(self, table: Table, name: str, parts: WordParts) -> None:
        """Keep the words of a whole column, unless they take too much memory."""
        if sum(part.nbytes for _, part in parts) * SHARE <= self._limit_bytes:
            self._words.put(ColumnRef(table.ref, name), parts)

    def vectors(self, table: Table, numbers: Numbering, name: str, *, rows: int) -> VectorMatrix | None:
        """Return all vectors of a column if they are in memory, or if reading `rows` of them makes it worth loading; otherwise None."""
        key = ColumnRef(table.ref, name)
        if (held := self._vectors.get(key)) is not None:
            return held
        type_ = table.schema.field(name).type
        if not self._is_due(key, rows, numbers.size, 4 * type_.list_size + 4):
            return None
        return self._vectors.put(key, _matrix(whole_column(table, numbers, numbers.fragments, name)))

    def _worth_it(self, key: ColumnRef, rows: int, size: int, type_: pa.DataType) -> bool:
        return (width := _width(type_)) is not None and self._is_due(key, rows, size, width)

    def _is_due(self, key: ColumnRef, rows: int, size: int, width: int) -> bool:
        if size * width * SHARE > self._limit_bytes:
            return False
        with self._mutex:
            spent = (self._spent.get(key) or 0) + min(CALL_ROWS + rows * ROW_ROWS, max(size, 1))
            self._spent.put(key, spent)
        return spent >= size


def whole_column(table: Table, numbers: Numbering, parts: tuple[Fragment, ...], name: str) -> pa.Array:
    """Read a column of some fragments, by row number among them; null where a row is deleted."""
    local = numbers if parts == numbers.fragments else Numbering(parts)
    chunks, slots, count = list[pa.Array](), None, 0
    for batch in scan_fragments(table, parts, [name]) if parts else ():
        at = local.from_addresses(batch.column(ADDRESS).to_numpy())
        here = np.arange(count, count + len(at))
        if slots is None and not np.array_equal(at, here):  # until now every row was at its number
            slots = np.full(local.size, -1, np.int64)
            slots[:count] = np.arange(count)
        if slots is not None:
            slots[at] = here
        chunks.append(batch.column(0))
        count += len(at)
    type_ = table.schema.field(name).type
    if not chunks:
        return pa.nulls(local.size, type_)
    values = whole(joined(chunks, type_))
    if slots is None:
        return values if count == local.size else pa.concat_arrays([values, pa.nulls(local.size - count, values.type)])
    return values.take(pa.array(slots, mask=slots < 0))


def _matrix(vectors: pa.Array) -> VectorMatrix:
    dimension = vectors.type.list_size
    filled = vectors.fill_null([0.0] * dimension) if vectors.null_count else vectors
    rows = filled.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    squares = np.einsum("ij,ij->i", rows, rows)
    safe = (squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE)
    reciprocals = np.zeros(len(rows), np.float32)
    np.divide(1, np.sqrt(squares), out=reciprocals, where=safe)
    return VectorMatrix(rows, reciprocals, np.flatnonzero(~safe & rows.any(axis=1)))


def _width(type_: pa.DataType) -> int | None:
    """Return the approximate bytes per row, or None for types that are not cached here: lists, vectors, blobs."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return TEXT_BYTES
    return max(1, type_.bit_width // 8) if pa.types.is_primitive(type_) else None
