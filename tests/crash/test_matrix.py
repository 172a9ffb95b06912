"""The crash matrix: afterwards the graph is before or after, never between; HEAD is what the graph shows; the next write works."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from omnigraph.errors import Kind, OmniGraphError, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from tests.crash.matrix import ALIASES, WRITERS, Point, Writer, check, content, images, points, prepare, run
from tests.crasher import crash
from tests.graphs import make

CELLS = [pytest.param(writer, point, id=f"{writer.name}-{point.fault.value}:{point.nth}") for writer in WRITERS for point in points(writer)]


@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_death_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """INV-9, INV-10, RT-01, RT-03..RT-09, RT-13..RT-15, RT-48..RT-51: the next write, on the same handle, resolves it and succeeds."""
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        run(manifest, writer)
    check(manifest, writer, lands=point.lands, resolved=point.resolved)


@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_failure_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """RT-02, RT-15: the failing writer resolves its own intent at once: forward, and it has its receipt; back, and the error."""
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    failure = StorageError(Kind.STORAGE_UNAVAILABLE, "the store went away for a moment")
    acknowledged = point.lands and point.fault is not Fault.WRITE_PUBLISHED
    with armed(point.fault, after=point.nth, failure=failure):
        if acknowledged:
            run(manifest, writer)
        else:
            with pytest.raises(OmniGraphError) as caught:
                run(manifest, writer)
            assert caught.value is failure
    assert content(manifest, writer.branch) == (images(writer).after if point.lands else images(writer).before)
    # An intent whose arming failed is taken back by its writer: nothing is left to resolve.
    check(manifest, writer, lands=point.lands, resolved=point.resolved and point.fault is not Fault.OBJECT_AFTER_LINK)


@pytest.mark.crash
@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_killed_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """G-13: a real SIGKILL; this process, which had the graph open all the while, goes on."""
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    done = crash(f"matrix {WRITERS.index(writer)}", manifest.root.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.said
    check(manifest, writer, lands=point.lands, resolved=point.resolved)
