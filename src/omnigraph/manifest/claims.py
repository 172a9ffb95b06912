"""One lease object on a store -> claimed, renewed while held, and given back; who stops renewing is replaced.

A lease is never judged by a wall clock. Its holder counts the ttl from the start of its last renewal, a watcher from
the moment it saw that renewal, which is later; so a holder knows that it is lost before anyone may replace it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from omnigraph.errors import ConflictError, Kind, Outcome, StorageError
from omnigraph.ids import new_ulid
from omnigraph.manifest.fair_lock import Grant
from omnigraph.store.leaving import under_way
from omnigraph.store.objects import Objects

_log: Final = logging.getLogger(__name__)

FIRST_EPOCH: Final = 1
RETIRED_BYTES: Final = 32
"""The size of what is left of a retired lease, and of no other."""
_LONGEST_QUEUE: Final = 64
_NEVER: Final = float("-inf")

# Counts on while a laptop sleeps, where the system offers that: a holder that slept must know that time has passed.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds on this machine's own steady clock; means nothing on any other."""
    return time.clock_gettime(_CLOCK)


class Lease(msgspec.Struct, frozen=True):
    """The body of a lease object. Holder, epoch and renewals change with every sign of life, and never come back.

    Nothing that matters is outside the body, so a token may be made from the content (as S3's are): equal means the same.
    """

    holder: str
    """A ULID of one acquisition."""
    epoch: int
    ttl_seconds: float
    renewals: int = 0
    released: bool = False
    owed: bool = False
    """`epoch` replaced a holder that may only be asleep, and is not published yet."""
    queue: tuple[str, ...] = ()
    """The ULIDs of those who wait, oldest first."""
    host: str = ""
    """Host and pid are for people."""
    pid: int = 0

    def position(self, holder: str) -> int:
        """How many go before `holder`: whoever is not in the queue goes last."""
        return self.queue.index(holder) if holder in self.queue else len(self.queue)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)


class _Retired(msgspec.Struct, frozen=True):
    """What is left of the lease of a deleted branch: its size alone tells it from a lease."""

    epoch: int


def retired(lease: Lease) -> bytes:
    return msgspec.json.encode(_Retired(lease.epoch)).ljust(RETIRED_BYTES)


class VersionedLease(NamedTuple):
    """A lease as it was read or written, with the token that a conditional put needs."""

    lease: Lease
    token: str


def read(objects: Objects, path: str) -> VersionedLease | None:
    found = objects.get_versioned(path)
    if found is None:
        return None
    data, token = found
    try:
        if len(data) == RETIRED_BYTES:
            return VersionedLease(
                Lease("", msgspec.json.decode(data, type=_Retired).epoch, ttl_seconds=0.0, released=True, owed=True), token
            )
        return VersionedLease(msgspec.json.decode(data, type=Lease), token)
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{path}"
        raise StorageError(
            Kind.CORRUPT, f"the lease {where} cannot be read ({error}); remove it when no writer is running", path=where
        ) from error


def free_expired(objects: Objects, path: str, dead: VersionedLease) -> VersionedLease | None:
    """Free a dead holder's lease under the next epoch, which its successor owes. None when the holder moved after all."""
    lease = msgspec.structs.replace(dead.lease, epoch=dead.lease.epoch + 1, released=True, owed=True)
    token = objects.put_if_match(path, lease.to_bytes(), dead.token)
    return None if token is None else VersionedLease(lease, token)


class Claim:
    """One acquisition of one lease, from its first attempt to its release, whatever happens between.

    A put may be applied although we heard of a failure, or of a loss (a retry below us met its own first try); the
    holder's ULID then tells that what is there is ours.
    """

    def __init__(self, objects: Objects, path: str, *, ttl_seconds: float) -> None:
        self.grant = Grant()
        self._objects: Final = objects
        self._path: Final = path
        self._ttl_seconds: Final = ttl_seconds
        self.holder: Final = new_ulid()
        self._mutex: Final = threading.Lock()  # one put at a time: each needs the token of the one before
        self._stopped: Final = threading.Event()
        self._held: VersionedLease | None = None
        self._queued = False
        self._outcome_unknown = False
        self._put_at = _NEVER
        self._renewed_at = _NEVER
        self._lost = False

    def join_queue(self, seen: VersionedLease) -> None:
        """Write ourselves into the queue of a lease. Its holder finds its token spent, reads again and goes on."""
        if self.holder in seen.lease.queue or len(seen.lease.queue) >= _LONGEST_QUEUE:
            return
        self._queued = True
        with suppress(StorageError):  # a place in line is a courtesy; without one we wait all the same
            self._objects.put_if_match(self._path, _with_queue(seen, (*seen.lease.queue, self.holder)), seen.token)

    def take(self, seen: VersionedLease | None) -> bool:
        """Try to claim what was last seen there: nothing, a released lease, or one that turns out to be ours.

        False also when nobody can say whether the put was applied: the next look will tell. But not twice.
        """
        try:
            self._held = self._try_claim(seen)
        except StorageError as error:
            if error.outcome is not Outcome.UNKNOWN or self._outcome_unknown:
                raise
            self._outcome_unknown = True
        if self._held is None:
            return False
        self._renewed_at = self._put_at
        self.grant = Grant(epoch=self._held.lease.epoch, took_over=self._held.lease.owed, check=self.check, record=self._record)
        threading.Thread(target=self._renew_while_held, name=f"omnigraph-lease {self._path}", daemon=True).start()
        return True

    def check(self) -> None:
        """Raise when the lease is lost: somebody replaced us, or may have, because no renewal went through for a ttl."""
        age = now() - self._renewed_at
        if self._lost or self._stopped.is_set() or age > self._ttl_seconds:
            raise self._fenced(age)

    def _fenced(self, age: float) -> ConflictError:
        where = f"{self._objects.uri}/{self._path}"
        return ConflictError(
            Kind.FENCED,
            f"the lease {where} is lost: {age:.1f} s since its last renewal, of {self._ttl_seconds:g} s allowed. "
            "This writer was paused or cut off, and another may have taken its place; read again and repeat the write.",
            path=where,
            epoch=self.grant.epoch,
        )

    def release(self) -> VersionedLease | None:
        """Give back what any of our puts left there: the lease, or a place in its queue. Returns the lease as it is then."""
        self._stopped.set()
        with self._mutex:
            try:
                if self._queued and self._held is None:
                    self._leave_queue()
                if self._put_at == _NEVER:
                    return None
                return self._write_released()
            except StorageError as error:
                # What was done under the lease is done; unrenewed, the lease ends by itself.
                _log.warning("could not release the lease %s: %s", self._path, error)
                return None

    def _leave_queue(self) -> None:
        # Tried once: if others change the lease meanwhile, they will find us absent when our turn comes.
        seen = read(self._objects, self._path)
        if seen is not None and self.holder in seen.lease.queue:
            left = tuple(other for other in seen.lease.queue if other != self.holder)
            self._objects.put_if_match(self._path, _with_queue(seen, left), seen.token)

    def _try_claim(self, seen: VersionedLease | None) -> VersionedLease | None:
        if seen is None:
            # Somebody removed the lease, and its holder may only be asleep: its epoch is one that head must leave behind.
            return self._put(self._mine(epoch=FIRST_EPOCH, owed=True), None)
        if seen.lease.released:
            left = seen.lease.queue[seen.lease.position(self.holder) + 1 :]  # who stood before us had a chance, and let it pass
            return self._put(self._mine(epoch=seen.lease.epoch, owed=seen.lease.owed, queue=left), seen.token)
        return seen if seen.lease.holder == self.holder else None

    def _write_released(self) -> VersionedLease | None:
        ours = self._held or self._read_own()
        while ours is not None:  # each loss is somebody else's joining or leaving the queue, so this ends
            owed = ours.lease.owed and not self.grant.published
            released = self._put(msgspec.structs.replace(ours.lease, released=True, owed=owed), ours.token)
            if released is not None:
                return released
            ours = self._read_own()
        return None

    def _renew_while_held(self) -> None:
        with under_way(stop=self._stopped.set):
            while not self._stopped.wait(self._ttl_seconds / 3) and self._renew():
                pass

    def _renew(self) -> bool:
        """Renew once; False when there is nothing left to renew."""
        try:
            return self._rewrite()
        except StorageError as error:
            _log.warning("could not renew the lease %s: %s", self._path, error)
            return True  # there is time for another try; if there is not, that one will find out

    def _record(self, epoch: int) -> None:
        """Hold the lease under a greater epoch, which is owed from now on."""
        if not self._rewrite(epoch=epoch, owed=True):
            raise self._fenced(now() - self._renewed_at)

    def _rewrite(self, *, epoch: int | None = None, owed: bool = False) -> bool:
        """Give a sign of life, with another epoch perhaps; False when the lease is lost."""
        with self._mutex:
            ours = self._held
            # Past its ttl a lease must not come back to life: its holder may have been told that it is lost.
            while ours is not None and not self._stopped.is_set() and now() - self._renewed_at <= self._ttl_seconds:
                lease = ours.lease
                alive = msgspec.structs.replace(
                    lease, renewals=lease.renewals + 1, epoch=lease.epoch if epoch is None else epoch, owed=owed or lease.owed
                )
                if (written := self._put(alive, ours.token)) is not None:
                    self._held, self._renewed_at = written, self._put_at
                    return True
                ours = self._read_own()
            self._lost = True
            return False

    def _read_own(self) -> VersionedLease | None:
        seen = read(self._objects, self._path)
        return seen if seen is not None and seen.lease.holder == self.holder and not seen.lease.released else None

    def _mine(self, *, epoch: int, owed: bool = False, queue: tuple[str, ...] = ()) -> Lease:
        host, pid = os.uname().nodename, os.getpid()
        return Lease(holder=self.holder, epoch=epoch, ttl_seconds=self._ttl_seconds, owed=owed, queue=queue, host=host, pid=pid)

    def _put(self, lease: Lease, token: str | None) -> VersionedLease | None:
        self._put_at = now()
        data = lease.to_bytes()
        new = self._objects.put_if_absent(self._path, data) if token is None else self._objects.put_if_match(self._path, data, token)
        return None if new is None else VersionedLease(lease, new)


def _with_queue(seen: VersionedLease, queue: tuple[str, ...]) -> bytes:
    return msgspec.structs.replace(seen.lease, queue=queue).to_bytes()
