"""A branch -> its writer lock; a graph -> its exclusive lock. They hold across threads, processes and machines.

A graph has one writer per branch, or one exclusive holder. Root is locked first, then the branch. Threads of one process
wait in a fair queue; the first of them competes with other processes for lock files (local) or leases (object store).
Readers take no lock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.ids import BranchName
from omnigraph.manifest.fair_lock import ROOT, Deadline, FairLock, Grant, name_of
from omnigraph.manifest.flocks import Flocks
from omnigraph.manifest.leases import TTL_SECONDS, Leases
from omnigraph.store.objects import Objects
from omnigraph.store.process import refuse_forked_child

__all__ = ["TIMEOUT_SECONDS", "Grant", "Locks"]

TIMEOUT_SECONDS: Final = 60.0
"""The default timeout of a writer: several times the ttl of a lease, so that a dead holder expires first."""


class ProcessLocks(Protocol):
    """The locks of one graph between processes."""

    def where(self, name: str) -> str: ...
    def writer(self, branch: BranchName, deadline: Deadline) -> AbstractContextManager[Grant]: ...
    def exclusive(self, deadline: Deadline) -> AbstractContextManager[Grant]: ...
    def keeps(self, branch: BranchName) -> bool: ...
    def busy(self, branch: BranchName, *, mine: bool) -> bool: ...
    def begin(self, branch: BranchName, *, epoch: int) -> None: ...
    def forget(self, branch: BranchName) -> None: ...
    def own(self, branch: BranchName) -> AbstractContextManager[None]: ...
    def ownerless(self, branches: Sequence[BranchName]) -> list[BranchName]: ...


class Locks:
    """The locks of one graph in this process. Use `Locks.of`: two instances for one graph would not share a queue."""

    def __init__(self, objects: Objects, *, ttl_seconds: float) -> None:
        self.ttl_seconds: Final = ttl_seconds
        self._process_locks: Final[ProcessLocks] = Flocks(objects.uri) if objects.is_local else Leases(objects, ttl_seconds=ttl_seconds)
        self._root: Final = FairLock()
        self._mutex: Final = threading.Lock()
        self._branches: Final[weakref.WeakValueDictionary[BranchName, FairLock]] = weakref.WeakValueDictionary()

    @staticmethod
    def of(objects: Objects, *, ttl_seconds: float | None = None) -> Locks:
        """Return the locks of the graph at `objects.uri`, the same instance for every handle in this process (C-20).

        `ttl_seconds` is the time from the last renewal of a lease to its expiry. The first call sets it. Local paths ignore it.
        """
        refuse_forked_child()
        with _registry_mutex:
            locks = _registry.get(objects.uri)
            if locks is None:
                locks = _registry[objects.uri] = Locks(objects, ttl_seconds=TTL_SECONDS if ttl_seconds is None else ttl_seconds)
        if ttl_seconds not in (None, locks.ttl_seconds):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"{objects.uri} is open in this process with leases of {locks.ttl_seconds:g} s, not {ttl_seconds:g} s; pass the same value",
                uri=objects.uri,
            )
        return locks

    @contextmanager
    def writer(self, branch: BranchName, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[Grant]:
        """Hold the writer lock of `branch`. Writers of other branches may run at the same time."""
        refuse_forked_child()
        deadline = Deadline(f"branch {branch!r}", seconds=timeout_seconds)
        with (
            self._root.turn(shared=True, deadline=deadline, where=self._process_locks.where(ROOT)),
            self._branch(branch).turn(shared=False, deadline=deadline, where=self._process_locks.where(name_of(branch))),
            self._process_locks.writer(branch, deadline) as grant,
        ):
            yield grant

    @contextmanager
    def exclusive(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[Grant]:
        """Hold the exclusive lock of the graph: no writer runs. Needed to create or delete a branch, and to reclaim versions."""
        refuse_forked_child()
        deadline = Deadline("the whole graph", seconds=timeout_seconds)
        with (
            self._root.turn(shared=False, deadline=deadline, where=self._process_locks.where(ROOT)),
            self._process_locks.exclusive(deadline) as grant,
        ):
            yield grant

    def keeps(self, branch: BranchName) -> bool:
        """Note that a write begins. Return whether this process still holds the lock of `branch` from its last write.

        The result is advisory, as that of `busy`.
        """
        refuse_forked_child()
        return self._process_locks.keeps(branch)

    def busy(self, branch: BranchName) -> bool:
        """Return whether a writer of `branch` would have to wait; for the holder of the lock, whether another writer waits.

        The result is advisory: it may be outdated when the call returns.
        """
        refuse_forked_child()
        if self._root.others_before(shared=True) or self._branch(branch).others_before(shared=False):
            return True
        return self._process_locks.busy(branch, mine=self._root.is_mine())

    def begin(self, branch: BranchName, *, epoch: int) -> None:
        """Prepare the lock of a branch that is about to be created with `epoch` in its head. Only inside `exclusive()`."""
        self._require_exclusive(branch)
        self._process_locks.begin(branch, epoch=epoch)

    def forget(self, branch: BranchName) -> None:
        """Remove the lock file or lease of a deleted branch. Only inside `exclusive()`."""
        self._require_exclusive(branch)
        self._process_locks.forget(branch)

    def own(self, branch: BranchName) -> AbstractContextManager[None]:
        """Return a context that is the proof of life of a private branch's owner: it ends with the block, or with the process."""
        refuse_forked_child()
        return self._process_locks.own(branch)

    def ownerless(self, branches: Sequence[BranchName]) -> list[BranchName]:
        """Return the private branches whose owner has ended. Writes nothing.

        On an object store it watches a lease that is not released for as long as it lasts, because its owner may have ended.
        """
        refuse_forked_child()
        return self._process_locks.ownerless(branches)

    def _require_exclusive(self, branch: BranchName) -> None:
        refuse_forked_child()
        if not self._root.is_mine(shared=False):
            raise Unsupported(
                Kind.UNSUPPORTED,
                f"internal error: the lock of branch {branch!r} may be created or removed only under the exclusive lock, "
                "because a writer may hold it",
                branch=branch,
            )

    def _branch(self, branch: BranchName) -> FairLock:
        with self._mutex:
            lock = self._branches.get(branch)
            if lock is None:
                lock = self._branches[branch] = FairLock()
            return lock


# Weak references: the locks of a graph are freed when its last handle is closed.
_registry: Final[weakref.WeakValueDictionary[str, Locks]] = weakref.WeakValueDictionary()
_registry_mutex: Final = threading.Lock()
