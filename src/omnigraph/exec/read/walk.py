"""Nodes and a traversal -> the pairs it links: one hop with its edges, or the search of the language over several.

`Ways` is what a running plan asks. An edge table asked by id and an adjacency in memory (both in `routes`) find the same edges.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, assert_never

import numpy as np

from omnigraph.exec.adjacency.kernels import sorted_once
from omnigraph.exec.read.rows import Mask, Numbers64, distinct, spread
from omnigraph.exec.read.watch import Watch
from omnigraph.plan.typed import Direction


class Hops(NamedTuple):
    """Edges met: `origin` is the place of the asked node among those asked, `reached` the other end's number, `edge` the edge's."""

    origin: Numbers64
    reached: Numbers64
    edge: Numbers64

    def keep(self, mask: Mask) -> Hops:
        return Hops(self.origin[mask], self.reached[mask], self.edge[mask])


class Pairs(NamedTuple):
    """Nodes linked: each (origin, reached) once, ascending. `origin` is the place of the node the walk started at."""

    origin: Numbers64
    reached: Numbers64


class Reach(NamedTuple):
    """How a traversal runs: which end of a stored edge it leaves from, and how many hops. `from_right`: it is walked against
    the direction in which its search is defined, from the nodes that are found to those that find them."""

    direction: Direction
    low: int
    high: int
    from_right: bool

    @property
    def walked(self) -> Direction:
        """Which end of a stored edge the walk stands at."""
        return turned(self.direction) if self.from_right else self.direction


class Ways(Protocol):
    """The edges of one type. An edge one of whose ends is no node is not there. Nodes that are asked about are distinct."""

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        """One row per edge and orientation, by origin; an edge from a node to itself has only one."""
        ...

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        """Whom a walk from each of the nodes links it with."""
        ...

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        """With how many."""
        ...


def turned(direction: Direction) -> Direction:
    """The same edges, seen from their other end."""
    match direction:
        case Direction.OUT:
            return Direction.IN
        case Direction.IN:
            return Direction.OUT
        case Direction.BOTH:
            return Direction.BOTH
        case _:
            assert_never(direction)


def neighbours(ways: Ways, direction: Direction, nodes: Numbers64, *, size: int) -> Pairs:
    """Whom each of these nodes has an edge with, however many there are between them."""
    found = ways.hops(direction, nodes)
    width = max(size, 1)
    keys = sorted_once(found.origin * width + found.reached)
    return Pairs(keys // width, keys % width)


def search(ways: Ways, reach: Reach, nodes: Numbers64, *, size: int, watch: Watch) -> Pairs:
    """Breadth first from each of these nodes: whom it reaches first after `low` to `high` hops.

    A node is also emitted by its edge to itself, in the hop after the one that reached it. That edge is at the far end of
    the search; when the walk runs `from_right`, against the search, at its near end. A search never returns to its start.
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
        step, other = _followed(neighbours(ways, reach.walked, here, size=size), place, len(here))
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


def _followed(pairs: Pairs, place: Numbers64, asked: int) -> tuple[Numbers64, Numbers64]:
    """For a frontier whose i-th entry is the asked node at `place[i]`: (i, neighbour) for every neighbour."""
    counts = np.bincount(pairs.origin, minlength=asked).astype(np.int64)
    starts = np.cumsum(counts) - counts
    step, at = spread(starts[place], counts[place])
    return step, pairs.reached[at]
