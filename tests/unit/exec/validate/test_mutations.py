"""Mutations keep every rule of the graph: same words and codes as a load, judged on what they leave, at the branch's head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.problems import ProblemCode
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import Racing, build_indexes, edges, rows, run, values

CINE = """
node Film {
  slug: String @key   year: I32   rating: F64?   status: enum(draft, released, archived)   tags: [String]?   vec: Vector(2)?
  @range(year, 1888..2100)   @check(slug, "^[a-z0-9-]+$")
}
node Person { name: String @key  born: I32?  email: String? @unique }
node Studio { name: String @key }
node Slot {
  code: String @key  day: Date? @unique  at: DateTime? @unique  x: F32? @unique  n: U64? @unique  on: Bool? @unique
  h: I32?  s: String?  @unique(s, h)
}
edge ActedIn: Person -> Film
edge Directed: Person -> Film @card(0..2)
edge Likes: Person -> Film { @unique(src, dst) }
edge WorksFor: Person -> Studio @card(1..) { since: Date? @unique }
"""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=CINE)
    run(
        made,
        'insert Person { name: "Ada", email: "ada@x" } insert Person { name: "Ben" } insert Person { name: "Cy", email: "cy@x" }'
        ' insert Film { slug: "alien", year: 1979, status: "released" } insert Film { slug: "heat", year: 1995, status: "released" }'
        ' insert Film { slug: "dune", year: 2021, status: "draft" } insert Studio { name: "Fox" } insert Studio { name: "MGM" }'
        ' insert Directed { from: "Cy", to: "alien" } insert Likes { from: "Ada", to: "alien" } insert WorksFor { from: "Ada", to: "Fox" }',
    )
    return made


def refused(graph: Graph, text: str, params: dict[str, object] | None = None) -> InvalidInput:
    before = graph.snapshot()
    with pytest.raises(InvalidInput) as caught:
        run(graph, text, params)
    assert graph.snapshot() == before
    assert caught.value.kind is Kind.VALIDATION
    return caught.value


RANGE = "@range violation on Film.year: value 1700 < min 1888"
ENUM = "invalid enum value 'gone' for Film.status (expected: archived, draft, released)"


@pytest.mark.parametrize(
    ("text", "params", "code", "message"),
    [
        ('insert Film { slug: "n", year: 1700, status: "draft" }', {}, ProblemCode.RANGE, RANGE),
        ('update Film set { year: 1700 } where slug = "heat"', {}, ProblemCode.RANGE, RANGE),
        ('($s: String) insert Film { slug: "n", year: 2000, status: $s }', {"s": "gone"}, ProblemCode.ENUM, ENUM),
        ('($s: String) update Film set { status: $s } where slug = "heat"', {"s": "gone"}, ProblemCode.ENUM, ENUM),
        (
            'insert Film { slug: "Bad Slug", year: 2000, status: "draft" }',
            {},
            ProblemCode.CHECK,
            "@check violation on Film.slug: value 'Bad Slug' does not match pattern '^[a-z0-9-]+$'",
        ),
        (
            'insert Person { name: "Eve", email: "ada@x" }',
            {},
            ProblemCode.UNIQUE,
            "@unique violation on Person.email: value 'ada@x' held by 'Ada' and 'Eve'",
        ),
        (
            'update Person set { email: "cy@x" } where name = "Ben"',
            {},
            ProblemCode.UNIQUE,
            "@unique violation on Person.email: value 'cy@x' held by 'Cy' and 'Ben'",
        ),
        (
            'insert Person { name: "Eve", email: "e@x" } insert Person { name: "Fay", email: "e@x" }',
            {},
            ProblemCode.UNIQUE,
            "@unique violation on Person.email: value 'e@x' held by 'Eve' and 'Fay'",
        ),
        (
            'insert Directed { from: "Cy", to: "heat" } insert Directed { from: "Cy", to: "dune" }',
            {},
            ProblemCode.CARDINALITY,
            "@card violation on edge Directed: source 'Cy' has 3 edges (max 2)",
        ),
        (
            'delete WorksFor where from = "Ada"',
            {},
            ProblemCode.CARDINALITY,
            "@card violation on edge WorksFor: source 'Ada' has 0 edges (min 1)",
        ),
        (
            'delete Studio where name = "Fox"',
            {},
            ProblemCode.CARDINALITY,
            "@card violation on edge WorksFor: source 'Ada' has 0 edges (min 1)",
        ),
        ('insert ActedIn { from: "Ada", to: "nope" }', {}, ProblemCode.ENDPOINT, "dst 'nope' not found in Film"),
    ],
)
def test_a_mutation_that_breaks_a_rule_is_refused(
    graph: Graph, text: str, params: dict[str, object], code: ProblemCode, message: str
) -> None:
    """V-01: Enum, range, required and vector rules refuse the same values in loads, inserts and updates.

    Also V-03, V-04, V-08, V-11, V-14.
    """
    error = refused(graph, text, params)
    assert (error.facts["code"], error.message) == (code.value, message)
    assert len(error.facts["problems"]) == 1  # type: ignore[arg-type]  # a tuple of problems


def test_the_tuple_of_an_edge_is_named_by_its_columns_in_order(graph: Graph) -> None:
    """V-07."""
    error = refused(graph, 'insert Likes { from: "Ada", to: "alien" }')
    assert error.message.startswith("@unique violation on Likes.(dst, src): value '(alien, Ada)' held by '")


def test_a_violation_takes_its_clean_siblings_along(graph: Graph) -> None:
    """V-04: A `@unique` value that another row holds is refused, and no row of the change is kept."""
    refused(graph, 'insert Person { name: "Eve" } insert Studio { name: "new" } insert Person { name: "Fay", email: "ada@x" }')
    assert "Eve" not in rows(graph, "node:Person")


def test_a_row_may_keep_its_own_unique_value(graph: Graph) -> None:
    """V-05: A row does not collide with itself."""
    run(graph, 'insert Person { name: "Ada", email: "ada@x", born: 1950 }')
    run(graph, 'update Person set { born: 1951 } where email = "ada@x"')
    assert values(graph, "node:Person", "born")["Ada"] == 1951


def test_values_that_a_later_statement_replaces_do_not_count(graph: Graph) -> None:
    """Y-06: Only the final row of each id is checked."""
    run(
        graph,
        'update Person set { email: "temp" } where name = "Ada" update Person set { email: "final" } where name = "Ada"'
        ' insert Person { name: "Eve", email: "temp" } update Person set { email: "ada@x" } where name = "Cy"'
        ' insert Film { slug: "late", year: 1, status: "draft" } insert Film { slug: "late", year: 2000, status: "draft" }',
    )
    assert values(graph, "node:Person", "email") == {"Ada": "final", "Ben": None, "Cy": "ada@x", "Eve": "temp"}
    assert values(graph, "node:Film", "year")["late"] == 2000


@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
@pytest.mark.parametrize(
    ("name", "value", "same", "other", "shown"),
    [
        ("day", 'date("1979-05-25")', 'date("1979-05-25")', 'date("1979-05-26")', "3431"),
        (
            "at",
            'datetime("2024-01-02T20:00:00Z")',
            'datetime("2024-01-02T20:00:00Z")',
            'datetime("2024-01-02T20:00:00.001Z")',
            "1704225600000",
        ),
        ("x", "0.1", "0.1", "0.2", "0.1"),
        ("x", "0.0", "-0.0", "0.5", "0"),
        ("n", "18446744073709551615", "18446744073709551615", "18446744073709551614", "18446744073709551615"),
        ("on", "true", "true", "false", "true"),
    ],
)
def test_unique_values_of_every_type_are_asked_for_in_their_own_type(
    graph: Graph, name: str, value: str, same: str, other: str, shown: str, indexed: bool
) -> None:
    """V-06: `@unique` holds for values of every type, with and without an index."""
    run(graph, f'insert Slot {{ code: "a", {name}: {value} }} insert Slot {{ code: "none" }}')
    if indexed:
        build_indexes(graph, "node:Slot", name)
    error = refused(graph, f'insert Slot {{ code: "b", {name}: {same} }}')
    assert error.message == f"@unique violation on Slot.{name}: value '{shown}' held by 'a' and 'b'"
    run(graph, f'insert Slot {{ code: "b", {name}: {other} }} insert Slot {{ code: "also none" }}')


def test_a_composite_tuple_has_no_separator_to_forge_and_null_exempts(graph: Graph) -> None:
    """V-07: `@unique` over several columns compares column by column; a null exempts the row; the message names the columns."""
    run(graph, 'insert Slot { code: "a", s: "x", h: 1 } insert Slot { code: "b", s: "x" } insert Slot { code: "c", s: "x" }')
    run(graph, 'insert Slot { code: "d", s: "x", h: 2 } insert Slot { code: "e", s: "y", h: 1 }')
    error = refused(graph, 'insert Slot { code: "f", s: "y", h: 1 }')
    assert error.message == "@unique violation on Slot.(h, s): value '(1, y)' held by 'e' and 'f'"


def test_edges_of_a_deleted_source_owe_nothing(graph: Graph) -> None:
    """V-14: A minimum holds for sources that stay: a delete below it is refused, and a deleted source owes no edges."""
    assert run(graph, 'delete Person where name = "Ada"').affected_edges == 2
    run(graph, 'delete Studio where name = "MGM"')


def test_an_edge_may_be_replaced_by_one_to_another_place_only_if_enough_remain(graph: Graph) -> None:
    """V-11: two edges, one may go."""
    run(graph, 'insert WorksFor { from: "Ada", to: "MGM", since: date("2001-01-01") }')
    run(graph, 'delete WorksFor where to = "Fox"')
    assert edges(graph, "WorksFor") == [("Ada", "MGM")]
    refused(graph, 'delete WorksFor where since = date("2001-01-01")')


def test_cardinality_is_judged_at_the_live_head(graph: Graph) -> None:
    """V-15: Rules are checked at the head of the branch, also on a stale handle."""
    racing = Racing({"n": "Cy"}, lambda: run(og.open(graph.uri), 'insert Directed { from: "Cy", to: "heat" }'))
    with pytest.raises(InvalidInput, match="has 3 edges"):
        run(graph, '($n: String) insert Directed { from: $n, to: "dune" } insert Directed { from: "Ben", to: "dune" }'
                   ' insert Directed { from: "Cy", to: "alien" }', racing)  # fmt: skip


def test_several_problems_are_told_at_once(graph: Graph) -> None:
    error = refused(graph, 'insert Film { slug: "A", year: 1, status: "draft" } insert Film { slug: "b", year: 3000, status: "draft" }')
    assert error.message.endswith("(and 2 more problems)")
    assert [problem.code for problem in _problems(error)] == [ProblemCode.RANGE, ProblemCode.CHECK, ProblemCode.RANGE]
    assert {problem.type for problem in _problems(error)} == {"node:Film"}


def _problems(error: InvalidInput) -> Any:
    return error.facts["problems"]
