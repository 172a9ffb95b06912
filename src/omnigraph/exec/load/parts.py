"""A file of lines -> parts that many readers can read in parallel. Each line belongs to exactly one part, the one it ends in.

Parts are cut at the block boundaries of a reader of the whole file. So a part is read in the same blocks as the whole file, and its
problems are reported in the same order, with the same messages and line numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, NotFound

CHUNK_BYTES: Final = 16 << 20
"""How much of a file is read at once. The lines that end in one chunk form one block."""
PART_BYTES: Final = 4 * CHUNK_BYTES
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark with which some programs begin a file of UTF-8. At the beginning of a file it is no part of the text."""
_WHOLE: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff", b"PAR1", b"ARROW1")
"""First bytes of files that cannot be read from the middle: compressed files, UTF-16 text, and table files, which are refused."""
_STEP_BYTES: Final = 1 << 16


class FilePart(msgspec.Struct, frozen=True):
    """The lines of a file whose newline is in `[start, end)`. The last part also has an unterminated last line.

    `first_line` is the number of the first line, if known. `name` is the caller's name of the file.
    """

    path: str
    start: int
    end: int
    size: int
    name: str
    first_line: int = 1
    cuttable: bool = True


def parts_of(path: str, *, part_bytes: int = PART_BYTES) -> list[FilePart]:
    """Cut a file into parts of about `part_bytes`. A compressed file is one part, because it can only be read from the beginning."""
    found = existing_file(path)
    if not found.is_file():
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{path}' is not a regular file, so it cannot be read in parallel", path=path)
    place = str(found.absolute())
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        begins = file.read(6)
    if begins.startswith(_WHOLE) or 0 in begins[:2] or not size:
        return [FilePart(place, 0, max(size, 1), size, path, cuttable=False)]
    if part_bytes >= CHUNK_BYTES:
        bounds = [*range(0, size, part_bytes // CHUNK_BYTES * CHUNK_BYTES), size]
    else:
        blocks = range(0, size, CHUNK_BYTES)
        bounds = [*(at for block in blocks for at in range(block, min(block + CHUNK_BYTES, size), part_bytes)), size]
    return [FilePart(place, start, end, size, path) for start, end in pairwise(bounds)]


def blocks_of(part: FilePart) -> list[FilePart]:
    """The blocks of a part as a reader of the whole file would cut them, or the one block that contains the part."""
    if not part.cuttable:
        return [part]
    first = part.start // CHUNK_BYTES * CHUNK_BYTES
    return [
        msgspec.structs.replace(part, start=start, end=min(start + CHUNK_BYTES, part.size)) for start in range(first, part.end, CHUNK_BYTES)
    ]


def pieces_of(part: FilePart) -> list[FilePart]:
    """Cut a part into its blocks. A part no longer than a block is not cut."""
    return blocks_of(part) if part.end - part.start > CHUNK_BYTES else [part]


def read_part(part: FilePart) -> Iterator[bytes]:
    """The text of a part, in chunks with the same boundaries as those of the whole file."""
    with open_file(part.path, name=part.name) as file:
        begin = _after_newline(file, part.start, floor=0)
        stop = part.end if part.end >= part.size else _after_newline(file, part.end, floor=part.start)
        at = begin if stop > part.start else stop  # else the part is inside one line
        while at < stop:
            upto = min((at // CHUNK_BYTES + 1) * CHUNK_BYTES, stop)
            file.seek(at)
            if not (text := file.read(upto - at)):  # the file was truncated meanwhile
                return
            yield text if at else text.removeprefix(BOM)
            at += len(text)


def count_lines(part: FilePart) -> int:
    """The number of newlines in a part. An unterminated last line is not counted: no line follows it."""
    with open_file(part.path, name=part.name) as file:
        file.seek(part.start)
        lines, left = 0, part.end - part.start
        while left > 0 and (text := file.read(min(left, CHUNK_BYTES))):
            lines += text.count(b"\n")
            left -= len(text)
        return lines


def existing_file(path: str, *, name: str | None = None) -> Path:
    """The path of an existing file. Raises `InvalidInput` for a directory, `NotFound` for a missing file."""
    found, named = Path(path), name if name is not None else path
    try:
        is_directory, is_there = found.is_dir() and path != "", found.exists() and path != ""
    except OSError as error:  # such as a name that is too long
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read '{named}': {error.strerror}", path=named) from error
    if is_directory:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{named}' is a directory; give the files to load one by one", path=named)
    if not is_there:
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"there is no file '{named}'", path=named)
    return found


def open_file(path: str, *, name: str | None = None) -> BinaryIO:
    """Open a file to read. Raises `NotFound` or `InvalidInput` with the reason."""
    named = name if name is not None else path
    try:
        return open(path, "rb")  # the caller closes it
    except FileNotFoundError as error:
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"there is no file '{named}'", path=named) from error
    except OSError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read '{named}': {error.strerror}", path=named) from error


def _after_newline(file: BinaryIO, before: int, *, floor: int) -> int:
    """The position after the last newline in `[floor, before)`, or `floor` if there is none."""
    at = before
    while at > floor:
        begin = max(at - _STEP_BYTES, floor)
        file.seek(begin)
        if (found := file.read(at - begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        at = begin
    return floor
