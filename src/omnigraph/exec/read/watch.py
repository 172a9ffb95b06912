"""A time limit and a cancellation -> a check that long operations call between their parts; it raises if the query must stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Final, Never, TypeVar

from omnigraph.arguments import checked_methods
from omnigraph.errors import InvalidInput, Kind, LimitError, Unsupported
from omnigraph.store.leaving import under_way

POLL_SECONDS: Final = 0.01
"""The interval at which a waiting caller checks for a timeout or a cancellation."""

T = TypeVar("T")


@checked_methods()
class Cancellation:
    """Stops a running query from another thread. Pass it to the query, and call `cancel` when the result is not needed any more."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    def __reduce__(self) -> Never:
        what = "a cancellation stops queries of its own process and cannot be copied or sent to another"
        raise Unsupported(Kind.UNSUPPORTED, what)

    def cancel(self) -> None:
        """Stop the query, which fails with the kind `cancelled`."""
        self._requested.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the call of `cancel`, as long as `seconds`. Returns whether it came."""
        return self._requested.wait(seconds)


class Watch:
    """The limits of one run. `check` is cheap and raises if the run must stop."""

    def __init__(self, *, timeout_seconds: float | None = None, cancellation: Cancellation | None = None) -> None:
        if timeout_seconds is not None and not (isinstance(timeout_seconds, int | float) and timeout_seconds > 0):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"timeout must be a number of seconds above zero, not {timeout_seconds!r}")
        if cancellation is not None and not isinstance(cancellation, Cancellation):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"cancellation must be an omnigraph.Cancellation, not {cancellation!r}")
        self._timeout_seconds: Final = timeout_seconds
        self._deadline: Final = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._cancellation: Final = cancellation
        self._exiting: Final = threading.Event()

    def check(self) -> None:
        if self._exiting.is_set():
            raise LimitError(Kind.CANCELLED, "the process is exiting; nothing was changed")
        if self._cancellation is not None and self._cancellation.cancelled:
            raise LimitError(Kind.CANCELLED, "the query was cancelled; nothing was changed")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise LimitError(
                Kind.TIMEOUT,
                f"the query did not finish within {self._timeout_seconds:g} s; increase the timeout, or narrow the query",
                timeout_seconds=self._timeout_seconds,
            )

    def guard(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, or raise once a limit is exceeded.

        A call into storage cannot be interrupted. Work with limits therefore runs on another thread, and the caller does not wait for it
        after a limit is exceeded. Abandoned work stops at its next `check`, or completes (an adjacency, for example, then serves the next
        query). The process waits for it before it exits, as it does for work on daemon threads: the interpreter must not shut down while a
        thread is inside Lance.
        """
        if self._deadline is None and self._cancellation is None:
            return self._run(work)
        self.check()
        done: Future[T] = Future()
        threading.Thread(target=self._fulfil, args=(done, work), name="omnigraph-query").start()
        while True:
            try:
                return done.result(POLL_SECONDS)
            except FutureTimeout:
                if done.done():  # `work` itself raised TimeoutError
                    raise
                self.check()

    def _run(self, work: Callable[[], T]) -> T:
        with under_way(stop=self._exiting.set):
            return work()

    def _fulfil(self, done: Future[T], work: Callable[[], T]) -> None:
        try:
            done.set_result(self._run(work))
        except BaseException as error:  # noqa: BLE001  # every error is passed on to the caller
            done.set_exception(error)
