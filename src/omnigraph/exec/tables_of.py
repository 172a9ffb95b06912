"""A snapshot and a type -> the table that holds the type's rows there."""

from __future__ import annotations

from omnigraph.catalog.model import EntityType
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.plan.expr import TypeRef


def table_of(snapshot: Snapshot, type_: TypeRef | EntityType) -> TableRow:
    """The live table of a type, by its identity: names change, ids do not."""
    return snapshot.table_of(type_.id, name=type_.name)
