"""A time limit and a way to stop -> the question every long piece of work asks between its parts: may I go on?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Final, TypeVar

from omnigraph.errors import InvalidInput, Kind, LimitError
from omnigraph.store.leaving import under_way

ASKED_SECONDS: Final = 0.01
"""How often somebody who waits asks whether to go on waiting."""

T = TypeVar("T")


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
        if timeout_seconds is not None and not (isinstance(timeout_seconds, int | float) and timeout_seconds > 0):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"timeout is in seconds and above zero, not {timeout_seconds!r}")
        if cancellation is not None and not isinstance(cancellation, Cancellation):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"cancellation is an omnigraph.Cancellation, not {cancellation!r}")
        self._timeout_seconds: Final = timeout_seconds
        self._deadline: Final = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._cancellation: Final = cancellation
        self._ending: Final = threading.Event()

    def check(self) -> None:
        if self._ending.is_set():
            raise LimitError(Kind.CANCELLED, "the process ends; nothing was changed")
        if self._cancellation is not None and self._cancellation.cancelled:
            raise LimitError(Kind.CANCELLED, "the query was cancelled; nothing was changed")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise LimitError(
                Kind.TIMEOUT,
                f"the query did not end within {self._timeout_seconds:g} s; give it more time, or ask for less",
                timeout_seconds=self._timeout_seconds,
            )

    def guard(self, work: Callable[[], T]) -> T:
        """What `work` returns, unless the run must end before. Nothing stops a call into storage, but nobody has to wait for it:
        work that is left behind ends at its next `check`, or is done (an adjacency, say, which then serves the next query).

        A process that ends waits for it, and for work on daemon threads: Python must not be taken down under a thread that is inside Lance.
        """
        if self._deadline is None and self._cancellation is None:
            return self._alone(work)
        self.check()
        done: Future[T] = Future()
        threading.Thread(target=self._fulfil, args=(done, work), name="omnigraph-query").start()
        while True:
            try:
                return done.result(ASKED_SECONDS)
            except NotYet:
                if done.done():  # the work's own
                    raise
                self.check()

    def _alone(self, work: Callable[[], T]) -> T:
        with under_way(stop=self._ending.set):
            return work()

    def _fulfil(self, done: Future[T], work: Callable[[], T]) -> None:
        try:
            done.set_result(self._alone(work))
        except BaseException as error:  # noqa: BLE001  # whatever it is belongs to the caller
            done.set_exception(error)
