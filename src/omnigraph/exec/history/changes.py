"""Rows before and after -> what changed, as values that a caller can show, store and send."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType
from omnigraph.exec.blobs import BASE64
from omnigraph.exec.history.pairs import ABSENT, PartOfRows, Side
from omnigraph.exec.read.result import shown


class Op(StrEnum):
    """What happened to an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class Endpoints(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The nodes of an edge."""

    from_: str
    to: str


class EntityImage(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entity at one moment: its properties as query results show them (blobs as base64 text), and for an edge its nodes."""

    properties: Mapping[str, Any]
    endpoints: Endpoints | None = None


class EntityChange(msgspec.Struct, frozen=True):
    """One changed entity. `before` is None for an insert, `after` for a delete."""

    kind: str
    type_name: str
    type_id: str
    id: str
    op: Op
    before: EntityImage | None
    after: EntityImage | None

    def __repr__(self) -> str:
        return f"EntityChange({self.op} {self.kind} {self.type_name} {self.id!r})"


def entity_changes(before: Side, after: Side, part: PartOfRows) -> Iterator[EntityChange]:
    """The changes of a part, in order. A type has the name that it has after the change."""
    entity = after.entity or before.entity
    assert entity is not None
    olds = images(before.entity or entity, part.before)
    news = images(after.entity or entity, part.after)
    has_old, has_new = (part.pairs.before != ABSENT).tolist(), (part.pairs.after != ABSENT).tolist()
    for id_, is_old, is_new, old, new in zip(part.pairs.ids.to_pylist(), has_old, has_new, olds, news, strict=True):
        op = Op.UPDATE if is_old and is_new else Op.DELETE if is_old else Op.INSERT
        yield EntityChange(entity.kind, entity.name, entity.id, id_, op, old if is_old else None, new if is_new else None)


def images(entity: EntityType, rows: pa.Table) -> Iterator[EntityImage]:
    """The images of rows of one type. Those of rows that do not exist have no meaning."""
    names = [property_.name for property_ in entity.properties]
    columns = [_values(rows.column(name)) for name in names]
    ends: Iterator[Any] = iter(())
    if isinstance(entity, EdgeType):
        ends = zip(rows.column(SOURCE).to_pylist(), rows.column(TARGET).to_pylist(), strict=True)
    for values in zip(*columns, strict=True) if columns else ((),) * len(rows.column(ID)):
        yield EntityImage(dict(zip(names, values, strict=True)), Endpoints(*end) if (end := next(ends, None)) is not None else None)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_large_binary(column.type):
        return shown(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))
    return [None if data is None else f"{BASE64}{base64.b64encode(data).decode()}" for data in column.to_pylist()]
