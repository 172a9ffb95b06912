"""A running plan -> measurements of each operator: rows, time, and the routes that links took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from omnigraph.exec.read.rows import B
from omnigraph.plan import ops
from omnigraph.plan.explain import Measured, RouteTaken
from omnigraph.plan.ops import Route


class Tally:
    """The measurements of one operator. They are updated while it runs."""

    def __init__(self) -> None:
        self.rows = 0
        self.ms = 0.0
        self.ready_ms = 0.0
        self._routes: Final[dict[Route, RouteTaken]] = {}

    def add_route(self, route: Route, nodes: int, ms: float) -> None:
        """Record that a link was followed from some nodes by a route."""
        before = self._routes.get(route, RouteTaken(route.value, 0, 0, 0.0))
        self._routes[route] = RouteTaken(route.value, before.calls + 1, before.nodes + nodes, before.ms + ms)

    def count(self, batches: Iterator[B]) -> Iterator[B]:
        """Pass batches on and count them. The time includes that of the operators below."""
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.ms += (time.perf_counter() - began) * 1e3
            if batch is None:
                return
            self.rows += batch.count
            yield batch

    @property
    def measured(self) -> Measured:
        return Measured(self.rows, self.ms, tuple(self._routes.values()), self.ready_ms)


class Recorder:
    """The tallies of one run, by operator. A plan may contain equal operators, so the key is the identity of the operator."""

    def __init__(self) -> None:
        self._tallies: Final[dict[int, Tally]] = {}

    def of(self, op: ops.Op) -> Tally:
        return self._tallies.setdefault(id(op), Tally())

    def measured(self, op: ops.Op) -> Measured | None:
        """Return the measurements of an operator, or None if it did not run."""
        tally = self._tallies.get(id(op))
        return None if tally is None else tally.measured
