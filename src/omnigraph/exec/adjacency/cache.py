"""Named derived arrays <-> files in a cache directory on this machine. Files are written atomically and mapped into memory when read.

A file contains a header (facts from the caller, the description of the arrays, their checksum) and the arrays. The header has a
checksum too. Both are compared whenever a file is read; a file that does not match is as good as missing, and is written again.
No failure is reported to the caller: a directory that cannot be read or written behaves like an empty cache.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.faults import Fault, reach
from omnigraph.ids import GraphId, new_hex16

ENVIRONMENT: Final = "OMNIGRAPH_CACHE"
LIMIT_BYTES: Final = 4 << 30
"""The size limit of the directories of all graphs together. The oldest files are removed first."""
LEFTOVER_SECONDS: Final = 3600.0
"""A temporary file older than this was left by a process that died."""

_MAGIC: Final = b"omnigraph cache 3\n"
"""The format, with its number. A file of another format is ignored, and replaced by the next writer."""
_LEAD: Final = len(_MAGIC) + 8 + 4
"""The format, the size of the header and its checksum."""
_ALIGN: Final = 64
_SUFFIX: Final = ".arrays"
_TEMPORARY: Final = ".tmp"

Array: TypeAlias = npt.NDArray[Any]


class _Header(msgspec.Struct, frozen=True):
    facts: msgspec.Raw
    arrays: list[tuple[str, str, int]]
    """Name, type and length of each array, in file order."""
    checksum: int


class StoredArrays(msgspec.Struct, frozen=True):
    """The contents of a file. The arrays are read-only views of the mapped file.

    Writers replace files and never modify them, but other programs may. Accessing a page behind the end of a truncated file kills the
    process. So the file stays open, and callers check `is_unchanged` before they use the arrays again.
    """

    facts: msgspec.Raw
    arrays: Mapping[str, Array]
    file: Any
    status: tuple[int, int]

    def is_unchanged(self) -> bool:
        return _status(self.file) == self.status


def cache_directory(graph_id: GraphId) -> Path:
    """Return the cache directory of a graph: `$OMNIGRAPH_CACHE`, or the user's cache directory, plus the graph's id."""
    if given := os.environ.get(ENVIRONMENT):
        return Path(given) / graph_id
    if sys.platform == "darwin":
        return Path("~/Library/Caches/omnigraph").expanduser() / graph_id
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "omnigraph" / graph_id


class CacheDirectory:
    """The cache files of one graph."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path: Final = path
        self._limit_bytes: Final = limit_bytes

    def names(self, prefix: str) -> list[str]:
        """Return the names of the files with a prefix, the newest first."""
        found = [entry for entry in _files(self._path) if entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)]
        return [entry.name.removesuffix(_SUFFIX) for entry in sorted(found, key=_written, reverse=True)]

    def has(self, name: str) -> bool:
        return (self._path / (name + _SUFFIX)).exists()

    def facts(self, name: str) -> msgspec.Raw | None:
        """Return the facts of a file, or None if it is missing or its header is damaged. Reads only the header."""
        try:
            with (self._path / (name + _SUFFIX)).open("rb") as file:
                found = _header(file.read(_LEAD), lambda size: file.read(min(size, _status(file)[0])))
                return None if found is None else found.facts
        except OSError:
            return None

    def read(self, name: str) -> StoredArrays | None:
        """Return the arrays of a file, or None if it is missing, incomplete or damaged. Reads all of it once, to compare its checksum."""
        try:
            with ExitStack() as until_mapped:
                file = until_mapped.enter_context((self._path / (name + _SUFFIX)).open("rb"))
                status = _status(file)
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                stored = _parse(view, status, file)
                if stored is not None:
                    until_mapped.pop_all()  # the file closes when the last array is released
                return stored
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None

    def write(self, name: str, facts: object, arrays: Mapping[str, Array]) -> None:
        """Store arrays under a name, atomically: a concurrent reader sees either the old or the new file."""
        temporary = self._path / f"{name}-{new_hex16()}{_TEMPORARY}"
        with suppress(OSError):
            self._path.mkdir(parents=True, exist_ok=True)
            try:
                _write(temporary, facts, arrays)
                reach(Fault.CACHE_BEFORE_RENAME)
                temporary.replace(self._path / (name + _SUFFIX))
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            self._tidy(keep=name + _SUFFIX)

    def _tidy(self, *, keep: str) -> None:
        """Remove temporary files of dead writers, and the oldest files of all graphs while the size limit is exceeded."""
        found = [entry for directory in _directories(self._path.parent) for entry in _files(directory)]
        total, now = 0, time.time()
        for entry in sorted(found, key=_written, reverse=True):
            state = entry.stat()
            total += state.st_size
            dead = entry.name.endswith(_TEMPORARY) and now - state.st_mtime > LEFTOVER_SECONDS
            if dead or (total > self._limit_bytes and entry.name != keep):
                with suppress(OSError):
                    os.unlink(entry.path)


def _write(path: Path, facts: object, arrays: Mapping[str, Array]) -> None:
    described = [(name, array.dtype.str, len(array)) for name, array in arrays.items()]
    header = msgspec.json.encode(_Header(msgspec.Raw(msgspec.json.encode(facts)), described, _checksum(arrays.values())))
    lead = _MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(4, "little") + header
    with path.open("xb") as file:
        for part in (lead, *map(_bytes, arrays.values())):
            file.write(part)
            file.write(bytes(-file.tell() % _ALIGN))
        file.flush()
        os.fsync(file.fileno())  # otherwise the name could survive a power cut without its contents


def _header(lead: bytes, following: Callable[[int], bytes]) -> _Header | None:
    """The header of a file, given its first bytes and what reads as many as it says after them. None if it is damaged."""
    if len(lead) < _LEAD or not lead.startswith(_MAGIC):
        return None
    body = following(_header_size(lead))
    return msgspec.json.decode(body, type=_Header) if zlib.crc32(body) == int.from_bytes(lead[-4:], "little") else None


def _header_size(lead: bytes) -> int:
    return int.from_bytes(lead[len(_MAGIC) : -4], "little")


def _parse(view: mmap.mmap, status: tuple[int, int], file: Any) -> StoredArrays | None:
    lead = view[:_LEAD]
    header = _header(lead, lambda size: view[_LEAD : _LEAD + size])
    if header is None:
        return None
    arrays, at = {}, _LEAD + _header_size(lead)
    for name, dtype, length in header.arrays:
        at += -at % _ALIGN
        if at + length * np.dtype(dtype).itemsize > len(view):
            return None
        arrays[name] = np.frombuffer(view, dtype, length, at)
        at += arrays[name].nbytes
    if at + -at % _ALIGN != len(view) or _checksum(arrays.values()) != header.checksum:
        return None
    return StoredArrays(header.facts, arrays, file, status)


def _status(file: Any) -> tuple[int, int]:
    """What changes if a file is changed in place: its size and the time of its last change."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _checksum(arrays: Iterable[Array]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(_bytes(array), total)
    return total


def _bytes(array: Array) -> Any:
    return np.ascontiguousarray(array).data


def _directories(path: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(path) as entries:
        yield from (Path(entry.path) for entry in entries if entry.is_dir())


def _files(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.name.endswith((_SUFFIX, _TEMPORARY))]
    except OSError:
        return []


def _written(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # another process removed it
        return 0.0
