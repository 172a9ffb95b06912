"""Spark filters over one type -> SQL text for Lance, for the filters that mean the same in both. Spark evaluates the others.

Both use three-valued logic, order texts by their bytes, and have all integers, dates and times. They differ about NaN and -0.0, so no
filter over floats is pushed down, nor one whose literal does not fit the type of the column.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from omnigraph.catalog.layout import identity_columns
from omnigraph.catalog.model import EntityType
from omnigraph.catalog.types import Plain, ValueType, scalar_of
from omnigraph.exec.read.predicate import column, literal
from omnigraph.lang.tree import Scalar

MAX_IN_VALUES: Final = 1_000
"""Spark evaluates an IN with more values than this. It uses a hash table."""

_INTEGER_RANGES: Final = {
    Scalar.I32: range(-(2**31), 2**31),
    Scalar.I64: range(-(2**63), 2**63),
    Scalar.U32: range(2**32),
    Scalar.U64: range(2**64),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NOT_COMPARED: Final = frozenset({Scalar.F32, Scalar.F64, Scalar.BLOB})


def push_down(filters: Iterable[Filter], entity: EntityType) -> tuple[str | None, list[Filter]]:
    """Return the SQL of the filters that Lance evaluates, and the filters that Spark must evaluate."""
    texts: list[str] = []
    left: list[Filter] = []
    for one in filters:
        if (text := sql(one, entity)) is not None:
            texts.append(f"({text})")
        else:
            left.append(one)
    return " AND ".join(texts) or None, left


def sql(one: Filter, entity: EntityType) -> str | None:
    """Return the filter as SQL text, or None if Spark must evaluate it."""
    match one:
        case Not(child):
            inner = sql(child, entity)
            return None if inner is None else f"NOT ({inner})"
        case IsNull(path) | IsNotNull(path):
            scalar = _scalar(path, entity)
            test = "IS NULL" if isinstance(one, IsNull) else "IS NOT NULL"
            return None if scalar is None or scalar is Scalar.BLOB else f"{column(path[0])} {test}"
        case EqualTo(path, value):
            return _comparison(path, "=", value, entity)
        case EqualNullSafe(path, None):
            return sql(IsNull(path), entity)
        case EqualNullSafe(path, value):  # never null, so its negation is true for null
            equal = _comparison(path, "=", value, entity)
            return None if equal is None else f"{column(path[0])} IS NOT NULL AND {equal}"
        case GreaterThan(path, value):
            return _comparison(path, ">", value, entity)
        case GreaterThanOrEqual(path, value):
            return _comparison(path, ">=", value, entity)
        case LessThan(path, value):
            return _comparison(path, "<", value, entity)
        case LessThanOrEqual(path, value):
            return _comparison(path, "<=", value, entity)
        case In(path, values):
            return _in_list(path, values, entity)
        case StringStartsWith(path, value):
            return _call("starts_with", path, value, entity)
        case StringEndsWith(path, value):
            return _call("ends_with", path, value, entity)
        case StringContains(path, value):
            return _call("contains", path, value, entity)
        case _:  # a filter of a later Spark release
            return None


def _comparison(path: tuple[str, ...], operator: str, value: object, entity: EntityType) -> str | None:
    spelled = _literal(path, value, entity)
    return None if spelled is None else f"{column(path[0])} {operator} {spelled}"


def _in_list(path: tuple[str, ...], values: tuple[object, ...], entity: EntityType) -> str | None:
    spelled = [_literal(path, value, entity) for value in values[: MAX_IN_VALUES + 1]]
    known = [text for text in spelled if text is not None]  # Spark evaluates an IN that contains null
    if not known or len(known) < len(spelled) or len(spelled) > MAX_IN_VALUES:
        return None
    return f"{column(path[0])} IN ({', '.join(known)})"


def _call(function: str, path: tuple[str, ...], value: object, entity: EntityType) -> str | None:
    if _scalar(path, entity) is not Scalar.STRING or (spelled := _literal(path, value, entity)) is None:
        return None
    return f"{function}({column(path[0])}, {spelled})"


def _scalar(path: tuple[str, ...], entity: EntityType) -> Scalar | None:
    """Return the scalar type of a column. None for lists, vectors and unknown columns."""
    type_ = _type(path, entity)
    return None if type_ is None else scalar_of(type_)


def _type(path: tuple[str, ...], entity: EntityType) -> ValueType | None:
    if len(path) == 1 and path[0] in identity_columns(entity):
        return Plain(Scalar.STRING)
    property_ = entity.property(path[0]) if len(path) == 1 else None
    return None if property_ is None else property_.type


def _literal(path: tuple[str, ...], value: object, entity: EntityType) -> str | None:
    """Return the value as a literal of the type of the column. None if that type cannot hold it."""
    type_, scalar = _type(path, entity), _scalar(path, entity)
    if type_ is None or scalar is None or scalar in _NOT_COMPARED:
        return None
    match value:
        case bool():
            return literal(value, type_) if scalar is Scalar.BOOL else None
        case str():
            return literal(value, type_) if scalar is Scalar.STRING else None
        case int():
            return literal(value, type_) if value in _INTEGER_RANGES.get(scalar, ()) else None
        case Decimal() if value == value.to_integral_value():
            return literal(int(value), type_) if int(value) in _INTEGER_RANGES.get(scalar, ()) else None
        case datetime() if scalar is Scalar.DATETIME and value.tzinfo is not None:
            milliseconds, finer = divmod(value - _EPOCH, _MILLISECOND)
            return None if finer else literal(milliseconds, type_)
        case date() if scalar is Scalar.DATE and not isinstance(value, datetime):
            return literal((value - _EPOCH.date()).days, type_)
        case _:
            return None
