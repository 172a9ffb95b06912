"""What is known already is not asked again: constant predicates vanish, and a plan that can have no rows becomes `Empty`."""

from __future__ import annotations

import operator
from typing import Any, Final, assert_never

from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import Constant
from omnigraph.plan.ir import (
    EMPTY,
    Aggregate,
    AntiJoin,
    Argument,
    Call,
    Compare,
    Connect,
    CrossProduct,
    Empty,
    Expand,
    Fetch,
    Filter,
    Includes,
    Join,
    Limit,
    Matches,
    Never,
    NotNull,
    OneOf,
    Order,
    Pattern,
    Plan,
    Predicate,
    Prefix,
    Project,
    Rank,
    Scan,
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


def fold_constants(plan: Plan, statistics: Statistics) -> Plan:
    plan = map_inputs(plan, lambda input_: fold_constants(input_, statistics))
    match plan:
        case Filter(input_, where):
            return _filter(input_, where)
        case Pattern(_, links):
            # An edge between two types gives one hop and no more.
            return EMPTY if any(link.low > link.high for link in links) else plan
        case AntiJoin(input_, inner):
            return input_ if isinstance(inner, Empty) or isinstance(input_, Empty) else plan
        case CrossProduct(left, right) | Join(left, right):
            return EMPTY if isinstance(left, Empty) or isinstance(right, Empty) else plan
        case Aggregate(input_, outputs):
            # Without a group key there is one row even of no rows.
            grouped = any(not isinstance(output, Call) for output in outputs)
            return EMPTY if isinstance(input_, Empty) and grouped else plan
        case Limit(input_, count):
            return EMPTY if count == 0 or isinstance(input_, Empty) else plan
        case Expand() | Connect() | Rank() | Fetch() | Project() | Order():
            return EMPTY if isinstance(plan.input, Empty) else plan
        case Scan() | Argument() | Empty():
            return plan
        case _:
            assert_never(plan)


def _filter(input_: Plan, where: tuple[Predicate, ...]) -> Plan:
    kept: list[Predicate] = []
    for predicate in where:
        truth = known(predicate)
        if truth is False:
            return EMPTY
        if truth is None:
            kept.append(predicate)
    if isinstance(input_, Empty) or not kept:
        return input_
    return Filter(input_, tuple(kept))


def known(predicate: Predicate) -> bool | None:
    """Whether a predicate holds, if that can be said without a row."""
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
