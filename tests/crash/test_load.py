"""Loads that die: each mode and each source, at every boundary, on main and as the first touch of a branch."""

from __future__ import annotations

import functools
import json
import signal
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

import omnigraph as og
from omnigraph.exec.load.mode import LoadMode
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from tests.crash.matrix import WORK, Point, Writer, points
from tests.crasher import crash
from tests.loads import FIRST, OVER, SCHEMA, SECOND, SOURCES, ndjson, shown


class Row(NamedTuple):
    """One row of the matrix: a mode, and where it is loaded."""

    mode: LoadMode
    branch: str

    @property
    def writer(self) -> Writer:
        """Persons and who knows whom: two tables."""
        where = "first touch" if self.branch == WORK else "main"
        return Writer(f"load {self.mode}, {where}", WORK, dict, 2, 2 if self.branch == WORK else 0)

    @property
    def data(self) -> bytes:
        return ndjson(*(SECOND if self.mode is LoadMode.APPEND else OVER))


ROWS = [Row(mode, branch) for mode in LoadMode for branch in (MAIN, WORK)]
CELLS = [pytest.param(row, point, id=f"{row.mode}-{row.branch}-{point.fault}:{point.nth}") for row in ROWS for point in points(row.writer)]
KILLED = [
    pytest.param(row, point, id=f"{row.mode}-{row.branch}-{point.fault}:{point.nth}")
    for row in ROWS
    for point in points(row.writer)
    if point.fault
    in (Fault.WRITE_PREPARED, Fault.WRITE_AFTER_REF, Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED, Fault.PUBLISH_AFTER_COMMIT)
]


def make(folder: Path) -> Graph:
    graph = og.init(folder, schema=SCHEMA)
    graph.load(ndjson(*FIRST), mode="append")
    graph.branches.create(WORK)
    return graph


NEXT = ndjson({"type": "Person", "data": {"name": "next"}})


@functools.cache
def expected(row: Row, *, lands: bool) -> dict[str, dict[str, list[dict[str, object]]]]:
    """What each branch shows after the load, or without it, and one more; found out by doing it undisturbed, once."""
    with tempfile.TemporaryDirectory() as folder:
        twin = make(Path(folder) / "twin")
        if lands:
            twin.load(row.data, mode=row.mode, branch=row.branch)
        twin.load(NEXT, mode="append", branch=row.branch)
        return {branch: shown(twin, branch) for branch in (MAIN, WORK)}


def check(graph: Graph, row: Row, point: Point) -> None:
    """Before or after, never between; the next load works; the rest of the graph saw nothing; one audit when there was something to do."""
    graph.load(NEXT, mode="append", branch=row.branch)
    for branch in (MAIN, WORK):
        assert shown(graph, branch) == expected(row, lands=point.lands)[branch]
        assert shown(og.open(graph.uri, mode="r"), branch) == expected(row, lands=point.lands)[branch]
    assert len(graph.recoveries()) == (1 if point.resolved else 0)
    assert intents.pending(graph.engine.manifest.root.objects) == []
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


@pytest.mark.parametrize(("row", "point"), CELLS)
def test_a_load_that_dies_in_the_process(tmp_path: Path, row: Row, point: Point) -> None:
    """W-27: A load in any mode is undone or finished by the next write if it dies.

    Also RT-01.
    """
    graph = make(tmp_path / "g")
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        graph.load(row.data, mode=row.mode, branch=row.branch)
    check(graph, row, point)


@pytest.mark.crash
@pytest.mark.parametrize(("row", "point"), KILLED)
def test_a_load_whose_process_is_killed(tmp_path: Path, row: Row, point: Point) -> None:
    graph = make(tmp_path / "g")
    (tmp_path / "data.ndjson").write_bytes(row.data)
    job = json.dumps({"data": str(tmp_path / "data.ndjson"), "mode": row.mode, "branch": row.branch})
    done = crash(f"load {job}", graph.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.said
    check(graph, row, point)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", [Fault.WRITE_PREPARED, Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED, Fault.WRITE_PUBLISHED])
def test_a_load_from_each_source_that_dies(tmp_path: Path, source: str, fault: Fault) -> None:
    """Whatever the rows came from, what lands is all or nothing, and the same load can be run again."""
    graph = make(tmp_path / "g")
    before = shown(graph)
    with armed(fault), pytest.raises(SimulatedCrash):
        graph.load(SOURCES[source](OVER, tmp_path), mode="merge", token="once")
    graph.refresh()
    landed = fault in (Fault.WRITE_COMMITTED, Fault.WRITE_PUBLISHED)
    assert (shown(graph) == before) is not landed
    graph.load(SOURCES[source](OVER, tmp_path), mode="merge", token="once")
    assert [row["id"] for row in shown(graph)["node:Person"]] == ["Ada", "Ben", "Eve"]
    assert [row["id"] for row in shown(graph)["edge:Knows"]] == ["k1", "k9"]
