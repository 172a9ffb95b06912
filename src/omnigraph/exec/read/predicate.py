"""A predicate over one table -> SQL text with exactly the same meaning, which Lance can push down.

Every literal is cast to the type of its column. An index on the column can then answer the predicate (X-04), and every comparison
happens in the type of the column. (pyarrow expressions would be shorter, but they reach Lance through Substrait, which supports
neither `Date64` columns nor all literals.)
"""

from __future__ import annotations

from typing import Final

from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, ListOf, Plain, ValueType, scalar_of
from omnigraph.errors import Kind, Unsupported
from omnigraph.lang.query import Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.expr import STRING, Atom, Constant, Field, Value
from omnigraph.plan.values import ARROW_NAMES

NOTHING: Final = "false"
EVERYTHING: Final = "true"

MOST_TERMS: Final = 64
"""Each comparison costs the storage engine up to 1 ms before it reads a row, as much as comparing a million values in memory."""
MOST_LEVELS: Final = 10
"""The parser of the storage engine refuses parentheses nested about fifty deep."""
MOST_VALUES: Final = 1_000
"""The values of a longer list are looked up in memory."""

_OPPOSITE: Final = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LT: Comparison.GE,
    Comparison.LE: Comparison.GT,
    Comparison.GT: Comparison.LE,
    Comparison.GE: Comparison.LT,
}


def sql(predicate: ir.Predicate) -> str:
    """Return SQL that selects the rows for which the predicate is true; null is not true. Raises Unsupported if no exact SQL exists."""
    text = exact_sql(predicate)
    if text is None:
        raise Unsupported(Kind.UNSUPPORTED, "this predicate is not supported in a mutation")
    return text


def exact_sql(predicate: ir.Predicate) -> str | None:
    """Return SQL for the rows for which the predicate is true, or None if it must be evaluated after the scan.

    All fields of the predicate are columns of one table. Negations are moved into the comparisons: where those are, null stays unknown,
    and everything above only asks which rows are left.
    """
    return _where(predicate, wanted=True) if _terms(predicate) <= MOST_TERMS and _depth(predicate) <= MOST_LEVELS else None


def _where(predicate: ir.Predicate, *, wanted: bool) -> str | None:
    """Return SQL for the rows for which the predicate is `wanted`: true, or false. Unknown is neither."""
    match predicate:
        case ir.AllOf(terms) | ir.AnyOf(terms):
            return _joined([_where(term, wanted=wanted) for term in terms], "AND" if isinstance(predicate, ir.AllOf) is wanted else "OR")
        case ir.Not(term):
            return _where(term, wanted=not wanted)
        case ir.Compare(Field() as field, comparison, Constant() as constant):
            return f"{column(field.column)} {_operator(comparison, wanted=wanted)} {literal(constant.value, field.type)}"
        case ir.Compare(Field() as left, comparison, Field() as right) if _same_exact_type(left, right):
            return f"{column(left.column)} {_operator(comparison, wanted=wanted)} {column(right.column)}"
        case ir.OneOf(Field() as field, values) if len(values) <= MOST_VALUES:
            return _one_of(field, values, wanted=wanted)
        case ir.IsNull(Field() as field):
            return f"{column(field.column)} IS {'NULL' if wanted else 'NOT NULL'}"
        case ir.Decided(field, truth):
            return f"{column(field.column)} IS NOT NULL" if truth is wanted else NOTHING
        case ir.Known(truth):
            return EVERYTHING if truth is wanted else NOTHING
        case _:
            holds = _function(predicate)
            return holds if holds is None or wanted else f"NOT {holds}"


def _function(predicate: ir.Predicate) -> str | None:
    """Return a predicate as a call that is null where the predicate is unknown, or None."""
    match predicate:
        case ir.Includes(Field(type=ListOf(item)) as field, Constant() as constant) if item not in FLOATS:
            return f"array_has({column(field.column)}, {literal(constant.value, Plain(item))})"
        case ir.Substring(text, part):
            return _call("contains", text, part)
        case ir.Prefix(text, part):
            return _call("starts_with", text, part)
        case ir.Suffix(text, part):
            return _call("ends_with", text, part)
        case _:
            return None


def _call(function: str, text: ir.Expr, part: ir.Expr) -> str | None:
    texts = [_text(side) for side in (text, part)]
    return None if None in texts else f"{function}({texts[0]}, {texts[1]})"


def _joined(terms: list[str | None], word: str) -> str | None:
    return None if None in terms else f" {word} ".join(f"({term})" for term in terms)


def _operator(comparison: Comparison, *, wanted: bool) -> str:
    """Stored numbers are finite, so one of two opposite comparisons holds if neither side is null."""
    return comparison.value if wanted else _OPPOSITE[comparison].value


def _one_of(field: Field, values: tuple[Atom, ...], *, wanted: bool) -> str:
    if not values:
        return NOTHING if wanted else EVERYTHING
    name, items = column(field.column), ", ".join(_item(value, field.type) for value in values)
    # Null is not in two lists that exclude each other either, but the storage engine takes that for true unless it is told.
    return f"{name} IN ({items})" if wanted else f"{name} IS NOT NULL AND {name} NOT IN ({items})"


def _item(value: Atom, type_: ValueType) -> str:
    """A list of a thousand numbers is planned four times as fast without casts. Only the smallest I64 needs one."""
    plain = scalar_of(type_) in INTEGERS and isinstance(value, int) and value > -(2**63)
    return str(value) if plain else literal(value, type_)


def _terms(predicate: ir.Predicate) -> int:
    """The number of comparisons in a predicate."""
    match predicate:
        case ir.AllOf(terms) | ir.AnyOf(terms):
            return sum(_terms(term) for term in terms)
        case ir.Not(term):
            return _terms(term)
        case _:
            return 1


def _depth(predicate: ir.Predicate) -> int:
    """How deep parentheses are nested in the SQL of a predicate."""
    match predicate:
        case ir.AllOf(terms) | ir.AnyOf(terms):
            return 1 + max((_depth(term) for term in terms), default=0)
        case ir.Not(term):
            return _depth(term)
        case _:
            return 0


def _same_exact_type(left: Field, right: Field) -> bool:
    """Return whether both fields have the same type, in which equal values have equal bits.

    The storage engine compares a wide integer with a double as two doubles (Q17), and takes the two zeros for different numbers.
    """
    scalar = scalar_of(left.type)
    return scalar is not None and scalar is scalar_of(right.type) and scalar not in FLOATS


def _text(side: ir.Expr) -> str | None:
    match side:
        case Field():
            return column(side.column)
        case Constant(value=str() as text):
            return literal(text, STRING)
        case _:
            return None


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
