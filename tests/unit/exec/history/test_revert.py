"""Reverts: a new commit brings the entities of one commit back to their state before, or says what was changed since."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, Unsupported
from omnigraph.exec.history.conflicts import ConflictKind
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from tests.mutations import rows, run


def content(graph: Graph) -> list[str]:
    return list(graph.export())


def commit_of(graph: Graph, text: str) -> str:
    made = run(graph, text).commit
    assert made is not None
    return made.id


def test_a_revert_is_a_commit_that_undoes_another(graph: Graph) -> None:
    before = content(graph)
    wrong = commit_of(graph, 'delete Person where name = "Bob"')  # with an edge
    later = commit_of(graph, 'update Person set { age: 7 } where name = "Dan"')
    done = graph.revert(wrong)
    assert (done.inserted, done.updated, done.deleted) == (2, 0, 0)
    assert done.commit is not None
    assert (done.commit.kind, done.commit.parents, done.commit.message) == (CommitKind.REVERT, (later,), f"revert {wrong}")
    assert rows(graph, "node:Person")["Dan"]["age"] == 7
    graph.revert(later, message="and this")
    assert content(graph) == before
    assert graph.verify() == []


def test_a_reverted_merge_goes_back_to_its_first_parent(graph: Graph) -> None:
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    run(graph, 'update Person set { age: 7 } where name = "Dan"')
    before = content(graph)
    merged = graph.merge("work").commit
    assert merged is not None
    graph.revert(merged.id)
    assert content(graph) == before
    assert graph.merge("work").outcome == "already_up_to_date"


def test_what_was_changed_since_is_in_conflict(graph: Graph) -> None:
    wrong = commit_of(graph, 'update Person set { age: 1, note: "w" } where name = "Alice"')
    run(graph, 'update Person set { age: 2 } where name = "Alice"')
    before, head = content(graph), graph.commits()[0].id
    with pytest.raises(og.MergeConflicts) as caught:
        graph.revert(wrong)
    (found,) = caught.value.facts["conflicts"]  # type: ignore[misc]
    assert (found.kind, found.id) == (ConflictKind.DIVERGENT_UPDATE, "Alice")  # type: ignore[has-type]
    assert (content(graph), graph.commits()[0].id) == (before, head)
    graph.revert(wrong, strategy="property", on_conflict="ours")
    alice = rows(graph, "node:Person")["Alice"]
    assert (alice["age"], alice["note"]) == (2, None)


def test_an_edge_that_needs_the_node_is_in_conflict(graph: Graph) -> None:
    wrong = commit_of(graph, 'insert Person { name: "Eve" }')
    run(graph, 'insert Knows { from: "Eve", to: "Dan" }')
    with pytest.raises(og.MergeConflicts) as caught:
        graph.revert(wrong)
    (found,) = caught.value.facts["conflicts"]  # type: ignore[misc]
    assert found.kind is ConflictKind.ORPHAN_EDGE  # type: ignore[has-type]


def test_what_is_undone_already_needs_no_commit(graph: Graph) -> None:
    wrong = commit_of(graph, 'insert Person { name: "Eve" }')
    run(graph, 'delete Person where name = "Eve"')
    head = graph.commits()[0].id
    assert graph.revert(wrong).commit is None
    assert graph.commits()[0].id == head


def test_commits_that_cannot_be_reverted(graph: Graph) -> None:
    head = graph.commits()[0].id
    with pytest.raises(ConflictError) as caught:
        graph.revert(graph.commits()[-1].id)
    assert caught.value.kind is Kind.PARENTLESS_COMMIT
    with pytest.raises(NotFound):
        graph.revert("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(NotFound):
        graph.revert(head, "wrok")
    with pytest.raises(InvalidInput):
        graph.revert(head, resolve={("Person", "Alice"): "ours"})
    assert graph.commits()[0].id == head
    graph.apply_schema(graph.schema.replace("note: String?", "note: String?  mail: String?"))
    with pytest.raises(ConflictError) as caught:
        graph.revert(graph.commits()[0].id)
    assert caught.value.kind is Kind.SCHEMA_BOUNDARY
    with pytest.raises(Unsupported):
        og.open(graph.uri, mode="r").revert(head)
