"""Lines of data + a catalog -> the first thing in them that no load could take: what a careless case gets wrong."""

from __future__ import annotations

import json

from omnigraph.catalog.model import Catalog, EntityType
from tests.harness.document import MalformedSpec, Section


def check_lines(section: Section, catalog: Catalog, *, partial: bool = False) -> MalformedSpec | None:
    """Names and, unless the lines may be `partial`, required properties: what values mean is the engine's to say."""
    for number, line in enumerate(section.text.split("\n"), start=1):
        if line.strip() and (problem := _problem(line, catalog, partial=partial)) is not None:
            return section.wrong(problem, below=number)
    return None


def _problem(line: str, catalog: Catalog, *, partial: bool) -> str | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        return f"a line of data is one JSON object: {error.msg}"
    if not isinstance(row, dict) or ("type" in row) == ("edge" in row):
        return 'a line of data is an object with a "type" or an "edge"'
    entity: EntityType | None = catalog.node(str(row["type"])) if "type" in row else catalog.edge(str(row["edge"]))
    if entity is None:
        return f"the schema has no {'node type' if 'type' in row else 'edge type'} {row.get('type', row.get('edge'))!r}"
    if "edge" in row and not ("from" in row and "to" in row):
        return 'an edge has a "from" and a "to"'
    return _data_problem(row.get("data", {}), entity, partial=partial)


def _data_problem(data: object, entity: EntityType, *, partial: bool) -> str | None:
    if not isinstance(data, dict):
        return '"data" is an object'
    known = {"id", *(property_.name for property_ in entity.properties)}
    for name in data:
        if name not in known:
            return f"{entity.kind} type {entity.name} has no property {name!r}"
    for property_ in () if partial else entity.properties:
        if not property_.nullable and property_.embed is None and data.get(property_.name) is None:
            return f"{entity.kind} type {entity.name} needs property {property_.name!r}"
    return None
