"""The edges of some nodes, asked of the edge table itself: ids go in, an index on `src` or `dst` answers if there is one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.tables import SOURCE, TARGET
from omnigraph.exec.entities import Entities
from omnigraph.exec.rows import Numbers64
from omnigraph.exec.walk import Hops, Pairs, Reach, neighbours, search
from omnigraph.exec.watch import Watch
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import whole
from omnigraph.store.membership import Members
from omnigraph.store.tables import ADDRESS

_NOTHING: Final = Hops(*(np.zeros(0, np.int64),) * 3)


class LookedUp:
    """Edges of one type by the ids of their ends. `where` is SQL about them. Satisfies `walk.Ways`."""

    def __init__(self, edges: Entities, sources: Entities, targets: Entities, *, where: str | None, watch: Watch) -> None:
        self._edges: Final = edges
        self._sources: Final = sources
        self._targets: Final = targets
        self._where: Final = where
        self._watch: Final = watch

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        match direction:
            case Direction.OUT | Direction.IN:
                return self._hop(nodes, outgoing=direction is Direction.OUT)
            case Direction.BOTH:
                out, in_ = self._hop(nodes, outgoing=True), self._hop(nodes, outgoing=False)
                in_ = in_.keep(in_.reached != nodes[in_.origin])
                both = Hops(*(np.concatenate(parts) for parts in zip(out, in_, strict=True)))
                order = np.argsort(both.origin, kind="stable")
                return Hops(*(part[order] for part in both))
            case _:
                assert_never(direction)

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        size = self._far_size(reach.walked)
        if (reach.low, reach.high) == (1, 1):
            return neighbours(self, reach.walked, nodes, size=size)
        return search(self, reach, nodes, size=size, watch=self._watch)

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        return np.bincount(self.pairs(reach, nodes).origin, minlength=len(nodes)).astype(np.int64)

    def _far_size(self, walked: Direction) -> int:
        return (self._sources if walked is Direction.IN else self._targets).size

    def _hop(self, nodes: Numbers64, *, outgoing: bool) -> Hops:
        near, far = (self._sources, self._targets) if outgoing else (self._targets, self._sources)
        near_end, far_end = (SOURCE, TARGET) if outgoing else (TARGET, SOURCE)
        if not len(nodes):
            return _NOTHING
        ids = whole(near.ids(nodes, check=self._watch.check))
        known = Members(ids)
        batches = list(self._edges.having(near_end, ids, [far_end], where=self._where, known=known, check=self._watch.check))
        if not batches:
            return _NOTHING
        found = pa.Table.from_batches(batches)
        origin = known.find(found.column(near_end))
        reached = far.find(whole(found.column(far_end)), check=self._watch.check)
        edge = self._edges.numbers.from_addresses(found.column(ADDRESS).to_numpy())
        met = Hops(origin, reached, edge).keep(reached >= 0)
        order = np.argsort(met.origin, kind="stable")
        return Hops(*(part[order] for part in met))


class Billed:
    """The same ways, and what each call took, in milliseconds: the measure of what an adjacency would have saved."""

    def __init__(self, inner: LookedUp, spend: Callable[[float], None]) -> None:
        self._inner: Final = inner
        self._spend: Final = spend

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        with self._billed():
            return self._inner.hops(direction, nodes)

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        with self._billed():
            return self._inner.pairs(reach, nodes)

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        with self._billed():
            return self._inner.counts(reach, nodes)

    @contextmanager
    def _billed(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._spend((time.perf_counter() - began) * 1e3)
