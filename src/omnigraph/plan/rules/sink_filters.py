"""Predicates about several bindings, and negations, move down to where the last binding they need is bound."""

from __future__ import annotations

import msgspec

from omnigraph.plan.ir import (
    LogicalAntiJoin,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalExpand,
    LogicalFilter,
    LogicalPlan,
    Predicate,
    bound_by,
    map_inputs,
    reads_bindings,
)
from omnigraph.plan.statistics import Statistics


def sink_filters(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: sink_filters(input_, statistics))
    match plan:
        case LogicalFilter(input_, where):
            for predicate in where:
                input_ = _filtered(input_, predicate, reads_bindings(predicate))
            return input_
        case LogicalAntiJoin(input_, inner, on):
            return _negated(input_, inner, on)
        case _:
            return plan


def _filtered(plan: LogicalPlan, predicate: Predicate, needed: frozenset[int]) -> LogicalPlan:
    match plan:
        case LogicalExpand() | LogicalConnect() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_filtered(plan.input, predicate, needed))
        case LogicalCrossProduct(left, right) if needed <= bound_by(left):
            return LogicalCrossProduct(_filtered(left, predicate, needed), right)
        case LogicalCrossProduct(left, right) if needed <= bound_by(right):
            return LogicalCrossProduct(left, _filtered(right, predicate, needed))
        case LogicalFilter(input_, where):
            return LogicalFilter(input_, (*where, predicate))
        case _:
            return LogicalFilter(plan, (predicate,))


def _negated(plan: LogicalPlan, inner: LogicalPlan, on: tuple[int, ...]) -> LogicalPlan:
    needed = frozenset(on)
    match plan:
        case LogicalExpand() | LogicalConnect() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_negated(plan.input, inner, on))
        case LogicalCrossProduct(left, right) if needed <= bound_by(left):
            return LogicalCrossProduct(_negated(left, inner, on), right)
        case LogicalCrossProduct(left, right) if needed <= bound_by(right):
            return LogicalCrossProduct(left, _negated(right, inner, on))
        case _:
            return LogicalAntiJoin(plan, inner, on)
