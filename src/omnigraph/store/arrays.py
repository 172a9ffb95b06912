"""Arrow columns in any chunks -> one chunked column, or one array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Places: TypeAlias = npt.NDArray[np.int64]
"""Positions in a column, from 0."""
Mask: TypeAlias = npt.NDArray[np.bool_]

NARROW_BYTES: Final = (1 << 31) - 1
"""The most bytes that 32-bit offsets of a string or binary array can address."""


def chunks_of(column: Column) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def joined(columns: Iterable[Column], type_: pa.DataType) -> pa.ChunkedArray:
    """Concatenates columns of one type without a copy. The result is chunked, because a text column can exceed the limit of one array."""
    return pa.chunked_array([chunk for column in columns for chunk in chunks_of(column)], type_)


def whole(column: Column) -> pa.Array:
    """The column as one array. A column of one chunk is not copied; `combine_chunks` would copy it.

    Text and binary columns past two gigabytes get 64-bit offsets.
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
