"""Writers whose power is cut, and where: the declarations that the tests run and the page shows; and the processes that write."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import omnigraph as og
from omnigraph import faults
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from tests.crash import failing
from tests.crash.failing import GRAPH, INTERRUPTED, WORK, few, nothing, person
from tests.forks import NURSERY, is_stopped
from tests.loads import ndjson

TELLING = frozenset(
    {
        Fault.STAGE_AFTER_COMMIT,
        Fault.PUBLISH_AFTER_COMMIT,
        Fault.BRANCH_AFTER_CREATE,
        Fault.RECOVER_BEFORE_PUBLISH,
    }
)
"""Where a name has just become visible, and nothing of it was flushed."""


class Writer(NamedTuple):
    """A writer, the world it starts from, and, for a recovery, where the one before it was killed, with nothing of its work flushed."""

    name: str
    world: Callable[[Path], object]
    write: Callable[[Path, Graph | None], object]
    died_at: tuple[Fault, int] | None = None
    """A fault point, and which arrival at it."""


def heal(folder: Path, graph: Graph | None) -> None:
    """Opening for writing has healed already."""


WRITERS = (
    *(Writer(writer.name, writer.world, writer.write) for writer in failing.WRITERS if not writer.heals),
    *(
        Writer(f"recovery of a writer that died at {point.value}", few, heal, (point, nth))
        for point, nth in (
            (Fault.WRITE_BETWEEN_TABLES, 1),
            (Fault.STAGE_AFTER_COMMIT, 2),
            (Fault.WRITE_COMMITTED, 1),
            (Fault.PUBLISH_AFTER_COMMIT, 1),
        )
    ),
    Writer("write after a death at publish.after_commit", few, failing.WRITERS[0].write, (Fault.PUBLISH_AFTER_COMMIT, 1)),
)
BY_NAME = {writer.name: writer for writer in WRITERS}


def do(environment: dict[str, str], name: str, folder: str, *, dies: bool = False, log: str | None = None) -> None:
    """What the process does, from its start. With `log` it writes down the fault points that it comes by."""
    os.environ.clear()
    os.environ.update(environment)
    faults._armed = faults._from_environment()  # read when the module was imported, long ago
    if log is not None:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        threading.setprofile(tracer(descriptor))
        sys.setprofile(tracer(descriptor))
    writer = BY_NAME[name]
    graph = None if writer.world is nothing else og.open(Path(folder) / GRAPH)
    if dies:
        assert graph is not None
        graph.load(INTERRUPTED, mode="append")
    else:
        writer.write(Path(folder), graph)


def tracer(descriptor: int) -> Callable[[FrameType, str, Any], None]:
    def trace(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is faults.reach.__code__:
            os.write(descriptor, f"{frame.f_locals['point'].value}\n".encode())

    return trace


def arrivals(writer: Writer, folder: Path, log: Path) -> list[tuple[Fault, int]]:
    """Run the writer undisturbed: the fault points it came by, each with how many times before it and this time."""
    log.touch()
    process = NURSERY.Process(target=do, args=(dict(os.environ), writer.name, str(folder)), kwargs={"log": str(log)})
    process.start()
    process.join(60)
    assert process.exitcode == 0, process.exitcode
    seen: Counter[Fault] = Counter()
    found = []
    for point in map(Fault, log.read_text().split()):
        seen[point] += 1
        found.append((point, seen[point]))
    return found


def write_on(folder: str, log: str) -> None:
    """Write on and on, to main and to a branch, and log what was acknowledged: `BRANCH KEY`, a line each."""
    graph = og.open(Path(folder) / GRAPH)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for n in itertools.count():
        branch = (MAIN, WORK)[n % 2]
        graph.load(ndjson(*(person(f"{n}-{part}", "x") for part in range(1 + n % 3))), branch=branch)
        os.write(descriptor, f"{branch} {n}\n".encode())


def die(writer: Writer, folder: Path) -> None:
    """Run the write that a recovery finds, up to its death."""
    assert writer.died_at is not None
    process = NURSERY.Process(
        target=do, args=(_environment(writer.died_at[0], "kill", writer.died_at[1]), writer.name, str(folder)), kwargs={"dies": True}
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


@contextmanager
def standing(writer: Writer, folder: Path, point: Fault | None, nth: int) -> Iterator[bool]:
    """The writer at work, until it reaches a point for the `nth` time and stands still there, or is done: was it acknowledged?"""
    process = NURSERY.Process(target=do, args=(_environment(point, "stop", nth), writer.name, str(folder)))
    process.start()
    try:
        assert process.pid is not None
        until = time.monotonic() + 60
        while process.exitcode is None and not is_stopped(process.pid):
            assert time.monotonic() < until, f"{writer.name} neither ends nor reaches {point}"
            process.join(0.005)
        assert process.exitcode in (None, 0), process.exitcode
        yield process.exitcode == 0
    finally:
        process.kill()
        process.join()


class Endless:
    """A process that writes on and on, and can be made to stand still."""

    def __init__(self, folder: Path, log: Path) -> None:
        log.touch()
        self._log = log
        self._process = NURSERY.Process(target=write_on, args=(str(folder), str(log)))
        self._process.start()

    def stop_after(self, acknowledged: int) -> list[str]:
        """Let it go on until so many writes were acknowledged, then stop it wherever it is: all that were acknowledged by then."""
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGCONT)
        until = time.monotonic() + 60
        while len(self._log.read_text().splitlines()) < acknowledged:
            assert time.monotonic() < until, "it does not write on"
            assert self._process.exitcode is None, "it has ended"
            self._process.join(0.001)
        os.kill(pid, signal.SIGSTOP)
        while not is_stopped(pid):
            assert time.monotonic() < until, "it does not stop"
            self._process.join(0.001)
        return self._log.read_text().splitlines()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _environment(point: Fault | None, action: str, nth: int) -> dict[str, str]:
    return {**os.environ, **({ENVIRONMENT: f"{point.value}={action}:{nth}"} if point is not None else {})}
