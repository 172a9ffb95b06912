"""Lease objects in a graph on an object store -> one writer per branch, or one exclusive holder, among all machines.

A writer acquires the lease of its branch and then reads root; an exclusive holder acquires root and then reads the
branches. In any order of these steps, one of the two sees the other. A writer that sees root held releases its lease and
waits; an exclusive holder that sees a branch held waits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.ids import BranchName, new_ulid
from omnigraph.manifest.claims import RETIRED_BYTES, Claim, Lease, VersionedLease, free_expired, now, read, retired
from omnigraph.manifest.fair_lock import ROOT, Deadline, Grant, name_of
from omnigraph.manifest.registry import is_private
from omnigraph.store.objects import Objects

DIRECTORY: Final = "__lease"
OWNERS: Final = "__owners"
"""The leases of open transactions. They block no writer and no exclusive holder."""
TTL_SECONDS: Final = 15.0

_POLL_SECONDS: Final = 0.1
# The first waiter polls five times as often. The next one may overtake it after ten poll intervals.
_NEXT_LOOKS: Final = 5
_CHANCES: Final = 10
_READERS: Final = 8
# Two monotonic clocks may differ slightly in speed, so the watcher waits longer than the ttl.
_CLOCK_SLACK: Final = 1.05


class Leases:
    """The locks of one graph on an object store. `Locks` orders the threads of this process first."""

    def __init__(self, objects: Objects, *, ttl_seconds: float) -> None:
        self._objects: Final = objects
        self._ttl_seconds: Final = ttl_seconds
        self._poll_seconds: Final = min(_POLL_SECONDS, ttl_seconds / 10)
        self._root: Final = _path(ROOT)
        # Path -> the heartbeat, and since when it is unchanged. Kept between calls, so that several short waits detect a dead
        # holder as one long wait does.
        self._watched: Final[dict[str, tuple[object, float]]] = {}
        # Path -> the lease as it was last seen free, with an empty queue. It is usually still free; trying it first saves a read.
        self._free: Final[dict[str, VersionedLease]] = {}

    def where(self, name: str) -> str:
        return f"{self._objects.uri}/{_path(name)}"

    @contextmanager
    def writer(self, branch: BranchName, deadline: Deadline) -> Iterator[Grant]:
        path = _path(name_of(branch))
        while True:
            with self._hold(path, deadline) as claim:
                if self._live(self._root) is None:
                    claim.check()
                    yield claim.grant
                    return
            self._wait_until_free([self._root], deadline)

    @contextmanager
    def exclusive(self, deadline: Deadline) -> Iterator[Grant]:
        with self._hold(self._root, deadline) as claim:
            # It is enough to see each branch free once: a writer that acquires it later sees root held, and releases it.
            self._wait_until_free(self._branch_leases(), deadline)
            claim.check()
            yield claim.grant

    def keeps(self, branch: BranchName) -> bool:
        """Return False: a lease is released when its write ends."""
        return False

    def busy(self, branch: BranchName, *, mine: bool) -> bool:
        """Return whether another process holds or waits for the branch. Costs one read, which the next acquisition saves."""
        seen = self._look(path := _path(name_of(branch)))
        self._note_free(path, seen)
        return seen is not None and (bool(seen.lease.queue) or not (mine or seen.lease.released))

    def begin(self, branch: BranchName, *, epoch: int) -> None:
        """Create the lease of a new branch at the epoch that its head inherits, so that its first writer has no epoch to publish.

        A greater epoch, left by an earlier branch of this name, is kept and must be published. So a holder of the earlier
        branch's lease is never taken for a holder of the new one.
        """
        path = _path(name_of(branch))
        seen = read(self._objects, path)
        start = epoch if seen is None else max(epoch, seen.lease.epoch)
        lease = Lease(holder=new_ulid(), epoch=start, ttl_seconds=self._ttl_seconds, released=True, owed=start > epoch)
        if seen is None:
            self._objects.put_if_absent(path, lease.to_bytes())
        elif seen.lease.released:  # otherwise this process was paused, and the lease is in use by a newer branch
            self._objects.put_if_match(path, lease.to_bytes(), seen.token)
        self._free.pop(path, None)

    def forget(self, branch: BranchName) -> None:
        """Retire the lease of a deleted branch, if no process holds it.

        An object store has no conditional delete, and this process may have been paused while a new branch took the name. So
        the object stays and keeps the epoch; listings skip it by its size. A held lease is not changed.
        """
        path = _path(name_of(branch))
        self._free.pop(path, None)
        self._watched.pop(path, None)
        seen = read(self._objects, path)
        if seen is not None and seen.lease.released:
            self._objects.put_if_match(path, retired(seen.lease), seen.token)
        if is_private(branch):
            self._objects.delete(_owner_path(branch))

    @contextmanager
    def own(self, branch: BranchName) -> Iterator[None]:
        """Hold the lease of the owner of a private branch. Its name is new, so no other process wants it."""
        path = _owner_path(branch)
        claim = Claim(self._objects, path, ttl_seconds=self._ttl_seconds)
        try:
            while not claim.take(read(self._objects, path)):
                pass  # the outcome of the first put is unknown; a second such outcome raises
            yield
        finally:
            claim.release()
            with suppress(StorageError):  # an object that stays is small, and the next cleanup removes it
                self._objects.delete(path)

    def ownerless(self, branches: Sequence[BranchName]) -> list[BranchName]:
        """Return the branches whose owner's lease is missing, released, or unchanged for longer than it lasts."""
        started = now()
        first = {branch: read(self._objects, _owner_path(branch)) for branch in branches}
        free = [branch for branch, seen in first.items() if seen is None or seen.lease.released]
        watched = {branch: seen for branch, seen in first.items() if seen is not None and not seen.lease.released}
        while watched:
            time.sleep(self._poll_seconds)
            for branch, seen in list(watched.items()):
                waited = now() - started
                current = read(self._objects, _owner_path(branch))
                if current is None or current.lease.released:
                    free.append(branch)
                elif _heartbeat(current) == _heartbeat(seen) and waited <= seen.lease.ttl_seconds * _CLOCK_SLACK:
                    continue
                elif _heartbeat(current) == _heartbeat(seen):
                    free.append(branch)
                del watched[branch]
        return sorted(free)

    @contextmanager
    def _hold(self, path: str, deadline: Deadline) -> Iterator[Claim]:
        claim = Claim(self._objects, path, ttl_seconds=self._ttl_seconds)
        try:
            seen = self._free.pop(path, None) or self._look(path)
            while True:
                our_turn = self._is_our_turn(path, seen, claim)
                if our_turn and claim.take(seen):
                    break
                if seen is not None and not our_turn:
                    self._wait_in_queue(path, seen, claim, deadline)
                seen = self._look(path)  # without a pause after a lost race: the winner is visible now
            yield claim
        finally:
            self._note_free(path, claim.release())

    def _branch_leases(self) -> list[str]:
        return [path for path, size in self._objects.sizes(DIRECTORY).items() if path != self._root and size != RETIRED_BYTES]

    def _is_our_turn(self, path: str, seen: VersionedLease | None, claim: Claim) -> bool:
        """Return whether to try now: the lease is free and all earlier waiters had time to take it, or this claim already holds it."""
        if seen is None or not seen.lease.released:
            return seen is None or seen.lease.holder == claim.holder
        chances = _CHANCES * self._poll_seconds * seen.lease.position(claim.holder)
        return chances == 0 or self._unchanged_seconds(path, seen) > chances

    def _wait_in_queue(self, path: str, seen: VersionedLease, claim: Claim, deadline: Deadline) -> None:
        if deadline.remaining() > 0:
            claim.join_queue(seen)
        self._pause(path, seen, deadline, looks=max(1, _NEXT_LOOKS // (1 + seen.lease.position(claim.holder))))

    def _wait_until_free(self, paths: list[str], deadline: Deadline) -> None:
        while paths:
            live = self._live_among(paths)
            paths = list(live)
            if paths:
                self._pause(paths[0], live[paths[0]], deadline)

    def _live_among(self, paths: list[str]) -> dict[str, VersionedLease]:
        if len(paths) == 1:
            found = [self._live(paths[0])]
        else:
            from concurrent.futures import ThreadPoolExecutor  # rarely needed, and slow to import

            with ThreadPoolExecutor(min(_READERS, len(paths))) as pool:
                found = list(pool.map(self._live, paths))
        return {path: seen for path, seen in zip(paths, found, strict=True) if seen is not None}

    def _live(self, path: str) -> VersionedLease | None:
        seen = self._look(path)
        self._note_free(path, seen)
        return None if seen is None or seen.lease.released else seen

    def _note_free(self, path: str, seen: VersionedLease | None) -> None:
        if seen is not None and seen.lease.released and not seen.lease.queue:
            self._free[path] = seen

    def _look(self, path: str) -> VersionedLease | None:
        """Read a lease, and release it if its holder has expired."""
        started = now()
        seen = read(self._objects, path)
        if seen is None:
            return None
        sign = _heartbeat(seen)
        watched = self._watched.get(path)
        if watched is None or watched[0] != sign:
            watched = self._watched[path] = (sign, now())
        if seen.lease.released or started - watched[1] <= seen.lease.ttl_seconds * _CLOCK_SLACK:
            return seen
        return free_expired(self._objects, path, seen) or seen

    def _unchanged_seconds(self, path: str, seen: VersionedLease) -> float:
        sign, since = self._watched.get(path, (None, 0.0))
        return now() - since if sign == _heartbeat(seen) else 0.0

    def _pause(self, path: str, seen: VersionedLease, deadline: Deadline, *, looks: int = 1) -> None:
        left = deadline.remaining()
        if left == 0:
            holder = f"{seen.lease.host} (pid {seen.lease.pid})"
            raise deadline.timeout_error(f"{self._objects.uri}/{path}", holder=holder)
        # Jitter, so that waiters that started together do not poll together.
        time.sleep(min(left, self._poll_seconds / looks * random.uniform(0.5, 1.5)))


def _heartbeat(seen: VersionedLease) -> object:
    """Return a value that changes with every action of the process whose turn it is: the holder, or after a release the first waiter."""
    lease = seen.lease
    return (lease.holder, lease.epoch, lease.renewals, lease.queue[:1] if lease.released else None)


def _owner_path(branch: BranchName) -> str:
    return f"{OWNERS}/{name_of(branch)}.json"


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}.json"
