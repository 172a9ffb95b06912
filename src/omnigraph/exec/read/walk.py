"""Nodes and a traversal -> the pairs it links: one hop with its edges, or a search over several hops.

A running plan uses an `EdgeFinder`. `routes` implements it by an edge table and by an adjacency in memory; both find the same edges.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, assert_never

import numpy as np

from omnigraph.exec.adjacency.kernels import sorted_once
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.rows import distinct, expand_ranges
from omnigraph.exec.read.watch import Watch
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import Mask


class FoundEdges(NamedTuple):
    """Edges found. `origin` is the position of the start node in the input, `reached` the number of the other end, `edge` the edge's."""

    origin: Numbers64
    reached: Numbers64
    edge: Numbers64

    def keep(self, mask: Mask) -> FoundEdges:
        return FoundEdges(self.origin[mask], self.reached[mask], self.edge[mask])


class Pairs(NamedTuple):
    """Linked nodes: each (origin, reached) once, ascending. `origin` is the position of the start node in the input."""

    origin: Numbers64
    reached: Numbers64


class Reach(NamedTuple):
    """The direction and the number of hops of a traversal. With `from_right` it is walked against the direction in which its
    search is defined: from the nodes that are found to the nodes that find them."""

    direction: Direction
    low: int
    high: int
    from_right: bool

    @property
    def walked(self) -> Direction:
        """The direction in which the walk follows stored edges."""
        return opposite(self.direction) if self.from_right else self.direction


class EdgeFinder(Protocol):
    """Finds the edges of one type. An edge with a missing end is ignored. The given nodes are distinct."""

    def hops(self, direction: Direction, nodes: Numbers64) -> FoundEdges:
        """Return one row per edge and orientation, by origin. An edge from a node to itself has only one."""
        ...

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        """Return the nodes that a walk from each of the nodes links it with."""
        ...

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        """Return the number of linked nodes for each of the nodes."""
        ...

    def linked(self, reach: Reach, nodes: Numbers64) -> Mask:
        """Return for each of the nodes whether it is linked with any node."""
        ...


def opposite(direction: Direction) -> Direction:
    """Return the direction of the same edges seen from their other end."""
    match direction:
        case Direction.OUT:
            return Direction.IN
        case Direction.IN:
            return Direction.OUT
        case Direction.BOTH:
            return Direction.BOTH
        case _:
            assert_never(direction)


def neighbours(finder: EdgeFinder, direction: Direction, nodes: Numbers64, *, size: int) -> Pairs:
    """Return the neighbours of each node once, also if several edges lead to the same neighbour."""
    found = finder.hops(direction, nodes)
    width = max(size, 1)
    keys = sorted_once(found.origin * width + found.reached)
    return Pairs(keys // width, keys % width)


def search(finder: EdgeFinder, reach: Reach, nodes: Numbers64, *, size: int, watch: Watch) -> Pairs:
    """Search breadth first from each node. Return the nodes whose distance is `low` to `high` hops.

    A node with an edge to itself is also emitted in the hop after the one that reached it. The edge is at the far end of the
    search, or, if the walk runs `from_right`, at its near end. A search never returns to its start.
    """
    width = max(size, 1)
    origin, at = np.arange(len(nodes), dtype=np.int64), nodes
    visited = origin * width + at
    emitted: list[Numbers64] = [np.zeros(0, np.int64)]
    looped = np.zeros(len(nodes), np.bool_)
    for hop in range(1, reach.high + 1):
        watch.check()
        if not len(at):
            break
        here, place = distinct(at, size=size)
        step, other = _follow(neighbours(finder, reach.walked, here, size=size), place, len(here))
        itself = step[other == at[step]]
        if hop == 1:
            looped[origin[itself]] = True
        loops = np.flatnonzero(looped[origin]) if reach.from_right else itself
        new = np.setdiff1d(sorted_once(origin[step] * width + other), visited, assume_unique=True)
        if hop >= reach.low:
            emitted += [origin[loops] * width + at[loops], new]
        visited = np.concatenate([visited, new])
        origin, at = new // width, new % width
    keys = sorted_once(np.concatenate(emitted))
    return Pairs(keys // width, keys % width)


def _follow(pairs: Pairs, place: Numbers64, node_count: int) -> tuple[Numbers64, Numbers64]:
    """Return (i, neighbour) for every neighbour of the frontier's i-th entry, which is the node at `place[i]`."""
    counts = np.bincount(pairs.origin, minlength=node_count).astype(np.int64)
    starts = np.cumsum(counts) - counts
    step, at = expand_ranges(starts[place], counts[place])
    return step, pairs.reached[at]
