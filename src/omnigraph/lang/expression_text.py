"""An expression -> the text that names its column: as it is written, in the shortest form, without the `$` of variables."""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.lang.query import (
    Aggregate,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Bm25,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    Expr,
    FloatLiteral,
    FunctionCall,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    MatchText,
    Nearest,
    Negative,
    Now,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Variable,
)

_SUMS: Final = (ArithmeticOperator.ADD, ArithmeticOperator.SUBTRACT)


def expression_text(expr: Expr) -> str:
    match expr:
        case Variable(name) | AliasRef(name):
            return name
        case PropertyRef(variable, name):
            return f"{variable.name}.{name}"
        case IntegerLiteral(value):
            return str(value)
        case FloatLiteral(value):
            return float_text(value)
        case StringLiteral(value):
            return string_text(value)
        case BoolLiteral(value):
            return "true" if value else "false"
        case DateLiteral(text):
            return f"date({string_text(text)})"
        case DateTimeLiteral(text):
            return f"datetime({string_text(text)})"
        case ListLiteral(items):
            return f"[{', '.join(expression_text(item) for item in items)}]"
        case Arithmetic(left, operator, right):
            return f"{_operand(left, operator, first=True)} {operator} {_operand(right, operator, first=False)}"
        case Negative(operand):
            inside = expression_text(operand)
            return f"-({inside})" if isinstance(operand, Arithmetic | Negative) or inside.startswith("-") else f"-{inside}"
        case _:
            return _call(expr)


def _call(expr: Now | Nearest | Bm25 | Rrf | Search | Fuzzy | MatchText | Aggregate | FunctionCall) -> str:
    match expr:
        case Now():
            return "now()"
        case Nearest(field, query):
            return _arguments("nearest", field, query)
        case Bm25(field, query):
            return _arguments("bm25", field, query)
        case Rrf(first, second, k):
            return _arguments("rrf", first, second, k)
        case Search(field, query):
            return _arguments("search", field, query)
        case Fuzzy(field, query, max_edits):
            return _arguments("fuzzy", field, query, max_edits)
        case MatchText(field, query):
            return _arguments("match_text", field, query)
        case Aggregate(function, argument, distinct):
            inside = "*" if argument is None else expression_text(argument)
            return f"{function}({'distinct ' if distinct else ''}{inside})"
        case FunctionCall(name, arguments):
            return _arguments(name.text, *arguments)
        case _:
            assert_never(expr)


def _arguments(function: str, *arguments: Expr | None) -> str:
    return f"{function}({', '.join(expression_text(argument) for argument in arguments if argument is not None)})"


def _operand(expr: Expr, operator: ArithmeticOperator, *, first: bool) -> str:
    """A side of an operator, in parentheses where it would otherwise be read differently."""
    text = expression_text(expr)
    if not isinstance(expr, Arithmetic):
        return text
    looser = expr.operator in _SUMS and operator not in _SUMS
    same = (expr.operator in _SUMS) is (operator in _SUMS)
    return f"({text})" if looser or (same and not first) else text


def float_text(value: float) -> str:
    """The shortest digits that read back as the same float, with digits on both sides of the point and no exponent."""
    from decimal import Decimal  # slow to import, and floats are rare in queries

    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def string_text(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
