"""A function and its arguments -> its cost in a process of its own: seconds, CPU seconds of all threads, peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """The cost of one run. `result` is the return value of the function."""

    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_mb: float
    result: Any


def cost_of(name: str, function: Callable[..., Any], *arguments: str) -> Cost:
    """Run a function of a module in a new process, and wait for it. Arguments are texts, the result is JSON."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "bench.child", f"{function.__module__}:{function.__qualname__}", str(write), *arguments]
    began = time.monotonic()
    child = subprocess.Popen(command, pass_fds=[write], env=compiled())
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{name} failed")
    return Cost(name, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.loads(answer))


def compiled() -> dict[str, str]:
    """Return an environment in which Python writes bytecode, so that later processes start as fast as those of a user."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def tree_cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, running or waited for (a JVM, its Python workers).

    Those of this process and of ended children have a resolution of a microsecond, those of others one of a tick (/proc).
    """
    own = sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
    ticks = sum(sum(map(int, fields[11:15])) for pid, fields in _tree().items() if pid != os.getpid())
    return own + ticks / os.sysconf("SC_CLK_TCK")


def tree_memory_bytes(field: str) -> int:
    """Return the sum of a field of /proc/PID/status (`VmRSS`: now, `VmHWM`: the peak) over this process and its descendants."""
    return sum(_status_bytes(pid, field) for pid in _tree())


def _status_bytes(pid: int, field: str) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:")), 0)
    except OSError:  # the process has ended
        return 0


def _tree() -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat after the name, for this process and its descendants."""
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    stats[int(entry)] = file.read().rpartition(")")[2].split()
            except OSError:  # the process has ended; its time counts for its parent
                continue

    def below(pid: int) -> bool:
        while pid in stats and pid != os.getpid():
            pid = int(stats[pid][1])
        return pid == os.getpid()

    return {pid: fields for pid, fields in stats.items() if below(pid)}


def main() -> None:
    spelled, descriptor, *arguments = sys.argv[1:]
    module, _, name = spelled.partition(":")
    result = attrgetter(name)(import_module(module))(*arguments)
    with os.fdopen(int(descriptor), "w") as pipe:
        json.dump(result, pipe)


if __name__ == "__main__":
    main()
