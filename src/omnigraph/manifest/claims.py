"""One lease object on an object store -> a lease that is acquired, renewed while held, and released.

A holder that stops renewing is replaced. Wall clocks are not used. The holder counts the ttl from the start of its last
renewal; a watcher counts it from the time at which it saw that renewal, which is later. So a holder knows that its lease
is lost before another process may replace it.
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
"""The size of a retired lease object. No other lease object has this size."""
_LONGEST_QUEUE: Final = 64
_NEVER: Final = float("-inf")

# This clock advances while the machine is suspended, where the system supports it: a suspended holder must notice the lost time.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Return seconds on the monotonic clock of this machine. Values of different machines are not comparable."""
    return time.clock_gettime(_CLOCK)


class Lease(msgspec.Struct, frozen=True):
    """The body of a lease object. Each write of a holder changes holder, epoch or renewals, and no combination repeats.

    So a token may be a hash of the content, as in S3: equal tokens mean the same write.
    """

    holder: str
    """The ULID of one acquisition."""
    epoch: int
    ttl_seconds: float
    renewals: int = 0
    released: bool = False
    owed: bool = False
    """`epoch` replaced a holder that may still be running, and is not yet published in `head`."""
    queue: tuple[str, ...] = ()
    """The ULIDs of waiting acquisitions, oldest first."""
    host: str = ""
    """Host and pid are shown in messages only."""
    pid: int = 0

    def position(self, holder: str) -> int:
        """Return how many waiters precede `holder`. A holder that is not in the queue comes last."""
        return self.queue.index(holder) if holder in self.queue else len(self.queue)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)


class _Retired(msgspec.Struct, frozen=True):
    """The body of the lease of a deleted branch. A listing recognizes it by its size."""

    epoch: int


def retired(lease: Lease) -> bytes:
    return msgspec.json.encode(_Retired(lease.epoch)).ljust(RETIRED_BYTES)


class VersionedLease(NamedTuple):
    """A lease as it was read or written, with the token for a conditional put."""

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
            Kind.CORRUPT, f"the lease {where} cannot be decoded ({error}); stop all writers, then remove the object", path=where
        ) from error


def free_expired(objects: Objects, path: str, dead: VersionedLease) -> VersionedLease | None:
    """Release an expired holder's lease under the next epoch, which the next holder must publish. Returns None if the lease changed."""
    lease = msgspec.structs.replace(dead.lease, epoch=dead.lease.epoch + 1, released=True, owed=True)
    token = objects.put_if_match(path, lease.to_bytes(), dead.token)
    return None if token is None else VersionedLease(lease, token)


class Claim:
    """One acquisition of one lease, from its first attempt to its release.

    A put may be applied although it reported a failure, or a lost race (the client's retry met its own first request).
    The holder's ULID in the object then shows that the write was ours.
    """

    def __init__(self, objects: Objects, path: str, *, ttl_seconds: float) -> None:
        self.grant = Grant()
        self._objects: Final = objects
        self._path: Final = path
        self._ttl_seconds: Final = ttl_seconds
        self.holder: Final = new_ulid()
        self._mutex: Final = threading.Lock()  # one put at a time: each needs the token of the previous one
        self._stopped: Final = threading.Event()
        self._held: VersionedLease | None = None
        self._queued = False
        self._outcome_unknown = False
        self._put_at = _NEVER
        self._renewed_at = _NEVER
        self._lost = False

    def join_queue(self, seen: VersionedLease) -> None:
        """Add this claim to the queue of a lease. The holder's next put then fails on its token; it reads the lease again and continues."""
        if self.holder in seen.lease.queue or len(seen.lease.queue) >= _LONGEST_QUEUE:
            return
        self._queued = True
        with suppress(StorageError):  # the queue only improves fairness; a claim outside it waits too
            self._objects.put_if_match(self._path, _with_queue(seen, (*seen.lease.queue, self.holder)), seen.token)

    def take(self, seen: VersionedLease | None) -> bool:
        """Try to acquire the lease as it was last read: missing, released, or already held by this claim.

        Also returns False, once, if the outcome of the put is unknown: the next read shows it. The second time it raises.
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
        """Raise if the lease is lost: another holder has it, or may have it because no renewal succeeded for one ttl."""
        age = now() - self._renewed_at
        if self._lost or self._stopped.is_set() or age > self._ttl_seconds:
            raise self._fenced(age)

    def _fenced(self, age: float) -> ConflictError:
        where = f"{self._objects.uri}/{self._path}"
        return ConflictError(
            Kind.FENCED,
            f"the lease {where} is lost: its last renewal was {age:.1f} s ago, and it expires after {self._ttl_seconds:g} s. "
            "This writer was paused or disconnected, and another writer may hold the lease now; read again and repeat the write.",
            path=where,
            epoch=self.grant.epoch,
        )

    def release(self) -> VersionedLease | None:
        """Release the lease, or leave its queue. Returns the lease as it was written."""
        self._stopped.set()
        with self._mutex:
            try:
                if self._queued and self._held is None:
                    self._leave_queue()
                if self._put_at == _NEVER:
                    return None
                return self._write_released()
            except StorageError as error:
                # The work under the lease is complete. Without renewals the lease expires.
                _log.warning("cannot release the lease %s: %s", self._path, error)
                return None

    def _leave_queue(self) -> None:
        # One attempt: if it loses a race, the other waiters skip this claim when its turn comes.
        seen = read(self._objects, self._path)
        if seen is not None and self.holder in seen.lease.queue:
            left = tuple(other for other in seen.lease.queue if other != self.holder)
            self._objects.put_if_match(self._path, _with_queue(seen, left), seen.token)

    def _try_claim(self, seen: VersionedLease | None) -> VersionedLease | None:
        if seen is None:
            # The lease was removed, and its holder may still be running: the epoch in head must become greater than its epoch.
            return self._put(self._mine(epoch=FIRST_EPOCH, owed=True), None)
        if seen.lease.released:
            left = seen.lease.queue[seen.lease.position(self.holder) + 1 :]  # those before us did not take their turn
            return self._put(self._mine(epoch=seen.lease.epoch, owed=seen.lease.owed, queue=left), seen.token)
        return seen if seen.lease.holder == self.holder else None

    def _write_released(self) -> VersionedLease | None:
        ours = self._held or self._read_own()
        while ours is not None:  # each lost race is a waiter that joins or leaves the queue, so this loop ends
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
        """Renew once. Returns False if the lease is lost or released."""
        try:
            return self._rewrite()
        except StorageError as error:
            _log.warning("cannot renew the lease %s: %s", self._path, error)
            return True  # try again; if the ttl is over by then, that attempt reports it

    def _record(self, epoch: int) -> None:
        """Continue to hold the lease under a greater epoch, which must then be published."""
        if not self._rewrite(epoch=epoch, owed=True):
            raise self._fenced(now() - self._renewed_at)

    def _rewrite(self, *, epoch: int | None = None, owed: bool = False) -> bool:
        """Renew the lease, optionally with another epoch. Returns False if the lease is lost."""
        with self._mutex:
            ours = self._held
            # An expired lease must not be renewed: `check` may have reported it as lost.
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
