"""A file on a disk -> its CRC-32, kept until the commit that names the file records it. A JSON object -> the same with its own checksum.

Lance's files have no checksums, and most changed bytes in them decode to a wrong value. Every new file is opened to be checked and flushed
before a commit names it (`durable.py`). Reading it there takes a quarter of a millisecond a megabyte, mostly from the page cache. An object
store has checksums of its own; there nothing is read back.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from omnigraph.store.foreign import wrap_os_error

Checksums = Mapping[str, Mapping[str, int]]
"""The directory of a native branch of a table -> the path of a file below it -> the CRC-32 of the file."""

CHUNK_BYTES: Final = 1024 * 1024
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


class NewChecksums:
    """The checksums of files that were checked and flushed, and that no published commit records."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, int]] = {}
        self._versions: dict[str, int] = {}

    def put(self, path: str, checksum: int) -> None:
        """Keeps the checksum of a data, deletion, index, blob or version file. Ignores other files."""
        if _VERSION.fullmatch(path):
            self._versions[path] = checksum
        elif (parts := _RECORDED.fullmatch(path)) is not None:
            self._held.setdefault(parts[1], {})[parts[2]] = checksum

    def of(self, homes: Iterable[str]) -> Checksums:
        """The checksums of the files below these directories of native branches."""
        return {home: dict(held) for home in homes if (held := self._held.get(home))}

    def take_versions(self, paths: Iterable[str]) -> dict[str, int]:
        """The checksums of these version files. Forgets them, and those of versions before them, which were never published."""
        wanted = list(paths)
        known = {path: self._versions[path] for path in wanted if path in self._versions}
        homes = {path.rpartition("/")[0] for path in wanted}
        for path in [path for path in self._versions if path.rpartition("/")[0] in homes]:
            del self._versions[path]
        return known

    def forget(self, recorded: Checksums) -> None:
        """Drops checksums that a commit has recorded."""
        for home, files in recorded.items():
            for file in files:
                self._held[home].pop(file, None)
            if not self._held[home]:
                del self._held[home]


def is_recorded(path: str) -> bool:
    """Whether commits record the checksum of this file."""
    return _RECORDED.fullmatch(path) is not None or _VERSION.fullmatch(path) is not None


def checksum(descriptor: int) -> int:
    """The CRC-32 of an open file."""
    found = at = 0
    while part := os.pread(descriptor, CHUNK_BYTES, at):
        found = zlib.crc32(part, found)
        at += len(part)
    return found


def checksum_of(full: str) -> int | None:
    """The CRC-32 of a file on a disk, or None if it is missing."""
    try:
        with open(full, "rb", buffering=0) as file:
            return checksum(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise wrap_os_error(error, doing="read", path=full) from error
