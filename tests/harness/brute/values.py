"""Typed values -> whether they are equal, ordered or contained in one another, in three-valued logic: True, False or None for unknown."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from omnigraph.catalog.types import ListOf, Plain, ValueType
from omnigraph.lang.query import Comparison, Containment
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Value
from omnigraph.plan.values import narrowed

F32: Final = Plain(Scalar.F32)

Truth: TypeAlias = bool | None

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
    """A value and its type; a null has a type too. `given`: it stands in the query or came as a parameter, alone."""

    value: Value
    type: ValueType
    given: bool = False


def compared(left: Typed, how: Comparison | Containment, right: Typed) -> Truth:
    """Whether the test holds; with a null on either side that is unknown."""
    if left.value is None or right.value is None:
        return None
    a: Any = _beside(left, right)
    b: Any = _beside(right, left)
    match how:
        case Comparison():
            return bool(_COMPARE[how](a, b))
        case Containment.CONTAINS:
            return b in a  # an item of a list, or a part of a text
        case Containment.STARTS_WITH:
            return bool(a.startswith(b))
        case Containment.ENDS_WITH:
            return bool(a.endswith(b))
        case _:
            assert_never(how)


def listed(item: Typed, options: Typed) -> Truth:
    """`item in options`: a chain of `or`. In an empty list is nothing, not even null; whether it is in no list is unknown."""
    if options.value is None:
        return None
    assert isinstance(options.value, tuple)
    assert isinstance(options.type, ListOf)
    of = Plain(options.type.item)
    return disjunction(compared(item, Comparison.EQ, Typed(option, of, options.given)) for option in options.value)


def conjunction(terms: Iterable[Truth]) -> Truth:
    """False if one is false, else unknown if one is unknown."""
    found = list(terms)
    return False if False in found else None if None in found else True


def disjunction(terms: Iterable[Truth]) -> Truth:
    """True if one is true, else unknown if one is unknown."""
    found = list(terms)
    return True if True in found else None if None in found else False


def inversion(term: Truth) -> Truth:
    return None if term is None else not term


def same(value: Value) -> object:
    """What two values have in common exactly when `distinct` and groups take them for one: NaN equals NaN, and null null."""
    match value:
        case float() if math.isnan(value):
            return "NaN", None
        case tuple():
            return tuple(map(same, value))
        case _:
            return value  # both zeros are equal in Python


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
