"""A column of an input table and its property -> the column as the graph stores it, and the values that are invalid.

Whole columns are converted at once. If a column may contain an invalid value, its values are checked one by one with the rules and
messages of a JSON record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Final, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Property
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf, arrow_type, display
from omnigraph.exec.load.json_columns import NeedsExactParser, column
from omnigraph.exec.load.json_text import loads
from omnigraph.exec.load.json_values import InvalidValue, ReadExternal, Real, Whole, no_external, plain_type, stored
from omnigraph.exec.problems import ProblemCode
from omnigraph.lang.tree import Scalar
from omnigraph.plan.values import ARROW_NAMES
from omnigraph.store.arrays import Places
from omnigraph.store.membership import is_in

_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_A_DAY: Final = 86_400
_WHOLE: Final = r"^-?(0|[1-9][0-9]*)$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


class ConvertedColumn(NamedTuple):
    """The column, with null for invalid values, and the rows of those with the reason."""

    values: pa.Array
    refused: list[tuple[int, InvalidValue]]


def suits(type_: ValueType, found: pa.DataType) -> bool:
    """True if a column of the Arrow type `found` can be stored as a property of this type, depending on its values."""
    if pa.types.is_dictionary(found):
        return suits(type_, found.value_type)
    if pa.types.is_null(found):
        return True
    match type_:
        case Plain(scalar):
            return _suits(scalar, found)
        case EnumOf():
            return is_text(found)
        case ListOf(item):
            return is_list(found) and suits(Plain(item), found.value_type)
        case VectorOf(dimension):
            width = found.list_size if pa.types.is_fixed_size_list(found) else dimension
            return is_list(found) and width == dimension and suits(Plain(Scalar.F32), found.value_type)
        case _:
            assert_never(type_)


def expected(type_: ValueType) -> str:
    """The name of a type in a problem of a whole column."""
    return ARROW_NAMES[type_.scalar] if isinstance(type_, Plain) else display(type_)


def remedy(type_: ValueType, found: pa.DataType) -> str:
    """What to do about a column of an unsuitable type, as the end of a sentence; empty if there is nothing to say."""
    item = found.value_type if is_list(found) else found
    if type_ in (Plain(Scalar.DATE), ListOf(Scalar.DATE)) and pa.types.is_timestamp(item):
        return "; which day a time with a zone is depends on the zone: turn the column into dates first"
    return ""


def from_arrow(property_: Property, values: pa.Array, external: ReadExternal = no_external) -> ConvertedColumn:
    """Convert a column whose Arrow type suits its property."""
    read = _decoded(values)
    if _is_time(read.type):
        return _from_times(property_, read)
    if is_list(read.type) and _is_time(read.type.value_type):
        return _from_lists_of_times(property_, read)
    try:
        read = _as_read(property_.type, read)
        return ConvertedColumn(column(property_, read), [])
    except (NeedsExactParser, pa.ArrowInvalid):
        return _one_by_one(property_, read.to_pylist(), _from_python, external)


def from_text(property_: Property, cells: pa.Array, external: ReadExternal = no_external) -> ConvertedColumn:
    """Convert a column of a CSV file. Its text is parsed by the type of the property."""
    try:
        return ConvertedColumn(column(property_, _parsed(property_.type, cells)), [])
    except (NeedsExactParser, pa.ArrowInvalid):
        return _one_by_one(property_, cells.to_pylist(), lambda text: _from_cell(property_, str(text)), external)


def texts(values: pa.Array) -> pa.Array:
    """A column of ids as strings."""
    return pc.cast(_decoded(values), pa.string())


# -- which Arrow types


def _suits(scalar: Scalar, found: pa.DataType) -> bool:
    match scalar:
        case Scalar.STRING:
            return is_text(found)
        case Scalar.BLOB:
            return is_text(found) or bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
        case Scalar.BOOL:
            return bool(pa.types.is_boolean(found))
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return bool(pa.types.is_integer(found)) or _is_whole_decimal(found)
        case Scalar.F32 | Scalar.F64:
            return bool(pa.types.is_integer(found) or pa.types.is_floating(found))
        case Scalar.DATE:
            is_zoned = pa.types.is_timestamp(found) and found.tz is not None
            return is_text(found) or (bool(pa.types.is_integer(found) or pa.types.is_date(found) or _is_time(found)) and not is_zoned)
        case Scalar.DATETIME:
            return is_text(found) or bool(pa.types.is_integer(found) or pa.types.is_date(found) or pa.types.is_timestamp(found))
        case _:
            assert_never(scalar)


def is_text(found: pa.DataType) -> bool:
    """True for strings of every layout."""
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))


def _is_time(found: pa.DataType) -> bool:
    """True for timestamps, and for dates that are counted in milliseconds, which may have a time of day too."""
    return bool(pa.types.is_timestamp(found) or pa.types.is_date64(found))


def _is_whole_decimal(found: pa.DataType) -> bool:
    """True for decimals with scale 0. Engines without unsigned integers store a U64 in them."""
    return bool(pa.types.is_decimal(found)) and found.scale == 0


def is_list(found: pa.DataType) -> bool:
    """True for lists of every layout."""
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


# -- whole columns


def _decoded(values: pa.Array) -> pa.Array:
    """Decode a dictionary. One of views, as polars writes categories, cannot be decoded by Arrow before its texts are copied."""
    if not pa.types.is_dictionary(values.type):
        return values
    if pa.types.is_string_view(values.type.value_type):
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(pa.string()))
    return values.dictionary_decode()


def _as_read(type_: ValueType, values: pa.Array) -> pa.Array:
    """Cast a column to a type that `column` accepts. Raises `ArrowInvalid` if a number would change."""
    match type_:
        case Plain(scalar):
            return _scalar_as_read(scalar, values)
        case EnumOf():
            return pc.cast(values, pa.string())
        case ListOf(item):
            return _items_as_read(item, values)
        case VectorOf():
            return _items_as_read(Scalar.F64, values)
        case _:
            assert_never(type_)


def _scalar_as_read(scalar: Scalar, values: pa.Array) -> pa.Array:
    match scalar:
        case Scalar.DATE | Scalar.DATETIME:
            if is_text(values.type):
                return pc.cast(values, pa.string())
            days = pa.types.is_date32(values.type)
            numbers = pc.cast(pc.cast(values, pa.int32()) if days else values, pa.int64())
            return pc.multiply_checked(numbers, 86_400_000) if days and scalar is Scalar.DATETIME else numbers
        case Scalar.F32:
            return pc.cast(values, pa.float64())
        case Scalar.BLOB:
            return pc.cast(values, pa.string() if is_text(values.type) else pa.large_binary())
        case _:
            return pc.cast(values, arrow_type(Plain(scalar)))


def _items_as_read(item: Scalar, values: pa.Array) -> pa.Array:
    lists = pc.cast(values, pa.list_(values.type.value_type))
    items = _decoded(lists.values)
    items = _scalar_as_read(item, _counted(item, items)[0] if _is_time(items.type) else items)
    validity, offsets = lists.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(items.type), len(lists), [validity, offsets], offset=lists.offset, children=[items])


def _from_times(property_: Property, values: pa.Array) -> ConvertedColumn:
    numbers, finer = _counted(_item(property_.type), values)
    return _without_finer(property_, from_arrow(property_, numbers), finer)


def _from_lists_of_times(property_: Property, values: pa.Array) -> ConvertedColumn:
    item = _item(property_.type)
    lists = pc.cast(values, pa.list_(values.type.value_type))
    _, finer = _counted(item, lists.flatten())
    rows = np.unique(np.asarray(pc.list_parent_indices(lists))[finer])
    return _without_finer(property_, from_arrow(property_, _items_as_read(item, lists)), rows)


def _item(type_: ValueType) -> Scalar:
    assert isinstance(type_, Plain | ListOf), "no other type suits a time"
    return type_.scalar if isinstance(type_, Plain) else type_.item


def _without_finer(property_: Property, converted: ConvertedColumn, finer: Places) -> ConvertedColumn:
    if _item(property_.type) is Scalar.DATE:
        why = "is a time of day other than midnight, and a Date has none; turn the column into dates first, or declare a DateTime"
    else:
        why = "is finer than a millisecond; round the column to milliseconds"
    refused = [(int(row), InvalidValue(ProblemCode.TEMPORAL, f"property '{property_.name}' value {why}")) for row in finer]
    return ConvertedColumn(converted.values, sorted([*refused, *converted.refused], key=lambda one: one[0]))


def _counted(scalar: Scalar, values: pa.Array) -> tuple[pa.Array, Places]:
    """Days or milliseconds since the epoch, as the scalar counts them, and the rows that would lose precision. No zone means UTC."""
    per_second = 1000 if pa.types.is_date64(values.type) else _PER_SECOND[values.type.unit]
    per = per_second * _SECONDS_A_DAY if scalar is Scalar.DATE else per_second / 1000
    numbers = values.view(pa.int64())
    if per <= 1:
        return pc.multiply_checked(numbers, int(1 / per)), np.zeros(0, np.int64)
    whole, finer = np.divmod(numbers.fill_null(0).to_numpy(), int(per))
    return pa.array(whole, mask=np.asarray(values.is_null())), np.flatnonzero(finer)


def _parsed(type_: ValueType, cells: pa.Array) -> pa.Array:
    """Parse cells for `column`. Raises `NeedsExactParser` if a cell is not written as in JSON."""
    match type_:
        case Plain(Scalar.BOOL):
            _require(pa.array(is_in(cells, pa.array(["true", "false", None]))))
            return pc.equal(cells, "true")
        case Plain(Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64):
            _require(pc.match_substring_regex(cells, _WHOLE))
            return pc.cast(cells, arrow_type(type_))
        case Plain(Scalar.F32 | Scalar.F64):
            _require(pc.match_substring_regex(cells, _NUMBER))
            return pc.cast(cells, pa.float64())
        case Plain() | EnumOf():
            return cells
        case ListOf() | VectorOf():
            raise NeedsExactParser  # JSON inside a cell is read one by one
        case _:
            assert_never(type_)


def _require(mask: pa.Array) -> None:
    if pc.all(mask).as_py() is False:
        raise NeedsExactParser


# -- one by one


def _one_by_one(
    property_: Property, values: Iterable[object], token: Callable[[object], object], external: ReadExternal
) -> ConvertedColumn:
    kept: list[object] = []
    refused: list[tuple[int, InvalidValue]] = []
    for row, value in enumerate(values):
        try:
            kept.append(stored(property_, None if value is None else token(value), external))
        except InvalidValue as error:
            kept.append(None)
            refused.append((row, error))
    type_ = arrow_type(property_.type)
    return ConvertedColumn(pa.array(kept, plain_type(type_)).cast(type_), refused)


def _from_python(value: object) -> object:
    """A value of an Arrow column as a JSON record has it."""
    match value:
        case bool() | str() | bytes() | None:
            return value
        case int() | Decimal():
            return Whole(int(value))
        case float():
            return Real(repr(value))
        case list():
            return [_from_python(item) for item in value]
        case _:
            raise InvalidValue(ProblemCode.TYPE, f"a value of type {type(value).__name__} cannot be stored")


def _from_cell(property_: Property, text: str) -> object:
    match property_.type:
        case Plain(Scalar.BOOL):
            return {"true": True, "false": False}.get(text, text)
        case Plain(Scalar.STRING | Scalar.BLOB) | EnumOf():
            return text
        case Plain():
            return _number(text) or text
        case ListOf() | VectorOf():
            try:
                return loads(text)
            except (ValueError, RecursionError) as error:
                why = "it is nested too deeply" if isinstance(error, RecursionError) else error
                raise InvalidValue(ProblemCode.JSON, f"property '{property_.name}' expects a JSON array in its cell: {why}") from error
        case _:
            assert_never(property_.type)


def _number(text: str) -> Whole | Real | None:
    if re.fullmatch(_WHOLE, text, re.ASCII):
        return Whole(text)
    return Real(text) if re.fullmatch(_NUMBER, text, re.ASCII) else None
