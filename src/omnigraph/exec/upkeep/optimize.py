"""A branch -> one commit in which its tables have few fragments, few deleted rows, and indexes that cover all rows.

Rows move and do not change, so no query has another answer. The work is planned and all files are written before the branch's lock is
taken; under the lock it is only compared with what other writers did meanwhile. Work that no longer fits is done again, the last time
while the lock is held. Nothing is deleted: older commits keep their files.

A branch compacts the tables that it owns. A table that it inherits has the fragments of its owner, and is compacted there. A copy of it,
made only to compact it, would store the rows twice and make every comparison of the two branches read them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from omnigraph.catalog.layout import IndexIntent, IndexKind, index_intents
from omnigraph.catalog.model import EntityType
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.table_statistics import live_tables
from omnigraph.exec.upkeep.indices import (
    FEWEST_VECTORS,
    ColumnIndex,
    IndexState,
    Pending,
    flat_rows,
    lance_kind,
    obstacle,
    spec_of,
)
from omnigraph.exec.write.protocol import Prepared, Request, Tidy, repeated, write
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId
from omnigraph.manifest.model import Commit, CommitKind, TableRow
from omnigraph.manifest.publish import LOCK_SECONDS, hold
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.manifest.recover import heal, heal_held
from omnigraph.store.compact import Group, Rewrite, files_after, first_free_id, groups_to_rewrite, preview, rewrite, rows_after, still_fits
from omnigraph.store.fragments import fragments
from omnigraph.store.index import IndexPart, IndexSpec, Segment, existing, extension, parts_of, write_index
from omnigraph.store.intact import damaged_indexes
from omnigraph.store.tables import Table

ATTEMPTS: Final = 3
"""How often the work is done at most, the last time under the lock."""

REWRITTEN: Final = "rows_rewritten"
INDEXED: Final = "indexes_updated"


class TableUpkeep(StrEnum):
    """What `optimize` did to a table."""

    OPTIMIZED = "optimized"
    UNCHANGED = "unchanged"
    INHERITED = "inherited"
    """The table belongs to another branch, which compacts it."""
    NEEDS_REPAIR = "needs_repair"
    """Another program committed to the table directly. It is left as it is."""


class OptimizedTable(msgspec.Struct, frozen=True):
    """One table after `optimize`. `version` is the one that the branch shows, and `head`, if it needs repair, the newest one."""

    table: str
    state: TableUpkeep
    version: int
    head: int | None = None
    fragments_before: int = 0
    fragments_after: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    rows_rewritten: int = 0
    indexes: tuple[ColumnIndex, ...] = ()
    """Every index that the table should have. Those built or extended now are `built`."""

    @property
    def pending(self) -> tuple[ColumnIndex, ...]:
        return tuple(index for index in self.indexes if index.state is IndexState.PENDING)


class Optimized(msgspec.Struct, frozen=True):
    """The tables of a branch after `optimize`. `commit` is None if there was nothing to do."""

    branch: str
    tables: tuple[OptimizedTable, ...]
    commit: Commit | None

    def __repr__(self) -> str:
        removed = sum(table.fragments_removed for table in self.tables)
        added = sum(table.fragments_added for table in self.tables)
        by = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"Optimized({counted(len(self.tables), 'table')} of {self.branch}, {counted(removed, 'fragment')} into {added:,}, {by})"

    @property
    def needs_repair(self) -> tuple[OptimizedTable, ...]:
        """The tables that another program moved: `repair` says what happened."""
        return tuple(table for table in self.tables if table.state is TableUpkeep.NEEDS_REPAIR)


class OptimizeProgress(msgspec.Struct, frozen=True):
    """One table is about to be rewritten or indexed: number `at` of `of`."""

    table: str
    fragments: int
    rows: int
    at: int
    of: int


OnOptimizeProgress = Callable[[OptimizeProgress], None]


class Bounds(msgspec.Struct, frozen=True):
    """Limits of the work, for a caller that must not wait long. None means all of it."""

    fragment_rows: int | None = None
    """Fragments with more rows are not rewritten, and segments of an index with more rows are not replaced."""
    tables: frozenset[TableId] | None = None
    builds_missing: bool = True
    """Whether indexes that are missing or damaged are built, and vectors are indexed."""
    holds_lock: bool = True
    """Whether the last attempt is made under the lock. Otherwise nothing is done if other writers changed the tables each time."""


class _Moved(Exception):
    """Other writers changed what the work was done on."""


class _NewIndex(msgspec.Struct, frozen=True):
    """An index to write over some fragments, and the segments that it replaces."""

    spec: IndexSpec
    fragments: frozenset[int]
    replaced: tuple[IndexPart, ...]
    outcome: ColumnIndex


class _Work(msgspec.Struct, frozen=True):
    """The finished work on one table at one version. Nothing of it is committed."""

    row: TableRow
    fragments_before: int
    rewrites: tuple[Rewrite, ...]
    segments: tuple[Segment, ...]
    replaced: tuple[IndexPart, ...]
    indexes: tuple[ColumnIndex, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.rewrites or self.segments)

    def fits(self, row: TableRow, table: Table) -> bool:
        """Whether the work is right for a later version of the table."""
        files, parts = files_after(table, self.rewrites), {part.uuid: part for part in parts_of(table)}
        staying = [part for part in parts.values() if part.uuid not in {gone.uuid for gone in self.replaced}]
        return (
            row.ref.home == self.row.ref.home
            and still_fits(table, self.rewrites)
            and all(files.get(part) == covered for segment in self.segments for part, covered in segment.covers.items())
            and all(part.uuid in parts for part in self.replaced)
            # Lance commits no more to a table on which two segments of an index cover the same fragment.
            and all(part.fragments.isdisjoint(segment.covers) for segment in self.segments for part in staying if part.name == segment.name)
        )


def optimize(
    engine: Engine,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
    message: str | None = None,
    token: str | None = None,
    on_progress: OnOptimizeProgress | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008  # immutable
    timeout_seconds: float = LOCK_SECONDS,
) -> Optimized:
    """Compact the tables of a branch and bring their indexes up to date, as one commit. A second call does nothing."""
    # A write that could not be resolved makes every other step doubtful: the error says so before anything is done (O-03).
    heal(engine.manifest, engine.tables, branch, timeout_seconds=timeout_seconds)
    bench = _Workbench(engine, bounds, on_progress)
    request = Request(CommitKind.OPTIMIZE, branch=branch, actor=actor, message=message, token=token, timeout_seconds=timeout_seconds)
    for attempt in range(1, ATTEMPTS + 1):
        snapshot = engine.snapshot(branch)
        if (first := repeated(engine.manifest, request)) is not None:
            bench.look(snapshot)
            return bench.report(first.commit)
        bench.work(snapshot)
        if bench.is_empty:
            return bench.report(None)
        try:
            written = write(engine, request, bench.prepare_held if attempt == ATTEMPTS and bounds.holds_lock else bench.prepare)
        except _Moved:
            continue
        return bench.report(written.commit)
    return bench.report(None)


class _Workbench:
    """The work on all tables of a branch. Files that were written once are used again, as long as they fit."""

    def __init__(self, engine: Engine, bounds: Bounds, on_progress: OnOptimizeProgress | None) -> None:
        self._engine: Final = engine
        self._bounds: Final = bounds
        self._on_progress: Final = on_progress
        self._rewrites: Final[dict[tuple[TableId, Group], Rewrite]] = {}
        self._segments: Final[dict[tuple[TableId, str, frozenset[tuple[int, tuple[str, ...]]]], Segment | None]] = {}
        self._snapshot: BranchSnapshot | None = None
        self._works: dict[TableId, _Work] = {}
        self._drifted: Mapping[TableId, int] = {}

    @property
    def is_empty(self) -> bool:
        return all(work.is_empty for work in self._works.values())

    def work(self, snapshot: BranchSnapshot) -> None:
        """Do the work on a snapshot, without the lock."""
        self._drifted = self._find_drift(snapshot)
        self._do(snapshot)

    def look(self, snapshot: BranchSnapshot) -> None:
        """Read what a report needs of a snapshot, and do nothing."""
        self._snapshot = snapshot
        ours = [row for row, _ in self._tables(snapshot) if self._is_ours(snapshot, row)]
        self._works = {row.id: _Work(row, len(fragments(self._engine.tables.open(row.ref))), (), (), (), ()) for row in ours}

    def _do(self, snapshot: BranchSnapshot) -> None:
        self._snapshot = snapshot
        to_do = [(row, entity) for row, entity in self._tables(snapshot) if self._is_ours(snapshot, row)]
        self._works = {row.id: self._work(row, entity, at, len(to_do)) for at, (row, entity) in enumerate(to_do, start=1)}

    def prepare(self, snapshot: BranchSnapshot) -> Prepared:
        """The finished work as a write, if it fits this snapshot."""
        assert self._snapshot is not None
        if snapshot.commit != self._snapshot.commit and not self._fits(snapshot):
            raise _Moved
        changes = {id_: Tidy(work.rewrites, work.segments, work.replaced) for id_, work in self._works.items() if not work.is_empty}
        rows = sum(part.physical_rows for work in self._works.values() for each in work.rewrites for part in each.new)
        return Prepared(changes, counts={REWRITTEN: rows, INDEXED: sum(len(work.segments) for work in self._works.values())})

    def prepare_held(self, snapshot: BranchSnapshot) -> Prepared:
        """The work as a write. Does again what does not fit this snapshot."""
        try:
            return self.prepare(snapshot)
        except _Moved:
            self._do(snapshot)
            return self.prepare(snapshot)

    def _fits(self, snapshot: BranchSnapshot) -> bool:
        assert self._snapshot is not None
        tables = snapshot.state.tables
        works = [work for work in self._works.values() if not work.is_empty]
        return (snapshot.branch, snapshot.state.head.schema) == (self._snapshot.branch, self._snapshot.state.head.schema) and all(
            work.fits(tables[work.row.id], self._engine.tables.open(tables[work.row.id].ref)) for work in works
        )

    def report(self, commit: Commit | None) -> Optimized:
        assert self._snapshot is not None
        changed = {change.id: change.after for change in commit.tables} if commit is not None else {}
        tables = (self._reported(row, changed.get(row.id)) for row, _ in self._tables(self._snapshot))
        return Optimized(self._snapshot.branch.name, tuple(tables), commit)

    def _reported(self, row: TableRow, version: int | None) -> OptimizedTable:
        if (head := self._drifted.get(row.id)) is not None:
            return OptimizedTable(row.alias, TableUpkeep.NEEDS_REPAIR, row.version, head)
        if (work := self._works.get(row.id)) is None:
            return OptimizedTable(row.alias, TableUpkeep.INHERITED, row.version)
        removed, added = (
            (sum(map(len, each)) for each in zip(*((w.old, w.new) for w in work.rewrites), strict=True)) if work.rewrites else (0, 0)
        )
        return OptimizedTable(
            row.alias,
            TableUpkeep.UNCHANGED if version is None else TableUpkeep.OPTIMIZED,
            version or row.version,
            fragments_before=work.fragments_before,
            fragments_after=work.fragments_before - removed + added,
            fragments_removed=removed,
            fragments_added=added,
            rows_rewritten=sum(part.physical_rows for each in work.rewrites for part in each.new),
            indexes=work.indexes,
        )

    # -- which tables

    def _tables(self, snapshot: BranchSnapshot) -> Iterator[tuple[TableRow, EntityType]]:
        shown = live_tables(snapshot.state)
        for entity in self._engine.catalog(snapshot).entities:
            row = shown[entity.id]
            if self._bounds.tables is None or row.id in self._bounds.tables:
                yield row, entity

    def _is_ours(self, snapshot: BranchSnapshot, row: TableRow) -> bool:
        return row.owner == snapshot.branch.native and row.id not in self._drifted

    def _find_drift(self, snapshot: BranchSnapshot) -> Mapping[TableId, int]:
        """The tables that another program committed to directly, and their newest versions.

        The newest version of a table is also ahead of the graph while a writer is between its commit and its publish. So the tables
        are compared again under the lock, where no writer is.
        """
        if not self._ahead(snapshot):
            return {}
        manifest, tables, branch = self._engine.manifest, self._engine.tables, snapshot.branch.name
        with hold(manifest, branch) as grant:
            heal_held(manifest, tables, branch, grant=grant)
            return self._ahead(self._engine.snapshot(branch))

    def _ahead(self, snapshot: BranchSnapshot) -> Mapping[TableId, int]:
        owned = (row for row, _ in self._tables(snapshot) if row.owner == snapshot.branch.native)
        heads = {row.id: (row.version, self._engine.tables.open(row.ref).head()) for row in owned}
        return {id_: head for id_, (version, head) in heads.items() if head != version}

    # -- the work on one table

    def _work(self, row: TableRow, entity: EntityType, at: int, of: int) -> _Work:
        table, bounds = self._engine.tables.open(row.ref), self._bounds
        groups = groups_to_rewrite(table, most_rows=bounds.fragment_rows)
        if groups and self._on_progress is not None:
            self._on_progress(OptimizeProgress(row.alias, sum(map(len, groups)), row.rows, at, of))
        rewrites = self._rewritten(row, table, groups)
        states = list(self._plan_indexes(row, entity, table, rewrites))
        new = [state for state in states if isinstance(state, _NewIndex)]
        if new and not groups and self._on_progress is not None:
            self._on_progress(OptimizeProgress(row.alias, 0, row.rows, at, of))
        written = dict(zip((each.spec.name for each in new), self._written(row, table, rewrites, new), strict=True))
        useful = [each for each in new if written[each.spec.name] is not None]
        return _Work(
            row,
            fragments_before=len(fragments(table)),
            rewrites=rewrites,
            segments=tuple(segment for segment in written.values() if segment is not None),
            replaced=tuple(part for each in useful for part in each.replaced),
            indexes=tuple(_outcome(state, written) for state in states),
        )

    def _rewritten(self, row: TableRow, table: Table, groups: Collection[Group]) -> tuple[Rewrite, ...]:
        known = [self._rewrites[row.id, group] for group in groups if (row.id, group) in self._rewrites]
        fitting = {each.old: each for each in known if still_fits(table, [each])}
        free = max((first_free_id(table), *(part.id + 1 for each in fitting.values() for part in each.new)))
        found = []
        for group in groups:
            if (made := fitting.get(group)) is None:
                made = self._rewrites[row.id, group] = rewrite(table, group, first_id=free)
                free += len(made.new)
            found.append(made)
        return tuple(found)

    def _plan_indexes(
        self, row: TableRow, entity: EntityType, table: Table, rewrites: tuple[Rewrite, ...]
    ) -> Iterator[ColumnIndex | _NewIndex]:
        has = {(index.column, index.kind): index for index in existing(table)}
        damages = {damage.index.name: damage.reason for damage in damaged_indexes(table, anew=True)}
        parts, rows = parts_of(table), rows_after(table, rewrites)
        for intent in index_intents(entity):
            current = has.get((intent.column, lance_kind(intent.kind)))
            own = [part for part in parts if current is not None and part.name == current.name]
            damage = damages.get(current.name) if current is not None else None
            if current is None or damage is not None:
                yield self._missing(row, entity, intent, table, frozenset(rows), own, damage)
            else:
                yield self._extended(row, entity, intent, rows, own, name=current.name)

    def _missing(
        self,
        row: TableRow,
        entity: EntityType,
        intent: IndexIntent,
        table: Table,
        covered: frozenset[int],
        own: Collection[IndexPart],
        damage: str | None,
    ) -> ColumnIndex | _NewIndex:
        def index(state: IndexState, reason: Pending | None = None) -> ColumnIndex:
            return ColumnIndex(row.alias, intent.column, intent.kind, state, reason, damage=damage)

        # A damaged index is replaced even where a new one would not pay yet: until then it is in the way.
        replaced = damage is not None and intent.kind is not IndexKind.VECTOR
        reason = None if replaced else obstacle(entity, intent, row, table, {})
        if reason is not None or not self._bounds.builds_missing:
            return index(IndexState.PENDING, reason)
        return _NewIndex(spec_of(intent), covered, tuple(own), index(IndexState.BUILT))

    def _extended(
        self,
        row: TableRow,
        entity: EntityType,
        intent: IndexIntent,
        rows: Mapping[int, int],
        own: Collection[IndexPart],
        *,
        name: str,
    ) -> ColumnIndex | _NewIndex:
        uncovered = sum(count for part, count in rows.items() if not any(part in each.fragments for each in own))
        is_vector = intent.kind is IndexKind.VECTOR
        # Few vectors are no training data, and a scan of them is as fast.
        too_few = is_vector and (uncovered < max(FEWEST_VECTORS, flat_rows(entity, intent)) or not self._bounds.builds_missing)
        covered, replaced = extension(own, rows, most_rows=self._bounds.fragment_rows)
        if not covered or too_few:
            return ColumnIndex(row.alias, intent.column, intent.kind, IndexState.PRESENT, uncovered_rows=uncovered)
        built = ColumnIndex(row.alias, intent.column, intent.kind, IndexState.BUILT)
        return _NewIndex(msgspec.structs.replace(spec_of(intent), name=name), covered, replaced, built)

    def _written(self, row: TableRow, table: Table, rewrites: tuple[Rewrite, ...], new: Collection[_NewIndex]) -> list[Segment | None]:
        """The segments of the new indexes, written on the table as it will be. None for vectors without training data."""
        files = files_after(table, rewrites)
        keys = {each.spec.name: (row.id, each.spec.name, frozenset((part, files[part]) for part in each.fragments)) for each in new}
        missing = [each for each in new if keys[each.spec.name] not in self._segments]
        if missing:
            with preview(table, rewrites) as after:
                for each in missing:
                    self._segments[keys[each.spec.name]] = write_index(after, each.spec, fragments=each.fragments)
        return [self._segments[keys[each.spec.name]] for each in new]


def _outcome(state: ColumnIndex | _NewIndex, written: Mapping[str, Segment | None]) -> ColumnIndex:
    if isinstance(state, ColumnIndex):
        return state
    if written[state.spec.name] is not None:
        return state.outcome
    return msgspec.structs.replace(state.outcome, state=IndexState.PENDING, reason=Pending.NO_VECTORS)
