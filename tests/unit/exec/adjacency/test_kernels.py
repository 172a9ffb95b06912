"""Searching an adjacency: the same answers as a search by the book (X-12)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency.build import PART_ROWS, Arcs, Shape, arcs, csr
from omnigraph.exec.adjacency.kernels import BUDGET, Budget, Csr, hop, reach, reach_counts

from .naive import Edges, crowd, edges, emitted, neighbours

BOUNDS = st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STARTS = st.lists(st.integers(0, 8), max_size=12)


def out(given_: Edges, *, square: bool = True) -> Csr:
    near, far = columns(given_)
    return csr(Arcs(near, far, np.arange(len(near))), Shape(given_.sources, given_.targets, square))


def into(given_: Edges, *, square: bool = True) -> Csr:
    near, far = columns(given_)
    return csr(Arcs(far, near, np.arange(len(near))), Shape(given_.targets, given_.sources, square))


def columns(given_: Edges) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(given_.pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@pytest.mark.parametrize("room", [63, 9, 0])
@given(edges(square=False))
def test_edges_are_sorted_by_both_ends_whatever_fits_one_integer(room: int, given_: Edges) -> None:
    near, far = columns(given_)
    built = csr(Arcs(near, far, np.arange(len(near)) + 100), Shape(given_.sources, given_.targets, square=True), room=room)
    found = arcs(built)
    rows = list(zip(found.near.tolist(), found.far.tolist(), found.edges.tolist(), strict=True))
    assert rows == sorted((*pair, at + 100) for at, pair in enumerate(given_.pairs))
    once = [
        (at, to) for at, (start, end) in enumerate(pairwise(built.near.offsets.tolist())) for to in built.near.targets[start:end].tolist()
    ]
    assert once == sorted(set(given_.pairs))


@pytest.mark.parametrize("room", [63, 0])
@pytest.mark.parametrize("count", [PART_ROWS, 2 * PART_ROWS + 1])
@pytest.mark.parametrize("people", [7, 100_000])
def test_many_edges_are_sorted_part_by_part(room: int, count: int, people: int) -> None:
    chance = np.random.default_rng(count)
    near, far = chance.integers(0, people, (2, count))
    order = np.lexsort((far, near))
    for numbers in (np.arange(count), np.arange(count) * 3):
        built = csr(Arcs(near, far, numbers), Shape(people, people, square=True), room=room)
        found = arcs(built)
        for got, expected in zip((found.near, found.far, found.edges), (near[order], far[order], numbers[order]), strict=True):
            assert np.array_equal(got, expected)
    pairs_of = np.repeat(np.arange(people), np.diff(built.near.offsets)) * people + built.near.targets
    assert np.array_equal(pairs_of, np.unique(near * people + far))


def pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    origin, reached = found
    assert (np.diff(origin) >= 0).all(), "pairs stand in the order of their starts"
    return list(zip(origin.tolist(), reached.tolist(), strict=True))


WAYS = {
    "sorted": Budget(cells_per_pair=0),
    "sorted, a start at a time": Budget(step=1, cells_per_pair=0),
    "marked": Budget(cells_per_pair=1 << 40),
    "marked, a few at a time": Budget(step=3, cells_per_pair=1 << 40),
    "as it comes": BUDGET,
}
quickly = settings(max_examples=60, deadline=None)
each_way = pytest.mark.parametrize("budget", WAYS.values(), ids=WAYS)


@each_way
@quickly
@given(edges(square=True), STARTS, BOUNDS)
def test_a_search_emits_what_the_book_says(budget: Budget, given_: Edges, starts: list[int], bounds: tuple[int, int]) -> None:
    """X-12: Every route of a traversal gives the same rows, with parallel edges, self-edges and cycles.

    With parallel edges, edges to oneself and cycles; a start that stands twice gets its own copy.
    """
    low, high = bounds
    starts = [start for start in starts if start < given_.sources]
    found = reach((out(given_),), np.array(starts, np.int64), low=low, high=high, budget=budget)
    near = neighbours(given_.pairs)
    assert Counter(pairs(found)) == Counter((at, node) for at, start in enumerate(starts) for node in emitted(near, start, low, high))
    counts = reach_counts((out(given_),), np.array(starts, np.int64), low=low, high=high, budget=budget)
    assert counts.tolist() == [len(emitted(near, start, low, high)) for start in starts]


@each_way
@quickly
@given(edges(square=True), STARTS, BOUNDS)
def test_an_undirected_search_takes_edges_both_ways(budget: Budget, given_: Edges, starts: list[int], bounds: tuple[int, int]) -> None:
    low, high = bounds
    starts = [start for start in starts if start < given_.sources]
    found = reach((out(given_), into(given_)), np.array(starts, np.int64), low=low, high=high, budget=budget)
    near = neighbours(given_.pairs, undirected=True)
    assert Counter(pairs(found)) == Counter((at, node) for at, start in enumerate(starts) for node in emitted(near, start, low, high))


@each_way
@quickly
@given(edges(square=True), BOUNDS)
def test_a_search_in_reverse_finds_the_starts_that_emit_a_node(budget: Budget, given_: Edges, bounds: tuple[int, int]) -> None:
    """The pairs are those of the search from the left, whichever end is known first."""
    low, high = bounds
    near, every = neighbours(given_.pairs), np.arange(given_.sources)
    found = reach((into(given_),), every, low=low, high=high, reverse=True, budget=budget)
    forward = {(left, right) for left in range(given_.sources) for right in emitted(near, left, low, high)}
    assert Counter(pairs(found)) == Counter((right, left) for left, right in forward)


@quickly
@given(edges(square=False), STARTS, BOUNDS)
def test_no_second_hop_follows_between_different_types(given_: Edges, starts: list[int], bounds: tuple[int, int]) -> None:
    low, high = bounds
    starts = [start for start in starts if start < given_.sources]
    found = reach((out(given_, square=False),), np.array(starts, np.int64), low=low, high=high)
    expected = {(at, right) for at, start in enumerate(starts) for left, right in given_.pairs if left == start and low == 1}
    assert Counter(pairs(found)) == Counter(expected)


@quickly
@given(edges(square=False), STARTS)
def test_a_hop_gives_every_stored_edge_of_every_start(given_: Edges, starts: list[int]) -> None:
    starts = [start for start in starts if start < given_.sources]
    origin, reached, edge = hop(out(given_), np.array(starts, np.int64))
    expected = [
        (at, right, number) for at, start in enumerate(starts) for number, (left, right) in enumerate(given_.pairs) if left == start
    ]
    assert Counter(zip(origin.tolist(), reached.tolist(), edge.tolist(), strict=True)) == Counter(expected)
    assert (np.diff(origin) >= 0).all()


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2), (2, 2), (2, 4), (3, 3)])
def test_many_starts_in_a_crowd(low: int, high: int) -> None:
    """Large enough for both ways, at the sizes they are chosen for."""
    given_ = crowd(7, nodes=400, count=2500)
    near = neighbours(given_.pairs)
    expected = Counter((start, node) for start in range(400) for node in emitted(near, start, low, high))
    assert Counter(pairs(reach((out(given_),), np.arange(400), low=low, high=high))) == expected
