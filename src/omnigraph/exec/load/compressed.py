"""Compressed pieces -> decompressed pieces of bounded size. Data that expands too much is refused.

A few kilobytes of gzip or zstd may expand to gigabytes, by accident or by intent.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from omnigraph.errors import InvalidInput, Kind, ResourceLimitExceeded

FREE_BYTES: Final = 64 << 20
"""Any input may expand to this many bytes, however small it is."""
EXPANSION_LIMIT: Final = 200
"""Beyond that, the maximum ratio of decompressed to compressed bytes. Records as text seldom exceed 50; gzip can reach 1,032."""
EXPANSION_ENVIRONMENT: Final = "OMNIGRAPH_LOAD_EXPANSION"


def decompressed(name: str, pieces: Iterator[bytes], codec: str, *, piece_bytes: int) -> Iterator[bytes]:
    """Decompress `pieces`. Raises `InvalidInput` for damaged data and `ResourceLimitExceeded` if it expands too much."""
    most = _expansion()
    source = PieceFile(pieces)
    out = 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, "r"), codec) as stream:
            while piece := stream.read(piece_bytes):
                out += len(piece)
                if out > (limit := max(FREE_BYTES, most * source.taken)):
                    raise _expansion_error(name, codec, source.taken, limit, out)
                yield piece
    except (OSError, pa.ArrowException) as error:
        message = f"{name}: the {codec} data is damaged or truncated ({error}); nothing was written"
        raise InvalidInput(Kind.VALIDATION, message, source=name) from error


class PieceFile(io.RawIOBase):
    """A readable file over pieces of any size. `taken` counts the bytes read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.taken = 0
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io hands in a buffer of bytes
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        self.taken += size
        return size


def _expansion() -> int:
    written = os.environ.get(EXPANSION_ENVIRONMENT)
    if written is None:
        return EXPANSION_LIMIT
    if not (written.isascii() and written.isdigit() and int(written)):
        message = f"{EXPANSION_ENVIRONMENT} is {written!r}; it must be a whole number of at least 1"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, value=written)
    return int(written)


def _expansion_error(name: str, codec: str, taken: int, limit: int, actual: int) -> ResourceLimitExceeded:
    message = (
        f"{name}: {taken} bytes of {codec} expand to at least {actual} bytes; the limit is {limit}. Nothing was written. "
        f"If the data is trusted, set {EXPANSION_ENVIRONMENT} to the allowed ratio of decompressed to compressed bytes"
    )
    return ResourceLimitExceeded(Kind.RESOURCE_LIMIT, message, resource="decompressed_bytes", limit=limit, actual=actual, source=name)
