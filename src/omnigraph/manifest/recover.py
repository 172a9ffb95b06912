"""The intent of a dead writer -> its write completely finished or undone, by the holder of the branch's lock.

While a process holds a branch's lock, no other writer is between arming and publishing on that branch. So an intent of the
branch belongs to a writer that died or failed, and can be resolved at once, forward or back. (An engine whose locks do not
reach other processes must defer a restore to the next open, because a restore hides the commit of a concurrent writer.)
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum
from typing import Final

import msgspec

from omnigraph.errors import Kind, LimitError, NotFound, RecoveryRequired, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.intents import Intent, TableBirth, TableIntent
from omnigraph.manifest.locks import Grant
from omnigraph.manifest.model import COMMIT, Audit, Commit, CommitKind, Resolution, State, TableChange, TableRow, read_commits
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.registry import Branch, all_branches, find_branch
from omnigraph.store import stage
from omnigraph.store.origins import RowOrigin
from omnigraph.store.refs import delete_ref, has_ref, keep_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, Tables, committed_uuid, discard_torn_head, table_at_head

BUSY_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 0.5
"""How long an intent may stay while a process holds the lock of its branch, or while none seems to."""
_PAUSE_SECONDS: Final = 0.01

log = logging.getLogger(__name__)


class EffectStatus(StrEnum):
    """The progress of a write on one table."""

    UNTOUCHED = "untouched"
    PARTIAL = "partial"
    """The first of two commits was made."""
    COMMITTED = "committed"
    RESTORED = "restored"
    OVERTAKEN = "overtaken"
    """The graph shows a later version by another writer. The commit of this intent does not exist and can no longer be made."""


class TableEffect(msgspec.Struct, frozen=True):
    """The state of one table of an intent. `head` is the table at its newest version, or None if its native branch does not exist."""

    intent: TableIntent
    status: EffectStatus
    head: Table | None


def heal(manifest: Manifest, tables: Tables, branch: BranchName, *, timeout_seconds: float) -> list[Audit]:
    """Resolve the intents of dead writers of `branch` and of deleted branches. Without intents it costs one listing."""
    healed: list[Audit] = []
    waiting = [intent for intent in intents.pending(manifest.root.objects) if _concerns(manifest, intent, branch)]
    for on in sorted({branch if _is_live(manifest, intent) else MAIN for intent in waiting}):
        with hold(manifest, on, timeout_seconds=timeout_seconds) as grant:
            healed += heal_held(manifest, tables, on, grant=grant)
    return healed


def abandoned(manifest: Manifest, branch: BranchName | None = None) -> Intent | None:
    """An intent of the branch, or of any, whose writer does not go on; None without one. Takes no lock.

    A writer that is at work removes its intent when it has published, so the intents that are there now are waited for.
    """
    seen = {intent.operation: intent for intent in intents.pending(manifest.root.objects) if branch in (None, intent.branch.name)}
    began = time.monotonic()
    while seen:
        waited = time.monotonic() - began
        for intent in seen.values():
            patience = BUSY_SECONDS if manifest.locks.busy(intent.branch.name) else IDLE_SECONDS
            if waited > patience and intents.read_intent(manifest.root.objects, intents.path_of(intent.operation)) is not None:
                return intent  # still there after the lock was seen free: a writer removes its intent before it releases the lock
        time.sleep(_PAUSE_SECONDS)
        left = {intent.operation for intent in intents.pending(manifest.root.objects)}
        seen = {operation: intent for operation, intent in seen.items() if operation in left}
    return None


def heal_dead(manifest: Manifest, tables: Tables) -> list[Audit]:
    """Resolve the intents of all branches, except those whose lock is held: a live writer finishes its own write.

    It does not wait for locks. The intent of a writer that died just now may remain; the next write of its branch resolves it.
    """
    healed: list[Audit] = []
    waiting = intents.pending(manifest.root.objects)
    for on in sorted({intent.branch.name if _is_live(manifest, intent) else MAIN for intent in waiting}):
        try:
            with hold(manifest, on, timeout_seconds=0) as grant:
                healed += heal_held(manifest, tables, on, grant=grant)
        except LimitError as busy:
            if busy.kind is not Kind.LOCK_TIMEOUT:
                raise
            log.info("an intent on branch %s is left to the writer that holds the lock: %s", on, busy)
    return healed


def heal_held(manifest: Manifest, tables: Tables, branch: BranchName, *, grant: Grant) -> list[Audit]:
    """Resolve the intents of a branch under its lock. They are read again, because no writer can change them now (REC-12).

    There are several if a paused writer armed its intent after its successor did. The commit of one then looks foreign to the
    other, so a blocked intent is tried again as long as another one is resolved.
    """
    done: list[Audit] = []
    waiting = [intent for intent in intents.pending(manifest.root.objects) if _concerns(manifest, intent, branch)]
    while waiting:
        blocked: list[Intent] = []
        reason: RecoveryRequired | None = None
        for intent in waiting:
            try:
                audit = _resolve_or_discard(manifest, tables, intent, branch, grant=grant)
            except RecoveryRequired as error:
                blocked.append(intent)
                reason = reason or error
                continue
            done += [audit] if audit is not None else []
        if reason is not None and blocked == waiting:
            raise reason
        waiting = blocked
    return done


def _resolve_or_discard(manifest: Manifest, tables: Tables, intent: Intent, branch: BranchName, *, grant: Grant) -> Audit | None:
    """Resolve or discard one intent. If memory runs out, the intent stays for the next attempt."""
    try:
        if _is_live(manifest, intent):
            return resolve(manifest, tables, intent, grant=grant)
        return _discard(manifest, intent, branch, grant=grant)
    except (MemoryError, RuntimeError) as error:
        raise RecoveryRequired(
            Kind.RECOVERY_REQUIRED,
            f"an interrupted write to branch {intent.branch.name!r} could not be resolved ({str(error) or type(error).__name__}); "
            "nothing else was written. The next write, refresh or read-write open tries again",
            operation_id=intent.operation,
            branch=intent.branch.name,
        ) from error


def resolve(manifest: Manifest, tables: Tables, intent: Intent, *, grant: Grant) -> Audit | None:
    """Finish or undo one intent under its branch's lock. Returns None if its writer had finished it, or if it has no effects."""
    manifest.discard_torn(intent.branch)
    _, ledger, state = manifest.look(intent.branch.name)
    ended = [commit for end in (intent.commit, intent.rollback) for commit in read_commits(ledger.find(COMMIT + end))]
    if ended or not intent.has_effects:
        for commit in ended:
            ledger.keep(commit.manifest_version)  # its writer may have died before it flushed this version
        intents.disarm(manifest.root.objects, intent)
        return ended[0].audit if ended else None
    found = [_inspect(manifest, table, state) for table in intent.tables]
    forward = _may_go_forward(intent, found, state) and _flush_effects(manifest, tables, intent)
    way = Resolution.ROLLED_FORWARD if forward else Resolution.ROLLED_BACK
    reach(Fault.RECOVER_FOUND)
    match intents.decide(manifest.root.objects, intent, way, check=grant.check):
        case None:
            grant.check()  # usually raises: another process took over the lock and resolved the intent
            return None
        case Resolution.ROLLED_FORWARD:
            commit = _roll_forward(manifest, tables, intent, epoch=grant.epoch)
        case _:
            commit = _roll_back(manifest, intent, found, grant=grant)
    reach(Fault.RECOVER_AFTER_PUBLISH)
    intents.disarm(manifest.root.objects, intent)
    log.info("operation %s on branch %s: %s", intent.operation, intent.branch.name, commit.audit and commit.audit.outcome)
    return commit.audit


def _may_go_forward(intent: Intent, found: list[TableEffect], state: State) -> bool:
    """Return whether all tables are committed and the head is still the one that the write started from."""
    reached = all(effect.status is EffectStatus.COMMITTED for effect in found)
    return reached and intent.way is not Resolution.ROLLED_BACK and (state.head.commit, state.head.schema) == (intent.parent, intent.schema)


def _flush_effects(manifest: Manifest, tables: Tables, intent: Intent) -> bool:
    """Flush the files of the dead writer before they are published. Returns False if any is missing or incomplete."""
    root = manifest.root
    if not all(_is_created(manifest, birth) for birth in intent.births):
        return False
    made = [table.made for table in intent.tables]
    try:
        for table, ref in zip(intent.tables, made, strict=True):
            stage.settle_version(tables.open(ref), before=tables.open(table.before.ref))
            if table.creates_ref:
                keep_ref(root, ref.path, str(table.native))
        stage.keep(root, [*made, *(birth.row.ref for birth in intent.births)])
    except StorageError as error:
        if error.kind is not Kind.TORN_FILE:
            raise
        log.warning("write %s is rolled back, because a file is incomplete: %s", intent.operation, error)
        return False
    return True


# -- roll forward, roll back, discard


def _roll_forward(manifest: Manifest, tables: Tables, intent: Intent, *, epoch: int) -> Commit:
    """Publish what the writer would have published, under its commit id and actor (REC-08). All tables are committed."""
    rows = [birth.row for birth in intent.births]
    for table in intent.tables:
        rows.append(after(intent, table, rows=tables.open(table.made).count()))
    finished = publication(intent, rows, epoch=epoch, audit=_audit(intent, Resolution.ROLLED_FORWARD, rows))
    reach(Fault.RECOVER_BEFORE_PUBLISH)
    return publish(manifest, finished, branch=intent.branch.name).commit


def _roll_back(manifest: Manifest, intent: Intent, found: list[TableEffect], *, grant: Grant) -> Commit:
    """Restore every table that the intent could still change, committed or not: the commit of a paused writer then fails.

    The restored versions are published, so that the graph shows HEAD again and the next write starts from it.
    """
    reach(Fault.RECOVER_BEFORE_RESTORE)
    rows = [restored for effect in found if (restored := _restore(manifest.root, effect, grant)) is not None]
    for birth in intent.births:
        if _is_created(manifest, birth):  # RT-44: files of another writer are neither used nor removed
            grant.check()
            manifest.root.objects.delete_prefix(birth.row.path)
    reach(Fault.RECOVER_AFTER_RESTORE)
    undone = Publication(
        CommitKind.RECOVERY,
        tables=tuple(rows),
        commit=intent.rollback,
        actor=intent.actor,
        audit=_audit(intent, Resolution.ROLLED_BACK, rows, found),
        expect=Preconditions(branch=intent.branch, epoch=grant.epoch, tables={row.id: _version_before(intent, row) for row in rows}),
    )
    reach(Fault.RECOVER_BEFORE_PUBLISH)
    return publish(manifest, undone, branch=intent.branch.name).commit


def _restore(root: Root, effect: TableEffect, grant: Grant) -> TableRow | None:
    """Restore one table. Returns None if its native branch was created by this write: the branch is removed and was never visible."""
    intent = effect.intent
    grant.check()
    if effect.status is EffectStatus.OVERTAKEN:
        return None
    if intent.creates_ref:
        delete_ref(root, intent.base.path, str(intent.native))
        return None
    assert effect.head is not None, "a table that existed before the write exists after it"
    head = effect.head
    if effect.status is not EffectStatus.RESTORED:
        stage.keep(root, [head.ref])  # after a power cut, recovery must still identify the version below the restore
        head = stage.commit(stage.put_back(head, intent.base.version, uuid=intent.restore_uuid))
    return msgspec.structs.replace(intent.before, version=head.ref.version)


def _discard(manifest: Manifest, intent: Intent, branch: BranchName, *, grant: Grant) -> Audit | None:
    """Discard the intent of a deleted branch, and record that once, on main (REC-14)."""
    audit = _audit(intent, Resolution.DISCARDED, [])
    if branch != MAIN:
        return None  # only the holder of main's lock may write there; the next one discards the intent
    manifest.discard_torn(Branch.main())
    _, ledger, _ = manifest.look(MAIN)
    if not len(ledger.find(COMMIT + intent.rollback)):
        expect = Preconditions(epoch=grant.epoch)
        publish(manifest, Publication(CommitKind.RECOVERY, commit=intent.rollback, actor=intent.actor, audit=audit, expect=expect))
    reach(Fault.RECOVER_AFTER_PUBLISH)
    _remove_effects(manifest, intent, grant)
    intents.disarm(manifest.root.objects, intent)
    return audit


def _remove_effects(manifest: Manifest, intent: Intent, grant: Grant) -> None:
    """Remove the native branches and tables that the writer created on the deleted branch, unless a live branch shows them."""
    root = manifest.root
    shown = [row for name in (MAIN, *all_branches(root.objects)) for row in manifest.look(name)[2].tables.values()]
    homes, paths = {row.ref.home for row in shown}, {row.path for row in shown}
    for table in intent.tables:
        if table.creates_ref and table.base.home not in homes:
            grant.check()
            delete_ref(root, table.base.path, str(table.native))
    for birth in intent.births:
        if birth.row.path not in paths and _is_created(manifest, birth):
            grant.check()
            root.objects.delete_prefix(birth.row.path)


# -- inspection


def _inspect(manifest: Manifest, intent: TableIntent, state: State) -> TableEffect:
    root, base = manifest.root, intent.base
    if intent.creates_ref and not _is_forked(root, base):
        return TableEffect(intent, EffectStatus.UNTOUCHED, None)
    discard_torn_head(root, base.path, branch=intent.native, after=base.version)
    head = table_at_head(root, base.path, branch=intent.native)
    newest = head.ref.version
    if newest < base.version:
        behind = f"{base.path} is at version {newest}, but the graph shows version {base.version}; restore the table from a backup"
        raise StorageError(Kind.CORRUPT, behind, table=base.path)
    made = [committed_uuid(root, base.at(version)) for version in range(base.version + 1, newest + 1)]
    match made:
        case []:
            return TableEffect(intent, EffectStatus.UNTOUCHED, head)
        case ours if tuple(ours) == intent.uuids:
            return TableEffect(intent, EffectStatus.COMMITTED, head)
        case [ours] if ours == intent.uuid:
            return TableEffect(intent, EffectStatus.PARTIAL, head)
        case [*earlier, last] if last == intent.restore_uuid and tuple(earlier) == intent.uuids[: len(earlier)]:
            return TableEffect(intent, EffectStatus.RESTORED, head)
        case [first, *_] if first != intent.uuid and _shown_past(intent, state):
            return TableEffect(intent, EffectStatus.OVERTAKEN, head)
        case _:
            raise RecoveryRequired(
                Kind.RECOVERY_REQUIRED,
                f"another program committed to {intent.before.alias} after an interrupted write; nothing was changed. "
                f"Examine versions {base.version + 1} to {newest} of {base.path}, then remove the file of the intent from "
                f"{root.of(intents.DIRECTORY)}",
                table=base.path,
                expected=base.version + 1,
                actual=newest,
            )


def _is_forked(root: Root, base: TableRef) -> bool:
    """Return whether the native branch exists and is complete."""
    return has_ref(root, base.path, str(base.branch)) and committed_uuid(root, base) is not None


def _is_created(manifest: Manifest, birth: TableBirth) -> bool:
    """Return whether the table exists and was created by this write."""
    return committed_uuid(manifest.root, birth.row.ref) == birth.uuid


def _shown_past(intent: TableIntent, state: State) -> bool:
    row = state.tables.get(intent.before.id)
    return row is not None and row.ref.home == intent.base.home and row.version > intent.base.version


def _concerns(manifest: Manifest, intent: Intent, branch: BranchName) -> bool:
    return intent.branch.name == branch or not _is_live(manifest, intent)


def _is_live(manifest: Manifest, intent: Intent) -> bool:
    """Return whether the intent's branch still exists. Decided by its object, never by a failed open."""
    try:
        return find_branch(manifest.root.objects, intent.branch.name) == intent.branch
    except NotFound:
        return False


# -- publications and audits


def publication(
    intent: Intent, rows: list[TableRow], *, epoch: int, audit: Audit | None = None, origins: tuple[RowOrigin, ...] = ()
) -> Publication:
    """Return the publication that completes an intent. It is the same for its writer and for a recovery, which does not know `origins`."""
    return Publication(
        intent.kind,
        tables=(*rows, *intent.restated, *intent.adopted),
        schema=intent.new_schema,
        commit=intent.commit,
        actor=intent.actor,
        message=intent.message,
        token=intent.token,
        digest=intent.digest,
        at=intent.at,
        merged=intent.merged,
        copied=intent.copied,
        counts=intent.counts,
        audit=audit,
        origins=origins,
        expect=Preconditions(
            branch=intent.branch,
            epoch=epoch,
            head=intent.parent,
            schema=intent.schema,
            tables={
                **{table.before.id: table.before.version if table.shown is None else table.shown for table in intent.tables},
                **{row.id: row.version for row in intent.restated},
            },
        ),
    )


def after(intent: Intent, table: TableIntent, *, rows: int) -> TableRow:
    """Return the row of a table's new version."""
    version = table.made.version
    return msgspec.structs.replace(
        table.before,
        alias=table.alias or table.before.alias,
        native=table.native,
        owner=intent.branch.native,
        version=version,
        rows=rows,
        dropped=table.drops,
        floor=version if table.gives_up else table.before.floor,
        tidied=version if intent.kind is CommitKind.OPTIMIZE else table.before.tidied,
    )


def _audit(intent: Intent, outcome: Resolution, rows: list[TableRow], found: list[TableEffect] | None = None) -> Audit:
    heads = {effect.intent.before.id: effect.head.ref.version for effect in found or [] if effect.head is not None}
    changes = [
        TableChange(table.before.id, table.before.alias, heads.get(table.before.id, table.before.version)) for table in intent.tables
    ]
    reached = {row.id: row.version for row in rows}
    return Audit(
        intent.operation,
        outcome,
        intent.kind,
        intent.actor,
        tuple(msgspec.structs.replace(change, after=reached.get(change.id)) for change in changes),
    )


def _version_before(intent: Intent, row: TableRow) -> int:
    return next(table.before.version for table in intent.tables if table.before.id == row.id)
