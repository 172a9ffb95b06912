"""A branch and its catalog -> one commit with every index that its tables lack and can have, and the indexes that are still pending.

Indexes change the time of a query, never its result, so nothing here is urgent. The files are written before the branch's lock is
taken. They stay valid if other writers commit meanwhile: rows added since are not covered, and queries find them by scanning. Only
indexes of an inherited table are built under the lock, because its fork does not exist before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, assert_never

import msgspec
import numpy as np

from omnigraph.catalog.layout import IndexIntent, IndexKind, index_intents
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.catalog.types import VectorOf
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.predicate import column as quoted
from omnigraph.exec.read.table_statistics import FEW_ROWS, covers_nearly_all, live_tables
from omnigraph.exec.write.protocol import BuildIndexes, Prepared, Request, repeated, write
from omnigraph.ids import MAIN, BranchName, TableId
from omnigraph.manifest.model import Commit, CommitKind, TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.planner import FLAT_NUMBERS, HELD_NUMBERS
from omnigraph.store.index import IndexSpec, LanceIndexKind, Segment, existing, write_index
from omnigraph.store.intact import damaged_indexes
from omnigraph.store.tables import Table, Tables, own_handle
from omnigraph.store.words import ANALYSER

FEWEST_VECTORS: Final = 1_000
"""An index over fewer vectors has too little training data, however long the vectors are."""

BUILT: Final = "indexes_built"


class IndexState(StrEnum):
    """The state of an index that a table should have."""

    BUILT = "built"
    PRESENT = "present"
    PENDING = "pending"


class Pending(StrEnum):
    """Why an index is not built yet. None of these is an error: queries scan until the index is built."""

    NO_ROWS = "no_rows"
    NO_VECTORS = "no_vectors"
    FEW_VECTORS = "few_vectors"

    @property
    def text(self) -> str:
        match self:
            case Pending.NO_ROWS:
                return "no rows yet"
            case Pending.NO_VECTORS:
                return "no row has a vector"
            case Pending.FEW_VECTORS:
                return "too few vectors: a scan is faster"
            case _:
                assert_never(self)


class ColumnIndex(msgspec.Struct, frozen=True):
    """One index that one column should have. `uncovered_rows` were added after it was built; they are few, and queries scan them.

    `damage` describes the damaged files of the index that this one replaces.
    """

    table: str
    column: str
    kind: IndexKind
    state: IndexState
    reason: Pending | None = None
    uncovered_rows: int = 0
    damage: str | None = None


class Indexes(msgspec.Struct, frozen=True):
    """Every index that the tables of a branch should have. `commit` is None if there was nothing to build."""

    branch: str
    indexes: tuple[ColumnIndex, ...]
    commit: Commit | None

    def __repr__(self) -> str:
        numbers = f"{len(self.built)} built, {len(self.present)} present, {len(self.pending)} pending"
        return f"Indexes({numbers} on {self.branch}, {'no commit' if self.commit is None else f'commit {self.commit.id}'})"

    @property
    def built(self) -> tuple[ColumnIndex, ...]:
        """The indexes that were built now."""
        return self._in(IndexState.BUILT)

    @property
    def present(self) -> tuple[ColumnIndex, ...]:
        """The indexes that were there."""
        return self._in(IndexState.PRESENT)

    @property
    def pending(self) -> tuple[ColumnIndex, ...]:
        """The indexes that cannot be built yet, each with its `reason`."""
        return self._in(IndexState.PENDING)

    def _in(self, state: IndexState) -> tuple[ColumnIndex, ...]:
        return tuple(index for index in self.indexes if index.state is state)


class IndexProgress(msgspec.Struct, frozen=True):
    """One table is about to be indexed: number `at` of `of`."""

    table: str
    columns: tuple[str, ...]
    rows: int
    at: int
    of: int


OnIndexProgress = Callable[[IndexProgress], None]
Written = Mapping[tuple[TableId, str], Segment | None]
"""Indexes written before the lock, by table and name. None if Lance had no training data."""


class _TablePlan(msgspec.Struct, frozen=True):
    """One table: the state of each index it should have, and the specs of those to build now."""

    row: TableRow
    indexes: tuple[ColumnIndex, ...]
    specs: tuple[IndexSpec, ...]


def ensure_indices(
    engine: Engine,
    *,
    branch: BranchName = MAIN,
    actor: str | None = None,
    message: str | None = None,
    token: str | None = None,
    on_progress: OnIndexProgress | None = None,
) -> Indexes:
    """Build the missing indexes of a branch, and rebuild those that cover too few rows, as one commit. A second call does nothing."""
    tables, before = engine.tables, engine.snapshot(branch)
    plans = list(_plan(before, engine.catalog(before), tables))
    request = Request(CommitKind.INDEX, branch=branch, actor=actor, message=message, token=token)
    first = repeated(engine.manifest, request)
    if first is not None or not any(plan.specs for plan in plans):
        return Indexes(branch, _all_indexes(plans), first.commit if first is not None else None)
    ahead = dict(_write_ahead(before, plans, tables, on_progress))

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        nonlocal plans
        plans = list(_plan(snapshot, engine.catalog(snapshot), tables, ahead))
        changes = {plan.row.id: BuildIndexes(plan.specs, tuple(_segments(plan, ahead))) for plan in plans if plan.specs}
        return Prepared(changes, counts={BUILT: sum(len(plan.specs) for plan in plans)})

    written = write(engine, request, prepare)
    return Indexes(branch, _all_indexes(plans), written.commit)


# -- missing indexes


def _plan(snapshot: BranchSnapshot, catalog: Catalog, tables: Tables, ahead: Written | None = None) -> Iterator[_TablePlan]:
    shown = live_tables(snapshot.state)
    for entity in catalog.entities:
        row = shown[entity.id]
        states = list(_states(entity, row, tables.open(row.ref), ahead or {}))
        missing = (spec_of(intent) for intent, index in states if index.state is IndexState.BUILT)
        yield _TablePlan(row, tuple(index for _, index in states), tuple(missing))


def _states(entity: EntityType, row: TableRow, table: Table, ahead: Written) -> Iterator[tuple[IndexIntent, ColumnIndex]]:
    """The state of each index of a table after all indexes that can be built are built."""
    has = {(index.column, index.kind): index for index in existing(table)}
    damages = {damage.index.name: damage.reason for damage in damaged_indexes(table, anew=True)}
    for intent in index_intents(entity):
        current = has.get((intent.column, lance_kind(intent.kind)))
        damage = damages.get(current.name) if current is not None else None
        if current is not None and damage is None and covers_nearly_all(current, few_rows=flat_rows(entity, intent)):
            yield intent, ColumnIndex(row.alias, intent.column, intent.kind, IndexState.PRESENT, uncovered_rows=current.uncovered_rows)
            continue
        # A damaged index is replaced even where a new one would not pay yet: until then it is in the way.
        replaced = damage is not None and intent.kind is not IndexKind.VECTOR
        reason = None if replaced else obstacle(entity, intent, row, table, ahead)
        state = IndexState.BUILT if reason is None else IndexState.PENDING
        yield intent, ColumnIndex(row.alias, intent.column, intent.kind, state, reason, damage=damage)


def flat_rows(entity: EntityType, intent: IndexIntent) -> int:
    """A scan of this many rows is as fast as an index lookup."""
    return FLAT_NUMBERS // _dimension(entity, intent) if intent.kind is IndexKind.VECTOR else FEW_ROWS


def obstacle(entity: EntityType, intent: IndexIntent, row: TableRow, table: Table, ahead: Written) -> Pending | None:
    if not row.rows:
        return Pending.NO_ROWS
    if intent.kind is not IndexKind.VECTOR:
        return None
    key = row.id, _name(intent)
    if key in ahead:
        return None if ahead[key] is not None else Pending.FEW_VECTORS
    dimension = _dimension(entity, intent)
    return _too_few(table, intent.column, dimension, needed=max(FEWEST_VECTORS, HELD_NUMBERS // dimension))


def _too_few(table: Table, name: str, dimension: int, *, needed: int) -> Pending | None:
    """Why an index on vectors would not be useful, or None. A vector that is zero or not finite has no direction and does not count."""
    found = 0
    for batch in table.scan([name], where=f"{quoted(name)} IS NOT NULL", limit=2 * needed):
        numbers = batch.column(0).flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
        found += int(np.count_nonzero(np.isfinite(numbers).all(axis=1) & numbers.any(axis=1)))
        if found >= needed:
            return None
    return Pending.FEW_VECTORS if found else Pending.NO_VECTORS


def _dimension(entity: EntityType, intent: IndexIntent) -> int:
    property_ = entity.property(intent.column)
    assert property_ is not None
    assert isinstance(property_.type, VectorOf)
    return property_.type.dimension


def spec_of(intent: IndexIntent) -> IndexSpec:
    return IndexSpec(intent.column, lance_kind(intent.kind), _name(intent), _options(intent.kind))


def _name(intent: IndexIntent) -> str:
    """The name of an index. It uses the property's id, so it survives a rename and is never reused for another property."""
    return f"{intent.kind}_{intent.property or intent.column}"


def lance_kind(kind: IndexKind) -> LanceIndexKind:
    match kind:
        case IndexKind.BTREE:
            return LanceIndexKind.BTREE
        case IndexKind.FULL_TEXT:
            return LanceIndexKind.INVERTED
        case IndexKind.VECTOR:
            return LanceIndexKind.VECTOR
        case _:
            assert_never(kind)


def _options(kind: IndexKind) -> Mapping[str, Any]:
    match kind:
        case IndexKind.VECTOR:
            return {"metric": "cosine"}
        case IndexKind.FULL_TEXT:
            return ANALYSER
        case IndexKind.BTREE:
            return {}
        case _:
            assert_never(kind)


def _all_indexes(plans: Iterable[_TablePlan]) -> tuple[ColumnIndex, ...]:
    return tuple(index for plan in plans for index in plan.indexes)


# -- building


def _write_ahead(
    snapshot: BranchSnapshot, plans: Iterable[_TablePlan], tables: Tables, on_progress: OnIndexProgress | None
) -> Iterator[tuple[tuple[TableId, str], Segment | None]]:
    """Write the indexes of tables that the branch owns. An inherited table is indexed on its fork, which is created later."""
    to_do = sorted((plan for plan in plans if plan.specs), key=lambda plan: (plan.row.owner != snapshot.branch.native, plan.row.alias))
    for at, plan in enumerate(to_do, start=1):
        if on_progress is not None:
            columns = tuple(dict.fromkeys(spec.column for spec in plan.specs))
            on_progress(IndexProgress(plan.row.alias, columns, plan.row.rows, at, len(to_do)))
        if plan.row.owner == snapshot.branch.native:
            table = own_handle(tables.open(plan.row.ref))
            yield from (((plan.row.id, spec.name), write_index(table, spec)) for spec in plan.specs)


def _segments(plan: _TablePlan, ahead: Written) -> Iterator[Segment]:
    written = (ahead.get((plan.row.id, spec.name)) for spec in plan.specs)
    return (segment for segment in written if segment is not None)
