"""A repair that dies at each boundary: the graph is before or after, shows the same rows, and the next repair finishes."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN
from omnigraph.store.durable import version_file
from tests.crash.matrix import Point, Writer, points
from tests.crasher import crash
from tests.mutations import run, table_row

WRITER = Writer("repair, main", MAIN, dict, 0)
"""It publishes what is there: no table is committed, so nobody has to undo anything."""


def moved(folder: Path) -> og.Graph:
    """A graph with a table that another program compacted."""
    graph = og.init(folder, schema="node Doc { slug: String @key  pages: I32? @index }")
    for n in range(3):
        graph.load([{"type": "Doc", "data": {"slug": f"d{n}{at:03d}", "pages": at}} for at in range(300)])
    graph.ensure_indices()
    lance.dataset(str(folder / table_row(graph, "node:Doc").path)).optimize.compact_files()
    return og.open(folder)


def check(graph: og.Graph, rows: list[str], *, lands: bool) -> None:
    for again in (graph, og.open(graph.uri)):
        assert sorted(again.export()) == rows
        assert again.repair().is_sound == lands
    graph.repair(confirm=True)
    assert graph.repair().is_sound
    run(graph, 'insert Doc { slug: "next" }')
    assert og.open(graph.uri).verify(deep=True) == []


@pytest.mark.parametrize("point", points(WRITER), ids=lambda point: f"{point.fault.value}:{point.nth}")
def test_a_death_in_the_process(tmp_path: Path, point: Point) -> None:
    """O-11: a repair is one publish, or nothing. INV-2, INV-10."""
    graph = moved(tmp_path / "g")
    rows = sorted(graph.export())
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        graph.repair(confirm=True)
    graph.refresh()
    check(graph, rows, lands=point.lands)


@pytest.mark.crash
@pytest.mark.parametrize("point", points(WRITER), ids=lambda point: f"{point.fault.value}:{point.nth}")
def test_a_killed_process(tmp_path: Path, point: Point) -> None:
    graph = moved(tmp_path / "g")
    rows = sorted(graph.export())
    done = crash("repair", graph.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.said
    graph.refresh()
    check(graph, rows, lands=point.lands)


@pytest.mark.parametrize("fault", [Fault.WRITE_PREPARED, Fault.STAGE_BEFORE_COMMIT, Fault.STAGE_AFTER_COMMIT, Fault.PUBLISH_AFTER_COMMIT])
def test_a_death_while_indexes_are_built_again(tmp_path: Path, fault: Fault) -> None:
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key  pages: I32? @index }")
    graph.load([{"type": "Doc", "data": {"slug": f"d{at:03d}", "pages": at}} for at in range(300)])
    graph.ensure_indices()
    for folder in (tmp_path / "g").glob("nodes/*/_indices/*"):
        shutil.rmtree(folder)
    fresh = og.open(graph.uri)
    with armed(fault), pytest.raises(SimulatedCrash):
        fresh.repair(confirm=True)
    after = og.open(graph.uri)
    after.repair(confirm=True)
    assert og.open(graph.uri).repair().is_sound
    assert sorted(og.open(graph.uri).export()) == sorted(graph.export())


def test_a_death_before_an_incomplete_version_is_removed(tmp_path: Path) -> None:
    """Removing it is one step; the lock before it takes no effect."""
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key }")
    run(graph, 'insert Doc { slug: "x" }')
    row = table_row(graph, "node:Doc")
    torn = tmp_path / "g" / row.path / version_file(row.version + 1)
    torn.write_bytes(b"LANC")
    for _ in range(2):  # the second finds nothing to do
        og.open(graph.uri).repair(confirm=True)
        assert not torn.exists()
    assert og.open(graph.uri).verify(deep=True) == []
