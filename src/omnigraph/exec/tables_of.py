"""A snapshot and a type -> the table that holds the type's rows there."""

from __future__ import annotations

from omnigraph.catalog.model import EntityType
from omnigraph.errors import Kind, NotFound
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.plan.expr import TypeRef


def table_of(snapshot: Snapshot, type_: TypeRef | EntityType) -> TableRow:
    """The live table of a type, by its identity: names change, ids do not."""
    for row in snapshot.state.tables.values():
        if row.id.startswith(type_.id) and not row.dropped:
            return row
    raise NotFound(Kind.TABLE_NOT_FOUND, f"branch {snapshot.branch.name!r} has no table for {type_.name}", type=type_.name)
