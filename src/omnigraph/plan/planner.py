"""Typed read -> physical plan. Pure: no clock, no files, no Lance; what it knows of the data comes as an argument."""

from __future__ import annotations

from typing import assert_never

from omnigraph.plan import ir, ops
from omnigraph.plan.cost import choose_restriction, choose_route, index_for
from omnigraph.plan.lower import lower
from omnigraph.plan.params import Bindings
from omnigraph.plan.rules import optimize
from omnigraph.plan.statistics import NO_STATISTICS, UNKNOWN_NODE, Statistics, fan_out, scanned_rows, selectivity
from omnigraph.plan.typed import TypedRead

_KEPT_BY_NEGATION = 0.5
_GROUPS = 0.1
_MATCHED_TEXTS = 0.05


def plan_read(read: TypedRead, parameters: Bindings, *, now_ms: int, statistics: Statistics = NO_STATISTICS) -> ops.ReadPlan:
    """The operators that answer a checked read. `now_ms` is the one instant that `now()` means in it."""
    logical = lower(read, parameters, now_ms=now_ms)
    root = physical(optimize(logical.root, statistics), statistics)
    return ops.ReadPlan(logical.name, root, logical.bindings, logical.columns)


def physical(plan: ir.Plan, statistics: Statistics) -> ops.Op:
    """One operator per logical node, except that an order and its limit become one sort."""
    match plan:
        case ir.Scan():
            return _scan(plan, statistics)
        case ir.Argument(bindings):
            return ops.Argument(bindings, 1.0)
        case ir.Expand():
            return _expand(plan, statistics)
        case ir.Connect(input_, link):
            below = physical(input_, statistics)
            share = min(1.0, fan_out(link, statistics, from_left=True))
            return ops.Connect(below, link, choose_route(link, below.rows, statistics, from_left=True), below.rows * share)
        case ir.CrossProduct(left, right):
            first, second = physical(left, statistics), physical(right, statistics)
            return ops.CrossProduct(first, second, first.rows * second.rows)
        case ir.AntiJoin(input_, inner, on):
            below = physical(input_, statistics)
            return ops.AntiJoin(below, physical(inner, statistics), on, below.rows * _KEPT_BY_NEGATION)
        case ir.Pattern():
            raise AssertionError("joins are ordered before operators are chosen")
        case ir.Empty():
            return ops.Empty()
        case ir.Filter() | ir.Rank() | ir.Fetch() | ir.Aggregate() | ir.Project() | ir.Order() | ir.Limit():
            return _above(plan, statistics)
        case _:
            assert_never(plan)


def _above(plan: ir.Filter | ir.Rank | ir.Fetch | ir.Aggregate | ir.Project | ir.Order | ir.Limit, statistics: Statistics) -> ops.Op:
    """The operators that follow the match."""
    if isinstance(plan, ir.Limit) and isinstance(plan.input, ir.Order):
        order = plan.input
        below = physical(order.input, statistics)
        return ops.Sort(below, order.keys, order.ties, plan.count, min(below.rows, plan.count))
    below = physical(plan.input, statistics)
    rows = below.rows
    match plan:
        case ir.Filter(_, where):
            for predicate in where:
                rows *= selectivity(predicate, UNKNOWN_NODE)
            return ops.Filter(below, where, rows)
        case ir.Rank(_, slot, ranking, only_candidates, top):
            return ops.Rank(below, slot, ranking, only_candidates, top, _ranked_rows(plan, rows))
        case ir.Fetch(_, reads):
            return ops.Fetch(below, reads, rows)
        case ir.Aggregate(_, outputs):
            grouped = any(not isinstance(output, ir.Call) for output in outputs)
            return ops.Aggregate(below, outputs, max(1.0, rows * _GROUPS) if grouped else 1.0)
        case ir.Project(_, outputs):
            return ops.Project(below, outputs, rows)
        case ir.Order(_, keys, ties):
            return ops.Sort(below, keys, ties, None, rows)
        case ir.Limit(_, count):
            return ops.Limit(below, count, min(rows, count))
        case _:
            assert_never(plan)


def _ranked_rows(plan: ir.Rank, rows: float) -> float:
    if plan.top is not None:
        return min(rows, plan.top)
    return rows * _MATCHED_TEXTS if plan.only_candidates and isinstance(plan.ranking, ir.Bm25) else rows


def _scan(plan: ir.Scan, statistics: Statistics) -> ops.Scan:
    index = index_for(plan.where, statistics.node(plan.type.id))
    return ops.Scan(plan.binding, plan.type, plan.where, plan.columns, index, scanned_rows(plan, statistics))


def _expand(plan: ir.Expand, statistics: Statistics) -> ops.Expand:
    below = physical(plan.input, statistics)
    target = _scan(plan.target, statistics)
    total = statistics.node(plan.target.type.id).rows
    reached = min(below.rows * fan_out(plan.link, statistics, from_left=plan.from_left), max(below.rows, 1.0) * max(total, 1))
    rows = reached * target.rows / max(total, 1)
    return ops.Expand(
        below,
        plan.link,
        not plan.from_left,
        target,
        choose_restriction(plan.target, reached, statistics),
        choose_route(plan.link, below.rows, statistics, from_left=plan.from_left),
        rows,
    )
