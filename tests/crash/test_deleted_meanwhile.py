"""T-06: who reads a branch that another process deletes is told that it is not there, at whatever point of the read that was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound
from omnigraph.graph import Graph
from tests.crasher import elsewhere
from tests.mutations import Racing

pytestmark = pytest.mark.crash

SCHEMA = "node A { k: String @key  n: I64?  b: Blob? }"
ALL = "query q() { match { $a: A } return { $a.k, $a.n } }"
SOME = "query q($n: I64) { match { $a: A { n: $n } } return { $a.k } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A branch `b` with rows of its own, not read here yet."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.branches.create("b")
    rows = [{"type": "A", "data": {"k": f"a{n}", "n": n, "b": "base64:aHVzaA=="}} for n in range(20)]
    graph.load(rows, branch="b")
    return graph


def delete_elsewhere(graph: Graph) -> None:
    elsewhere("forget b", graph.uri)


def query(graph: Graph) -> object:
    return graph.query(ALL, branch="b").rows


READS: dict[str, Callable[[Graph], object]] = {
    "query": query,
    "export": lambda graph: list(graph.export("b")),
    "snapshot": lambda graph: graph.snapshot("b"),
    "commits": lambda graph: graph.commits("b"),
    "blob": lambda graph: graph.blob("node", "A", "a1", "b", branch="b").read(),
    "explain": lambda graph: graph.explain(ALL, branch="b"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_warm_reader_is_told_that_the_branch_is_gone(graph: Graph, read: Callable[[Graph], object]) -> None:
    reader = og.open(graph.uri, mode="r")
    read(reader)
    delete_elsewhere(graph)
    with pytest.raises(NotFound) as caught:
        read(reader)
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND


def test_a_query_that_is_under_way_is_told_so(graph: Graph) -> None:
    """Deleted after its snapshot was taken, while it reads its parameters; its catalog is known, its tables are not open yet."""
    reader = og.open(graph.uri, mode="r")
    reader.query(SOME, params={"n": 3})
    with pytest.raises(NotFound) as caught:
        reader.query(SOME, params=Racing({"n": 4}, lambda: delete_elsewhere(graph)), branch="b")
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND


def test_an_export_that_is_under_way_is_told_so(graph: Graph) -> None:
    reader = og.open(graph.uri, mode="r")
    lines = reader.export("b")
    delete_elsewhere(graph)
    with pytest.raises(NotFound) as caught:
        list(lines)
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND


def test_a_commit_of_a_deleted_branch_is_reclaimed(graph: Graph) -> None:
    commit = graph.commits("b")[0].id
    reader = og.open(graph.uri, mode="r")
    lines = reader.export("b", at=commit)
    delete_elsewhere(graph)
    with pytest.raises(NotFound) as caught:
        list(lines)
    assert caught.value.kind is Kind.VERSION_RECLAIMED


def test_a_blob_that_was_found_is_told_so(graph: Graph) -> None:
    blob = og.open(graph.uri, mode="r").blob("node", "A", "a1", "b", branch="b")
    delete_elsewhere(graph)
    with pytest.raises(NotFound) as caught:
        blob.read()
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND
