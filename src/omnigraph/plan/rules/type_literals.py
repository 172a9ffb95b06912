"""Constants take the type of the column they are compared with; a comparison with a value that the column cannot hold is rewritten."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.types import ListOf
from omnigraph.plan.coercion import as_item, comparison, one_of
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.ir import (
    UNKNOWN,
    AllOf,
    AnyOf,
    Compare,
    Decided,
    Includes,
    IsNull,
    Known,
    LogicalFilter,
    LogicalPlan,
    Matches,
    Not,
    OneOf,
    Predicate,
    Prefix,
    Substring,
    Suffix,
    map_inputs,
)
from omnigraph.plan.statistics import Statistics


def type_literals(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: type_literals(input_, statistics))
    return (
        LogicalFilter(plan.input, tuple(typed_predicate(predicate) for predicate in plan.where))
        if isinstance(plan, LogicalFilter)
        else plan
    )


def typed_predicate(predicate: Predicate) -> Predicate:
    match predicate:
        case Compare(left, operator, right):
            return comparison(left, operator, right)
        case Includes(left, right) | Substring(left, right) | Prefix(left, right) | Suffix(left, right):
            if _null(left) or _null(right):
                return UNKNOWN
            return _membership(predicate) if isinstance(predicate, Includes) else predicate
        case AllOf(terms):
            return AllOf(tuple(typed_predicate(term) for term in terms))
        case AnyOf(terms):
            return AnyOf(tuple(typed_predicate(term) for term in terms))
        case Not(term):
            return Not(typed_predicate(term))
        case OneOf() | Matches() | IsNull() | Decided() | Known():
            return predicate
        case _:
            assert_never(predicate)


def _null(side: object) -> bool:
    return isinstance(side, Constant) and side.value is None


def _membership(predicate: Includes) -> Predicate:
    match predicate.items, predicate.item:
        case Constant(value=tuple() as values), Field() as field:
            return one_of(field, values)
        case Field(type=ListOf(item)) as field, Constant() as constant:
            fitting = as_item(item, constant)
            return Decided(field, truth=False) if fitting is None else Includes(field, fitting)
        case _:
            return predicate
