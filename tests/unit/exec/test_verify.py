"""What verification finds, and what it must not take for damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import faults
from omnigraph.faults import Fault, SimulatedCrash

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"


def add(graph: og.Graph, name: str) -> None:
    graph.mutate(
        "query add($name: String) { insert Person { name: $name }\n insert Knows { from: $name, to: $name } }", params={"name": name}
    )


def test_a_branch_that_inherits_a_table_does_not_move_with_it(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    add(graph, "Ada")
    graph.branches.create("work")
    add(graph, "Grace")
    assert graph.verify() == []


def test_what_an_intent_explains_is_no_drift(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    with pytest.raises(SimulatedCrash), faults.armed(Fault.WRITE_BETWEEN_TABLES):
        add(graph, "Ada")
    assert [finding.code for finding in og.open(tmp_path / "g", mode="r").verify()] == ["pending_intent"]
    og.open(tmp_path / "g")
    assert graph.verify() == []


def test_what_the_dead_left_waits_for_cleanup_and_is_no_error(tmp_path: Path) -> None:
    """A branch whose delete died after its visible step leaves its forks; an init that lost a race leaves tables."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    add(graph, "Ada")
    graph.branches.create("work")
    graph.mutate('query q() { insert Person { name: "Eve" } }', branch="work")
    assert graph.verify() == []
    with pytest.raises(SimulatedCrash), faults.armed(Fault.BRANCH_AFTER_DELETE):
        graph.branches.delete("work")
    stray = tmp_path / "g" / "nodes" / "0000000000000000-0000000000000000"
    stray.mkdir()
    (stray / "file").write_text("left")
    assert sorted((finding.severity.value, finding.code) for finding in graph.verify()) == [
        ("warning", "unused_ref"),
        ("warning", "unused_table"),
    ]
