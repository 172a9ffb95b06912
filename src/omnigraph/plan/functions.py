"""The scalar functions and the arithmetic of the language: names and types of arguments -> the type of the result. Values are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, ListOf, Plain, ValueType, scalar_of
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import DATE, DATETIME, F64, I64, STRING, U64


class Function(StrEnum):
    """The functions over values. Those over variables and paths (`id`, `type`, `nodes`, `edges`) are fields after checking."""

    LOWER = "lower"
    UPPER = "upper"
    TRIM = "trim"
    LENGTH = "length"
    SUBSTRING = "substring"
    COALESCE = "coalesce"
    ABS = "abs"
    ROUND = "round"
    FLOOR = "floor"
    CEIL = "ceil"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    DATE = "date"
    DATETIME = "datetime"


OF_VARIABLES: Final = ("type", "id", "nodes", "edges")
NAMES: Final = (*(function.value for function in Function), *OF_VARIABLES)


def signature(function: Function) -> str:
    """How a function is called, for messages."""
    return _SIGNATURES[function]


_SIGNATURES: Final = {
    Function.LOWER: "lower(String)",
    Function.UPPER: "upper(String)",
    Function.TRIM: "trim(String)",
    Function.LENGTH: "length(String or list or path)",
    Function.SUBSTRING: "substring(String, from, count)",
    Function.COALESCE: "coalesce(value, value, ...)",
    Function.ABS: "abs(number)",
    Function.ROUND: "round(number) or round(number, digits)",
    Function.FLOOR: "floor(number)",
    Function.CEIL: "ceil(number)",
    Function.YEAR: "year(Date or DateTime)",
    Function.MONTH: "month(Date or DateTime)",
    Function.DAY: "day(Date or DateTime)",
    Function.HOUR: "hour(DateTime)",
    Function.DATE: "date(DateTime)",
    Function.DATETIME: "datetime(Date)",
}


def result_type(function: Function, arguments: Sequence[ValueType]) -> ValueType | None:
    """The type of a call's result, or None if the function does not take these arguments."""
    scalars = [scalar_of(type_) for type_ in arguments]
    match function, scalars:
        case Function.LOWER | Function.UPPER | Function.TRIM, [Scalar.STRING]:
            return STRING
        case Function.LENGTH, [Scalar.STRING]:
            return I64
        case Function.LENGTH, [None] if isinstance(arguments[0], ListOf):
            return I64
        case Function.SUBSTRING, [Scalar.STRING, start, count] if start in INTEGERS and count in INTEGERS:
            return STRING
        case Function.COALESCE, _ if arguments:
            return common_type(arguments)
        case Function.ABS | Function.FLOOR | Function.CEIL, [number] if number in NUMBERS:
            return number_type(arguments[0])
        case Function.ROUND, [number] if number in NUMBERS:
            return number_type(arguments[0])
        case Function.ROUND, [number, digits] if number in NUMBERS and digits in INTEGERS:
            return number_type(arguments[0])
        case Function.YEAR | Function.MONTH | Function.DAY, [Scalar.DATE | Scalar.DATETIME]:
            return I64
        case Function.HOUR, [Scalar.DATETIME]:
            return I64
        case Function.DATE, [Scalar.DATETIME]:
            return DATE
        case Function.DATETIME, [Scalar.DATE]:
            return DATETIME
        case _:
            return None


def number_type(type_: ValueType) -> ValueType:
    """The type that arithmetic gives for numbers of one type: I64, U64 or F64."""
    scalar = scalar_of(type_)
    return F64 if scalar in FLOATS else U64 if scalar is Scalar.U64 else I64


def common_type(types: Sequence[ValueType]) -> ValueType | None:
    """The type that holds values of all types: the same one, or the widest number."""
    first = types[0]
    scalars = {scalar_of(type_) for type_ in types}
    if all(scalar in NUMBERS for scalar in scalars):
        if len(set(types)) == 1:
            return first
        if scalars & FLOATS:
            return F64
        return U64 if Scalar.U64 in scalars else I64
    if len(scalars) == 1 and None not in scalars:
        return first if len(set(types)) == 1 else Plain(next(scalar for scalar in scalars if scalar is not None))
    return first if len(set(types)) == 1 and isinstance(first, ListOf) else None


def arithmetic_type(left: ValueType, operator: ArithmeticOperator, right: ValueType) -> ValueType | None:
    """The type of `left operator right`, or None if the operator does not apply."""
    one, other = scalar_of(left), scalar_of(right)
    if one in NUMBERS and other in NUMBERS:
        if operator is ArithmeticOperator.DIVIDE:
            return F64
        if one in FLOATS or other in FLOATS:
            return None if operator is ArithmeticOperator.REMAINDER else F64
        return U64 if Scalar.U64 in (one, other) else I64
    match one, operator, other:
        case Scalar.STRING, ArithmeticOperator.ADD, Scalar.STRING:
            return STRING
        case Scalar.DATETIME, ArithmeticOperator.SUBTRACT, Scalar.DATETIME:
            return I64
        case Scalar.DATETIME | Scalar.DATE, ArithmeticOperator.ADD | ArithmeticOperator.SUBTRACT, _ if other in INTEGERS:
            return DATETIME if one is Scalar.DATETIME else DATE
        case _:
            return None
