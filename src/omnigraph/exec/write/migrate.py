"""A wanted schema -> a migration plan, and one commit that applies it to a branch.

After a hard drop the versions that it gives up are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from omnigraph.catalog import Catalog, encode
from omnigraph.catalog.evolve import Evolution, SchemaPlan, plan_schema
from omnigraph.catalog.evolve.steps import Step, UnsupportedChange
from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, Outcome, StorageError, Unsupported
from omnigraph.exec.engine import Engine
from omnigraph.exec.write.protocol import Alter, Change, GiveUp, Prepared, Request, repeated, write
from omnigraph.exec.write.tokens import digest_of
from omnigraph.faults import Fault, reach
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId, new_hex16
from omnigraph.lang import Source, located, parse_schema
from omnigraph.manifest.birth import NewTable, new_table_id, write_schema_copy
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import Commit, CommitKind, SchemaText, TableRow
from omnigraph.manifest.publish import LOCK_SECONDS
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.manifest.retention import still_shown
from omnigraph.manifest.tags import withdraw_all
from omnigraph.store.durable import version_file
from omnigraph.store.reclaim import remove_versions, versions_below


def reclaim(engine: Engine, branch: BranchName, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Remove the versions that `branch` has given up and no branch or tag shows.

    It holds the graph's exclusive lock, so that no branch is created from such a version meanwhile. It only removes versions of
    tables that the branch owns: the versions of an inherited table belong to the parent.
    """
    manifest, tables = engine.manifest, engine.tables
    if not any(row.floor for row in manifest.look(branch)[2].tables.values()):
        return
    with Locks.of(manifest.root.objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        withdraw_all(manifest.root.objects)  # a creator of a branch may have read its parent before these versions were given up
        found, _, state = manifest.look(branch)
        shown = still_shown(manifest)
        for row in state.tables.values():
            if row.floor and row.owner == found.native and manifest.root.objects.exists(f"{row.ref.home}/{version_file(row.version)}"):
                table = tables.open(row.ref)  # cleanup may have removed a dropped table
                spent = [version for version in versions_below(table, row.floor) if row.ref.at(version) not in shown]
                reach(Fault.RECLAIM_BEFORE)
                grant.check()  # such a version is never shown again, but a process that lost its lock must not remove anything
                remove_versions(table, spent)
                tables.forget(row.ref.at(version) for version in spent)
                reach(Fault.RECLAIM_AFTER)


class Wanted(NamedTuple):
    """The schema to apply, and whether dropped data may be removed from history too."""

    source: Source
    allow_data_loss: bool


class AppliedSchema(msgspec.Struct, frozen=True):
    """The result of applying a schema. `applied` is False if the schema was accepted already; nothing was written then."""

    supported: bool
    applied: bool
    steps: tuple[Step, ...]
    commit: Commit | None
    manifest_version: int

    def __repr__(self) -> str:
        by = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"AppliedSchema({counted(len(self.steps), 'step')}, {by})"


def apply(
    engine: Engine, wanted: Wanted, *, branch: BranchName, actor: str | None, message: str | None = None, token: str | None = None
) -> AppliedSchema:
    """Make the wanted schema the accepted schema of a branch and change its tables to match, in one commit."""
    digest = digest_of(wanted.source.text, str(wanted.allow_data_loss)) if token is not None else None
    request = Request(CommitKind.SCHEMA, branch=branch, actor=actor, message=message, token=token, digest=digest)
    if (first := repeated(engine.manifest, request)) is not None and first.commit is not None:
        before = engine.catalog(engine.manifest.snapshot(branch, at=first.commit.parents[0]))
        return AppliedSchema(
            supported=True,
            applied=True,
            steps=evolve(wanted, before).plan.steps,
            commit=first.commit,
            manifest_version=first.commit.manifest_version,
        )
    steps: tuple[Step, ...] = ()

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        nonlocal steps  # planned again on every snapshot: the accepted schema is the one of the snapshot (S-10)
        accepted = engine.catalog(snapshot)
        evolution = evolve(wanted, accepted)
        _refuse_unsupported(evolution.plan)
        steps = evolution.plan.steps
        return prepare_migration(wanted, accepted, evolution, snapshot)

    manifest = engine.manifest
    commit = write(engine, request, prepare).commit
    snapshot = manifest.snapshot(branch)
    if branch == MAIN:
        write_schema_copy(manifest.root, manifest.schema(snapshot.state.head.schema))
    if wanted.allow_data_loss:
        _reclaim(engine, branch, commit)
    version = commit.manifest_version if commit is not None else snapshot.version
    return AppliedSchema(supported=True, applied=commit is not None, steps=steps, commit=commit, manifest_version=version)


def evolve(wanted: Wanted, accepted: Catalog) -> Evolution:
    """The steps from an accepted schema to a wanted one. Raises `LanguageError` if the wanted text is not a valid schema."""
    with located(wanted.source):
        tree = parse_schema(wanted.source.text, name=wanted.source.name)
        if accepted.entities and not tree.declarations:  # a file that is empty by mistake, rather than the wish to drop every type
            raise InvalidInput(Kind.INVALID_ARGUMENT, "the schema declares no type, and would drop every type of the branch")
        return plan_schema(accepted, tree, mint=new_hex16, allow_data_loss=wanted.allow_data_loss)


def _refuse_unsupported(plan: SchemaPlan) -> None:
    """Refuse a plan with an unsupported step. A plan is applied as a whole or not at all (S-01, S-04)."""
    for step in plan.steps:
        if isinstance(step, UnsupportedChange):
            raise Unsupported(Kind.UNSUPPORTED, step.message, entity=step.entity, code=step.code)


def prepare_migration(wanted: Wanted, accepted: Catalog, evolution: Evolution, snapshot: BranchSnapshot) -> Prepared:
    """The write of a supported plan. It is empty if the schema does not change (S-01).

    Most steps change only the schema and no table. They are a commit all the same, so that a write prepared before it detects
    that the schema has changed (S-03).
    """
    if not evolution.plan.steps:
        return Prepared({})
    after = evolution.catalog
    kept = [(old, new, _row(snapshot, old)) for new in _entities(after) if (old := accepted.by_id(new.id)) is not None]
    dropped = [_row(snapshot, old) for old in _entities(accepted) if after.by_id(old.id) is None]
    changes: dict[TableId, Change] = {row.id: change for old, new, row in kept if (change := _change(wanted, old, new, row, snapshot))}
    if wanted.allow_data_loss:
        changes |= {row.id: GiveUp(None) for row in dropped if _owns(snapshot, row)}
    return Prepared(
        changes,
        schema=SchemaText(wanted.source.text, encode(after).decode()),
        creates=tuple(new_table(entity) for entity in _entities(after) if accepted.by_id(entity.id) is None),
        drops=frozenset(row.id for row in dropped),
        renames={row.id: new.alias for _, new, row in kept if row.alias != new.alias},
    )


def _reclaim(engine: Engine, branch: BranchName, commit: Commit | None) -> None:
    """Remove given-up versions. Also if nothing was applied now: an earlier call may have been stopped after its commit."""
    try:
        reclaim(engine, branch)
    except OmniGraphError as error:
        if commit is None:
            raise
        raise StorageError(
            error.kind,
            f"the schema was applied as commit {commit.id}, but not all versions that it gives up could be removed ({error.message}); "
            "apply the schema again to remove the rest",
            outcome=Outcome.HAPPENED,
            commit=commit.id,
            branch=branch,
        ) from error


def new_table(entity: EntityType) -> NewTable:
    """The table of a new type, at an unused path."""
    return NewTable(new_table_id(entity.id), entity.alias, f"{entity.kind}s", table_schema(entity))


def _change(wanted: Wanted, old: EntityType, new: EntityType, row: TableRow, snapshot: BranchSnapshot) -> Change | None:
    """The change of a type's table for its new columns. None if they are the same.

    A hard drop rewrites the rows, because their files also hold the dropped values. An inherited table is not rewritten: it is
    part of another branch's history.
    """
    columns = table_schema(new)
    if table_schema(old).equals(columns, check_metadata=True):
        return None
    lost = {property_.id for property_ in old.properties} - {property_.id for property_ in new.properties}
    return GiveUp(columns) if lost and wanted.allow_data_loss and _owns(snapshot, row) else Alter(columns)


def _owns(snapshot: BranchSnapshot, row: TableRow) -> bool:
    return row.owner == snapshot.branch.native


def _entities(catalog: Catalog) -> Iterator[EntityType]:
    yield from catalog.nodes
    yield from catalog.edges


def _row(snapshot: BranchSnapshot, entity: EntityType) -> TableRow:
    return snapshot.table_of(entity.id, name=entity.name)
