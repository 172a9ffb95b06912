"""Lock files in a local graph -> locks between processes, taken in the order turnstile, root, branch.

The kernel releases a lock when its process ends, so no lock is ever stale.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import Final

from omnigraph.errors import Kind, StorageError
from omnigraph.ids import BranchName
from omnigraph.manifest.fair_lock import ROOT, TURNSTILE, Deadline, FairLock, Grant, name_of
from omnigraph.manifest.kept_lock import TURN_SECONDS, KeptLock, Turn
from omnigraph.store.objects import wrap_os_error

DIRECTORY: Final = "__locks"

# A flock belongs to the open file, which a forked child shares. The child must close its copies, or it keeps the locks of
# a parent that has ended. The references are weak, because an unreferenced FileIO is already closed.
_open_files: Final[weakref.WeakSet[FileIO]] = weakref.WeakSet()


@functools.cache
def _close_in_forked_children() -> None:
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for file in list(_open_files):
        file.close()


class Flocks:
    """The locks of one local graph between processes. `Locks` orders the threads of this process first."""

    def __init__(self, root: str) -> None:
        _close_in_forked_children()
        self._directory: Final = os.path.join(root, DIRECTORY)
        # One thread at a time takes the turnstile, so one thread at a time waits for root.
        self._turn: Final = FairLock()
        self._turnstile: Final = FileLock(self.where(TURNSTILE))
        self._root: Final = FileLock(self.where(ROOT))
        self._kept: Final = KeptLock()
        self._mutex: Final = threading.Lock()
        self._branches: Final[weakref.WeakValueDictionary[BranchName, FileLock]] = weakref.WeakValueDictionary()

    def where(self, name: str) -> str:
        return f"{self._directory}/{name}"

    @contextmanager
    def writer(self, branch: BranchName, deadline: Deadline) -> Iterator[Grant]:
        kept = self._kept.take(branch)
        with ExitStack() if kept is None else kept.held as held:
            if kept is None:
                self._enter_root(held, deadline, shared=True)
                held.enter_context(self._branch(branch).hold(deadline, shared=False))
            since = time.monotonic() if kept is None else kept.since
            yield Grant()
            # Reached only if the block did not fail.
            if self._kept.end() and time.monotonic() - since < TURN_SECONDS and self._others_wait(branch):
                self._kept.put(Turn(branch, held.pop_all(), since))

    def keeps(self, branch: BranchName) -> bool:
        """Note that a write begins. Return whether the lock is still held from the last write of this process."""
        return self._kept.begin(branch)

    @contextmanager
    def exclusive(self, deadline: Deadline) -> Iterator[Grant]:
        self._kept.release()
        with ExitStack() as held:
            self._enter_root(held, deadline, shared=False)
            yield Grant()

    def busy(self, branch: BranchName, *, mine: bool) -> bool:
        """Return whether another process holds, or waits for, a lock that a writer of `branch` needs."""
        path = self.where(name_of(branch))
        needed = [self._turnstile.path] if mine else [self._turnstile.path, self._root.path, path]
        return any(_is_locked(each, fcntl.LOCK_SH) for each in needed) or _is_locked(_wait_file(path), fcntl.LOCK_EX)

    def _others_wait(self, branch: BranchName) -> bool:
        """Return whether other processes wait for the lock of `branch`, and none for the exclusive lock."""
        return _is_locked(_wait_file(self.where(name_of(branch))), fcntl.LOCK_EX) and not _is_locked(self._turnstile.path, fcntl.LOCK_SH)

    def begin(self, branch: BranchName, *, epoch: int) -> None:
        """Do nothing: a file lock has no epoch, and the first acquisition creates its file."""

    def forget(self, branch: BranchName) -> None:
        """Remove the lock file of a deleted branch. Requires the exclusive root lock, under which no process holds it or waits for it."""
        path = self.where(name_of(branch))
        for each in (path, _wait_file(path), _owner_file(path)):
            with suppress(OSError):  # an empty file that stays is harmless
                os.unlink(each)

    @contextmanager
    def own(self, branch: BranchName) -> Iterator[None]:
        """Hold the owner file of a private branch. Its name is new, so no other process holds it."""
        with FileLock(_owner_file(self.where(name_of(branch)))).hold(Deadline(f"branch {branch!r}", seconds=0), shared=False):
            yield

    def ownerless(self, branches: Sequence[BranchName]) -> list[BranchName]:
        """Return the branches whose owner file is not locked."""
        return [branch for branch in branches if not _has_owner(_owner_file(self.where(name_of(branch))))]

    def _enter_root(self, held: ExitStack, deadline: Deadline, *, shared: bool) -> None:
        # A process that waits for root holds the turnstile, so that later requests cannot overtake it: an exclusive holder
        # waits for the current writers only.
        with (
            self._turn.turn(shared=False, deadline=deadline, where=self._turnstile.path),
            self._turnstile.hold(deadline, shared=False),
        ):
            held.enter_context(self._root.hold(deadline, shared=shared))

    def _branch(self, branch: BranchName) -> FileLock:
        with self._mutex:
            lock = self._branches.get(branch)
            if lock is None:
                lock = self._branches[branch] = FileLock(self.where(name_of(branch)))
            return lock


class FileLock:
    """One lock file. Every acquisition opens it again, because two holders of one open file do not exclude each other.

    Files are FileIO objects and not descriptors: if an interrupt loses the reference, the file closes itself.
    """

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self._blocked: Final[dict[int, _Waiter]] = {}

    @contextmanager
    def hold(self, deadline: Deadline, *, shared: bool) -> Iterator[None]:
        file = self._acquire(fcntl.LOCK_SH if shared else fcntl.LOCK_EX, deadline)
        try:
            yield
        finally:
            _release(file)

    def _acquire(self, mode: int, deadline: Deadline) -> FileIO:
        while True:
            file = _open(self.path)
            if not _lock_now(file, mode):
                file = self._wait(file, mode, deadline)
            if os.fstat(file.fileno()).st_nlink > 0:
                return file
            # The branch was deleted between open and lock, so this file has no name and excludes no other process.
            _release(file)

    def _wait(self, file: FileIO, mode: int, deadline: Deadline) -> FileIO:
        if deadline.remaining() == 0:
            raise deadline.timeout_error(self.path)
        waiter = self._blocked.get(mode)
        if waiter is not None and waiter.adopt():
            file.close()
        else:
            waiter = _Waiter(self, file, mode)
        try:
            waiter.start()
            self._blocked[mode] = waiter
            with _announced_wait(self.path):
                granted = waiter.wait(deadline.remaining())
        finally:
            waiter.abandon()
        if granted is None:
            raise deadline.timeout_error(self.path)
        return granted


class _Waiter:
    """A thread inside a blocking flock, which has no timeout.

    An abandoned waiter stays blocked. The next request for this lock adopts it, so that a lock which is held for hours
    costs one thread and not one per attempt. A waiter that is not adopted releases the lock as soon as it gets it.
    """

    def __init__(self, lock: FileLock, file: FileIO, mode: int) -> None:
        self._lock: Final = lock  # keeps the lock alive, and with it the entry from which this waiter is adopted
        self._mode: Final = mode
        self._mutex: Final = threading.Lock()
        self._done: Final = threading.Event()
        self._wanted = True
        self._file: FileIO | None = file
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs. Apart from the constructor: after an interrupt in here the caller can abandon the waiter."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._block, args=(self._file,), name=f"omnigraph-lock {self._lock.path}", daemon=True)
            self._thread.start()

    def adopt(self) -> bool:
        """Adopt an abandoned wait. Returns False if the wait has ended."""
        with self._mutex:
            self._wanted = not self._done.is_set()
            return self._wanted

    def wait(self, seconds: float) -> FileIO | None:
        """Return the locked file, or None after the timeout."""
        if not self._done.wait(seconds):
            return None
        if self._error is not None:
            raise wrap_os_error(self._error, doing="lock", path=self._lock.path) from self._error
        file, self._file = self._file, None
        return file

    def abandon(self) -> None:
        """Release the lock now, or when it is granted. Has no effect after `wait` returned the file."""
        with self._mutex:
            self._wanted = False
            if self._done.is_set():
                self._drop()

    def _block(self, file: FileIO) -> None:
        try:
            fcntl.flock(file, self._mode)
        except OSError as error:
            self._error = error
        with self._mutex:
            self._done.set()
            if not self._wanted:
                self._drop()

    def _drop(self) -> None:
        if self._file is not None:
            _release(self._file)
            self._file = None


def _open(path: str) -> FileIO:
    try:
        try:
            file = FileIO(path, "a+")
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.makedirs(os.path.dirname(path))
            file = FileIO(path, "a+")
    except OSError as error:
        raise _cannot_lock(error, path) from error
    _open_files.add(file)
    return file


def _cannot_lock(error: OSError, path: str) -> Exception:
    wrapped = wrap_os_error(error, doing="create the lock file", path=path)
    if wrapped.kind is not Kind.STORAGE_PERMISSION:
        return wrapped
    return StorageError(
        wrapped.kind,
        f"{wrapped.message}; only writers need it: open the graph read-only, or get permission to write",
        path=path,
    )


def _lock_now(file: FileIO, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise wrap_os_error(error, doing="lock", path=str(file.name)) from error
    return True


def _release(file: FileIO) -> None:
    # Unlock before close: a child between fork and exec has a copy of the file, and a close alone would not release the lock.
    if not file.closed:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
        file.close()


def _wait_file(path: str) -> str:
    return f"{path}.wait"


def _owner_file(path: str) -> str:
    return f"{path}.owner"


def _has_owner(path: str) -> bool:
    try:
        file = FileIO(path, "r")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise wrap_os_error(error, doing="open the lock file", path=path) from error
    _open_files.add(file)
    try:
        return not _lock_now(file, fcntl.LOCK_SH)
    finally:
        _release(file)


@contextmanager
def _announced_wait(path: str) -> Iterator[None]:
    """Announce a wait to other processes: a waiter holds this file shared, so that `busy` cannot lock it exclusively.

    The result of `busy` is advisory, so a failure to lock the file is ignored.
    """
    file = _open(_wait_file(path))
    try:
        _lock_now(file, fcntl.LOCK_SH)
        yield
    finally:
        _release(file)


def _is_locked(path: str, mode: int) -> bool:
    try:
        file = FileIO(path, "r+")
    except OSError:
        return False  # advisory: a missing lock file means a free lock, and a file that cannot be opened is reported by the writer
    _open_files.add(file)
    try:
        return not _lock_now(file, mode)
    finally:
        _release(file)
