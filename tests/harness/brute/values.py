"""Typed values and an operator -> whether they match, by the language's rules on null, numbers and narrow floats."""

from __future__ import annotations

import operator
from typing import Any, Final, assert_never

import msgspec

from omnigraph.catalog.types import ListOf, Plain, ValueType
from omnigraph.lang.query import Comparison, Containment
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Value
from omnigraph.plan.values import narrowed

F32: Final = Plain(Scalar.F32)

# Python compares numbers of all kinds by value, and texts by code point, which is the order of their UTF-8 bytes.
_COMPARE: Final = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}


class Typed(msgspec.Struct, frozen=True):
    """A value and its type. `given`: it stands in the query or came as a parameter, and was not read from a row."""

    value: Value
    type: ValueType
    given: bool = False


def matches(left: Typed, how: Comparison | Containment, right: Typed) -> bool:
    """Whether the condition holds; with a null on either side it never does."""
    if left.value is None or right.value is None:
        return False
    a: Any = _beside(left, right)
    b: Any = _beside(right, left)
    match how:
        case Comparison():
            return bool(_COMPARE[how](a, b))
        case Containment.CONTAINS:
            return b in a  # an item of a list, or a part of a text
        case Containment.STARTS_WITH:
            return bool(a.startswith(b))
        case _:
            assert_never(how)


def _beside(one: Typed, other: Typed) -> Value:
    """The value to compare: what is given beside a 32-bit property is narrowed to 32 bits first."""
    if not one.given or other.given or _number(other.type) != F32:
        return one.value
    match one.value:
        case tuple() as items:
            return tuple(_narrow(item) for item in items)
        case value:
            return _narrow(value)


def _number(type_: ValueType) -> ValueType:
    return Plain(type_.item) if isinstance(type_, ListOf) else type_


def _narrow(value: Any) -> float:
    return narrowed(float(value))
