"""Predicates and columns in memory -> a mask of the rows for which they hold. Null satisfies no predicate; numbers compare by value.

The storage engine evaluates predicates that are pushed into a scan (`omnigraph.exec.read.predicate`). This module evaluates predicates over
two variables and over rows read by number. Both must give the same result (X-10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import arrow_type
from omnigraph.errors import Kind, Unsupported
from omnigraph.lang.query import Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import Constant, Field, Value
from omnigraph.store.arrays import Mask, whole
from omnigraph.store.membership import is_in

ColumnReader: TypeAlias = Callable[[Field], "pa.Array | pa.ChunkedArray"]
"""Field -> its column, with one value per row."""

_ARROW: Final = {
    Comparison.EQ: pc.equal,
    Comparison.NE: pc.not_equal,
    Comparison.LT: pc.less,
    Comparison.LE: pc.less_equal,
    Comparison.GT: pc.greater,
    Comparison.GE: pc.greater_equal,
}
_NUMPY: Final[dict[Comparison, Callable[[Any, Any], Any]]] = {
    Comparison.EQ: np.equal,
    Comparison.NE: np.not_equal,
    Comparison.LT: np.less,
    Comparison.LE: np.less_equal,
    Comparison.GT: np.greater,
    Comparison.GE: np.greater_equal,
}
_FLIPPED: Final = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_TEXT: Final = np.dtypes.StringDType()


def filter_mask(where: Sequence[ir.Predicate], count: int, read: ColumnReader) -> Mask:
    """Return for each of `count` rows whether every predicate holds."""
    mask = np.ones(count, np.bool_)
    for predicate in where:
        mask &= _holds(predicate, count, read)
    return mask


def scalar(constant: Constant) -> pa.Scalar:
    return pa.scalar(_plain(constant.value), arrow_type(constant.type))


def repeat(constant: Constant, count: int) -> pa.Array:
    return pa.repeat(scalar(constant), count)


def _plain(value: Value) -> object:
    return list(value) if isinstance(value, tuple) else value


def _holds(predicate: ir.Predicate, count: int, read: ColumnReader) -> Mask:
    match predicate:
        case ir.Compare(left, operator, right):
            return compare(_column(left, count, read), operator, _column(right, count, read))
        case ir.OneOf(field, values):
            return _one_of(whole(read(field)), pa.array(values, arrow_type(field.type)))
        case ir.Includes(items, item):
            return _includes(_column(items, count, read), _column(item, count, read))
        case ir.Substring(text, part):
            return _contained(text, part, count, read, pc.match_substring, lambda whole, piece: np.strings.find(whole, piece) >= 0)
        case ir.Prefix(text, prefix):
            return _contained(text, prefix, count, read, pc.starts_with, np.strings.startswith)
        case ir.Matches(text):
            raise Unsupported(Kind.UNSUPPORTED, f"{text.mode}() cannot be run yet")
        case ir.NotNull(field):
            return _mask(whole(read(field)).is_valid())
        case ir.Never():
            return np.zeros(count, np.bool_)
        case _:
            assert_never(predicate)


def _column(expr: ir.Expr, count: int, read: ColumnReader) -> pa.Array:
    match expr:
        case Field():
            return whole(read(expr))
        case Constant():
            return repeat(expr, count)
        case ir.TextMatch() | ir.Score():
            raise Unsupported(Kind.UNSUPPORTED, "text search and scores are not supported in a filter yet")
        case _:
            assert_never(expr)


def _mask(answer: pa.Array) -> Mask:
    """True where the answer is true; null counts as false."""
    return np.asarray(pc.fill_null(answer, fill_value=False).to_numpy(zero_copy_only=False), np.bool_)


# -- comparisons


def compare(left: pa.Array, operator: Comparison, right: pa.Array) -> Mask:
    """Compare element by element. Numbers compare by value, whatever their types are."""
    if not pa.types.is_floating(left.type) and not pa.types.is_integer(left.type):
        return _mask(_ARROW[operator](left, right))
    both = _mask(pc.and_(left.is_valid(), right.is_valid()))
    found = _compared(_numbers(left), operator, _numbers(right))
    return both & found


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a column, with an arbitrary number in place of null."""
    filled = column.fill_null(pa.scalar(0, column.type)) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _compared(left: npt.NDArray[Any], operator: Comparison, right: npt.NDArray[Any]) -> Mask:
    wide_left, wide_right = _is_wide_integer(left), _is_wide_integer(right)
    if wide_left and right.dtype.kind == "f":
        return _integer_against_float(left, operator, right.astype(np.float64))
    if wide_right and left.dtype.kind == "f":
        return _integer_against_float(right, _FLIPPED[operator], left.astype(np.float64))
    # numpy compares signed with unsigned by value; a 32-bit integer is exact as a double.
    return np.asarray(_NUMPY[operator](left, right), np.bool_)


def _is_wide_integer(numbers: npt.NDArray[Any]) -> bool:
    return numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8


def _integer_against_float(integers: npt.NDArray[Any], operator: Comparison, floats: npt.NDArray[np.float64]) -> Mask:
    """Compare exactly. A 64-bit integer may change when cast to a double, so the double is rounded down to an integer instead."""
    info = np.iinfo(integers.dtype)
    edge = 2.0 ** (64 if info.min == 0 else 63)
    above, below = floats >= edge, floats < float(info.min)
    inside = ~(above | below)
    low = np.where(inside, np.floor(floats), 0.0).astype(integers.dtype)
    whole = inside & (np.floor(floats) == floats)
    match operator:
        case Comparison.EQ:
            return np.asarray(whole & (integers == low), np.bool_)
        case Comparison.NE:
            return np.asarray(~(whole & (integers == low)), np.bool_)
        case Comparison.LE:
            return np.asarray(above | (inside & (integers <= low)), np.bool_)
        case Comparison.GT:
            return np.asarray(below | (inside & (integers > low)), np.bool_)
        case Comparison.LT:
            return np.asarray(above | (inside & ((integers < low) | (~whole & (integers == low)))), np.bool_)
        case Comparison.GE:
            return np.asarray(below | (inside & ((integers > low) | (whole & (integers == low)))), np.bool_)
        case _:
            assert_never(operator)


# -- lists


def _one_of(column: pa.Array, values: pa.Array) -> Mask:
    if pa.types.is_floating(column.type):  # Arrow hashes 0.0 and -0.0 differently
        return _mask(column.is_valid()) & np.isin(_numbers(column), _numbers(values))
    return is_in(column, values) & _mask(column.is_valid())


def _includes(lists: pa.Array, items: pa.Array) -> Mask:
    """Compare every element with the item of its list. A list includes the item if one of its elements is equal."""
    parents = pc.list_parent_indices(lists)
    equal = compare(pc.list_flatten(lists), Comparison.EQ, items.take(parents))
    found = np.zeros(len(lists), np.bool_)
    found[parents.to_numpy(zero_copy_only=False)[equal]] = True
    return found


# -- texts


def _contained(
    text: ir.Expr,
    part: ir.Expr,
    count: int,
    read: ColumnReader,
    by_pattern: Callable[..., pa.Array],
    by_pair: Callable[[Any, Any], Any],
) -> Mask:
    texts = _column(text, count, read)
    if isinstance(part, Constant):
        return _mask(by_pattern(texts, pattern=part.value))
    parts = _column(part, count, read)
    both = _mask(pc.and_(texts.is_valid(), parts.is_valid()))
    found = np.asarray(by_pair(_texts(texts), _texts(parts)), np.bool_)
    return both & found


def _texts(column: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(column.fill_null("").to_numpy(zero_copy_only=False)).astype(_TEXT)
