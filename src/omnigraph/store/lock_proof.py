"""A directory on a disk -> proof that locks of its file system exclude other processes, or an error with a remedy.

Network and stacked file systems may grant every lock and exclude no process. Then two writers would each recover the work of the
other. Only a second process can test this. The test takes 25 ms, so its result is kept: in this process, and in a file beside the lock
files for other processes. The file also identifies the mount on which the test ran.
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
from omnigraph.store import directories

PROOF: Final = os.path.join("__locks", "proven.txt")  # no lock file has a dot in its name

_REFUSED, _GRANTED = 10, 11
# Isolated and without site-packages: it starts in half the time, and the caller's environment cannot affect it.
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

# The devices whose locks are proven in this process.
_proven: Final[set[int]] = set()


def prove_locks(directory: str, *, graph: str) -> None:
    """Refuses a file system whose locks do not exclude other processes. `directory` must exist; `graph` need not."""
    device = os.stat(directory).st_dev
    if device in _proven:
        return
    mount = _mount(device)
    if mount is None or _read(graph) != mount:
        _prove(directory)
        if mount is not None:
            _keep(graph, mount)
    _proven.add(device)


def _prove(directory: str) -> None:
    with directories.opened(directory) as descriptor, directories.staged(descriptor, b"", sync=False) as staged:
        file = os.open(staged, os.O_RDWR | os.O_CLOEXEC, dir_fd=descriptor)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = _ask(os.path.join(directory, staged))
        finally:
            os.close(file)
    if found == _GRANTED:
        raise StorageError(
            Kind.STORAGE_UNSUPPORTED,
            f"the file system of {directory} grants one lock to two processes, so writers cannot exclude each other. "
            "Nothing was written. Keep the graph on a local disk, on a network file system that is mounted with locks (NFS without "
            "`nolock`), or on an object store. Reading it here with mode='r' is safe",
            path=directory,
        )
    if found != _REFUSED:
        log.warning("could not test with a second process whether locks on %s exclude (it exited with %s)", directory, found)


def _ask(path: str) -> int | None:
    if not (sys.executable and _PYTHON.fullmatch(os.path.basename(sys.executable))):
        return None  # Python is embedded in another program, which cannot run a script
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD, path], check=False, stdin=subprocess.DEVNULL, timeout=_CHILD_SECONDS
        ).returncode
    return None


# -- the stored result


def _mount(device: int) -> bytes | None:
    """Identifies the mounts of a device until the next boot. Returns None if the system does not provide this."""
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
    """Stores the result beside the lock files, if their directory exists. If this fails or is incomplete, the test runs again."""
    with suppress(OSError), open(os.path.join(graph, PROOF), "wb") as file:
        file.write(mount)
