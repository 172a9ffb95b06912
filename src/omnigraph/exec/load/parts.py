"""A file of lines -> parts of it that many readers take side by side: each line belongs to exactly one part, the one it begins in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

PART_BYTES: Final = 64 << 20
CHUNK_BYTES: Final = 16 << 20
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


class Part(msgspec.Struct, frozen=True):
    """The lines of a file that begin at `start` or after, and before `end`. `first_line` is the number of the first of them, if that is
    known: who counts the lines of all parts learns it.
    """

    path: str
    start: int
    end: int
    first_line: int = 1


def parts_of(path: str, *, part_bytes: int = PART_BYTES) -> list[Part]:
    """A file in parts of about that size. Compressed text can only be read from its beginning: it is one part."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        compressed = file.read(4).startswith(_COMPRESSED)
    if compressed or not size:
        return [Part(path, 0, max(size, 1))]
    return [Part(path, start, min(start + part_bytes, size)) for start in range(0, size, part_bytes)]


def read_part(part: Part) -> Iterator[bytes]:
    """The text of a part, in chunks."""
    with open(part.path, "rb") as file:
        begin = 0 if part.start == 0 else _after_newline(file, part.start - 1)
        if begin >= part.end:  # one line goes on through all of it
            return
        stop = _after_newline(file, part.end - 1)
        file.seek(begin)
        left = stop - begin
        while left > 0 and (chunk := file.read(min(left, CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


def _after_newline(file: BinaryIO, position: int) -> int:
    """Where the first line after this position begins: past the first newline at it or after it."""
    file.seek(position)
    at = position
    while chunk := file.read(1 << 16):
        if (found := chunk.find(b"\n")) >= 0:
            return at + found + 1
        at += len(chunk)
    return at
