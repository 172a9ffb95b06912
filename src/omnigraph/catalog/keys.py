"""Key columns -> ids: one canonical spelling per value, whole Arrow columns at a time.

The same spelling makes the tuples that `@unique` compares, so both compare stored values in the same way.
The spelling of a stored id never changes: edges and users' files contain it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Key
from omnigraph.errors import InvalidInput, Kind

KeyRows: TypeAlias = pa.RecordBatch | pa.Table
KeyColumn: TypeAlias = pa.Array | pa.ChunkedArray

_SCIENTIFIC: Final = r"^(?P<sign>-?)(?P<whole>[0-9])\.?(?P<rest>[0-9]*)e(?P<exponent>-?[0-9]+)$"
_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
# The JSON escape of each character that a string cannot contain. The backslash is first, since the other escapes add some.
_ESCAPES: Final = {char: json.dumps(char)[1:-1] for char in ("\\", '"')}
_CONTROL_ESCAPES: Final = {char: json.dumps(char)[1:-1] for char in map(chr, range(0x20))}


def derive_ids(key: Key, rows: KeyRows) -> KeyColumn:
    """The ids of keyed nodes: the spelling of a single key column, or the JSON array of the spellings of several.

    Raises `InvalidInput` with facts `row` (from 0) and `property` for a null or a number that is not finite.
    """
    for name in key.columns:
        column = rows.column(name)
        if column.null_count:
            row = pc.index(pc.is_null(column), value=True).as_py()
            raise InvalidInput(Kind.VALIDATION, f"@key property '{name}' cannot contain null", row=row, property=name)
    return spell_tuples(key.columns, rows)


def spell_tuples(columns: Sequence[str], rows: KeyRows) -> KeyColumn:
    """One text per row that is equal exactly when the named values are equal, and null where one of them is null."""
    if len(columns) == 1:
        return spell(columns[0], rows)
    parts: list[KeyColumn | str] = []
    for name in columns:
        parts += (',"' if parts else '["', _escape(spell(name, rows), rows.schema.field(name).type), '"')
    return pc.binary_join_element_wise(*parts, "]", "")


def spell(name: str, rows: KeyRows) -> KeyColumn:
    """The canonical spelling of one column's values; null stays null. Facts of an error as in `derive_ids`."""
    column = rows.column(name)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    type_ = column.type
    if _is_text(type_) or pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return pc.cast(column, pa.string())
    if pa.types.is_date32(type_):
        return pc.cast(pc.cast(column, pa.int32()), pa.string())
    if pa.types.is_date64(type_):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    if pa.types.is_float32(type_) or pa.types.is_float64(type_):
        return _spell_floats(name, column)
    raise InvalidInput(Kind.VALIDATION, f"scalar key: unsupported column type {type_} of '{name}'", property=name)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _spell_floats(name: str, column: KeyColumn) -> KeyColumn:
    """The shortest decimal that reads back as the same number of the same width, never with an exponent."""
    row = pc.index(pc.is_finite(column), value=False).as_py()
    if row >= 0:
        raise InvalidInput(Kind.VALIDATION, f"scalar key: non-finite value in '{name}'", row=row, property=name)
    positive_zero = pc.add(column, pa.scalar(0.0, column.type))
    text = pc.cast(positive_zero, pa.string())
    if isinstance(text, pa.ChunkedArray):
        return pa.chunked_array([_without_exponents(chunk) for chunk in text.chunks], pa.string())
    return _without_exponents(text)


class _Scientific(NamedTuple):
    """Numbers in parts: a sign, all digits, and how many digits stand before the point (or zeros after it, negative)."""

    sign: pa.Array
    digits: pa.Array
    point: pa.Array


def _without_exponents(text: pa.Array) -> pa.Array:
    scientific = pc.match_substring(text, "e")
    if not pc.any(scientific).as_py():
        return text
    number = _take_apart(text.filter(scientific))
    beyond = pc.subtract(number.point, pc.utf8_length(number.digits))
    spelled = pc.binary_join_element_wise(number.digits, _zeros(beyond), "")
    small = pc.binary_join_element_wise("0.", _zeros(pc.negate(number.point)), number.digits, "")
    spelled = pc.if_else(pc.less_equal(number.point, 0), small, spelled)
    # The point falls between the digits. Doubles have 17 digits, so it can fall in 16 places at most.
    between = pc.and_(pc.greater(number.point, 0), pc.less(beyond, 0))
    for point in pc.unique(number.point.filter(between)).to_pylist():
        split = pc.binary_join_element_wise(
            pc.utf8_slice_codeunits(number.digits, 0, point), pc.utf8_slice_codeunits(number.digits, point), "."
        )
        spelled = pc.if_else(pc.and_(between, pc.equal(number.point, point)), split, spelled)
    spelled = pc.binary_join_element_wise(number.sign, spelled, "")
    return pc.replace_with_mask(text, scientific, spelled)


def _take_apart(text: pa.Array) -> _Scientific:
    parts = pc.extract_regex(pc.replace_substring(text, "e+", "e"), _SCIENTIFIC)
    digits = pc.binary_join_element_wise(parts.field("whole"), parts.field("rest"), "")
    exponent = pc.cast(parts.field("exponent"), pa.int32())
    return _Scientific(parts.field("sign"), digits, pc.add(exponent, pa.scalar(1, pa.int32())))


def _zeros(count: pa.Array) -> pa.Array:
    return pc.binary_repeat("0", pc.max_element_wise(count, 0))


def _escape(text: KeyColumn, type_: pa.DataType) -> KeyColumn:
    """The text as it stands between the quotes of a JSON string. Spelled numbers and dates have nothing to escape."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if not _is_text(type_) or not pc.any(pc.match_substring_regex(text, _NEEDS_ESCAPE)).as_py():
        return text
    escapes = dict(_ESCAPES)
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        escapes |= _CONTROL_ESCAPES
    for char, escaped in escapes.items():
        text = pc.replace_substring(text, char, escaped)
    return text
