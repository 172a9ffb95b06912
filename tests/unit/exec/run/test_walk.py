"""Traversals: the search of the language from either end, and the same rows by index and by adjacency."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.walk import FoundEdges, Pairs, Reach, Steps, search
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph
from omnigraph.plan.ops import Route
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import Mask
from tests.reads import acted, ask, bag, film, graph_of, knows, load, person, routed

SIZE = 6
Edge = tuple[int, int]
arcs = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=12)


class Listed:
    """Edges in a list. Satisfies `walk.EdgeFinder` as far as a search asks."""

    def __init__(self, edges: list[Edge]) -> None:
        self.edges = edges

    def hops(self, direction: Direction, nodes: Numbers64) -> FoundEdges:
        found = [
            (place, other, at)
            for place, node in enumerate(nodes.tolist())
            for at, edge in enumerate(self.edges)
            for other in _others(edge, node, direction)
        ]
        columns = np.array(sorted(found), np.int64).reshape(-1, 3)
        return FoundEdges(columns[:, 0], columns[:, 1], columns[:, 2])

    def steps(self, direction: Direction, nodes: Numbers64) -> Steps:
        raise AssertionError("a search asks for hops only")

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        raise AssertionError("a search asks for hops only")

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        raise AssertionError("a search asks for hops only")

    def linked(self, reach: Reach, nodes: Numbers64) -> Mask:
        raise AssertionError("a search asks for hops only")


def _others(edge: Edge, node: int, direction: Direction) -> set[int]:
    found = set()
    if direction is not Direction.IN and edge[0] == node:
        found.add(edge[1])
    if direction is not Direction.OUT and edge[1] == node:
        found.add(edge[0])
    return found


def emitted(edges: list[Edge], start: int, direction: Direction, low: int, high: int) -> set[int]:
    """The search as the language defines it, word by word."""
    frontier, visited, found = [start], {start}, set()
    for hop in range(1, high + 1):
        following = []
        for node in frontier:
            for other in {other for edge in edges for other in _others(edge, node, direction)}:
                if other == node:
                    if hop >= low:
                        found.add(other)
                elif other not in visited:
                    visited.add(other)
                    following.append(other)
                    if hop >= low:
                        found.add(other)
        frontier = following
    return found


@settings(deadline=None)
@given(arcs, st.sampled_from(Direction), st.integers(1, 4), st.integers(0, 4), st.booleans())
def test_a_search_emits_the_same_pairs_from_either_end(
    edges: list[Edge], direction: Direction, low: int, more: int, from_right: bool
) -> None:
    reach = Reach(direction, low, low + more, from_right)
    nodes = np.arange(SIZE, dtype=np.int64)
    found = search(Listed(edges), reach, nodes, size=SIZE, watch=Watch())
    pairs = {(start, end) for start in range(SIZE) for end in emitted(edges, start, direction, low, low + more)}
    expected = {(end, start) for start, end in pairs} if from_right else pairs
    assert set(zip(found.origin.tolist(), found.reached.tolist(), strict=True)) == expected
    assert len(found.origin) == len(expected)


def test_a_search_ends_where_there_is_nothing_new() -> None:
    found = search(Listed([(0, 1)]), Reach(Direction.OUT, 1, 10**12, from_right=False), np.array([0]), size=SIZE, watch=Watch())
    assert found.reached.tolist() == [1]


# -- on real tables


def random_graph(place: Path, seed: int) -> tuple[Graph, list[tuple[str, str]]]:
    """Parallel edges, edges to oneself, cycles, films whose ids are those of persons, several fragments, deleted rows."""
    rnd = random.Random(seed)
    names = [f"n{at}" for at in range(9)]
    graph = graph_of(
        place, *(person(name, born=at) for at, name in enumerate(names)), *(film(name, year=at) for at, name in enumerate(names))
    )
    edges: list[tuple[str, str]] = []
    for part in range(3):
        ends = [(rnd.choice(names), rnd.choice(names)) for _ in range(rnd.randint(2, 9))]
        load(graph, *(knows(a, b, since=part) for a, b in ends), *(acted(b, a, role="x" if part else None) for a, b in ends))
        edges += ends
    gone = rnd.choice(names)
    graph.mutate(f'query d() {{ delete Person where name = "{gone}" }}')
    return graph, [(a, b) for a, b in edges if gone not in (a, b)]


BODIES = [
    "match { $p: Person  $p knows $q } return { $p, $q }",
    "match { $q: Person { born: 3 }  $p knows $q } return { $p, $q }",
    "match { $p: Person  $p <knows> $q } return { $p, $q }",
    "match { $p: Person  $p $k:knows $q } return { $p, $q, $k.since as s }",
    "match { $p: Person  $p $k:<knows> $q } return { $p, $q, $k.since as s }",
    "match { $p: Person  $p $k:knows $q  $k.since > 0 } return { $p, $q, $k.since as s }",
    "match { $p: Person  $p $k:knows $q  $q.born > $k.since } return { $p, $q }",
    "match { $p: Person  $p knows{1,3} $q } return { $p, $q }",
    "match { $p: Person  $p knows{2,3} $q  $q.born > 4 } return { $p, $q }",
    "match { $p: Person { born: 2 }  $q: Person  $q knows{1,4} $p } return { $p, $q }",
    "match { $p: Person  $p <knows>{2,2} $q } return { $p, $q }",
    "match { $p: Person  $p knows $p } return { $p }",
    "match { $p: Person  $p knows{1,3} $p } return { $p }",
    "match { $p: Person  $q: Person  $p knows $q  $q knows $p } return { $p, $q }",
    "match { $p: Person  $q: Person  $p $k:knows $q  $q $l:knows $p } return { $p, $q, $k.since as s, $l.since as t }",
    "match { $p: Person  $p knows $q  $q actedIn $f  $p actedIn $f } return { $p, $q, $f }",
    "match { $f: Film  $f actedIn $p } return { $p, $f }",
    'match { $f: Film  $p $r:actedIn $f  $r.role contains "x" } return { $p, $f, $r.role as r }',
    "match { $p: Person  not { $p knows $q  $q.born < 5 } } return { $p }",
    "match { $p: Person  not { $p knows{2,3} $q  not { $q actedIn $f } } } return { $p }",
    "match { $p: Person  $p knows $_ } return { $p }",
]


@pytest.fixture(scope="module", params=range(3))
def random_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, list[tuple[str, str]]]:
    return random_graph(tmp_path_factory.mktemp("walk"), request.param)


@pytest.mark.parametrize("body", BODIES)
def test_both_routes_give_the_same_rows(random_case: tuple[Graph, list[tuple[str, str]]], body: str) -> None:
    """X-12: a route costs more or less time; it never changes an answer."""
    graph, _ = random_case
    for route in Route:
        assert routed(graph, body, route) == bag(graph, body)


def test_rows_are_those_of_the_stored_edges(random_case: tuple[Graph, list[tuple[str, str]]]) -> None:
    graph, edges = random_case
    assert bag(graph, BODIES[0]) == sorted(set(edges), key=repr)
    assert [row[:2] for row in bag(graph, BODIES[3])] == sorted(edges, key=repr)
    both = sorted([*edges, *((b, a) for a, b in edges if a != b)], key=repr)
    assert [row[:2] for row in bag(graph, BODIES[4])] == both
    assert bag(graph, BODIES[11]) == sorted({(a,) for a, b in edges if a == b}, key=repr)


def test_a_negation_and_its_complement_are_the_whole_type(random_case: tuple[Graph, list[tuple[str, str]]]) -> None:
    """X-12: nobody is in both, nobody in neither."""
    graph, _ = random_case
    everybody = bag(graph, "match { $p: Person } return { $p }")
    without = bag(graph, "match { $p: Person  not { $p knows $q  $q.born < 5 } } return { $p }")
    having = sorted(set(ask(graph, "match { $p: Person  $p knows $q  $q.born < 5 } return { $p }")), key=repr)
    assert sorted([*without, *having], key=repr) == everybody


def test_an_edge_without_its_node_leads_nowhere(tmp_path: Path) -> None:
    """Such an edge cannot be written; it can be left behind by other means, and then contributes nothing, by either route."""
    import pyarrow as pa

    from tests.mutations import fill

    graph = graph_of(tmp_path, person("a"), person("b"))
    columns = {"id": ["e1", "e2", "e3"], "src": ["a", "a", "gone"], "dst": ["b", "gone", "b"], "note": [None] * 3, "since": [1, 2, 3]}
    fill(
        graph,
        {
            "edge:Knows": pa.table(
                {name: pa.array(values, pa.int32() if name == "since" else pa.string()) for name, values in columns.items()}
            )
        },
    )
    for body in (
        "match { $p: Person  $p $k:knows $q } return { $p, $q, $k.since as s }",
        "match { $q: Person  $p $k:knows $q } return { $p, $q, $k.since as s }",
    ):
        assert all(routed(graph, body, route) == [("a", "b", 1)] for route in Route)


def test_an_overflow_of_a_node_that_the_walk_does_not_reach_is_no_error(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path, person("ann"), person("bob", rank=3), *(person(f"p{at}", rank=2**62) for at in range(30)), knows("ann", "bob", since=1)
    )
    body = 'match { $a: Person { name: "ann" }  $a knows $b  $b.rank * 2 > 5 } return { $b }'
    assert ask(graph, body) == [("bob",)]
    assert [routed(graph, body, route) for route in Route] == [[("bob",)]] * len(Route)


def test_two_zeros_are_equal_with_and_without_an_index(tmp_path: Path) -> None:
    schema = "node P { name: String @key  a: F32? @index  b: F32? @index }"
    graph = graph_of(tmp_path, *({"type": "P", "data": {"name": name, "a": a, "b": b}} for name, a, b in ZEROS), schema=schema)
    equal, less = "match { $p: P  $p.a = $p.b } return { $p }", "match { $p: P  $p.a < $p.b } return { $p }"
    for _ in range(2):
        assert bag(graph, equal) == [("minus",), ("one",), ("plus",)]
        assert bag(graph, less) == [("less",)]
        graph.ensure_indices()


ZEROS = (("minus", -0.0, 0.0), ("plus", 0.0, -0.0), ("one", 1.0, 1.0), ("less", 0.0, 1.0), ("null", None, 1.0))
