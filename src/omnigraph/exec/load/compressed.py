"""Compressed pieces -> the bytes in them, in bounded pieces; data that unfolds into far more than it is, is refused.

A few kilobytes of gzip or zstd may stand for gigabytes. Whoever sent them need not have meant it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from omnigraph.errors import InvalidInput, Kind, ResourceLimitExceeded

FREE_BYTES: Final = 64 << 20
"""So much may come out of any input, however small."""
EXPANSION_LIMIT: Final = 200
"""Past that, so many bytes may come out of each byte that went in. Text of records seldom passes 50; gzip can reach 1,032."""
EXPANSION_ENVIRONMENT: Final = "OMNIGRAPH_LOAD_EXPANSION"


def decompressed(name: str, pieces: Iterator[bytes], codec: str, *, piece_bytes: int) -> Iterator[bytes]:
    """The bytes in `pieces`. Raises `InvalidInput` for damaged data, `ResourceLimitExceeded` once too much came out."""
    most = _expansion()
    source = Joined(pieces)
    out = 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, "r"), codec) as stream:
            while piece := stream.read(piece_bytes):
                out += len(piece)
                if out > (limit := max(FREE_BYTES, most * source.taken)):
                    raise _unfolds(name, codec, source.taken, limit, out)
                yield piece
    except (OSError, pa.ArrowException) as error:
        message = f"{name}: the {codec} data is damaged or cut short ({error}); nothing was written"
        raise InvalidInput(Kind.VALIDATION, message, source=name) from error


class Joined(io.RawIOBase):
    """Pieces of any size as the file that a reader of bytes takes, and how many of them were taken."""

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


def _unfolds(name: str, codec: str, taken: int, limit: int, actual: int) -> ResourceLimitExceeded:
    message = (
        f"{name}: {taken} bytes of {codec} hold {actual} bytes and more; at most {limit} are read from them, so nothing was written. "
        f"If that is meant, set {EXPANSION_ENVIRONMENT} to the bytes that may come out of each byte that goes in"
    )
    return ResourceLimitExceeded(Kind.RESOURCE_LIMIT, message, resource="decompressed_bytes", limit=limit, actual=actual, source=name)
