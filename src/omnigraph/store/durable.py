"""Files a commit will name -> checked and flushed before it does; the version file it made -> the same before anyone leans on it.

Lance calls no fsync, and a data file whose last write failed keeps the name of a whole one. So every file is looked at before a
commit names it: its size is what Lance counted, and it ends as a file of its kind ends. On a disk it is then flushed, with every folder
that gained an entry. Object stores keep what they acknowledged; there one HEAD tells the size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

import msgspec

from omnigraph.errors import Kind, Outcome, StorageError
from omnigraph.store.endings import VERSION_SUFFIX, is_whole
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.root import Root

_NEWEST: Final = 2**64 - 1
_HINT: Final = "_versions/latest_version_hint.json"


class NewFile(msgspec.Struct, frozen=True):
    """A file that nobody names yet: its path in the graph, and the bytes that Lance counted while it wrote them, if it says."""

    path: str
    size: int | None = None


class FlushFailed(StorageError):
    """The disk did not confirm bytes that were handed to it. They may be visible and yet be gone after a power cut: no receipt."""


def version_file(version: int) -> str:
    """The file that holds a Lance version: names count down, so that a listing shows the newest first."""
    return f"_versions/{_NEWEST - version:020d}{VERSION_SUFFIX}"


def newest_version(names: Iterable[str]) -> int | None:
    """The newest version among the names of a `_versions` folder."""
    numbered = (name.rpartition("/")[2].removesuffix(VERSION_SUFFIX) for name in names if name.endswith(VERSION_SUFFIX))
    return max((_NEWEST - int(number) for number in numbered if len(number) == 20 and number.isdigit()), default=None)


class _Hint(msgspec.Struct):
    version: int


def is_newest(root: Root, home: str, version: int) -> bool:
    """Is it certain that no version of a table on a disk follows this one? False says: ask Lance, which lists all versions there are.

    Each commit takes the next number, and then notes it in a file. So the next version is not there; and no later one, whose
    predecessors may have been removed since, is noted. Whoever removes the newest version leaves a note that is ahead, and Lance is asked.
    """
    if not root.is_local:
        return False
    folder = os.path.join(root.uri, home)
    try:
        if os.path.lexists(os.path.join(folder, version_file(version + 1))):
            return False
        with open(os.path.join(folder, _HINT), "rb", buffering=0) as file:
            return msgspec.json.decode(file.readall(), type=_Hint).version <= version
    except (OSError, msgspec.DecodeError):
        return False


def settle(root: Root, files: Iterable[NewFile]) -> None:
    """Check files and flush them, before the commit that names them: what fails here did not happen."""
    _each(root, list(files), outcome=Outcome.DID_NOT_HAPPEN)


def settle_visible(root: Root, paths: Iterable[str]) -> None:
    """The same for files that Lance has made visible itself: a version, a native branch. A flush that fails leaves them in doubt."""
    _each(root, [NewFile(path) for path in paths], outcome=Outcome.UNKNOWN)


def sync_folder(root: Root, folder: str) -> None:
    """Flush a folder that lost an entry."""
    if root.sync:
        _flush_folder(root, folder, Outcome.UNKNOWN)


def is_torn(root: Root, path: str) -> bool:
    """Is there a version file that is not whole? Only a disk can hold one: a power cut took what was not flushed."""
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


def _each(root: Root, files: list[NewFile], *, outcome: Outcome) -> None:
    if not root.is_local:
        _all(root, [partial(_check_stored, root, file) for file in files])
        return
    every = [*files, *(NewFile(blob) for file in files for blob in _blobs(root, file.path))]
    folders = _folders(root, every) if root.sync else set()
    checks = [partial(_check_and_flush, root, file, outcome) for file in every]
    _all(root, [*checks, *(partial(_flush_folder, root, folder, outcome) for folder in folders)])
    root.flushed.update(folders)


def _all(root: Root, steps: list[Callable[[], None]]) -> None:
    """In no order: nothing rests on any of them before all are done. A journaling file system makes one flush of several.

    Without flushes there is nothing to wait for on a disk, and another thread would only cost time.
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
        if root.sync:
            _fsync(descriptor, full, outcome)
    except OSError as error:
        raise wrap_os_error(error, doing="look at", path=full, outcome=outcome) from error
    finally:
        os.close(descriptor)


def _torn(root: Root, file: NewFile, size: int | None) -> StorageError:
    full = f"{root.uri}/{file.path}"
    if size is None:
        found = "is not there"
    else:
        found = f"has {size} bytes and is not whole" if file.size is None else f"has {size} bytes where {file.size} were written"
    return StorageError(
        Kind.TORN_FILE,
        f"{full} {found}: the disk was full, or failed. Nothing was committed; free some space, or look at the system log, and try again",
        path=full,
        expected=file.size,
        actual=size,
    )


# -- flushing


def _folders(root: Root, files: Iterable[NewFile]) -> set[str]:
    """The folders that hold the files, and once the way from there to the graph's root and above."""
    folders: set[str] = set()
    for file in files:
        holder, *above = (str(parent) for parent in PurePosixPath(file.path).parents)
        folders.add(holder)
        if holder not in root.flushed:
            folders.update(above)
    if folders and "." not in root.flushed:
        folders.update(_above(root))
    return folders


def _above(root: Root) -> Iterator[str]:
    """The folders above the graph that its birth may have made, too: those in which we may make anything."""
    return takewhile(lambda folder: os.access(folder, os.R_OK | os.W_OK), map(str, PurePosixPath(root.uri).parents))


def _blobs(root: Root, path: str) -> list[str]:
    """Large blobs lie in files of their own, in a folder named like the data file that points to them."""
    folder = path.removesuffix(".lance")
    if folder == path:
        return []
    try:
        return [f"{folder}/{name}" for name in os.listdir(os.path.join(root.uri, folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _flush_folder(root: Root, folder: str, outcome: Outcome) -> None:
    full = os.path.join(root.uri, folder)
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
        # Never tried again: the kernel reports a lost page once, and calls it clean afterwards.
        told = wrap_os_error(error, doing="flush", path=full, outcome=outcome)
        raise FlushFailed(told.kind, told.message, outcome=outcome, path=full, errno=error.errno) from error
