"""The history of one entity: every commit that changed it, with the values before and after, through branches, merges and renames."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.graph import Graph
from tests.mutations import run


def told(graph: Graph, id_: str = "Alice", branch: str = "main", type_: str = "Person") -> list[tuple[str, object, object]]:
    found = []
    for entry in graph.log(type_, id_, branch):
        old, new = (None if image is None else image.properties["age"] for image in (entry.change.before, entry.change.after))
        found.append((entry.change.op.value, old, new))
    return found


def test_every_change_is_told_newest_first(graph: Graph) -> None:
    run(graph, 'update Person set { age: 31 } where name = "Alice"')
    run(graph, 'update Person set { age: 9 } where name = "Bob"')  # the same table, another entity
    run(graph, 'update Person set { age: 31 } where name = "Alice"')  # the same value
    run(graph, 'delete Person where name = "Alice"')
    run(graph, 'insert Person { name: "Alice", age: 1 }')
    assert told(graph) == [("insert", None, 1), ("delete", 31, None), ("update", 30, 31), ("insert", None, 30)]
    assert [entry.commit.actor for entry in graph.log("Person", "Alice")] == ["act-maker"] * 4
    assert told(graph, "Nobody") == []


def test_the_log_of_a_branch_goes_on_in_its_parent(graph: Graph) -> None:
    graph.branches.create("work")
    run(graph, 'update Person set { age: 40 } where name = "Alice"', branch="work")
    run(graph, 'update Person set { age: 50 } where name = "Alice"')
    assert told(graph, branch="work") == [("update", 30, 40), ("insert", None, 30)]
    assert told(graph) == [("update", 30, 50), ("insert", None, 30)]


def test_a_merge_is_told_by_the_commits_that_it_merged(graph: Graph) -> None:
    graph.branches.create("work")
    for age in (40, 41):
        run(graph, f'update Person set {{ age: {age} }} where name = "Alice"', branch="work")
    run(graph, 'insert Person { name: "New" }')
    theirs = [commit.id for commit in graph.commits("work")[:2]]
    merged = graph.merge("work").commit
    assert merged is not None
    assert [entry.commit.id for entry in graph.log("Person", "Alice")][:2] == theirs
    assert told(graph) == [("update", 40, 41), ("update", 30, 40), ("insert", None, 30)]
    graph.branches.delete("work")
    assert told(graph) == [("update", 30, 41), ("insert", None, 30)]
    assert next(iter(graph.log("Person", "Alice"))).commit.id == merged.id


def test_a_blended_entity_is_told_by_the_merge(graph: Graph) -> None:
    graph.branches.create("work")
    run(graph, 'update Person set { age: 40 } where name = "Alice"', branch="work")
    run(graph, 'update Person set { note: "n" } where name = "Alice"')
    merged = graph.merge("work", strategy="property").commit
    assert merged is not None
    assert next(entry.commit.id for entry in graph.log("Person", "Alice")) == merged.id
    assert told(graph) == [("update", 30, 40), ("update", 30, 30), ("insert", None, 30)]


def test_names_may_change_and_must_exist(graph: Graph) -> None:
    schema = graph.schema.replace("node Person {", 'node Human @rename_from("Person") {').replace("Person -> Person", "Human -> Human")
    graph.apply_schema(schema + "\nnode Knows { name: String @key }")
    run(graph, 'update Human set { age: 31 } where name = "Alice"')
    assert told(graph, type_="Human") == [("update", 30, 31), ("insert", None, 30)]
    with pytest.raises(NotFound):
        graph.log("Person", "Alice")
    with pytest.raises(InvalidInput):
        graph.log("Knows", "x")
    assert list(graph.log("Knows", "x", kind="node")) == []
    with pytest.raises(InvalidInput, match="'node' or 'edge', not 'nodes'"):
        graph.log("Knows", "x", kind="nodes")
