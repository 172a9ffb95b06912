"""Plans as people and programs read them."""

from __future__ import annotations

import json

import pytest

from omnigraph.plan.explain import explain
from tests.unit.plan.test_planner import planned, statistics


def test_explain_as_text() -> None:
    text = explain(
        planned(
            "($n: String) match { $p: Person { name: $n } $p $r:actedIn $f  $f.year > 1990.5  not { $f madeBy $_ } }"
            " return { $f.title as t, $r.role } order { $f.year desc } limit 2",
            statistics(),
            {"n": "Ada"},
        )
    ).text
    assert text.splitlines() == [
        "query q -> t, r.role",
        "  project  outputs: $f.title, $r.role  (~1 row)",
        "    fetch  columns: $f.title, $r.role  (~1 row)",
        "      sort  keys: $f.year desc  ties: $f, $p, $r  limit: 2  (~1 row)",
        "        anti join  on: $f  (~1 row)",
        "          expand  link: $p -$r:ActedIn-> $f  to: $f: Film  pushed_down: $f.year > 1990  applied: after the walk  columns: year"
        "  route: index  why: index ~2.1 ms, adjacency (to be built) ~3.8 ms  (~2 rows)",
        '            scan  of: $p: Person  pushed_down: $p.name = "Ada"  access: index on name  (~1 row)',
        "          expand  link: $f -MadeBy-> $_3  to: $_3: Studio"
        "  route: index  why: index ~2 ms, adjacency (to be built) ~2.5 ms  (~2 rows)",
        "            outer rows  of: $f  (~2 rows)",
    ]


def test_explain_as_json_says_the_same() -> None:
    explanation = explain(planned('match { $f: Film { slug: "alien" } } return { $f.title }', statistics()))
    document = json.loads(json.dumps(explanation.to_json()))
    assert document == {
        "query": "q",
        "columns": ["f.title"],
        "plan": {
            "operator": "project",
            "facts": {"outputs": ["$f.title"]},
            "rows": 1.0,
            "inputs": [
                {
                    "operator": "scan",
                    "facts": {
                        "of": "$f: Film",
                        "pushed_down": ['$f.slug = "alien"'],
                        "access": "index on slug",
                        "columns": ["title"],
                    },
                    "rows": 1.0,
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("clause", "spelled"),
    [
        ("$f.year != 5", "$f.year != 5"),
        ('["a", "b"] contains $f.slug', '$f.slug in ["a", "b"]'),
        ("[1, 2, 3, 4, 5, 6, 7, 8, 9] contains $f.year", "$f.year in [1, 2, 3, 4, 5, 6, 7, 8, ... 9 in all]"),
        ('$f.genres contains "a"', '$f.genres contains "a"'),
        ('$f.title contains "a"', '$f.title contains "a"'),
        ('$f.title starts_with "a"', '$f.title starts_with "a"'),
        ("$f.rating != 2.5", "$f.rating != 2.5"),
        ("$f.year < 3000000000", "$f.year is not null"),
        ('search($f.plot, "x")', 'search($f.plot, "x")'),
        ('fuzzy($f.plot, "x") = false', 'not fuzzy($f.plot, "x", 2)'),
        ('fuzzy($f.plot, "x", 1)', 'fuzzy($f.plot, "x", 1)'),
        ('match_text($f.plot, "x") < true', 'match_text($f.plot, "x") < true'),
        ("$f: Film { added_at: now() }", "$f.added_at = 0"),
    ],
)
def test_what_was_pushed_down(clause: str, spelled: str) -> None:
    assert f"pushed_down: {spelled}  access" in explain(planned(f"match {{ $f: Film  {clause} }} return {{ $f }}")).text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("match { $f: Film  1 > 2 } return { $f }", "empty  why: no row can satisfy the match"),
        ("match { $f: Film } return { $f.title } limit 3", "limit  count: 3"),
        ("match { $f: Film  $g: Film  $f.title = $g.title } return { $f }", "join  on: $f.title = $g.title"),
        ("match { $f: Film  $g: Film } return { $f }", "cross product"),
        ("match { $f: Film  $f actedIn $p } return { $f }", "expand  link: $f <-ActedIn- $p  to: $p: Person"),
        ("match { $f: Film  $p actedIn $f } return { $f }", "expand  link: $p -ActedIn-> $f  to: $p: Person  from: right"),
        ("match { $p: Person  $p <influenced>{1,3} $q } return { $q }", "link: $p -Influenced{1,3}- $q"),
        ("match { $p: Person  $p influenced $p } return { $p }", "connect  link: $p -Influenced-> $p  route:"),
        ("match { $p $r:actedIn $f  $r.billing > 1 } return { $r.role }", "edge_pushed_down: $r.billing > 1  edge_columns: role"),
        ("match { $f: Film } return { $f.status, sum($f.year) as n } order { n desc }", "sort  keys: column 1 desc"),
        ("match { $f: Film } return { $f.status, sum($f.year) as n }", "aggregate  outputs: $f.status, sum($f.year)"),
        (
            'match { $f: Film } return { $f } order { nearest($f.vec, "space") } limit 2',
            'rank  score: #0  by: nearest($f.vec, "space")  drops_others: True  pushed_down: top 2',
        ),
        (
            'match { $f: Film } return { $f } order { rrf(nearest($f.vec, "a"), bm25($f.plot, "b"), 5) } limit 2',
            'by: rrf(nearest($f.vec, "a"), bm25($f.plot, "b"), 5) over the first 2 of each',
        ),
        (
            'match { $f: Film } return { rrf(nearest($f.vec, "a"), bm25($f.plot, "b")) as s }',
            'by: rrf(nearest($f.vec, "a"), bm25($f.plot, "b"), 60) over all of each',
        ),
        ('match { $f: Film } return { bm25($f.plot, "b") as s }', "project  outputs: score #0"),
    ],
)
def test_lines(text: str, line: str) -> None:
    assert line in explain(planned(text)).text


def test_null_text_query_matches_nothing() -> None:
    assert "empty" in explain(planned("($q: String?) match { $f: Film  search($f.plot, $q) } return { $f }", given={})).text
