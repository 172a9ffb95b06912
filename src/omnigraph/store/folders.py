"""One folder on a disk: its lock, files staged in it, names made visible in it, what it holds. Plain OSErrors come out.

The lock is `flock` on the folder itself, opened anew for each operation: it excludes threads as well as processes, the
kernel frees it when its holder dies, and it leaves no file behind. Everything under it works through the folder's
descriptor, not its path, so that a folder deleted and made again cannot let two holders in.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from omnigraph.faults import Fault, SimulatedCrash, reach
from omnigraph.ids import content_hash, new_hex16
from omnigraph.store.paths import RESIDUE

# What file systems without hard links, and network file systems without locks on folders, answer.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def replace(folder: int, staged: str, name: str) -> bool:
    with locked(folder):
        _rename(folder, staged, name)
    return True


def swap(token: str, folder: int, staged: str, name: str) -> bool:
    with locked(folder):
        if _token_of(folder, name) != token:
            return False
        _rename(folder, staged, name)
    return True


def link(folder: int, staged: str, name: str) -> bool:
    """Needs no lock: the kernel itself lets one link of a name succeed."""
    reach(Fault.OBJECT_BEFORE_LINK)
    try:
        hard_link(folder, staged, name)
    except FileExistsError:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise  # nobody has the object; a folder is in the way
        return False
    reach(Fault.OBJECT_AFTER_LINK)
    return True


def _rename(folder: int, staged: str, name: str) -> None:
    reach(Fault.OBJECT_BEFORE_LINK)
    os.replace(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    reach(Fault.OBJECT_AFTER_LINK)


def hard_link(folder: int, old: str, new: str) -> None:
    try:
        os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise _lacking("hard links", error) from error


def move(old: str, new: str) -> None:
    (old_folder, old_name), (new_folder, new_name) = os.path.split(old), os.path.split(new)
    with opened(old_folder) as source, opened(new_folder) as target, ExitStack() as locks:
        # One order for everybody, and one lock when both are the same folder: no two renames can wait for each other.
        for descriptor in _distinct(source, target):
            locks.enter_context(locked(descriptor))
        reach(Fault.OBJECT_BEFORE_LINK)
        os.replace(old_name, new_name, src_dir_fd=source, dst_dir_fd=target)
        reach(Fault.OBJECT_AFTER_LINK)


def _distinct(*folders: int) -> list[int]:
    by_inode = {identity(folder): folder for folder in folders}
    return [by_inode[inode] for inode in sorted(by_inode)]


def identity(folder: int) -> tuple[int, int]:
    """Which folder an open one is, whatever its path: one deleted and made again is another."""
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


@contextmanager
def opened(folder: str) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: int) -> Iterator[None]:
    """Held for a comparison and a rename, never for an fsync; so a waiter waits for microseconds, and without a bound."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise _lacking("locks on folders", error) from error
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


@contextmanager
def staged(folder: int, data: bytes, *, sync: bool) -> Iterator[str]:
    """The name of a file in `folder` that holds `data` and that no listing shows. Only a death leaves it behind."""
    name = staging_name()
    try:
        _fill(folder, name, data, sync=sync)
        yield name
    except SimulatedCrash:
        raise  # the dead tidy nothing
    except BaseException:
        _discard(folder, name)
        raise
    else:
        _discard(folder, name)


def staging_name() -> str:
    return f".{new_hex16()}{RESIDUE}"


def _fill(folder: int, name: str, data: bytes, *, sync: bool) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _discard(folder: int, name: str) -> None:
    # It is gone after a rename; and a failure to tidy must not change what is said about the write.
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _token_of(folder: int, name: str) -> str | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        return content_hash(file.readall())


def make(folder: str) -> str | None:
    """Make `folder` and what it lacks above it; the folder that gained the topmost of them, None when all were there."""
    if os.path.isdir(folder):
        return None
    grown = os.path.dirname(folder)
    while not os.path.lexists(grown):
        grown = os.path.dirname(grown)
    os.makedirs(folder, exist_ok=True)
    return grown


def children(folder: str, *, but_sizes: Collection[int] = ()) -> Iterator[str]:
    """Names of the objects in `folder`, but for those of these sizes, and of its sub-folders that hold any object."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if _may_hold_object(entry.path):
                    yield entry.name + "/"
            elif not entry.name.endswith(RESIDUE) and not (but_sizes and _size(entry) in but_sizes):
                yield entry.name


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # deleted while we look
        return -1


def holds_object(folder: str) -> bool:
    # A folder may vanish while we look: then it holds nothing.
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return any(
            holds_object(entry.path) if entry.is_dir(follow_symlinks=False) else not entry.name.endswith(RESIDUE) for entry in entries
        )
    return False


def _may_hold_object(folder: str) -> bool:
    try:
        return holds_object(folder)
    except PermissionError:
        return True  # it is there, and that we may not look inside (lost+found, say) must not spoil the listing around it


def clear(folder: str) -> None:
    """Delete what is in `folder`, staged files too, and the folder. What is written meanwhile stays, as on an object store."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for _, path, is_folder in found:
        if is_folder:
            with suppress(FileNotFoundError):
                clear(path)
    with opened(folder) as descriptor, locked(descriptor):
        for name, _, is_folder in found:
            if not is_folder:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=descriptor)
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            raise


def _lacking(what: str, error: OSError) -> OSError:
    return OSError(errno.EOPNOTSUPP, f"the file system has no {what} ({error.strerror})")
