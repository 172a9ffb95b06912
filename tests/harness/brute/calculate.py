"""Typed values -> typed values: arithmetic, exact on integers, and the scalar functions. Null in, null out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, assert_never

from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, ListOf, ValueType, scalar_of
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import DATE, DATETIME, F64, I64, STRING, U64, Value
from omnigraph.plan.values import RANGES
from tests.harness.brute.values import Typed

MILLISECONDS_A_DAY: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = RANGES[Scalar.I32]
_MILLISECONDS: Final = RANGES[Scalar.I64]


def overflow(what: str) -> InvalidInput:
    return InvalidInput(Kind.NUMERIC_OVERFLOW, f"{what} is out of range")


def within(number: int, type_: ValueType) -> int:
    """The number, if a value of this type can be as large or as small."""
    low, high = RANGES[Scalar.U64] if type_ == U64 else _DAYS if type_ == DATE else _MILLISECONDS
    if not low <= number <= high:
        raise overflow(str(number))
    return number


# arithmetic


def calculated(left: Typed, how: ArithmeticOperator, right: Typed) -> Typed:
    type_ = _type(left.type, how, right.type)
    if left.value is None or right.value is None:
        return Typed(None, type_)
    a: Any = left.value
    b: Any = right.value
    if type_ == F64:
        return Typed(_real(float(a), how, float(b)), F64)
    if type_ == STRING:
        return Typed(a + b, STRING)
    return Typed(_whole(a, how, b, type_), type_)


def negated(operand: Typed) -> Typed:
    type_ = _widened(operand.type)
    number: Any = operand.value
    if number is None:
        return Typed(None, type_)
    return Typed(-float(number) if type_ == F64 else within(-number, type_), type_)


def _type(left: ValueType, how: ArithmeticOperator, right: ValueType) -> ValueType:
    """What an operation gives, whatever its operands are."""
    one, other = scalar_of(left), scalar_of(right)
    if one is Scalar.STRING:
        return STRING
    if one is Scalar.DATETIME:
        return I64 if other is Scalar.DATETIME else DATETIME
    if one is Scalar.DATE:
        return DATE
    if how is ArithmeticOperator.DIVIDE or one in FLOATS or other in FLOATS:
        return F64
    return U64 if Scalar.U64 in (one, other) else I64


def _widened(type_: ValueType) -> ValueType:
    return F64 if scalar_of(type_) in FLOATS else U64 if scalar_of(type_) is Scalar.U64 else I64


def _real(a: float, how: ArithmeticOperator, b: float) -> float | None:
    match how:
        case ArithmeticOperator.ADD:
            return a + b
        case ArithmeticOperator.SUBTRACT:
            return a - b
        case ArithmeticOperator.MULTIPLY:
            return a * b
        case ArithmeticOperator.DIVIDE:
            return None if b == 0 else a / b
        case ArithmeticOperator.REMAINDER:
            raise AssertionError("`%` takes integers")
        case _:
            assert_never(how)


def _whole(a: int, how: ArithmeticOperator, b: int, type_: ValueType) -> int | None:
    match how:
        case ArithmeticOperator.ADD:
            return within(a + b, type_)
        case ArithmeticOperator.SUBTRACT:
            return within(a - b, type_)
        case ArithmeticOperator.MULTIPLY:
            return within(a * b, type_)
        case ArithmeticOperator.REMAINDER:
            return None if b == 0 else within(abs(a) % abs(b) * (-1 if a < 0 else 1), type_)
        case ArithmeticOperator.DIVIDE:
            raise AssertionError("`/` gives floats")
        case _:
            assert_never(how)


# functions


def called(name: str, arguments: Sequence[Typed]) -> Typed:
    """A function of values. Those of variables and paths are the matcher's."""
    if name == "coalesce":
        return _coalesced(arguments)
    type_, function = _FUNCTIONS[name]
    of = _widened(arguments[0].type) if type_ is None else type_
    values = [argument.value for argument in arguments]
    return Typed(None if None in values else function(*values), of)


def _coalesced(arguments: Sequence[Typed]) -> Typed:
    """The first that is known, in the type that holds all of them."""
    type_ = common([argument.type for argument in arguments])
    found: Any = next((argument.value for argument in arguments if argument.value is not None), None)
    if found is None:
        return Typed(None, type_)
    if type_ == F64:
        return Typed(float(found), F64)
    return Typed(within(found, type_) if type_ in (I64, U64) else found, type_)


def common(types: Sequence[ValueType]) -> ValueType:
    """A float if there is one among the numbers, an unsigned integer if there is one among integers."""
    scalars = [scalar_of(type_) for type_ in types]
    if all(scalar in INTEGERS for scalar in scalars):
        return U64 if Scalar.U64 in scalars else I64
    if all(scalar in NUMBERS for scalar in scalars):
        return F64
    return STRING if scalars[0] is Scalar.STRING else types[0]


def _length(of: str | tuple[Value, ...]) -> int:
    """Python counts code points."""
    return len(of)


def _substring(text: str, begin: int, count: int) -> str:
    return text[max(begin, 0) :][: max(count, 0)]


def _absolute(number: float) -> float:
    return abs(number) if isinstance(number, float) else within(abs(number), I64 if number < 0 else U64)


def _rounded(number: float, digits: int = 0) -> float:
    """Half away from zero, of the number as it is, not as it is spelled."""
    if isinstance(number, float) and not math.isfinite(number):
        return number
    unit = Decimal(1).scaleb(-digits)
    rounded = Decimal(number) if digits > 400 else (Decimal(number) / unit).to_integral_value(ROUND_HALF_UP) * unit
    return float(rounded) if isinstance(number, float) else within(int(rounded), I64 if number < 2**63 else U64)


def _floor(number: float) -> float:
    return float(math.floor(number)) if isinstance(number, float) and math.isfinite(number) else number


def _ceil(number: float) -> float:
    return float(math.ceil(number)) if isinstance(number, float) and math.isfinite(number) else number


def _moment(of: Typed) -> datetime:
    assert isinstance(of.value, int)
    if of.type == DATE:
        return datetime.combine(_EPOCH_DAY + timedelta(days=of.value), datetime.min.time(), UTC)
    return _EPOCH + timedelta(milliseconds=of.value)


def part(name: str, of: Typed) -> Typed:
    """`year`, `month`, `day`, `hour` of a Date or a DateTime, in UTC."""
    return Typed(None if of.value is None else getattr(_moment(of), name), I64)


def _lower(text: str) -> str:
    """Character by character: no final sigma, and a dotted capital I loses its dot."""
    return "".join(character.lower()[0] for character in text)


def _upper(text: str) -> str:
    """Character by character, where Unicode has a capital of one character."""
    return "".join(_capital(character) for character in text)


def _capital(character: str) -> str:
    if character == "ß":
        return "ẞ"
    return next((made for made in (character.upper(), character.title()) if len(made) == 1), character)


_FUNCTIONS: Final[dict[str, tuple[ValueType | None, Callable[..., Any]]]] = {
    "lower": (STRING, _lower),
    "upper": (STRING, _upper),
    "trim": (STRING, str.strip),
    "length": (I64, _length),
    "substring": (STRING, _substring),
    "abs": (None, _absolute),
    "round": (None, _rounded),
    "floor": (None, _floor),
    "ceil": (None, _ceil),
    "date": (DATE, lambda moment: moment // MILLISECONDS_A_DAY),
    "datetime": (DATETIME, lambda day: day * MILLISECONDS_A_DAY),
}
"""What each gives, None for the type of its number, and how."""
PARTS: Final = ("year", "month", "day", "hour")


def list_of(type_: ValueType) -> ValueType:
    """The type of a list of such values."""
    scalar = scalar_of(type_)
    assert scalar is not None
    return ListOf(scalar)
