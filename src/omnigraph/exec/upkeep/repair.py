"""A branch -> what is wrong with its tables and can be mended, and, on request, one commit that mends it. No row is ever rewritten.

Four things can be mended. Index files are derived, so damaged ones are built again. A table that another program moved past the version
that the graph shows is published as it is: by itself if only maintenance moved it, by force otherwise. A newest version that is incomplete
and that no commit shows is removed. What an interrupted hard drop left behind is removed. Everything else that `verify` finds has no remedy
here: the report says what is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, OmniGraphError, RecoveryRequired
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.table_statistics import live_tables
from omnigraph.exec.upkeep.file_damage import DAMAGED_INDEX, GraphFiles, recorded_checksums
from omnigraph.exec.upkeep.indices import ensure_indices
from omnigraph.exec.upkeep.verify import Finding, Severity, column_mismatches, verify
from omnigraph.exec.write.migrate import reclaim
from omnigraph.exec.write.protocol import Prepared, Request, repeated, write
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId, TypeId
from omnigraph.manifest.model import Commit, CommitKind, TableRow
from omnigraph.manifest.publish import LOCK_SECONDS, hold
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.manifest.recover import abandoned
from omnigraph.manifest.retention import still_shown
from omnigraph.store import stage
from omnigraph.store.durable import is_torn, version_file
from omnigraph.store.reclaim import versions_below
from omnigraph.store.refs import fork_points
from omnigraph.store.tables import Table, discard_torn_head, operation_of

MAINTENANCE: Final = frozenset({"ReserveFragments", "Rewrite", "CreateIndex"})
"""Operations of Lance that change no row."""


class Classification(StrEnum):
    """What is wrong with a table."""

    SOUND = "sound"
    DAMAGED_INDEX = "damaged_index"
    MAINTENANCE = "verified_maintenance"
    """Another program compacted or indexed the table. Its rows are those that the graph shows."""
    SEMANTIC = "semantic_drift"
    """Another program changed rows or columns of the table."""
    TORN = "torn_version"
    """The newest version is incomplete, and no commit of the graph shows it."""
    GIVEN_UP = "given_up_versions"
    """A hard drop was interrupted before it removed what it gave up."""
    UNREADABLE = "unreadable"


class RepairAction(StrEnum):
    """What `repair` does about it, or would do with `confirm`."""

    NONE = "none"
    REBUILD_INDEX = "rebuild_index"
    PUBLISH_HEAD = "publish_head"
    REMOVE_VERSION = "remove_version"
    RECLAIM = "reclaim"
    REFUSED = "refused"


class TableRepair(msgspec.Struct, frozen=True):
    """One thing that is wrong with one table, or that nothing is. `operations` moved the table past the version that the graph shows."""

    table: str
    published_version: int
    head_version: int | None
    classification: Classification
    action: RepairAction
    operations: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    error: str | None = None


class RepairReport(msgspec.Struct, frozen=True):
    """The tables of a branch, and the damage that has no remedy here. Without `confirm` nothing was written."""

    branch: str
    confirm: bool
    force: bool
    tables: tuple[TableRepair, ...]
    lost: tuple[Finding, ...]
    commit: Commit | None = None
    """The commit that published tables as they are."""
    index_commit: Commit | None = None

    @property
    def refused(self) -> tuple[TableRepair, ...]:
        return tuple(table for table in self.tables if table.action is RepairAction.REFUSED)

    @property
    def is_sound(self) -> bool:
        return not self.lost and all(table.classification is Classification.SOUND for table in self.tables)


def repair(
    engine: Engine,
    *,
    branch: BranchName = MAIN,
    confirm: bool = False,
    force: bool = False,
    actor: str | None = None,
    message: str | None = None,
    token: str | None = None,
) -> RepairReport:
    """Classify the tables of a branch. With `confirm`, mend what can be mended; with `force`, also publish changes of other programs."""
    if force and not confirm:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "force needs confirm: without it nothing is written")
    snapshot, ahead = _heads(engine, branch)
    found = tuple(_classify(engine, snapshot, ahead, force=force))
    lost = tuple(finding for finding in verify(engine) if _is_lost(finding, branch))
    report = RepairReport(branch, confirm, force, found, lost)
    return (
        _mend(engine, report, Request(CommitKind.REPAIR, branch=branch, actor=actor, message=message, token=token)) if confirm else report
    )


def _refuse_abandoned(engine: Engine, branch: BranchName) -> None:
    """Refuse while a write is not resolved: what looks like a change of another program may be a part of it (O-11)."""
    if (intent := abandoned(engine.manifest, branch)) is not None:
        raise RecoveryRequired(
            Kind.RECOVERY_REQUIRED,
            f"a write to branch {branch!r} was interrupted and is not resolved; nothing was repaired. "
            "Open the graph for writing, which resolves it, and try again",
            operation_id=intent.operation,
            branch=branch,
        )


def _heads(engine: Engine, branch: BranchName) -> tuple[BranchSnapshot, Mapping[TableId, int]]:
    """The newest snapshot, and the newest versions of the tables that another program moved.

    A table is also ahead of the graph while a writer is between its commit and its publication, so writers are waited for.
    """
    _refuse_abandoned(engine, branch)
    snapshot = engine.manifest.snapshot(branch)
    if not (seen := _moved(engine, snapshot)):
        return snapshot, {}
    _refuse_abandoned(engine, branch)
    snapshot = engine.manifest.snapshot(branch)
    now, shown = _moved(engine, snapshot), snapshot.state.tables
    stayed = (id_ for id_, head in seen.items() if id_ in now and (now[id_] < shown[id_].version or shown[id_].version < head))
    return snapshot, {id_: now[id_] for id_ in stayed}


def _moved(engine: Engine, snapshot: BranchSnapshot) -> dict[TableId, int]:
    found: dict[TableId, int] = {}
    for row in live_tables(snapshot.state).values():
        with suppress(OmniGraphError):  # `_classify` reports it
            if _owns(snapshot, row) and (head := engine.tables.open(row.ref).head()) != row.version:
                found[row.id] = head
    return found


def _is_lost(finding: Finding, branch: BranchName) -> bool:
    mended = finding.code in (DAMAGED_INDEX, Kind.DRIFT.value)
    return finding.severity is Severity.ERROR and not mended and (branch in finding.branches or not finding.branches)


# -- classification


def _classify(engine: Engine, snapshot: BranchSnapshot, ahead: Mapping[TableId, int], *, force: bool) -> Iterator[TableRepair]:
    commits, _ = engine.manifest.histories([snapshot.branch.name])
    files = GraphFiles(engine.root, deep=True, checksums=recorded_checksums(commits.values()))
    for row in live_tables(snapshot.state).values():
        try:
            table = engine.tables.open(row.ref)
            if _owns(snapshot, row):
                table.head()  # raises if it cannot be read
            head = ahead.get(row.id, row.version)
        except OmniGraphError as error:
            yield TableRepair(row.alias, row.version, None, Classification.UNREADABLE, RepairAction.REFUSED, error=error.message)
            continue
        wrongs = [*_drift(engine, snapshot, row, head, force=force), *_indexes(files, row, table, head), *_given_up(engine, snapshot, row)]
        yield from wrongs or [TableRepair(row.alias, row.version, head, Classification.SOUND, RepairAction.NONE)]


def _owns(snapshot: BranchSnapshot, row: TableRow) -> bool:
    return row.owner == snapshot.branch.native


def _drift(engine: Engine, snapshot: BranchSnapshot, row: TableRow, head: int, *, force: bool) -> Iterator[TableRepair]:
    """The classification of a table whose HEAD is not the version that the graph shows."""
    if head == row.version:
        return

    def found(what: Classification, action: RepairAction, error: str | None = None) -> TableRepair:
        return TableRepair(row.alias, row.version, head, what, action, operations, error=error)

    operations: tuple[str, ...] = ()
    if is_torn(engine.root, f"{row.ref.home}/{version_file(head)}"):
        yield found(Classification.TORN, RepairAction.REMOVE_VERSION)
        return
    if head < row.version:
        wrong = f"its newest version is {head}, older than what the graph shows; restore the table from a backup"
        yield found(Classification.UNREADABLE, RepairAction.REFUSED, wrong)
        return
    try:
        operations = tuple(operation_of(engine.root, row.ref.at(version)) for version in range(row.version + 1, head + 1))
        moved = engine.tables.open(row.ref.at(head))
        rows = moved.count()
        misfit = next(column_mismatches(moved, engine.catalog(snapshot).by_id(_type_of(snapshot, row))), None)
    except OmniGraphError as error:
        yield found(Classification.UNREADABLE, RepairAction.REFUSED, error.message)
        return
    if MAINTENANCE.issuperset(operations) and rows == row.rows and misfit is None:
        yield found(Classification.MAINTENANCE, RepairAction.PUBLISH_HEAD)
    elif misfit is not None:
        yield found(Classification.SEMANTIC, RepairAction.REFUSED, f"it does not fit the schema: {misfit.message}")
    elif force:
        yield found(Classification.SEMANTIC, RepairAction.PUBLISH_HEAD)
    else:
        now = f"it has {counted(rows, 'row')}, not {row.rows:,}"
        told = f"another program changed it ({', '.join(operations)}), and {now}; force publishes it as it is"
        yield found(Classification.SEMANTIC, RepairAction.REFUSED, told)


def _type_of(snapshot: BranchSnapshot, row: TableRow) -> TypeId:
    return next(type_id for type_id, shown in live_tables(snapshot.state).items() if shown == row)


def _indexes(files: GraphFiles, row: TableRow, table: Table, head: int) -> Iterator[TableRepair]:
    """The indexes whose files are missing, truncated or changed. Every byte of them is read."""
    files.check_sizes(table)
    if any(damage.code != DAMAGED_INDEX for damage in files.harmed(table)):
        return  # an index cannot be built from rows that cannot be read
    files.check_indexes(table)
    bad = tuple(index.name for index in table.indexes if index.directory in files.damages)
    if bad:
        yield TableRepair(row.alias, row.version, head, Classification.DAMAGED_INDEX, RepairAction.REBUILD_INDEX, indexes=bad)


def _given_up(engine: Engine, snapshot: BranchSnapshot, row: TableRow) -> Iterator[TableRepair]:
    if not row.floor or not _owns(snapshot, row):
        return
    table = engine.tables.open(row.ref)
    shown = {ref.version for ref in still_shown(engine.manifest) if ref.home == row.ref.home}
    if set(versions_below(table, row.floor)) - fork_points(table) - shown:
        yield TableRepair(row.alias, row.version, row.version, Classification.GIVEN_UP, RepairAction.RECLAIM)


# -- mending


def _mend(engine: Engine, report: RepairReport, request: Request) -> RepairReport:
    branch = BranchName(report.branch)
    first = repeated(engine.manifest, request)
    todo = {table.action for table in report.tables}
    if RepairAction.REMOVE_VERSION in todo:
        _remove_torn(engine, branch)
    commit = first.commit if first is not None else None
    if RepairAction.PUBLISH_HEAD in todo and first is None:
        commit = _publish(engine, report, request)
    if RepairAction.RECLAIM in todo:
        reclaim(engine, branch)
    rebuilt = (
        ensure_indices(engine, branch=branch, actor=request.actor, message=request.message) if RepairAction.REBUILD_INDEX in todo else None
    )
    return msgspec.structs.replace(report, commit=commit, index_commit=rebuilt.commit if rebuilt is not None else None)


def _remove_torn(engine: Engine, branch: BranchName) -> None:
    """Remove incomplete newest versions that no commit shows, under the branch's lock."""
    with hold(engine.manifest, branch, timeout_seconds=LOCK_SECONDS):
        _refuse_abandoned(engine, branch)
        snapshot = engine.manifest.snapshot(branch)
        for row in live_tables(snapshot.state).values():
            if _owns(snapshot, row):
                discard_torn_head(engine.root, row.path, branch=row.native, after=row.version)


def _publish(engine: Engine, report: RepairReport, request: Request) -> Commit | None:
    """Publish tables at their newest versions, in one commit. They are classified again on the snapshot that it is based on."""

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        rows = []
        for row in live_tables(snapshot.state).values():
            head = engine.tables.open(row.ref).head() if _owns(snapshot, row) else row.version
            for found in _drift(engine, snapshot, row, head, force=report.force):
                if found.action is RepairAction.PUBLISH_HEAD:
                    rows.append(_at_head(engine, row, head))
        return Prepared({}, adopted=tuple(rows), commits_empty=bool(rows))

    return write(engine, request, prepare).commit


def _at_head(engine: Engine, row: TableRow, head: int) -> TableRow:
    """The row of a table at its newest version, whose files are checked and flushed like those of a writer."""
    moved, before = engine.tables.open(row.ref.at(head)), engine.tables.open(row.ref)
    stage.settle_version(moved, before=before)
    stage.keep(engine.root, [row.ref.at(version) for version in range(row.version + 1, head + 1)])
    return msgspec.structs.replace(row, version=head, rows=moved.count())
