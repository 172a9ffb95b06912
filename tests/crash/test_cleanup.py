"""Cleanups that are killed between any two effects, and cleanups that race with writers and with creators of branches and tags."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound, OmniGraphError, StorageError
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.store.reclaim import existing_versions
from omnigraph.store.refs import native_refs
from tests.crasher import crash, elsewhere

pytestmark = pytest.mark.crash

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Firm { name: String @key }\nedge Knows: Person -> Person"
NAMES = "match { $p: Person } return { $p.name as name } order { name }"

ARRIVALS = {
    Fault.CLEANUP_AFTER_FLOOR: 2,
    Fault.CLEANUP_AFTER_FENCE: 2,
    Fault.CLEANUP_AFTER_HISTORY: 2,
    Fault.CLEANUP_BEFORE_FORK: 2,
    Fault.CLEANUP_AFTER_FORK: 2,
    Fault.CLEANUP_BEFORE_TABLE: 4,
    Fault.CLEANUP_AFTER_TABLE: 4,
    Fault.OBJECT_BEFORE_LINK: 4,
    Fault.OBJECT_AFTER_LINK: 4,
}
"""How often the cleanup of `make` passes each point: two branches with old commits, two unused forks, three tables and a fork."""


def make(folder: Path) -> Graph:
    """A graph with old commits on two branches, a branch without writes, a tag, and what a failed deletion of a branch left."""
    graph = og.init(folder / "g", schema=SCHEMA)
    graph.load([{"type": "Firm", "data": {"name": "f"}}])
    for name in "abc":
        add(graph, name)
    graph.tags.create("tagged")
    for name in "lazy", "work", "gone":
        graph.branches.create(name)
    for name in "de":
        add(graph, name)
    for branch in "work", "gone":
        for name in "xyz":
            add(graph, name, branch)
    with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
        graph.branches.delete("gone")
    return graph


def add(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def names(graph: Graph, branch: str = "main", at: str | None = None) -> str:
    return "".join(row["name"] for row in graph.query(NAMES, branch=branch, at=at).rows)


def shown(graph: Graph) -> dict[str, str]:
    """All that cleanup must leave as it is."""
    found = {branch: names(graph, branch) for branch in ("main", "lazy", "work")}
    return {**found, "tagged": names(graph, at="tagged"), "before": names(graph, at=graph.commits()[1].id)}


def stored(graph: Graph) -> dict[str, list[int]]:
    """The versions of every table and native branch, `__manifest` included."""
    root = graph.engine.root
    paths = ["__manifest", *(row.path for row in graph.engine.snapshot().state.tables.values())]
    lines = [(path, native) for path in paths for native in (None, *native_refs(root, path))]
    return {f"{path} {native}": existing_versions(root, path, branch=native) for path, native in lines}


def sound(graph: Graph) -> None:
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


@pytest.mark.parametrize(("point", "nth"), [(point, nth + 1) for point, times in ARRIVALS.items() for nth in range(times)], ids=str)
def test_a_cleanup_that_is_killed(tmp_path: Path, point: Fault, nth: int) -> None:
    """B-28: What it must leave is there, every commit that can be opened can be read, writers go on, and the next cleanup finishes."""
    graph = make(tmp_path)
    before = shown(graph)
    died = crash("cleanup 2", graph.uri, point, nth=nth)
    assert died.returncode == -signal.SIGKILL, f"{point} was not reached: {died.said}"
    found = og.open(graph.uri)
    assert intents.pending(found.engine.root.objects) == []
    assert shown(found) == before
    sound(found)
    for branch in "main", "work":
        for commit in found.commits(branch):
            try:
                found.snapshot(at=commit.id)
            except NotFound:
                continue
            names(found, at=commit.id)
    elsewhere("cleanup 2", graph.uri)
    assert shown(found) == before
    assert found.verify(deep=True) == []
    assert found.cleanup(keep=2, dry_run=True).versions == 0
    kept = {line: len(versions) for line, versions in stored(found).items() if not line.startswith("__manifest")}
    assert sorted(kept.values()) == [1, 1, 2, 3]
    add(found, "n")
    add(found, "n", "work")
    add(found, "n", "lazy")
    assert [names(found, branch) for branch in ("main", "work", "lazy")] == ["abcden", "abcnxyz", "abcn"]


def test_an_undisturbed_cleanup_passes_each_point_that_often(tmp_path: Path) -> None:
    graph = make(tmp_path)
    for point, times in ARRIVALS.items():
        if not point.value.startswith("object."):
            assert crash("cleanup 2", make(tmp_path / point.name).uri, point, nth=times + 1).returncode == 0
    assert graph.cleanup(keep=2).forks
    with pytest.raises(OmniGraphError):
        names(graph, "gone")
