"""A file of lines -> parts of it that many readers take side by side: each line belongs to exactly one part, the one it ends in.

Parts are cut where a reader of the whole file cuts its blocks, so that a part is read in the very blocks in which the whole file would
be: what is wrong with it is found in the same order, and told in the same words and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, NotFound

CHUNK_BYTES: Final = 16 << 20
"""How much of a file is read at once: the lines that end in one chunk are one block."""
PART_BYTES: Final = 4 * CHUNK_BYTES
_WHOLE: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff", b"PAR1", b"ARROW1")
"""How files begin that say nothing from the middle: compressed, in UTF-16, or tables that are refused at once."""
_STEP_BYTES: Final = 1 << 16


class Part(msgspec.Struct, frozen=True):
    """The lines of a file whose newlines are at `start` or after, and before `end`; the last part has an unfinished last line too.

    `first_line` is the number of the first of them, if that is known; `name` is what the caller calls the file.
    """

    path: str
    start: int
    end: int
    size: int
    name: str
    first_line: int = 1
    cuttable: bool = True


def parts_of(path: str, *, part_bytes: int = PART_BYTES) -> list[Part]:
    """A file in parts of about that size. Compressed text can only be read from its beginning: it is one part."""
    found = existing_file(path)
    if not found.is_file():
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{path}' is no regular file: many readers cannot share it", path=path)
    place = str(found.absolute())
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        begins = file.read(6)
    if begins.startswith(_WHOLE) or 0 in begins[:2] or not size:
        return [Part(place, 0, max(size, 1), size, path, cuttable=False)]
    if part_bytes >= CHUNK_BYTES:
        bounds = [*range(0, size, part_bytes // CHUNK_BYTES * CHUNK_BYTES), size]
    else:
        blocks = range(0, size, CHUNK_BYTES)
        bounds = [*(at for block in blocks for at in range(block, min(block + CHUNK_BYTES, size), part_bytes)), size]
    return [Part(place, start, end, size, path) for start, end in pairwise(bounds)]


def blocks_of(part: Part) -> list[Part]:
    """The blocks that a reader of the whole file would find in a part, or the one block that the part is inside of."""
    if not part.cuttable:
        return [part]
    first = part.start // CHUNK_BYTES * CHUNK_BYTES
    return [
        msgspec.structs.replace(part, start=start, end=min(start + CHUNK_BYTES, part.size)) for start in range(first, part.end, CHUNK_BYTES)
    ]


def pieces_of(part: Part) -> list[Part]:
    """A part cut into its blocks; one that is no longer than a block is left whole."""
    return blocks_of(part) if part.end - part.start > CHUNK_BYTES else [part]


def read_part(part: Part) -> Iterator[bytes]:
    """The text of a part, in chunks that are cut where those of the whole file are."""
    with open_file(part.path, name=part.name) as file:
        begin = _after_newline(file, part.start, floor=0)
        stop = part.end if part.end >= part.size else _after_newline(file, part.end, floor=part.start)
        at = begin if stop > part.start else stop  # else one line goes on through all of it
        while at < stop:
            upto = min((at // CHUNK_BYTES + 1) * CHUNK_BYTES, stop)
            file.seek(at)
            if not (text := file.read(upto - at)):  # the file is shorter than it was
                return
            yield text
            at += len(text)


def count_lines(part: Part) -> int:
    """How many lines end in a part, an unfinished last one aside: nothing comes after it."""
    with open_file(part.path, name=part.name) as file:
        file.seek(part.start)
        lines, left = 0, part.end - part.start
        while left > 0 and (text := file.read(min(left, CHUNK_BYTES))):
            lines += text.count(b"\n")
            left -= len(text)
        return lines


def existing_file(path: str, *, name: str | None = None) -> Path:
    """The path of a file that is there, or a refusal that says what is."""
    found, named = Path(path), name if name is not None else path
    if found.is_dir():
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{named}' is a folder; name the files to load one by one", path=named)
    if not found.exists():
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"there is no file '{named}'", path=named)
    return found


def open_file(path: str, *, name: str | None = None) -> BinaryIO:
    """A file to read, or a refusal that says why it cannot be read."""
    named = name if name is not None else path
    try:
        return open(path, "rb")  # whoever asked closes it
    except FileNotFoundError as error:
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"there is no file '{named}'", path=named) from error
    except OSError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read '{named}': {error.strerror}", path=named) from error


def _after_newline(file: BinaryIO, before: int, *, floor: int) -> int:
    """The position after the last newline before a position, or `floor` if there is none from there on."""
    at = before
    while at > floor:
        begin = max(at - _STEP_BYTES, floor)
        file.seek(begin)
        if (found := file.read(at - begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        at = begin
    return floor
