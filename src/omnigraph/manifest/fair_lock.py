"""Threads that want one lock -> served in the order they came; what a holder gets, and how long it may wait."""

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
    """A file lock stays with its process for as long as that lives."""


def _unrecorded(epoch: int) -> None:
    """A file lock keeps no epoch: whoever has it is alone, for as long as its process lives."""


class Grant:
    """What a holder of a lock has: its epoch, and `check()`, which asks whether it still has it."""

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
        """The fencing epoch: on an object store it grows whenever a holder is replaced, or its lease is gone."""
        self.took_over: Final = took_over
        """A former holder may only be asleep, and no one has yet published `epoch`: publish it before touching any table."""
        self._check: Final = check
        self._record: Final = record
        self.published = False

    def raise_epoch(self, epoch: int) -> None:
        """Go on under a greater epoch, once the lock has recorded it. Raises ConflictError(FENCED) when the lock is lost."""
        self._record(epoch)
        self.epoch = epoch

    def check(self) -> None:
        """Raise ConflictError(FENCED) when the lock is known to be lost."""
        self._check()

    def epoch_published(self) -> None:
        """Say that `epoch` is durable in `head`. Until someone says so, every later holder is told `took_over` again."""
        self.published = True


class Deadline:
    """How long one acquisition may wait in all its steps together, and what to say when that is over."""

    __slots__ = ("_seconds", "_since", "_what")

    def __init__(self, what: str, *, seconds: float) -> None:
        self._what: Final = what
        self._seconds: Final = max(0.0, min(seconds, threading.TIMEOUT_MAX))
        self._since: Final = time.monotonic()

    def remaining(self) -> float:
        """Seconds that remain; never negative."""
        return max(0.0, self._since + self._seconds - time.monotonic())

    def timeout_error(self, where: str, *, holder: str = "another writer") -> LimitError:
        """The error of a wait that ended at the lock called `where`."""
        waited = time.monotonic() - self._since
        return LimitError(
            Kind.LOCK_TIMEOUT,
            f"waited {waited:.1f} s for the lock of {self._what} ({where}), which {holder} holds or waits for; nothing was changed. "
            "Try again later or with a longer timeout; if this goes on, look for a writer that is stuck.",
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
        self.called: threading.Event | None = None  # only for those who have to wait


class FairLock:
    """A shared/exclusive lock between the threads of one process, first come, first served.

    The queue is the whole state: those served are the turns before the first exclusive one, or that one when it is
    first. So leaving is one removal, right in whatever state an interrupt left the turn.
    """

    def __init__(self) -> None:
        self._mutex: Final = threading.Lock()
        self._queue: Final[list[_Turn]] = []

    @contextmanager
    def turn(self, *, shared: bool, deadline: Deadline, where: str) -> Iterator[None]:
        """Hold the lock inside this block; `where` names it for a person whose deadline ran out."""
        turn = _Turn(shared=shared)
        try:
            self._join(turn, where)
            if turn.called is not None and not turn.called.wait(deadline.remaining()):
                raise deadline.timeout_error(where, holder="another thread of this process")
            yield
        finally:
            self._leave(turn)

    def others_before(self, *, shared: bool) -> bool:
        """Would a newcomer have to wait for a thread other than this one?"""
        me = threading.get_ident()
        with self._mutex:
            return any(turn.thread != me and not (shared and turn.shared) for turn in self._queue)

    def is_mine(self, *, shared: bool | None = None) -> bool:
        """Does this thread hold the lock (in that mode)?"""
        me = threading.get_ident()
        with self._mutex:
            return any(turn.thread == me and shared in (None, turn.shared) for turn in self._served())

    def _join(self, turn: _Turn, where: str) -> None:
        with self._mutex:
            if any(other.thread == turn.thread for other in self._queue):
                raise Unsupported(
                    Kind.UNSUPPORTED,
                    f"internal error: this thread already holds {where} and asked for it again; locks are not re-entrant, "
                    "the grant must be passed down",
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
                # Calling again whoever was called before is harmless, and makes good a call that an interrupt swallowed.
                for served in self._served():
                    if served.called is not None:
                        served.called.set()

    def _served(self) -> list[_Turn]:
        return list(takewhile(lambda turn: turn.shared, self._queue)) or self._queue[:1]
