"""An engine that only reads: lines of data in memory, asked through the brute-force evaluation of rewritten plans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NoReturn

import msgspec

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.model import EntityType, TypeKind
from omnigraph.catalog.types import ListOf, Plain, ValueType, VectorOf
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_queries, parse_schema, select_query
from omnigraph.lang.tree import Scalar
from omnigraph.plan.check import check_read
from omnigraph.plan.lower import lower
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.rules import optimize
from omnigraph.plan.statistics import NO_STATISTICS
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.values import stored
from omnigraph.testing.engine import Counts, SpecGraph, Table
from tests.unit.plan.evaluate import Graph, rows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ReadModel:
    """Makes graphs in memory."""

    def graph(self, schema: str, data: str) -> SpecGraph:
        catalog = build_catalog(parse_schema(schema), mint=new_hex16)
        return ModelGraph(catalog, _loaded(data, catalog))


class ModelGraph:
    """A graph that can only be read."""

    def __init__(self, catalog: Catalog, graph: Graph) -> None:
        self.catalog = catalog
        self.rows = graph

    def query(self, source: str, *, name: str | None, params: object) -> Table:
        read = check_read(select_query(parse_queries(source), name), self.catalog)
        logical = lower(read, bind_parameters(read.parameters, params), now_ms=0)
        # Literals take the type of the column they are compared with in a rewrite, so the rewritten plan is the meaning.
        logical = msgspec.structs.replace(logical, root=optimize(logical.root, NO_STATISTICS))
        types = [output.type for output in read.outputs]
        rows = (tuple(_shown(value, type_) for value, type_ in zip(row, types, strict=True)) for row in rows_of(logical, self.rows))
        return Table(tuple(output.name for output in read.outputs), tuple(rows))

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts:
        self._refuse()

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        self._refuse()

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        self._refuse()

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        self._refuse()

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise NotImplementedError("the model only reads")


def _loaded(data: str, catalog: Catalog) -> Graph:
    nodes: dict[str, dict[str, Any]] = {node.name: {} for node in catalog.nodes}
    edges: dict[str, dict[str, Any]] = {edge.name: {} for edge in catalog.edges}
    for line in filter(None, map(str.strip, data.split("\n"))):
        row = json.loads(line)
        given = row.get("data", {})
        if "type" in row:
            node = catalog.node(row["type"])
            assert node is not None
            assert node.key is not None
            (key,) = node.key.columns
            nodes[node.name][given[key]] = _values(given, node)
        else:
            edge = catalog.edge(row["edge"])
            assert edge is not None
            edges[edge.name][given.get("id", line)] = {"src": row["from"], "dst": row["to"], **_values(given, edge)}
    return Graph(nodes, edges)


def _values(given: dict[str, Any], entity: EntityType) -> dict[str, Any]:
    return {property_.name: _read(given.get(property_.name), property_.type) for property_ in entity.properties}


def _read(value: Any, type_: ValueType) -> Any:
    match type_:
        case Plain(Scalar.DATE) if value is not None:
            return parse_date(value)
        case Plain(Scalar.DATETIME) if value is not None:
            return parse_datetime(value)
        case _:
            return stored(tuple(value) if isinstance(value, list) else value, type_)


def _shown(value: Any, type_: ValueType) -> object:
    """A value as results show it."""
    match type_:
        case _ if value is None:
            return None
        case Plain(Scalar.DATE):
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case Plain(Scalar.DATETIME):
            return (EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case ListOf() | VectorOf():
            return list(value)
        case _:
            return value
