"""The data before and after a change -> nothing, or the first rule of the schema that the change breaks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.types import EnumOf
from omnigraph.errors import InvalidInput, Kind
from tests.harness.brute.data import Data, Row


def validate(catalog: Catalog, before: Data, after: Data) -> None:
    """Rows that were there are right; what is new or changed is looked at, and what may depend on it."""
    entities: tuple[EntityType, ...] = (*catalog.nodes, *catalog.edges)
    for entity in entities:
        old = {str(row["id"]): row for row in before.rows(entity)}
        changed = [row for row in after.rows(entity) if old.get(str(row["id"])) != row]
        for problem in (*_values(entity, changed), *_unique(entity, after.rows(entity))):
            raise _broken(problem)
    for edge in catalog.edges:
        for problem in (*_ends(edge, before, after), *_cardinality(edge, before, after)):
            raise _broken(problem)


def _broken(problem: str) -> InvalidInput:
    return InvalidInput(Kind.VALIDATION, problem)


def _values(entity: EntityType, rows: list[Row]) -> Iterator[str]:
    for row in rows:
        for property_ in entity.properties:
            value = row[property_.name]
            if value is None and not property_.nullable:
                yield f"{entity.name} '{row['id']}' misses required property '{property_.name}'"
            if isinstance(property_.type, EnumOf) and value is not None and value not in property_.type.values:
                options = ", ".join(property_.type.values)
                yield f"invalid enum value '{value}' for {entity.name}.{property_.name} (expected: {options})"
        if isinstance(entity, NodeType):
            yield from _ranges(entity, row)


def _ranges(node: NodeType, row: Row) -> Iterator[str]:
    for range_ in node.ranges:
        value = row[range_.property]
        if isinstance(value, int | float) and range_.low is not None and value < range_.low:
            yield f"@range violation on {node.name}.{range_.property}: value {value} < min {range_.low}"
        if isinstance(value, int | float) and range_.high is not None and value > range_.high:
            yield f"@range violation on {node.name}.{range_.property}: value {value} > max {range_.high}"
    for check in node.checks:
        value = row[check.property]
        if isinstance(value, str) and re.search(check.pattern, value) is None:
            yield f"@check violation on {node.name}.{check.property}"


def _unique(entity: EntityType, rows: list[Row]) -> Iterator[str]:
    for unique in entity.uniques:
        holders: dict[tuple[object, ...], list[object]] = {}
        for row in rows:
            holders.setdefault(tuple(row[column] for column in unique.columns), []).append(row["id"])
        for values, ids in holders.items():
            if None not in values and len(ids) > 1:
                shown = f"value '{_joined(values)}' held by '{ids[0]}' and '{ids[1]}'"
                yield f"@unique violation on {entity.name}.{_joined(unique.columns)}: {shown}"


def _joined(parts: tuple[object, ...]) -> str:
    return str(parts[0]) if len(parts) == 1 else f"({', '.join(map(str, parts))})"


def _ends(edge: EdgeType, before: Data, after: Data) -> Iterator[str]:
    """An edge that was loose before may stay so; nothing else may be."""
    loose = {str(row["id"]): {*_loose(edge, row, before)} for row in before.edges[edge.name]}
    for row in after.edges[edge.name]:
        yield from (problem for problem in _loose(edge, row, after) if problem not in loose.get(str(row["id"]), ()))


def _loose(edge: EdgeType, row: Row, data: Data) -> Iterator[str]:
    if all(node["id"] != row["src"] for node in data.nodes[edge.source]):
        yield f"src '{row['src']}' not found in {edge.source}"
    if all(node["id"] != row["dst"] for node in data.nodes[edge.target]):
        yield f"dst '{row['dst']}' not found in {edge.target}"


def _cardinality(edge: EdgeType, before: Data, after: Data) -> Iterator[str]:
    """Of the sources that gained or lost an edge and are still there."""
    old, new = (Counter(row["src"] for row in data.edges[edge.name]) for data in (before, after))
    alive = {row["id"] for row in after.nodes[edge.source]}
    for source in alive & {source for source in (*old, *new) if old[source] != new[source]}:
        count = new[source]
        has = f"@card violation on edge {edge.name}: source '{source}' has {count} edge{'' if count == 1 else 's'}"
        if edge.cardinality.high is not None and count > edge.cardinality.high:
            yield f"{has} (max {edge.cardinality.high})"
        if count < edge.cardinality.low:
            yield f"{has} (min {edge.cardinality.low})"
