"""Shortest paths: what the search finds is what trying all walks finds, whatever the ids, the bounds and the way of searching."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.paths import NodeLists, PathSearch, smallest_edges
from omnigraph.exec.read.walk import FoundEdges, Pairs, Reach, Steps
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import Mask

SIZE = 7
Edge = tuple[int, int]
edge_lists = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=16)
orders = st.permutations([f"n{at}" for at in range(SIZE)])


class ListedEdges:
    """Edges in a list. Satisfies `walk.EdgeFinder` as far as paths ask."""

    def __init__(self, edges: Sequence[Edge]) -> None:
        self.edges = edges

    def hops(self, direction: Direction, nodes: Numbers64) -> FoundEdges:
        found = [
            (place, other, at)
            for place, node in enumerate(nodes.tolist())
            for at, edge in enumerate(self.edges)
            for other in ends(edge, node, direction)
        ]
        columns = np.array(found, np.int64).reshape(-1, 3)
        return FoundEdges(columns[:, 0], columns[:, 1], columns[:, 2])

    def steps(self, direction: Direction, nodes: Numbers64) -> Steps:
        found = self.hops(direction, nodes)
        return Steps(found.origin[::-1], found.reached[::-1])

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        raise AssertionError("paths ask for steps and hops only")

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        raise AssertionError("paths ask for steps and hops only")

    def linked(self, reach: Reach, nodes: Numbers64) -> Mask:
        raise AssertionError("paths ask for steps and hops only")


def ends(edge: Edge, node: int, direction: Direction) -> set[int]:
    """Where one edge leads from a node."""
    found = set()
    if direction is not Direction.IN and edge[0] == node:
        found.add(edge[1])
    if direction is not Direction.OUT and edge[1] == node:
        found.add(edge[0])
    return found


def emitted(edges: Sequence[Edge], start: int, direction: Direction, low: int, high: int) -> set[int]:
    """The search as the language defines it, word by word."""
    frontier, visited, found = [start], {start}, set()
    for hop in range(1, high + 1):
        following = []
        for node in frontier:
            for other in {other for edge in edges for other in ends(edge, node, direction)}:
                if other == node or other not in visited:
                    if hop >= low:
                        found.add(other)
                    if other not in visited:
                        visited.add(other)
                        following.append(other)
        frontier = following
    return found


def smallest(
    edges: Sequence[Edge], ids: Sequence[str], pair: Edge, direction: Direction, low: int, high: int
) -> tuple[list[str], list[str]]:
    """The smallest of the shortest walks within the bounds that repeat no node, except over an edge of a node to itself."""
    walks: list[tuple[list[int], list[str]]] = [([pair[0]], [])]
    for hop in range(1, high + 1):
        walks = [
            ([*nodes, other], [*taken, edge_id(at)])
            for nodes, taken in walks
            for at, edge in enumerate(edges)
            for other in ends(edge, nodes[-1], direction)
            if other not in nodes or other == nodes[-1]
        ]
        found = sorted(([ids[node] for node in nodes], taken) for nodes, taken in walks if nodes[-1] == pair[1])
        if hop >= low and found:
            return found[0]
    raise AssertionError("the pair is not linked")


def edge_id(at: int) -> str:
    """Later edges have smaller ids."""
    return f"e{99 - at}"


def ids_by_path(paths: NodeLists, ids: Sequence[str]) -> list[list[str]]:
    cuts = np.cumsum(paths.lengths + 1)[:-1]
    return [[ids[node] for node in nodes.tolist()] for nodes in np.split(paths.nodes, cuts)]


@settings(deadline=None)
@given(edge_lists, orders, st.sampled_from(Direction), st.integers(1, 4), st.integers(0, 4), st.sampled_from([0, 2, 99]), st.booleans())
def test_a_path_is_the_smallest_of_the_shortest(
    edges: list[Edge], ids: list[str], direction: Direction, low: int, more: int, ends_of_start: int, one_by_one: bool
) -> None:
    """X-12: from both ends or from the start, together or one by one."""
    high = low + more
    finder = ListedEdges(edges)
    search = PathSearch(
        finder,
        direction,
        (low, high),
        size=SIZE,
        ids_of=lambda nodes: pa.array([ids[node] for node in nodes.tolist()], pa.string()),
        check=lambda: None,
        cells=1 if one_by_one else 1000,
        ends_of_start=ends_of_start,
    )
    every = [(left, right) for left in range(SIZE) for right in range(SIZE)]
    linked = [pair for pair in every if pair[1] in emitted(edges, pair[0], direction, low, high)]
    lefts, rights = np.array(every, np.int64).T
    assert [pair for pair, found in zip(every, search.linked(lefts, rights).tolist(), strict=True) if found] == linked
    if not linked:
        return
    lefts, rights = np.array(linked, np.int64).T
    paths = search.shortest(lefts, rights)
    expected = [smallest(edges, ids, pair, direction, low, high) for pair in linked]
    assert ids_by_path(paths, ids) == [nodes for nodes, _ in expected]
    taken = smallest_edges(
        finder, direction, paths, size=SIZE, ids_of=lambda found: pa.array([edge_id(at) for at in found.tolist()], pa.string())
    )
    assert taken.to_pylist() == [edge for _, path in expected for edge in path]


@pytest.mark.parametrize("ends_of_start", [0, 99])
def test_a_path_may_be_long(ends_of_start: int) -> None:
    """Distances beyond one byte."""
    count = 300
    chain = [(at, at + 1) for at in range(count - 1)]
    search = PathSearch(
        ListedEdges(chain),
        Direction.OUT,
        (1, 1000),
        size=count,
        ids_of=lambda nodes: pa.array([f"{node:03d}" for node in nodes.tolist()]),
        check=lambda: None,
        ends_of_start=ends_of_start,
    )
    paths = search.shortest(np.array([0, 5]), np.array([count - 1, 9]))
    assert paths.lengths.tolist() == [count - 1, 4]
    assert paths.nodes.tolist() == [*range(count), *range(5, 10)]
