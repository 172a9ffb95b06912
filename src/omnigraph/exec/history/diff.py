"""Two snapshots of one graph -> the entities that differ, in a fixed order, streamed.

The order is: nodes before edges, then by the identity of the type, then by id (D-10). A type is known by its identity, so a renamed type
has no changes, and one that was dropped and added again is deleted and inserted (D-05). Each side is read with the schema of its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import ConflictError, InvalidInput, Kind
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.changes import EntityChange, Op, entity_changes
from omnigraph.exec.history.pairs import Side, candidates, changed_parts, shared_types, side_of
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot


class ChangeFilter(msgspec.Struct, frozen=True):
    """Which changes are wanted. None means all."""

    kinds: frozenset[str] | None = None
    types: frozenset[str] | None = None
    ops: frozenset[Op] | None = None

    def admits(self, entity: EntityType) -> bool:
        return (self.kinds is None or entity.kind in self.kinds) and (self.types is None or entity.name in self.types)


def change_filter(
    kinds: str | Collection[str] | None, types: str | Collection[str] | None, ops: str | Collection[str] | None
) -> ChangeFilter:
    """Check the names of kinds and operations. Those of types are checked against the schemas of both sides. A text is one name."""
    kinds, types, ops = ([names] if isinstance(names, str) else names for names in (kinds, types, ops))
    for kind in kinds or ():
        if kind not in ("node", "edge"):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"a kind of change is 'node' or 'edge', not {kind!r}", given=kind)
    for op in ops or ():
        if op not in tuple(Op):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"an operation is one of {', '.join(Op)}, not {op!r}", op=op)
    return ChangeFilter(
        None if kinds is None else frozenset(kinds),
        None if types is None else frozenset(types),
        None if ops is None else frozenset(map(Op, ops)),
    )


def diff(engine: Engine, before: BranchSnapshot, after: BranchSnapshot, wanted: ChangeFilter) -> Iterator[EntityChange]:
    """The changes that lead from one snapshot to the other."""
    catalogs = engine.catalog(before), engine.catalog(after)
    _check_types(catalogs, wanted)
    return _diff(engine, before, after, catalogs, wanted)


def _diff(
    engine: Engine, before: BranchSnapshot, after: BranchSnapshot, catalogs: tuple[Catalog, Catalog], wanted: ChangeFilter
) -> Iterator[EntityChange]:
    for type_id in shared_types(*catalogs):
        old, new = side_of(engine, before, type_id), side_of(engine, after, type_id)
        entity = new.entity or old.entity
        if entity is not None and wanted.admits(entity):
            yield from (change for change in type_changes(old, new) if wanted.ops is None or change.op in wanted.ops)


def type_changes(before: Side, after: Side) -> Iterator[EntityChange]:
    """The changes of one type."""
    for part in changed_parts(before, after, candidates(before, after)):
        yield from entity_changes(before, after, part)


def parent_of(engine: Engine, commit: Commit, after: BranchSnapshot) -> BranchSnapshot:
    """The snapshot that a commit is compared with: that of its first parent. Refuses commits that cannot be shown as changes (D-13)."""
    if not commit.parents:
        raise ConflictError(
            Kind.PARENTLESS_COMMIT, f"commit {commit.id} is the first of the graph: it has no parent to compare it with", commit=commit.id
        )
    before = engine.manifest.snapshot(after.branch.name, at=commit.parents[0])
    old, new = engine.catalog(before), engine.catalog(after)
    for entity in old.entities:
        row = before.state.table_of(entity.id)
        kept = new.by_id(entity.id)
        lost = {property_.id for property_ in entity.properties} - {property_.id for property_ in (kept.properties if kept else ())}
        if row is not None and row.rows and (kept is None or lost):
            what = "the type" if kept is None else "a property of the type"
            raise ConflictError(
                Kind.SCHEMA_BOUNDARY,
                f"commit {commit.id} dropped {what} {entity.name}, which had {row.rows} rows; compare the two commits with a diff",
                commit=commit.id,
                type=entity.name,
            )
    return before


def _check_types(catalogs: tuple[Catalog, Catalog], wanted: ChangeFilter) -> None:
    known = {entity.name for catalog in catalogs for entity in catalog.entities}
    for name in sorted(wanted.types or ()):
        if name not in known:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"there is no type {name!r} in either of the two schemas", type=name)
