"""Differences and merges of states whose rows were rewritten in between: the same as without, whatever is known about the rewriting."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import RecoveryRequired
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.store.difference import TRACED_ROWS

SCHEMA = "node Person { name: String @key  age: I32? @index }"
PEOPLE = TRACED_ROWS + 900


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """People in three fragments, one of them deleted, and a branch."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for part in range(3):
        here = range(part, PEOPLE, 3)
        graph.load({"Person": pa.table({"name": [f"p{at}" for at in here], "age": pa.array(list(here), pa.int32())})}, mode="append")
    mutate(graph, 'delete Person where name = "p2"')
    graph.branches.create("work")
    return graph


def mutate(graph: Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def put(graph: Graph, name: str, age: int, branch: str = "main") -> None:
    mutate(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)


def differences(graph: Graph, one: str, other: str) -> list[tuple[str, str]]:
    return [(change.id, change.op.value) for change in graph.diff(one, other)]


def ages(graph: Graph, *names: str) -> list[int | None]:
    found = {row["name"]: row["age"] for row in graph.query("match { $p: Person } return { $p.name as name, $p.age as age }").rows}
    return [found.get(name) for name in names]


@pytest.mark.parametrize("tidied", [(), ("main",), ("work",), ("main", "work"), ("work", "main", "main")], ids=str)
def test_a_merge_brings_the_changes_and_no_others(graph: Graph, tidied: tuple[str, ...]) -> None:
    """D-11: rows of the target are found where they were moved to, also if both sides moved them, and moved them again."""
    put(graph, "p5", 1, "work")
    put(graph, "p6", 2)
    for branch in tidied:
        graph.optimize(branch)
        put(graph, "p7", 3 if branch == "work" else 4, branch)
        mutate(graph, f'delete Person where name = "p{8 if branch == "work" else 9}"', branch)
    mutate(graph, 'delete Person where name = "p10"', "work")
    if "work" in tidied and "main" in tidied:
        assert {conflict.id for conflict in graph.merge("work", dry_run=True).conflicts} == {"p7"}
        put(graph, "p7", 3)
    merged = graph.merge("work")
    assert (merged.inserted, merged.updated, merged.deleted) == (0, 2 if tidied == ("work",) else 1, 2 if "work" in tidied else 1)
    assert ages(graph, "p5", "p6", "p10") == [1, 2, None]
    assert graph.verify(deep=True) == []


def test_a_difference_across_an_optimize_on_each_side_is_what_changed(graph: Graph) -> None:
    graph.optimize()
    put(graph, "p5", 1)
    graph.branches.create("late")
    graph.optimize("work")  # it owns nothing yet
    put(graph, "p6", 2, "work")
    graph.optimize("work")
    put(graph, "p7", 3, "late")
    assert differences(graph, "main", "late") == [("p7", "update")]
    assert differences(graph, "work", "late") == [("p5", "update"), ("p6", "update"), ("p7", "update")]
    assert differences(graph, "late", "work") == [("p5", "update"), ("p6", "update"), ("p7", "update")]


def test_an_optimize_that_another_process_finished_changes_nothing(graph: Graph) -> None:
    """Its publication has no record of the rows that it moved, so they are compared by their values."""
    before = graph.commits(limit=1)[0].id
    with pytest.raises((SimulatedCrash, RecoveryRequired)), armed(Fault.WRITE_COMMITTED):
        graph.optimize()
    found = og.open(graph.uri)
    assert found.commits(limit=1)[0].kind == "optimize"
    assert found.engine.manifest.origins(MAIN) == {}
    put(found, "p5", 1)
    assert differences(found, before, "main") == [("p5", "update")]


def test_a_cleanup_takes_nothing_that_a_difference_needs(graph: Graph) -> None:
    """The record is in the history. The versions between both states are gone."""
    put(graph, "p5", 1, "work")
    for age in range(3):
        put(graph, "p6", age)
        graph.optimize()
    graph.cleanup(keep=1)
    assert differences(graph, "main", "work") == [("p5", "update"), ("p6", "update")]
    assert graph.merge("work").updated == 1
    assert ages(graph, "p5", "p6") == [1, 2]
