"""Predicates and columns in memory -> a mask of the rows for which they hold. Numbers compare by value.

A predicate is true, false or unknown, as in SQL. Every function below answers for one of two questions: where a predicate is true, or
where it is false. `not` asks the other question, so the two are never mixed up with unknown.

The storage engine evaluates predicates that are pushed into a scan (`omnigraph.exec.read.predicate`). This module evaluates predicates over
two variables and over rows read by number. Both must give the same result (X-10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.read.arithmetic import is_valid, numbers
from omnigraph.exec.read.encoding import normalize_zero
from omnigraph.exec.read.expressions import ColumnReader, evaluate
from omnigraph.exec.read.text import TextMatcher
from omnigraph.lang.query import Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.ir import computes
from omnigraph.store.arrays import Column, Mask, whole
from omnigraph.store.membership import Members

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
    """Return for each of `count` rows whether every predicate is true."""
    return RowFilter(where).mask(count, read)


class RowFilter:
    """Predicates that must all be true, for any number of batches: the values of a list are hashed once."""

    def __init__(self, where: Sequence[ir.Predicate]) -> None:
        self._stages: Final = [tuple(stage) for _, stage in groupby(sorted(where, key=_stage), key=_stage)]
        self._members: Final[dict[int, Members]] = {}
        self._matchers: Final[dict[ir.TextMatch, TextMatcher]] = {}

    def mask(self, count: int, read: ColumnReader) -> Mask:
        """Return for each of `count` rows whether every predicate is true.

        Predicates that compute are evaluated last, and only for rows for which the others are true: an overflow elsewhere is no error.
        Texts are searched before that, in the rows that are left.
        """
        mask = np.ones(count, np.bool_)
        for stage in self._stages:
            if mask.all():
                mask = self._all(stage, count, read)
                continue
            rows = np.flatnonzero(mask)
            mask[rows] = self._all(stage, len(rows), partial(_taken, read, pa.array(rows)))
        return mask

    def _all(self, where: Sequence[ir.Predicate], count: int, read: ColumnReader) -> Mask:
        mask = np.ones(count, np.bool_)
        for predicate in where:
            mask &= self._rows(predicate, count, read, wanted=True)
        return mask

    def _rows(self, predicate: ir.Predicate, count: int, read: ColumnReader, *, wanted: bool) -> Mask:
        """Return for each row whether the predicate is `wanted`: true, or false. Unknown is neither."""
        match predicate:
            case ir.AllOf(terms) | ir.AnyOf(terms):
                every = isinstance(predicate, ir.AllOf) is wanted
                mask = np.full(count, every)
                for term in terms:
                    (np.logical_and if every else np.logical_or)(mask, self._rows(term, count, read, wanted=wanted), out=mask)
                return mask
            case ir.Not(term):
                return self._rows(term, count, read, wanted=not wanted)
            case ir.Compare(left, operator, right):
                return compare(evaluate(left, count, read), operator, evaluate(right, count, read), wanted=wanted)
            case ir.OneOf(value):
                return self._one_of(predicate, evaluate(value, count, read), wanted=wanted)
            case ir.Includes(items, item):
                return _includes(evaluate(items, count, read), evaluate(item, count, read), wanted=wanted)
            case ir.Substring() | ir.Prefix() | ir.Suffix():
                return _text(predicate, count, read, wanted=wanted)
            case ir.IsNull(value):
                return is_valid(evaluate(value, count, read)) ^ wanted
            case ir.Decided(field, truth):
                return is_valid(whole(read(field))) if truth is wanted else np.zeros(count, np.bool_)
            case ir.Known(truth):
                return np.full(count, truth is wanted)
            case ir.Matches(text, expected):
                return self._matches(text, whole(read(text.field)), wanted=expected is wanted)
            case _:
                assert_never(predicate)

    def _matches(self, match: ir.TextMatch, texts: pa.Array, *, wanted: bool) -> Mask:
        if (matcher := self._matchers.get(match)) is None:
            matcher = self._matchers[match] = TextMatcher(match)
        found = matcher.found(texts)
        return is_valid(texts) & (found if wanted else ~found)

    def _one_of(self, predicate: ir.OneOf, column: pa.Array, *, wanted: bool) -> Mask:
        if not predicate.values:
            return np.full(len(column), not wanted)
        column = normalize_zero(column)
        if (members := self._members.get(id(predicate))) is None:
            members = self._members[id(predicate)] = Members(normalize_zero(pa.array(predicate.values, column.type)))
        found = members.has(column)
        return found if wanted else is_valid(column) & ~found


def _taken(read: ColumnReader, at: pa.Array, field: Field) -> Column:
    return read(field).take(at)


def _stage(predicate: ir.Predicate) -> int:
    """When a predicate is evaluated: the cheap ones first, those that may fail last."""
    return 2 if computes(predicate) else 1 if _searches(predicate) else 0


def _searches(predicate: ir.Predicate) -> bool:
    """Return whether a predicate searches texts."""
    match predicate:
        case ir.AllOf(terms) | ir.AnyOf(terms):
            return any(_searches(term) for term in terms)
        case ir.Not(term):
            return _searches(term)
        case _:
            return isinstance(predicate, ir.Matches)


def _mask(answer: pa.Array, *, wanted: bool) -> Mask:
    """Return for each row whether the answer is `wanted`; null is neither."""
    chosen = answer if wanted else pc.invert(answer)
    return np.asarray(pc.fill_null(chosen, fill_value=False).to_numpy(zero_copy_only=False), np.bool_)


# -- comparisons


def compare(left: pa.Array, operator: Comparison, right: pa.Array, *, wanted: bool = True) -> Mask:
    """Compare element by element. Numbers compare by value, whatever their types are."""
    if not pa.types.is_floating(left.type) and not pa.types.is_integer(left.type):
        return _mask(_ARROW[operator](left, right), wanted=wanted)
    found = _compared(numbers(left), operator, numbers(right))
    return is_valid(left, right) & (found if wanted else ~found)


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


def _includes(lists: pa.Array, items: pa.Array, *, wanted: bool) -> Mask:
    """Compare every element with the item of its list. A list includes the item if one of its elements is equal."""
    parents = pc.list_parent_indices(lists)
    equal = compare(pc.list_flatten(lists), Comparison.EQ, items.take(parents))
    found = np.zeros(len(lists), np.bool_)
    found[parents.to_numpy(zero_copy_only=False)[equal]] = True
    return is_valid(lists, items) & (found if wanted else ~found)


# -- texts


def _text(predicate: ir.Substring | ir.Prefix | ir.Suffix, count: int, read: ColumnReader, *, wanted: bool) -> Mask:
    match predicate:
        case ir.Substring(text, part):
            return _contained(text, part, count, read, pc.match_substring, _holds_part, wanted=wanted)
        case ir.Prefix(text, part):
            return _contained(text, part, count, read, pc.starts_with, np.strings.startswith, wanted=wanted)
        case ir.Suffix(text, part):
            return _contained(text, part, count, read, pc.ends_with, np.strings.endswith, wanted=wanted)
        case _:
            assert_never(predicate)


def _holds_part(texts: npt.NDArray[Any], parts: npt.NDArray[Any]) -> Mask:
    return np.asarray(np.strings.find(texts, parts) >= 0, np.bool_)


def _contained(
    text: ir.Expr,
    part: ir.Expr,
    count: int,
    read: ColumnReader,
    by_pattern: Callable[..., pa.Array],
    by_pair: Callable[[Any, Any], Any],
    *,
    wanted: bool,
) -> Mask:
    texts = evaluate(text, count, read)
    if isinstance(part, Constant) and isinstance(part.value, str):
        return _mask(by_pattern(texts, pattern=part.value), wanted=wanted)
    parts = evaluate(part, count, read)
    found = np.asarray(by_pair(_texts(texts), _texts(parts)), np.bool_)
    return is_valid(texts, parts) & (found if wanted else ~found)


def _texts(column: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(column.fill_null("").to_numpy(zero_copy_only=False)).astype(_TEXT)
