"""Columns of numbers, dates and texts -> their sums, differences, products, quotients and roundings, row by row.

Null in, null out. Integers are exact: a result outside the range of its type is the error `numeric_overflow`. Doubles follow IEEE 754,
so a sum may be infinite. A division by zero, of integers or of doubles, gives null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import Plain, arrow_scalar
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan.arithmetic import overflow
from omnigraph.plan.expr import I64
from omnigraph.store.arrays import NARROW_BYTES, Mask

Doubles: TypeAlias = npt.NDArray[np.float64]
Magnitudes: TypeAlias = npt.NDArray[np.uint64]

_CHECKED: Final = {
    ArithmeticOperator.ADD: pc.add_checked,
    ArithmeticOperator.SUBTRACT: pc.subtract_checked,
    ArithmeticOperator.MULTIPLY: pc.multiply_checked,
}
_IEEE: Final = {
    ArithmeticOperator.ADD: pc.add,
    ArithmeticOperator.SUBTRACT: pc.subtract,
    ArithmeticOperator.MULTIPLY: pc.multiply,
}
_STORED: Final = {Scalar.I64: pa.int64(), Scalar.U64: pa.uint64(), Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}
"""The integers in which the values of a type are stored."""
_TENS: Final = np.array([10**digits for digits in range(20)], np.uint64)
_DOUBLE_TENS: Final = np.array([float(10**digits) for digits in range(309)])
_EXACT_TENS: Final = 22
"""The largest power of ten that is exact as a double."""
_WHOLE: Final = 2.0**53
"""A double from here on is an integer, and the nearest one to any number within half a unit of it."""
_SPLIT: Final = 2.0**27 + 1.0


def arithmetic(left: pa.Array, operator: ArithmeticOperator, right: pa.Array, type_: Scalar) -> pa.Array:
    """Return `left operator right`, which `plan.functions.arithmetic_type` says is of the given type."""
    if type_ is Scalar.STRING:
        return _concatenated(left, right)
    if operator is ArithmeticOperator.DIVIDE:
        return _quotient(_doubles(left), _doubles(right))
    if type_ is Scalar.F64:
        return _IEEE[operator](_doubles(left), _doubles(right))
    return _integers(_wide(left), operator, _wide(right), type_)


def converted(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return numbers in the common type of several columns. A negative number is outside the range of U64."""
    if type_ == pa.uint64() and pa.types.is_signed_integer(column.type):
        return _fitting(_exact(_wide(column)), is_valid(column), Scalar.U64, lambda row: str(column[row]))
    return column if column.type == type_ else column.cast(type_, safe=False)


def is_valid(*columns: pa.Array) -> Mask:
    """Return for each row whether no column is null."""
    found = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            found &= column.is_valid().to_numpy(zero_copy_only=False)
    return found


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column of numbers, with an arbitrary number in place of null."""
    filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _wide(column: pa.Array) -> pa.Array:
    """Return integers as I64 or U64, dates as days, times as milliseconds."""
    if column.type in (pa.int64(), pa.uint64()):
        return column
    if pa.types.is_date64(column.type):
        return column.view(pa.int64())
    return (column.view(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())


def _doubles(column: pa.Array) -> pa.Array:
    return column if column.type == pa.float64() else column.cast(pa.float64(), safe=False)


def _quotient(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), right))


def _concatenated(left: pa.Array, right: pa.Array) -> pa.Array:
    wide = left.nbytes + right.nbytes > NARROW_BYTES or pa.large_string() in (left.type, right.type)
    type_ = pa.large_string() if wide else pa.string()
    return pc.binary_join_element_wise(left.cast(type_), right.cast(type_), pa.scalar("", type_))


# -- integers


class _Exact(NamedTuple):
    """Integers as sign and magnitude; `lost` where the magnitude does not fit 64 bits."""

    negative: Mask
    magnitude: Magnitudes
    lost: Mask


def _integers(left: pa.Array, operator: ArithmeticOperator, right: pa.Array, type_: Scalar) -> pa.Array:
    if left.type == right.type == _STORED[type_] and operator in _CHECKED:
        try:
            return _CHECKED[operator](left, right).view(arrow_scalar(type_))
        except pa.ArrowInvalid:
            pass  # the exact computation below finds the row
    one, other, valid = _exact(left), _exact(right), is_valid(left, right)
    match operator:
        case ArithmeticOperator.ADD:
            found = _sum(one, other)
        case ArithmeticOperator.SUBTRACT:
            found = _sum(one, other._replace(negative=~other.negative))
        case ArithmeticOperator.MULTIPLY:
            found = _product(one, other)
        case ArithmeticOperator.REMAINDER:
            valid &= other.magnitude != 0
            found = one._replace(magnitude=one.magnitude % np.maximum(other.magnitude, 1))
        case ArithmeticOperator.DIVIDE:
            raise AssertionError("a quotient is a double")
        case _:
            assert_never(operator)
    return _fitting(found, valid, type_, lambda row: f"{left[row]} {operator} {right[row]}")


def _exact(column: pa.Array) -> _Exact:
    values = numbers(column)
    none = np.zeros(len(values), np.bool_)
    if values.dtype == np.uint64:
        return _Exact(none, values, none)
    return _Exact(values < 0, np.abs(values).view(np.uint64), none)  # the smallest I64 is its own absolute value, read as 2^63


def _sum(one: _Exact, other: _Exact) -> _Exact:
    a, b = one.magnitude, other.magnitude
    same = one.negative == other.negative
    total = a + b
    larger = a >= b
    difference = np.where(larger, a - b, b - a)
    return _Exact(np.where(larger, one.negative, other.negative), np.where(same, total, difference), same & (total < a))


def _product(one: _Exact, other: _Exact) -> _Exact:
    a, b = one.magnitude, other.magnitude
    lost = b > np.uint64(2**64 - 1) // np.maximum(a, 1)
    return _Exact(one.negative != other.negative, a * b, lost & (a != 0))


def _fitting(found: _Exact, valid: Mask, type_: Scalar, shown: Callable[[int], str]) -> pa.Array:
    """Return the integers as a column. `shown` says how the one at a row was computed, for the message about one that does not fit."""
    info = np.iinfo(_STORED[type_].to_pandas_dtype())
    most = np.where(found.negative, np.uint64(-int(info.min)), np.uint64(info.max))
    outside = valid & (found.lost | (found.magnitude > most))
    if outside.any():
        raise overflow(shown(int(outside.argmax())), Plain(type_))
    values = np.where(found.negative, ~found.magnitude + np.uint64(1), found.magnitude)
    return pa.array(values.view(np.int64).astype(info.dtype), mask=~valid).view(arrow_scalar(type_))


# -- rounding


def absolute(column: pa.Array) -> pa.Array:
    try:
        return pc.abs_checked(_doubles(column) if pa.types.is_floating(column.type) else _wide(column))
    except pa.ArrowInvalid:
        raise overflow(f"abs({np.iinfo(np.int64).min})", I64) from None


def floor(column: pa.Array) -> pa.Array:
    return pc.floor(_doubles(column)) if pa.types.is_floating(column.type) else _wide(column)


def ceil(column: pa.Array) -> pa.Array:
    return pc.ceil(_doubles(column)) if pa.types.is_floating(column.type) else _wide(column)


def rounded(column: pa.Array, digits: pa.Array) -> pa.Array:
    """Return each number rounded to so many digits after the point, half away from zero; before the point if there are less than none.

    The exact value of a double decides, and the result is the double nearest to the rounded value. That holds for up to 22 digits on
    either side; a double is not changed by rounding to more than 22 digits.
    """
    valid, places = is_valid(column, digits), clipped(digits, 400)
    if pa.types.is_floating(column.type):
        values = np.array(numbers(_doubles(column)))
        after = places >= 0
        values[after] = _to_fraction(values[after], places[after])
        values[~after] = _to_tens(values[~after], -places[~after])
        return pa.array(values, mask=~valid)
    wide = _wide(column)
    type_ = Scalar.U64 if wide.type == pa.uint64() else Scalar.I64
    found = _to_whole_tens(_exact(wide), np.maximum(-places, 0))
    return _fitting(found, valid, type_, lambda row: f"round({column[row]}, {digits[row]})")


def clipped(column: pa.Array, limit: int) -> Numbers64:
    """Return integers, those beyond the limit as the limit, with an arbitrary number in place of null."""
    values = numbers(column)
    if values.dtype.kind == "u":
        return np.asarray(np.minimum(values.astype(np.uint64), limit), np.int64)
    return np.asarray(np.clip(values.astype(np.int64), -limit, limit), np.int64)


def _to_whole_tens(value: _Exact, digits: Numbers64) -> _Exact:
    tens = _TENS[np.minimum(digits, 19)]
    units, rest = np.divmod(value.magnitude, tens)
    units = np.where(digits <= 19, units + (rest >= tens - rest), np.uint64(0))  # 64 bits hold less than half of 10^20
    return _Exact(value.negative, units * tens, units > np.uint64(2**64 - 1) // tens)


def _to_fraction(values: Doubles, digits: Numbers64) -> Doubles:
    tens = _DOUBLE_TENS[np.minimum(digits, _EXACT_TENS)]
    with np.errstate(over="ignore"):
        moved = (digits <= _EXACT_TENS) & (np.abs(values) * tens < _WHOLE)
    high, low = _two_product(np.where(moved, np.abs(values), 0.0), tens)
    below = np.floor(high)
    units = below + (high - below - 0.5 >= -low)
    return np.where(moved, np.copysign(units / tens, values), values)


def _two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return two doubles whose sum is exactly `a * b` (Dekker); the first is the nearest double."""
    high = a * b
    a_high = a * _SPLIT - (a * _SPLIT - a)
    b_high = b * _SPLIT - (b * _SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return high, a_low * b_low - (high - a_high * b_high - a_low * b_high - a_high * b_low)


def _to_tens(values: Doubles, digits: Numbers64) -> Doubles:
    tens = _DOUBLE_TENS[np.minimum(digits, 308)]
    size = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        rest = np.fmod(size, tens)  # exact, so that the sums below are rounded once
        found = np.where(2.0 * rest >= tens, size + (tens - rest), size - rest)
    found = np.where(digits <= 308, found, 0.0)
    return np.where(np.isfinite(values), np.copysign(found, values), values)
