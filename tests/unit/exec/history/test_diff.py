"""Two states of a graph -> the entities that differ: each once, with the right operation and exact values, in one order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound
from omnigraph.exec.history.changes import EntityChange, Op
from omnigraph.graph import Graph
from tests.mutations import run
from tests.unit.exec.history.conftest import SCHEMA


def brief(changes: object) -> list[tuple[str, str, str]]:
    assert hasattr(changes, "__iter__")
    return [(change.op.value, change.type_name, change.id) for change in changes]


def edge_id(graph: Graph, branch: str = "main") -> str:
    return str(next(change.id for change in graph.diff(graph.commits("main")[-1].id, branch, kinds=["edge"])))


def test_nothing_changed(graph: Graph) -> None:
    """D-01: Two equal states have no differences."""
    graph.branches.create("work")
    assert list(graph.diff("main", "work")) == []


def test_each_operation_is_reported_once_with_exact_values(graph: Graph) -> None:
    """D-02: Inserts, updates and deletes, cascades included, are each reported once, with the values before and after.

    D-07: An update across the first fork of a table is an update, not an insert.

    D-10: Nodes come before edges, then changes are ordered by type and id.
    """
    graph.branches.create("work")
    edge = edge_id(graph)
    run(graph, 'update Person set { age: 31, tags: [] } where name = "Alice"', branch="work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    run(graph, 'insert Person { name: "Eve", note: "" }', branch="work")
    changes = list(graph.diff("main", "work"))
    assert brief(changes) == [
        ("update", "Person", "Alice"),
        ("delete", "Person", "Bob"),
        ("insert", "Person", "Eve"),
        ("delete", "Knows", edge),
    ]
    alice, bob, eve, knows = changes
    assert alice.before is not None
    assert alice.after is not None
    assert dict(alice.before.properties) == {"name": "Alice", "age": 30, "tags": None, "note": None}
    assert dict(alice.after.properties) == {"name": "Alice", "age": 31, "tags": [], "note": None}
    assert (bob.after, eve.before, knows.after) == (None, None, None)
    assert eve.after is not None
    assert eve.after.properties["note"] == ""
    assert knows.before is not None
    assert knows.before.endpoints is not None
    assert (knows.before.endpoints.from_, knows.before.endpoints.to) == ("Bob", "Carol")
    assert brief(graph.diff("work", "main")) == [
        ("update", "Person", "Alice"),
        ("insert", "Person", "Bob"),
        ("delete", "Person", "Eve"),
        ("insert", "Knows", edge),
    ]


def test_changes_are_filtered(graph: Graph) -> None:
    """D-03: Changes can be selected by kind, type and operation."""
    graph.branches.create("work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    assert [change.kind for change in graph.diff("main", "work", kinds=["edge"])] == ["edge"]
    assert brief(graph.diff("main", "work", types=["Person"], ops=["insert"])) == [("insert", "Person", "Eve")]
    for wrong in ({"kinds": ["nodes"]}, {"types": ["Persons"]}, {"ops": ["replace"]}):
        with pytest.raises(InvalidInput):
            graph.diff("main", "work", **wrong)


def test_any_two_points_can_be_compared(graph: Graph) -> None:
    """D-04: Branches, commits of any branch, versions and times can be compared, with the same answer."""
    start = graph.commits()[0]
    graph.branches.create("work")
    run(graph, 'update Person set { age: 1 } where name = "Dan"', branch="work")
    run(graph, 'insert Person { name: "Eve" }')
    there, here = graph.commits("work")[0], graph.commits()[0]
    expected = [("update", "Person", "Dan"), ("delete", "Person", "Eve")]
    assert brief(graph.diff("main", "work")) == brief(graph.diff(here.id, there.id)) == expected
    assert brief(graph.diff(here.manifest_version, "work")) == brief(graph.diff(datetime.now(UTC), there.id)) == expected
    assert brief(graph.diff(start.created_at, here.id)) == [("insert", "Person", "Eve")]
    assert brief(og.open(graph.uri, mode="r").diff(start.id, "work")) == [("update", "Person", "Dan")]
    for wrong in ("wrok", here.id[:-1] + ("0" if here.id[-1] != "0" else "1")):
        with pytest.raises(NotFound) as caught:
            graph.diff("main", wrong)
        assert caught.value.kind is Kind.COMMIT_NOT_FOUND


def test_types_are_known_by_their_identity(graph: Graph) -> None:
    """D-05: A renamed type has no changes. A type that was dropped and added again is deleted and inserted.

    Each side is read with the schema of its time (D-14).
    """
    before = graph.commits()[0].id
    renamed = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace("Person -> Person", "Human -> Human")
    graph.apply_schema(renamed.replace("age: I32?", 'years: I32? @rename_from("age")'))
    assert list(graph.diff(before, "main")) == []
    run(graph, 'update Human set { years: 31 } where name = "Alice"')
    (change,) = graph.diff(before, "main")
    assert change.before is not None
    assert change.after is not None
    assert (change.type_name, change.before.properties["age"], change.after.properties["years"]) == ("Human", 30, 31)
    graph.apply_schema("node Thing { name: String @key }")
    graph.apply_schema(SCHEMA)
    run(graph, 'insert Person { name: "Alice" }')
    assert sorted(brief(graph.diff(before, "main", types=["Person"]))) == sorted(
        [("insert", "Person", "Alice"), *(("delete", "Person", name) for name in ("Alice", "Bob", "Carol", "Dan"))]
    )


def test_rows_rewritten_with_the_same_values_are_no_change(graph: Graph) -> None:
    """D-06: A row that was rewritten with the same values is not reported.

    D-11: A commit that changes no entity has no changes.
    """
    before = graph.commits()[0].id
    run(graph, 'update Person set { age: 30 } where name = "Alice"')
    same = graph.load(list(graph.export()), mode="overwrite").commit
    assert same is not None
    assert list(graph.diff(before, "main")) == []
    assert list(graph.commit_changes(same.id)) == []
    graph.ensure_indices()
    assert list(graph.commit_changes(graph.commits()[0].id)) == []


def test_null_and_empty_are_different_values(graph: Graph) -> None:
    """D-09: The changes of a commit are those against its first parent, and null, an empty text and an empty list are distinct.

    NZ-06: Null against an empty text, separators inside values: all are changes.
    """
    for note, tags in (("", []), (None, None), (None, ["a, b"]), (None, ["a", "b"])):
        update = '($n: String?, $t: [String]?) update Person set { note: $n, tags: $t } where name = "Alice"'
        commit = run(graph, update, {"n": note, "t": tags}).commit
        assert commit is not None
        assert brief(graph.commit_changes(commit.id)) == [("update", "Person", "Alice")]


def test_a_blob_of_the_same_length_is_a_change(tmp_path: Path) -> None:
    """D-12: A blob with other bytes of the same length is a change; one with the same bytes is none."""
    graph = og.init(tmp_path / "b", schema="node Doc { name: String @key  body: Blob?  n: I32? }")
    docs = {"a": "base64:YWE=", "b": f"base64:{'A' * 120_000}"}
    graph.load([{"type": "Doc", "data": {"name": name, "body": body}} for name, body in docs.items()])
    graph.branches.create("work")
    graph.load([{"type": "Doc", "data": {"name": "a", "body": "base64:YWI="}}], branch="work")
    run(graph, 'update Doc set { n: 1 } where name = "b"', branch="work")
    run(graph, '($n: I32?) update Doc set { n: $n } where name = "b"', {"n": None}, branch="work")
    (change,) = graph.diff("main", "work")
    assert change.before is not None
    assert change.after is not None
    assert (change.before.properties["body"], change.after.properties["body"]) == ("base64:YWE=", "base64:YWI=")


def test_commits_that_have_no_changes_to_show_say_so(graph: Graph) -> None:
    """D-13: The first commit has no parent, and a commit that drops rows with their type or property is a schema boundary."""
    with pytest.raises(ConflictError) as caught:
        graph.commit_changes(graph.commits()[-1].id)
    assert caught.value.kind is Kind.PARENTLESS_COMMIT
    for schema in (SCHEMA.replace("note: String?", ""), "node Thing { n: I32? }"):
        graph.apply_schema(schema)
        with pytest.raises(ConflictError) as caught:
            graph.commit_changes(graph.commits()[0].id)
        assert caught.value.kind is Kind.SCHEMA_BOUNDARY
    graph.apply_schema("node Other { n: I32? }")  # a type without rows is dropped
    assert list(graph.commit_changes(graph.commits()[0].id)) == []


NAMES = st.sampled_from("abcdefgh")
STEP = st.one_of(
    st.tuples(st.just("put"), NAMES, st.integers(0, 2)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("rewrite"), st.just(""), st.just(0)),
    st.tuples(st.just("bulk"), st.just(""), st.integers(0, 2)),
)


def apply(graph: Graph, model: dict[str, int], step: tuple[str, str, int], *, branch: str = "main") -> None:
    what, name, age = step
    if what == "put":
        run(graph, f'upsert Person {{ name: "{name}", age: {age} }}', branch=branch)
        model[name] = age
    elif what == "delete":
        run(graph, f'delete Person where name = "{name}"', branch=branch)
        model.pop(name, None)
    elif what == "bulk":
        many = {f"bulk{at:04}": age for at in range(1_500)}
        graph.load([{"type": "Person", "data": {"name": key, "age": value}} for key, value in many.items()], branch=branch)
        model |= many
    else:
        graph.load(list(graph.export(branch)), mode="overwrite", branch=branch)


def expected(before: dict[str, int], after: dict[str, int]) -> list[tuple[str, str, int | None, int | None]]:
    names = sorted(before.keys() | after.keys())
    return [
        ("insert" if name not in before else "delete" if name not in after else "update", name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def as_told(change: EntityChange) -> tuple[str, str, int | None, int | None]:
    old = None if change.before is None else change.before.properties["age"]
    new = None if change.after is None else change.after.properties["age"]
    return change.op.value, change.id, old, new


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(STEP, st.booleans()), max_size=8))
def test_a_diff_is_that_of_two_dicts(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[tuple[str, str, int], bool]]) -> None:
    graph = og.init(tmp_path_factory.mktemp("d") / "g", schema=SCHEMA)
    models: dict[str, dict[str, int]] = {"main": {}}
    apply(graph, models["main"], ("put", "a", 1))
    graph.branches.create("work")
    models["work"] = dict(models["main"])
    states = [("main", dict(models["main"]), graph.commits()[0].id)]
    for step, here in steps:
        branch = "main" if here else "work"
        apply(graph, models[branch], step, branch=branch)
        states.append((branch, dict(models[branch]), graph.commits(branch)[0].id))
    for _, old, first in states[:: max(1, len(states) // 3)]:
        for _, new, second in states[-2:]:
            assert [as_told(change) for change in graph.diff(first, second)] == expected(old, new)
    assert {change.op for change in graph.diff("main", "work")} <= set(Op)
