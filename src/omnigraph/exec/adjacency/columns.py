"""Columns that are asked for again and again -> whole in memory, by row number, so that reading a row costs no storage call.

A column is brought into memory once the reading of single rows has cost as much as reading it whole would have. So nothing is
read that would not have been read anyway, but for at most as much again.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers
from omnigraph.lru import Lru
from omnigraph.store.arrays import joined, whole
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.tables import ADDRESS, Table, TableRef

LIMIT_BYTES: Final = 512 << 20
"""What all columns in memory may take together."""
SHARE: Final = 4
"""One column may take one part in so many of it."""
CALL_ROWS: Final = 5_000
"""A call for some rows takes as long as scanning so many, whatever it asks for."""
ROW_ROWS: Final = 20
"""And each of its rows as long as scanning so many more."""
TEXT_BYTES: Final = 32
KNOWN: Final = 4_096

_NONE: Final = np.empty(0, np.int64)


class ColumnOf(NamedTuple):
    """One column of one table version."""

    table: TableRef
    name: str


class ColumnCache:
    """The columns in memory of one graph. Safe to use from many threads."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes: Final = limit_bytes
        self._columns: Final = Lru[ColumnOf, pa.Array](limit_bytes, weigh=lambda column: int(column.nbytes))
        self._spent: Final = Lru[ColumnOf, int](KNOWN)
        self._mutex = threading.Lock()

    def get(self, table: Table, numbers: Numbers, name: str, *, rows: int) -> pa.Array | None:
        """The whole column, if it is here or has become worth it by this reading of `rows` rows; None: read them yourself."""
        key = ColumnOf(table.ref, name)
        if (held := self._columns.get(key)) is not None:
            return held
        if not self._worth_it(key, rows, numbers.size, table.schema.field(name).type):
            return None
        column = whole_column(table, numbers, numbers.fragments, name)
        if column.nbytes * SHARE > self._limit_bytes:
            self._spent.put(key, -(1 << 62))  # wider than its type suggests: it is never read whole again
            return column
        return self._columns.put(key, column)

    def _worth_it(self, key: ColumnOf, rows: int, size: int, type_: pa.DataType) -> bool:
        width = _width(type_)
        if width is None or size * width * SHARE > self._limit_bytes:
            return False
        with self._mutex:
            spent = (self._spent.get(key) or 0) + min(CALL_ROWS + rows * ROW_ROWS, max(size, 1))
            self._spent.put(key, spent)
        return spent >= size


def whole_column(table: Table, numbers: Numbers, parts: tuple[Fragment, ...], name: str) -> pa.Array:
    """A column of some fragments by row number among these, null where a row is deleted."""
    local = numbers if parts == numbers.fragments else Numbers(parts)
    batches = [*scan_fragments(table, parts, [name])] if parts else []
    if not batches:
        return pa.nulls(local.size, table.schema.field(name).type)
    values = whole(joined((batch.column(0) for batch in batches), table.schema.field(name).type))
    at = np.concatenate([_NONE, *(local.from_addresses(batch.column(ADDRESS).to_numpy()) for batch in batches)])
    slots = np.full(local.size, -1, np.int64)
    slots[at] = np.arange(len(at))
    return values if np.array_equal(slots, np.arange(len(values))) else values.take(pa.array(slots, mask=slots < 0))


def _width(type_: pa.DataType) -> int | None:
    """Bytes a row, about; None for what is not kept: lists, vectors, blobs."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return TEXT_BYTES
    return max(1, type_.bit_width // 8) if pa.types.is_primitive(type_) else None
