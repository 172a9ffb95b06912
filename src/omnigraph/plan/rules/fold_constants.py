"""Constant predicates are removed, and a plan that can have no rows becomes `LogicalEmpty`."""

from __future__ import annotations

import operator
from typing import Any, Final, assert_never

from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import Atom, Constant, Field
from omnigraph.plan.ir import (
    EMPTY,
    AllOf,
    AnyOf,
    Call,
    Compare,
    Decided,
    Includes,
    IsNull,
    Known,
    LogicalAggregate,
    LogicalArgument,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalDistinct,
    LogicalEmpty,
    LogicalExpand,
    LogicalFetch,
    LogicalFilter,
    LogicalJoin,
    LogicalLimit,
    LogicalOptional,
    LogicalOrder,
    LogicalPaths,
    LogicalPattern,
    LogicalPlan,
    LogicalProject,
    LogicalRank,
    LogicalScan,
    LogicalSemiJoin,
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
        case LogicalPattern(links=links, input=input_):
            # An edge between two different types has one hop at most.
            return EMPTY if isinstance(input_, LogicalEmpty) or any(link.low > link.high for link in links) else plan
        case LogicalSemiJoin():
            return _semi_join(plan)
        case LogicalOptional(input_):
            return EMPTY if isinstance(input_, LogicalEmpty) else plan
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return EMPTY if isinstance(left, LogicalEmpty) or isinstance(right, LogicalEmpty) else plan
        case LogicalAggregate(input_, outputs):
            # Without a group key there is always one row.
            grouped = any(not isinstance(output, Call) for output in outputs)
            return EMPTY if isinstance(input_, LogicalEmpty) and grouped else plan
        case LogicalLimit(input_, count):
            return EMPTY if count == 0 or isinstance(input_, LogicalEmpty) else plan
        case (
            LogicalExpand()
            | LogicalConnect()
            | LogicalPaths()
            | LogicalRank()
            | LogicalFetch()
            | LogicalProject()
            | LogicalDistinct()
            | LogicalOrder()
        ):
            return EMPTY if isinstance(plan.input, LogicalEmpty) else plan
        case LogicalScan() | LogicalArgument() | LogicalEmpty():
            return plan
        case _:
            assert_never(plan)


def _semi_join(plan: LogicalSemiJoin) -> LogicalPlan:
    """A block that can have no row adds nothing."""
    if isinstance(plan.input, LogicalEmpty):
        return EMPTY
    inners = tuple(inner for inner in plan.inners if not isinstance(inner.plan, LogicalEmpty))
    if not inners:
        return EMPTY if plan.wanted else plan.input
    return plan if len(inners) == len(plan.inners) else LogicalSemiJoin(plan.input, inners, plan.wanted)


def _filter(input_: LogicalPlan, where: tuple[Predicate, ...]) -> LogicalPlan:
    kept: list[Predicate] = []
    for predicate in where:
        folded = fold(predicate)
        match folded:
            case Known(truth=True):
                continue
            case Known() | Decided(truth=False):
                return EMPTY
            case AllOf(terms):
                kept.extend(terms)
            case _:
                kept.append(folded)
    if isinstance(input_, LogicalEmpty) or not kept:
        return input_
    return LogicalFilter(input_, tuple(kept))


def fold(predicate: Predicate) -> Predicate:
    """The predicate without parts that are the same for every row; `x = a or x = b` becomes one test of a list."""
    match predicate:
        case AllOf(terms):
            return _conjunction([fold(term) for term in terms])
        case AnyOf(terms):
            return _disjunction([fold(term) for term in terms])
        case Not(term):
            return _inverted(fold(term))
        case _:
            truth = known(predicate)
            return predicate if truth is None else truth


def _conjunction(terms: list[Predicate]) -> Predicate:
    flat = [part for term in terms for part in (term.terms if isinstance(term, AllOf) else (term,))]
    if Known(truth=False) in flat:
        return Known(truth=False)
    left = tuple(dict.fromkeys(term for term in flat if term != Known(truth=True)))
    return Known(truth=True) if not left else left[0] if len(left) == 1 else AllOf(left)


def _disjunction(terms: list[Predicate]) -> Predicate:
    flat = [part for term in terms for part in (term.terms if isinstance(term, AnyOf) else (term,))]
    if Known(truth=True) in flat:
        return Known(truth=True)
    left = _joined_lists([term for term in flat if term != Known(truth=False)])
    return Known(truth=False) if not left else left[0] if len(left) == 1 else AnyOf(left)


def _joined_lists(terms: list[Predicate]) -> tuple[Predicate, ...]:
    """Equalities of one field with constants, joined to one list at the place of the first. An index answers a list."""
    values: dict[Field, list[Atom]] = {}
    kept: list[Predicate | Field] = []
    for term in dict.fromkeys(terms):
        match term:
            case Compare(Field() as field, Comparison.EQ, Constant(value=bool() | int() | float() | str() as value)):
                found: tuple[Atom, ...] = (value,)
            case OneOf(Field() as field, found):
                pass
            case _:
                kept.append(term)
                continue
        if field not in values:
            kept.append(field)
        values.setdefault(field, []).extend(found)
    return tuple(OneOf(term, tuple(dict.fromkeys(values[term]))) if isinstance(term, Field) else term for term in kept)


def _inverted(term: Predicate) -> Predicate:
    match term:
        case Known(truth):
            return Known(truth=None if truth is None else not truth)
        case Decided(field, truth):
            return Decided(field, truth=not truth)
        case Not(inner):
            return inner
        case _:
            return Not(term)


def known(predicate: Predicate) -> Known | None:
    """What a test of constants gives, or None if it depends on the row."""
    match predicate:
        case Compare(Constant(value=left), comparison, Constant(value=right)):
            return Known(truth=_compared(COMPARE[comparison], left, right))
        case Includes(Constant(value=tuple() as items), Constant(value=item)):
            return Known(truth=None if item is None else item in items)
        case OneOf(_, ()):
            return Known(truth=False)
        case OneOf(Constant(value=value), values):
            return Known(truth=None if value is None else value in values)
        case Substring(Constant(value=text), Constant(value=part)):
            return Known(truth=part in text if isinstance(text, str) and isinstance(part, str) else None)
        case Prefix(Constant(value=text), Constant(value=prefix)):
            return Known(truth=text.startswith(prefix) if isinstance(text, str) and isinstance(prefix, str) else None)
        case Suffix(Constant(value=text), Constant(value=suffix)):
            return Known(truth=text.endswith(suffix) if isinstance(text, str) and isinstance(suffix, str) else None)
        case IsNull(Constant(value=value)):
            return Known(truth=value is None)
        case Known():
            return predicate
        case (
            Compare()
            | Includes()
            | Substring()
            | Prefix()
            | Suffix()
            | OneOf()
            | Matches()
            | IsNull()
            | Decided()
            | AllOf()
            | AnyOf()
            | Not()
        ):
            return None
        case _:
            assert_never(predicate)


def _compared(compare: Any, left: object, right: object) -> bool | None:
    return None if left is None or right is None else bool(compare(left, right))
