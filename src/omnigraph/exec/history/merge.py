"""A branch, or the inverse of a commit, and a target branch -> one commit that brings its changes in, or the conflicts.

Both are one three-way comparison (`landing`). A merge brings in what the source changed since the last common ancestor. A revert brings
in the way back from a commit to its parent. The result is checked like every write and goes through the write protocol: one intent, at
most one transaction per table, one publication. If the target moves meanwhile, the comparison is made again under the lock, with the
source commit that was read first (M-26).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, OmniGraphError
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.conflicts import Conflict, Conflicts, Settlement, merge_error
from omnigraph.exec.history.landing import DELETED, INSERTED, UPDATED, Landing, refuse_choices
from omnigraph.exec.history.relation import MergeOutcome, Relation, relate
from omnigraph.exec.history.schemas import joint_schema
from omnigraph.exec.write.protocol import Prepared, Request, Written, repeated, write
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.manifest import lineage
from omnigraph.manifest.birth import write_schema_copy
from omnigraph.manifest.branches import delete_branch
from omnigraph.manifest.model import Commit, SchemaText
from omnigraph.manifest.read import BranchSnapshot, Manifest

_NOTHING: Final = {INSERTED: 0, UPDATED: 0, DELETED: 0}


class MergeResult(msgspec.Struct, frozen=True):
    """The result of a merge: the numbers of entities that it inserts, updates and deletes on the target.

    `commit` is None if the target was up to date, and for a dry run. `conflicts` are the first ones that a dry run found, and
    `conflict_count` is the number of all. `branch_deleted` is None if no deletion was asked for.
    """

    outcome: MergeOutcome
    commit: Commit | None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None

    def __repr__(self) -> str:
        conflicts = f", {counted(self.conflict_count, 'conflict')}" if self.conflict_count else ""
        by = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"MergeResult({self.outcome}: {self.inserted} inserted, {self.updated} updated, {self.deleted} deleted{conflicts}, {by})"


class RevertResult(msgspec.Struct, frozen=True):
    """The result of a revert. `commit` is None if nothing of the reverted commit was left to undo."""

    reverted: CommitId
    commit: Commit | None
    inserted: int
    updated: int
    deleted: int

    def __repr__(self) -> str:
        by = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"RevertResult({self.reverted}: {self.inserted} inserted, {self.updated} updated, {self.deleted} deleted, {by})"


def merge(engine: Engine, source: BranchName, request: Request, settlement: Settlement) -> MergeResult:
    """Merge a branch into the branch of the request, or raise `MergeConflicts` and write nothing (M-04)."""
    if (first := repeated(engine.manifest, request)) is not None:  # before the source is looked for, which may be deleted by now
        return _first_result(engine.manifest, first)
    run = _Merge(engine, source, request.branch, settlement)
    written = write(engine, request, run.prepare)
    if run.schema is not None and request.branch == MAIN:
        write_schema_copy(engine.root, run.schema)
    return MergeResult(run.outcome, written.commit, *_counted(written.counts))


def _first_result(manifest: Manifest, first: Written) -> MergeResult:
    """The result of a merge that was committed earlier."""
    assert first.commit is not None, "a token belongs to a commit"
    ours, theirs = first.commit.parents
    forward = ours in lineage.distances(manifest.history(first.commit.branch), theirs)
    return MergeResult(MergeOutcome.FAST_FORWARD if forward else MergeOutcome.MERGED, first.commit, *_counted(first.counts))


def plan_merge(engine: Engine, source: BranchName, into: BranchName, settlement: Settlement) -> MergeResult:
    """What `merge` would do now. Writes nothing."""
    run = _Merge(engine, source, into, settlement)
    landing = run.compare(engine.manifest.snapshot(into))
    if landing is None:
        return MergeResult(run.outcome, None)
    found = landing.conflicts
    outcome = MergeOutcome.CONFLICTS if found.count else run.outcome
    return MergeResult(outcome, None, *_counted(landing.counts), found.described, found.count)


class OpenMerge(NamedTuple):
    """The conflicts of a merge, and the snapshots that must be kept while they are read."""

    conflicts: Iterator[Conflict]
    read: tuple[BranchSnapshot, ...] = ()


def open_merge(engine: Engine, source: BranchName, into: BranchName, settlement: Settlement) -> OpenMerge:
    """Compare two branches as `merge` does. All conflicts between entities are told, in parts. Writes nothing."""
    run, ours = _Merge(engine, source, into, settlement), engine.manifest.snapshot(into)
    landing = run.compare(ours)
    return OpenMerge(iter(())) if landing is None else OpenMerge(landing.all_conflicts(), (run.theirs, ours))


def delete_merged(engine: Engine, source: BranchName, result: MergeResult) -> MergeResult:
    """Delete a branch after its merge. A refusal does not undo the merge (M-33). A retry finds no branch to delete."""
    try:
        delete_branch(engine.manifest, source)
    except NotFound:
        return msgspec.structs.replace(result, branch_deleted=True)
    except OmniGraphError as error:
        return msgspec.structs.replace(result, branch_deleted=False, branch_delete_error=error.message)
    return msgspec.structs.replace(result, branch_deleted=True)


class _Merge:
    """One merge. It may be prepared twice; the source is read once."""

    def __init__(self, engine: Engine, source: BranchName, into: BranchName, settlement: Settlement) -> None:
        if source == into:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"branch {source!r} cannot be merged into itself", branch=source)
        self._engine: Final = engine
        self._settlement: Final = settlement
        self.theirs: Final = engine.manifest.snapshot(source)
        self._relation: Relation | None = None
        self._landing: Landing | None = None

    @property
    def outcome(self) -> MergeOutcome:
        assert self._relation is not None, "the merge is prepared"
        return self._relation.outcome

    @property
    def schema(self) -> SchemaText | None:
        """The schema that the target took over, or None."""
        return None if self._landing is None else self._landing.schema

    def compare(self, ours: BranchSnapshot) -> Landing | None:
        """Compare the source with a target. None if the target has all its commits."""
        manifest, theirs = self._engine.manifest, self.theirs
        self._relation = relation = relate(manifest, theirs, ours)
        if relation.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
            refuse_choices(self._settlement)
            return None
        with manifest.reading(theirs, past=False):
            base, *crossing = bases = [*map(manifest.snapshot_of, relation.bases)]
            schema = joint_schema(self._engine, theirs, ours, bases)
            return Landing(self._engine, base, theirs, ours, self._settlement, crossing=crossing, schema=schema)

    def prepare(self, ours: BranchSnapshot) -> Prepared:
        if self._landing is not None:  # the target moved: nothing will name the files of the first attempt
            self._landing.discard()
        self._landing = landing = self.compare(ours)
        if landing is None:
            return Prepared({}, counts=_NOTHING)
        _raise_conflicts(landing.conflicts, source=self.theirs.branch.name, branch=ours.branch.name)
        assert self._relation is not None
        with self._engine.manifest.reading(self.theirs, past=False):
            return Prepared(
                landing.changes(),
                counts=landing.counts,
                commits_empty=True,
                schema=landing.schema,
                adopted=landing.adopted,
                merged=self.theirs.commit,
                copied=self._relation.copied,
            )


def revert(engine: Engine, commit: Commit, request: Request, settlement: Settlement) -> RevertResult:
    """Undo one commit: bring the way back from it to its first parent into the branch of the request."""
    if not commit.parents:
        raise ConflictError(
            Kind.PARENTLESS_COMMIT, f"commit {commit.id} is the first of the graph and cannot be reverted", commit=commit.id
        )
    manifest = engine.manifest
    if (first := repeated(manifest, request)) is not None:
        return RevertResult(commit.id, first.commit, *_counted(first.counts))
    base, theirs = (manifest.snapshot(request.branch, at=at) for at in (commit.id, commit.parents[0]))
    if base.state.head.schema != theirs.state.head.schema:
        raise ConflictError(
            Kind.SCHEMA_BOUNDARY,
            f"commit {commit.id} changed the schema, which a revert does not undo; apply the schema that you want",
            commit=commit.id,
        )
    landing: Landing | None = None

    def prepare(ours: BranchSnapshot) -> Prepared:
        nonlocal landing
        if landing is not None:
            landing.discard()
        with manifest.reading(theirs, past=True), manifest.reading(base, past=True):
            landing = Landing(engine, base, theirs, ours, settlement)
            _raise_conflicts(landing.conflicts, commit=commit.id, branch=request.branch)
            return Prepared(landing.changes(), counts=landing.counts)

    written = write(engine, request, prepare)
    return RevertResult(commit.id, written.commit, *_counted(written.counts))


def _counted(counts: Mapping[str, int]) -> tuple[int, int, int]:
    return counts[INSERTED], counts[UPDATED], counts[DELETED]


def _raise_conflicts(conflicts: Conflicts, **facts: object) -> None:
    if conflicts.count:
        raise merge_error(conflicts, **facts)
