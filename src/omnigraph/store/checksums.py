"""A file on a disk -> its CRC-32, kept until the commit that names the file records it. A JSON object -> the same with its own checksum.

Lance's files have no checksums, and most changed bytes in them decode to a wrong value. Every new file is opened to be checked and flushed
before a commit names it (`durable.py`). Reading it there takes 0.4 ms a megabyte, mostly from the page cache. An object store has checksums
of its own; there nothing is read back. A file of several blocks also has a checksum for each block, so that a read that needs a part of it
compares that part (`checked.py`).
"""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from omnigraph.store.foreign import wrap_os_error

Checksums = Mapping[str, Mapping[str, int]]
"""The directory of a native branch of a table -> the path of a file below it -> the CRC-32 of the file."""

Blocks = Mapping[str, Mapping[str, str]]
"""The same with the checksums of the blocks of a file, four bytes each, in base64. Only for files of several blocks."""

BLOCK_BYTES: Final = 1024 * 1024
"""The bytes of a file that have a checksum of their own. Part of the storage format. A file of a gigabyte takes 5.5 kB of its commit."""
_RECORDED: Final = re.compile(r"((?!__).+?)/((?:data|_deletions|_indices)/.+)")
"""Files of `__manifest` have no recorded checksum: each of its rows has one of its own."""
_SEAL: Final = b',"crc":'
_VERSION: Final = re.compile(r"(?!__).+/_versions/\d+\.manifest")


def sealed(body: bytes, *, of: str = "") -> bytes:
    """A JSON object with one more member, `crc`, at its end: the checksum of the object without it, and of the text `of`."""
    return b"%s%s%d}" % (body[:-1], _SEAL, zlib.crc32(body, zlib.crc32(of.encode())))


def is_intact(body: bytes, *, of: str = "") -> bool:
    """Whether a JSON object matches its `crc`. True without one: the first builds wrote none."""
    rest, found, _ = body.rpartition(_SEAL)
    return not found or sealed(rest + b"}", of=of) == body


class FileSum(NamedTuple):
    """The checksum of a file, and of each of its blocks if it has several."""

    whole: int
    blocks: tuple[int, ...] = ()


class NewChecksums:
    """The checksums of files that were checked and flushed, and that no published commit records."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, FileSum]] = {}
        self._versions: dict[str, int] = {}

    def put(self, path: str, found: FileSum) -> None:
        """Keeps the checksum of a data, deletion, index, blob or version file. Ignores other files."""
        if _VERSION.fullmatch(path):
            self._versions[path] = found.whole
        elif (parts := _RECORDED.fullmatch(path)) is not None:
            self._held.setdefault(parts[1], {})[parts[2]] = found

    def of(self, homes: Iterable[str]) -> dict[str, FileSum]:
        """The checksums of the files below these directories of native branches, by path."""
        return {f"{home}/{file}": found for home in homes for file, found in self._held.get(home, {}).items()}

    def take_versions(self, paths: Iterable[str]) -> dict[str, int]:
        """The checksums of these version files. Forgets them, and those of versions before them, which were never published."""
        wanted = list(paths)
        known = {path: self._versions[path] for path in wanted if path in self._versions}
        homes = {path.rpartition("/")[0] for path in wanted}
        for path in [path for path in self._versions if path.rpartition("/")[0] in homes]:
            del self._versions[path]
        return known

    def forget(self, recorded: Iterable[str]) -> None:
        """Drops the checksums of files whose commit has recorded them."""
        for path in recorded:
            home, file = _parts(path)
            if (held := self._held.get(home)) is not None:
                held.pop(file, None)
                if not held:
                    del self._held[home]


# -- as commits record them


def grouped(sums: Mapping[str, FileSum]) -> tuple[Checksums, Blocks]:
    """The checksums as a commit records them."""
    whole: dict[str, dict[str, int]] = {}
    blocks: dict[str, dict[str, str]] = {}
    for path, found in sums.items():
        home, file = _parts(path)
        whole.setdefault(home, {})[file] = found.whole
        if found.blocks:
            packed = b"".join(block.to_bytes(4, "little") for block in found.blocks)
            blocks.setdefault(home, {})[file] = base64.b64encode(packed).decode()
    return whole, blocks


def spread(whole: Checksums, blocks: Blocks) -> Iterator[tuple[str, FileSum]]:
    """Each path and its checksum, from what a commit recorded."""
    for home, files in whole.items():
        parts = blocks.get(home, {})
        for file, value in files.items():
            yield f"{home}/{file}", FileSum(value, _unpacked(parts[file]) if file in parts else ())


def _unpacked(text: str) -> tuple[int, ...]:
    packed = base64.b64decode(text)
    return tuple(int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4))


def _parts(path: str) -> tuple[str, str]:
    """The directory of a native branch, and the path of a file below it."""
    if (found := _RECORDED.fullmatch(path)) is not None:
        return found[1], found[2]
    home, _, file = path.rpartition("/_versions/")
    return home, f"_versions/{file}"


# -- files


def is_recorded(path: str) -> bool:
    """Whether commits record the checksum of this file."""
    return _RECORDED.fullmatch(path) is not None or _VERSION.fullmatch(path) is not None


def checksum(descriptor: int) -> FileSum:
    """The CRC-32 of an open file, and of its blocks."""
    blocks: list[int] = []
    last = at = 0
    while part := os.pread(descriptor, BLOCK_BYTES, at):
        blocks.append(zlib.crc32(part))
        last = len(part)
        at += last
    if len(blocks) < 2:
        return FileSum(blocks[0] if blocks else 0)
    found = blocks[0]
    for block in blocks[1:-1]:
        found = _shifted(found, BLOCK_BYTES) ^ block
    return FileSum(_shifted(found, last) ^ blocks[-1], tuple(blocks))


def checksum_of(full: str) -> int | None:
    """The CRC-32 of a file on a disk, or None if it is missing."""
    try:
        with open(full, "rb", buffering=0) as file:
            return checksum(file.fileno()).whole
    except FileNotFoundError:
        return None
    except OSError as error:
        raise wrap_os_error(error, doing="read", path=full) from error


def _shifted(value: int, length: int) -> int:
    """A CRC-32 as if so many zero bytes followed. The CRC-32 of two parts is that of the first, shifted by the length of the second,
    xor that of the second. So the checksum of a file needs no second pass over its blocks.
    """
    for power in range(length.bit_length()):
        if length >> power & 1:
            value = _applied(_zeros(power), value)
    return value


@cache
def _zeros(power: int) -> tuple[int, ...]:
    """What 2 ** power zero bytes make of each bit of a CRC-32. They act on each bit alone."""
    if not power:
        return tuple(zlib.crc32(b"\0", 1 << bit) ^ zlib.crc32(b"\0") for bit in range(32))
    half = _zeros(power - 1)
    return tuple(_applied(half, row) for row in half)


def _applied(matrix: tuple[int, ...], value: int) -> int:
    found = 0
    for row in matrix:
        if value & 1:
            found ^= row
        value >>= 1
    return found
