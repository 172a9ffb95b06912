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
from typing import Final

LONGEST_SECONDS: Final = 10.0
"""A call into storage that takes longer is left to its fate: a process that was told to end must end."""

# The state of a process, as its end is.
_changed: Final = threading.Condition()
_leaving: Final = threading.Event()
_under_way: Final[dict[object, Callable[[], None]]] = {}


@contextmanager
def under_way(stop: Callable[[], None]) -> Iterator[None]:
    """Around work that may be on a daemon thread. A process that ends calls `stop`, waits until the work has left this block,
    and lets no daemon thread begin more of it."""
    key = object()
    with _changed:
        too_late = _leaving.is_set() and threading.current_thread().daemon
        if not too_late:
            _under_way[key] = stop
    if too_late:
        threading.Event().wait()  # for ever: what begins now would not end in time, and here the thread can be ended safely
    try:
        yield
    finally:
        with _changed:
            _under_way.pop(key, None)  # a forked child has forgotten it
            _changed.notify_all()


def wait_for_work() -> None:
    """Registered with `atexit`: it runs after all threads that Python waits for, and before the interpreter goes down."""
    with _changed:
        _leaving.set()
        for stop in list(_under_way.values()):
            stop()
        _changed.wait_for(lambda: not _under_way, LONGEST_SECONDS)


atexit.register(wait_for_work)
os.register_at_fork(after_in_child=_under_way.clear)
