"""Writers whose power is cut, and where: the declarations that the tests run and the page shows; and the processes that write."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import omnigraph as og
from omnigraph import faults
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.graph import Graph
from tests.crash import failing
from tests.crash.failing import GRAPH, INTERRUPTED, few, nothing
from tests.crasher import NURSERY

TELLING = frozenset(
    {
        Fault.STAGE_AFTER_COMMIT,
        Fault.WRITE_AFTER_REF,
        Fault.WRITE_COMMITTED,
        Fault.PUBLISH_AFTER_COMMIT,
        Fault.PUBLISH_AFTER_SYNC,
        Fault.BRANCH_AFTER_CREATE,
        Fault.INIT_AFTER_MANIFEST,
        Fault.RECOVER_BEFORE_PUBLISH,
        Fault.RECOVER_AFTER_PUBLISH,
    }
)
"""Where a name has just become visible, or something was just flushed."""


class Writer(NamedTuple):
    """A writer, the world it starts from, and, for a recovery, where the one before it was killed, with nothing of its work flushed."""

    name: str
    world: Callable[[Path], Graph | None]
    write: Callable[[Path, Graph | None], object]
    died_at: Fault | None = None


def interrupted_write(folder: Path, graph: Graph | None) -> object:
    assert graph is not None
    return graph.load(INTERRUPTED, mode="append")


def heal(folder: Path, graph: Graph | None) -> object:
    """Opening for writing has healed already."""
    return graph


WRITERS = (
    *(Writer(writer.name, writer.world, writer.write) for writer in failing.WRITERS if not writer.heals),
    *(
        Writer(f"recovery of a writer that died at {point.value}", few, heal, point)
        for point in (Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED, Fault.PUBLISH_AFTER_COMMIT)
    ),
)
BY_NAME = {writer.name: writer for writer in WRITERS}


def do(environment: dict[str, str], name: str, folder: str, *, dies: bool) -> None:
    """What the process does, from its start."""
    os.environ.clear()
    os.environ.update(environment)
    faults._armed = faults._from_environment()  # read when the module was imported, long ago
    writer = BY_NAME[name]
    graph = None if writer.world is nothing else og.open(Path(folder) / GRAPH)
    (interrupted_write if dies else writer.write)(Path(folder), graph)


def die(writer: Writer, folder: Path) -> None:
    """Run the write that a recovery finds, up to its death."""
    process = NURSERY.Process(target=do, args=(_environment(writer.died_at, "kill", 1), writer.name, str(folder)), kwargs={"dies": True})
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


@contextmanager
def standing(writer: Writer, folder: Path, point: Fault | None, nth: int) -> Iterator[bool]:
    """The writer at work, until it reaches a point for the `nth` time and stands still there, or is done: was it acknowledged?"""
    process = NURSERY.Process(target=do, args=(_environment(point, "stop", nth), writer.name, str(folder)), kwargs={"dies": False})
    process.start()
    try:
        assert process.pid is not None
        until = time.monotonic() + 60
        while process.exitcode is None and not _is_stopped(process.pid):
            assert time.monotonic() < until, f"{writer.name} neither ends nor reaches {point}"
            process.join(0.005)
        assert process.exitcode in (None, 0), process.exitcode
        yield process.exitcode == 0
    finally:
        process.kill()
        process.join()


def _environment(point: Fault | None, action: str, nth: int) -> dict[str, str]:
    return {**os.environ, **({ENVIRONMENT: f"{point.value}={action}:{nth}"} if point is not None else {})}


def _is_stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state == "T"
