"""An expected table and the columns a checked read will have -> the difference that can be seen before anything runs."""

from __future__ import annotations

import re
from typing import Final, assert_never

from omnigraph.catalog.types import FLOATS, INTEGERS, EnumOf, ListOf, Plain, ValueType, VectorOf, display
from omnigraph.lang.tree import Scalar
from omnigraph.plan.typed import Output, TypedRead
from tests.harness.compare import Difference
from tests.harness.expect import About, AnyUlid, Cell, Exactly, Rows
from tests.harness.show import Pair
from tests.harness.tables import cell_text

_TEXT_FORMS: Final = {
    Scalar.DATE: re.compile(r"-?[0-9]{4,}-[0-9]{2}-[0-9]{2}"),
    Scalar.DATETIME: re.compile(r"-?[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"),
}
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


def check_columns(expected: Rows, read: TypedRead) -> Difference | None:
    """Names first, then every cell against its column's type."""
    names = tuple(output.name for output in read.outputs)
    if expected.columns != names:
        return Difference("other columns", (Pair(" | ".join(expected.columns), " | ".join(names), same=False),))
    for row in expected.rows:
        for cell, output in zip(row, read.outputs, strict=True):
            if not _fits(cell, output):
                shown = f"{output.name}: {display(output.type, nullable=output.nullable)}"
                return Difference(f"no value of column `{output.name}` looks like this", (Pair(cell_text(cell), shown, same=False),))
    return None


def _fits(cell: Cell, output: Output) -> bool:
    match cell:
        case AnyUlid():
            return output.type == Plain(Scalar.STRING)
        case About():
            return isinstance(output.type, Plain) and output.type.scalar in FLOATS
        case Exactly(None):
            return output.nullable
        case Exactly(value):
            return _value_fits(value, output.type)
        case _:
            assert_never(cell)


def _value_fits(value: object, type_: ValueType) -> bool:
    match type_:
        case Plain(scalar):
            return _scalar_fits(value, scalar)
        case EnumOf(values):
            return value in values
        case ListOf(item):
            return isinstance(value, list) and all(_scalar_fits(element, item) for element in value)
        case VectorOf(dimension):
            return isinstance(value, list) and len(value) == dimension and all(isinstance(element, float) for element in value)
        case _:
            assert_never(type_)


def _scalar_fits(value: object, scalar: Scalar) -> bool:
    if scalar in INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool)
    if scalar in FLOATS:
        return isinstance(value, float) or value in _NOT_FINITE
    if scalar is Scalar.BOOL:
        return isinstance(value, bool)
    form = _TEXT_FORMS.get(scalar)
    return isinstance(value, str) and (form is None or form.fullmatch(value) is not None)
