"""A time limit and a way to stop -> the question every long piece of work asks between its parts: may I go on?"""

from __future__ import annotations

import threading
import time
from typing import Final

from omnigraph.errors import InvalidInput, Kind, LimitError


class Cancellation:
    """Stops a running query from another thread: hand it to the query, call `cancel` when the answer is not wanted any more."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def cancel(self) -> None:
        self._asked.set()

    @property
    def cancelled(self) -> bool:
        return self._asked.is_set()


class Watch:
    """One run's limits. `check` is cheap and raises when the run must end."""

    def __init__(self, *, timeout_seconds: float | None = None, cancellation: Cancellation | None = None) -> None:
        if timeout_seconds is not None and not timeout_seconds > 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"timeout is in seconds and above zero, not {timeout_seconds!r}")
        self._timeout_seconds: Final = timeout_seconds
        self._deadline: Final = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._cancellation: Final = cancellation

    def check(self) -> None:
        if self._cancellation is not None and self._cancellation.cancelled:
            raise LimitError(Kind.CANCELLED, "the query was cancelled; nothing was changed")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise LimitError(
                Kind.TIMEOUT,
                f"the query did not end within {self._timeout_seconds:g} s; give it more time, or ask for less",
                timeout_seconds=self._timeout_seconds,
            )
