"""Two snapshots of one graph -> the entities that differ, in a fixed order, streamed.

The order is: nodes before edges, then by the identity of the type, then by id (D-10). A type is known by its identity, so a renamed type
has no changes, and one that was dropped and added again is deleted and inserted (D-05). Each side is read with the schema of its time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import Final

import msgspec
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import ChangeCursorRejected, ConflictError, InvalidInput, Kind
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.changes import EntityChange, Op, entity_changes
from omnigraph.exec.history.pairs import RowPairs, Side, candidates, changed_parts, shared_types, side_of
from omnigraph.grid import counted
from omnigraph.ids import TypeId, content_hash
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot

LONGEST_ID_BYTES: Final = 256
"""A longer id is not stored in a token."""
PREFIX_BYTES: Final = 64
"""How much of a long id a token holds: enough to find it among its neighbours."""


Pairing = Callable[[Side, Side], RowPairs]
"""Finds the entities whose rows may differ, as `candidates` does."""


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


class ChangePlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a reader of changes stopped: after the entity with this id. A long id is known by its beginning and its hash (D-16)."""

    type: TypeId
    id: str
    digest: str | None = None

    @staticmethod
    def after(change: EntityChange) -> ChangePlace:
        whole = change.id.encode()
        if len(whole) <= LONGEST_ID_BYTES:
            return ChangePlace(TypeId(change.type_id), change.id)
        return ChangePlace(TypeId(change.type_id), whole[:PREFIX_BYTES].decode(errors="ignore"), content_hash(whole))

    def passed(self, ids: pa.Array) -> int:
        """How many of these ids, which ascend, come before the rest of the changes."""
        if self.digest is None:
            return bisect_right(ids, self.id, key=_text)
        for at in range(bisect_left(ids, self.id, key=_text), len(ids)):
            id_ = _text(ids[at])
            if not id_.startswith(self.id):
                break
            if content_hash(id_.encode()) == self.digest:
                return at + 1
        raise cursor_rejected("place", "the commit has no such entity")


def cursor_rejected(reason: str, why: str, **facts: object) -> ChangeCursorRejected:
    """The refusal of a token. `reason` is for programs."""
    return ChangeCursorRejected(Kind.CHANGE_CURSOR_REJECTED, f"change cursor rejected: {why}", reason=reason, **facts)


def _text(id_: pa.Scalar) -> str:
    return str(id_.as_py())


def diff(engine: Engine, before: BranchSnapshot, after: BranchSnapshot, wanted: ChangeFilter) -> Iterator[EntityChange]:
    """The changes that lead from one snapshot to the other. Refuses a type that neither has."""
    check_types(wanted, engine.catalog(before), engine.catalog(after))
    return changes_between(engine, before, after, wanted)


def changes_between(
    engine: Engine,
    before: BranchSnapshot,
    after: BranchSnapshot,
    wanted: ChangeFilter,
    *,
    place: ChangePlace | None = None,
    first_rows: int | None = None,
    pairing: Pairing = candidates,
) -> Iterator[EntityChange]:
    """The changes that lead from one snapshot to the other, or those after a place. `first_rows` bounds what is read at first."""
    then, now = engine.catalog(before), engine.catalog(after)
    for type_id in _types_from(place, shared_types(then, now)):
        known = now.by_id(type_id) or then.by_id(type_id)
        old_row, new_row = before.state.table_of(type_id), after.state.table_of(type_id)
        if known is None or not wanted.admits(known) or (old_row is not None and new_row is not None and old_row.ref == new_row.ref):
            continue  # not even opened
        old, new = side_of(engine, before, type_id), side_of(engine, after, type_id)
        if old.entity is None and new.entity is None:
            continue
        pairs = pairing(old, new)
        if place is not None and place.type == type_id:
            pairs = pairs.slice(place.passed(pairs.ids), len(pairs))
        for part in changed_parts(old, new, pairs, first_rows=first_rows):
            changes = entity_changes(old, new, part)
            yield from (change for change in changes if wanted.ops is None or change.op in wanted.ops)


def _types_from(place: ChangePlace | None, types: list[TypeId]) -> list[TypeId]:
    if place is None:
        return types
    if place.type not in types:
        raise cursor_rejected("place", "the commit has no such type")
    return types[types.index(place.type) :]


def parent_of(engine: Engine, commit: Commit, after: BranchSnapshot) -> BranchSnapshot:
    """The snapshot that a commit is compared with: that of its first parent. Refuses the first commit of the graph (D-13)."""
    if not commit.parents:
        raise ConflictError(
            Kind.PARENTLESS_COMMIT, f"commit {commit.id} is the first of the graph: it has no parent to compare it with", commit=commit.id
        )
    return engine.manifest.snapshot(after.branch.name, at=commit.parents[0])


def check_boundary(engine: Engine, commit: Commit, before: BranchSnapshot, after: BranchSnapshot, wanted: ChangeFilter) -> None:
    """Refuse a commit that dropped wanted values, or moved a type into or out of the filter: no change shows that (D-13)."""
    if before.state.head.schema == after.state.head.schema:
        return
    old, new = engine.catalog(before), engine.catalog(after)
    for entity in old.entities:
        row, kept = before.state.table_of(entity.id), new.by_id(entity.id)
        if row is None or not row.rows:
            continue
        if kept is not None and wanted.admits(kept) != wanted.admits(entity):
            raise _boundary(commit, entity, f"renamed the type {entity.name} to {kept.name}, and the filter names one of the two")
        if not wanted.admits(entity):
            continue
        if kept is None:
            raise _boundary(commit, entity, f"dropped the type {entity.name}, which had {counted(row.rows, 'row')}")
        if {property_.id for property_ in entity.properties} - {property_.id for property_ in kept.properties}:
            raise _boundary(commit, entity, f"dropped a property of the type {entity.name}, which had {counted(row.rows, 'row')}")


def _boundary(commit: Commit, entity: EntityType, what: str) -> ConflictError:
    return ConflictError(
        Kind.SCHEMA_BOUNDARY,
        f"commit {commit.id} {what}; compare the two commits with a diff, or begin a feed again with a baseline",
        commit=commit.id,
        type=entity.name,
    )


def check_types(wanted: ChangeFilter, *catalogs: Catalog) -> None:
    """Refuse a filter with a type that none of the schemas has."""
    known = {entity.name for catalog in catalogs for entity in catalog.entities}
    for name in sorted(wanted.types or ()):
        if name not in known:
            where = "in the schema" if len(catalogs) == 1 else "in either of the two schemas"
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"there is no type {name!r} {where}", type=name)
