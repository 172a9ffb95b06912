"""Constant predicates are removed, and a plan that can have no rows becomes `LogicalEmpty`."""

from __future__ import annotations

import operator
from typing import Any, Final, assert_never

from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import Constant
from omnigraph.plan.ir import (
    EMPTY,
    Call,
    Compare,
    Includes,
    LogicalAggregate,
    LogicalAntiJoin,
    LogicalArgument,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalEmpty,
    LogicalExpand,
    LogicalFetch,
    LogicalFilter,
    LogicalJoin,
    LogicalLimit,
    LogicalOrder,
    LogicalPattern,
    LogicalPlan,
    LogicalProject,
    LogicalRank,
    LogicalScan,
    Matches,
    Never,
    NotNull,
    OneOf,
    Predicate,
    Prefix,
    Substring,
    map_inputs,
)
from omnigraph.plan.statistics import Statistics

# Python compares integers with floats by value and strings by code point, which is the order of their UTF-8 bytes.
COMPARE: Final = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}


def fold_constants(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: fold_constants(input_, statistics))
    match plan:
        case LogicalFilter(input_, where):
            return _filter(input_, where)
        case LogicalPattern(_, links):
            # An edge between two different types has one hop at most.
            return EMPTY if any(link.low > link.high for link in links) else plan
        case LogicalAntiJoin(input_, inner):
            return input_ if isinstance(inner, LogicalEmpty) or isinstance(input_, LogicalEmpty) else plan
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return EMPTY if isinstance(left, LogicalEmpty) or isinstance(right, LogicalEmpty) else plan
        case LogicalAggregate(input_, outputs):
            # Without a group key there is always one row.
            grouped = any(not isinstance(output, Call) for output in outputs)
            return EMPTY if isinstance(input_, LogicalEmpty) and grouped else plan
        case LogicalLimit(input_, count):
            return EMPTY if count == 0 or isinstance(input_, LogicalEmpty) else plan
        case LogicalExpand() | LogicalConnect() | LogicalRank() | LogicalFetch() | LogicalProject() | LogicalOrder():
            return EMPTY if isinstance(plan.input, LogicalEmpty) else plan
        case LogicalScan() | LogicalArgument() | LogicalEmpty():
            return plan
        case _:
            assert_never(plan)


def _filter(input_: LogicalPlan, where: tuple[Predicate, ...]) -> LogicalPlan:
    kept: list[Predicate] = []
    for predicate in where:
        truth = known(predicate)
        if truth is False:
            return EMPTY
        if truth is None:
            kept.append(predicate)
    if isinstance(input_, LogicalEmpty) or not kept:
        return input_
    return LogicalFilter(input_, tuple(kept))


def known(predicate: Predicate) -> bool | None:
    """Whether a predicate holds, or None if that depends on the row."""
    match predicate:
        case Compare(Constant(value=left), comparison, Constant(value=right)):
            return _holds(COMPARE[comparison], left, right)
        case Includes(Constant(value=tuple() as items), Constant(value=item)):
            return item is not None and item in items
        case Substring(Constant(value=text), Constant(value=part)):
            return isinstance(text, str) and isinstance(part, str) and part in text
        case Prefix(Constant(value=text), Constant(value=prefix)):
            return isinstance(text, str) and isinstance(prefix, str) and text.startswith(prefix)
        case Never():
            return False
        case Compare() | Includes() | Substring() | Prefix() | OneOf() | Matches() | NotNull():
            return None
        case _:
            assert_never(predicate)


def _holds(compare: Any, left: object, right: object) -> bool:
    return left is not None and right is not None and bool(compare(left, right))
