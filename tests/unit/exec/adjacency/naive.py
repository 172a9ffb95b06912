"""Edges as pairs -> what a search emits, by the book: one node after the other, with sets."""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import strategies as st


class Edges(NamedTuple):
    """`pairs[i]` is edge number `i`, from a node below `sources` to one below `targets`."""

    sources: int
    targets: int
    pairs: list[tuple[int, int]]


def neighbours(pairs: list[tuple[int, int]], *, undirected: bool = False) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for left, right in pairs:
        found.setdefault(left, []).append(right)
        if undirected:
            found.setdefault(right, []).append(left)
    return found


def emitted(near: dict[int, list[int]], start: int, low: int, high: int) -> set[int]:
    frontier, visited, found = [start], {start}, set()
    for hop in range(1, high + 1):
        following = []
        for node in frontier:
            for other in near.get(node, []):
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


@st.composite
def edges(draw: st.DrawFn, *, square: bool) -> Edges:
    """Few nodes and many edges, so that parallel edges, edges to oneself and cycles are common."""
    sources = draw(st.integers(1, 9))
    targets = sources if square else draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    return Edges(sources, targets, draw(st.lists(pair, max_size=30)))


def crowd(seed: int, *, nodes: int, count: int) -> Edges:
    """A random graph with a few hubs, large enough for marks."""
    chance = random.Random(seed)

    def pick() -> int:
        return min(int(chance.paretovariate(0.7)) - 1, nodes - 1) if chance.random() < 0.5 else chance.randrange(nodes)

    return Edges(nodes, nodes, [(pick(), pick()) for _ in range(count)])
