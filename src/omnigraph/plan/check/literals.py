"""Literals as written -> typed constants, and whether one fits a property."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.types import NUMBERS, EnumOf, ListOf, Plain, ValueType, VectorOf, scalar_of
from omnigraph.lang.query import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntegerLiteral,
    ListLiteral,
    Literal,
    StringLiteral,
)
from omnigraph.lang.tree import Scalar, Syntax
from omnigraph.plan.expr import BOOL, DATE, DATETIME, F64, I64, STRING, U64, Atom, Constant
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.values import RANGES, compatible, described, stored


def constant(literal: Literal) -> Constant:
    """The constant of a literal by itself. An integer is I64, or U64 if only U64 can hold it; `[]` is `[String]`."""
    match literal:
        case IntegerLiteral(value=number):
            return Constant(I64 if number <= RANGES[Scalar.I64][1] else U64, number)
        case FloatLiteral(value=real):
            return Constant(F64, real)
        case StringLiteral(value=text):
            return Constant(STRING, text)
        case BoolLiteral(value=truth):
            return Constant(BOOL, truth)
        case DateLiteral(text=text):
            return _moment(literal, DATE, parse_date(text), text)
        case DateTimeLiteral(text=text):
            return _moment(literal, DATETIME, parse_datetime(text), text)
        case ListLiteral(items=items):
            return _list(literal, items)
        case _:
            assert_never(literal)


def _moment(literal: Literal, type_: Plain, value: int | None, text: str) -> Constant:
    if value is None:
        raise refused(None, f"invalid {type_.scalar} literal '{text}'", literal)
    return Constant(type_, value)


def _list(literal: ListLiteral, items: tuple[Literal, ...]) -> Constant:
    constants: list[Constant] = []
    for item in items:
        if isinstance(item, ListLiteral):
            raise refused(None, "nested list literals are not supported", item)
        typed = constant(item)
        if constants and not compatible(constants[0].type, typed.type):
            raise refused(None, "list literal elements must share a compatible scalar type", item)
        constants.append(typed)
    scalar = scalar_of(constants[0].type) if constants else Scalar.STRING
    assert scalar is not None
    # One float among integers makes a list of floats, one very large integer a list of U64: no value is truncated later.
    kinds = {typed.type for typed in constants}
    item_scalar = Scalar.F64 if F64 in kinds else Scalar.U64 if U64 in kinds and scalar in NUMBERS else scalar
    values: list[Atom] = []
    for typed in constants:
        assert isinstance(typed.value, bool | int | float | str)
        values.append(typed.value)
    return Constant(ListOf(item_scalar), tuple(values))


def require_u64(value: Constant, other: ValueType, at: Syntax, code: Code) -> None:
    """Raise for an integer above the range of I64 whose other side is not U64."""
    item = Plain(other.item) if isinstance(other, ListOf) else other
    if (value.type == U64 and item != U64) or (value.type == ListOf(Scalar.U64) and item != U64):
        raise refused(code, f"integer literal exceeds I64, and the other side is {described(other)}, not `U64`", at)


def fit_literal(literal: Literal, type_: ValueType, owner: str) -> Constant:
    """The literal as a value for a property (`owner` is `Type.property`), or T3."""
    typed = constant(literal)
    match type_:
        case EnumOf(values):
            if typed.type != STRING:
                raise _misfit(typed, type_, owner, literal)
            if typed.value not in values:
                raise refused(
                    Code.LITERAL,
                    f"invalid enum value '{typed.value}' for `{owner}` (expected: {', '.join(values)})",
                    literal,
                    hint=nearest_name(str(typed.value), values),
                )
        case VectorOf(dimension):
            _fit_vector(typed, dimension, owner, literal)
        case Plain(Scalar.BLOB):
            raise refused(Code.LITERAL, f"a literal cannot be a Blob (`{owner}`)", literal, hint="pass it through a `Blob` parameter")
        case ListOf() if isinstance(typed.type, ListOf) and not typed.value:
            pass  # `[]` is an empty list of anything
        case Plain() | ListOf():
            if not compatible(typed.type, type_):
                raise _misfit(typed, type_, owner, literal)
        case _:
            assert_never(type_)
    require_u64(typed, type_, literal, Code.LITERAL)
    return typed


def stored_literal(literal: Literal, type_: ValueType, owner: str) -> Constant:
    """The literal as a column holds it: as `fitting`, and an error if the column would change its value."""
    typed = fit_literal(literal, type_, owner)
    try:
        return Constant(type_, stored(typed.value, type_))
    except ValueError as error:
        raise refused(None, f"{error} (`{owner}`)", literal) from None


def _fit_vector(typed: Constant, dimension: int, owner: str, literal: Literal) -> None:
    if not isinstance(typed.type, ListOf) or typed.type.item not in NUMBERS:
        raise _misfit(typed, VectorOf(dimension), owner, literal)
    length = len(typed.value) if isinstance(typed.value, tuple) else 0
    if length != dimension:
        raise refused(Code.LITERAL, f"vector property `{owner}` expects {dimension} dimensions, got {length}", literal)


def _misfit(typed: Constant, type_: ValueType, owner: str, literal: Literal) -> Exception:
    return refused(Code.LITERAL, f"literal of type {described(typed.type)} does not fit `{owner}` of type {described(type_)}", literal)
