"""Predicates about several bindings, and tests by blocks, move down to where the last binding they need is bound."""

from __future__ import annotations

import msgspec

from omnigraph.plan.ir import (
    LogicalConnect,
    LogicalCrossProduct,
    LogicalExpand,
    LogicalFilter,
    LogicalOptional,
    LogicalPaths,
    LogicalPlan,
    LogicalSemiJoin,
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
        case LogicalSemiJoin(input_):
            return _tested(input_, plan, frozenset(binding for inner in plan.inners for binding in inner.on))
        case _:
            return plan


def _filtered(plan: LogicalPlan, predicate: Predicate, needed: frozenset[int]) -> LogicalPlan:
    match plan:
        case LogicalExpand() | LogicalConnect() | LogicalPaths() | LogicalOptional() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_filtered(plan.input, predicate, needed))
        case LogicalCrossProduct(left, right) if needed <= bound_by(left):
            return LogicalCrossProduct(_filtered(left, predicate, needed), right)
        case LogicalCrossProduct(left, right) if needed <= bound_by(right):
            return LogicalCrossProduct(left, _filtered(right, predicate, needed))
        case LogicalFilter(input_, where):
            return LogicalFilter(input_, (*where, predicate))
        case _:
            return LogicalFilter(plan, (predicate,))


def _tested(plan: LogicalPlan, test: LogicalSemiJoin, needed: frozenset[int]) -> LogicalPlan:
    match plan:
        case LogicalExpand() | LogicalConnect() | LogicalPaths() | LogicalOptional() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_tested(plan.input, test, needed))
        case LogicalCrossProduct(left, right) if needed <= bound_by(left):
            return LogicalCrossProduct(_tested(left, test, needed), right)
        case LogicalCrossProduct(left, right) if needed <= bound_by(right):
            return LogicalCrossProduct(left, _tested(right, test, needed))
        case _:
            return LogicalSemiJoin(plan, test.inners, test.wanted)
