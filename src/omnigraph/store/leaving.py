"""Work on threads that Python does not wait for -> asked to stop, and waited for a while, when the process ends.

A daemon thread that comes back from a call into Lance while the interpreter goes down is ended inside the frames of Rust and
C++, which aborts the process ("terminate called without an active exception"), though all its work was done.
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
"""A call into storage that takes longer is left to its fate: a process that was told to end must end."""

# The state of a process, as its end is.
_changed: Final = threading.Condition()
_leaving: Final = threading.Event()
_under_way: Final[dict[object, Callable[[], None]]] = {}
_calls: Final = threading.local()
"""`depth`: how many calls this thread is in. Only the outermost can come too late: an inner one lets the outer end."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@contextmanager
def under_way(stop: Callable[[], None]) -> Iterator[None]:
    """Around work that may be on a daemon thread. A process that ends calls `stop`, waits until the work has left this block,
    and lets no daemon thread begin more of it."""
    key = object()
    with _changed:
        too_late = _leaving.is_set() and threading.current_thread().daemon and not _depth()
        if not too_late:
            _under_way[key] = stop
    if too_late:
        threading.Event().wait()  # for ever: what begins now would not end in time, and here the thread can be ended safely
    _calls.depth = _depth() + 1
    try:
        yield
    finally:
        _calls.depth -= 1
        with _changed:
            _under_way.pop(key, None)  # a forked child has forgotten it
            _changed.notify_all()


def _depth() -> int:
    return getattr(_calls, "depth", 0)


def waited_for(call: Callable[P, R]) -> Callable[P, R]:
    """The same call; made on a daemon thread, it ends before the process does. Python itself waits for other threads."""

    @wraps(call)
    def waited(*args: P.args, **kwargs: P.kwargs) -> R:
        if not threading.current_thread().daemon:
            return call(*args, **kwargs)
        with under_way(stop=lambda: None):
            return call(*args, **kwargs)

    return waited


def waited_for_steps(items: Iterator[T]) -> Iterator[T]:
    """The same items, the making of each waited for. Between two of them the process may end."""
    step = waited_for(lambda: next(items, None))
    while (item := step()) is not None:
        yield item


def waited_for_methods(cls: type[T]) -> type[T]:
    """The class, every public method of it waited for."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, waited_for(method))
    return cls


def wait_for_work() -> None:
    """Registered with `atexit`: it runs after all threads that Python waits for, and before the interpreter goes down."""
    with _changed:
        _leaving.set()
        for stop in list(_under_way.values()):
            stop()
        _changed.wait_for(lambda: not _under_way, LONGEST_SECONDS)


atexit.register(wait_for_work)
os.register_at_fork(after_in_child=_under_way.clear)
