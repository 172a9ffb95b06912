"""What a query means when it is right: directions, slots, result columns, order keys."""

from __future__ import annotations

import pytest

from omnigraph.catalog.types import EnumOf, display
from omnigraph.errors import LanguageError
from omnigraph.lang.query import Comparison, Containment
from omnigraph.plan.check import check_mutation, check_read
from omnigraph.plan.expr import STRING, Constant, Field
from omnigraph.plan.typed import (
    ROW,
    Block,
    Condition,
    DeleteEdges,
    DeleteNodes,
    Direction,
    InsertEdge,
    InsertNode,
    NearestScore,
    NowCall,
    OutputKey,
    Parameter,
    Pattern,
    UnsupportedOrder,
    UpdateRows,
)
from tests.unit.catalog.schemas import catalog_of
from tests.unit.plan.cinema import mutation_of, query_of, read_of


def pattern_of(block: Block) -> Pattern:
    """The one pattern of a block without optional parts."""
    (part,) = block.parts
    assert isinstance(part, Pattern)
    return part


@pytest.mark.parametrize(
    ("clauses", "direction", "names"),
    [
        ("$p: Person  $p actedIn $f", Direction.OUT, ("p", "f")),
        ("$f: Film  $f actedIn $p", Direction.IN, ("f", "p")),
        ("$f: Film  $p actedIn $f", Direction.OUT, ("p", "f")),
        ("$p: Person  $f ACTEDIN $p".replace("ACTEDIN", "aCTEDIN"), Direction.IN, ("f", "p")),
        ("$p actedin $f", Direction.OUT, ("p", "f")),
        ("$p: Person  $p influenced $q", Direction.OUT, ("p", "q")),
        ("$q: Person  $p influenced $q", Direction.OUT, ("p", "q")),
        ("$p: Person  $p <influenced> $q", Direction.BOTH, ("p", "q")),
    ],
)
def test_direction_comes_from_what_is_bound(clauses: str, direction: Direction, names: tuple[str, str]) -> None:
    read = read_of(f"match {{ {clauses} }} return {{ count($p) as n }}")
    (link,) = pattern_of(read.block).links
    assert link.direction is direction
    assert (read.variables[link.left].name, read.variables[link.right].name) == names


def test_direction_is_inferred_inside_not() -> None:
    read = read_of("match { $f: Film  not { $f actedIn $p } } return { $f }")
    (test,) = pattern_of(read.block).tests
    assert not test.wanted
    (negation,) = test.blocks
    assert pattern_of(negation).links[0].direction is Direction.IN
    assert negation.outer == (0,)
    assert pattern_of(negation).nodes == (1,)


def test_second_binding_adds_its_tests() -> None:
    read = read_of('match { $f: Film { year: 1979 }  $f: Film { slug: "alien" } } return { $f }')
    pattern = pattern_of(read.block)
    assert pattern.nodes == pattern.declared == (0,)
    tests = [test for test in pattern.conditions if isinstance(test, Condition)]
    assert [test.left.column for test in tests if isinstance(test.left, Field)] == ["year", "slug"]


def test_anonymous_variables_are_independent() -> None:
    read = read_of("match { $_ actedIn $f  $_ actedIn $f } return { $f }")
    assert [variable.name for variable in read.variables] == ["_", "f", "_"]


def test_list_property_is_matched_by_an_item() -> None:
    read = read_of('match { $f: Film { genres: "crime" } } return { $f }')
    (test,) = pattern_of(read.block).conditions
    assert isinstance(test, Condition)
    assert test.operator is Containment.CONTAINS
    assert test.right == Constant(STRING, "crime")


def test_outer_slots_reach_through_nested_negations() -> None:
    read = read_of("match { $f: Film  $p: Person  not { $p actedIn $g  not { $g.year < $f.year } } } return { $f }")
    (outer,) = pattern_of(read.block).tests[0].blocks
    (inner,) = pattern_of(outer).tests[0].blocks
    assert outer.outer == (0, 1)
    assert inner.outer == (0, 2)


def test_parameter_shadows_a_variable_only_when_bare() -> None:
    read = read_of("($f: I32) match { $f: Film  $f.year = $f } return { $f, $f.year }")
    assert isinstance(read.outputs[0].expr, Parameter)
    assert pattern_of(read.block).conditions[0] == Condition(Field(0, "year", read.outputs[1].type), Comparison.EQ, read.outputs[0].expr)


def test_result_columns() -> None:
    text = (
        "($q: String) match { $f: Film } return { $f.title, $f, $q, 1, now(), $f.status as s, $f.rating,"
        ' nearest($f.vec, $q), bm25($f.plot, "x"), rrf(bm25($f.plot, "x"), nearest($f.vec, "y")) as score }'
    )
    outputs = read_of(text).outputs
    assert [(output.name, display(output.type, nullable=output.nullable)) for output in outputs] == [
        ("f.title", "String"),
        ("f", "String"),
        ("q", "String"),
        ("1", "I64"),
        ("now()", "DateTime"),
        ("s", "enum(archived, draft, released)"),
        ("f.rating", "F64?"),
        ("nearest(f.vec, q)", "F64?"),
        ('bm25(f.plot, "x")', "F64?"),
        ("score", "F64?"),
    ]


def test_aggregate_columns() -> None:
    text = "match { $f: Film } return { $f.status, count($f), sum($f.year), avg($f.rating), min($f.title), max($f.year) as y }"
    outputs = read_of(text).outputs
    assert isinstance(outputs[0].type, EnumOf)
    assert [(output.name, display(output.type, nullable=output.nullable)) for output in outputs[1:]] == [
        ("count(f)", "I64"),
        ("sum(f.year)", "I64?"),
        ("avg(f.rating)", "F64?"),
        ("min(f.title)", "String?"),
        ("y", "I32?"),
    ]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("{ $f.title } order { title }", "alias 'title' not found for ordering"),
        ("{ $f.title as t } order { 1 }", "unsupported ordering expression"),
        ("{ $f.genres as g } order { g }", "unsupported ordering expression"),
        ('{ $f.title as t } order { t, bm25($f.plot, "x") }', "unsupported ordering expression"),
        ("{ $f.title as t, count($f) as n } order { $f.year }", "alias 'f.year' not found for ordering"),
        ("distinct { $f.title as t } order { $f.year }", "alias 'f.year' not found for ordering"),
    ],
)
def test_bad_sort_keys_pass_the_check_and_wait_for_planning(tail: str, message: str) -> None:
    key = read_of(f"match {{ $f: Film }} return {tail}").order[-1].key
    assert isinstance(key, UnsupportedOrder)
    assert key.message == message


def test_sort_keys() -> None:
    read = read_of("match { $f: Film } return { $f.title as t, $f } order { t desc, f, $f.year }")
    assert [(key.key, key.descending) for key in read.order[:2]] == [(OutputKey(0), True), (OutputKey(1), False)]
    grouped = read_of("match { $f: Film } return { $f.title, count($f) as n } order { n desc, $f.title }")
    assert [key.key for key in grouped.order] == [OutputKey(1), OutputKey(0)]


def test_nearest_is_best_first_and_bm25_too() -> None:
    near = read_of('match { $f: Film } return { $f } order { nearest($f.vec, "x") } limit 2').order[0]
    assert isinstance(near.key, NearestScore)
    assert not near.descending
    assert read_of('match { $f: Film } return { $f } order { bm25($f.plot, "x") asc }').order[0].descending


def test_large_integers_beside_u64() -> None:
    read = read_of("match { $f: Film { votes: 18446744073709551615 }  $f.votes != 9223372036854775808 } return { $f }")
    tests = [test for test in pattern_of(read.block).conditions if isinstance(test, Condition)]
    assert [test.right.value for test in tests if isinstance(test.right, Constant)] == [2**64 - 1, 2**63]


def test_mutation_statements() -> None:
    mutation = mutation_of(
        '($n: String) insert Person { name: $n, born: 5 } insert ActedIn { from: $n, to: "alien", billing: 1 }'
        ' update Film set { rating: 9, added_at: now() } where slug = "heat"'
    )
    insert, edge, update = mutation.statements
    assert isinstance(insert, InsertNode)
    assert insert.values[1].value == Constant(insert.values[1].type, 5)
    assert isinstance(edge, InsertEdge)
    assert edge.target == Constant(STRING, "alien")
    assert isinstance(update, UpdateRows)
    # An integer literal widens into a float.
    assert update.values[0].value == Constant(update.values[0].type, 9.0)
    assert update.where == Condition(Field(ROW, "slug", STRING), Comparison.EQ, Constant(STRING, "heat"))


def test_delete_of_nodes_names_every_incident_edge_type() -> None:
    delete, edges = mutation_of('delete Person where name = "Ada" delete ActedIn where to = "alien"').statements
    assert isinstance(delete, DeleteNodes)
    assert [edge.name for edge in delete.cascades] == ["ActedIn", "Directed", "Influenced"]
    assert isinstance(edges, DeleteEdges)
    assert edges.where == Condition(Field(ROW, "dst", STRING), Comparison.EQ, Constant(STRING, "alien"))


def test_embed_target_may_be_left_out_when_its_source_is_given() -> None:
    catalog = catalog_of("node Doc { name: String @key  text: String?  vec: Vector(2) @embed(text) }")
    check_mutation(query_of('insert Doc { name: "a", text: "b" }'), catalog)
    with pytest.raises(LanguageError) as caught:
        check_mutation(query_of('insert Doc { name: "a" }'), catalog)
    assert caught.value.code == "T12"
    assert "(or its @embed source `text`)" in caught.value.message


def test_nearest_ranks_nodes_not_edges() -> None:
    catalog = catalog_of("node A { name: String @key } edge To: A -> A { vec: Vector(2) }")
    query = query_of("match { $a $r:to $b } return { $a } order { nearest($r.vec, [1, 0]) } limit 1")
    with pytest.raises(LanguageError) as caught:
        check_read(query, catalog)
    assert caught.value.code == "T23"


def test_now_matches_a_datetime() -> None:
    read = read_of("match { $f: Film { added_at: now() } } return { $f }")
    (test,) = pattern_of(read.block).conditions
    assert isinstance(test, Condition)
    assert test.right == NowCall()


def test_wildcard_edge_variable_is_no_variable() -> None:
    read = read_of("match { $p $_:actedIn $f } return { $f }")
    assert pattern_of(read.block).links[0].edge_slot is None


def test_empty_and_mixed_lists() -> None:
    read = read_of("match { $f: Film  [] contains $f.title  [1, 2.5] contains $f.year } return { $f }")
    tests = [test for test in pattern_of(read.block).conditions if isinstance(test, Condition)]
    assert [display(test.left.type) for test in tests if isinstance(test.left, Constant)] == ["[String]", "[F64]"]
