"""Nothing -> a directory for a graph that nobody keeps, in memory where the system can, and what removes it.

Lance can hold tables at `memory://`, but only tables: the store that holds the branches and locks of a graph has a memory of its own, and
neither sees the other's objects. So the directory itself is in memory. A graph in it is like all others: locks, recovery and other
processes work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

MEMORY_DIRECTORY: Final = "/dev/shm"  # no file of a fixed name is made in it


class TemporaryDirectory(NamedTuple):
    """A new directory of this process, and what removes it. In a forked process `remove` has no effect."""

    path: str
    remove: Callable[[], None]


def temporary_directory() -> TemporaryDirectory:
    """Make a directory in memory, or, where the system has no `/dev/shm`, among the temporary files."""
    in_memory = os.access(MEMORY_DIRECTORY, os.W_OK | os.X_OK)
    path = tempfile.mkdtemp(prefix="omnigraph-", dir=MEMORY_DIRECTORY if in_memory else None)
    return TemporaryDirectory(path, partial(_remove, path, os.getpid()))


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
