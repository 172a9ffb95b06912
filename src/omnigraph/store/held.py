"""A version file on a disk -> held while it is read, so that cleanup keeps the version.

A reader takes a shared lock of the file itself. It writes nothing, works on a read-only mount, and ends with its process. An object store
has nothing like it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.store.durable import version_file
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef


@contextmanager
def holding(root: Root, ref: TableRef) -> Iterator[None]:
    """Hold a version inside this block, if the storage can. A version that is missing is reported by what reads it."""
    descriptor = _open(root, ref)
    if descriptor is None:
        yield
        return
    try:
        _lock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_held(root: Root, ref: TableRef) -> bool:
    """Whether a process reads this version."""
    descriptor = _open(root, ref)
    if descriptor is None:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _open(root: Root, ref: TableRef) -> int | None:
    if not root.is_local:
        return None
    try:
        return os.open(os.path.join(root.uri, ref.home, version_file(ref.version)), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
