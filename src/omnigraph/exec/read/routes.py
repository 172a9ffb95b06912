"""A link and its start nodes -> its edges, by the cheapest route for that many nodes: an adjacency in memory, or the edge table.

The plan estimates the number of start nodes. At run time they are counted, so a wrong estimate at most about doubles the cost of the
best route. Lookups continue while their total cost, in this query and in earlier ones, stays below the cost of building an adjacency.
If the plan expects an adjacency to be cheaper, lookups stop at a small share of that cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import SOURCE, TARGET
from omnigraph.exec.adjacency.kernels import Csr, hop, reach, reach_counts, step
from omnigraph.exec.adjacency.node_ids import Ids
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.measure import Tally
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.exec.read.rows import distinct
from omnigraph.exec.read.view import View
from omnigraph.exec.read.walk import FoundEdges, Pairs, Reach, Steps, follow, neighbours, search
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.cost import PASS_SHARE, hop_ms, lookup_ms, lookup_route
from omnigraph.plan.ops import Route
from omnigraph.plan.statistics import MOST_HOPS, Availability
from omnigraph.plan.typed import Direction
from omnigraph.store import arrays
from omnigraph.store.arrays import Mask
from omnigraph.store.membership import Members
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import ADDRESS


class AdjacencyLookup:
    """Finds the edges of some types in the adjacencies that a walk in one direction follows: one of each type, or for an undirected walk
    both. The edges of all types have one range of numbers, type after type.
    """

    def __init__(self, types: Sequence[tuple[Csr, ...]], bases: Sequence[int]) -> None:
        self._types: Final = types
        self._bases: Final = bases
        self._csrs: Final = tuple(csr for csrs in types for csr in csrs)

    def hops(self, nodes: Numbers64) -> FoundEdges:
        return _merged([found for csrs, base in zip(self._types, self._bases, strict=False) for found in _hops(csrs, base, nodes)])

    def pairs(self, spec: Reach, nodes: Numbers64) -> Pairs:
        return Pairs(*reach(self._csrs, nodes, low=spec.low, high=spec.high, reverse=spec.from_right))

    def counts(self, spec: Reach, nodes: Numbers64) -> Numbers64:
        return reach_counts(self._csrs, nodes, low=spec.low, high=spec.high, reverse=spec.from_right)

    def steps(self, nodes: Numbers64) -> Steps:
        first, *others = (Steps(*step(csr, nodes)) for csr in self._csrs)
        return Steps(*(np.concatenate(parts) for parts in zip(first, *others, strict=True))) if others else first


def _hops(csrs: tuple[Csr, ...], base: int, nodes: Numbers64) -> Iterator[FoundEdges]:
    for number, csr in enumerate(csrs):
        origin, reached, edge = hop(csr, nodes)
        found = FoundEdges(origin, reached, edge + base)
        yield found if not number else found.keep(reached != nodes[origin])  # an edge to itself was found in the first direction


def _bases(sizes: Iterable[int]) -> list[int]:
    """Return the first number of each type."""
    return [*accumulate(sizes, initial=0)]


def _merged(parts: Sequence[FoundEdges]) -> FoundEdges:
    """Return the edges of all parts, by origin."""
    if len(parts) == 1:
        return parts[0]
    every = FoundEdges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.argsort(every.origin, kind="stable")
    return FoundEdges(*(column[order] for column in every))


_NOTHING: Final = FoundEdges(*(np.zeros(0, np.int64),) * 3)


class TableLookup:
    """Finds the edges of one type in the edge table, by the ids of their ends. `where` is an SQL condition on the edges."""

    def __init__(self, edges: Entities, sources: Entities, targets: Entities, *, where: str | None, watch: Watch) -> None:
        self._edges: Final = edges
        self._sources: Final = sources
        self._targets: Final = targets
        self._where: Final = where
        self._watch: Final = watch

    def hops(self, direction: Direction, nodes: Numbers64, *, whole: bool = False) -> FoundEdges:
        """See `walk.EdgeFinder`. With `whole` all edges are read in one pass, otherwise only those of the nodes are looked up."""
        match direction:
            case Direction.OUT | Direction.IN:
                return self._hop(nodes, outgoing=direction is Direction.OUT, whole=whole)
            case Direction.BOTH:
                out, in_ = (self._hop(nodes, outgoing=outgoing, whole=whole) for outgoing in (True, False))
                return _merged([out, in_.keep(in_.reached != nodes[in_.origin])])
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

    def _hop(self, nodes: Numbers64, *, outgoing: bool, whole: bool) -> FoundEdges:
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
        found_hops = FoundEdges(origin, reached, edge).keep(reached >= 0)
        order = np.argsort(found_hops.origin, kind="stable")
        return FoundEdges(*(part[order] for part in found_hops))


UNEXPECTED_SHARE: Final = 0.1
"""If the plan expected many nodes but few arrive, lookups may cost this share of the cost of an adjacency."""


class LinkRouter:
    """Finds the edges of one link, of one type or several, by the cheapest route. Implements `walk.EdgeFinder`."""

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
        self._edges: Final = view.edges(link.edges)
        self._forced: Final = forced
        self._watch: Final = watch
        self._tally: Final = tally
        self._adjacent: Final[dict[Direction, AdjacencyLookup]] = {}
        texts = [exact_sql(predicate) for predicate in link.where]
        self._rest: Final = tuple(predicate for predicate, text in zip(link.where, texts, strict=True) if text is None)
        where = " AND ".join(f"({text})" for text in texts if text) or None
        tables = [view.entities(edge) for edge in link.edges]
        self._lookups: Final = [TableLookup(table, self._sources, self._targets, where=where, watch=watch) for table in tables]
        self._bases: Final = _bases(table.size for table in tables)

    def hops(self, direction: Direction, nodes: Numbers64) -> FoundEdges:
        if self._uses_adjacency(len(nodes), hops=1):
            adjacent = self._adjacency(direction)
            with self._measure(Route.ADJACENCY, len(nodes)):
                return self._filter(adjacent.hops(nodes), self._link.where)
        route = self._forced or lookup_route(self._choice.costs, len(nodes))
        found = _NOTHING
        with self._measure(route, len(nodes)), self._charge(lambda: hop_ms(self._choice.costs, len(nodes), len(found.edge))):
            whole = route is Route.SCAN and (self._forced is not None or len(nodes) > IN_LIST)
            found = _merged([self._looked_up(at, direction, nodes, whole=whole) for at in range(len(self._lookups))])
            return self._filter(found, self._rest)

    def _looked_up(self, at: int, direction: Direction, nodes: Numbers64, *, whole: bool) -> FoundEdges:
        """Return the edges of one type."""
        origin, reached, edge = self._lookups[at].hops(direction, nodes, whole=whole)
        return FoundEdges(origin, reached, edge + self._bases[at])

    def steps(self, direction: Direction, nodes: Numbers64) -> Steps:
        if self._uses_adjacency(len(nodes), hops=1):
            adjacent = self._adjacency(direction)
            with self._measure(Route.ADJACENCY, len(nodes)):
                return adjacent.steps(nodes)
        here, place = distinct(nodes, size=(self._targets if direction is Direction.IN else self._sources).size)
        found = self.hops(direction, here)
        return follow(Pairs(found.origin, found.reached), place, len(here))

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
        if reach.high > 1 or len(self._lookups) > 1 or not self._passes_once(len(nodes)):
            return self.counts(reach, nodes) > 0
        with self._measure(Route.SCAN, len(nodes)), self._charge(lambda: self._choice.costs.linked_ms):
            return self._lookups[0].linked(reach.walked, nodes, self._view.end_ids(self._link.edge.id))

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
        edges, choice = [edge.id for edge in self._link.edges], self._choice
        if not nodes:
            return False
        if all(self._view.availability(edge) is Availability.MEMORY for edge in edges):
            return True
        allowed = choice.costs.ready_ms * (UNEXPECTED_SHARE if choice.route is Route.ADJACENCY else 1.0)
        spent = sum(self._view.spent_ms(edge) for edge in edges)
        return spent + lookup_ms(choice.costs, nodes, hops=min(hops, MOST_HOPS)) > allowed

    def _adjacency(self, direction: Direction) -> AdjacencyLookup:
        if (adjacent := self._adjacent.get(direction)) is None:
            began = time.perf_counter()
            backs = {Direction.OUT: (False,), Direction.IN: (True,), Direction.BOTH: (False, True)}[direction]
            types = [tuple(self._view.adjacency(edge, back=back).csr for back in backs) for edge in self._link.edges]
            adjacent = self._adjacent[direction] = AdjacencyLookup(types, self._bases)
            self._tally.ready_ms += (time.perf_counter() - began) * 1e3
        return adjacent

    def _filter(self, found_hops: FoundEdges, where: tuple[ir.Predicate, ...]) -> FoundEdges:
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
        ms = (time.perf_counter() - began) * 1e3 if self._sources.is_remote else cost_ms()
        for edge in self._link.edges:
            self._view.spend(edge.id, ms / len(self._link.edges))
