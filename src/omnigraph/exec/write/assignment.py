"""Expressions of a change and the rows they read -> columns of new values, as the table holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import FLOATS, INTEGERS, EnumOf, ListOf, Plain, ValueType, VectorOf, arrow_scalar, arrow_type
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.read.encoding import encoded
from omnigraph.exec.read.expressions import ColumnReader, evaluate
from omnigraph.exec.read.rows import ColumnKey
from omnigraph.exec.validate.arrays import true_at
from omnigraph.exec.write.image import Image
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.ir import Expr
from omnigraph.plan.values import ARROW_NAMES, RANGES
from omnigraph.store.arrays import Column, Places, whole
from omnigraph.store.membership import Members


class Driving(msgspec.Struct, frozen=True):
    """The rows that a change is applied for: combinations of variables, with the columns that the change reads."""

    count: int
    columns: Mapping[ColumnKey, Column]

    def read(self, field: Field) -> Column:
        return self.columns[field.binding, field.column]


ONCE = Driving(1, {})
"""For a change without variables."""


def assigned(image: Image, values: Mapping[str, Expr], count: int, read: ColumnReader) -> dict[str, pa.Array]:
    """The new values of each property, checked against the range of its type."""
    return {name: _assigned(image, name, value, count, read) for name, value in values.items()}


def _assigned(image: Image, name: str, value: Expr, count: int, read: ColumnReader) -> pa.Array:
    type_ = image.schema.field(name).type
    if isinstance(value, Constant):
        return pa.repeat(pa.scalar(_plain(image, name, value), type_), count)
    property_ = image.entity.property(name)
    assert property_ is not None
    try:
        return _fitted(evaluate(value, count, read), property_.type)
    except ValueError as error:
        raise InvalidInput(Kind.VALIDATION, f"{error} (property '{name}')", property=name) from None


def _plain(image: Image, name: str, constant: Constant) -> object:
    """A value in the form that Arrow accepts: a tuple becomes a list, a blob becomes bytes."""
    value = constant.value
    if isinstance(value, str) and name in image.blobs:
        return image.blob(value)
    return list(value) if isinstance(value, tuple) else value


# -- values of one type as another holds them


def _fitted(column: pa.Array, type_: ValueType) -> pa.Array:
    """The values in a column of a compatible type. An integer widens into a float; a value out of range is a ValueError."""
    if column.type == arrow_type(type_):
        return column
    match type_:
        case Plain(scalar):
            return _fitted_scalars(column, scalar)
        case ListOf(item):
            items = _fitted_scalars(pc.list_flatten(column), item)
            offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(column).fill_null(0))])
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=arrow_type(type_), mask=column.is_null())
        case VectorOf() | EnumOf():
            return column.cast(arrow_type(type_))
        case _:
            assert_never(type_)


def _fitted_scalars(column: pa.Array, scalar: Scalar) -> pa.Array:
    if column.type == arrow_scalar(scalar):
        return column
    if scalar in INTEGERS:
        return _fitted_integers(column, scalar)
    return _fitted_floats(column, scalar) if scalar in FLOATS else column.cast(arrow_scalar(scalar))


def _fitted_integers(column: pa.Array, scalar: Scalar) -> pa.Array:
    low, high = RANGES[scalar]
    ends = pc.min_max(column)
    for outside in (ends["min"].as_py(), ends["max"].as_py()):
        if outside is not None and not low <= outside <= high:
            raise ValueError(f"integer value {outside} exceeds {ARROW_NAMES[scalar]} range")
    return column.cast(arrow_scalar(scalar))


def _fitted_floats(column: pa.Array, scalar: Scalar) -> pa.Array:
    wide = column.cast(pa.float64(), safe=False)
    if scalar is Scalar.F64:
        return wide
    narrow = wide.cast(pa.float32(), safe=False)
    lost = true_at(pc.and_(pc.is_finite(wide), pc.invert(pc.is_finite(narrow))))
    if len(lost):
        raise ValueError(f"float value {wide[int(lost[0])]} exceeds Float32 range")
    return narrow


# -- several rows for one entity


def once_each(image: Image, ids: pa.Array, values: Mapping[str, Column]) -> Places:
    """The first row for each id. Two rows that set one entity to different values are refused."""
    first = Members(ids).find(ids)
    places = np.arange(len(ids))
    again = np.flatnonzero(first != places)
    if not len(again):
        return places
    at, before = pa.array(again), pa.array(first[again])
    for name, column in values.items():
        compared = whole(encoded(column))
        one, other = compared.take(at), compared.take(before)
        same = pc.or_kleene(pc.equal(one, other), pc.and_(one.is_null(), other.is_null()))
        if len(wrong := true_at(pc.invert(pc.fill_null(same, fill_value=False)))):
            row = int(again[wrong[0]])
            raise ambiguous(image, ids[row].as_py(), name)
    return np.flatnonzero(first == places)


def ambiguous(image: Image, id_: str, name: str) -> InvalidInput:
    entity = image.entity
    return InvalidInput(
        Kind.AMBIGUOUS_UPDATE,
        f"the match gives {entity.kind} {entity.name} '{id_}' two values of '{name}'; nothing was written",
        type=entity.alias,
        id=id_,
        property=name,
    )
