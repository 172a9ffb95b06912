"""The crash matrix: afterwards the graph is before or after, never between; HEAD is what the graph shows; the next write works."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from omnigraph.errors import Kind, OmniGraphError, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from omnigraph.manifest.read import Manifest
from omnigraph.store.tables import open_newest
from tests.crash.matrix import ALIASES, WRITERS, Point, Writer, content, next_write, points, prepare, run
from tests.crasher import crash
from tests.graphs import COMPANY, PERSON, make, reopen, row_of

Image = dict[str, set[str]]
CELLS = [pytest.param(writer, point, id=f"{writer.name}-{point.fault.value}:{point.nth}") for writer in WRITERS for point in points(writer)]


def audits(manifest: Manifest, writer: Writer) -> int:
    return sum(commit.audit is not None for commit in manifest.commits(writer.branch))


def whole(manifest: Manifest, writer: Writer) -> None:
    """HEAD equals the visible version of every table on every branch here, and no intent is left."""
    for branch in {MAIN, writer.branch}:
        for alias in ALIASES:
            row = row_of(manifest, alias, branch=branch)
            assert open_newest(manifest.root, row.path, branch=row.native).version == row.version, (branch, alias)
    assert intents.pending(manifest.root.objects) == []


def check(
    manifest: Manifest, writer: Writer, before: dict[str, set[str]], after: dict[str, set[str]], *, lands: bool, resolved: bool
) -> None:
    next_write(manifest, writer)
    expected = dict(after if lands else before)
    expected[PERSON] = expected[PERSON] | {"after"}
    assert content(manifest, writer) == expected
    assert content(reopen(manifest.root.uri), writer) == expected
    assert audits(manifest, writer) == (1 if resolved else 0)
    whole(manifest, writer)


def images(tmp_path: Path, writer: Writer) -> tuple[Image, Image]:
    """What the graph shows before and after the write, found out by doing it undisturbed."""
    twin = make(tmp_path / "twin", PERSON, COMPANY)
    prepare(twin, writer)
    before = content(twin, writer)
    run(twin, writer)
    return before, content(twin, writer)


@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_death_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """RT-01..RT-17: the next write, on the same handle, resolves what is left and succeeds."""
    before, after = images(tmp_path, writer)
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    prepare(manifest, writer)
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        run(manifest, writer)
    check(manifest, writer, before, after, lands=point.lands, resolved=point.resolved)


@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_failure_in_the_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """The failing writer resolves its own intent at once: forward, and it has its receipt; back, and it has the error."""
    before, after = images(tmp_path, writer)
    manifest = make(tmp_path / "g", PERSON, COMPANY)
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
    assert content(manifest, writer) == (after if point.lands else before)
    # An intent whose arming failed is taken back by its writer: nothing is left to resolve.
    check(manifest, writer, before, after, lands=point.lands, resolved=point.resolved and point.fault is not Fault.OBJECT_AFTER_LINK)


@pytest.mark.crash
@pytest.mark.parametrize(("writer", "point"), CELLS)
def test_a_killed_process(tmp_path: Path, writer: Writer, point: Point) -> None:
    """A real SIGKILL; this process, which had the graph open all the while, goes on."""
    before, after = images(tmp_path, writer)
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    prepare(manifest, writer)
    done = crash(f"matrix {WRITERS.index(writer)}", manifest.root.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.stderr
    check(manifest, writer, before, after, lands=point.lands, resolved=point.resolved)
