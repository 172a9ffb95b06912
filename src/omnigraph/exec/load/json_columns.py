"""Values as pyarrow reads them from JSON -> the columns of a table, whole columns at a time.

A date may be text or a number; it is read in the form that the file uses. Values that may be invalid raise `NeedsExactParser`. The
exact parser then reads the records one by one and reports the problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EntityType, Property
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf, arrow_scalar, arrow_type
from omnigraph.exec.blobs import BASE64, decode_base64
from omnigraph.lang.tree import Scalar

_TEMPORAL: Final = frozenset({Scalar.DATE, Scalar.DATETIME})
_DATETIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?)?$"
_SECONDS_AND_Z: Final = len("2024-01-01T00:00:00Z")
_DIGITS_OF_UNIT: Final = (("ms", 3), ("us", 6), ("ns", 9))


class NeedsExactParser(Exception):
    """The fast path cannot decide whether these values are valid."""


class Form(StrEnum):
    """The form of dates and times, and of the ends of edges, in a file."""

    TEXT = "text"
    NUMBER = "number"
    OBJECT = "object"


Forms = Mapping[str, Form]
"""The forms by property, and by `from` and `to`. What is missing has the form TEXT."""


def temporal_properties(entity: EntityType) -> tuple[str, ...]:
    """The properties whose values may have two forms in a file."""
    return tuple(property_.name for property_ in entity.properties if _item(property_.type) in _TEMPORAL)


def read_type(property_: Property, forms: Forms) -> pa.DataType:
    """The type that pyarrow parses a property as. `column` converts it to the type of the table."""
    match property_.type:
        case Plain(scalar):
            return _read_scalar(scalar, forms.get(property_.name, Form.TEXT))
        case ListOf(item):
            return pa.list_(_read_scalar(item, forms.get(property_.name, Form.TEXT)))
        case VectorOf():
            return pa.list_(pa.float64())
        case EnumOf():
            return pa.string()
        case _:
            assert_never(property_.type)


def column(property_: Property, values: pa.Array) -> pa.Array:
    """Convert values of the type `read_type` to the column of a property. Raises `NeedsExactParser`."""
    if values.null_count and not property_.nullable:
        raise NeedsExactParser
    match property_.type:
        case Plain(scalar):
            return _scalars(scalar, values)
        case ListOf(item):
            return _lists(item, values)
        case VectorOf(dimension):
            return _vectors(dimension, values)
        case EnumOf():
            return values
        case _:
            assert_never(property_.type)


def fixed_size(values: pa.Array, lists: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column of vectors from `lists`, which all have the right length or are null, and their items `values`."""
    if not lists.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=type_)
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    spread = np.zeros((len(lists), type_.list_size), np.float32)
    spread[present] = values.to_numpy(zero_copy_only=False).reshape(-1, type_.list_size)
    return pa.FixedSizeListArray.from_arrays(pa.array(spread.reshape(-1)), type=type_, mask=lists.is_null())


def _item(type_: ValueType) -> Scalar | None:
    match type_:
        case Plain(scalar) | ListOf(scalar):
            return scalar
        case VectorOf() | EnumOf():
            return None
        case _:
            assert_never(type_)


def _read_scalar(scalar: Scalar, form: Form) -> pa.DataType:
    match scalar:
        case Scalar.DATE | Scalar.DATETIME:
            return pa.string() if form is Form.TEXT else pa.int64()
        case Scalar.F32:
            # Narrowed from the double, as in a mutation, so that one text always gives the same 32-bit float.
            return pa.float64()
        case Scalar.BLOB:
            return pa.string()
        case _:
            return arrow_scalar(scalar)


def _scalars(scalar: Scalar, values: pa.Array) -> pa.Array:
    match scalar:
        case Scalar.STRING | Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return values
        case Scalar.F32 | Scalar.F64:
            return _finite(pc.cast(values, arrow_scalar(scalar)))
        case Scalar.DATE:
            return _dates(values)
        case Scalar.DATETIME:
            return _datetimes(values)
        case Scalar.BLOB:
            return _blobs(values)
        case _:
            assert_never(scalar)


def _finite(values: pa.Array) -> pa.Array:
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise NeedsExactParser
    return values


def _dates(values: pa.Array) -> pa.Array:
    try:
        if pa.types.is_integer(values.type):
            return pc.cast(pc.cast(values, pa.int32()), pa.date32())
        if pc.any(pc.starts_with(values, "0000")).as_py():  # the query language's calendar starts with year 1
            raise NeedsExactParser
        return pc.cast(values, pa.date32())
    except pa.ArrowInvalid as error:
        raise NeedsExactParser from error


def _datetimes(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return values.view(pa.date64())
    if pc.any(pc.starts_with(values, "0000")).as_py():
        raise NeedsExactParser
    zoned = pc.all(pc.ends_with(values, "Z")).as_py()
    shortest = pc.min(pc.binary_length(values)).as_py()
    if shortest is None:
        return pa.nulls(len(values), pa.date64())
    # pyarrow accepts more formats than the query language (`T12:30Z`, `+0200`). With a Z they differ only in length.
    if not (zoned and shortest >= _SECONDS_AND_Z):
        if not pc.all(pc.match_substring_regex(values, _DATETIME)).as_py():
            raise NeedsExactParser
        zoned = pc.all(pc.match_substring_regex(values, "(Z|[+-]..:..)$")).as_py()
    return _milliseconds(values, "UTC" if zoned else None)


def _milliseconds(values: pa.Array, zone: str | None) -> pa.Array:
    """Digits finer than a millisecond are cut off: the instant is rounded down."""
    for unit, digits in _DIGITS_OF_UNIT:
        try:
            instants = pc.cast(values, pa.timestamp(unit, zone)).view(pa.int64())
        except pa.ArrowInvalid:
            continue
        per_millisecond = 10 ** (digits - 3)
        if per_millisecond == 1:
            return instants.view(pa.date64())
        floored = np.floor_divide(instants.fill_null(0).to_numpy(), per_millisecond)
        return pa.array(floored, mask=values.is_null().to_numpy(zero_copy_only=False)).view(pa.date64())
    raise NeedsExactParser


def _blobs(values: pa.Array) -> pa.Array:
    if pa.types.is_large_binary(values.type):
        return values
    if pc.all(pc.starts_with(values, BASE64)).as_py() is False:
        raise NeedsExactParser
    try:
        # Arrow has no kernel for base64. The loop is over payloads, each decoded in one call.
        return pa.array([None if text is None else decode_base64(text) for text in values.to_pylist()], pa.large_binary())
    except ValueError as error:
        raise NeedsExactParser from error


def _lists(item: Scalar, values: pa.Array) -> pa.Array:
    if values.flatten().null_count:
        raise NeedsExactParser
    type_ = arrow_type(ListOf(item))
    items = _scalars(item, values.values)
    validity, offsets = values.buffers()[:2]
    return pa.Array.from_buffers(
        type_, len(values), [validity, offsets], null_count=values.null_count, offset=values.offset, children=[items]
    )


def _vectors(dimension: int, values: pa.Array) -> pa.Array:
    items = values.flatten()
    right = pc.all(pc.equal(pc.list_value_length(values), dimension)).as_py()
    if items.null_count or right is False:
        raise NeedsExactParser
    return fixed_size(_finite(pc.cast(items, pa.float32())), values, arrow_type(VectorOf(dimension)))
