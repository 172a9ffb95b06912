"""The edges of some nodes, from an adjacency in memory: integers in, integers out. Satisfies `walk.Ways`."""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np

from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.exec.adjacency.kernels import Csr, hop, reach, reach_counts
from omnigraph.exec.rows import Numbers64
from omnigraph.exec.walk import Hops, Pairs, Reach
from omnigraph.plan.typed import Direction


class Adjacent:
    """All edges of one type at one version."""

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency: Final = adjacency

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        first, *others = (Hops(*hop(csr, nodes)) for csr in self._csrs(direction))
        if not others:
            return first
        (back,) = others
        back = back.keep(back.reached != nodes[back.origin])
        both = Hops(*(np.concatenate(parts) for parts in zip(first, back, strict=True)))
        order = np.argsort(both.origin, kind="stable")
        return Hops(*(part[order] for part in both))

    def pairs(self, asked: Reach, nodes: Numbers64) -> Pairs:
        return Pairs(*reach(self._csrs(asked.walked), nodes, low=asked.low, high=asked.high, reverse=asked.from_right))

    def counts(self, asked: Reach, nodes: Numbers64) -> Numbers64:
        return reach_counts(self._csrs(asked.walked), nodes, low=asked.low, high=asked.high, reverse=asked.from_right)

    def _csrs(self, direction: Direction) -> tuple[Csr, ...]:
        match direction:
            case Direction.OUT:
                return (self._adjacency.out,)
            case Direction.IN:
                return (self._adjacency.into,)
            case Direction.BOTH:
                return (self._adjacency.out, self._adjacency.into)
            case _:
                assert_never(direction)
