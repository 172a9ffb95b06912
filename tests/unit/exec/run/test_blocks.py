"""Blocks inside a match, and what null entities are to everything that follows an optional block."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.exec.read.run import MEMORY_BYTES, run
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph
from omnigraph.lang import Source
from omnigraph.plan.ops import Route
from omnigraph.plan.planner import plan_read
from tests.reads import acted, ask, bag, film, graph_of, knows, person, routed, text_of
from tests.unit.exec.run.test_walk import random_graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Ann and Bob acted, Bob twice; Cid knows Ann; Dan does nothing."""
    return graph_of(
        tmp_path_factory.mktemp("blocks"),
        *(person("ann", born=1, tags=["x"]), person("bob", born=2, tags=["x"]), person("cid"), person("dan", born=2)),
        *(film("f", year=1, title="F"), film("g", title="G"), film("h", year=3)),
        *(acted("ann", "f", role="lead"), acted("bob", "f"), acted("bob", "g")),
        *(knows("cid", "ann", since=7), knows("cid", "ann", since=8), knows("ann", "ann")),
    )


ACTORS = "$p: Person  optional { $p actedIn $f }"
ROWS: Final[dict[str, tuple[str, list[tuple[Any, ...]]]]] = {
    "optional": (f"match {{ {ACTORS} }} return {{ $p, $f }}", [("ann", "f"), ("bob", "f"), ("bob", "g"), ("cid", None), ("dan", None)]),
    "properties": (
        f"match {{ {ACTORS} }} return {{ $p.name as n, $f.title as t, $f.year as y }}",
        [("ann", "F", 1), ("bob", "F", 1), ("bob", "G", None), ("cid", None, None), ("dan", None, None)],
    ),
    "an edge of the block": (
        "match { $p: Person  optional { $p $r:actedIn $f } } return { $p, $r.role as r, $f.slug as f }",
        [("ann", "lead", "f"), ("bob", None, "f"), ("bob", None, "g"), ("cid", None, None), ("dan", None, None)],
    ),
    "a condition inside the block": (
        "match { $p: Person  optional { $p actedIn $f  $f.year = 1 } } return { $p, $f }",
        [("ann", "f"), ("bob", "f"), ("cid", None), ("dan", None)],
    ),
    "a condition about both": (
        "match { $p: Person  optional { $p actedIn $f  $f.year < $p.born } } return { $p, $f }",
        [("ann", None), ("bob", "f"), ("cid", None), ("dan", None)],
    ),
    "no such row": (
        "match { $p: Person  optional { $p actedIn $f  $f.year = 99 } } return { $p, $f, $f.title as t, type($f) as y }",
        [(name, None, None, None) for name in ("ann", "bob", "cid", "dan")],
    ),
    "the type in conditions": (
        'match { $p: Person  type($p) = "Person"  optional { $p $r:actedIn $f  type($f) = "Film"  type($r) != "Film" }  type($f) is null }'
        " return { $p, type($p) as t, type($r) as r }",
        [("cid", "Person", None), ("dan", "Person", None)],
    ),
    "a condition after the block sees nulls": (f"match {{ {ACTORS}  $f.year = 1 }} return {{ $p, $f }}", [("ann", "f"), ("bob", "f")]),
    "null itself": (f"match {{ {ACTORS}  $f is null }} return {{ $p }}", [("cid",), ("dan",)]),
    "not null": (f"match {{ {ACTORS}  $f is not null }} return {{ $p, $f }}", [("ann", "f"), ("bob", "f"), ("bob", "g")]),
    "a traversal from null finds nothing": (
        f"match {{ {ACTORS}  $q actedIn $f }} return {{ $p, $q }}",
        [("ann", "ann"), ("ann", "bob"), ("bob", "ann"), ("bob", "bob"), ("bob", "bob")],
    ),
    "a test of a link from null": (f"match {{ {ACTORS}  $p actedIn $f }} return {{ $p, $f }}", [("ann", "f"), ("bob", "f"), ("bob", "g")]),
    "many hops from null": (
        "match { $p: Person  optional { $p knows $q }  $q knows{1,3} $z } return { $p, $z }",
        [("ann", "ann"), ("cid", "ann")],
    ),
    "a block about null": (
        f"match {{ {ACTORS}  exists {{ $q actedIn $f }} }} return {{ $p, $f }}",
        [("ann", "f"), ("bob", "f"), ("bob", "g")],
    ),
    "no block about null": (f"match {{ {ACTORS}  not {{ $q actedIn $f }} }} return {{ $p, $f }}", [("cid", None), ("dan", None)]),
    "two blocks": (
        "match { $p: Person  optional { $p actedIn $f }  optional { $p $k:knows $q } } return { $p, $f, $q, $k.since as s }",
        [
            *(("ann", "f", "ann", None), ("bob", "f", None, None), ("bob", "g", None, None)),
            *(("cid", None, "ann", 7), ("cid", None, "ann", 8), ("dan", None, None, None)),
        ],
    ),
    "a block that goes on from null": (
        "match { $p: Person  optional { $p knows $q }  optional { $q actedIn $f } } return { $p, $q, $f }",
        [("ann", "ann", "f"), ("bob", None, None), ("cid", "ann", "f"), ("dan", None, None)],
    ),
    "a block inside a block": (
        'match { $p: Person  optional { $p actedIn $f  optional { $f actedIn $q  $q.name = "bob" } } } return { $p, $f, $q }',
        [("ann", "f", "bob"), ("bob", "f", "bob"), ("bob", "g", "bob"), ("cid", None, None), ("dan", None, None)],
    ),
    "a negation inside a block": (
        'match { $p: Person  optional { $p actedIn $f  not { $q actedIn $f  $q.name = "ann" } } } return { $p, $f }',
        [("ann", None), ("bob", "g"), ("cid", None), ("dan", None)],
    ),
    "a block without an outer variable": (
        "match { $f: Film  optional { $p: Person { born: 2 } } } return { $f, $p }",
        [(slug, name) for slug in "fgh" for name in ("bob", "dan")],
    ),
    "a block without an outer variable and rows": (
        "match { $f: Film  optional { $p: Person { born: 77 } } } return { $f, $p, $p.name as n }",
        [(slug, None, None) for slug in "fgh"],
    ),
    "a match that begins with a block": ("match { optional { $p: Person { born: 2 } } } return { $p.name as n }", [("bob",), ("dan",)]),
    "a match that is only an empty block": ("match { optional { $p: Person { born: 77 } } } return { $p.name as n }", [(None,)]),
    "joined by a null": (
        "match { $p: Person  optional { $p actedIn $f }  $g: Film  $g.title = $f.title } return { $p, $f, $g }",
        [("ann", "f", "f"), ("bob", "f", "f"), ("bob", "g", "g")],
    ),
    "beside a null": (
        'match { $p: Person { name: "dan" }  optional { $p actedIn $f }  $g: Film } return { $p, $f, $g }',
        [("dan", None, slug) for slug in "fgh"],
    ),
    "exists": ("match { $p: Person  exists { $p actedIn $f  $f.year is not null } } return { $p }", [("ann",), ("bob",)]),
    "either": (
        'match { $p: Person  either { $p actedIn $f  $f.slug = "g" } or { $p knows $q } or { $p.name = "dan" } } return { $p }',
        [("ann",), ("bob",), ("cid",), ("dan",)],
    ),
    "either of two": (
        'match { $p: Person  either { $p knows $p } or { $p actedIn $f  $f.slug = "g" } } return { $p }',
        [("ann",), ("bob",)],
    ),
    "either about two variables": (
        'match { $p: Person  $f: Film  either { $p actedIn $f } or { $f.year = 3  $p.name = "dan" } } return { $p, $f }',
        [("ann", "f"), ("bob", "f"), ("bob", "g"), ("dan", "h")],
    ),
    "counts": (
        f"match {{ {ACTORS} }} return {{ $p.name as n, count($f) as c, count(*) as r, count($f.year) as y }}",
        [("ann", 1, 1, 1), ("bob", 2, 2, 1), ("cid", 0, 1, 0), ("dan", 0, 1, 0)],
    ),
    "groups of null": (f"match {{ {ACTORS} }} return {{ $f, count(*) as n }}", [("f", 2), ("g", 1), (None, 2)]),
    "counts behind a link": (
        "match { $p: Person  optional { $p knows $q }  $p actedIn $f } return { count(*) as r, count($q) as q, count($f) as f }",
        [(3, 1, 3)],
    ),
    "collected": (
        f"match {{ {ACTORS} }} return {{ $p.born as b, collect($f) as l, collect(distinct $f.title) as t }}",
        [(1, ["f"], ["F"]), (2, ["f", "g"], ["F", "G"]), (None, [], [])],
    ),
    "distinct": (f"match {{ {ACTORS} }} return distinct {{ $f.year as y, $p.tags as t }}", [(1, ["x"]), (None, ["x"]), (None, None)]),
    "computed from groups": (
        f"match {{ {ACTORS} }} return {{ count($f) * 10 + count(*) as n, $p.born as b, count(*) - 1 as m }}",
        [(11, 1, 0), (23, 2, 2), (1, None, 0)],
    ),
}
"""What is asked -> the rows, in any order."""


@pytest.mark.parametrize("case", ROWS)
def test_blocks_and_nulls(graph: Graph, case: str) -> None:
    body, expected = ROWS[case]
    assert bag(graph, body) == sorted(expected, key=repr)
    for route in Route:
        assert routed(graph, body, route) == sorted(expected, key=repr)


ORDERED: Final[dict[str, tuple[str, list[tuple[Any, ...]]]]] = {
    "nulls are smallest, also of an id": (
        f"match {{ {ACTORS} }} return {{ $p, $f }} order {{ $p.alive }}",
        [("cid", None), ("dan", None), ("ann", "f"), ("bob", "f"), ("bob", "g")],
    ),
    "nulls last": (
        f"match {{ {ACTORS} }} return {{ $p.name as p, $f.slug as f }} order {{ $f.slug nulls last, p desc }}",
        [("bob", "f"), ("ann", "f"), ("bob", "g"), ("dan", None), ("cid", None)],
    ),
    "nulls first, descending": (
        f"match {{ {ACTORS} }} return {{ $p.name as p, $f.slug as f }} order {{ f desc nulls first, p }} limit 3",
        [("cid", None), ("dan", None), ("bob", "g")],
    ),
    "skip": ("match { $p: Person } return { $p.name as n } order { n } skip 1", [("bob",), ("cid",), ("dan",)]),
    "skip and limit": ("match { $p: Person } return { $p.name as n } order { n desc } skip 1 limit 2", [("cid",), ("bob",)]),
    "skip everything": ("match { $p: Person } return { $p.name as n } order { n } skip 9 limit 2", []),
    "an expression": (
        "match { $p: Person } return { $p.name as n } order { 0 - $p.born nulls last } skip 1",
        [("dan",), ("ann",), ("cid",)],
    ),
    "an expression that is not an output, with a limit": (
        "match { $p: Person } return { $p.name as n } order { length($p.name) + coalesce($p.born, 9) desc } limit 2",
        [("cid",), ("bob",)],
    ),
    "groups": (
        f"match {{ {ACTORS} }} return {{ $p.name as p, count($f) as n }} order {{ n desc, p desc }} skip 1 limit 2",
        [("ann", 1), ("dan", 0)],
    ),
    "distinct rows": (f"match {{ {ACTORS} }} return distinct {{ $f.year as y }} order {{ y desc nulls first }} limit 1", [(None,)]),
    "distinct rows after some": (f"match {{ {ACTORS} }} return distinct {{ $f.year as y }} order {{ y }} skip 1", [(1,)]),
}
"""What is asked -> the rows, in order."""


@pytest.mark.parametrize("case", ORDERED)
def test_order_skip_and_limit(graph: Graph, case: str) -> None:
    body, expected = ORDERED[case]
    assert ask(graph, body) == expected


def test_skip_and_limit_without_an_order_cut_the_same_rows(graph: Graph) -> None:
    for body in ("$p: Person", "$p: Person  $p actedIn $f", ACTORS):
        everything = ask(graph, f"match {{ {body} }} return {{ $p }}")
        for skip in range(len(everything) + 2):
            assert ask(graph, f"match {{ {body} }} return {{ $p }} skip {skip}") == everything[skip:]
            assert ask(graph, f"match {{ {body} }} return {{ $p }} skip {skip} limit 2") == everything[skip : skip + 2]


def in_single_rows(graph: Graph, body: str, *, memory_bytes: int = MEMORY_BYTES) -> list[tuple[Any, ...]]:
    """The rows if every outer row starts the inner plan of a block of its own."""
    snapshot = graph.engine.manifest.snapshot()
    read = graph.engine.compiled_read(Source(text_of(body), "query.gq"), None, snapshot).read
    table = run(plan_read(read, {}, now_ms=0), graph.engine.view(snapshot), watch=Watch(), memory_bytes=memory_bytes, outer_rows=1)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.mark.parametrize("case", ROWS)
def test_outer_rows_in_many_batches_give_the_same(graph: Graph, case: str) -> None:
    body, expected = ROWS[case]
    assert in_single_rows(graph, body) == sorted(expected, key=repr)


def test_the_rows_of_a_block_without_an_outer_variable_are_bounded(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(person(f"p{at}") for at in range(40)), film("f"))
    body = "match { $f: Film  optional { $p: Person } } return { count($p) as n }"
    assert routed(graph, body, Route.INDEX) == [(40,)]
    with pytest.raises(ResourceLimitExceeded) as refused:
        routed(graph, body, Route.INDEX, memory_bytes=300)
    assert refused.value.facts["clause"] == "match"


def test_what_distinct_rows_and_collected_values_hold_is_bounded(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(person(f"p{at}", born=at) for at in range(400)))
    for body in (
        "match { $p: Person } return distinct { $p.name as n }",
        "match { $p: Person } return { collect($p.name) as n }",
        "match { $p: Person } return { count(distinct $p.name) as n }",
    ):
        with pytest.raises(ResourceLimitExceeded) as refused:
            routed(graph, body, Route.INDEX, memory_bytes=1_000)
        assert refused.value.facts["clause"] == "return"


def test_what_a_block_held_is_given_back(graph: Graph) -> None:
    """The inner plan runs once for every batch of outer rows; its product is not counted again and again."""
    body = "match { $p: Person  not { $p actedIn $f  $g: Film  $q: Person  $q.born = 77 } } return { count($p) as n }"
    assert in_single_rows(graph, body, memory_bytes=100) == [(4,)]


def test_blocks_are_measured(graph: Graph) -> None:
    text = graph.explain(text_of(f"match {{ {ACTORS}  exists {{ $p knows $q }} }} return {{ count(*) as n }}"), analyze=True).text
    assert "optional" in text
    assert "semi join" in text


# -- laws

INSIDE: Final = (
    "$p knows $q",
    "$p knows $q  $q.born > 4",
    "$p $k:knows $q  $k.since > 0",
    "$q knows $p  $q.born < $p.born",
    "$p <knows>{2,3} $q",
    "$p knows $q  $q actedIn $f",
    "$q: Person { born: 3 }  $p knows $q",
    "$q: Person  $q.born = $p.born",
    "$p knows $q  not { $q knows $p }",
    "$p knows $q  optional { $q actedIn $f }",
)


@pytest.fixture(scope="module", params=range(2))
def random_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return random_graph(tmp_path_factory.mktemp("laws"), request.param)[0]


@pytest.mark.parametrize("inside", INSIDE)
def test_an_optional_block_is_its_match_and_its_negation(random_case: Graph, inside: str) -> None:
    """Rows of the block once each, and a row with null where there is none."""
    found = bag(random_case, f"match {{ $p: Person  {inside} }} return {{ $p, $q }}")
    alone = bag(random_case, f"match {{ $p: Person  not {{ {inside} }} }} return {{ $p }}")
    assert found or alone
    body = f"match {{ $p: Person  optional {{ {inside} }} }} return {{ $p, $q }}"
    expected = sorted([*found, *((name, None) for (name,) in alone)], key=repr)
    assert bag(random_case, body) == expected
    assert all(routed(random_case, body, route) == expected for route in Route)
    counted = bag(random_case, f"match {{ $p: Person  optional {{ {inside} }} }} return {{ $p, count($q) as n, collect($q) as l }}")
    names = [name for (name,) in bag(random_case, "match { $p: Person } return { $p }")]
    lists = {name: sorted(other for one, other in found if one == name) for name in names}
    assert [(name, count, sorted(others)) for name, count, others in counted] == [(name, len(lists[name]), lists[name]) for name in names]


@pytest.mark.parametrize(("one", "other"), list(pairwise(INSIDE)))
def test_either_block_is_the_union_of_both(random_case: Graph, one: str, other: str) -> None:
    kept = [set(ask(random_case, f"match {{ $p: Person  {inside} }} return distinct {{ $p }}")) for inside in (one, other)]
    for inside, expected in zip((one, other), kept, strict=True):
        assert bag(random_case, f"match {{ $p: Person  exists {{ {inside} }} }} return {{ $p }}") == sorted(expected, key=repr)
    body = f"match {{ $p: Person  either {{ {one} }} or {{ {other} }} }} return {{ $p }}"
    assert bag(random_case, body) == sorted(kept[0] | kept[1], key=repr)
    neither = bag(random_case, f"match {{ $p: Person  not {{ {one} }}  not {{ {other} }} }} return {{ $p }}")
    everybody = bag(random_case, "match { $p: Person } return { $p }")
    assert sorted([*neither, *(kept[0] | kept[1])], key=repr) == everybody
