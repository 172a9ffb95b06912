"""A link and its start nodes -> its edges, by the cheapest route for that many nodes: an adjacency in memory, or the edge table.

The plan estimates the number of start nodes. At run time they are counted, so a wrong estimate at most about doubles the cost of the
best route. Lookups continue while their total cost, in this query and in earlier ones, stays below the cost of building an adjacency.
If the plan expects an adjacency to be cheaper, lookups stop at a small share of that cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.tables import SOURCE, TARGET
from omnigraph.exec.adjacency.ids import Ids
from omnigraph.exec.adjacency.kernels import Csr, hop, reach, reach_counts
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.measure import Tally
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.exec.read.rows import Mask, Numbers64
from omnigraph.exec.read.view import View
from omnigraph.exec.read.walk import Hops, Pairs, Reach, neighbours, search
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.cost import PASS_SHARE, hop_ms, lookup_ms, lookup_route
from omnigraph.plan.ops import Route
from omnigraph.plan.statistics import MOST_HOPS, Availability
from omnigraph.plan.typed import Direction
from omnigraph.store import arrays
from omnigraph.store.membership import Members
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import ADDRESS


class AdjacencyLookup:
    """Finds the edges of one type in the adjacencies that a walk in one direction follows: one, or for an undirected walk both."""

    def __init__(self, csrs: tuple[Csr, ...]) -> None:
        self._csrs: Final = csrs

    def hops(self, nodes: Numbers64) -> Hops:
        first, *others = (Hops(*hop(csr, nodes)) for csr in self._csrs)
        if not others:
            return first
        (back,) = others
        back = back.keep(back.reached != nodes[back.origin])
        both = Hops(*(np.concatenate(parts) for parts in zip(first, back, strict=True)))
        order = np.argsort(both.origin, kind="stable")
        return Hops(*(part[order] for part in both))

    def pairs(self, spec: Reach, nodes: Numbers64) -> Pairs:
        return Pairs(*reach(self._csrs, nodes, low=spec.low, high=spec.high, reverse=spec.from_right))

    def counts(self, spec: Reach, nodes: Numbers64) -> Numbers64:
        return reach_counts(self._csrs, nodes, low=spec.low, high=spec.high, reverse=spec.from_right)


_NOTHING: Final = Hops(*(np.zeros(0, np.int64),) * 3)


class TableLookup:
    """Finds the edges of one type in the edge table, by the ids of their ends. `where` is an SQL condition on the edges."""

    def __init__(self, edges: Entities, sources: Entities, targets: Entities, *, where: str | None, watch: Watch) -> None:
        self._edges: Final = edges
        self._sources: Final = sources
        self._targets: Final = targets
        self._where: Final = where
        self._watch: Final = watch

    def hops(self, direction: Direction, nodes: Numbers64, *, whole: bool = False) -> Hops:
        """See `walk.EdgeFinder`. With `whole` all edges are read in one pass, otherwise only those of the nodes are looked up."""
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

    def linked(self, direction: Direction, nodes: Numbers64, ends: tuple[Ids, Ids]) -> Mask:
        """Return for each node whether it has an edge, in one pass over all edges. `ends` are the ids of sources and targets.

        The far end of an edge is looked up only as long as its near end is not known to have one.
        """
        (sources, targets), near_ids = ends, ends[direction is Direction.IN]
        out, back = (SOURCE, TARGET, sources, targets), (TARGET, SOURCE, targets, sources)
        ways = {Direction.OUT: (out,), Direction.IN: (back,), Direction.BOTH: (out, back)}[direction]
        found = np.zeros(near_ids.numbers.size, np.bool_)
        for batch in self._edges.batches((SOURCE, TARGET), check=self._watch.check):
            for near_end, far_end, near, far in ways:
                at = near.find(batch.column(near_end))
                unknown = np.flatnonzero((at >= 0) & ~found[at])
                there = far.find(batch.column(far_end).take(pa.array(unknown))) >= 0
                found[at[unknown[there]]] = True
        return found[nodes]

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
        found_hops = Hops(origin, reached, edge).keep(reached >= 0)
        order = np.argsort(found_hops.origin, kind="stable")
        return Hops(*(part[order] for part in found_hops))


UNEXPECTED_SHARE: Final = 0.1
"""If the plan expected many nodes but few arrive, lookups may cost this share of the cost of an adjacency."""


class LinkRouter:
    """Finds the edges of one link by the cheapest route. Implements `walk.EdgeFinder`."""

    def __init__(
        self,
        link: ir.Link,
        choice: ops.RouteChoice,
        view: View,
        ends: tuple[Entities, Entities],
        *,
        forced: Route | None,
        watch: Watch,
        tally: Tally,
    ) -> None:
        """`ends` are the nodes at the left and at the right end of the link. With `forced`, every call takes that route."""
        left, right = ends
        self._sources, self._targets = (right, left) if link.direction is Direction.IN else (left, right)
        self._link: Final = link
        self._choice: Final = choice
        self._view: Final = view
        self._edges: Final = view.entities(link.edge)
        self._forced: Final = forced
        self._watch: Final = watch
        self._tally: Final = tally
        self._adjacent: Final[dict[Direction, AdjacencyLookup]] = {}
        texts = [exact_sql(predicate) for predicate in link.where]
        self._rest: Final = tuple(predicate for predicate, text in zip(link.where, texts, strict=True) if text is None)
        where = " AND ".join(f"({text})" for text in texts if text) or None
        self._lookup: Final = TableLookup(self._edges, self._sources, self._targets, where=where, watch=watch)

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        if self._uses_adjacency(len(nodes), hops=1):
            adjacent = self._adjacency(direction)
            with self._measure(Route.ADJACENCY, len(nodes)):
                return self._filter(adjacent.hops(nodes), self._link.where)
        route = self._forced or lookup_route(self._choice.costs, len(nodes))
        found = _NOTHING
        with self._measure(route, len(nodes)), self._charge(lambda: hop_ms(self._choice.costs, len(nodes), len(found.edge))):
            whole = route is Route.SCAN and (self._forced is not None or len(nodes) > IN_LIST)
            found = self._lookup.hops(direction, nodes, whole=whole)
            return self._filter(found, self._rest)

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        if self._uses_adjacency(len(nodes), hops=reach.high):
            adjacent = self._adjacency(reach.walked)
            with self._measure(Route.ADJACENCY, len(nodes)):
                return adjacent.pairs(reach, nodes)
        size = (self._sources if reach.walked is Direction.IN else self._targets).size
        if (reach.low, reach.high) == (1, 1):
            return neighbours(self, reach.walked, nodes, size=size)
        return search(self, reach, nodes, size=size, watch=self._watch)

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        if self._uses_adjacency(len(nodes), hops=reach.high):
            adjacent = self._adjacency(reach.walked)
            with self._measure(Route.ADJACENCY, len(nodes)):
                return adjacent.counts(reach, nodes)
        return np.bincount(self.pairs(reach, nodes).origin, minlength=len(nodes)).astype(np.int64)

    def linked(self, reach: Reach, nodes: Numbers64) -> Mask:
        if reach.high > 1 or not self._passes_once(len(nodes)):
            return self.counts(reach, nodes) > 0
        with self._measure(Route.SCAN, len(nodes)), self._charge(lambda: self._choice.costs.linked_ms):
            return self._lookup.linked(reach.walked, nodes, self._view.ends(self._link.edge.id))

    def _passes_once(self, nodes: int) -> bool:
        """Return whether to find out by one pass over the edges which of the nodes have one."""
        if self._adjacent or self._forced is not None:
            return self._forced is Route.SCAN
        edge, costs = self._link.edge.id, self._choice.costs
        if not nodes or self._view.availability(edge) is Availability.MEMORY or lookup_ms(costs, nodes, hops=1) < costs.linked_ms:
            return False
        return self._view.spent_ms(edge) + costs.linked_ms <= costs.ready_ms * PASS_SHARE

    def _uses_adjacency(self, nodes: int, *, hops: int) -> bool:
        """Return whether to use the adjacency for this many nodes, given the cost of lookups so far."""
        if self._adjacent or self._forced is not None:
            return self._forced in (None, Route.ADJACENCY)
        edge, choice = self._link.edge.id, self._choice
        if not nodes:
            return False
        if self._view.availability(edge) is Availability.MEMORY:
            return True
        allowed = choice.costs.ready_ms * (UNEXPECTED_SHARE if choice.route is Route.ADJACENCY else 1.0)
        return self._view.spent_ms(edge) + lookup_ms(choice.costs, nodes, hops=min(hops, MOST_HOPS)) > allowed

    def _adjacency(self, direction: Direction) -> AdjacencyLookup:
        if (adjacent := self._adjacent.get(direction)) is None:
            began = time.perf_counter()
            backs = {Direction.OUT: (False,), Direction.IN: (True,), Direction.BOTH: (False, True)}[direction]
            csrs = tuple(self._view.adjacency(self._link.edge, back=back).csr for back in backs)
            adjacent = self._adjacent[direction] = AdjacencyLookup(csrs)
            self._tally.ready_ms += (time.perf_counter() - began) * 1e3
        return adjacent

    def _filter(self, found_hops: Hops, where: tuple[ir.Predicate, ...]) -> Hops:
        """Keep the edges for which the given predicates hold. These are the ones that the route has not applied."""
        return found_hops.keep(self._edges.satisfying(found_hops.edge, where, check=self._watch.check)) if where else found_hops

    @contextmanager
    def _measure(self, route: Route, nodes: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._tally.add_route(route, nodes, (time.perf_counter() - began) * 1e3)

    @contextmanager
    def _charge(self, cost_ms: Callable[[], float]) -> Iterator[None]:
        """Charge a lookup against the cost of an adjacency. Both are estimates of CPU time, so a busy machine does not build one early.

        In a remote store the elapsed time is charged: a lookup waits for answers, and an adjacency saves the wait.
        """
        began = time.perf_counter()
        yield
        ms = (time.perf_counter() - began) * 1e3 if self._edges.is_remote else cost_ms()
        self._view.spend(self._link.edge.id, ms)
