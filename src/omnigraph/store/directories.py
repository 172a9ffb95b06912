"""A directory on a disk -> its lock, staged files, atomic names and listings. Raises plain OSErrors.

The lock is `flock` on the directory itself, opened anew for each operation. It excludes threads and processes, the kernel releases
it when its holder dies, and it leaves no file behind. Operations under the lock use the descriptor of the directory, not its path, so
that two holders cannot coexist if the directory is deleted and created again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from omnigraph.faults import Fault, SimulatedCrash, reach
from omnigraph.ids import content_hash, new_hex16
from omnigraph.store.paths import RESIDUE

# The errors of file systems without hard links, and of network file systems without locks on directories.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def replace(directory: int, staged: str, name: str) -> bool:
    with locked(directory):
        _rename(directory, staged, name)
    return True


def swap(token: str, directory: int, staged: str, name: str) -> bool:
    with locked(directory):
        if _token_of(directory, name) != token:
            return False
        _rename(directory, staged, name)
    return True


def link(directory: int, staged: str, name: str) -> bool:
    """Needs no lock: the kernel lets only one link of a name succeed."""
    reach(Fault.OBJECT_BEFORE_LINK)
    try:
        hard_link(directory, staged, name)
    except FileExistsError:
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise  # the object does not exist; a directory has its name
        return False
    reach(Fault.OBJECT_AFTER_LINK)
    return True


def _rename(directory: int, staged: str, name: str) -> None:
    reach(Fault.OBJECT_BEFORE_LINK)
    os.replace(staged, name, src_dir_fd=directory, dst_dir_fd=directory)
    reach(Fault.OBJECT_AFTER_LINK)


def hard_link(directory: int, old: str, new: str) -> None:
    try:
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise _lacking("hard links", error) from error


def move(old: str, new: str) -> None:
    (old_directory, old_name), (new_directory, new_name) = os.path.split(old), os.path.split(new)
    with opened(old_directory) as source, opened(new_directory) as target, ExitStack() as locks:
        # One lock order for all callers, and one lock if both are the same directory, so that two renames cannot deadlock.
        for descriptor in _distinct(source, target):
            locks.enter_context(locked(descriptor))
        reach(Fault.OBJECT_BEFORE_LINK)
        os.replace(old_name, new_name, src_dir_fd=source, dst_dir_fd=target)
        reach(Fault.OBJECT_AFTER_LINK)


def _distinct(*directories: int) -> list[int]:
    by_inode = {identity(directory): directory for directory in directories}
    return [by_inode[inode] for inode in sorted(by_inode)]


def identity(directory: int) -> tuple[int, int]:
    """The device and inode of an open directory. They change if the directory is deleted and created again."""
    status = os.fstat(directory)
    return status.st_dev, status.st_ino


@contextmanager
def opened(directory: str) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(directory: int) -> Iterator[None]:
    """Holds the lock for a comparison and a rename, never for an fsync. So a wait takes microseconds, and needs no timeout."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise _lacking("locks on directories", error) from error
    try:
        yield
    finally:
        fcntl.flock(directory, fcntl.LOCK_UN)


@contextmanager
def staged(directory: int, data: bytes, *, sync: bool) -> Iterator[str]:
    """Yields the name of a file in `directory` that holds `data`. Listings do not show it. Only a crash leaves it behind."""
    name = staging_name()
    try:
        _fill(directory, name, data, sync=sync)
        yield name
    except SimulatedCrash:
        raise  # a crashed process cleans up nothing
    except BaseException:
        _discard(directory, name)
        raise
    else:
        _discard(directory, name)


def staging_name() -> str:
    return f".{new_hex16()}{RESIDUE}"


def discard_staged(directory: str) -> None:
    """Removes the staged files in `directory`. A write that is at work fails to rename or link its own, and stages it anew."""
    with os.scandir(directory) as entries:
        found = [entry.name for entry in entries if entry.name.startswith(".") and entry.name.endswith(RESIDUE)]
    if found:
        with opened(directory) as descriptor:
            for name in found:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)


def _fill(directory: int, name: str, data: bytes, *, sync: bool) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=directory)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(directory: int, name: str) -> None:
    """Flushes the bytes of a staged file."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(directory: int, name: str) -> None:
    # After a rename the name no longer exists. A failed removal must not change the outcome of the write.
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)


def _token_of(directory: int, name: str) -> str | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        return content_hash(file.readall())


def make(directory: str) -> str | None:
    """Creates `directory` and its missing ancestors. Returns the parent of the topmost one created, or None if it existed."""
    if os.path.isdir(directory):
        return None
    grown = os.path.dirname(directory)
    while not os.path.lexists(grown):
        grown = os.path.dirname(grown)
    os.makedirs(directory, exist_ok=True)
    return grown


def children(directory: str) -> Iterator[str]:
    """The names of the objects in `directory`, and of its subdirectories that hold objects."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                if _may_hold_object(entry.path):
                    yield entry.name + "/"
            elif not entry.name.endswith(RESIDUE):
                yield entry.name


def sizes(directory: str) -> Iterator[tuple[str, int]]:
    """The relative paths and sizes of all objects below `directory`, at any depth."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed by another process meanwhile
                if entry.is_dir():
                    yield from ((f"{entry.name}/{name}", size) for name, size in sizes(entry.path))
                elif not entry.name.endswith(RESIDUE):
                    yield entry.name, entry.stat().st_size


def holds_object(directory: str) -> bool:
    # A directory removed by another process meanwhile holds nothing.
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        return any(
            holds_object(entry.path) if entry.is_dir(follow_symlinks=False) else not entry.name.endswith(RESIDUE) for entry in entries
        )
    return False


def _may_hold_object(directory: str) -> bool:
    try:
        return holds_object(directory)
    except PermissionError:
        return True  # an unreadable directory, such as lost+found, must not fail the listing of its parent


def clear(directory: str) -> None:
    """Deletes `directory` and its contents, staged files included. Objects written meanwhile remain, as on an object store."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for _, path, is_directory in found:
        if is_directory:
            with suppress(FileNotFoundError):
                clear(path)
    with opened(directory) as descriptor, locked(descriptor):
        for name, _, is_directory in found:
            if not is_directory:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
    try:
        os.rmdir(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            raise


def _lacking(what: str, error: OSError) -> OSError:
    return OSError(errno.EOPNOTSUPP, f"the file system has no {what} ({error.strerror})")
