"""A graph -> what is wrong with it, if anything: versions, ids, endpoints, native branches, intents. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.catalog.tables import ID, SOURCE, TARGET
from omnigraph.errors import OmniGraphError
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Manifest, Snapshot
from omnigraph.manifest.registry import list_branches
from omnigraph.store.tables import Tables

CatalogOf = Callable[[Snapshot], Catalog]


class Severity(StrEnum):
    """An error is a broken promise; a warning is something that waits to be tidied up."""

    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    severity: Severity
    code: str
    message: str
    where: str


def verify(manifest: Manifest, tables: Tables, catalog_of: CatalogOf) -> list[Finding]:
    """Check every branch and every table. An empty list is a sound graph."""
    findings: list[Finding] = []
    moving: set[TableRow] = set()
    try:
        for intent in intents.pending(manifest.root.objects):
            where = intents.path_of(intent.operation)
            findings.append(Finding(Severity.WARNING, "pending_intent", f"a write to {intent.branch.name!r} waits to be resolved", where))
            moving |= {table.before for table in intent.tables}
    except OmniGraphError as error:
        findings.append(Finding(Severity.ERROR, error.kind.value, error.message, intents.FOLDER))
    for name in (MAIN, *list_branches(manifest.root.objects)):
        findings += _branch(manifest, tables, name, catalog_of, moving)
    return findings


def _branch(manifest: Manifest, tables: Tables, name: BranchName, catalog_of: CatalogOf, moving: Collection[TableRow]) -> Iterator[Finding]:
    try:
        snapshot = manifest.snapshot(name)
        catalog = catalog_of(snapshot)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, name)
        return
    ids: dict[str, pa.Array] = {}
    for row in snapshot.state.tables.values():
        if not row.dropped:
            # A table that is only inherited moves on with its owner, and one that an intent names may have moved already.
            settled = row.owner == snapshot.branch.native and row not in moving
            yield from _table(tables, row, f"{name}:{row.alias}", ids, settled=settled)
    for edge in catalog.edges:
        yield from _edges(tables, snapshot, edge, name, ids)


def _table(tables: Tables, row: TableRow, where: str, ids: dict[str, pa.Array], *, settled: bool) -> Iterator[Finding]:
    try:
        table = tables.open(row.ref)
        if settled and (head := table.head()) != row.version:
            yield Finding(Severity.ERROR, "uncovered_drift", f"HEAD is {head}, the graph shows {row.version}", where)
        found = table.scan([ID]).read_all().column(ID)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, where)
        return
    ids[row.alias] = found.combine_chunks()
    if len(found) != row.rows:
        yield Finding(Severity.ERROR, "row_count", f"{len(found)} rows, the graph says {row.rows}", where)
    if (distinct := pc.count_distinct(found).as_py()) != len(found):
        yield Finding(Severity.ERROR, "duplicate_id", f"{len(found) - distinct} rows repeat an id", where)


def _edges(tables: Tables, snapshot: Snapshot, edge: EdgeType, name: BranchName, ids: dict[str, pa.Array]) -> Iterator[Finding]:
    row = snapshot.state.table(f"edge:{edge.name}")
    if row is None or f"edge:{edge.name}" not in ids:
        return
    ends = tables.open(row.ref).scan([SOURCE, TARGET]).read_all()
    for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
        known = ids.get(f"node:{node}")
        if known is None:
            continue
        lost = ends.column(column).filter(pc.invert(pc.is_in(ends.column(column), value_set=known)))
        if len(lost):
            message = f"{len(lost)} edges have a {column} that is no {node}, e.g. {lost[0].as_py()!r}"
            yield Finding(Severity.ERROR, "dangling_edge", message, f"{name}:edge:{edge.name}")
