"""A folder of derived arrays on this machine: named, written whole or not at all, and mapped into memory when read.

A file holds a header (its own checksum, what the arrays are, facts of the caller's) and the arrays. Its modification time
is the one its writer gave it; a file that has another was touched since, and counts only if its checksum still holds.
Nothing here is an error to the caller: a folder that cannot be written or read is a cache that remembers nothing.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
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
"""How much the folders of all graphs may hold; the files written first go first."""
LEFTOVER_SECONDS: Final = 3600.0
"""A file under way that is older than this belonged to somebody who died."""

_MAGIC: Final = b"omnigraph cache 1\n"
_ALIGN: Final = 64
_SUFFIX: Final = ".arrays"
_UNDER_WAY: Final = ".tmp"

Array: TypeAlias = npt.NDArray[Any]


class _Header(msgspec.Struct, frozen=True):
    facts: msgspec.Raw
    arrays: list[tuple[str, str, int]]
    """Name, type and length, in the order in which they stand."""
    checksum: int
    written_ns: int


class Stored(msgspec.Struct, frozen=True):
    """What a file holds. The arrays are views of the file and cannot be written to.

    We replace files and never change one, but others may: a page behind the end of a file that was cut short kills who touches it. So
    the file stays open, and whoever uses the arrays again asks first.
    """

    facts: msgspec.Raw
    arrays: Mapping[str, Array]
    file: Any
    size_bytes: int
    written_ns: int

    def is_as_read(self) -> bool:
        status = os.fstat(self.file.fileno())
        return (status.st_size, status.st_mtime_ns) == (self.size_bytes, self.written_ns)


def cache_folder(graph_id: GraphId) -> Path:
    """Where derived files of a graph live: `$OMNIGRAPH_CACHE`, or the user's cache directory, under the graph's id."""
    if given := os.environ.get(ENVIRONMENT):
        return Path(given) / graph_id
    if sys.platform == "darwin":
        return Path("~/Library/Caches/omnigraph").expanduser() / graph_id
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "omnigraph" / graph_id


class Folder:
    """The files of one graph."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path: Final = path
        self._limit_bytes: Final = limit_bytes

    def names(self, prefix: str) -> list[str]:
        """The files whose names begin so, the newest first."""
        found = [entry for entry in _files(self._path) if entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)]
        return [entry.name.removesuffix(_SUFFIX) for entry in sorted(found, key=_written, reverse=True)]

    def has(self, name: str) -> bool:
        return (self._path / (name + _SUFFIX)).exists()

    def read(self, name: str) -> Stored | None:
        """The arrays of a file, or None when it is not there or not whole."""
        try:
            with ExitStack() as until_mapped:
                file = until_mapped.enter_context((self._path / (name + _SUFFIX)).open("rb"))
                written_ns = os.fstat(file.fileno()).st_mtime_ns
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                stored = _opened(view, written_ns, file)
                if stored is not None:
                    until_mapped.pop_all()  # it closes when nobody has the arrays any more
                return stored
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None

    def write(self, name: str, facts: object, arrays: Mapping[str, Array]) -> None:
        """Store arrays under a name. Whoever reads it meanwhile sees the file before or after, never half of it."""
        under_way = self._path / f"{name}-{new_hex16()}{_UNDER_WAY}"
        with suppress(OSError):
            self._path.mkdir(parents=True, exist_ok=True)
            try:
                _write(under_way, facts, arrays)
                reach(Fault.CACHE_BEFORE_RENAME)
                under_way.replace(self._path / (name + _SUFFIX))
            except OSError:
                under_way.unlink(missing_ok=True)
                raise
            self._tidy(keep=name + _SUFFIX)

    def _tidy(self, *, keep: str) -> None:
        """Remove what dead writers left, and the oldest files of all graphs while there is too much."""
        found = [entry for folder in _folders(self._path.parent) for entry in _files(folder)]
        total, now = 0, time.time()
        for entry in sorted(found, key=_written, reverse=True):
            state = entry.stat()
            total += state.st_size
            dead = entry.name.endswith(_UNDER_WAY) and now - state.st_mtime > LEFTOVER_SECONDS
            if dead or (total > self._limit_bytes and entry.name != keep):
                with suppress(OSError):
                    os.unlink(entry.path)


def _write(path: Path, facts: object, arrays: Mapping[str, Array]) -> None:
    written_ns = time.time_ns()
    header = msgspec.json.encode(
        _Header(
            msgspec.Raw(msgspec.json.encode(facts)),
            [(name, array.dtype.str, len(array)) for name, array in arrays.items()],
            _checksum(arrays.values()),
            written_ns,
        )
    )
    lead = _MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(4, "little") + header
    with path.open("xb") as file:
        for part in (lead, *map(_bytes, arrays.values())):
            file.write(part)
            file.write(bytes(-file.tell() % _ALIGN))
        file.flush()
        os.fsync(file.fileno())  # else a name could outlive a power cut that its bytes did not
    os.utime(path, ns=(written_ns, written_ns))


def _opened(view: mmap.mmap, written_ns: int, file: Any) -> Stored | None:
    start = len(_MAGIC) + 12
    if view[: len(_MAGIC)] != _MAGIC or len(view) < start:
        return None
    size = int.from_bytes(view[len(_MAGIC) : start - 4], "little")
    body = view[start : start + size]
    if zlib.crc32(body) != int.from_bytes(view[start - 4 : start], "little"):
        return None
    header = msgspec.json.decode(body, type=_Header)
    arrays, at = {}, start + size
    for name, dtype, length in header.arrays:
        at += -at % _ALIGN
        if at + length * np.dtype(dtype).itemsize > len(view):
            return None
        arrays[name] = np.frombuffer(view, dtype, length, at)
        at += arrays[name].nbytes
    if at + -at % _ALIGN != len(view) or (written_ns != header.written_ns and _checksum(arrays.values()) != header.checksum):
        return None
    return Stored(header.facts, arrays, file, len(view), written_ns)


def _checksum(arrays: Iterable[Array]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(_bytes(array), total)
    return total


def _bytes(array: Array) -> Any:
    return np.ascontiguousarray(array).data


def _folders(path: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(path) as entries:
        yield from (Path(entry.path) for entry in entries if entry.is_dir())


def _files(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.name.endswith((_SUFFIX, _UNDER_WAY))]
    except OSError:
        return []


def _written(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # somebody else has removed it
        return 0.0
