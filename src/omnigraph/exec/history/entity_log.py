"""One entity and a branch -> the commits that changed it, newest first, each with the values before and after.

Only commits that changed the table of its type are looked at, along first parents. What a merge brought in unchanged is told by the commits
of the merged branch, while those can be read; else by the merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.changes import EntityChange, entity_changes
from omnigraph.exec.history.pairs import ABSENT, RowPairs, Side, changed_parts, side_of
from omnigraph.ids import CommitId
from omnigraph.manifest import lineage
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.difference import Addresses
from omnigraph.store.keys import addresses_of
from omnigraph.store.tables import KEY, one_of


class LogEntry(msgspec.Struct, frozen=True):
    """One commit and what it did to the entity."""

    commit: Commit
    change: EntityChange


class _Seen(NamedTuple):
    """The entity in one snapshot."""

    side: Side
    address: Addresses


def entity_log(engine: Engine, snapshot: BranchSnapshot, type_name: str, id_: str, *, kind: str | None) -> Iterator[LogEntry]:
    """The log of an entity from a snapshot back. It may be deleted there, but the snapshot must have its type."""
    entity = _named(engine, snapshot, type_name, kind)
    commits = engine.manifest.history(snapshot.branch.name)
    return _EntityLog(engine, entity, id_, commits).entries(snapshot.commit, frozenset())


def _named(engine: Engine, snapshot: BranchSnapshot, name: str, kind: str | None) -> EntityType:
    if kind not in (None, "node", "edge"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the kind of a type is 'node' or 'edge', not {kind!r}", given=kind)
    found = [entity for entity in engine.catalog(snapshot).entities if entity.name == name and kind in (None, entity.kind)]
    if not found:
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"branch {snapshot.branch.name!r} has no type {name!r}", type=name)
    if len(found) > 1:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{name!r} is a node type and an edge type; pass the kind too", type=name)
    return found[0]


class _EntityLog:
    def __init__(self, engine: Engine, entity: EntityType, id_: str, commits: lineage.Commits) -> None:
        self._engine: Final = engine
        self._entity: Final = entity
        self._ids: Final = pa.array([id_], pa.string())
        self._commits: Final = commits

    def entries(self, head: CommitId, known: frozenset[CommitId]) -> Iterator[LogEntry]:
        """The entries from a commit back along first parents, up to commits that are known already."""
        after: _Seen | None = None
        for commit in lineage.first_parents(self._commits, head):
            if commit.id in known:
                return
            if not commit.parents or not any(table.id.startswith(self._entity.id) for table in commit.tables):
                continue  # the table is as it was in the parent
            after = after or self._look(commit.id)
            before = self._look(commit.parents[0])
            yield from self._explained(commit, before, after)
            after = before

    def _explained(self, commit: Commit, before: _Seen, after: _Seen) -> Iterator[LogEntry]:
        change = self._change(before, after)
        if change is None:
            return
        if len(commit.parents) > 1 and self._came_from(commit.parents[1], after):
            known = frozenset(lineage.distances(self._commits, commit.parents[0]))
            yield from self.entries(commit.parents[1], known)
        else:
            yield LogEntry(commit, change)

    def _came_from(self, merged: CommitId, after: _Seen) -> bool:
        """Whether the merged commit shows the entity as the merge does, and can be read."""
        try:
            return self._change(self._look(merged), after) is None
        except NotFound as error:
            if error.kind is not Kind.VERSION_RECLAIMED:
                raise
            return False

    def _look(self, commit: CommitId) -> _Seen:
        side = side_of(self._engine, self._engine.manifest.snapshot(at=commit), self._entity.id)
        if side.table is None:
            return _Seen(side, np.array([ABSENT]))
        found = addresses_of(side.table, self._ids)
        addresses = found if found is not None else side.table.addresses(one_of(KEY, self._ids))
        return _Seen(side, addresses if len(addresses) else np.array([ABSENT]))

    def _change(self, before: _Seen, after: _Seen) -> EntityChange | None:
        if before.address[0] == ABSENT and after.address[0] == ABSENT:
            return None
        pairs = RowPairs(self._ids, before.address, after.address)
        parts = changed_parts(before.side, after.side, pairs)
        return next((change for part in parts for change in entity_changes(before.side, after.side, part)), None)
