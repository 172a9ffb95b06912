"""Mutations with their values filled in, and the tables they may touch."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.lang.query import Comparison, Insertion
from omnigraph.plan.expr import DATETIME, STRING, Constant, Field, Value
from omnigraph.plan.ir import (
    UNKNOWN,
    Arithmetic,
    Compare,
    Decided,
    Expr,
    FunctionCall,
    LogicalLimit,
    LogicalProject,
    expr_fields,
    fields_of,
)
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import ROW
from omnigraph.plan.writes import DeleteEdges, DeleteNodes, InsertEdge, InsertNode, MatchedChanges, MutationPlan, UpdateRows, plan_mutation
from tests.unit.plan.cinema import cinema, mutation_of

NOW = 1_700_000_000_000


def planned(text: str, given: object = None) -> MutationPlan:
    mutation = mutation_of(text)
    return plan_mutation(mutation, bind_parameters(mutation.parameters, given), now_ms=NOW)


def constants(values: dict[str, Expr]) -> dict[str, Value]:
    found = {name: value.value for name, value in values.items() if isinstance(value, Constant)}
    assert len(found) == len(values)
    return found


def test_values_are_what_columns_hold() -> None:
    insert, edge, update = planned(
        "($n: String, $r: F64?) insert Person { name: $n, born: 5 } insert Influenced { from: $n, to: $n, strength: 0.1 }"
        " update Film set { rating: $r, added_at: now(), vec: [1, 0.5, 0], genres: [] } where year >= 1979.5",
        {"n": "Eve"},
    ).statements
    assert isinstance(insert, InsertNode)
    assert constants(insert.values) == {"name": "Eve", "born": 5}
    assert isinstance(edge, InsertEdge)
    assert edge.source == edge.target == Constant(STRING, "Eve")
    assert constants(edge.values) == {"strength": 0.10000000149011612}
    assert isinstance(update, UpdateRows)
    assert constants(update.values) == {"rating": None, "added_at": NOW, "vec": (1.0, 0.5, 0.0), "genres": ()}
    assert isinstance(update.where, Compare)
    assert update.where.operator is Comparison.GT
    assert isinstance(update.where.right, Constant)
    assert update.where.right == Constant(update.where.right.type, 1979)


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("($n: String?) insert Person { name: $n }", {}, "insert @key property 'name' cannot contain null"),
        ('($t: String?) insert Film { slug: "x", title: $t, year: 1, status: "draft" }', {}, "non-nullable property 'title'"),
        ("($n: String?) insert ActedIn { from: $n, to: $n }", {}, "edge endpoint 'from' cannot be null"),
        ('($b: I64) update Person set { born: $b } where name = "x"', {"b": 2**40}, "integer value 1099511627776 exceeds Int32 range"),
        ('($b: F64) update Person set { born: $b } where name = "x"', {"b": 1.0}, "cannot convert Float(1.0) to Int32"),
        ('($s: F64) insert Influenced { from: "a", to: "b", strength: $s }', {"s": 1e300}, "exceeds Float32 range"),
    ],
)
def test_values_a_column_cannot_hold(text: str, given: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(text, given)
    assert message in caught.value.message


def test_predicates_compare_by_value_and_null_matches_nothing() -> None:
    where = [
        statement.where
        for statement in planned(
            "($b: I32?, $g: [String]) delete Person where born = $b delete Person where born < 3000000000 delete Film where genres = $g",
            {"g": ["x"]},
        ).statements
        if isinstance(statement, DeleteNodes)
    ]
    assert where[0] == UNKNOWN
    assert [test.truth for test in where[1:] if isinstance(test, Decided)] == [True, False]


def test_deletes_know_their_cascades() -> None:
    nodes, edges = planned('delete Person where name = "Ada" delete ActedIn where from = "Ben"').statements
    assert isinstance(nodes, DeleteNodes)
    assert [(cascade.type.name, cascade.at_source, cascade.at_target) for cascade in nodes.cascades] == [
        ("ActedIn", True, False),
        ("Directed", True, False),
        ("Influenced", True, True),
    ]
    assert isinstance(edges, DeleteEdges)
    assert isinstance(edges.where, Compare)
    assert isinstance(edges.where.left, Field)
    assert edges.where.left.column == "src"


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ('delete Film where slug = "x"', "Film ActedIn Directed MadeBy", "Film ActedIn Directed MadeBy"),
        ('insert ActedIn { from: "a", to: "b" }', "ActedIn", "Film Person ActedIn"),
        ('delete ActedIn where from = "a"', "ActedIn", "ActedIn"),
        ('insert Note { text: "a" } update Person set { born: 1 } where name = "x"', "Note Person", "Note Person"),
        ('delete Note where text = "a"', "Note", "Note"),
    ],
)
def test_touched_tables_are_known_before_any_row_is_read(text: str, writes: str, reads: str) -> None:
    found = touched(mutation_of(text), cinema())
    assert " ".join(ref.name for ref in found.writes) == writes
    assert " ".join(ref.name for ref in found.reads) == reads


# values that depend on rows


def test_a_value_may_be_computed_from_the_row() -> None:
    update, upsert = planned(
        '($n: I32) update Film set { year: year + $n, title: "x" + "y", added_at: now() + 1 } where slug = "a"'
        ' upsert Person { name: lower("A"), born: coalesce(born, $n) }',
        {"n": 3},
    ).statements
    assert isinstance(update, UpdateRows)
    year, title, added = update.values["year"], update.values["title"], update.values["added_at"]
    assert isinstance(year, Arithmetic)
    assert [(field.binding, field.column) for field in expr_fields(year)] == [(ROW, "year")]
    assert (title, added) == (Constant(STRING, "xy"), Constant(DATETIME, NOW + 1))
    assert isinstance(upsert, InsertNode)
    assert upsert.insertion is Insertion.UPSERT
    assert {name: type(value) for name, value in upsert.values.items()} == {"name": FunctionCall, "born": FunctionCall}


def test_a_condition_is_typed_by_the_row() -> None:
    (delete,) = planned('delete ActedIn where (from = "a" or to = "b") and id != "x" and role is not null').statements
    assert isinstance(delete, DeleteEdges)
    assert {field.column for field in fields_of(delete.where)} == {"src", "dst", "id", "role"}
    assert {field.binding for field in fields_of(delete.where)} == {ROW}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('($i: String?) create Note { id: $i, text: "a" }', "'id' cannot be null"),
        ('($i: String?) upsert ActedIn { id: "a", from: "a", to: $i }', "edge endpoint 'to' cannot be null"),
        ("($i: String?) upsert Person { name: $i }", "@key property 'name' cannot contain null"),
    ],
)
def test_an_identity_is_not_null(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(text, {"i": None})
    assert message in caught.value.message


def test_a_change_after_a_match_knows_the_variables_it_uses() -> None:
    (matched,) = planned(
        "match { $p: Person  $p $r:actedIn $f } update $p set { born: $p.born + 1 }"
        ' insert Influenced { from: $p, to: $p, strength: $f.rating } insert Note { text: "once" }'
    ).statements
    assert isinstance(matched, MatchedChanges)
    names = [variable.name for variable in matched.match.variables]
    used = [[(names[field.binding], field.column) for field in each.identity] for each in matched.changes]
    assert used == [[("p", "id")], [("p", "id"), ("f", "id")], []]
    read = {(names[field.binding], field.column) for field in matched.fields}
    assert read == {("p", "id"), ("p", "born"), ("f", "id"), ("f", "rating")}
    assert [column.name for column in matched.read.columns] == [f"{field.binding}.{field.column}" for field in matched.fields]


def test_a_match_whose_variables_no_change_uses_needs_one_row() -> None:
    (matched,) = planned('match { $p: Person } insert Note { text: "once" }').statements
    assert isinstance(matched, MatchedChanges)
    assert isinstance(matched.read.root, LogicalProject)
    assert isinstance(matched.read.root.input, LogicalLimit)
    assert matched.fields == ()


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("match { $p: Person  $p actedIn $f } update $f set { year: 1 }", "Film", "Film Person ActedIn"),
        ("match { $f: Film } delete $f", "Film ActedIn Directed MadeBy", "Film ActedIn Directed MadeBy"),
        ('match { $s: Studio } create ActedIn { from: "a", to: $s.name }', "ActedIn", "Film Person Studio ActedIn"),
    ],
)
def test_a_match_reads_more_than_it_writes(text: str, writes: str, reads: str) -> None:
    found = touched(mutation_of(text), cinema())
    assert " ".join(ref.name for ref in found.writes) == writes
    assert " ".join(ref.name for ref in found.reads) == reads
