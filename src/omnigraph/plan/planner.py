"""Typed read -> physical plan. Pure: no clock, no files, no Lance; statistics of the data are an argument."""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from omnigraph.catalog.types import VectorOf
from omnigraph.plan import ir, ops
from omnigraph.plan.cost import choose_indexes, choose_restriction, choose_route, only_existence
from omnigraph.plan.lowering import lower
from omnigraph.plan.params import Bindings
from omnigraph.plan.rules import optimize
from omnigraph.plan.statistics import NO_STATISTICS, UNKNOWN_NODE, Statistics, fan_out, scanned_rows, selectivity
from omnigraph.plan.typed import TypedRead

# Default selectivities.
_KEPT_BY_TEST: Final = 0.5
_DISTINCT: Final = 0.5
_GROUPS: Final = 0.1
_MATCHED_TEXTS: Final = 0.05
_EQUAL_PAIRS: Final = 0.01

FLAT_NUMBERS: Final = 1_000_000
"""Reading and comparing this many numbers (vectors times their dimension) takes about 10 ms: so many may be outside of an index."""
HELD_NUMBERS: Final = 4_000_000
"""Comparing this many numbers in memory takes less than 2 ms, less than an index takes: so many are compared without one."""
PROBES: Final = 20
REFINE: Final = 5
"""What finds at least 95 of 100 of the ten nearest among 100,000 vectors of 128 numbers (docs/design/search.md)."""
_MOST_BY_INDEX: Final = 1_000
"""More rows than this are found by a scan."""
_MOST_ROWS: Final = 1e18
"""The upper bound of estimates, so that a chain of products stays finite."""


def plan_read(read: TypedRead, parameters: Bindings, *, now_ms: int, statistics: Statistics = NO_STATISTICS) -> ops.ReadPlan:
    """The operators that answer a checked read. `now_ms` is the value of `now()`."""
    return plan_logical(lower(read, parameters, now_ms=now_ms), statistics)


def plan_logical(logical: ir.LogicalRead, statistics: Statistics) -> ops.ReadPlan:
    """The operators that answer a lowered read."""
    root = _Choices(statistics, logical.bindings).op(optimize(logical.root, statistics))
    return ops.ReadPlan(logical.name, root, logical.bindings, logical.columns)


class _Choices:
    """One operator per logical node, except that an order and its limit become one sort."""

    def __init__(self, statistics: Statistics, bindings: tuple[ir.Binding, ...], *, outer_rows: float = 1.0) -> None:
        self._statistics = statistics
        self._bindings = bindings
        self._outer_rows = outer_rows
        """The number of rows that the inner plan of a block starts from."""

    def op(self, plan: ir.LogicalPlan) -> ops.Op:
        match plan:
            case ir.LogicalScan():
                return self._scan(plan)
            case ir.LogicalArgument(bindings):
                return ops.Argument(bindings, self._outer_rows)
            case ir.LogicalExpand():
                return self._expand(plan)
            case ir.LogicalConnect(input_, link):
                below = self.op(input_)
                share = min(1.0, fan_out(link, self._statistics, from_left=True))
                return ops.Connect(below, link, choose_route(link, below.rows, self._statistics, from_left=True), below.rows * share)
            case ir.LogicalCrossProduct(left, right):
                first, second = self.op(left), self.op(right)
                return ops.CrossProduct(first, second, min(first.rows * second.rows, _MOST_ROWS))
            case ir.LogicalJoin(left, right, on):
                first, second = self.op(left), self.op(right)
                return ops.Join(first, second, on, min(first.rows * second.rows * _EQUAL_PAIRS, _MOST_ROWS))
            case ir.LogicalSemiJoin(input_, inners, wanted):
                below = self.op(input_)
                insides = tuple(_only_existence(self._inner(inner, below.rows)) for inner in inners)
                return ops.SemiJoin(below, insides, wanted, below.rows * _KEPT_BY_TEST)
            case ir.LogicalOptional(input_, inner, binds):
                below = self.op(input_)
                inside = self._inner(inner, below.rows)
                return ops.Optional(below, inside, binds, min(max(below.rows, inside.root.rows), _MOST_ROWS))
            case ir.LogicalPattern():
                raise AssertionError("joins are ordered before operators are chosen")
            case ir.LogicalEmpty():
                return ops.Empty()
            case (
                ir.LogicalFilter()
                | ir.LogicalPaths()
                | ir.LogicalRank()
                | ir.LogicalFetch()
                | ir.LogicalAggregate()
                | ir.LogicalProject()
                | ir.LogicalDistinct()
                | ir.LogicalOrder()
                | ir.LogicalLimit()
            ):
                return self._above(plan)
            case _:
                assert_never(plan)

    def _inner(self, inner: ir.Inner, outer_rows: float) -> ops.InnerOp:
        return ops.InnerOp(_Choices(self._statistics, self._bindings, outer_rows=outer_rows).op(inner.plan), inner.on)

    def _above(
        self,
        plan: ir.LogicalFilter
        | ir.LogicalPaths
        | ir.LogicalRank
        | ir.LogicalFetch
        | ir.LogicalAggregate
        | ir.LogicalProject
        | ir.LogicalDistinct
        | ir.LogicalOrder
        | ir.LogicalLimit,
    ) -> ops.Op:
        """The operators above the match."""
        if isinstance(plan, ir.LogicalLimit) and isinstance(plan.input, ir.LogicalOrder):
            order = plan.input
            below = self.op(order.input)
            return ops.Sort(below, order.keys, order.ties, plan.count, plan.skip, _limited(below.rows, plan))
        below = self.op(plan.input)
        rows = below.rows
        match plan:
            case ir.LogicalFilter(_, where):
                for predicate in where:
                    rows *= selectivity(predicate, UNKNOWN_NODE)
                return ops.Filter(below, where, rows)
            case ir.LogicalRank(_, slot, ranking, only_candidates, top):
                return ops.Rank(below, slot, ranking, only_candidates, top, self._rank_index(plan, below), _ranked_rows(plan, rows))
            case ir.LogicalFetch(_, reads):
                return ops.Fetch(below, reads, rows)
            case ir.LogicalPaths(_, link, columns):
                return ops.Paths(below, link, columns, choose_route(link, rows, self._statistics, from_left=True), rows)
            case ir.LogicalAggregate(_, outputs, ties):
                grouped = any(not isinstance(output, ir.Call) for output in outputs)
                return ops.Aggregate(below, outputs, ties, max(1.0, rows * _GROUPS) if grouped else 1.0)
            case ir.LogicalDistinct():
                return ops.Distinct(below, rows * _DISTINCT)
            case ir.LogicalProject(_, outputs):
                return ops.Project(below, outputs, rows)
            case ir.LogicalOrder(_, keys, ties):
                return ops.Sort(below, keys, ties, None, 0, rows)
            case ir.LogicalLimit(_, count, skip):
                return ops.Limit(below, count, skip, _limited(rows, plan))
            case _:
                assert_never(plan)

    def _rank_index(self, plan: ir.LogicalRank, below: ops.Op) -> ops.IndexSearch | ops.WordLookup | None:
        ranking = plan.ranking
        arms = (ranking.first, ranking.second) if isinstance(ranking, ir.Fusion) else (ranking,)
        for field in (arm.field for arm in arms if isinstance(arm, ir.Bm25)):
            type_ = self._bindings[field.binding].type
            assert type_ is not None
            if field.column in self._statistics.node(type_.id).texts:
                return ops.WordLookup(field.column)
        return self._index_search(plan, below)

    def _index_search(self, plan: ir.LogicalRank, below: ops.Op) -> ops.IndexSearch | None:
        """An index answers for the best rows of a scan. Where a filter leaves few rows, comparing all of them costs less."""
        ranking = plan.ranking
        if plan.top is None or not isinstance(below, ops.Scan) or not isinstance(ranking, ir.Nearest):
            return None
        assert isinstance(ranking.field.type, VectorOf)
        few = HELD_NUMBERS // ranking.field.type.dimension
        if plan.top > _MOST_BY_INDEX or ranking.field.column not in self._statistics.node(below.type.id).vectors or below.rows < few:
            return None
        return ops.IndexSearch(ranking.field.column, PROBES, REFINE)

    def _scan(self, plan: ir.LogicalScan) -> ops.Scan:
        indexes = choose_indexes(plan.where, self._statistics.node(plan.type.id))
        return ops.Scan(plan.binding, plan.type, plan.where, plan.columns, indexes, scanned_rows(plan, self._statistics))

    def _expand(self, plan: ir.LogicalExpand) -> ops.Expand:
        below = self.op(plan.input)
        target = self._scan(plan.target)
        total = max(self._statistics.node(plan.target.type.id).rows, 1)
        reached = min(fan_out(plan.link, self._statistics, from_left=plan.from_left), total) * below.rows
        return ops.Expand(
            below,
            plan.link,
            not plan.from_left,
            target,
            choose_restriction(plan.target, reached, self._statistics),
            choose_route(plan.link, below.rows, self._statistics, from_left=plan.from_left, far=plan.target),
            min(reached * target.rows / total, _MOST_ROWS),
        )


def _only_existence(inner: ops.InnerOp) -> ops.InnerOp:
    """Of a block that only tests, a single hop need not be followed: whether it exists is cheaper."""
    root = inner.root
    if isinstance(root, ops.Expand) and root.is_bare and root.link.high == 1:
        return ops.InnerOp(msgspec.structs.replace(root, choice=only_existence(root.choice)), inner.on)
    return inner


def _limited(rows: float, limit: ir.LogicalLimit) -> float:
    left = max(rows - limit.skip, 0.0)
    return left if limit.count is None else min(left, limit.count)


def _ranked_rows(plan: ir.LogicalRank, rows: float) -> float:
    if plan.top is not None:
        return min(rows, plan.top)
    return rows * _MATCHED_TEXTS if plan.only_candidates and isinstance(plan.ranking, ir.Bm25) else rows
