"""Lease objects under a graph on an object store -> one writer per branch, or one exclusive holder, among all machines.

A writer claims its branch and then reads root; an exclusive holder claims root and then reads the branches. Whatever
the order of their steps, one of the two sees the other: a writer that sees root held steps back, an exclusive holder
that sees a branch held waits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph.ids import BranchName, new_ulid
from omnigraph.manifest.claims import RETIRED_BYTES, Claim, Lease, VersionedLease, free_expired, now, read, retired
from omnigraph.manifest.fair_lock import ROOT, Deadline, Grant, name_of
from omnigraph.store.objects import Objects

FOLDER: Final = "__lease"
TTL_SECONDS: Final = 15.0

_POLL_SECONDS: Final = 0.1
# Who is next looks five times as often, and has ten looks of the others before the one behind it may go first.
_NEXT_LOOKS: Final = 5
_CHANCES: Final = 10
_READERS: Final = 8
# Two steady clocks may differ a little in speed; the watcher's is the one that waits longer.
_CLOCK_SLACK: Final = 1.05


class Leases:
    """The locks of one graph on an object store. Threads of this process are put in order before they come here."""

    def __init__(self, objects: Objects, *, ttl_seconds: float) -> None:
        self._objects: Final = objects
        self._ttl_seconds: Final = ttl_seconds
        self._poll_seconds: Final = min(_POLL_SECONDS, ttl_seconds / 10)
        self._root: Final = _path(ROOT)
        # Path -> what somebody should change, and since when we see it unchanged: kept between calls, so that several
        # short waits notice a dead holder as one long wait would.
        self._watched: Final[dict[str, tuple[object, float]]] = {}
        # Path -> the lease as it was last seen free, with nobody in line: claiming that is usually right, and saves a read.
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
            # A branch needs to be seen free only once: who claims it from now on sees root, and steps back.
            self._wait_until_free(self._branch_leases(), deadline)
            claim.check()
            yield claim.grant

    def busy(self, branch: BranchName, *, mine: bool) -> bool:
        """Does another process hold the branch, or wait for it? Costs one read, which the claim that follows saves."""
        seen = self._look(path := _path(name_of(branch)))
        self._note_free(path, seen)
        return seen is not None and (bool(seen.lease.queue) or not (mine or seen.lease.released))

    def begin(self, branch: BranchName, *, epoch: int) -> None:
        """Let a new branch's lease start at the epoch its head inherits, so that its first writer owes nothing.

        A greater one, left by an earlier branch of this name, is kept, and owed: no holder of that time can pass for a new one.
        """
        path = _path(name_of(branch))
        seen = read(self._objects, path)
        start = epoch if seen is None else max(epoch, seen.lease.epoch)
        lease = Lease(holder=new_ulid(), epoch=start, ttl_seconds=self._ttl_seconds, released=True, owed=start > epoch)
        if seen is None:
            self._objects.put_if_absent(path, lease.to_bytes())
        elif seen.lease.released:  # else it is a new branch's by now, and whoever makes this one has slept
            self._objects.put_if_match(path, lease.to_bytes(), seen.token)
        self._free.pop(path, None)

    def forget(self, branch: BranchName) -> None:
        """Retire a deleted branch's lease, if it is still the one that nobody holds.

        A store cannot delete on a condition, and whoever deletes may have slept while the name was given to a new branch. So
        the object stays, is left out of listings by its size, and keeps the epoch. A live lease is not touched.
        """
        path = _path(name_of(branch))
        self._free.pop(path, None)
        self._watched.pop(path, None)
        seen = read(self._objects, path)
        if seen is not None and seen.lease.released:
            self._objects.put_if_match(path, retired(seen.lease), seen.token)

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
                seen = self._look(path)  # at once after a lost race: whoever won it is there now
            yield claim
        finally:
            self._note_free(path, claim.release())

    def _branch_leases(self) -> list[str]:
        return [path for path, size in self._objects.sizes(FOLDER).items() if path != self._root and size != RETIRED_BYTES]

    def _is_our_turn(self, path: str, seen: VersionedLease | None, claim: Claim) -> bool:
        """Is it our turn to try? When nobody holds it and all before us had their chance, or when it is ours unawares."""
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
            from concurrent.futures import ThreadPoolExecutor  # rarely needed, and slow to load

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
        """Read a lease, and free it when its holder is dead."""
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
        # Jitter, so that waiters who came together do not go on asking together.
        time.sleep(min(left, self._poll_seconds / looks * random.uniform(0.5, 1.5)))


def _heartbeat(seen: VersionedLease) -> object:
    """What changes when the one whose turn it is does something: its holder, or once released, who stands first in line."""
    lease = seen.lease
    return (lease.holder, lease.epoch, lease.renewals, lease.queue[:1] if lease.released else None)


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"
