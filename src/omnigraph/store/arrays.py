"""Arrow columns in whatever chunks they came -> one column, or one array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import pyarrow as pa

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

NARROW_BYTES: Final = (1 << 31) - 1
"""What the offsets of a plain text or binary array can count."""


def chunks_of(column: Column) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def joined(columns: Iterable[Column], type_: pa.DataType) -> pa.ChunkedArray:
    """Columns of one type, one after the other. Not copied: a text column may be larger than one plain array can hold."""
    return pa.chunked_array([chunk for column in columns for chunk in chunks_of(column)], type_)


def whole(column: Column) -> pa.Array:
    """The column as one array. Copied only if it is in several pieces: joining a single one would copy that, too.

    Texts and bytes past two gigabytes get wider offsets.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.nbytes > NARROW_BYTES and (wide := _wide(column.type)) is not None:
        column = column.cast(wide)
    return column.combine_chunks()


def _wide(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_string(type_):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(type_) else None
