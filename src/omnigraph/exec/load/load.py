"""Data and a snapshot -> one checked change per table, for the write protocol.

The input is read once, before any lock is taken: rows are converted, checked by value and written to unreferenced files. Rows that keep
values of existing rows are written to temporary files, and completed on each snapshot that the protocol passes. Rules that depend on other
rows and on the branch (keys, uniqueness, endpoints, cardinality) are also checked on each snapshot.
If another writer commits meanwhile, the load is checked again but not read again. If any record is invalid, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import msgspec
import pyarrow as pa

from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.embed import Embedder
from omnigraph.errors import ConflictError, Kind, OmniGraphError
from omnigraph.exec.engine import Engine
from omnigraph.exec.external_blobs import BlobPolicy, ExternalBlobs
from omnigraph.exec.load.batches import Data, RowCheck, read_batches, rereadable
from omnigraph.exec.load.embedded import embeds, load_embedding
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.patches import Patched
from omnigraph.exec.load.staging import KEY_BYTES, Origin, StagedType, Staging, StagingTarget, target_of
from omnigraph.exec.problems import REPORTED, Problem, Report
from omnigraph.exec.validate.delta import CommittedTables, Delta
from omnigraph.exec.validate.findings import Findings, Violation, error, merge_in_order
from omnigraph.exec.validate.integrity import check_ids, check_integrity
from omnigraph.exec.validate.value_rules import check_values
from omnigraph.exec.write.protocol import Files, Prepared, Request, Written, repeated, write
from omnigraph.ids import BranchName, CommitId, SchemaHash, TableId
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import check_name, read_branch
from omnigraph.store.membership import LIMIT_BYTES
from omnigraph.store.refs import fresh_ref

EDGES_WITHOUT_ID: Final = "edges_without_id"
"""The count of new edges that a merge or an upsert made because their records have no id."""


class Stage(StrEnum):
    """The stages of a load."""

    READ = "read"
    CHECK = "check"
    COMMIT = "commit"


class Progress(msgspec.Struct, frozen=True):
    """The progress of a load. `total_bytes` is None if the size of the input is unknown."""

    stage: Stage
    rows: int
    read_bytes: int
    total_bytes: int | None


OnProgress = Callable[[Progress], None]
Advance = Callable[[int, int | None, int], None]
"""Called with the bytes read so far, the total bytes if known, and the rows read so far."""


class Intake(Protocol):
    """The source of a load's rows, read by this process or by many."""

    @property
    def rereadable(self) -> bool:
        """True if the same rows can be read again."""
        ...

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        """Read all rows into `staging` and all problems into `report`. Rules that need only the row itself are checked here."""
        ...


class LocalIntake:
    """Data that this process reads. `embedder` gives the embedder of vectors that the data leaves out, if there is one.

    `external` gives the policy for blobs that the data names by URIs.
    """

    def __init__(
        self,
        data: Data,
        embedder: Callable[[], Embedder | None] = lambda: None,
        *,
        external: Callable[[], BlobPolicy] = BlobPolicy,
        write: bool = True,
    ) -> None:
        self._data: Final = data
        self._embedder: Final = embedder
        self._policy: Final = external
        self._write: Final = write
        self._embeds = False
        self._external = False

    @property
    def rereadable(self) -> bool:
        """A load that embeds or reads external blobs is not read again: that might happen under a lock, and take as long as others like."""
        return rereadable(self._data) and not self._embeds and not self._external

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        mode = staging.mode
        embedder = self._embedder() if embeds(catalog) else None
        self._embeds = embedder is not None
        embedding = load_embedding(catalog, embedder, mode, write=self._write)
        readable = catalog if embedding is None else embedding.readable
        external = ExternalBlobs(self._policy)
        check = row_check(mode)
        for batch in read_batches(self._data, readable, report, mode=mode, check=check, progress=advance, external=external.read):
            filled = batch if embedding is None else embedding.filled(batch, report)
            if not report.problems:  # after the first problem nothing will be committed: the rest is read only for its problems
                staging.add(filled)
        self._external = external.used
        staging.finish()


def row_check(mode: LoadMode) -> RowCheck:
    """The check of values in this mode. What a record leaves out is checked when the rows are complete."""

    def check(entity: EntityType, rows: pa.Table, /, *, limit: int) -> Findings:
        checked = rows if not mode.finds_by_ends(entity) else rows.select([name for name in rows.schema.names if name != ID])
        return check_values(entity, checked, limit=limit, partial=mode.keeps)

    return check


def run_load(engine: Engine, request: Request, load: Load, *, from_: BranchName | None = None) -> Written:
    """Run a load as one commit. It is read and checked before any lock is taken. Under the lock it is checked again if the branch moved.

    `from_` creates the branch if it does not exist. This happens after all checks, so a refused load leaves no branch. A process that
    dies after that leaves a branch with the content of `from_`.
    """
    try:
        return _run(engine, request, load, from_)
    finally:
        load.close()


def _run(engine: Engine, request: Request, load: Load, from_: BranchName | None) -> Written:
    manifest = engine.manifest
    if from_ is not None and read_branch(manifest.root.objects, request.branch) is None:
        load.prepare(_preview_branch(manifest, request.branch, from_))
        create_branch(manifest, request.branch, from_=from_)
    elif (first := repeated(manifest, request)) is not None:  # a retry of a committed load reads nothing
        return first
    load.prepare(manifest.snapshot(request.branch))
    return write(engine, request, load.prepare)


def _preview_branch(manifest: Manifest, branch: BranchName, from_: BranchName) -> BranchSnapshot:
    """The snapshot of the branch right after its creation: it inherits every table."""
    base = manifest.snapshot(from_)
    manifest.schema(base.state.head.schema, branch=from_)  # cached by its hash: the branch itself does not exist yet
    return BranchSnapshot(msgspec.structs.replace(base.branch, name=check_name(branch), native=fresh_ref(branch)), base.version, base.state)


class Load:
    """The state of one load. `prepare` may be called for several snapshots; the input is read for the first one."""

    def __init__(
        self,
        engine: Engine,
        intake: Intake,
        mode: LoadMode,
        *,
        write: bool,
        report_errors: int = REPORTED,
        on_progress: OnProgress | None = None,
        key_bytes: int = KEY_BYTES,
    ) -> None:
        self._intake = intake
        self._mode = mode
        self._engine = engine
        self._write = write
        self._report_errors = report_errors
        self._on_progress = on_progress
        self._key_bytes = key_bytes
        self._schema: SchemaHash | None = None
        self._staging: Staging | None = None
        self._completed: Staging | None = None
        """The rows of types whose rows depend on the snapshot."""
        self._progress = Progress(Stage.READ, 0, 0, None)
        self._prepared: tuple[CommitId, Prepared] | None = None

    def prepare(self, snapshot: BranchSnapshot) -> Prepared:
        """The changes that add these rows to this snapshot. Raises an error that lists the problems of the rows."""
        if self._prepared is not None and self._prepared[0] == snapshot.commit:  # a commit never changes
            return self._prepared[1]
        try:
            staging = self._read(snapshot)
            self._report_progress(Stage.CHECK)
            complete = [self._complete(staged, snapshot) for staged in staging.types.values()]
            self._check(complete, snapshot)
        except BaseException:
            self.discard()
            raise
        self._report_progress(Stage.COMMIT)
        prepared = Prepared(dict(self._changes(complete)), counts=self._counts(staging), commits_empty=True)
        self._prepared = snapshot.commit, prepared
        return prepared

    def discard(self) -> None:
        """Delete the written files: no commit will reference them."""
        for staging in (self._staging, self._completed):
            if staging is not None:
                staging.discard()
        self._staging = self._completed = None

    def close(self) -> None:
        """Delete what no commit references: the patches."""
        if self._staging is not None:
            self._staging.close()

    # -- reading, once

    def _read(self, snapshot: BranchSnapshot) -> Staging:
        schema = snapshot.state.head.schema
        if self._staging is None or schema != self._schema:
            self._staging, self._schema = self._read_all(snapshot), schema
        for staged in list(self._staging.types.values()):
            target = target_of(snapshot, staged.entity)
            if target.same_place(staged.target):
                staged.target = StagingTarget(target.row, staged.target.native)
            else:
                self._staging.move(staged, target)
        return self._staging

    def _read_all(self, snapshot: BranchSnapshot) -> Staging:
        if self._staging is not None:  # the schema was changed while we read
            self.discard()
            if not self._intake.rereadable:
                changed = "the schema changed during the load, and the input is read only once; nothing was written"
                raise ConflictError(Kind.SCHEMA_CHANGED, f"{changed}; start the load again", branch=snapshot.branch.name)
        catalog, report = self._engine.catalog(snapshot), Report(self._report_errors)
        self._staging = self._new_staging(partial(target_of, snapshot), self._mode)
        self._intake.fill(self._staging, catalog, report, self._advance)
        if report.problems:
            raise error(report.problems, more=report.more)
        return self._staging

    def _new_staging(self, target: Callable[[EntityType], StagingTarget], mode: LoadMode) -> Staging:
        return Staging(self._engine.tables, target, write=self._write, mode=mode, key_bytes=self._key_bytes)

    def _advance(self, read_bytes: int, total_bytes: int | None, rows: int) -> None:
        self._progress = Progress(Stage.READ, rows, read_bytes, total_bytes)
        self._report_progress(Stage.READ)

    def _report_progress(self, stage: Stage) -> None:
        if self._on_progress is not None:
            self._on_progress(msgspec.structs.replace(self._progress, stage=stage))

    # -- completing and checking, for every snapshot

    def _complete(self, staged: StagedType, snapshot: BranchSnapshot) -> StagedType:
        """The rows of a type as the load leaves them. They are completed again only if another writer changed the table."""
        if staged.patches is None:
            return staged
        if self._completed is None:
            self._completed = self._new_staging(self._target_of_patches, LoadMode.APPEND)
        if (before := self._completed.types.get(staged.entity.id)) is not None:
            if before.target.row == staged.target.row:
                return before
            self._completed.forget(before)
        complete = self._completed.of(staged.entity)
        complete.places = staged.places
        findings: list[Findings] = []
        for rows, found in self._patched(staged).whole_rows(limit=self._report_errors):
            findings.append(found)
            if rows is not None and not any(findings):  # after the first problem nothing will be committed
                self._completed.put(staged.entity, rows, fresh=len(rows) if staged.minted else 0)
        if any(findings):
            raise self._refused(self._repeated(staged, snapshot) or merge_in_order(findings, limit=self._report_errors), [staged])
        complete.flush()
        return complete

    def _target_of_patches(self, entity: EntityType) -> StagingTarget:
        assert self._staging is not None, "patches are laid over rows after they were read"
        return self._staging.types[entity.id].target

    def _patched(self, staged: StagedType) -> Patched:
        row, by_ends = staged.target.row, self._mode.finds_by_ends(staged.entity)
        assert staged.patches is not None
        return Patched(
            staged.entity,
            staged.patches,
            staged.rows,
            self._engine.tables.open(row.ref),
            row.rows,
            by_id=self._mode.keeps and not staged.minted,
            by_ends=by_ends,
            limit_bytes=min(self._key_bytes, LIMIT_BYTES),
        )

    def _repeated(self, staged: StagedType, snapshot: BranchSnapshot) -> Findings:
        """Ids that occur twice. Only the first such record finds its row, so what the others lack is no problem of its own."""
        if self._mode.finds_by_ends(staged.entity):
            return Findings()
        delta, catalog = Delta(staged.entity, added=staged, minted=staged.minted), self._engine.catalog(snapshot)
        return check_ids(delta, catalog, self._committed(snapshot), budget_bytes=self._key_bytes, limit=self._report_errors)

    def _committed(self, snapshot: BranchSnapshot) -> CommittedTables:
        return CommittedTables(snapshot, self._engine.tables)

    def _check(self, complete: Sequence[StagedType], snapshot: BranchSnapshot) -> None:
        catalog = self._engine.catalog(snapshot)
        deltas = [
            Delta(
                staged.entity,
                added=staged,
                minted=staged.minted,
                whole=self._mode is LoadMode.OVERWRITE,
                replaces=self._mode is not LoadMode.APPEND,
            )
            for staged in _in_order(complete, catalog)
        ]
        committed = self._committed(snapshot)
        findings = check_integrity(deltas, catalog, committed, budget_bytes=self._key_bytes, limit=self._report_errors)
        if findings:
            raise self._refused(findings, complete)

    def _refused(self, findings: Findings, complete: Sequence[StagedType]) -> OmniGraphError:
        return error(_with_origins(findings.found, complete), more=findings.more)

    # -- changes

    def _changes(self, complete: Sequence[StagedType]) -> Iterator[tuple[TableId, Files]]:
        whole = self._mode is LoadMode.OVERWRITE
        for staged in complete:
            if staged.shelf is not None and (whole or staged.rows):  # a type without rows needs no change and no fork
                replaced = self._replaced(staged) if self._mode.replaces else None
                files, native = tuple(staged.shelf.fragments), staged.shelf.native
                limit_bytes = min(self._key_bytes, LIMIT_BYTES)
                yield staged.target.row.id, Files(files, replaced=replaced, whole=whole, native=native, limit_bytes=limit_bytes)

    def _counts(self, staging: Staging) -> Mapping[str, int]:
        counts = {staged.entity.alias: staged.rows for staged in staging.types.values()}
        new_edges = sum(staged.fresh for staged in staging.types.values() if isinstance(staged.entity, EdgeType))
        return {**counts, EDGES_WITHOUT_ID: new_edges} if self._mode.replaces and new_edges else counts

    def _replaced(self, staged: StagedType) -> StagedType | None:
        """The rows whose ids are replaced. None if the table is empty or all ids are new."""
        return None if staged.minted or not staged.target.row.rows else staged


def _in_order(staged: Sequence[StagedType], catalog: Catalog) -> list[StagedType]:
    """The types in the order of the schema, so that the report does not depend on the order of the rows."""
    places = {entity.id: place for place, entity in enumerate(catalog.entities)}
    return sorted(staged, key=lambda one: places[one.entity.id])


def _with_origins(found: Sequence[Violation], complete: Sequence[StagedType]) -> list[Problem]:
    """Problems with the sources and lines of their records. Each type is asked once, because the answer may be remote."""
    origins: dict[tuple[str, int], Origin] = {}
    for staged in complete:
        type_ = staged.entity.alias
        rows = sorted({one.row for one in found if one.type == type_ and one.row is not None})
        origins |= {(type_, row): origin for row, origin in zip(rows, staged.places.of(rows), strict=True)}
    places = (origins.get((one.type, one.row)) if one.row is not None else None for one in found)
    return [one.problem() if place is None else one.problem(**place._asdict()) for one, place in zip(found, places, strict=True)]
