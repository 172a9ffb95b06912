"""Lines of data <-> rows in memory: a dict for every node and edge, each value as a column holds it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias, assert_never

import msgspec
import numpy as np

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf
from omnigraph.ids import new_ulid
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.values import stored

Row: TypeAlias = dict[str, Value]
"""One entity: `id`, for an edge `src` and `dst`, and every property. Dates are days, times milliseconds since 1970."""

_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Data(msgspec.Struct, frozen=True):
    """All rows by the name of their type; a type without rows has an empty list."""

    nodes: dict[str, list[Row]]
    edges: dict[str, list[Row]]

    def rows(self, entity: EntityType) -> list[Row]:
        return self.nodes[entity.name] if isinstance(entity, NodeType) else self.edges[entity.name]


def no_data(catalog: Catalog) -> Data:
    return Data({node.name: [] for node in catalog.nodes}, {edge.name: [] for edge in catalog.edges})


# lines -> rows


def read_lines(lines: str, catalog: Catalog) -> Data:
    """The rows that NDJSON lines make in an empty graph. The lines are taken to be right: nothing is validated."""
    data = no_data(catalog)
    for line in filter(None, map(str.strip, lines.split("\n"))):
        record = json.loads(line)
        given = record.get("data", {})
        entity: EntityType | None = catalog.node(record["type"]) if "type" in record else catalog.edge(record["edge"])
        assert entity is not None
        values = {property_.name: read_value(given.get(property_.name), property_.type) for property_ in entity.properties}
        id_ = given.get("id") or id_of(entity, values)
        match entity:
            case NodeType():
                data.nodes[entity.name].append({"id": id_, **values})
            case EdgeType():
                data.edges[entity.name].append({"id": id_, "src": record["from"], "dst": record["to"], **values})
            case _:
                assert_never(entity)
    return data


def read_value(value: Any, type_: ValueType) -> Value:
    """A JSON value as a column of this type holds it."""
    match type_:
        case _ if value is None:
            return None
        case Plain(Scalar.DATE | Scalar.DATETIME as scalar):
            return _read_moment(value, scalar)
        case ListOf(Scalar.DATE | Scalar.DATETIME as scalar):
            return tuple(_read_moment(item, scalar) for item in value)
        case _:
            return stored(tuple(value) if isinstance(value, list) else value, type_)


def _read_moment(value: str | int, scalar: Scalar) -> int:
    if isinstance(value, int):
        return value
    moment = parse_date(value) if scalar is Scalar.DATE else parse_datetime(value)
    assert moment is not None, value
    return moment


def id_of(entity: EntityType, values: Row) -> str:
    """The spelling of the key, or a new id where there is none."""
    if not isinstance(entity, NodeType) or entity.key is None:
        return new_ulid()
    parts = []
    for name in entity.key.columns:
        property_ = entity.property(name)
        assert property_ is not None
        parts.append(_spelled(values[name], property_.type))
    return parts[0] if len(parts) == 1 else json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _spelled(value: Value, type_: ValueType) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            shortest = repr(value) if type_ == Plain(Scalar.F64) else str(np.float32(value))
            text = format(Decimal(shortest), "f")
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return "0" if text == "-0" else text
        case _:
            return str(value)


# rows -> lines


def write_lines(data: Data, catalog: Catalog) -> str:
    """The rows as NDJSON, nodes first, ids included: what a load would take to make the same graph."""
    return "\n".join(_lines(data, catalog))


def _lines(data: Data, catalog: Catalog) -> Iterator[str]:
    for node in catalog.nodes:
        for row in data.nodes[node.name]:
            yield json.dumps({"type": node.name, "data": _given(row, node)}, ensure_ascii=False)
    for edge in catalog.edges:
        for row in data.edges[edge.name]:
            line = {"edge": edge.name, "from": row["src"], "to": row["dst"], "data": _given(row, edge)}
            yield json.dumps(line, ensure_ascii=False)


def _given(row: Row, entity: EntityType) -> dict[str, object]:
    shown = {property_.name: shown_value(row[property_.name], property_.type) for property_ in entity.properties}
    return {"id": row["id"], **{name: value for name, value in shown.items() if value is not None}}


# values -> results


def shown_value(value: Value, type_: ValueType) -> object:
    """A value as results show it in JSON."""
    match type_:
        case _ if value is None:
            return None
        case Plain(scalar):
            assert not isinstance(value, tuple)
            return _shown_atom(value, scalar)
        case ListOf(scalar):
            assert isinstance(value, tuple)
            return [_shown_atom(item, scalar) for item in value]
        case VectorOf():
            assert isinstance(value, tuple)
            return list(value)
        case EnumOf():
            return value
        case _:
            assert_never(type_)


def _shown_atom(value: Atom, scalar: Scalar) -> object:
    match scalar:
        case Scalar.DATE:
            assert isinstance(value, int)
            return (_EPOCH_DAY + timedelta(days=value)).isoformat()
        case Scalar.DATETIME:
            assert isinstance(value, int)
            return (_EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case Scalar.F32 | Scalar.F64 if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value
