"""A comparison of a column with a constant -> one with a constant of the column's own type that keeps the same rows.

A storage engine compares only values of one type, and an index is used only for a literal of the column's type. Values keep
their meaning: a value that the column cannot hold is not rounded; the comparison is rewritten. A comparison with null is unknown.
"""

from __future__ import annotations

import math
from typing import Final, assert_never

from omnigraph.catalog.types import FLOATS, INTEGERS, Plain, ValueType, scalar_of
from omnigraph.lang.query import Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Constant, Field
from omnigraph.plan.ir import UNKNOWN, AllOf, Compare, Decided, Expr, IsNull, Known, Matches, OneOf, Predicate, TextMatch
from omnigraph.plan.values import RANGES, narrowed

FLIPPED: Final = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}


def comparison(left: Expr, operator: Comparison, right: Expr) -> Predicate:
    """`left operator right`, typed by the column if one side is a column and the other a constant."""
    match left, right:
        case (Constant(value=None), _) | (_, Constant(value=None)):
            return UNKNOWN
        case Field(), Constant():
            return against(left, operator, right)
        case Constant(), Field():
            return against(right, FLIPPED[operator], left)
        case TextMatch(), Constant(value=bool() as truth):
            return _text(left, operator, truth) or Compare(left, operator, right)
        case Constant(value=bool() as truth), TextMatch():
            return _text(right, operator, truth) or Compare(left, operator, right)
        case _:
            return Compare(left, operator, right)


def _text(text: TextMatch, operator: Comparison, truth: bool) -> Matches | None:  # noqa: FBT001 - a value, not a switch
    match operator:
        case Comparison.EQ:
            return Matches(text, truth)
        case Comparison.NE:
            return Matches(text, not truth)
        case _:
            return None


def against(field: Field, operator: Comparison, constant: Constant) -> Predicate:
    """`field operator constant`. A list or vector is never equal."""
    value = constant.value
    if value is None:
        return UNKNOWN
    scalar = scalar_of(field.type)
    if scalar is None or isinstance(value, tuple):
        return Decided(field, truth=False)
    if isinstance(value, str | bool) or (constant.parameter is not None and constant.type == field.type):
        return Compare(field, operator, Constant(field.type, value, constant.parameter))
    if scalar in INTEGERS:
        return _against_integer(field, scalar, operator, value)
    if scalar in FLOATS:
        return _against_float(field, scalar, operator, value)
    return Compare(field, operator, Constant(field.type, value))


def _against_integer(field: Field, scalar: Scalar, operator: Comparison, value: float) -> Predicate:
    low, high = RANGES[scalar]
    if value > high:
        return _beyond(field, operator, above=True)
    if value < low:
        return _beyond(field, operator, above=False)
    whole = math.floor(value)
    if whole == value:
        return Compare(field, operator, Constant(field.type, whole))
    return _between(field, operator, below=whole)


def _against_float(field: Field, scalar: Scalar, operator: Comparison, value: float) -> Predicate:
    if scalar is Scalar.F32:
        # The one deliberate rounding of the language: `f = 0.1` finds the 0.1 that a 32-bit column stored.
        narrow = narrowed(value)
        if math.isinf(narrow):
            return _beyond(field, operator, above=value > 0)
        return Compare(field, operator, Constant(field.type, narrow))
    wide = float(value)
    if wide == value:
        return Compare(field, operator, Constant(field.type, wide))
    return _between(field, operator, below=wide if wide < value else math.nextafter(wide, -math.inf))


def _beyond(field: Field, operator: Comparison, *, above: bool) -> Predicate:
    """The constant is above (or below) every value that the column can hold."""
    match operator:
        case Comparison.EQ:
            return Decided(field, truth=False)
        case Comparison.NE:
            return Decided(field, truth=True)
        case Comparison.LT | Comparison.LE:
            return Decided(field, truth=above)
        case Comparison.GT | Comparison.GE:
            return Decided(field, truth=not above)
        case _:
            assert_never(operator)


def _between(field: Field, operator: Comparison, *, below: float) -> Predicate:
    """The constant lies between two neighbours of the column's type; `below` is the lower one."""
    match operator:
        case Comparison.EQ:
            return Decided(field, truth=False)
        case Comparison.NE:
            return Decided(field, truth=True)
        case Comparison.LT | Comparison.LE:
            return Compare(field, Comparison.LE, Constant(field.type, below))
        case Comparison.GT | Comparison.GE:
            return Compare(field, Comparison.GT, Constant(field.type, below))
        case _:
            assert_never(operator)


def one_of(field: Field, values: tuple[Atom, ...]) -> Predicate:
    """The field equals one of the values, each compared as in `field = value`."""
    kept: list[Atom] = []
    for value in values:
        same = against(field, Comparison.EQ, Constant(field.type, value))
        if isinstance(same, Compare) and isinstance(same.right, Constant):
            assert isinstance(same.right.value, bool | int | float | str)
            kept.append(same.right.value)
    if not values:
        return Known(truth=False)  # in an empty list there is nothing, not even an unknown value
    return OneOf(field, tuple(dict.fromkeys(kept))) if kept else Decided(field, truth=False)


def listed(item: Expr, type_: ValueType, values: tuple[Atom, ...]) -> Predicate:
    """`item in values`, each compared as in `item = value`. In an empty list there is nothing, not even null."""
    if not values:
        return Known(truth=False)
    if isinstance(item, Field):
        return one_of(item, values)
    if isinstance(item, Constant) and item.value is None:
        return UNKNOWN
    same = one_of(Field(0, "item", type_), values)
    # No value of the item's type is in the list: false, and unknown where the item is null.
    return OneOf(item, same.values) if isinstance(same, OneOf) else AllOf((IsNull(item), UNKNOWN))


def as_item(item: Scalar, constant: Constant) -> Constant | None:
    """The constant as an item of a list of `item`; None if no such list can hold it."""
    same = against(Field(0, "item", Plain(item)), Comparison.EQ, constant)
    return same.right if isinstance(same, Compare) and isinstance(same.right, Constant) else None
