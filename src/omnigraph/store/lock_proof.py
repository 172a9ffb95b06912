"""A folder on a disk -> proof that its file system's locks keep another process out, or a refusal with the remedy.

Network and stacked file systems may accept every lock and exclude nobody; then two writers recover each other's work. Only a second
process can tell. It takes 25 ms, so what it found is kept: in this process, and beside the lock files for the next ones, with
all that names the mount it was found on.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import Final

from omnigraph.errors import Kind, StorageError
from omnigraph.store import folders

PROOF: Final = os.path.join("__locks", "proven.txt")  # no lock file has a dot in its name

_REFUSED, _GRANTED = 10, 11
# Isolated and without site-packages: it starts in half the time, and nothing of the caller's can get in its way.
_CHILD: Final = f"""
import fcntl, os, sys
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os._exit({_REFUSED})
os._exit({_GRANTED})
"""
_PYTHON: Final = re.compile(r"python[0-9.]*")
_CHILD_SECONDS: Final = 30

log = logging.getLogger(__name__)

# The devices of this process whose locks are proven. It lives as long as the process, like the mounts it speaks of.
_proven: Final[set[int]] = set()


def prove_locks(folder: str, *, graph: str) -> None:
    """Refuse a file system on which a lock of ours does not keep another process out. `folder` is there; `graph` may not be yet."""
    device = os.stat(folder).st_dev
    if device in _proven:
        return
    mount = _mount(device)
    if mount is None or _read(graph) != mount:
        _prove(folder)
        if mount is not None:
            _keep(graph, mount)
    _proven.add(device)


def _prove(folder: str) -> None:
    with folders.opened(folder) as descriptor, folders.staged(descriptor, b"", sync=False) as staged:
        file = os.open(staged, os.O_RDWR | os.O_CLOEXEC, dir_fd=descriptor)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = _ask(os.path.join(folder, staged))
        finally:
            os.close(file)
    if found == _GRANTED:
        raise StorageError(
            Kind.STORAGE_UNSUPPORTED,
            f"the file system of {folder} grants one lock to two processes, so two writers could not keep out of each other's way. "
            "Nothing was written. Keep the graph on a local disk, on a network file system that is mounted with locks (NFS without "
            "`nolock`), or on an object store; reading it here with mode='r' is safe",
            path=folder,
        )
    if found != _REFUSED:
        log.warning("could not ask a second process whether the locks of %s exclude (it ended with %s)", folder, found)


def _ask(path: str) -> int | None:
    if not (sys.executable and _PYTHON.fullmatch(os.path.basename(sys.executable))):
        return None  # we live inside another program, which would not know what to do with a script
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD, path], check=False, stdin=subprocess.DEVNULL, timeout=_CHILD_SECONDS
        ).returncode
    return None


# -- what is kept


def _mount(device: int) -> bytes | None:
    """What names the mounts of a device until the machine starts again, or None where the system does not tell."""
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        with open("/proc/self/mountinfo", "rb") as mounts, open("/proc/sys/kernel/random/boot_id", "rb") as boot:
            lines = sorted(line for line in mounts if line.split()[2] == number)
            return b"".join([boot.read(), *lines]) if lines else None
    except OSError:
        return None


def _read(graph: str) -> bytes | None:
    with suppress(OSError), open(os.path.join(graph, PROOF), "rb") as file:
        return file.read()
    return None


def _keep(graph: str, mount: bytes) -> None:
    """Beside the lock files, once there are any. What cannot be kept, or is kept in part, is found out again."""
    with suppress(OSError), open(os.path.join(graph, PROOF), "wb") as file:
        file.write(mount)
