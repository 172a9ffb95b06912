"""Threads that request one lock -> served in order of arrival; the grant of a holder, the deadline of a waiter, and lock names."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import takewhile
from typing import Final

from omnigraph.errors import Kind, LimitError, Unsupported
from omnigraph.ids import BranchName, content_hash

ROOT: Final = "root"
TURNSTILE: Final = "turnstile"

_LONGEST: Final = 160
_PLAIN: Final = re.compile(rb"[A-Za-z0-9_-]")


@lru_cache(maxsize=1024)
def name_of(branch: BranchName) -> str:
    """Return the file or object name of a branch's lock: `feature/x` -> `feature=2Fx`.

    The name never contains a dot or a slash, and is never `root` or `turnstile`.
    """
    raw = branch.encode()
    first = 1 if branch in (ROOT, TURNSTILE) else 0  # the first letter of a reserved name is escaped
    name = "".join(chr(byte) if at >= first and _PLAIN.match(raw, at) else f"={byte:02X}" for at, byte in enumerate(raw))
    # File systems limit a name to 255 bytes. A shortened name contains "==", which no other name does.
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}=={content_hash(raw)[:32]}"


def _never_lost() -> None:
    """A file lock is held until its process releases it or ends."""


def _unrecorded(epoch: int) -> None:
    """A file lock records no epoch: its holder cannot be replaced while its process runs."""


class Grant:
    """A held lock: its epoch, and `check()`, which raises if the lock is lost."""

    __slots__ = ("_check", "_record", "epoch", "published", "took_over")

    def __init__(
        self,
        *,
        epoch: int = 0,
        took_over: bool = False,
        check: Callable[[], None] = _never_lost,
        record: Callable[[int], None] = _unrecorded,
    ) -> None:
        self.epoch = epoch
        """The fencing epoch. On an object store it grows when a holder is replaced, or when its lease is missing."""
        self.took_over: Final = took_over
        """A former holder may still be running, and `epoch` is not yet published: publish it before any change to a table."""
        self._check: Final = check
        self._record: Final = record
        self.published = False

    def raise_epoch(self, epoch: int) -> None:
        """Record a greater epoch in the lock and continue under it. Raises ConflictError(FENCED) if the lock is lost."""
        self._record(epoch)
        self.epoch = epoch

    def check(self) -> None:
        """Raise ConflictError(FENCED) if the lock is known to be lost."""
        self._check()

    def epoch_published(self) -> None:
        """Record that `epoch` is durable in `head`. Until then, every later holder gets `took_over`."""
        self.published = True


class Deadline:
    """The time limit of one acquisition over all its steps, and the error after it."""

    __slots__ = ("_seconds", "_since", "_what")

    def __init__(self, what: str, *, seconds: float) -> None:
        self._what: Final = what
        self._seconds: Final = max(0.0, min(seconds, threading.TIMEOUT_MAX))
        self._since: Final = time.monotonic()

    def remaining(self) -> float:
        """Return the remaining seconds, at least 0."""
        return max(0.0, self._since + self._seconds - time.monotonic())

    def timeout_error(self, where: str, *, holder: str = "another writer") -> LimitError:
        """Return the error of a wait that ended at the lock `where`."""
        waited = time.monotonic() - self._since
        return LimitError(
            Kind.LOCK_TIMEOUT,
            f"waited {waited:.1f} s for the lock of {self._what} ({where}), which {holder} holds or waits for; nothing was changed. "
            "Retry later or with a longer timeout. If the lock stays held, find the process that holds it.",
            lock=self._what,
            path=where,
            waited_seconds=waited,
            timeout_seconds=self._seconds,
        )


class _Turn:
    __slots__ = ("called", "shared", "thread")

    def __init__(self, *, shared: bool) -> None:
        self.shared: Final = shared
        self.thread: Final = threading.get_ident()
        self.called: threading.Event | None = None  # set only for a thread that has to wait


class FairLock:
    """A shared/exclusive lock between the threads of one process, first come, first served.

    The queue is the whole state. The holders are the shared turns before the first exclusive one, or that one if it is
    first. So a release is one removal, and is correct in any state that an interrupt left.
    """

    def __init__(self) -> None:
        self._mutex: Final = threading.Lock()
        self._queue: Final[list[_Turn]] = []

    @contextmanager
    def turn(self, *, shared: bool, deadline: Deadline, where: str) -> Iterator[None]:
        """Hold the lock inside this block. `where` names the lock in a timeout error."""
        turn = _Turn(shared=shared)
        try:
            self._join(turn, where)
            if turn.called is not None and not turn.called.wait(deadline.remaining()):
                raise deadline.timeout_error(where, holder="another thread of this process")
            yield
        finally:
            self._leave(turn)

    def others_before(self, *, shared: bool) -> bool:
        """Return whether a new request would wait for a thread other than this one."""
        me = threading.get_ident()
        with self._mutex:
            return any(turn.thread != me and not (shared and turn.shared) for turn in self._queue)

    def is_mine(self, *, shared: bool | None = None) -> bool:
        """Return whether this thread holds the lock (in that mode)."""
        me = threading.get_ident()
        with self._mutex:
            return any(turn.thread == me and shared in (None, turn.shared) for turn in self._served())

    def _join(self, turn: _Turn, where: str) -> None:
        with self._mutex:
            if any(other.thread == turn.thread for other in self._queue):
                raise Unsupported(
                    Kind.UNSUPPORTED,
                    f"internal error: this thread already holds {where} and requested it again; locks are not re-entrant, "
                    "pass the grant down instead",
                    path=where,
                )
            self._queue.append(turn)
            if turn not in self._served():
                turn.called = threading.Event()

    def _leave(self, turn: _Turn) -> None:
        with self._mutex:
            try:
                if turn in self._queue:
                    self._queue.remove(turn)
            finally:
                # Waking a thread twice is harmless, and repairs a wake-up that an interrupt lost.
                for served in self._served():
                    if served.called is not None:
                        served.called.set()

    def _served(self) -> list[_Turn]:
        return list(takewhile(lambda turn: turn.shared, self._queue)) or self._queue[:1]
