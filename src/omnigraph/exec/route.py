"""A link and the nodes at hand -> its edges, by the route that is cheapest for so many nodes.

The plan guesses how many nodes a link starts from. Here they are counted: a wrong guess costs at most about as much again as the
best route would have. Lookups go on while what they have cost, in this query and in earlier ones, stays below the build of an
adjacency; where the plan expects an adjacency to be cheaper, they stop at a small share of that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from omnigraph.exec.adjacent import Adjacent
from omnigraph.exec.entities import Entities
from omnigraph.exec.lookup import LookedUp
from omnigraph.exec.measure import Tally
from omnigraph.exec.predicate import exact_sql
from omnigraph.exec.rows import Numbers64
from omnigraph.exec.view import View
from omnigraph.exec.walk import Hops, Pairs, Reach, neighbours, search
from omnigraph.exec.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.cost import lookup_ms, lookup_route
from omnigraph.plan.ops import Route
from omnigraph.plan.statistics import MOST_HOPS, Availability
from omnigraph.plan.typed import Direction
from omnigraph.store.stage import IN_LIST

UNEXPECTED: Final = 0.1
"""Where many nodes were expected, lookups for the few that came may cost this share of an adjacency."""


class Routed:
    """The edges of one link. Satisfies `walk.Ways`."""

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
        """`ends` are the nodes at the left and the right of the link. With `forced` every call takes that route."""
        left, right = ends
        self._sources, self._targets = (right, left) if link.direction is Direction.IN else (left, right)
        self._link: Final = link
        self._choice: Final = choice
        self._view: Final = view
        self._edges: Final = view.entities(link.edge)
        self._forced: Final = forced
        self._watch: Final = watch
        self._tally: Final = tally
        self._adjacent: Adjacent | None = None
        texts = [exact_sql(predicate) for predicate in link.where]
        self._rest: Final = tuple(predicate for predicate, text in zip(link.where, texts, strict=True) if text is None)
        where = " AND ".join(f"({text})" for text in texts if text) or None
        self._looked_up: Final = LookedUp(self._edges, self._sources, self._targets, where=where, watch=watch)

    def hops(self, direction: Direction, nodes: Numbers64) -> Hops:
        if self._walks(len(nodes), hops=1):
            adjacent = self._adjacency()
            with self._measured(Route.ADJACENCY, len(nodes)):
                return self._holding(adjacent.hops(direction, nodes), self._link.where)
        route = self._forced or lookup_route(self._choice.costs, len(nodes))
        with self._measured(route, len(nodes)):
            whole = route is Route.SCAN and (self._forced is not None or len(nodes) > IN_LIST)
            return self._holding(self._looked_up.hops(direction, nodes, whole=whole), self._rest)

    def pairs(self, reach: Reach, nodes: Numbers64) -> Pairs:
        if self._walks(len(nodes), hops=reach.high):
            adjacent = self._adjacency()
            with self._measured(Route.ADJACENCY, len(nodes)):
                return adjacent.pairs(reach, nodes)
        size = (self._sources if reach.walked is Direction.IN else self._targets).size
        if (reach.low, reach.high) == (1, 1):
            return neighbours(self, reach.walked, nodes, size=size)
        return search(self, reach, nodes, size=size, watch=self._watch)

    def counts(self, reach: Reach, nodes: Numbers64) -> Numbers64:
        if self._walks(len(nodes), hops=reach.high):
            adjacent = self._adjacency()
            with self._measured(Route.ADJACENCY, len(nodes)):
                return adjacent.counts(reach, nodes)
        return np.bincount(self.pairs(reach, nodes).origin, minlength=len(nodes)).astype(np.int64)

    def _walks(self, nodes: int, *, hops: int) -> bool:
        """Whether the adjacency is the route for so many nodes, counting what was spent without it."""
        if self._adjacent is not None or self._forced is not None:
            return self._forced in (None, Route.ADJACENCY)
        edge, choice = self._link.edge.id, self._choice
        if not nodes:
            return False
        if self._view.availability(edge) is Availability.MEMORY:
            return True
        allowed = choice.costs.ready_ms * (UNEXPECTED if choice.route is Route.ADJACENCY else 1.0)
        return self._view.spent_ms(edge) + lookup_ms(choice.costs, nodes, hops=min(hops, MOST_HOPS)) > allowed

    def _adjacency(self) -> Adjacent:
        if self._adjacent is None:
            began = time.perf_counter()
            self._adjacent = Adjacent(self._view.adjacency(self._link.edge))
            self._tally.ready_ms += (time.perf_counter() - began) * 1e3
        return self._adjacent

    def _holding(self, met: Hops, where: tuple[ir.Predicate, ...]) -> Hops:
        """The edges for which the predicates hold that were not applied on the way."""
        return met.keep(self._edges.satisfying(met.edge, where, check=self._watch.check)) if where else met

    @contextmanager
    def _measured(self, route: Route, nodes: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        ms = (time.perf_counter() - began) * 1e3
        self._tally.took(route, nodes, ms)
        if route is not Route.ADJACENCY:
            self._view.spend(self._link.edge.id, ms)
