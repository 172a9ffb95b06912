"""Files that a commit will name -> the same files, checked and flushed. The version file of the commit -> likewise, before it is used.

Lance does not call fsync. It writes under a temporary name and renames, and it does not notice if the last write failed. So every
file is checked before a commit names it: its size must be what Lance counted, and its end must be that of a complete file of its kind.
On a disk the file is then read for its checksum and flushed, with every directory that gained an entry. An object store keeps what it
acknowledged; there one HEAD request returns the size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

import msgspec

from omnigraph.errors import Kind, Outcome, StorageError
from omnigraph.grid import counted
from omnigraph.store.checksums import checksum, is_recorded
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.root import Root

VERSION_SUFFIX: Final = ".manifest"

_NEWEST: Final = 2**64 - 1
_DIGITS: Final = 20
_DETACHED: Final = re.compile(rf"/_versions/d\d+{re.escape(VERSION_SUFFIX)}$")
_HINT: Final = "_versions/latest_version_hint.json"

_MAGIC: Final = b"LANC"
_ENDINGS: Final = {".lance": _MAGIC, ".idx": _MAGIC, ".arrow": b"ARROW1"}
_BITMAP_SUFFIX: Final = ".bin"
_BITMAP_COOKIE: Final = 12346
_SPARSE_ROWS: Final = 4096
_DENSE_BYTES: Final = 8192
_FOOTER: Final = 16


class NewFile(msgspec.Struct, frozen=True):
    """A file that no version names yet: its path in the graph, and the size that Lance counted while it wrote the file, if known."""

    path: str
    size: int | None = None


class FlushFailed(StorageError):
    """The disk did not confirm a flush. The bytes may be visible now and lost after a power failure, so the write is not acknowledged."""


def version_file(version: int) -> str:
    """The path of a Lance version file. The numbers in the names count down, so a listing shows the newest first."""
    return f"_versions/{_NEWEST - version:0{_DIGITS}d}{VERSION_SUFFIX}"


def numbered_versions(names: Iterable[str]) -> Iterator[int]:
    """The versions among the names of a `_versions` directory. Detached versions, such as an optimize makes for a while, have no number."""
    numbers = (name.rpartition("/")[2].removesuffix(VERSION_SUFFIX) for name in names if name.endswith(VERSION_SUFFIX))
    return (_NEWEST - int(number) for number in numbers if len(number) == _DIGITS and number.isdecimal())


def is_detached(name: str) -> bool:
    """Whether a file is a detached version: one that no reader finds."""
    return _DETACHED.search(name) is not None


class _Hint(msgspec.Struct):
    version: int


def is_newest(root: Root, home: str, version: int) -> bool:
    """Whether this version of a table on a disk is certainly the newest. False means unknown: ask Lance, which lists all versions.

    A commit takes the next number and then writes it to the hint file. So this version is the newest if the file of the next version
    is missing and the hint is not ahead. The hint covers later versions whose predecessors were removed. If the newest version is
    removed, the hint stays ahead, and Lance is asked.
    """
    if not root.is_local or _has_version(root, home, version + 1):
        return False
    hinted = _hinted(root, home)
    return hinted is not None and hinted <= version


def find_newest(root: Root, home: str) -> int | None:
    """The newest version of a table on a disk, found without a listing. None means unknown, as for `is_newest`."""
    if not root.is_local or (version := _hinted(root, home)) is None or not _has_version(root, home, version):
        return None
    while _has_version(root, home, version + 1):  # its commit has not written the hint yet
        version += 1
    return version if is_newest(root, home, version) else None


def lost_version(root: Root, home: str) -> int | None:
    """The newest version of a table on a disk, if the hint names it and its file is missing. Commits write the file before the hint.

    A power failure can lose the file of a commit that was never acknowledged and keep the hint, so the caller looks for an intent.
    """
    version = _hinted(root, home) if root.is_local else None
    return version if version is not None and not _has_version(root, home, version) and not _has_version(root, home, version + 1) else None


def forget_newest(root: Root, home: str) -> None:
    """Removes the hint, before the newest version is removed."""
    root.objects.delete(f"{home}/{_HINT}")


def _has_version(root: Root, home: str, version: int) -> bool:
    return os.path.lexists(os.path.join(root.uri, home, version_file(version)))


def _hinted(root: Root, home: str) -> int | None:
    try:
        with open(os.path.join(root.uri, home, _HINT), "rb", buffering=0) as file:
            return msgspec.json.decode(file.readall(), type=_Hint).version
    except (OSError, msgspec.DecodeError):
        return None


def settle(root: Root, files: Iterable[NewFile], *, beside: Callable[[], None] | None = None) -> None:
    """Checks and flushes files before the commit that names them. If this fails, the commit did not happen.

    `beside` is another flush. It runs at the same time, because a file system combines concurrent flushes.
    """
    _each(root, list(files), outcome=Outcome.DID_NOT_HAPPEN, beside=[beside] if beside is not None else [])


def settle_visible(root: Root, paths: Iterable[str], *, beside: Iterable[NewFile] = ()) -> None:
    """Checks and flushes files that Lance has made visible: a version, a native branch. If a flush fails, the outcome is unknown.

    `beside` are files for a later commit. They are flushed at the same time, because a file system combines concurrent flushes.
    """
    _each(root, [*(NewFile(path) for path in paths), *beside], outcome=Outcome.UNKNOWN)


def sync_directory(root: Root, directory: str) -> None:
    """Flushes a directory that lost an entry."""
    if root.sync:
        _flush_directory(root, directory, Outcome.UNKNOWN)


def is_torn(root: Root, path: str) -> bool:
    """Whether the version file exists and is incomplete. Only a disk can hold such a file, after a power failure before a flush."""
    if not root.is_local:
        return False
    try:
        with open(os.path.join(root.uri, path), "rb", buffering=0) as file:
            return not is_whole(file.fileno(), path, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise wrap_os_error(error, doing="read", path=os.path.join(root.uri, path)) from error


# -- checking


def _each(root: Root, files: list[NewFile], *, outcome: Outcome, beside: Sequence[Callable[[], None]] = ()) -> None:
    if not root.is_local:
        _all(root, [partial(_check_stored, root, file) for file in files])
        return
    every = [*files, *(NewFile(blob) for file in files for blob in _blobs(root, file.path))]
    directories = _directories(root, every) if root.sync else set()
    checks = [partial(_check_and_flush, root, file, outcome) for file in every]
    _all(root, [*beside, *checks, *(partial(_flush_directory, root, directory, outcome) for directory in directories)])
    root.flushed.update(directories)


def _all(root: Root, steps: list[Callable[[], None]]) -> None:
    """Runs the steps concurrently. No step depends on another. A journaling file system combines several flushes into one.

    On a disk without flushes, the steps do not wait for anything, and threads would only add cost.
    """
    if root.is_local and not root.sync:
        for step in steps:
            step()
        return
    others = [root.pool.submit(step) for step in steps[1:]]
    try:
        for step in steps[:1]:
            step()
    finally:
        wait(others)
    for other in others:
        other.result()


def _check_stored(root: Root, file: NewFile) -> None:
    found = root.objects.size(file.path)
    if found is None or (file.size is not None and found != file.size) or not found:
        raise _torn(root, file, found)


def _check_and_flush(root: Root, file: NewFile, outcome: Outcome) -> None:
    full = os.path.join(root.uri, file.path)
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _torn(root, file, None) from None
    except OSError as error:
        raise wrap_os_error(error, doing="look at", path=full, outcome=outcome) from error
    try:
        size = os.fstat(descriptor).st_size
        if (file.size is not None and size != file.size) or not is_whole(descriptor, file.path, size):
            raise _torn(root, file, size)
        if is_recorded(file.path):
            root.checksums.put(file.path, checksum(descriptor))
            root.checked.note(file.path)
        if root.sync:
            _fsync(descriptor, full, outcome)
    except OSError as error:
        raise wrap_os_error(error, doing="look at", path=full, outcome=outcome) from error
    finally:
        os.close(descriptor)


def _torn(root: Root, file: NewFile, size: int | None) -> StorageError:
    full = f"{root.uri}/{file.path}"
    if size is None:
        found = "does not exist"
    else:
        found = (
            f"has {counted(size, 'byte')} and is incomplete"
            if file.size is None
            else f"has {counted(size, 'byte')}, but {file.size:,} were written"
        )
    return StorageError(
        Kind.TORN_FILE,
        f"{full} {found}: the disk is full or failed. Nothing was committed. Free disk space or check the system log, then retry",
        path=full,
        expected=file.size,
        actual=size,
    )


# -- flushing


def _directories(root: Root, files: Iterable[NewFile]) -> set[str]:
    """The directories of the files. For a directory that was not flushed before, also its ancestors up to the graph's root and above."""
    directories: set[str] = set()
    for file in files:
        holder = os.path.dirname(file.path) or "."
        directories.add(holder)
        if holder not in root.flushed:
            directories.update(map(str, PurePosixPath(holder).parents))
    if directories and "." not in root.flushed:
        directories.update(_above(root))
    return directories


def _above(root: Root) -> Iterator[str]:
    """The directories above the graph that its creation may have made: those in which this process may write."""
    return takewhile(lambda directory: os.access(directory, os.R_OK | os.W_OK), map(str, PurePosixPath(root.uri).parents))


def _blobs(root: Root, path: str) -> list[str]:
    """The files of large blobs. They are in a directory named like the data file that refers to them."""
    directory = path.removesuffix(".lance")
    if directory == path:
        return []
    try:
        return [f"{directory}/{name}" for name in os.listdir(os.path.join(root.uri, directory))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _flush_directory(root: Root, directory: str, outcome: Outcome) -> None:
    full = os.path.join(root.uri, directory)
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise wrap_os_error(error, doing="flush", path=full, outcome=outcome) from error
    try:
        _fsync(descriptor, full, outcome)
    finally:
        os.close(descriptor)


def _fsync(descriptor: int, full: str, outcome: Outcome) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Never retried: the kernel reports a lost page once, and then marks it as clean.
        wrapped = wrap_os_error(error, doing="flush", path=full, outcome=outcome)
        raise FlushFailed(wrapped.kind, wrapped.message, outcome=outcome, path=full, errno=error.errno) from error


# -- complete files


def is_whole(descriptor: int, name: str, size: int) -> bool:
    """Whether an open file is complete. A file of a kind without a mark (a blob, a text) only has to be non-empty."""
    suffix = os.path.splitext(name)[1]
    if suffix == VERSION_SUFFIX:
        return _is_whole_version(descriptor, size)
    if suffix == _BITMAP_SUFFIX:
        return _is_whole_bitmap(descriptor, size)
    ending = _ENDINGS.get(suffix)
    if ending is None:
        return size > 0
    return size >= len(ending) and os.pread(descriptor, len(ending), size - len(ending)) == ending


def _is_whole_version(descriptor: int, size: int) -> bool:
    """The last 16 bytes hold the position of a message (8), two format numbers (2 each) and a magic number (4). The message starts
    with its length (4) and must end exactly where this footer begins.
    """
    footer = os.pread(descriptor, _FOOTER, max(0, size - _FOOTER))
    if len(footer) < _FOOTER or not footer.endswith(_MAGIC):
        return False
    position = int.from_bytes(footer[:8], "little")
    length = os.pread(descriptor, 4, position) if position < size else b""
    return len(length) == 4 and position + 4 + int.from_bytes(length, "little") + _FOOTER == size


def _is_whole_bitmap(descriptor: int, size: int) -> bool:
    """A deletion file for many rows is a roaring bitmap. Its header gives the rows of each container, and so the size of the file."""
    head = os.pread(descriptor, 8, 0)
    if len(head) < 8 or int.from_bytes(head[:4], "little") != _BITMAP_COOKIE:
        return False
    containers = int.from_bytes(head[4:], "little")
    header = os.pread(descriptor, 4 * containers, 8) if containers <= size else b""
    if len(header) < 4 * containers:
        return False
    rows = (int.from_bytes(header[at + 2 : at + 4], "little") + 1 for at in range(0, len(header), 4))
    return size == 8 + 8 * containers + sum(2 * each if each <= _SPARSE_ROWS else _DENSE_BYTES for each in rows)
