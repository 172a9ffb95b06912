"""Expressions and the columns they read -> a column of their values, one for each row. Null in, null out, but for `coalesce`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import arrow_type, scalar_of
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.arithmetic import absolute, arithmetic, ceil, clipped, converted, floor, is_valid, numbers, rounded
from omnigraph.exec.read.text import TextMatcher
from omnigraph.plan import ir
from omnigraph.plan.arithmetic import overflow
from omnigraph.plan.expr import DATE, F64, Constant, Field
from omnigraph.plan.functions import Function
from omnigraph.store.arrays import Column, joined, whole

ColumnReader: TypeAlias = Callable[[Field], Column]
"""Field -> its column, with one value per row."""

SCORES: Final = -2
"""The binding of the columns that hold scores. No variable has it."""

_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_LONGEST: Final = 1 << 40
"""More characters than any text has."""


def evaluate(expr: ir.Expr, count: int, read: ColumnReader, *, cells: Sequence[Column] = ()) -> pa.Array:
    """Return the value of an expression for each of `count` rows. `cells` are the result columns that the expression stands above."""
    match expr:
        case Field():
            return whole(read(expr))
        case Constant():
            return repeat(expr, count)
        case ir.Cell(index):
            return whole(cells[index])
        case ir.Arithmetic(left, operator, right, type_):
            scalar = scalar_of(type_)
            assert scalar is not None
            return arithmetic(evaluate(left, count, read, cells=cells), operator, evaluate(right, count, read, cells=cells), scalar)
        case ir.FunctionCall(function, arguments, type_):
            return _called(function, [evaluate(argument, count, read, cells=cells) for argument in arguments], arrow_type(type_))
        case ir.TextMatch(field=field):
            texts = whole(read(field))
            return pa.array(TextMatcher(expr).found(texts), mask=~is_valid(texts))
        case ir.Score(slot):
            return whole(read(score_field(slot)))
        case _:
            assert_never(expr)


def score_field(slot: int) -> Field:
    """Return the column of the scores that the ranking of that slot gave the rows."""
    return Field(SCORES, f"score {slot}", F64, nullable=True)


def repeat(constant: Constant, count: int) -> pa.Array:
    value = list(constant.value) if isinstance(constant.value, tuple) else constant.value
    return pa.repeat(pa.scalar(value, arrow_type(constant.type)), count)


def _called(function: Function, arguments: list[pa.Array], type_: pa.DataType) -> pa.Array:
    first = arguments[0]
    match function:
        # Upper and lower case are those of each character alone: one character stays one character.
        case Function.LOWER:
            return pc.utf8_lower(first)
        case Function.UPPER:
            return pc.utf8_upper(first)
        case Function.TRIM:
            return pc.utf8_trim_whitespace(first)
        case Function.LENGTH:
            return (pc.list_value_length if pa.types.is_list(first.type) else pc.utf8_length)(first).cast(type_)
        case Function.SUBSTRING:
            return _substring(*arguments)
        case Function.COALESCE:
            return _first_known(arguments, type_)
        case Function.ABS:
            return absolute(first)
        case Function.ROUND:
            return rounded(first, arguments[1] if len(arguments) > 1 else pa.repeat(pa.scalar(0, pa.int64()), len(first)))
        case Function.FLOOR:
            return floor(first)
        case Function.CEIL:
            return ceil(first)
        case Function.YEAR | Function.MONTH | Function.DAY:
            return pa.array(_calendar(function, _days(first)), mask=~is_valid(first))
        case Function.HOUR:
            return pa.array(numbers(first.view(pa.int64())) // _HOUR_MS % 24, mask=~is_valid(first))
        case Function.DATE:
            return _date(first)
        case Function.DATETIME:
            return pa.array(_days(first) * _DAY_MS, mask=~is_valid(first)).view(type_)
        case _:
            assert_never(function)


# -- texts


def _substring(texts: pa.Array, start: pa.Array, count: pa.Array) -> pa.Array:
    """Return `count` characters from `start` on, or fewer if the text has no more. The first is at 0; a negative number counts as 0.

    Rows with the same bounds are cut together. In most calls these are all rows.
    """
    longest = pc.max(pc.utf8_length(texts)).as_py() or 0
    first = np.clip(clipped(start, _LONGEST), 0, longest)
    last = np.minimum(first + np.maximum(clipped(count, _LONGEST), 0), longest)
    bounds, group, sizes = np.unique(first * (longest + 1) + last, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    ordered = texts.take(pa.array(order))
    parts, at = [], 0
    for bound, size in zip(bounds.tolist(), sizes.tolist(), strict=True):
        parts.append(pc.utf8_slice_codeunits(ordered.slice(at, size), *divmod(bound, longest + 1)))
        at += size
    cut = whole(joined(parts, texts.type).take(pa.array(np.argsort(order))))
    return pc.if_else(pa.array(is_valid(start, count)), cut, pa.scalar(None, cut.type))


# -- choices


def _first_known(columns: list[pa.Array], type_: pa.DataType) -> pa.Array:
    """Return the first value that is not null. A value that is not chosen need not fit the common type."""
    found = converted(columns[0], type_)
    for column in columns[1:]:
        if not found.null_count:
            break
        wanted = pc.if_else(found.is_null(), column, pa.scalar(None, column.type))
        found = pc.coalesce(found, converted(wanted, type_))
    return found


# -- dates


def _days(column: pa.Array) -> Numbers64:
    """Return days since 1970 of dates and times, with an arbitrary number in place of null."""
    if pa.types.is_date64(column.type):
        return np.asarray(numbers(column.view(pa.int64())) // _DAY_MS, np.int64)
    return np.asarray(numbers(column.view(pa.int32())), np.int64)


def _calendar(function: Function, days: Numbers64) -> Numbers64:
    """Return the year, month or day of the month, by the Gregorian calendar at all times."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    match function:
        case Function.YEAR:
            return dates.astype("datetime64[Y]").astype(np.int64) + 1970
        case Function.MONTH:
            return months.astype(np.int64) % 12 + 1
        case _:
            return np.asarray((dates - months.astype("datetime64[D]")).astype(np.int64) + 1, np.int64)


def _date(times: pa.Array) -> pa.Array:
    days, valid = _days(times), is_valid(times)
    outside = valid & (days != days.astype(np.int32))
    if outside.any():
        raise overflow(f"date({times.view(pa.int64())[int(outside.argmax())]})", DATE)
    return pa.array(days.astype(np.int32), mask=~valid).view(pa.date32())
