"""The ends of edges as they are written -> the ids of nodes: an id, or the value of the node's key as it is.

A text is an id. Anything else is the key: a number or a Bool, or for a composite key an object, or a list in the order of the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import derive_ids
from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.catalog.types import EnumOf, Plain, arrow_type
from omnigraph.exec.load.cells import ConvertedColumn, from_arrow, is_list, is_text, suits, texts
from omnigraph.exec.load.json_columns import Form, Forms, NeedsExactParser, column, read_type
from omnigraph.exec.load.json_values import InvalidValue, plain_type, shown, stored
from omnigraph.exec.problems import ProblemCode
from omnigraph.lang.tree import Scalar
from omnigraph.store.arrays import whole

FROM: Final = "from"
TO: Final = "to"

KeyValues = Mapping[str, object]
"""The stored values of a key, by column."""


def end_types(edge: EdgeType, catalog: Catalog) -> dict[str, NodeType]:
    """The node types at `from` and `to`."""
    ends = {FROM: catalog.node(edge.source), TO: catalog.node(edge.target)}
    return {name: node for name, node in ends.items() if node is not None}


# -- JSON, one by one


def end_value(node: NodeType, end: str, value: object) -> str | KeyValues:
    """One end of an edge: an id, or the values of a key. Raises `InvalidValue`."""
    if type(value) is str:
        return value
    key = _value_key(node)
    if key is None or value is None:
        raise InvalidValue(ProblemCode.ENVELOPE, f"field '{end}' must be a string, got {shown(value)}")
    try:
        return {property_.name: stored(property_, part) for property_, part in _parts(node, key, end, value)}
    except InvalidValue as error:
        raise InvalidValue(error.code, f"field '{end}': {error.message}") from error


def _parts(node: NodeType, key: Key, end: str, value: object) -> Iterator[tuple[Property, object]]:
    names = key.in_declared_order
    match value:
        case dict() if len(names) > 1 and value.keys() == set(names):
            named = value
        case list() if len(names) > 1 and len(value) == len(names):
            named = dict(zip(names, value, strict=True))
        case _ if len(names) == 1:
            named = {names[0]: value}
        case _:
            wanted = f"the parts of the key ({', '.join(names)}) of {node.name}, as an object or a list"
            raise InvalidValue(ProblemCode.ENVELOPE, f"give {wanted}, or an id; got {shown(value)}")
    by_name = {property_.name: property_ for property_ in _key_properties(node, key)}
    return ((by_name[name], named[name]) for name in names)


def end_ids(node: NodeType, values: Sequence[str | KeyValues]) -> pa.Array:
    """The ids of ends that were read one by one."""
    places = [place for place, value in enumerate(values) if not isinstance(value, str)]
    if not places:
        return pa.array(values, pa.string())
    assert node.key is not None, "only the end of a node with a key has values"
    keys = [value for value in values if not isinstance(value, str)]
    types = {property_.name: arrow_type(property_.type) for property_ in _key_properties(node, node.key)}
    parts = {name: pa.array([key[name] for key in keys], plain_type(type_)).cast(type_) for name, type_ in types.items()}
    ids: list[object] = list(values)
    for place, id_ in zip(places, whole(derive_ids(node.key, pa.table(parts))).to_pylist(), strict=True):
        ids[place] = id_
    return pa.array(ids, pa.string())


# -- JSON, whole columns


def end_forms(record: Mapping[str, object]) -> Forms:
    """How a record writes its ends, apart from ids."""
    forms = {}
    for name in (FROM, TO):
        if isinstance(value := record.get(name), dict):
            forms[name] = Form.OBJECT
        elif type(value) is not str:
            forms[name] = Form.NUMBER
    return forms


def end_type(node: NodeType, form: Form) -> pa.DataType:
    """The type that pyarrow parses an end as."""
    key = _value_key(node)
    if form is Form.TEXT or key is None:
        return pa.string()
    parts = _key_properties(node, key)
    if form is Form.NUMBER:
        return read_type(parts[0], {parts[0].name: Form.NUMBER}) if len(parts) == 1 else pa.string()
    return pa.struct([pa.field(part.name, read_type(part, {})) for part in parts])


def end_column(node: NodeType, values: pa.Array) -> pa.Array:
    """The ids of ends that pyarrow parsed as `end_type`. Raises `NeedsExactParser`."""
    if pa.types.is_string(values.type):
        return values
    assert node.key is not None, "only the end of a node with a key has values"
    parts = _key_properties(node, node.key)
    columns = values.flatten() if pa.types.is_struct(values.type) else [values]
    if values.null_count or any(part.null_count for part in columns):
        raise NeedsExactParser
    read = {property_.name: column(property_, part) for property_, part in zip(parts, columns, strict=True)}
    return whole(derive_ids(node.key, pa.table(read)))


# -- columns of tables


def suits_end(node: NodeType, found: pa.DataType) -> bool:
    """True if a column of this Arrow type can hold ids, or the keys of a node type."""
    if suits(Plain(Scalar.STRING), found):
        return True
    key = _value_key(node)
    if key is None:
        return False
    parts = _key_properties(node, key)
    if len(parts) == 1:
        return suits(parts[0].type, found)
    if is_list(found):
        return all(suits(part.type, found.value_type) for part in parts)
    if not pa.types.is_struct(found):
        return False
    types = {field.name: field.type for field in found}
    return types.keys() == set(key.columns) and all(suits(part.type, types[part.name]) for part in parts)


def from_end(node: NodeType, end: str, values: pa.Array) -> ConvertedColumn:
    """Convert a column that suits the end of an edge to ids."""
    missing = np.asarray(values.is_null())
    refused = [(int(row), InvalidValue(ProblemCode.ENVELOPE, f"edge missing '{end}'")) for row in np.flatnonzero(missing)]
    if is_text(values.type) or pa.types.is_null(values.type) or pa.types.is_dictionary(values.type):
        return ConvertedColumn(texts(values), refused)
    assert node.key is not None, "only the end of a node with a key has values"
    rows = np.flatnonzero(~missing)
    parts: dict[str, pa.Array] = {}
    for property_, part in _part_columns(node, node.key, values.drop_null()):
        converted = from_arrow(property_, part)
        refused += [(int(rows[row]), InvalidValue(error.code, f"field '{end}': {error.message}")) for row, error in converted.refused]
        parts[property_.name] = converted.values
    good = np.flatnonzero(np.logical_and.reduce([np.asarray(part.is_valid()) for part in parts.values()]))
    places = np.full(len(values), -1)
    places[rows[good]] = np.arange(len(good))
    ids = whole(derive_ids(node.key, pa.table(parts).take(pa.array(good))))
    return ConvertedColumn(ids.take(pa.array(places, mask=places < 0)), sorted(refused, key=lambda one: one[0]))


def _part_columns(node: NodeType, key: Key, values: pa.Array) -> Iterator[tuple[Property, pa.Array]]:
    """The column of each part of a key. In a list of the wrong length every part is null, which is then refused."""
    parts = _key_properties(node, key)
    if pa.types.is_struct(values.type):
        yield from ((part, pc.struct_field(values, part.name)) for part in parts)
    elif is_list(values.type) and len(parts) > 1:
        lists = pc.cast(values, pa.list_(values.type.value_type))
        right = pc.equal(pc.list_value_length(lists), len(parts))
        lists = pc.if_else(right, lists, pa.scalar([None] * len(parts), lists.type))
        for part in parts:
            yield part, pc.list_element(lists, key.in_declared_order.index(part.name))
    else:
        yield parts[0], values


# -- keys


def _value_key(node: NodeType) -> Key | None:
    """The key of a node type if it can be written otherwise than as an id. A single String is its own id."""
    key = node.key
    if key is None or len(key.columns) > 1:
        return key
    (property_,) = _key_properties(node, key)
    return None if isinstance(property_.type, EnumOf) or property_.type == Plain(Scalar.STRING) else key


def _key_properties(node: NodeType, key: Key) -> list[Property]:
    found = [node.property(name) for name in key.columns]
    return [property_ for property_ in found if property_ is not None]
