"""Arithmetic on constants: two values and an operator -> their value, exactly, or the error `numeric_overflow`."""

from __future__ import annotations

import math
from typing import Final

from omnigraph.catalog.types import ValueType, scalar_of
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import F64, Atom, Value
from omnigraph.plan.values import RANGES

_DAYS: Final = (-(2**31), 2**31 - 1)
_MILLISECONDS: Final = RANGES[Scalar.I64]


def computed(left: Value, operator: ArithmeticOperator, right: Value, type_: ValueType) -> Atom | None:
    """`left operator right` as a value of `type_`. Null in, null out; by zero null."""
    if left is None or right is None:
        return None
    assert not isinstance(left, tuple)
    assert not isinstance(right, tuple)
    if isinstance(left, str):
        return f"{left}{right}"
    assert not isinstance(right, str)
    if operator in (ArithmeticOperator.DIVIDE, ArithmeticOperator.REMAINDER) and not right:
        return None
    if type_ == F64:
        return _float(left, operator, right)
    number = _integer(int(left), operator, int(right))
    low, high = _DAYS if scalar_of(type_) is Scalar.DATE else RANGES.get(scalar_of(type_) or Scalar.I64, _MILLISECONDS)
    if not low <= number <= high:
        raise overflow(f"{left} {operator} {right}", type_)
    return number


def overflow(what: str, type_: ValueType) -> InvalidInput:
    return InvalidInput(Kind.NUMERIC_OVERFLOW, f"{what} is outside the range of {scalar_of(type_)}")


def _integer(left: int, operator: ArithmeticOperator, right: int) -> int:
    match operator:
        case ArithmeticOperator.ADD:
            return left + right
        case ArithmeticOperator.SUBTRACT:
            return left - right
        case ArithmeticOperator.MULTIPLY:
            return left * right
        case ArithmeticOperator.REMAINDER:
            return int(math.copysign(1, left)) * (abs(left) % abs(right))
        case ArithmeticOperator.DIVIDE:
            raise AssertionError("a quotient is a float")


def _float(left: float, operator: ArithmeticOperator, right: float) -> float:
    # Integers are rounded to doubles first, as the columns beside them are.
    first, second = float(left), float(right)
    match operator:
        case ArithmeticOperator.ADD:
            return first + second
        case ArithmeticOperator.SUBTRACT:
            return first - second
        case ArithmeticOperator.MULTIPLY:
            return first * second
        case ArithmeticOperator.DIVIDE:
            return first / second
        case ArithmeticOperator.REMAINDER:
            raise AssertionError("a remainder is of integers")
