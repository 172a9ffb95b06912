"""Mutations with their values filled in, and the tables they may touch."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import STRING, Constant, Field, Value
from omnigraph.plan.ir import UNKNOWN, Compare, Decided, Expr
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.touched import touched
from omnigraph.plan.writes import DeleteEdges, DeleteNodes, InsertEdge, InsertNode, MutationPlan, UpdateRows, plan_mutation
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
