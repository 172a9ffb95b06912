"""A predicate over one table -> SQL text with exactly the same meaning, which Lance can push down.

Every literal is cast to the type of its column. An index on the column can then answer the predicate (X-04), and every comparison
happens in the type of the column. (pyarrow expressions would be shorter, but they reach Lance through Substrait, which supports
neither `Date64` columns nor all literals.)
"""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.catalog.types import FLOATS, NUMBERS, ListOf, Plain, ValueType, scalar_of
from omnigraph.errors import Kind, Unsupported
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.expr import STRING, Constant, Field, Value
from omnigraph.plan.values import ARROW_NAMES

NOTHING: Final = "false"


def sql(predicate: ir.Predicate) -> str:
    """Return SQL that selects the rows for which the predicate is true; null is not true. Raises Unsupported if no exact SQL exists."""
    text = exact_sql(predicate)
    if text is None:
        raise Unsupported(Kind.UNSUPPORTED, "this predicate is not supported in a mutation")
    return text


def exact_sql(predicate: ir.Predicate) -> str | None:
    """Return the predicate as SQL, or None if it must be evaluated after the scan. All its fields are columns of one table."""
    match predicate:
        case ir.Compare(Field() as field, comparison, Constant() as constant):
            return f"{column(field.column)} {comparison.value} {literal(constant.value, field.type)}"
        case ir.Compare(Field() as left, comparison, Field() as right) if _same_exact_type(left, right):
            return f"{column(left.column)} {comparison.value} {column(right.column)}"
        case ir.OneOf(field, values):
            return f"{column(field.column)} IN ({', '.join(literal(value, field.type) for value in values)})" if values else NOTHING
        case ir.Includes(Field(type=ListOf(item)) as field, Constant() as constant) if item not in FLOATS:
            return f"array_has({column(field.column)}, {literal(constant.value, Plain(item))})"
        case ir.Substring(text, part):
            return f"contains({_text(text)}, {_text(part)})"
        case ir.Prefix(text, prefix):
            return f"starts_with({_text(text)}, {_text(prefix)})"
        case ir.NotNull(field):
            return f"{column(field.column)} IS NOT NULL"
        case ir.Never():
            return NOTHING
        case ir.Compare() | ir.Includes() | ir.Matches():
            return None
        case _:
            assert_never(predicate)


def _same_exact_type(left: Field, right: Field) -> bool:
    """Return whether both fields have the same type. The storage engine compares a wide integer with a double as two doubles (Q17)."""
    scalar = scalar_of(left.type)
    return scalar is not None and scalar is scalar_of(right.type)


def _text(side: ir.Expr) -> str:
    match side:
        case Field():
            return column(side.column)
        case Constant(value=str() as text):
            return literal(text, STRING)
        case _:
            raise AssertionError("the checker allows only texts here")


def column(name: str) -> str:
    """Quote a column name (W-46). Without quotes, a name that is also an SQL keyword would be a syntax error."""
    return f"`{name}`"


def literal(value: Value, type_: ValueType) -> str:
    """Return a stored value as a literal in the type of the column it is compared with."""
    scalar = scalar_of(type_)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | float() if scalar in NUMBERS or scalar in (Scalar.DATE, Scalar.DATETIME):
            # Days and milliseconds are cast from numbers, all else from text: only text can represent the smallest I64.
            plain = str(value) if scalar in (Scalar.DATE, Scalar.DATETIME) else f"'{value!r}'"
            return f"arrow_cast({plain}, '{ARROW_NAMES[scalar]}')"
        case _:
            raise Unsupported(Kind.UNSUPPORTED, f"{value!r} cannot be compared with a column")
