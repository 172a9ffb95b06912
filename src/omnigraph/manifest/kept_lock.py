"""The lock files of a write that has ended -> the same lock files for the next write of this process, if it comes at once.

A writer that follows another process first reads what that one wrote, which takes longer than its own write. So of several processes
that write without a pause, each keeps the lock for a few writes in a row. It is kept only while others wait for it, only if the last
writes of this process came without a pause, and never for longer than `TURN_SECONDS` in all.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from math import inf
from typing import Final, NamedTuple

from omnigraph.ids import BranchName

TURN_SECONDS: Final = 0.1
"""After this time a process that others wait for releases its lock. The wait behind five other processes stays below a second."""
PAUSE_SECONDS: Final = 0.003
"""How long a kept lock waits for the next write. A process that paused for longer after its last write keeps nothing."""
_IDLE_SECONDS: Final = 1.0


class Turn(NamedTuple):
    """The held lock files of a branch, and since when this process has held them (`time.monotonic()`)."""

    branch: BranchName
    held: ExitStack
    since: float


class KeptLock:
    """At most one kept turn. A thread releases it if no write takes it."""

    def __init__(self) -> None:
        self._changed: Final = threading.Condition()
        self._turn: Turn | None = None
        self._until = 0.0
        self._ended = -inf
        self._paused = True
        self._thread: threading.Thread | None = None

    def begin(self, branch: BranchName) -> bool:
        """Note that a write begins. Return whether the lock of its branch is kept for it."""
        now = time.monotonic()
        with self._changed:
            self._paused = now - self._ended > PAUSE_SECONDS
            if self._turn is None or self._turn.branch != branch:
                return False
            self._until = now + PAUSE_SECONDS
            return True

    def end(self) -> bool:
        """Note that a write ends. Return whether the next one is likely to come at once."""
        with self._changed:
            self._ended = time.monotonic()
            return not self._paused

    def take(self, branch: BranchName) -> Turn | None:
        """Return the kept turn. A turn on another branch is released."""
        with self._changed:
            turn, self._turn = self._turn, None
        if turn is not None and turn.branch != branch:
            turn.held.close()
            return None
        return turn

    def put(self, turn: Turn) -> None:
        """Keep a turn for the next write, or release it soon."""
        with self._changed:
            self._turn = turn
            self._until = time.monotonic() + PAUSE_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._release_in_time, name="omnigraph-kept-lock", daemon=True)
                self._thread.start()
            self._changed.notify()

    def release(self) -> None:
        """Release the kept turn, if any."""
        with self._changed:
            turn, self._turn = self._turn, None
        if turn is not None:
            turn.held.close()

    def _release_in_time(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._turn is not None, _IDLE_SECONDS):
                    self._thread = None
                    return
                while self._turn is not None and (left := self._until - time.monotonic()) > 0:
                    self._changed.wait(left)
            self.release()
