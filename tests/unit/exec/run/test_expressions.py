"""Expressions over columns: the same values as plain Python with exact integers, decimals and None gives for each row."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import compress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf, Plain, ValueType, arrow_type
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.read.expressions import evaluate
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.expr import DATE, DATETIME, F64, I64, STRING, U64, Constant, Field
from omnigraph.plan.functions import Function, arithmetic_type, result_type

I32, U32, F32 = Plain(Scalar.I32), Plain(Scalar.U32), Plain(Scalar.F32)
RANGES: dict[ValueType, tuple[int, int]] = {
    I32: (-(2**31), 2**31 - 1),
    U32: (0, 2**32 - 1),
    I64: (-(2**63), 2**63 - 1),
    U64: (0, 2**64 - 1),
    DATE: (-(2**31), 2**31 - 1),
    DATETIME: (-(2**63), 2**63 - 1),
}
EXACT: dict[ArithmeticOperator, Callable[[int, int], int]] = {
    ArithmeticOperator.ADD: operator.add,
    ArithmeticOperator.SUBTRACT: operator.sub,
    ArithmeticOperator.MULTIPLY: operator.mul,
    ArithmeticOperator.REMAINDER: lambda a, b: (-1 if a < 0 else 1) * (abs(a) % abs(b)),
}
BY_ZERO = (ArithmeticOperator.DIVIDE, ArithmeticOperator.REMAINDER)
INTEGER_TYPES = (I32, U32, I64, U64)


def integers(type_: ValueType) -> st.SearchStrategy[int]:
    low, high = RANGES[type_]
    edges = sorted({edge for edge in (low, low + 1, high, high - 1, -1, 0, 1, 3, 10, 2**31, 2**32, 2**53 + 1) if low <= edge <= high})
    return st.sampled_from(edges) | st.integers(low, high) | st.integers(max(low, -20), 20)


doubles = st.floats() | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1.7e308, 5e-324, 2.0**53, 0.1])


def computed(expr: ir.Expr, columns: dict[str, pa.Array], count: int) -> list[Any]:
    """The values of an expression; columns come in two chunks, the second from the middle of a longer one."""

    def read(field: Field) -> pa.ChunkedArray:
        column = columns[field.column]
        longer = pa.concat_arrays([column.slice(0, 1), column])
        half = count // 2
        return pa.chunked_array([column.slice(0, half), longer.slice(half + 1)], column.type)

    found = evaluate(expr, count, read)
    found.validate(full=not pa.types.is_date64(found.type))  # Arrow expects whole days there
    assert len(found) == count
    return [None if value is None else value for value in plain(found)]


def plain(column: pa.Array) -> list[Any]:
    """Dates and times as numbers."""
    if pa.types.is_date(column.type):
        column = column.view(pa.int64() if pa.types.is_date64(column.type) else pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def column(values: list[Any], type_: ValueType) -> pa.Array:
    return pa.array(values, arrow_type(type_))


def field(name: str, type_: ValueType) -> Field:
    return Field(0, name, type_, nullable=True)


def arithmetic(op: ArithmeticOperator, left: ValueType, right: ValueType, pairs: list[tuple[Any, Any]]) -> list[Any]:
    type_ = arithmetic_type(left, op, right)
    assert type_ is not None
    columns = {"a": column([a for a, _ in pairs], left), "b": column([b for _, b in pairs], right)}
    expr = ir.Arithmetic(field("a", left), op, field("b", right), type_)
    assert evaluate(expr, len(pairs), lambda one: columns[one.column]).type == arrow_type(type_)
    return computed(expr, columns, len(pairs))


def call(function: Function, types: list[ValueType], rows: list[tuple[Any, ...]]) -> list[Any]:
    type_ = result_type(function, types)
    assert type_ is not None
    columns = {str(at): column([row[at] for row in rows], one) for at, one in enumerate(types)}
    expr = ir.FunctionCall(function, tuple(field(str(at), one) for at, one in enumerate(types)), type_)
    assert evaluate(expr, len(rows), lambda one: columns[one.column]).type == arrow_type(type_)
    return computed(expr, columns, len(rows))


def same(found: list[Any], expected: list[Any]) -> bool:
    """Equal with NaN equal to NaN; the sign of zero and the kind of number count."""
    return repr(found) == repr(expected)


def test_overflow_is_an_error_that_names_the_values() -> None:
    with pytest.raises(InvalidInput, match=r"^9223372036854775807 \+ 1 is outside the range of I64$") as caught:
        arithmetic(ArithmeticOperator.ADD, I64, I32, [(0, 1), (None, 2), (2**63 - 1, 1), (2**63 - 1, 2)])
    assert caught.value.kind is Kind.NUMERIC_OVERFLOW


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from(INTEGER_TYPES), st.sampled_from(INTEGER_TYPES), st.sampled_from(sorted(EXACT)))
def test_integers_are_exact_or_an_error(data: st.DataObject, left: Plain, right: Plain, op: ArithmeticOperator) -> None:
    """L2-07: I64, or U64 with a U64; null in, null out; by zero null; a remainder has the sign of the dividend."""
    pairs = data.draw(st.lists(st.tuples(st.none() | integers(left), st.none() | integers(right)), max_size=12))
    expected = [None if a is None or b is None or (b == 0 and op in BY_ZERO) else EXACT[op](a, b) for a, b in pairs]
    type_ = arithmetic_type(left, op, right)
    assert type_ in (I64, U64)
    low, high = RANGES[type_]
    fits = [value is None or low <= value <= high for value in expected]
    assert arithmetic(op, left, right, list(compress(pairs, fits))) == list(compress(expected, fits))
    if not all(fits):
        a, b = pairs[fits.index(False)]
        with pytest.raises(InvalidInput, match=f"^{re.escape(f'{a} {op} {b}')} is outside the range of {type_.scalar}$") as caught:
            arithmetic(op, left, right, pairs)
        assert caught.value.kind is Kind.NUMERIC_OVERFLOW


def ieee(op: ArithmeticOperator, a: float, b: float) -> float | None:
    match op:
        case ArithmeticOperator.ADD:
            return a + b
        case ArithmeticOperator.SUBTRACT:
            return a - b
        case ArithmeticOperator.MULTIPLY:
            return a * b
        case _:
            return None if b == 0.0 else a / b


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from((*INTEGER_TYPES, F32, F64)), st.sampled_from((*INTEGER_TYPES, F32, F64)))
def test_doubles_follow_ieee_and_division_by_zero_is_null(data: st.DataObject, left: Plain, right: Plain) -> None:
    """L2-07: `/` gives F64 of any two numbers; an operation with a float gives F64, of integers rounded to doubles."""
    ops = list(EXACT)[:3] if F32 in (left, right) or F64 in (left, right) else []
    op = data.draw(st.sampled_from([ArithmeticOperator.DIVIDE, *ops]))
    sides = [st.floats(width=32) if one is F32 else doubles if one is F64 else integers(one) for one in (left, right)]
    pairs = data.draw(st.lists(st.tuples(st.none() | sides[0], st.none() | sides[1]), max_size=12))
    expected = [None if a is None or b is None else ieee(op, float(a), float(b)) for a, b in pairs]
    assert same(arithmetic(op, left, right, pairs), expected)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from((DATE, DATETIME)), st.sampled_from(INTEGER_TYPES))
def test_days_and_milliseconds_are_added_to_dates_and_times(data: st.DataObject, left: Plain, right: Plain) -> None:
    op = data.draw(st.sampled_from([ArithmeticOperator.ADD, ArithmeticOperator.SUBTRACT]))
    pairs = data.draw(st.lists(st.tuples(st.none() | integers(left), st.none() | integers(right)), max_size=12))
    expected = [None if a is None or b is None else EXACT[op](a, b) for a, b in pairs]
    low, high = RANGES[left]
    fits = [value is None or low <= value <= high for value in expected]
    assert arithmetic(op, left, right, list(compress(pairs, fits))) == list(compress(expected, fits))
    if not all(fits):
        with pytest.raises(InvalidInput, match=f"is outside the range of {left.scalar}$"):
            arithmetic(op, left, right, pairs)


def test_the_difference_of_two_times_is_in_milliseconds() -> None:
    assert arithmetic(ArithmeticOperator.SUBTRACT, DATETIME, DATETIME, [(5, 7), (None, 1), (-(2**62), 2**62), (0, -5)]) == [
        -2,
        None,
        -(2**63),
        5,
    ]
    with pytest.raises(InvalidInput, match="outside the range of I64"):
        arithmetic(ArithmeticOperator.SUBTRACT, DATETIME, DATETIME, [(2**63 - 1, -1)])


def test_texts_are_joined() -> None:
    pairs = [("a", "é"), ("", ""), (None, "x"), ("x", None), ("😀", "z")]
    assert arithmetic(ArithmeticOperator.ADD, STRING, STRING, pairs) == ["aé", "", None, None, "😀z"]


# -- functions


texts = st.text(max_size=8)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | texts, max_size=12))
def test_functions_of_a_text(values: list[str | None]) -> None:
    rows = [(value,) for value in values]
    assert call(Function.LENGTH, [STRING], rows) == [None if value is None else len(value) for value in values]
    assert call(Function.TRIM, [STRING], rows) == [None if value is None else value.strip() for value in values]


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("Zoë", "zoë", "ZOË"),
        ("ÆØÅ ǅ", "æøå ǆ", "ÆØÅ Ǆ"),
        ("ЖУК", "жук", "ЖУК"),
        ("ΣΑΣ", "σασ", "ΣΑΣ"),
        ("ß", "ß", "ẞ"),
        ("İı", "iı", "İI"),
        ("ﬁ 1%", "ﬁ 1%", "ﬁ 1%"),
    ],
)
def test_case_is_that_of_each_character_alone(text: str, lower: str, upper: str) -> None:
    """One character stays one character, so a text keeps its length."""
    assert call(Function.LOWER, [STRING], [(text,), (None,)]) == [lower, None]
    assert call(Function.UPPER, [STRING], [(text,), (None,)]) == [upper, None]


def test_the_length_of_a_list() -> None:
    assert call(Function.LENGTH, [ListOf(Scalar.I32)], [([1, 2],), ([],), (None,), ([None],)]) == [2, 0, None, 1]


def part(text: str, start: int, count: int) -> str:
    return text[max(start, 0) :][: max(count, 0)]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.none() | texts, st.none() | integers(I64), st.none() | integers(U32)), max_size=8))
def test_a_substring_is_what_the_text_has_from_a_place_on(rows: list[tuple[str | None, int | None, int | None]]) -> None:
    """L2-08: from 0, in characters; past the end there is nothing, and a negative number counts as 0."""
    expected = [None if text is None or start is None or count is None else part(text, start, count) for text, start, count in rows]
    assert call(Function.SUBSTRING, [STRING, I64, U32], rows) == expected


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (0, 2, "a😀"),
        (1, 1, "😀"),
        (2, 9, "c"),
        (3, 1, ""),
        (9, 1, ""),
        (0, 0, ""),
        (1, -1, ""),
        (-1, 2, "a😀"),
        (-5, 2, "a😀"),
        (2**63 - 1, 2**63 - 1, ""),
    ],
)
def test_substrings_by_example(start: int, count: int, expected: str) -> None:
    assert call(Function.SUBSTRING, [STRING, I64, I64], [("a😀c", start, count)] * 3) == [expected] * 3


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(INTEGER_TYPES))
def test_integers_are_rounded_exactly(data: st.DataObject, type_: Plain) -> None:
    rows = data.draw(st.lists(st.tuples(st.none() | integers(type_), st.none() | st.integers(-22, 3)), max_size=12))
    expected = [None if value is None or digits is None else whole(value, digits) for value, digits in rows]
    low, high = RANGES[U64 if type_ is U64 else I64]
    fits = [value is None or low <= value <= high for value in expected]
    assert call(Function.ROUND, [type_, I32], list(compress(rows, fits))) == list(compress(expected, fits))
    if not all(fits):
        with pytest.raises(InvalidInput, match=r"^round\(.*\) is outside the range of"):
            call(Function.ROUND, [type_, I32], rows)


def whole(value: int, digits: int) -> int:
    tens = int(10 ** max(-digits, 0))
    magnitude: int = (abs(value) + tens // 2) // tens * tens
    return magnitude if value >= 0 else -magnitude


def nearest(value: float, digits: int) -> float:
    """The double nearest to the exact value rounded half away from zero."""
    if not math.isfinite(value):
        return value
    with localcontext(prec=2_000):
        return float(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


halves = st.builds(lambda n, digits: (n + 0.5) / 10**digits, st.integers(-(10**6), 10**6), st.integers(0, 6))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.none() | doubles | halves, st.none() | st.integers(-22, 22)), max_size=20))
def test_doubles_are_rounded_half_away_from_zero_by_their_exact_value(rows: list[tuple[float | None, int | None]]) -> None:
    expected = [None if value is None or digits is None else nearest(value, digits) for value, digits in rows]
    assert same(call(Function.ROUND, [F64, I64], rows), expected)


def test_rounding_by_example() -> None:
    values = [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 2.0**52 + 0.5, 1e300, math.inf, -math.inf, None]
    rounded = [1.0, -1.0, 2.0, 3.0, -3.0, 0.0, 2.0**52, 1e300, math.inf, -math.inf, None]
    assert same(call(Function.ROUND, [F64], [(value,) for value in values]), rounded)
    assert call(Function.ROUND, [F64, I64], [(2.675, 2), (0.125, 2), (1234.5, -2), (5e-324, 400), (1e308, -400)]) == [
        2.67,
        0.13,
        1200.0,
        5e-324,
        0.0,
    ]
    assert call(Function.ROUND, [F32, U64], [(0.5, 0), (2.5, 2**64 - 1)]) == [1.0, 2.5]
    assert call(Function.ROUND, [I32], [(7,), (None,)]) == [7, None]


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=12))
def test_floor_ceil_and_abs_of_doubles(values: list[float | None]) -> None:
    rows = [(value,) for value in values]
    finite = [None if value is None else value if math.isinf(value) else float(math.floor(value)) for value in values]
    assert call(Function.FLOOR, [F64], rows) == finite
    assert call(Function.CEIL, [F64], [(None if value is None else -value,) for value in values]) == [
        None if value is None else -value for value in finite
    ]
    assert call(Function.ABS, [F64], rows) == [None if value is None else abs(value) for value in values]


@settings(deadline=None)
@given(st.data(), st.sampled_from(INTEGER_TYPES))
def test_floor_ceil_and_abs_of_integers(data: st.DataObject, type_: Plain) -> None:
    values = data.draw(st.lists(st.none() | integers(type_).filter(lambda value: value != -(2**63)), max_size=12))
    rows = [(value,) for value in values]
    assert call(Function.FLOOR, [type_], rows) == call(Function.CEIL, [type_], rows) == values
    assert call(Function.ABS, [type_], rows) == [None if value is None else abs(value) for value in values]


def test_the_smallest_integer_has_no_absolute_value() -> None:
    with pytest.raises(InvalidInput, match=r"^abs\(-9223372036854775808\) is outside the range of I64$"):
        call(Function.ABS, [I64], [(-(2**63),)])


DAY_MS = 86_400_000
EPOCH = datetime(1970, 1, 1)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)), max_size=12))
def test_the_parts_of_dates_and_times(values: list[datetime | None]) -> None:
    """Before 1970 too."""
    times = [None if value is None else (value - EPOCH) // timedelta(milliseconds=1) for value in values]
    days = [None if time is None else time // DAY_MS for time in times]
    for function in (Function.YEAR, Function.MONTH, Function.DAY, Function.HOUR):
        expected = [None if value is None else getattr(value, function.value) for value in values]
        assert call(function, [DATETIME], [(time,) for time in times]) == expected
        if function is not Function.HOUR:
            assert call(function, [DATE], [(day,) for day in days]) == expected
    assert call(Function.DATE, [DATETIME], [(time,) for time in times]) == days
    assert call(Function.DATETIME, [DATE], [(day,) for day in days]) == [None if day is None else day * DAY_MS for day in days]


@pytest.mark.parametrize("day", [-(2**31), 2**31 - 1, -(2**63) // DAY_MS, (2**63 - 1) // DAY_MS, -719_468, 0])
def test_the_calendar_has_no_end(day: int) -> None:
    """Dates that are shown as numbers still have parts: 400 years are 146,097 days."""
    eras, within = divmod(day + 719_162, 146_097)
    inside = date.fromordinal(within + 1)
    rows = [(day,)] if -(2**31) <= day < 2**31 else []
    at = day * DAY_MS if day * DAY_MS >= -(2**63) else -(2**63)
    for function, expected in ((Function.YEAR, inside.year + 400 * eras), (Function.MONTH, inside.month), (Function.DAY, inside.day)):
        assert call(function, [DATE], rows) == [expected] * len(rows)
        assert call(function, [DATETIME], [(at,)]) == [expected]


def test_a_time_beyond_all_dates_has_no_date() -> None:
    assert call(Function.DATE, [DATETIME], [((2**31 - 1) * DAY_MS,), (-(2**31) * DAY_MS,)]) == [2**31 - 1, -(2**31)]
    with pytest.raises(InvalidInput, match="outside the range of Date"):
        call(Function.DATE, [DATETIME], [(2**31 * DAY_MS,)])
    assert call(Function.DATETIME, [DATE], [(2**31 - 1,), (-(2**31),)]) == [(2**31 - 1) * DAY_MS, -(2**31) * DAY_MS]


def test_coalesce_takes_the_first_value_in_the_common_type() -> None:
    assert call(Function.COALESCE, [I32, F64], [(1, 2.5), (None, 2.5), (None, None)]) == [1.0, 2.5, None]
    assert call(Function.COALESCE, [I32, I64, I32], [(None, None, 3), (None, 2**40, 3)]) == [3, 2**40]
    assert call(Function.COALESCE, [STRING, STRING], [(None, "b"), ("a", None)]) == ["b", "a"]
    assert call(Function.COALESCE, [ListOf(Scalar.STRING)] * 2, [(None, ["b"]), ([], ["a"])]) == [["b"], []]
    assert call(Function.COALESCE, [DATE, DATE], [(None, 5)]) == [5]
    assert call(Function.COALESCE, [F32], [(0.5,)]) == [0.5]


def test_coalesce_converts_only_the_value_it_takes() -> None:
    assert call(Function.COALESCE, [U64, I64], [(2**64 - 1, -1), (None, 7)]) == [2**64 - 1, 7]
    with pytest.raises(InvalidInput, match=r"^-1 is outside the range of U64$"):
        call(Function.COALESCE, [U64, I64], [(5, 1), (None, -1)])


# -- whole expressions


def test_expressions_nest_and_read_constants_and_cells() -> None:
    """`coalesce(a + 1, 0) * length("ab")`, and the same over cells of an aggregate."""

    def tree(leaf: ir.Expr) -> ir.Expr:
        more = ir.Arithmetic(leaf, ArithmeticOperator.ADD, Constant(I64, 1), I64)
        known = ir.FunctionCall(Function.COALESCE, (more, Constant(I64, 0)), I64)
        length = ir.FunctionCall(Function.LENGTH, (Constant(STRING, "ab"),), I64)
        return ir.Arithmetic(known, ArithmeticOperator.MULTIPLY, length, I64)

    values = pa.array([1, None, -1], pa.int32())
    assert computed(tree(field("a", I32)), {"a": values}, 3) == [4, 0, 0]
    cells = [pa.chunked_array([values.slice(0, 2), values.slice(2)])]
    assert evaluate(tree(ir.Cell(0)), 3, lambda _: values, cells=cells).to_pylist() == [4, 0, 0]


def test_null_is_a_constant_too() -> None:
    expr = ir.Arithmetic(Constant(I64, None), ArithmeticOperator.ADD, Constant(I64, 1), I64)
    assert computed(expr, {}, 2) == [None, None]
    assert computed(Constant(ListOf(Scalar.I32), (1, 2)), {}, 2) == [[1, 2], [1, 2]]


@pytest.mark.parametrize("function", [*Function])
def test_no_rows_give_no_values(function: Function) -> None:
    candidates: list[list[ValueType]] = [[STRING], [STRING, I64, I64], [F64, I64], [DATETIME], [DATE], [I64]]
    types = next(types for types in candidates if result_type(function, types) is not None)
    assert call(function, types, []) == []
    assert call(function, types, [(None,) * len(types)] * 3) == [None] * 3
