"""Transactions of processes that are killed before the end of the block, or that race: all of a transaction is shown, or nothing."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import Fault
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.manifest.registry import all_branches
from tests.crasher import asleep, crash, elsewhere

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
STATEMENTS = ('insert Person { name: "d" }', 'delete Person where name = "b"')
BEFORE = ["a", "b", "c"]
AFTER = ["a", "c", "d"]


def make(folder: Path) -> Graph:
    graph = og.init(folder / "g", schema=SCHEMA)
    people = " ".join(f'insert Person {{ name: "{name}" }}' for name in BEFORE)
    graph.mutate(f'query q() {{ {people} insert Knows {{ from: "a", to: "b" }} }}')
    graph.branches.create("work")
    return graph


def names(graph: Graph, branch: str) -> list[str]:
    return [row["name"] for row in graph.query("match { $p: Person } return { $p.name as name } order { name }", branch=branch).rows]


def doing(branch: str, *statements: str) -> str:
    return f"transact {branch} {json.dumps(statements)}"


# The first arrivals at these points are those of the statements, on the private branch.
POINTS = [
    (Fault.BRANCH_BEFORE_CREATE, 1),
    (Fault.BRANCH_AFTER_CREATE, 1),
    (Fault.WRITE_PREPARED, 1),
    (Fault.WRITE_ARMED, 1),
    (Fault.WRITE_AFTER_REF, 1),
    (Fault.STAGE_AFTER_COMMIT, 1),
    (Fault.WRITE_PUBLISHED, 1),
    (Fault.WRITE_PREPARED, 2),
    (Fault.STAGE_AFTER_COMMIT, 2),
    (Fault.WRITE_PUBLISHED, 2),
]


@pytest.mark.crash
@pytest.mark.parametrize("branch", ["main", "work"])
@pytest.mark.parametrize(("fault", "nth"), POINTS, ids=lambda value: str(value))
def test_a_process_killed_inside_the_block(tmp_path: Path, fault: Fault, nth: int, branch: str) -> None:
    """Nothing is shown, nothing has to be repaired, and the branch goes on."""
    graph = make(tmp_path)
    head = graph.commits(branch)[0].id
    died = crash(doing(branch, *STATEMENTS), graph.uri, fault, nth=nth)
    assert died.returncode == -signal.SIGKILL, died.said
    assert names(graph, branch) == BEFORE
    found = og.open(graph.uri)
    assert found.branches.list() == ["main", "work"]
    assert intents.pending(found.engine.root.objects) == []
    assert [finding for finding in found.verify(deep=True) if finding.severity == "error"] == []
    assert found.commits(branch)[0].id == head
    elsewhere(doing(branch, *STATEMENTS), graph.uri)
    assert names(found, branch) == AFTER
    found.branches.delete("work")
    left = all_branches(found.engine.root.objects)
    assert len(left) == (
        1 if branch == "main" and fault is not Fault.BRANCH_BEFORE_CREATE and fault is not Fault.BRANCH_AFTER_CREATE else 0
    )
    assert [finding for finding in found.verify() if finding.severity == "error"] == []


@pytest.mark.crash
@pytest.mark.parametrize("fault", [Fault.BRANCH_BEFORE_DELETE, Fault.BRANCH_AFTER_DELETE, Fault.BRANCH_BEFORE_DROP])
def test_a_process_killed_after_its_commit(tmp_path: Path, fault: Fault) -> None:
    graph = make(tmp_path)
    died = crash(doing("main", *STATEMENTS), graph.uri, fault)
    assert died.returncode == -signal.SIGKILL, died.said
    assert names(graph, "main") == AFTER
    assert graph.commits()[0].kind == "transaction"
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


@pytest.mark.crash
def test_a_transaction_that_another_overtakes(tmp_path: Path) -> None:
    """Each compares itself with what the other committed: disjoint changes both land, and others are conflicts."""
    graph = make(tmp_path)
    with asleep(doing("main", 'insert Person { name: "x" }'), graph.uri, Fault.WRITE_PREPARED, nth=2) as slow:
        elsewhere(doing("main", 'insert Person { name: "y" }'), graph.uri)
        assert slow.wake() == "done", slow.errors()
    assert names(graph, "main") == ["a", "b", "c", "x", "y"]
    count = len(graph.commits())
    with asleep(
        doing("main", 'update Person set { age: 1 } where name != "x"', 'insert Person { name: "z" }'),
        graph.uri,
        Fault.WRITE_PREPARED,
        nth=3,
    ) as slow:
        elsewhere(doing("main", 'update Person set { age: 2 } where name = "a"'), graph.uri)
        assert slow.wake() == "merge_conflicts"
    assert len(graph.commits()) == count + 1
    assert names(graph, "main") == ["a", "b", "c", "x", "y"]
    assert all_branches(graph.engine.root.objects) == ["work"]
    assert graph.verify() == []


@pytest.mark.crash
def test_processes_at_once(tmp_path: Path) -> None:
    graph = make(tmp_path)
    count = len(graph.commits())
    tasks = [doing("main", f'insert Person {{ name: "p{n}" }}', f'insert Person {{ name: "q{n}" }}') for n in range(4)]
    with ThreadPoolExecutor(len(tasks)) as pool:
        list(pool.map(lambda task: elsewhere(task, graph.uri), tasks))
    assert names(graph, "main") == ["a", "b", "c", *(f"p{n}" for n in range(4)), *(f"q{n}" for n in range(4))]
    assert len(graph.commits()) == count + len(tasks)
    assert all_branches(graph.engine.root.objects) == ["work"]
    assert graph.verify() == []
