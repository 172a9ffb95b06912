"""Storage calls on daemon threads -> a request to stop, and a bounded wait for them, when the process exits.

Python does not wait for daemon threads. If one returns from a call into Lance while the interpreter shuts down, Python ends it inside
Rust and C++ frames. This aborts the process ("terminate called without an active exception"), even if all its work is done.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Final, ParamSpec, TypeVar

LONGEST_SECONDS: Final = 10.0
"""The longest wait at exit. A process that is asked to exit must not hang on a storage call."""

# Global, because a process exits once.
_changed: Final = threading.Condition()
_leaving: Final = threading.Event()
_under_way: Final[dict[object, Callable[[], None]]] = {}
_calls: Final = threading.local()
"""`depth`: how many calls this thread is inside. At exit, only outermost calls are refused: an outer call needs its inner ones."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@contextmanager
def under_way(stop: Callable[[], None]) -> Iterator[None]:
    """Guards work that may run on a daemon thread. At exit, the process calls `stop`, waits until the work leaves this block, and lets
    no daemon thread enter a new one."""
    key = object()
    with _changed:
        too_late = _leaving.is_set() and threading.current_thread().daemon and not _depth()
        if not too_late:
            _under_way[key] = stop
    if too_late:
        threading.Event().wait()  # blocks until the process ends: here Python can end the thread safely
    _calls.depth = _depth() + 1
    try:
        yield
    finally:
        _calls.depth -= 1
        with _changed:
            _under_way.pop(key, None)  # missing in a forked child
            _changed.notify_all()


def _depth() -> int:
    return getattr(_calls, "depth", 0)


def waited_for(call: Callable[P, R]) -> Callable[P, R]:
    """Wraps a call so that, on a daemon thread, the process waits for it at exit. Python itself waits for other threads."""

    @wraps(call)
    def waited(*args: P.args, **kwargs: P.kwargs) -> R:
        if not threading.current_thread().daemon:
            return call(*args, **kwargs)
        with under_way(stop=lambda: None):
            return call(*args, **kwargs)

    return waited


def waited_for_steps(items: Iterator[T]) -> Iterator[T]:
    """The same items. The process waits for each step at exit, and may exit between two steps."""
    step = waited_for(lambda: next(items, None))
    while (item := step()) is not None:
        yield item


def waited_for_methods(cls: type[T]) -> type[T]:
    """Wraps every public method of a class with `waited_for`."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, waited_for(method))
    return cls


def wait_for_work() -> None:
    """Stops and waits for guarded work. `atexit` runs it after non-daemon threads end and before the interpreter shuts down."""
    with _changed:
        _leaving.set()
        for stop in list(_under_way.values()):
            stop()
        _changed.wait_for(lambda: not _under_way, LONGEST_SECONDS)


atexit.register(wait_for_work)
os.register_at_fork(after_in_child=_under_way.clear)
