"""The write protocol: a preparation -> one commit of the graph, or no change. Every writer goes through it.

     1 heal       resolve the intents that dead writers left on this branch
     2 capture    authority = branch incarnation, head commit, schema hash; and one snapshot
     3 prepare    the caller's work; data files are written, nothing is committed. If the branch is busy: only reads ahead
     4 lock       root shared, branch exclusive
     5 recheck    if the authority changed or an intent appeared: heal and prepare again, holding the lock
     6 arm        check and flush every new file; then write and flush the sidecar
     7 commit     each table, fenced, on the handle it was staged on; a first touch creates its native branch; version files are flushed
     8 confirm    (not needed: the commits of a table are proven by their uuids)
     9 publish    one swap of `__manifest`
    10 disarm     remove the sidecar

A failure before step 6 leaves at most unreferenced files. After step 6 the failing writer resolves its own intent while it still
holds the lock. Rolled forward, the caller gets its receipt. Rolled back, the caller gets the error and the graph is unchanged.
A write that the disk did not confirm is never acknowledged: after a failed flush the writer rolls back, and if the commit is
already published, the outcome is unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, assert_never
from uuid import uuid4

import msgspec
import pyarrow as pa

from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, Outcome, PreconditionFailed, RecoveryRequired, StorageError
from omnigraph.exec.engine import Engine
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableId, new_commit_id, new_ulid
from omnigraph.manifest import intents
from omnigraph.manifest.birth import NewTable
from omnigraph.manifest.intents import Intent, TableBirth, TableIntent
from omnigraph.manifest.locks import Grant
from omnigraph.manifest.model import COMMIT, Commit, CommitKind, Resolution, SchemaText, TableRow, now, read_commits
from omnigraph.manifest.publish import LOCK_SECONDS, Drafted, draft, hold, publish, published_before
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.recover import after, heal, heal_held, publication, resolve
from omnigraph.store import alter, compact, index, stage, widen
from omnigraph.store.arrays import Column
from omnigraph.store.durable import FlushFailed
from omnigraph.store.membership import LIMIT_BYTES
from omnigraph.store.objects import First
from omnigraph.store.origins import RowOrigin
from omnigraph.store.refs import create_ref, fresh_ref
from omnigraph.store.root import Root
from omnigraph.store.stage import Staged
from omnigraph.store.tables import Table, Tables, create_table

log = logging.getLogger(__name__)


class Append(msgspec.Struct, frozen=True):
    """Add rows whose ids are known to be new."""

    rows: pa.Table


class Upsert(msgspec.Struct, frozen=True):
    """Add rows, each replacing the row with the same id, if any."""

    rows: pa.Table


class DeleteKeys(msgspec.Struct, frozen=True):
    """Delete the rows with these ids. All of them exist."""

    keys: Column


class Overwrite(msgspec.Struct, frozen=True):
    """Replace the whole content of the table."""

    rows: pa.Table


class Files(msgspec.Struct, frozen=True):
    """Add data files that are already written. Their rows are added, replace the rows with the ids in `replaced`, or, with `whole`,
    replace the whole content.

    `native` is the native branch that the files were written for and that does not exist yet. It is None if the files lie among the
    table's own.
    """

    fragments: tuple[Any, ...]
    replaced: stage.Keys | None = None
    whole: bool = False
    native: str | None = None
    limit_bytes: int = LIMIT_BYTES
    """How many bytes of the ids in `replaced` are held in memory. The rest is kept in temporary files."""


class Patch(msgspec.Struct, frozen=True):
    """Remove rows by their addresses in the version that the write was prepared on, and add rows, all in one transaction.

    The added rows are in memory, or, if they are many, in data files that are already written, as in `Files`. With `of`, the table of
    another branch is forked and changed instead of the branch's own, and shown in its place. With `schema`, the table gets these
    columns first, in a commit of its own, and the added rows have them.
    """

    removed: Any
    rows: pa.Table | None = None
    fragments: tuple[Any, ...] = ()
    native: str | None = None
    of: TableRow | None = None
    schema: pa.Schema | None = None


class Alter(msgspec.Struct, frozen=True):
    """Change the columns of a table. Rows are not rewritten."""

    schema: pa.Schema


class GiveUp(msgspec.Struct, frozen=True):
    """Rewrite a table with these columns, or, with None, without rows. The commit gives up its earlier versions."""

    schema: pa.Schema | None


class BuildIndexes(msgspec.Struct, frozen=True):
    """Build the missing indexes of a table in one transaction. `ready` are those whose files are already written."""

    specs: tuple[index.IndexSpec, ...]
    ready: tuple[index.Segment, ...] = ()


class Tidy(msgspec.Struct, frozen=True):
    """Swap fragments for others with the same rows, then add segments to the indexes of the table and remove those they replace.

    All files are written. Both parts are one commit of the table each; either may be empty.
    """

    rewrites: tuple[compact.Rewrite, ...]
    segments: tuple[index.Segment, ...] = ()
    replaced: tuple[index.IndexPart, ...] = ()


Change = Append | Upsert | DeleteKeys | Overwrite | Files | Patch | Alter | GiveUp | BuildIndexes | Tidy


class Prepared(msgspec.Struct, frozen=True):
    """The work of a writer: at most one change per table, the counts for the caller, and whether an empty write is still a commit.

    A new schema lists its effects on the set of tables. Some tables are created. Some are dropped or renamed, which changes their
    rows in the manifest and nothing else.
    """

    changes: Mapping[TableId, Change]
    counts: Mapping[str, int] = {}
    commits_empty: bool = False
    schema: SchemaText | None = None
    creates: tuple[NewTable, ...] = ()
    drops: frozenset[TableId] = frozenset()
    renames: Mapping[TableId, str] = {}
    adopted: tuple[TableRow, ...] = ()
    """Tables of a merged branch that this branch shows from now on. It does not own them, as it would not those of a parent."""
    merged: CommitId | None = None
    """The second parent of the commit: the head of a merged branch."""
    copied: tuple[Commit, ...] = ()
    """The commits of the merged branch that this one does not have. Its history survives its deletion."""

    @property
    def origins(self) -> tuple[RowOrigin, ...]:
        """The origins of fragments that are rewritten."""
        tidied = (change for change in self.changes.values() if isinstance(change, Tidy))
        return tuple(origin for change in tidied for rewrite in change.rewrites for origin in rewrite.origins)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit when the changes turn out to be empty."""
        return not (self.commits_empty or self.schema is not None or self.creates or self.drops or self.renames)


class Request(msgspec.Struct, frozen=True):
    """The branch, the author and the conditions of a write."""

    kind: CommitKind
    branch: BranchName = MAIN
    actor: str | None = None
    message: str | None = None
    token: str | None = None
    digest: str | None = None
    """A hash of what is asked for, of `tokens.py`. None if a retry cannot be compared with the first call."""
    if_commit: CommitId | None = None
    timeout_seconds: float = LOCK_SECONDS


class Written(msgspec.Struct, frozen=True):
    """The result of a write. `commit` is None if there was nothing to do (W-24)."""

    commit: Commit | None
    counts: Mapping[str, int]


Prepare = Callable[[BranchSnapshot], Prepared]
"""Prepares a write on a snapshot. It may run twice, so its only side effect must be unreferenced files."""

ReadAhead = Callable[[BranchSnapshot], None]
"""Reads what the preparation will need and what does not change until then, given an older snapshot. It writes nothing."""


class _Staged(msgspec.Struct, frozen=True):
    """The result of step 3: the change of each table, and what of it was staged before the lock."""

    snapshot: BranchSnapshot
    prepared: Prepared
    tables: tuple[_TableStage, ...]


class _TableStage(msgspec.Struct, frozen=True):
    """The change of one table. `staged` is None for a first touch, which is staged in step 7, after the native branch is created."""

    before: TableRow
    change: Change
    staged: Staged | None
    native: str | None
    shown: int | None = None
    """The version that the branch shows, if `before` is the table of another branch."""
    then: Staged | None = None
    """The second commit of the table, on the version that the first one makes."""

    @property
    def parts(self) -> tuple[Staged, ...]:
        """The staged commits of the table, in order."""
        return tuple(part for part in (self.staged, self.then) if part is not None)


def write(engine: Engine, request: Request, prepare: Prepare, *, read_ahead: ReadAhead | None = None) -> Written:
    """Run one write from its preparation to its commit. If another writer holds the branch, `read_ahead` runs before the wait."""
    branch, manifest, tables = request.branch, engine.manifest, engine.tables
    heal(manifest, tables, branch, timeout_seconds=request.timeout_seconds)  # 1
    if (first := repeated(manifest, request)) is not None:  # first: the other checks would see the changes of the first call
        return first
    early: _Staged | None = None
    kept = manifest.locks.keeps(branch)  # then others wait for us, and nothing runs beside our preparation
    if not kept and not manifest.locks.busy(branch):  # a busy branch will have moved when we get the lock: prepare then
        early = _prepare_early(engine, request, prepare)  # 2, 3
        reach(Fault.WRITE_PREPARED)
    elif not kept and read_ahead is not None and (known := manifest.last_read(branch)) is not None:
        with suppress(OmniGraphError):  # it may fail on this snapshot and succeed on the one that the write will be prepared on
            read_ahead(known)
    with hold(manifest, branch, timeout_seconds=request.timeout_seconds) as grant:  # 4
        heal_held(manifest, tables, branch, grant=grant)  # 5
        if (first := repeated(manifest, request)) is not None:
            return first
        still = early is not None and _same_authority(manifest, early.snapshot)
        ready = early if early is not None and still else _prepare(engine, request, prepare)
        _check_condition(engine, request, ready.snapshot)
        if not ready.tables and ready.prepared.is_empty:
            return Written(None, ready.prepared.counts)
        _refuse_drift(tables, ready)
        written = _land(engine, request, ready, grant)
    if engine.after_write is not None and written.commit is not None:
        engine.after_write(engine, written.commit)
    return written


# -- 2, 3 and 5


def _prepare(engine: Engine, request: Request, prepare: Prepare) -> _Staged:
    snapshot = engine.manifest.snapshot(request.branch)
    _check_condition(engine, request, snapshot)
    prepared = prepare(snapshot)
    staged = (_stage(engine.tables, snapshot, table, change) for table, change in sorted(prepared.changes.items()))
    return _Staged(snapshot, prepared, tuple(entry for entry in staged if entry is not None))


def _prepare_early(engine: Engine, request: Request, prepare: Prepare) -> _Staged | None:
    """Prepare before the lock is held. Returns None if others committed meanwhile and cleanup removed the snapshot."""
    try:
        return _prepare(engine, request, prepare)
    except NotFound as error:
        if error.kind is not Kind.VERSION_RECLAIMED:
            raise
        return None


def _stage(tables: Tables, snapshot: BranchSnapshot, table: TableId, change: Change) -> _TableStage | None:
    before = snapshot.state.tables[table]
    if isinstance(change, Patch) and change.of is not None:
        base = before.replaced_by(change.of, branch=snapshot.branch.native)
        return _TableStage(base, change, None, change.native or fresh_ref(snapshot.branch.name), shown=before.version)
    if before.owner != snapshot.branch.native:
        written_for = change.native if isinstance(change, Files | Patch) else None
        return _TableStage(before, change, None, written_for or fresh_ref(snapshot.branch.name))
    opened = tables.open(before.ref)
    staged = _apply(opened, change, uuid=str(uuid4()))
    return (
        None if staged is None else _TableStage(before, change, staged, before.native, then=_following(opened, change, uuid=str(uuid4())))
    )


def _needs_two(change: Change) -> bool:
    """Whether a change takes two commits: a version must have rewritten fragments before indexes name them, and columns before rows do."""
    match change:
        case Tidy(rewrites, segments):
            return bool(rewrites and segments)
        case Patch(removed, rows, fragments, schema=schema):
            return schema is not None and bool(len(removed) or rows is not None or fragments)
        case _:
            return False


def _following(table: Table, change: Change, *, uuid: str) -> Staged | None:
    """The second commit of a change that needs two."""
    if not _needs_two(change):
        return None
    match change:
        case Tidy(_, segments, replaced):
            return index.stage_segments(table, segments, replaced, version=table.ref.version + 1, uuid=uuid)
        case Patch(removed, rows, fragments, schema=schema):
            return widen.patch_wider(table, schema, removed, rows=rows, fragments=fragments, uuid=uuid)
        case _:
            return None


def _apply(table: Table, change: Change, *, uuid: str) -> Staged | None:
    match change:
        case Append(rows):
            return stage.append(table, rows, uuid=uuid)
        case Upsert(rows):
            return stage.upsert(table, rows, uuid=uuid)
        case DeleteKeys(keys):
            return stage.delete_keys(table, keys, uuid=uuid)
        case Overwrite(rows):
            return stage.overwrite(table, rows, uuid=uuid)
        case Files(fragments, replaced, whole, limit_bytes=limit_bytes):
            return stage.put_files(table, fragments, replaced=replaced, whole=whole, limit_bytes=limit_bytes, uuid=uuid)
        case Patch(removed, rows, fragments, schema=schema):
            if schema is not None:
                return alter.alter(table, schema, uuid=uuid)
            return stage.patch(table, removed, rows=rows, fragments=fragments, uuid=uuid)
        case Alter(schema):
            return alter.alter(table, schema, uuid=uuid)
        case GiveUp(schema):
            return alter.rewrite(table, schema, uuid=uuid)
        case BuildIndexes(specs, ready):
            return index.build(table, specs, ready=ready, uuid=uuid)
        case Tidy(rewrites, segments, replaced):
            if rewrites:
                return compact.stage_rewrites(table, rewrites, uuid=uuid)
            return index.stage_segments(table, segments, replaced, version=table.ref.version, uuid=uuid) if segments else None
        case _:
            assert_never(change)


def _same_authority(manifest: Manifest, snapshot: BranchSnapshot) -> bool:
    now_ = manifest.snapshot(snapshot.branch.name)
    was, is_ = snapshot.state.head, now_.state.head
    return now_.branch == snapshot.branch and (was.commit, was.schema) == (is_.commit, is_.schema)


def _check_condition(engine: Engine, request: Request, snapshot: BranchSnapshot) -> None:
    if request.if_commit is not None and request.if_commit != snapshot.commit and request.if_commit not in _the_same_rows(engine, snapshot):
        raise PreconditionFailed(
            Kind.PRECONDITION_FAILED,
            f"branch {request.branch!r} is at commit {snapshot.commit}, not at {request.if_commit}; nothing was written",
            branch=request.branch,
            expected=request.if_commit,
            actual=snapshot.commit,
        )


def _the_same_rows(engine: Engine, snapshot: BranchSnapshot) -> Iterator[CommitId]:
    """The commits before the head that show the same entities: only upkeep came after them, perhaps by the caller's own last write."""
    at = snapshot.commit
    for commit in engine.manifest.commits(snapshot.branch.name):
        if commit.id == at:
            if not commit.kind.moves_rows_only:
                return
            at = commit.parents[0]
            yield at


def _refuse_drift(tables: Tables, ready: _Staged) -> None:
    """Refuse a table whose HEAD is not the version that the graph shows. No intent explains it, so it was changed by hand (W-52)."""
    for entry in ready.tables:
        if entry.staged is not None and (head := entry.staged.table.head()) != entry.before.version:
            raise StorageError(
                Kind.DRIFT,
                f"{entry.before.alias} is at version {head}, but the graph shows version {entry.before.version}: another program "
                f"committed to {entry.before.path} directly. Nothing was written. `omnigraph repair` says what it did and can publish it; "
                "`omnigraph copy` makes a sound graph of what this one shows",
                table=entry.before.path,
                expected=entry.before.version,
                actual=head,
            )


def repeated(manifest: Manifest, request: Request) -> Written | None:
    """Returns the receipt of the first call if this is a retry of a write that was committed, else None.

    Raises InvalidInput if the token belongs to another write: with the receipt of that one, this one would be lost without a word.
    """
    if request.token is None:
        return None
    if not request.token:  # an unset variable of a script: all its writes would be one
        raise InvalidInput(Kind.INVALID_ARGUMENT, "the token is empty; a token names one write: give it a name of its own, or no token")
    branch, ledger, _ = manifest.look(request.branch)
    first = published_before(ledger, branch, request.token)
    if first is None:
        return None
    differs = first.digest is not None and request.digest is not None and first.digest != request.digest
    if first.kind is not request.kind or differs:
        what = f"another {first.kind}" if first.kind is request.kind else f"{'an' if first.kind[0] in 'aeiou' else 'a'} {first.kind}"
        raise InvalidInput(
            Kind.TOKEN_REUSED,
            f"the token {request.token!r} belongs to {what}, commit {first.id}; nothing was written. "
            "A token names one write: give this one a token of its own, or none",
            token=request.token,
            commit=first.id,
        )
    return Written(first, first.counts)


# -- 6 to 10


def _land(engine: Engine, request: Request, ready: _Staged, grant: Grant) -> Written:
    manifest, tables = engine.manifest, engine.tables
    intent = _intent(request, ready)
    finished = partial(publication, intent, epoch=grant.epoch, origins=ready.prepared.origins)
    _arm(manifest, intent, first=partial(_settle, manifest.root, ready, grant))  # 6
    ready = _settled(ready)
    drafted: Drafted | None = None
    try:
        reach(Fault.WRITE_ARMED)
        rows = list(_create_tables(manifest, intent, ready))  # 7
        for row, staged, then in _stages(tables, intent, ready):
            rows.append(row)
            if row.id == intent.tables[-1].before.id:  # now all rows are known: write them beside the last commit
                drafted = draft(manifest, finished(rows), branch=request.branch)
            tables.keep(_advance(staged, then))
        _keep(manifest.root, rows, drafted)
        reach(Fault.WRITE_COMMITTED)
        grant.check()
        published = publish(manifest, finished(rows), branch=request.branch, drafted=drafted)  # 9
    except Exception as error:  # noqa: BLE001  # whatever failed, the armed intent must be resolved before the lock is released
        _discard(drafted)
        return Written(_after_failure(engine, intent, error, grant), intent.counts)
    reach(Fault.WRITE_PUBLISHED)
    _discard(drafted)
    _disarm(manifest, intent)  # 10
    return Written(published.commit, intent.counts)


def _settle(root: Root, ready: _Staged, grant: Grant, flush_intent: Callable[[], None]) -> None:
    """Check and flush every file that was written so far, and the bytes of the intent, which is not visible yet."""
    stage.settle_files(root, [part for entry in ready.tables for part in entry.parts], beside=flush_intent)
    grant.check()
    reach(Fault.WRITE_BEFORE_ARM)


def _settled(ready: _Staged) -> _Staged:
    def settled(part: Staged | None) -> Staged | None:
        return stage.settled(part) if part is not None else None

    entries = (msgspec.structs.replace(entry, staged=settled(entry.staged), then=settled(entry.then)) for entry in ready.tables)
    return msgspec.structs.replace(ready, tables=tuple(entries))


def _intent(request: Request, ready: _Staged) -> Intent:
    head = ready.snapshot.state.head
    return Intent(
        format=intents.FORMAT,
        operation=OperationId(new_ulid()),
        branch=ready.snapshot.branch,
        parent=head.commit,
        schema=head.schema,
        commit=new_commit_id(),
        rollback=new_commit_id(),
        kind=request.kind,
        at=now(),
        actor=request.actor,
        message=request.message,
        token=request.token,
        digest=request.digest,
        counts=ready.prepared.counts,
        tables=tuple(
            TableIntent(
                entry.before,
                entry.native,
                entry.staged.uuid if entry.staged is not None else str(uuid4()),
                str(uuid4()),
                alias=ready.prepared.renames.get(entry.before.id),
                drops=entry.before.id in ready.prepared.drops,
                gives_up=isinstance(entry.change, GiveUp),
                shown=entry.shown,
                then=entry.then.uuid if entry.then is not None else str(uuid4()) if _needs_two(entry.change) else None,
            )
            for entry in ready.tables
        ),
        births=tuple(
            TableBirth(TableRow(new.id, new.alias, new.path, 1, rows=0, owner=ready.snapshot.branch.native), str(uuid4()))
            for new in ready.prepared.creates
        ),
        restated=tuple(_restated(ready)),
        adopted=ready.prepared.adopted,
        new_schema=ready.prepared.schema,
        merged=ready.prepared.merged,
        copied=ready.prepared.copied,
    )


def _restated(ready: _Staged) -> Iterator[TableRow]:
    """The manifest rows of tables that are only dropped or only renamed."""
    prepared, committed = ready.prepared, {entry.before.id for entry in ready.tables}
    for row in ready.snapshot.state.tables.values():
        if row.id in committed:
            continue
        if row.id in prepared.drops:
            yield msgspec.structs.replace(row, dropped=True)
        elif row.id in prepared.renames:
            yield msgspec.structs.replace(row, alias=prepared.renames[row.id])


def _arm(manifest: Manifest, intent: Intent, *, first: First) -> None:
    """Write the intent, which becomes visible after `first`. If it is not certain that it was written, remove it: nothing that it
    announces has happened yet (F-01).
    """
    try:
        intents.arm(manifest.root.objects, intent, first=first)
    except OmniGraphError:
        _disarm(manifest, intent)
        raise


def _keep(root: Root, rows: list[TableRow], drafted: Drafted | None) -> None:
    """Check and flush the version files of the tables and, in the same step, the rows of the publication."""
    refs = [row.ref for row in rows]
    if drafted is None:
        stage.keep(root, refs)
    else:
        drafted.rows.settle_with(stage.version_files(refs))


def _discard(drafted: Drafted | None) -> None:
    """Remove the rows of a publication that was not published, or not from this draft."""
    if drafted is not None:
        drafted.discard()


def _create_tables(manifest: Manifest, intent: Intent, ready: _Staged) -> Iterator[TableRow]:
    for birth, new in zip(intent.births, ready.prepared.creates, strict=True):
        reach(Fault.WRITE_BEFORE_CREATE)
        create_table(manifest.root, new.path, new.schema, uuid=birth.uuid)
        reach(Fault.WRITE_AFTER_CREATE)
        yield birth.row


def _stages(tables: Tables, intent: Intent, ready: _Staged) -> Iterator[tuple[TableRow, Staged, Staged | None]]:
    """The row of each table after its commits, and the changes. The caller commits them before it asks for the next."""
    for at, (table, entry) in enumerate(zip(intent.tables, ready.tables, strict=True)):
        if at:
            reach(Fault.WRITE_BETWEEN_TABLES)
        staged, then = (entry.staged, entry.then) if entry.staged is not None else _first_touch(tables, table, entry)
        counts = [part.counts for part in (staged, then) if part is not None]
        yield after(intent, table, rows=entry.before.rows + sum(each.inserted - each.deleted for each in counts)), staged, then


def _advance(staged: Staged, then: Staged | None) -> Table:
    """Commit the change of a table, and the one that follows it. Recovery must find the version between them after a power cut."""
    if then is None:
        return stage.advance(staged)
    moved = stage.commit(staged)
    reach(Fault.WRITE_BETWEEN_COMMITS)
    return stage.advance(msgspec.structs.replace(then, table=moved))


def _first_touch(tables: Tables, intent: TableIntent, entry: _TableStage) -> tuple[Staged, Staged | None]:
    """Fork the table from the version this branch sees (B-13) and stage on the fork. Staging on the parent's handle would corrupt it."""
    reach(Fault.WRITE_BEFORE_REF)
    forked = create_ref(tables.open(entry.before.ref), str(intent.native))
    reach(Fault.WRITE_AFTER_REF)
    staged = _apply(forked, entry.change, uuid=intent.uuid)
    if staged is None:
        raise StorageError(Kind.STORAGE, f"the change of {entry.before.alias} found no rows to change on the fork of the table")
    then = None if intent.then is None else _following(forked, entry.change, uuid=intent.then)
    parts = [staged] if then is None else [staged, then]
    stage.settle_files(forked.root, parts)  # before the publication is drafted, which records their checksums
    return stage.settled(staged), None if then is None else stage.settled(then)


def _after_failure(engine: Engine, intent: Intent, error: Exception, grant: Grant) -> Commit:
    """Finish or undo our own intent while we still hold the lock. The caller learns of it only if that fails too.

    A writer that lost its lease must not resolve anything. It finds in the chain of commits how its successor resolved the intent.
    """
    manifest, tables = engine.manifest, engine.tables
    try:
        ended = any(_find_commit(manifest, intent, end) for end in (intent.commit, intent.rollback))
        if isinstance(error, FlushFailed):
            if ended:
                raise error  # published, but a power cut may undo it. The intent stays: the next writer flushes before it continues
            intent = _mark_for_rollback(manifest, intent)
        if not ended:
            grant.check()
        resolve(manifest, tables, intent, grant=grant)
        landed = _find_commit(manifest, intent, intent.commit)
    except FlushFailed as doubtful:
        if doubtful is error:
            raise
        raise _unresolved(intent, error, doubtful) from error
    except Exception as worse:  # noqa: BLE001  # for example out of memory: the intent stays, and the error must say so
        raise _unresolved(intent, error, worse) from error
    if landed is None:
        raise _undone(error)
    return landed


def _undone(error: Exception) -> Exception:
    """The error of a write that was undone. After a failed flush the outcome is now certain: the write did not happen."""
    if not isinstance(error, FlushFailed) or error.outcome is Outcome.DID_NOT_HAPPEN:
        return error
    facts = {name: fact for name, fact in error.facts.items() if name != "outcome"}
    certain = FlushFailed(error.kind, error.message, outcome=Outcome.DID_NOT_HAPPEN, **facts)
    certain.__cause__ = error
    return certain


def _mark_for_rollback(manifest: Manifest, intent: Intent) -> Intent:
    """Record in the intent that the next writer must not finish it. If that cannot be recorded, it is still undone now."""
    back = msgspec.structs.replace(intent, way=Resolution.ROLLED_BACK)
    try:
        intents.arm(manifest.root.objects, back)
    except StorageError as error:
        log.warning("could not mark the intent %s for rollback: %s", intent.operation, error)
    return back


def _unresolved(intent: Intent, error: Exception, worse: Exception) -> RecoveryRequired:
    reason = str(worse) or type(worse).__name__
    return RecoveryRequired(
        Kind.RECOVERY_REQUIRED,
        f"a write to branch {intent.branch.name!r} failed before it was complete ({error}) and could not be resolved ({reason}); "
        "the next write, refresh or read-write open will resolve it",
        outcome=Outcome.UNKNOWN,
        operation_id=intent.operation,
        branch=intent.branch.name,
    )


def _find_commit(manifest: Manifest, intent: Intent, commit: CommitId) -> Commit | None:
    _, ledger, _ = manifest.look(intent.branch.name)
    return next(iter(read_commits(ledger.find(COMMIT + commit))), None)


def _disarm(manifest: Manifest, intent: Intent) -> None:
    """Remove the sidecar. The write is durable already: a failure is logged, and the next writer removes the sidecar (F-02)."""
    try:
        intents.disarm(manifest.root.objects, intent)
    except StorageError as error:
        log.warning("could not remove the finished intent %s: %s", intent.operation, error)
