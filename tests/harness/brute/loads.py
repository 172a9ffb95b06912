"""Lines of data and a mode -> the data after a load, and how many rows of each type came."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, TypeKind
from omnigraph.errors import InvalidInput, KeyConflict, Kind
from omnigraph.ids import new_ulid
from tests.harness.brute.changes import unique_ends
from tests.harness.brute.data import Data, Row, id_of, read_value
from tests.harness.brute.validate import validate


class _Record(NamedTuple):
    """One line: what it names, and for an edge without an id nothing in place of it."""

    entity: EntityType
    id: str | None
    given: Row


def load(
    lines: str, mode: str, *, catalog: Catalog, data: Data, keys: Mapping[str, tuple[str, ...]]
) -> tuple[Data, Mapping[tuple[TypeKind, str], int]]:
    """`append`, `merge`, `upsert` or `overwrite`. The lines are taken to be well formed. `keys` are in declared order, by type."""
    records = [_record(json.loads(line), catalog, keys) for line in filter(None, map(str.strip, lines.split("\n")))]
    named = {(record.entity.kind, record.entity.name) for record in records} if mode == "overwrite" else set()
    tables: dict[tuple[TypeKind, str], dict[str, Row]] = {}
    entities: tuple[EntityType, ...] = (*catalog.nodes, *catalog.edges)
    for entity in entities:
        key = (entity.kind, entity.name)
        tables[key] = {} if key in named else {str(row["id"]): row for row in data.rows(entity)}
    before = {key: dict(rows) for key, rows in tables.items()}
    seen: set[tuple[TypeKind, str, str]] = set()
    for entity, given_id, given in records:
        key = (entity.kind, entity.name)
        id_ = given_id or _same_ends(entity, given, before[key], mode) or new_ulid()
        if (*key, id_) in seen:
            raise InvalidInput(Kind.VALIDATION, f"@unique violation on {entity.name}: '{id_}' comes twice")
        seen.add((*key, id_))
        if mode == "append" and id_ in before[key]:
            raise KeyConflict(Kind.KEY_CONFLICT, f"{entity.kind} type '{entity.name}' already has this id")
        kept = before[key].get(id_) if mode == "upsert" else None
        tables[key][id_] = {**(kept or {property_.name: None for property_ in entity.properties}), **given, "id": id_}
    after = Data(
        {node.name: list(tables[node.kind, node.name].values()) for node in catalog.nodes},
        {edge.name: list(tables[edge.kind, edge.name].values()) for edge in catalog.edges},
    )
    validate(catalog, data, after)
    return after, Counter((record.entity.kind, record.entity.name) for record in records)


def _same_ends(entity: EntityType, given: Row, rows: Mapping[str, Row], mode: str) -> str | None:
    """The edge with these ends, where there can be only one and it may be replaced."""
    if mode not in ("merge", "upsert") or not isinstance(entity, EdgeType) or not unique_ends(entity):
        return None
    ends = (given["src"], given["dst"])
    return next((id_ for id_, row in rows.items() if (row["src"], row["dst"]) == ends), None)


def _record(line: dict[str, Any], catalog: Catalog, keys: Mapping[str, tuple[str, ...]]) -> _Record:
    entity: EntityType | None = catalog.node(line["type"]) if "type" in line else catalog.edge(line["edge"])
    assert entity is not None
    data = dict(line.get("data", {}))
    id_ = data.pop("id", None)
    values: Row = {}
    for name, value in data.items():
        property_ = entity.property(name)
        if property_ is None:
            raise InvalidInput(Kind.VALIDATION, f"unknown input field '{name}' for '{entity.kind}:{entity.name}'")
        values[name] = read_value(value, property_.type)
    if isinstance(entity, EdgeType):
        columns = [keys.get(end, ()) for end in (entity.source, entity.target)]
        ends = {"src": _end(catalog, entity.source, line["from"], columns[0]), "dst": _end(catalog, entity.target, line["to"], columns[1])}
        return _Record(entity, id_, {**ends, **values})
    return _Record(entity, id_ if entity.key is None else id_of(entity, values), values)


def _end(catalog: Catalog, type_name: str, value: Any, columns: tuple[str, ...]) -> str:
    """An id, or the key as it is: a value, or the parts of a composite key by name or in declared order."""
    node = catalog.node(type_name)
    assert node is not None
    if isinstance(value, str) or node.key is None:
        return str(value)
    parts = value if isinstance(value, dict) else dict(zip(columns, value if isinstance(value, list) else [value], strict=True))
    row: Row = {}
    for name in columns:
        property_ = node.property(name)
        assert property_ is not None
        row[name] = read_value(parts[name], property_.type)
    return id_of(node, row)
