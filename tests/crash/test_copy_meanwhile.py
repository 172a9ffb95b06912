"""A copy while another process makes, writes and deletes branches: those that stay are in it, those that go are not, and nothing fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound
from omnigraph.faults import Fault
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.crasher import asleep
from tests.mutations import run

SCHEMA = "node P { k: String @key  a: I32? }\nnode Q { k: String @key }\nedge E: P -> Q\n"
WIDER = SCHEMA + "node R { k: String @key }\n"

STORM = """
import sys, omnigraph as og
graph = og.open(sys.argv[1])
for at in range(10_000):
    name = f"passing{at % 3}"
    graph.branches.create(name)
    graph.mutate(f'query q() {{ insert P {{ k: "{name}" }} }}', branch=name)
    graph.branches.create(f"{name}-child", from_=name)
    graph.mutate(f'query q() {{ insert Q {{ k: "{name}" }} }}', branch=f"{name}-child")
    graph.branches.delete(f"{name}-child")
    graph.branches.delete(name)
    print(at, flush=True)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """`stays` and `goes` have a table of their own each, and types that main lacks; `goes-child` was made from `goes`."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "source", schema=SCHEMA)
    run(graph, 'insert P { k: "one" } insert Q { k: "one" } insert E { from: "one", to: "one" }')
    for name, parent in (("goes", "main"), ("stays", "main"), ("goes-child", "goes")):
        graph.branches.create(name, from_=parent)
        if parent == "main":
            graph.apply_schema(WIDER, branch=name)
        run(graph, f'insert P {{ k: "{name}" }} insert Q {{ k: "{name}" }} insert R {{ k: "{name}" }}', branch=name)
    run(graph, 'insert P { k: "two" }')
    return graph


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


@pytest.mark.parametrize(
    ("point", "arrival"),
    [(Fault.INIT_BETWEEN_TABLES, 1), (Fault.INIT_AFTER_MANIFEST, 1), *((Fault.STAGE_BEFORE_COMMIT, at) for at in (4, 6, 7, 8, 10))],
)
def test_branches_that_go_while_others_are_copied_are_left_out(source: Graph, tmp_path: Path, point: Fault, arrival: int) -> None:
    with asleep(f"copy {tmp_path / 'copy'}", source.uri, point, nth=arrival) as copying:
        source.branches.delete("goes-child")
        source.branches.delete("goes")
        assert copying.wake() == "done"
    copy = og.open(tmp_path / "copy")
    everything = shown(copy)
    still = shown(source)
    assert {name: everything[name] for name in still} == still
    assert copy.verify() == []


def test_a_branch_made_again_under_its_name_is_another_one(source: Graph, tmp_path: Path) -> None:
    with asleep(f"copy {tmp_path / 'copy'}", source.uri, Fault.INIT_AFTER_MANIFEST) as copying:
        source.branches.delete("goes-child")
        source.branches.delete("goes")
        source.branches.create("goes", from_="stays")
        assert copying.wake() == "done"
    assert og.open(tmp_path / "copy").branches.list() == ["main", "stays"]


def test_the_one_branch_that_is_copied_goes(source: Graph, tmp_path: Path) -> None:
    with asleep(f"copy {tmp_path / 'copy'} branch goes-child", source.uri, Fault.INIT_BETWEEN_TABLES) as copying:
        source.branches.delete("goes-child")
        assert copying.wake() == Kind.BRANCH_NOT_FOUND
        assert "branch 'goes-child' was deleted while it was copied" in copying.errors()
    assert not (tmp_path / "copy").exists()


def test_an_unknown_branch_is_not_found(source: Graph, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        source.copy_to(tmp_path / "copy", branch="nope")
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND


def test_copies_in_a_storm_of_branches(source: Graph, tmp_path: Path) -> None:
    storm = subprocess.Popen([sys.executable, "-c", STORM, source.uri], stdout=subprocess.PIPE, text=True)
    try:
        assert storm.stdout is not None
        storm.stdout.readline()
        for at in range(6):
            copy = source.copy_to(tmp_path / f"copy{at}")
            assert set(copy.branches.list()) >= {"main", "goes", "goes-child", "stays"}
            assert copy.verify() == []
            for name in ("main", "goes", "goes-child", "stays"):
                assert list(copy.export(name)) == list(source.export(name))
        assert storm.poll() is None
    finally:
        storm.kill()
        storm.wait()
