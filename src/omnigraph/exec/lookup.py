"""The edges of some nodes, asked of the edge table itself: ids go in, an index on `src` or `dst` answers if there is one."""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.tables import SOURCE, TARGET
from omnigraph.exec.entities import Entities
from omnigraph.exec.rows import Numbers64
from omnigraph.exec.walk import Hops
from omnigraph.exec.watch import Watch
from omnigraph.plan.typed import Direction
from omnigraph.store import arrays
from omnigraph.store.membership import Members
from omnigraph.store.tables import ADDRESS

_NOTHING: Final = Hops(*(np.zeros(0, np.int64),) * 3)


class LookedUp:
    """Edges of one type by the ids of their ends. `where` is SQL about them."""

    def __init__(self, edges: Entities, sources: Entities, targets: Entities, *, where: str | None, watch: Watch) -> None:
        self._edges: Final = edges
        self._sources: Final = sources
        self._targets: Final = targets
        self._where: Final = where
        self._watch: Final = watch

    def hops(self, direction: Direction, nodes: Numbers64, *, whole: bool = False) -> Hops:
        """As `walk.Ways` says. With `whole` the edges are read in one pass, else those of the nodes are asked for."""
        match direction:
            case Direction.OUT | Direction.IN:
                return self._hop(nodes, outgoing=direction is Direction.OUT, whole=whole)
            case Direction.BOTH:
                out, in_ = (self._hop(nodes, outgoing=outgoing, whole=whole) for outgoing in (True, False))
                in_ = in_.keep(in_.reached != nodes[in_.origin])
                both = Hops(*(np.concatenate(parts) for parts in zip(out, in_, strict=True)))
                order = np.argsort(both.origin, kind="stable")
                return Hops(*(part[order] for part in both))
            case _:
                assert_never(direction)

    def _hop(self, nodes: Numbers64, *, outgoing: bool, whole: bool) -> Hops:
        near, far = (self._sources, self._targets) if outgoing else (self._targets, self._sources)
        near_end, far_end = (SOURCE, TARGET) if outgoing else (TARGET, SOURCE)
        if not len(nodes):
            return _NOTHING
        ids = arrays.whole(near.ids(nodes, check=self._watch.check))
        known = Members(ids)
        batches = list(self._edges.having(near_end, ids, [far_end], where=self._where, known=known, check=self._watch.check, whole=whole))
        if not batches:
            return _NOTHING
        found = pa.Table.from_batches(batches)
        origin = known.find(found.column(near_end))
        reached = far.find(arrays.whole(found.column(far_end)), check=self._watch.check)
        edge = self._edges.numbers.from_addresses(found.column(ADDRESS).to_numpy())
        met = Hops(origin, reached, edge).keep(reached >= 0)
        order = np.argsort(met.origin, kind="stable")
        return Hops(*(part[order] for part in met))
