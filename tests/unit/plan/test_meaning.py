"""The worked examples of the language: what each read answers, lowered plainly and after every rule."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import LanguageError
from omnigraph.plan import ir
from omnigraph.plan.lowering import lower
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.rules import RULES
from omnigraph.plan.statistics import NO_STATISTICS
from tests.unit.plan.cinema import read_of
from tests.unit.plan.evaluate import rows_of
from tests.unit.plan.graph import graph

A = '$p: Person { name: "Ada" }'
VEC = "[1.0, 0.0, 0.0]"
NEAR = f"nearest($f.vec, {VEC})"

UNORDERED: list[tuple[str, str, list[Any]]] = [
    ("E01", 'match { $f: Film { slug: "alien" } } return { $f.title, $f.year }', [("Alien", 1979)]),
    ("E03", 'match { $f: Film { genres: "crime" } } return { $f.slug as s }', ["heat"]),
    ("E04", 'match { $f: Film  $f.genres contains "scifi" } return { $f.slug as s }', ["alien", "dune"]),
    ("E05", 'match { $f: Film  $f.title contains "a" } return { $f.slug as s }', ["heat"]),
    ("E06", 'match { $f: Film  $f.title starts_with "A" } return { $f.slug as s }', ["alien"]),
    ("E07", 'match { $f: Film  "Alien vs Heat" contains $f.title } return { $f.slug as s }', ["alien", "heat"]),
    ("E08", "match { $f: Film  $f.rating != 8.0 } return { $f.slug as s }", ["alien", "heat"]),
    ("E09", "match { $f: Film  $f.year = 1979.5 } return { $f.slug as s }", []),
    ("E10", "match { $f: Film  $f.year > 1994.5 } return { $f.slug as s }", ["heat", "dune", "lost"]),
    ("E11", 'match { $f: Film  $f.released >= date("1979-01-01") } return { $f.slug as s }', ["alien"]),
    ("E12", 'match { $f: Film  $f.added_at < datetime("2024-03-01T13:00:00+00:00") } return { $f.slug as s }', ["alien"]),
    ("E13", "($r: F64?) match { $f: Film  $f.rating = $r } return { $f.slug as s }", []),
    ("E14", 'match { $f: Film { slug: "heat" } } return { $f }', ["heat"]),
    ("E15", f"match {{ {A} $s: Studio }} return {{ $p.name as p, $s.name as s }}", [("Ada", "Fox"), ("Ada", "Warner")]),
    ("E16", 'match { $f: Film { slug: "alien" } } return { $f.vec as v, $f.votes as n }', [((1.0, 0.0, 0.0), 900)]),
    ("E18", "match { $f: Film  $f.year = -1 } return { $f.slug }", []),
    ("E28", f"match {{ {A} $p actedIn $f }} return {{ $f.slug as s }}", ["alien", "heat"]),
    ("E30", 'match { $f: Film { slug: "alien" } $p actedIn $f } return { $p.name as n }', ["Ada", "Ben"]),
    ("E31", 'match { $f: Film { slug: "alien" } $f actedIn $p } return { $p.name as n }', ["Ada", "Ben"]),
    ("E32", f"match {{ {A} $p influenced $q }} return {{ $q.name as n }}", ["Ben", "Ada"]),
    ("E33", f"match {{ {A} $p influenced{{2,2}} $q }} return {{ $q.name as n }}", ["Cy"]),
    ("E34", f"match {{ {A} $p influenced{{3,3}} $q }} return {{ $q.name as n }}", ["Dee"]),
    ("E35", f"match {{ {A} $p influenced{{1,3}} $q }} return {{ $q.name as n }}", ["Ada", "Ben", "Cy", "Dee"]),
    ("E36", 'match { $p: Person { name: "Ben" } $p influenced{1,3} $q } return { $q.name as n }', ["Cy", "Ada", "Dee"]),
    ("E37", 'match { $p: Person { name: "Ben" } $p influenced{3,3} $q } return { $q.name as n }', ["Ada"]),
    ("E37b", 'match { $p: Person { name: "Cy" } $p influenced{2,2} $q } return { $q.name as n }', ["Ben", "Ada"]),
    ("E38", 'match { $p: Person { name: "Dee" } $p influenced $q } return { $q.name as n }', []),
    ("E39", f"match {{ {A} $p <influenced> $q }} return {{ $q.name as n }}", ["Ben", "Ada", "Cy"]),
    ("E40", 'match { $p: Person { name: "Dee" } $p <influenced>{2,2} $q } return { $q.name as n }', ["Ada", "Ben"]),
    ("E41", "match { $p: Person  $p influenced $p } return { $p.name as n }", ["Ada"]),
    ("E42", "match { $p: Person  $p influenced{1,3} $p } return { $p.name as n }", ["Ada"]),
    ("E43", f"match {{ {A} $p actedIn{{2,3}} $f }} return {{ $f.slug as s }}", []),
    ("E44", "match { $p: Person  $p directed $f  $f madeBy $s } return { $p.name as p, $s.name as s }", [("Cy", "Fox")]),
    (
        "E45",
        "match { $p: Person  $q: Person  $p influenced $q  $q influenced $p } return { $p.name as a, $q.name as b }",
        [("Ada", "Ada")],
    ),
    ("E46", "match { $f: Film  $_ actedIn $f } return { $f.slug as s }", ["alien", "alien", "heat", "heat"]),
    ("E46b", f"match {{ {A} $p actedIn $f  $q actedIn $f }} return {{ $q.name as n }}", ["Ada", "Ada", "Ben", "Ben"]),
    ("E49", "match { $f: Film  not { $_ actedIn $f } } return { $f.slug as s }", ["dune", "lost"]),
    ("E50", "match { $p: Person  not { $p actedIn $f  $f.year < 1990 } } return { $p.name as n }", ["Cy", "Dee"]),
    ("E51", "match { $p: Person  not { $p <influenced> $x } } return { $p.name as n }", []),
    ("E52", "match { $p: Person  not { $p influenced{2,2} $x } } return { $p.name as n }", ["Dee"]),
    ("E53", "match { $p: Person  not { $p $r:actedIn $f  $r.billing > 5 } } return { $p.name as n }", ["Ben", "Cy", "Dee"]),
    ("Q4", "match { $f: Film  not { $f actedIn $p } } return { $f.slug as s }", ["dune", "lost"]),
    ("Q10", f'match {{ {A} $p actedIn $f  search($f.plot, "thief") }} return {{ $f.slug as s }}', ["heat"]),
    ("Q10", 'match { $f: Film  search($f.plot, "space") = false } return { $f.slug as s }', ["heat"]),
    ("Q10", 'match { $f: Film  search($f.plot, "space") search($f.plot, "crew") } return { $f.slug as s }', ["alien"]),
    ("Q17", f"match {{ {A} $p $r:actedIn $f  $r.billing > 1.5 }} return {{ $f.slug as s }}", ["alien"]),
    ("Q3", 'match { $f: Film { year: 1979 }  $f: Film { slug: "heat" } } return { $f }', []),
    (
        "E57",
        "match { $f: Film } return { count($f), count($f.rating), sum($f.votes), min($f.year), max($f.title) }",
        [(4, 3, 1600.0, 1979, "Lost Reel")],
    ),
    ("E58", "match { $f: Film { year: 1900 } } return { count($f) as n, max($f.year) as y }", [(0, None)]),
    ("E58b", "match { $f: Film  $f.year = 1.5 } return { count($f) as n, max($f.year) as y }", [(0, None)]),
    ("E59", "match { $f: Film { year: 1900 } } return { $f.status, count($f) as n }", []),
    ("E69", 'match { $f: Film  search($f.plot, "SPACES thief") } return { $f.slug as s }', ["alien", "dune", "heat"]),
    ("nested", "match { $p: Person  not { $p actedIn $f  not { $f madeBy $s } } } return { $p }", ["Ada", "Ben", "Cy", "Dee"]),
    ("outer", "match { $f: Film  not { $g: Film  $g.year < $f.year } } return { $f }", ["alien"]),
    ("no binding", "match { $p directed $f } return { $p, $f }", [("Cy", "alien"), ("Dee", "dune")]),
    ("limit 0", "match { $f: Film } return { $f } limit 0", []),
]

ORDERED: list[tuple[str, str, list[Any]]] = [
    (
        "E29",
        f"match {{ {A} $p $r:actedIn $f }} return {{ $f.slug as s, $r.role as r }} order {{ $r.billing asc }}",
        [("heat", None), ("alien", "Ripley"), ("alien", "Voice")],
    ),
    (
        "E55",
        "match { $p: Person  $p actedIn $f } return { $p.name, count($f) as n } order { n desc, $p.name asc }",
        [("Ada", 2), ("Ben", 2)],
    ),
    (
        "E56",
        "match { $p: Person  $p $r:actedIn $f } return { $p.name, count($r.role) as n, count($f) as m } order { n desc, $p.name asc }",
        [("Ada", 2, 3), ("Ben", 2, 2)],
    ),
    ("E60", "match { $f: Film } return { $f.status as st, count($f) as n } order { st asc }", [("draft", 1), ("released", 3)]),
    ("E61", "match { $f: Film } return { $f.slug as s } order { $f.rating asc }", ["lost", "dune", "heat", "alien"]),
    ("E62", "match { $f: Film } return { $f.slug as s } order { $f.rating desc } limit 2", ["alien", "heat"]),
    ("E63", "match { $p: Person } return { $p.name as n } order { $p.email asc }", ["Ben", "Dee", "Ada", "Cy"]),
    ("E65", f"match {{ $f: Film }} return {{ $f.slug as s }} order {{ nearest($f.vec, {VEC}) }} limit 2", ["alien", "dune"]),
    ("E66", f'match {{ $f: Film {{ genres: "crime" }} }} return {{ $f.slug as s }} order {{ nearest($f.vec, {VEC}) }} limit 2', ["heat"]),
    ("E67", f"match {{ $f: Film }} return {{ $f.slug as s }} order {{ nearest($f.vec, {VEC}) }} limit 10", ["alien", "dune", "heat"]),
    ("E68", 'match { $f: Film } return { $f.slug as s } order { bm25($f.plot, "space") }', ["dune", "alien"]),
    (
        "E70",
        f'match {{ $f: Film }} return {{ $f.slug as s }} order {{ rrf(nearest($f.vec, {VEC}), bm25($f.plot, "thief")) }} limit 3',
        ["heat", "alien", "dune"],
    ),
    (
        "Q6",
        f'match {{ $f: Film }} return {{ $f.slug as s, rrf({NEAR}, bm25($f.plot, "thief")) as score }} order {{ score desc }} limit 3',
        [("heat", pytest.approx(1 / 63 + 1 / 61)), ("alien", pytest.approx(1 / 61)), ("dune", pytest.approx(1 / 62))],
    ),
    (
        "Q6",
        f"match {{ $f: Film }} return {{ $f.slug as s, nearest($f.vec, {VEC}) as d }} order {{ $f.year desc }}",
        [("lost", None), ("dune", pytest.approx(0.0061, abs=1e-4)), ("heat", 1.0), ("alien", 0.0)],
    ),
    (
        "not the root",
        f"match {{ $p: Person  $p actedIn $f }} return {{ $p.name as n, $f.slug as s }} order {{ nearest($f.vec, {VEC}) }} limit 3",
        [("Ada", "alien"), ("Ben", "alien"), ("Ada", "heat")],
    ),
    ("only ties", "match { $f: Film } return { $f as id, 1 as one } order { one desc } limit 2", [("alien", 1), ("dune", 1)]),
    (
        "k nearest, then grouped",
        f"match {{ $f: Film }} return {{ count($f) as n, min($f.year) as y }} order {{ nearest($f.vec, {VEC}) }} limit 2",
        [(2, 1979)],
    ),
]


def plans(text: str, given: object = None) -> list[ir.LogicalRead]:
    """The plan as lowered, and after each rule in turn."""
    read = read_of(text)
    plain = lower(read, bind_parameters(read.parameters, given), now_ms=0)
    found = [plain]
    root = plain.root
    for rule in RULES:
        root = rule(root, NO_STATISTICS)
        found.append(ir.LogicalRead(plain.name, root, plain.bindings, plain.columns))
    return found


def _unwrapped(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in rows]


@pytest.mark.parametrize(("name", "text", "expected"), UNORDERED)
def test_unordered_example(name: str, text: str, expected: list[Any]) -> None:
    for plan in plans(text):
        assert sorted(_unwrapped(rows_of(plan, graph())), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(("name", "text", "expected"), ORDERED)
def test_ordered_example(name: str, text: str, expected: list[Any]) -> None:
    for plan in plans(text):
        assert _unwrapped(rows_of(plan, graph())) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match { $f: Film } return { $f.title } order { title }", "alias 'title' not found for ordering"),
        ("match { $f: Film } return { $f.title } order { now() }", "unsupported ordering expression"),
    ],
)
def test_bad_sort_keys_are_refused_when_planned(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        plans(text)
    assert message in caught.value.message
    assert caught.value.span is not None
