"""Rows in dicts -> a real graph: written past validation, so that whatever a reader may meet can be put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType, TypeKind
from omnigraph.exec.write.protocol import Append, Change, DeleteKeys, Prepared, Request, Upsert, write
from omnigraph.graph import Graph, init
from omnigraph.ids import MAIN, BranchName, TableId
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.expr import Value
from tests.harness.brute.data import Data, Row
from tests.harness.random.graphs import Edit


def land(folder: Path, schema: str, data: Data) -> Graph:
    """A new graph that holds these rows, in one commit."""
    graph = init(folder, schema=schema)
    entities: tuple[EntityType, ...] = (*graph.catalog.nodes, *graph.catalog.edges)
    _commit(graph, {(entity.kind, entity.name): Append(_arrow(entity, rows)) for entity in entities if (rows := data.rows(entity))})
    return graph


def apply(graph: Graph, edit: Edit, *, branch: str = MAIN) -> None:
    """An edit as two commits: what goes, then what comes."""
    _commit(graph, {table: DeleteKeys(pa.array(ids, pa.string())) for table, ids in edit.removes.items() if ids}, branch=branch)
    puts: dict[tuple[TypeKind, str], Change] = {}
    for table, rows in edit.puts.items():
        if rows:
            kind, name = table
            entity = graph.catalog.node(name) if kind is TypeKind.NODE else graph.catalog.edge_named(name)
            assert entity is not None
            puts[table] = Upsert(_arrow(entity, rows))
    _commit(graph, puts, branch=branch)


def _commit(graph: Graph, changes: Mapping[tuple[TypeKind, str], Change], *, branch: str = MAIN) -> None:
    def prepare(snapshot: BranchSnapshot) -> Prepared:
        return Prepared({_table(snapshot, *table): change for table, change in changes.items()})

    write(graph.engine, Request(CommitKind.LOAD, branch=BranchName(branch)), prepare)


def _table(snapshot: BranchSnapshot, kind: TypeKind, name: str) -> TableId:
    row = snapshot.state.table(f"{kind}:{name}")
    assert row is not None
    return row.id


def _arrow(entity: EntityType, rows: Sequence[Row]) -> pa.Table:
    schema = table_schema(entity)
    return pa.table([pa.array([_plain(row[field.name]) for row in rows], field.type) for field in schema], schema=schema)


def _plain(value: Value) -> object:
    return list(value) if isinstance(value, tuple) else value
