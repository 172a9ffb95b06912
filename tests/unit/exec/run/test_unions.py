"""Links over several edge types, their paths, and bindings on interfaces, on real tables and by every route."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.exec.read.expand import SEARCHED_STARTS
from omnigraph.graph import Graph
from omnigraph.plan.ops import Route
from omnigraph.plan.typed import Direction
from tests.reads import ask, bag, graph_of, load, routed
from tests.unit.exec.run.test_paths import emitted, smallest

SCHEMA = """
interface Titled { title: String  year: I32?  tags: [String]? }
interface Lonely { nothing: String? }
node Film implements Titled { slug: String @key }
node Book implements Titled { isbn: String @key  pages: I64? }
node Person { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Likes: Person -> Person
edge Saw: Person -> Film
edge Shot: Person -> Film
edge Wrote: Person -> Book
edge Sequel: Film -> Film
"""


def node(type_: str, **values: object) -> dict[str, object]:
    return {"type": type_, "data": values}


def edge(type_: str, source: str, target: str, id_: str | None = None, **values: object) -> dict[str, object]:
    return {"edge": type_, "from": source, "to": target, "data": values if id_ is None else {"id": id_, **values}}


# -- several edge types

NAMES: Final = [f"n{at}" for at in range(8)]
Ends = tuple[int, int]


def random_graph(place: Path, seed: int) -> tuple[Graph, list[Ends], list[str]]:
    """Two edge types between persons: parallel edges within and between them, edges to oneself, several fragments, a deleted node."""
    rnd = random.Random(seed)
    names = rnd.sample(NAMES, len(NAMES))
    graph = graph_of(place, *(node("Person", name=name) for name in NAMES), schema=SCHEMA)
    edges: list[Ends] = []
    for part in range(2):
        records = []
        for _ in range(rnd.randint(4, 7)):
            at, left, right = len(edges), rnd.randrange(8), rnd.randrange(8)
            edges.append((left, right))
            records.append(edge(rnd.choice(["Knows", "Likes"]), names[left], names[right], f"e{99 - at}"))
        load(graph, *records)
        if not part:
            load(graph, node("Person", name="late"))
    graph.mutate('query d() { delete Person where name = "late" }')
    return graph, edges, names


LINKS: Final = [
    ("$p knows|likes{1,3} $q", Direction.OUT, 1, 3),
    ("$p knows|likes{2,4} $q", Direction.OUT, 2, 4),
    ("$q likes|knows{1,2} $p", Direction.IN, 1, 2),
    ("$p <knows|likes>{1,4} $q", Direction.BOTH, 1, 4),
    ("$p <knows|likes>{2,2} $q", Direction.BOTH, 2, 2),
    ("$p knows|likes $q", Direction.OUT, 1, 1),
]
PATTERNS: Final = {"from the left": "$p: Person  LINK", "from the right": "$q: Person  LINK", "a test": "$p: Person  $q: Person  LINK"}


@pytest.fixture(scope="module", params=range(3))
def random_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, list[Ends], list[str]]:
    return random_graph(tmp_path_factory.mktemp("unions"), request.param)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("link", "direction", "low", "high"), LINKS)
def test_a_link_follows_the_edges_of_all_its_types(
    random_case: tuple[Graph, list[Ends], list[str]], link: str, direction: Direction, low: int, high: int, pattern: str
) -> None:
    graph, edges, names = random_case
    pairs = [(left, right) for left in range(8) for right in emitted(edges, left, direction, low, high)]
    expected = sorted(((names[left], names[right]) for left, right in pairs), key=repr)
    match = PATTERNS[pattern].replace("LINK", link)
    assert bag(graph, f"match {{ {match} }} return {{ $p, $q }}") == expected
    for route in Route:
        assert routed(graph, f"match {{ {match} }} return {{ $p, $q }}", route) == expected


@pytest.mark.parametrize("bound", ["$p", "$q"])
@pytest.mark.parametrize(("link", "direction", "low", "high"), LINKS)
def test_a_link_between_a_few_known_nodes(
    random_case: tuple[Graph, list[Ends], list[str]], link: str, direction: Direction, low: int, high: int, bound: str
) -> None:
    """The far end is known before the walk, so that each two nodes are searched between."""
    graph, edges, names = random_case
    other = {"$p": "$q", "$q": "$p"}[bound]
    body = f'match {{ {bound}: Person  {bound}.name in ["n1", "n2", "n3"]  {other}: Person {{ name: "n4" }}  {link} }} return {{ $p, $q }}'
    pairs = [(names[left], names[right]) for left in range(8) for right in emitted(edges, left, direction, low, high)]
    wanted = [pair for pair in pairs if {"$p": pair[0], "$q": pair[1]}[bound] in ("n1", "n2", "n3")]
    expected = sorted((pair for pair in wanted if {"$p": pair[0], "$q": pair[1]}[other] == "n4"), key=repr)
    for route in Route:
        assert routed(graph, body, route) == expected


def test_many_nodes_and_a_few_known_ends(tmp_path: Path) -> None:
    """A block starts at all outer rows; its walk starts at the few nodes where it may end."""
    rnd, count = random.Random(5), 4 * SEARCHED_STARTS
    edges = [(rnd.randrange(count), rnd.randrange(count)) for _ in range(2 * count)]
    people = [node("Person", name=f"n{at:02d}") for at in range(count)]
    graph = graph_of(tmp_path, *people, *(edge("Knows", f"n{left:02d}", f"n{right:02d}") for left, right in edges), schema=SCHEMA)
    for low, high in ((1, 3), (2, 4)):
        for link, left_first in ((f"$p knows{{{low},{high}}} $q", True), (f"$q knows{{{low},{high}}} $p", False)):
            body = f'match {{ $p: Person  optional {{ {link}  $q.name in ["n04", "n09"] }} }} return {{ $p, $q }}'
            pairs = {(a, b) for a in range(count) for b in emitted(edges, a, Direction.OUT, low, high)}
            expected: list[tuple[str, str | None]] = []
            for at in range(count):
                ends = [end for end in (4, 9) if ((at, end) if left_first else (end, at)) in pairs]
                expected += [(f"n{at:02d}", f"n{end:02d}") for end in ends] or [(f"n{at:02d}", None)]
            for route in Route:
                assert routed(graph, body, route) == sorted(expected, key=repr)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("link", "direction", "low", "high"), [link for link in LINKS if link[1] is not Direction.IN])
def test_paths_by_every_route(
    random_case: tuple[Graph, list[Ends], list[str]], link: str, direction: Direction, low: int, high: int, pattern: str
) -> None:
    graph, edges, names = random_case
    expected = []
    for left in range(8):
        for right in emitted(edges, left, direction, low, high):
            nodes, taken = smallest(edges, names, (left, right), direction, low, high)
            expected.append((names[left], names[right], nodes, taken, len(taken)))
    match = PATTERNS[pattern].replace("LINK", f"path $w = {link}")
    body = f"match {{ {match} }} return {{ $p, $q, nodes($w) as n, edges($w) as e, length($w) as l }}"
    for route in (None, *Route):
        assert (bag(graph, body) if route is None else routed(graph, body, route)) == sorted(expected, key=repr)


def test_a_path_goes_from_the_left_against_the_edges(tmp_path: Path) -> None:
    records = [node("Person", name="a"), node("Film", slug="f", title="F"), node("Film", slug="g", title="G")]
    records += [edge("Saw", "a", "f", "s1"), edge("Shot", "a", "f", "s0"), edge("Shot", "a", "g", "s2")]
    graph = graph_of(tmp_path, *records, schema=SCHEMA)
    body = "match { $f: Film  path $w = $f saw|shot $p } return { nodes($w) as n, edges($w) as e, length($w) as l }"
    for route in Route:
        assert routed(graph, body, route) == [(["f", "a"], ["s0"], 1), (["g", "a"], ["s2"], 1)]
    counted = "match { $p: Person  $p saw|shot $f } return { $p, count($f) as n }"
    for route in Route:
        assert routed(graph, counted, route) == [("a", 2)]


def test_a_path_of_an_optional_block_may_be_null(tmp_path: Path) -> None:
    records = [*(node("Person", name=name) for name in "abc"), edge("Knows", "a", "b", "k"), edge("Likes", "b", "c", "l")]
    graph = graph_of(tmp_path, *records, schema=SCHEMA)
    body = (
        'match { $p: Person  $q: Person { name: "c" }  optional { path $w = $p knows|likes{1,5} $q } } '
        "return { $p, length($w) as l, nodes($w) as n, edges($w) as e }"
    )
    expected = [("a", 2, ["a", "b", "c"], ["k", "l"]), ("b", 1, ["b", "c"], ["l"]), ("c", None, None, None)]
    for route in Route:
        assert routed(graph, body, route) == expected


def test_a_path_is_tested_after_it_is_found(tmp_path: Path) -> None:
    records = [*(node("Person", name=name) for name in "abcd"), *(edge("Knows", *ends) for ends in ("ab", "bc", "cd"))]
    graph = graph_of(tmp_path, *records, schema=SCHEMA)
    start = '$p: Person { name: "a" }  path $w = $p knows{1,5} $q'
    assert bag(graph, f"match {{ {start}  length($w) > 1 }} return {{ $q }}") == [("c",), ("d",)]
    assert bag(graph, f"match {{ {start}  length($w) > 1  exists {{ $q knows $r  length($w) < 3 }} }} return {{ $q }}") == [("c",)]
    both = f'{start}  $r: Person {{ name: "d" }}  path $v = $q knows{{1,5}} $r  length($w) > length($v)'
    assert bag(graph, f"match {{ {both} }} return {{ $q, length($w) as w, length($v) as v }}") == [("c", 2, 1)]
    assert ask(graph, f"match {{ {start} }} return {{ $q }} order {{ length($w) desc }} limit 2") == [("d",), ("c",)]


# -- interfaces


@pytest.fixture(scope="module")
def titles(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A film and a book share an id; Ann saw a film and wrote two books, Bob shot a film."""
    return graph_of(
        tmp_path_factory.mktemp("titles"),
        *(
            node("Film", slug="x", title="X", year=1, tags=["t"]),
            node("Film", slug="f", title="F"),
            node("Film", slug="g", title="G", year=3),
        ),
        *(
            node("Book", isbn="x", title="XB", year=3, pages=7),
            node("Book", isbn="b", title="B"),
            node("Book", isbn="c", title="C", year=1),
        ),
        *(node("Person", name="ann"), node("Person", name="bob")),
        *(
            edge("Saw", "ann", "x"),
            edge("Wrote", "ann", "x"),
            edge("Wrote", "ann", "b"),
            edge("Shot", "bob", "g"),
            edge("Sequel", "x", "f"),
        ),
        *(edge("Sequel", "f", "g"), edge("Knows", "ann", "bob")),
        schema=SCHEMA,
    )


INTERFACES: Final[dict[str, tuple[str, list[tuple[Any, ...]]]]] = {
    "all": (
        "match { $x: Titled } return { type($x) as t, $x.title as n, $x.id as i, $x }",
        [
            *(("Book", "B", "b", "b"), ("Book", "C", "c", "c"), ("Book", "XB", "x", "x")),
            *(("Film", "F", "f", "f"), ("Film", "G", "g", "g"), ("Film", "X", "x", "x")),
        ],
    ),
    "a property": ("match { $x: Titled { year: 3 } } return { $x.title as n, $x.tags as g }", [("G", None), ("XB", None)]),
    "a list property": ("match { $x: Titled  $x.tags is not null } return { $x.title as n, $x.tags as g }", [("X", ["t"])]),
    "an id": ('match { $x: Titled { id: "x" } } return { $x.title as n }', [("X",), ("XB",)]),
    "a type": ('match { $x: Titled  type($x) = "Book"  $x.year is not null } return { $x.title as n }', [("C",), ("XB",)]),
    "the type of a node": ('match { $x: Film  type($x) != "Book" } return { type($x) as t, $x }', [("Film", name) for name in "fgx"]),
    "the type of no node": ('match { $x: Film  type($x) = "Book" } return { $x }', []),
    "the type of an edge": ('match { $p: Person  $p $k:knows $q  type($k) = "Knows" } return { type($k) as t }', [("Knows",)]),
    "a link to it": ("match { $x: Titled  $p wrote $x } return { $p, $x.title as n }", [("ann", "B"), ("ann", "XB")]),
    "a link to it with a condition": ("match { $x: Titled  $p wrote $x  $x.year = 3 } return { $p, $x.title as n }", [("ann", "XB")]),
    "a link from it": ("match { $x: Titled  $x saw $p } return { $p, $x.title as n }", [("ann", "X")]),
    "two links": ("match { $x: Titled  $p saw|shot $x } return { $p, $x.title as n }", [("ann", "X"), ("bob", "G")]),
    "a bound person": ('match { $p: Person { name: "ann" }  $x: Titled  $p wrote $x } return { $x.title as n }', [("B",), ("XB",)]),
    "a bound edge": (
        "match { $x: Titled  $p $r:saw $x } return { $p, $r.from as f, $r.to as t, $x.title as n }",
        [("ann", "ann", "x", "X")],
    ),
    "several hops": (
        "match { $x: Titled  $x sequel{1,2} $y } return { $x.title as n, $y.title as m }",
        [("F", "G"), ("X", "F"), ("X", "G")],
    ),
    "several hops to it": ("match { $x: Titled  $y: Titled  $y sequel{2,2} $x } return { $y.title as n, $x.title as m }", [("X", "G")]),
    "several hops from both ends": (
        'match { $x: Titled { id: "x" }  $y: Titled { id: "g" }  $x sequel{1,3} $y } return { $x.title as n, $y.title as m }',
        [("X", "G")],
    ),
    "paths": (
        "match { $x: Titled  $y: Titled  path $w = $x sequel{1,5} $y } return { nodes($w) as n, type($y) as t }",
        [(["f", "g"], "Film"), (["x", "f"], "Film"), (["x", "f", "g"], "Film")],
    ),
    "a path to it": ("match { $x: Titled  path $w = $p wrote $x } return { nodes($w) as n }", [(["ann", "b"],), (["ann", "x"],)]),
    "groups": ("match { $x: Titled } return { type($x) as t, count(*) as n, max($x.year) as y }", [("Book", 3, 3), ("Film", 3, 3)]),
    "groups of nodes": ('match { $x: Titled { id: "x" } } return { $x, count(*) as n }', [("x", 1), ("x", 1)]),
    "counts": ("match { $x: Titled  $p wrote $x } return { $p, count($x) as n }", [("ann", 2)]),
    "collected": ("match { $x: Titled  $x.year is not null } return { collect($x.title) as n }", [(["C", "G", "XB", "X"],)]),
    "exists": ("match { $x: Titled  exists { $p saw $x } } return { $x.title as n }", [("X",)]),
    "not": ("match { $x: Titled  not { $p wrote $x } } return { $x.title as n }", [("C",), ("F",), ("G",), ("X",)]),
    "optional": (
        'match { $x: Titled { id: "x" }  optional { $p saw $x } } return { type($x) as t, $p }',
        [("Book", None), ("Film", "ann")],
    ),
    "an optional interface": (
        "match { $p: Person  optional { $x: Titled  $p wrote $x } } return { $p, type($x) as t, $x.title as n }",
        [("ann", "Book", "B"), ("ann", "Book", "XB"), ("bob", None, None)],
    ),
    "without a type": ("match { $x: Lonely } return { $x.nothing as n, type($x) as t, $x }", []),
}


@pytest.mark.parametrize("case", INTERFACES)
def test_interfaces(titles: Graph, case: str) -> None:
    body, expected = INTERFACES[case]
    assert bag(titles, body) == sorted(expected, key=repr)
    for route in Route:
        assert routed(titles, body, route) == sorted(expected, key=repr)


def test_equal_ids_are_in_the_order_of_their_types(titles: Graph) -> None:
    ordered = ask(titles, "match { $x: Titled } return { $x, type($x) as t, $x.year as y } order { $x.year desc }")
    assert ordered == [("g", "Film", 3), ("x", "Book", 3), ("c", "Book", 1), ("x", "Film", 1), ("b", "Book", None), ("f", "Film", None)]
    by_id = ask(titles, "match { $x: Titled } return { $x, type($x) as t } order { $x.id } skip 1 limit 10")
    assert by_id == [("c", "Book"), ("f", "Film"), ("g", "Film"), ("x", "Book"), ("x", "Film")]


def test_a_limit_ends_a_scan_of_an_interface(titles: Graph) -> None:
    assert len(ask(titles, "match { $x: Titled } return { $x, type($x) as t } limit 4")) == 4
    assert len(ask(titles, "match { $x: Titled } return { $x } skip 5 limit 4")) == 1
