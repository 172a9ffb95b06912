"""Arrow columns in whatever chunks they came -> one array."""

from __future__ import annotations

import pyarrow as pa


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array. Copied only if it is in several pieces: joining a single one would copy that, too."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
