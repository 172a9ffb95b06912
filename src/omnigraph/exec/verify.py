"""A graph -> what is wrong with it, if anything: versions, columns, ids, endpoints, native branches, intents. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.catalog.tables import ID, PROPERTY_MARK, SOURCE, TARGET, table_schema
from omnigraph.errors import Kind, OmniGraphError
from omnigraph.exec.statistics import live_tables
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Manifest, Snapshot
from omnigraph.manifest.registry import list_branches
from omnigraph.store.intact import damaged_indexes
from omnigraph.store.refs import native_refs
from omnigraph.store.tables import Table, Tables, home

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
    findings = list(_intents(manifest))
    for name in (MAIN, *list_branches(manifest.root.objects)):
        findings += _branch(manifest, tables, name, catalog_of)
    findings += _unused(manifest)
    return findings


def _intents(manifest: Manifest) -> Iterator[Finding]:
    try:
        for intent in intents.pending(manifest.root.objects):
            where = intents.path_of(intent.operation)
            yield Finding(Severity.WARNING, "pending_intent", f"a write to {intent.branch.name!r} waits to be resolved", where)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, intents.FOLDER)


def _branch(manifest: Manifest, tables: Tables, name: BranchName, catalog_of: CatalogOf) -> Iterator[Finding]:
    try:
        snapshot = manifest.snapshot(name)
        catalog = catalog_of(snapshot)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, name)
        return
    ids: dict[str, pa.Array] = {}
    for type_id, row in live_tables(snapshot.state).items():
        yield from _guarded(f"{name}:{row.alias}", _table(manifest, tables, snapshot, row, catalog.by_id(type_id), ids))
    for edge in catalog.edges:
        yield from _guarded(f"{name}:edge:{edge.name}", _edges(tables, snapshot, edge, ids))


def _unused(manifest: Manifest) -> Iterator[Finding]:
    """Table folders and native branches that no live branch shows and no intent names: left by the dead, waiting for cleanup."""
    objects = manifest.root.objects
    names = (MAIN, *list_branches(objects))
    try:
        # Intents first: a writer shows its work before it disarms.
        pending = intents.pending(objects)
        spoken_for = {table.base.home for intent in pending for table in intent.tables}
        shown = [row for name in names for row in manifest.snapshot(name).state.tables.values()]
    except OmniGraphError:
        return  # what cannot be read is a finding already; without it nothing can be called unused
    used = {row.path for row in shown} | {birth.row.path for intent in pending for birth in intent.births}
    homes = {row.ref.home for row in shown} | spoken_for
    for folder in ("nodes", "edges"):
        for path in (entry.rstrip("/") for entry in objects.list(folder)):
            if path not in used:
                yield Finding(Severity.WARNING, "unused_table", "no branch shows this table", path)
                continue
            for ref in native_refs(manifest.root, path):
                if home(path, ref) not in homes:
                    yield Finding(Severity.WARNING, "unused_ref", f"no branch shows native branch {ref}", path)


class _Wrong(NamedTuple):
    """What is wrong with one table; where it is, is added by who asked."""

    code: str
    message: str


def _guarded(where: str, wrongs: Iterator[_Wrong]) -> Iterator[Finding]:
    """The findings about one table. That it cannot be read is one of them."""
    try:
        for wrong in wrongs:
            yield Finding(Severity.ERROR, wrong.code, wrong.message, where)
    except OmniGraphError as error:
        yield Finding(Severity.ERROR, error.kind.value, error.message, where)


def _table(
    manifest: Manifest, tables: Tables, snapshot: Snapshot, row: TableRow, entity: EntityType | None, ids: dict[str, pa.Array]
) -> Iterator[_Wrong]:
    table = tables.open(row.ref)
    if (head := table.head()) != row.version and _uncovered(manifest, snapshot, row, head):
        yield _Wrong(Kind.DRIFT.value, f"HEAD is {head}, the graph shows {row.version}")
    if entity is not None:
        yield from _identities(table, entity)
    for damage in damaged_indexes(table, anew=True):
        index = f"index {damage.index.name} on {damage.index.column!r} in {damage.index.folder}"
        yield _Wrong("damaged_index", f"{index} is not used: {damage.reason}; `ensure_indices` builds it anew")
    found = table.scan([ID]).read_all().column(ID)
    ids[row.alias] = found.combine_chunks()
    if len(found) != row.rows:
        yield _Wrong("row_count", f"{len(found)} rows, the graph says {row.rows}")
    if (distinct := pc.count_distinct(found).as_py()) != len(found):
        yield _Wrong("duplicate_id", f"{len(found) - distinct} rows repeat an id")


def _identities(table: Table, entity: EntityType) -> Iterator[_Wrong]:
    """Each column holds the property that the schema says, by its identity: a name alone may be another property's."""
    wanted, here = ({field.name: field for field in schema} for schema in (table_schema(entity), table.schema))
    for name in sorted(wanted.keys() | here.keys()):
        if name not in here:
            wrong = "is missing"
        elif name not in wanted:
            wrong = "is not in the schema"
        elif (here[name].type, here[name].nullable) != (wanted[name].type, wanted[name].nullable):
            wrong = f"holds {_spelled(here[name])}, the schema says {_spelled(wanted[name])}"
        elif (marks := [(field.metadata or {}).get(PROPERTY_MARK, b"").decode() for field in (here[name], wanted[name])])[0] != marks[1]:
            wrong = f"holds property {marks[0] or 'without an identity'}, the schema says {marks[1] or 'none'}"
        else:
            continue
        remedy = "before the next schema change, copy the graph: a copy lays every column down anew"
        yield _Wrong("identity_mismatch", f"column {name!r} {wrong}; {remedy}")


def _spelled(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _uncovered(manifest: Manifest, snapshot: Snapshot, row: TableRow, head: int) -> bool:
    """Is a HEAD that the snapshot does not show nobody's? It may be its owner's, a dead writer's, or that of one at work now."""
    if row.owner != snapshot.branch.native:
        return False  # inherited: whoever owns the table goes on
    if head < row.version:
        return True
    # First the intents, then the newest state: a writer disarms after its publish, so one without an intent shows by now.
    if any(table.base.home == row.ref.home for intent in intents.pending(manifest.root.objects) for table in intent.tables):
        return False
    newest = manifest.snapshot(snapshot.branch.name).state.tables.get(row.id)
    return newest is None or newest.version < head


def _edges(tables: Tables, snapshot: Snapshot, edge: EdgeType, ids: dict[str, pa.Array]) -> Iterator[_Wrong]:
    alias = f"edge:{edge.name}"
    row = snapshot.state.table(alias)
    if row is None or alias not in ids:
        return
    ends = tables.open(row.ref).scan([SOURCE, TARGET]).read_all()
    for column, node in ((SOURCE, edge.source), (TARGET, edge.target)):
        if (known := ids.get(f"node:{node}")) is None:
            continue
        lost = ends.column(column).filter(pc.invert(pc.is_in(ends.column(column), value_set=known)))
        if len(lost):
            yield _Wrong("dangling_edge", f"{len(lost)} edges have a {column} that is no {node}, e.g. {lost[0].as_py()!r}")
