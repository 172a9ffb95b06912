"""Order the joins of a pattern: in each component the scan with the fewest expected rows is the root, then the cheapest link.

Links are relations, so every order gives the same bag of rows. Equal estimates keep the order of the text.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.plan.ir import (
    Link,
    LogicalArgument,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalExpand,
    LogicalPaths,
    LogicalPattern,
    LogicalPlan,
    LogicalScan,
    bound_by,
    map_inputs,
)
from omnigraph.plan.statistics import Statistics, fan_out, scanned_rows, selectivity


def order_joins(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: order_joins(input_, statistics))
    return _Ordering(plan, statistics).plan() if isinstance(plan, LogicalPattern) else plan


class _Ordering:
    """One pattern while it is turned into a tree."""

    def __init__(self, pattern: LogicalPattern, statistics: Statistics) -> None:
        self._statistics = statistics
        self._scans: Mapping[int, LogicalScan] = {scan.binding: scan for scan in pattern.scans}
        self._argument = pattern.argument
        self._input = pattern.input
        self._links = list(pattern.links)
        self._unbound = dict.fromkeys(self._scans)
        self._bound: set[int] = set()

    def plan(self) -> LogicalPlan:
        plan: LogicalPlan | None = None
        if self._input is not None:
            self._bound.update(bound_by(self._input))
            plan = self._grown(self._input)
        elif self._argument:
            self._bound.update(self._argument)
            plan = self._grown(LogicalArgument(self._argument))
        while self._unbound:
            root = min(self._unbound, key=lambda binding: scanned_rows(self._scans[binding], self._statistics))
            self._bind(root)
            component = self._grown(self._scans[root])
            plan = component if plan is None else LogicalCrossProduct(plan, component)
        assert plan is not None
        return plan

    def _bind(self, binding: int) -> None:
        self._bound.add(binding)
        del self._unbound[binding]

    def _grown(self, plan: LogicalPlan) -> LogicalPlan:
        """Follow links from the bound variables until no link touches one."""
        while True:
            reachable = [link for link in self._links if link.left in self._bound or link.right in self._bound]
            if not reachable:
                return plan
            link = min(reachable, key=self._growth)
            self._links.remove(link)
            if link.left in self._bound and link.right in self._bound:
                plan = LogicalConnect(plan, link)
            else:
                from_left = link.left in self._bound
                target = link.right if from_left else link.left
                self._bind(target)
                plan = LogicalExpand(plan, link, from_left, self._scans[target])
            if link.path is not None:
                plan = LogicalPaths(plan, link)

    def _growth(self, link: Link) -> float:
        """The factor by which a link is expected to multiply the rows."""
        from_left = link.left in self._bound
        reached = fan_out(link, self._statistics, from_left=from_left)
        if from_left and link.right in self._bound:
            return min(reached, 1.0) / 2  # a test can only drop rows, so it comes before any growth of the same size
        scan = self._scans[link.right if from_left else link.left]
        known = self._statistics.node(scan.type.id)
        share = 1.0
        for predicate in scan.where:
            share *= selectivity(predicate, known)
        return min(reached, float(max(known.rows, 1))) * share
