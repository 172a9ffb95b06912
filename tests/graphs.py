"""Small real graphs for tests: one node table, made through the manifest's own door."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa

from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.birth import NewTable, create_graph, new_table_id, open_graph
from omnigraph.manifest.model import CommitKind, SchemaText, TableRow
from omnigraph.manifest.publish import Preconditions, Publication, PublishResult, hold, publish
from omnigraph.manifest.read import Manifest
from omnigraph.store import stage
from omnigraph.store.root import open_root
from omnigraph.store.tables import Tables

COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
SCHEMA = SchemaText("node Person { n: I64? }", '{"nodes": ["Person"]}')
PERSON = "node:Person"
COMPANY = "node:Company"


def tables(*aliases: str) -> list[NewTable]:
    return [NewTable(new_table_id(f"{at:016x}"), alias, "nodes", COLUMNS) for at, alias in enumerate(aliases)]


def make(uri: Path | str, *aliases: str, storage_options: Mapping[str, str] | None = None) -> Manifest:
    root = open_root(uri, storage_options=storage_options)
    return create_graph(root, schema=SCHEMA, tables=tables(*(aliases or (PERSON,))), actor="act-test")


def reopen(uri: Path | str, *, storage_options: Mapping[str, str] | None = None) -> Manifest:
    return open_graph(open_root(uri, storage_options=storage_options))


def row_of(manifest: Manifest, alias: str = PERSON, *, branch: BranchName = MAIN) -> TableRow:
    row = manifest.snapshot(branch).state.table(alias)
    assert row is not None
    return row


def people(*ids: str, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=COLUMNS)


def add(manifest: Manifest, *ids: str, branch: BranchName = MAIN, alias: str = PERSON, token: str | None = None) -> PublishResult:
    """One write as a caller would do it without the write protocol: lock, stage, commit, publish."""
    with hold(manifest, branch) as grant:
        found, _, state = manifest.look(branch)
        row = state.table(alias)
        assert row is not None
        table = Tables(manifest.root).open(row.ref)
        staged = stage.upsert(table, people(*ids))
        assert staged is not None
        moved = stage.commit(staged)
        after = msgspec.structs.replace(row, version=moved.ref.version, rows=row.rows + staged.counts.inserted)
        expect = Preconditions(branch=found, epoch=grant.epoch, tables={row.id: row.version})
        return publish(manifest, Publication(CommitKind.MUTATE, tables=(after,), expect=expect, token=token), branch=branch)


def note(manifest: Manifest, message: str, *, branch: BranchName = MAIN, token: str | None = None) -> PublishResult:
    """A commit that moves no table."""
    return publish(manifest, Publication(CommitKind.LOAD, message=message, token=token), branch=branch)


def ids_in(manifest: Manifest, *, branch: BranchName = MAIN, alias: str = PERSON) -> set[str]:
    table = Tables(manifest.root).open(row_of(manifest, alias, branch=branch).ref)
    return set(table.scan(["id"]).read_all().column("id").to_pylist())
