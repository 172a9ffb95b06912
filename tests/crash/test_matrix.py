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
from tests.samples import every_other

CELLS = [pytest.param(writer, point, id=f"{writer.name}-{point.fault.value}:{point.nth}") for writer in WRITERS for point in points(writer)]


@pytest.mark.parametrize(("writer", "point"), every_other(CELLS))
def test_a_death_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """RT-03: A write whose process dies with the intent stored and no table committed is undone.
    RT-04: A write whose process dies after the commit of some tables is undone: those tables are restored.
    RT-05: A write whose process dies right after the commit of the last table is finished by the next writer.
    RT-06: A write whose process dies with all tables committed, before the publication, is finished by the next writer.
    RT-07: An overwrite whose process dies there is finished too: its replacement is shown.
    RT-08: A write on a branch whose process dies is resolved on that branch, and main does not change.
    RT-09: A write whose process dies after the publication is visible; its intent is removed without a record.
    RT-13: A first write of a branch that dies before its native branch exists is undone: the branch inherits as before.
    RT-14: A first write of a branch that dies with its native branch made and no commit is undone; the native branch is removed.
    RT-15: A first write that dies between the native branches of two tables is undone, and both are removed.
    RT-48: An index build that dies between two tables is undone.
    RT-49: An index build that dies right after its last table is finished by the next writer.
    RT-50: An index build that dies before the publication is finished by the next writer.
    RT-53: An `optimize` that dies with all tables rewritten and indexed, before the publication, is finished in one commit.
    RT-54: An `optimize` that dies between two tables, or between the two commits of one, is undone, in one commit.
    RT-55: An `optimize` that dies after the publication is visible; its intent is removed, and nothing is undone.

    INV-9, INV-10, RT-01, RT-51: the next write, on the same handle, resolves it and succeeds.
    """
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        run(manifest, writer)
    check(manifest, writer, lands=point.lands, resolved=point.resolved)


@pytest.mark.parametrize(("writer", "point"), every_other(CELLS, first=1))
def test_a_failure_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """RT-02: A writer that receives an error resolves its own intent at once: it returns the receipt or the error.

    Also RT-15.
    """
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
    """A real SIGKILL; this process, which had the graph open all the while, goes on."""
    manifest = make(tmp_path / "g", *ALIASES)
    prepare(manifest, writer)
    done = crash(f"matrix {WRITERS.index(writer)}", manifest.root.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.said
    check(manifest, writer, lands=point.lands, resolved=point.resolved)
