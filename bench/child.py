"""A function and its arguments -> what it cost in a process of its own: seconds, CPU seconds of all its threads, peak memory."""

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
    """One run. `result` is what the function returned."""

    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_mb: float
    result: Any


def cost_of(name: str, function: Callable[..., Any], *arguments: str) -> Cost:
    """Run a module's function in a new process, and wait for it. Arguments are texts, the result is JSON."""
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
    """The environment of a process that finds our modules compiled, as a user's second process does, wherever it is measured."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def tree_cpu_seconds() -> float:
    """CPU seconds of this process and all below it that live or were waited for (a JVM, its Python workers).

    Its own and those of children that ended come from the kernel to the microsecond, those of others from /proc in ticks.
    """
    own = sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
    ticks = sum(sum(map(int, fields[11:15])) for pid, fields in _tree().items() if pid != os.getpid())
    return own + ticks / os.sysconf("SC_CLK_TCK")


def tree_memory_bytes(field: str) -> int:
    """A field of /proc/PID/status (`VmRSS`: now, `VmHWM`: the peak) of this process and all below it that live, in sum."""
    return sum(_status_bytes(pid, field) for pid in _tree())


def _status_bytes(pid: int, field: str) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:")), 0)
    except OSError:  # it ended just now
        return 0


def _tree() -> dict[int, list[str]]:
    """This process and all below it: the fields of /proc/PID/stat behind the name."""
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    stats[int(entry)] = file.read().rpartition(")")[2].split()
            except OSError:  # it ended just now; its parent has its time
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
