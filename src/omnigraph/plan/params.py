"""Parameters as JSON or Python gives them + their declarations -> typed values by name.

Dates, times, decimals, bytes, numpy scalars and arrays are taken as they are, as long as nothing of their value is lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, assert_never

from omnigraph.catalog.types import INTEGERS, EnumOf, ListOf, Plain, VectorOf, display
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.grammar.cursor import near
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.typed import Parameter
from omnigraph.plan.values import RANGES, narrowed, narrowed_all


class Numbers(StrEnum):
    """How numbers in JSON are read."""

    EXACT = "exact"
    """`3.0` is not an integer, and integers have their full range."""
    JAVASCRIPT = "javascript"
    """`3.0` is an integer, and integers that a double cannot hold must be passed as strings."""


Bindings = Mapping[str, Value]
"""Every declared parameter by its bare name; an omitted nullable one is None."""

MAX_SAFE_INTEGER: Final = 2**53 - 1

_EPOCH: Final = date(1970, 1, 1)
_EPOCH_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN: Final = 40
"""Characters of an unknown name that a message repeats."""
_LISTED: Final = 8

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONGEST_INTEGER: Final = 64
"""Digits, zeros included: far above any range, far below the limit of Python's conversion."""


def bind_parameters(declared: Sequence[Parameter], given: object, *, numbers: Numbers = Numbers.EXACT) -> Bindings:
    """The value of every declared parameter, or InvalidInput with the first that does not fit or is not declared."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "params must be a JSON object")
    known = {parameter.name for parameter in declared}
    for name in given:
        if name not in known:
            raise _undeclared(str(name), tuple(known))
    return {parameter.name: _bound(parameter, given, numbers) for parameter in declared}


def _undeclared(name: str, known: tuple[str, ...]) -> InvalidInput:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    hint = near(name, known, sign="$")
    listed = f"; the query declares {', '.join(f'${each}' for each in sorted(known)[:_LISTED])}" if known else "; the query declares none"
    return InvalidInput(Kind.INVALID_ARGUMENT, f"unknown parameter '{shown}'{f'; {hint}' if hint else listed}", parameter=shown)


def _bound(parameter: Parameter, given: Mapping[str, object], numbers: Numbers) -> Value:
    name = parameter.name
    if name not in given:
        if parameter.nullable and not parameter.required:
            return None
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"parameter '{name}' not provided", parameter=name)
    value = given[name]
    if value is None:
        if parameter.nullable:
            return None
        raise _wrong(name, "null is not accepted for non-nullable parameter")
    try:
        return _value(parameter, _plain(value), numbers)
    except ValueError as error:
        raise _wrong(name, str(error)) from None


def _plain(value: object) -> object:
    """A numpy scalar or array as Python's own values. Nothing else has `tolist` and `dtype`."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "dtype") else value


def _wrong(name: str, message: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, f"param '{name}': {message}", parameter=name)


def _value(parameter: Parameter, value: object, numbers: Numbers) -> Value:
    match parameter.type:
        case Plain(scalar):
            return _scalar(value, scalar, numbers)
        case ListOf(item):
            if not isinstance(value, list | tuple):
                raise ValueError(f"expected array for {display(parameter.type)}")
            return tuple(_scalar(_plain(element), item, numbers) for element in value)
        case VectorOf(dimension):
            return _vector(value, dimension)
        case EnumOf():
            raise AssertionError("parameters are never declared as enums")
        case _:
            assert_never(parameter.type)


def _vector(value: object, dimension: int) -> Value:
    if not isinstance(value, list | tuple):
        hint = "; to compare with a text, declare the parameter as String" if isinstance(value, str) else ""
        raise ValueError(f"expected array for Vector({dimension}){hint}")
    if len(value) != dimension:
        raise ValueError(f"expected {dimension} values for Vector({dimension}), got {len(value)}")
    if all(type(element) is float for element in value) and (narrow := narrowed_all(value)) is not None:
        return narrow
    elements = [_plain(element) for element in value]
    if any(isinstance(element, bool) or not isinstance(element, int | float) for element in elements):
        raise ValueError("vector element is not numeric")
    return tuple(_float(element, Scalar.F32) for element in elements)


def _scalar(value: object, scalar: Scalar, numbers: Numbers) -> Atom:
    if scalar in INTEGERS:
        return _integer(value, scalar, numbers)
    return _READERS[scalar](value)


def _integer(value: object, scalar: Scalar, numbers: Numbers) -> int:
    unsigned = scalar in (Scalar.U32, Scalar.U64)
    what = "unsigned integer" if unsigned else "integer"
    if _is_decimal(value):
        value = _whole(value, what)
    match value:
        case bool():
            raise ValueError(f"expected {what}")
        case str():
            number = _integer_text(value, what, scalar)
        case int():
            number = value
        case float() if numbers is Numbers.JAVASCRIPT and value.is_integer():
            number = int(value)
        case float():
            raise ValueError(f"expected {what} number")
        case _:
            raise ValueError(f"expected {what}")
    if unsigned and number < 0:
        raise ValueError(f"expected {what} string, got '{value}'" if isinstance(value, str) else f"expected {what} number")
    if numbers is Numbers.JAVASCRIPT and not isinstance(value, str) and abs(number) > MAX_SAFE_INTEGER:
        raise ValueError(f"value {number} exceeds JS safe integer range; pass a decimal string for exact values")
    low, high = RANGES[scalar]
    if not low <= number <= high:
        raise ValueError(f"value {_shown(number)} exceeds {scalar}")
    return number


def _integer_text(text: str, what: str, scalar: Scalar) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"expected {what} string, got '{text}'")
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"value {text[:20]}... exceeds {scalar}")
    return int(text)


def _shown(number: int) -> str:
    """The number, or its length in bits if Python refuses to format it."""
    return str(number) if number.bit_length() < 1024 else f"of {number.bit_length()} bits"


def _is_decimal(value: object) -> bool:
    """Decimals are recognized without importing their module, which takes longer than most queries."""
    return type(value).__module__ in ("decimal", "_decimal")


def _whole(value: Any, what: str) -> int:
    if not value.is_finite() or value != value.to_integral_value():
        raise ValueError(f"expected {what}, and {value} is not one")
    return int(value)


def _float(value: Any, scalar: Scalar) -> float:
    if _is_decimal(value):
        if value.is_finite() and float(value) != value:
            raise ValueError(f"{value} does not fit {scalar} exactly; pass it as a float, or round it")
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("expected float")
    try:
        wide = float(value)
    except OverflowError:
        raise ValueError(f"value exceeds {scalar}") from None
    if not math.isfinite(wide):
        raise ValueError(f"expected float, and {wide} is not finite")
    if scalar is Scalar.F64:
        return wide
    narrow = narrowed(wide)
    if math.isinf(narrow):
        raise ValueError(f"value {value} exceeds {scalar}")
    return narrow


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected boolean")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected string, got {_json_type(value)}")
    return value


def _blob(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        from base64 import b64encode

        return f"base64:{b64encode(value).decode()}"
    if not isinstance(value, str):
        raise ValueError(f"expected blob URI string, got {_json_type(value)}")
    return value


def _date(value: object) -> int:
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH).days
    if not isinstance(value, str):
        raise ValueError("expected date string")
    days = parse_date(value)
    if days is None:
        raise ValueError(f"invalid Date literal '{value}'")
    return days


def _datetime(value: object) -> int:
    if isinstance(value, datetime):
        # A time without a zone is UTC, as in a text without one; what is finer than a millisecond is cut off.
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (moment - _EPOCH_TIME) // timedelta(milliseconds=1)
    if not isinstance(value, str):
        raise ValueError("expected datetime string")
    milliseconds = parse_datetime(value)
    if milliseconds is None:
        raise ValueError(f"invalid DateTime literal '{value}'")
    return milliseconds


_READERS: Final[dict[Scalar, Callable[[object], Atom]]] = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _bool,
    Scalar.F32: lambda value: _float(value, Scalar.F32),
    Scalar.F64: lambda value: _float(value, Scalar.F64),
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
}


def _json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
        case _:
            return type(value).__name__
