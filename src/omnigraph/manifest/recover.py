"""An intent whose writer is gone -> finished or undone, whole, by whoever holds the branch's lock.

The holder of a branch's lock knows that no other writer is between arming and publishing there, so an intent of that
branch belongs to a writer that died or failed, and may be resolved completely, forward or back, at once. (An engine
whose locks end at the process must defer a restore to the next open, because a restore silently buries a commit that
a live writer makes beside it.)
"""

from __future__ import annotations

import logging
from enum import StrEnum

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
from omnigraph.manifest.registry import Branch, find_branch, list_branches
from omnigraph.store import stage
from omnigraph.store.refs import delete_ref, has_ref, keep_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, Tables, committed_uuid, discard_torn_head, table_at_head

log = logging.getLogger(__name__)


class EffectStatus(StrEnum):
    """How far one table of an intent came."""

    UNTOUCHED = "untouched"
    COMMITTED = "committed"
    RESTORED = "restored"
    OVERTAKEN = "overtaken"
    """The graph shows a later version, made without us: our commit is not there and can land no more."""


class TableEffect(msgspec.Struct, frozen=True):
    """One table of an intent as it is found: `head` is it at its newest version, or None when its native branch is not there."""

    intent: TableIntent
    status: EffectStatus
    head: Table | None


def heal(manifest: Manifest, tables: Tables, branch: BranchName, *, timeout_seconds: float) -> list[Audit]:
    """Resolve what dead writers of `branch`, or of branches that are gone, left behind. One listing when there is nothing."""
    healed: list[Audit] = []
    waiting = [intent for intent in intents.pending(manifest.root.objects) if _concerns(manifest, intent, branch)]
    for on in sorted({branch if _is_live(manifest, intent) else MAIN for intent in waiting}):
        with hold(manifest, on, timeout_seconds=timeout_seconds) as grant:
            healed += heal_held(manifest, tables, on, grant=grant)
    return healed


def heal_dead(manifest: Manifest, tables: Tables) -> list[Audit]:
    """The same on every branch, but for those on which somebody is at work: who lives finishes its own write, and is not waited for.

    So an intent may stay for a while whose writer died just now; the next write of its branch resolves it, at the latest.
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
            log.info("an intent on %s is left to the writer at work there: %s", on, busy)
    return healed


def heal_held(manifest: Manifest, tables: Tables, branch: BranchName, *, grant: Grant) -> list[Audit]:
    """The same, by the holder of the branch's lock: intents are read anew, now that their writers cannot move (REC-12).

    There are several when a writer that was overtaken in its sleep armed after its successor: then what looks foreign to
    one is the work of another, so whoever is blocked is tried again as long as others get done.
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
    """One intent of a dead writer, resolved or discarded. Lack of memory leaves it as it is, for the next attempt."""
    try:
        if _is_live(manifest, intent):
            return resolve(manifest, tables, intent, grant=grant)
        return _discard(manifest, intent, branch, grant=grant)
    except (MemoryError, RuntimeError) as error:
        raise RecoveryRequired(
            Kind.RECOVERY_REQUIRED,
            f"an interrupted write to branch {intent.branch.name!r} could not be resolved ({str(error) or type(error).__name__}); "
            "nothing else was written, and the next write, refresh or read-write open will try again",
            operation_id=intent.operation,
            branch=intent.branch.name,
        ) from error


def resolve(manifest: Manifest, tables: Tables, intent: Intent, *, grant: Grant) -> Audit | None:
    """Finish or undo one intent under its branch's lock. None when only its sidecar was left: it had been finished, or had no effects."""
    manifest.discard_torn(intent.branch)
    _, ledger, state = manifest.look(intent.branch.name)
    ended = [commit for end in (intent.commit, intent.rollback) for commit in read_commits(ledger.find(COMMIT + end))]
    if ended or not intent.has_effects:
        for commit in ended:
            ledger.keep(commit.manifest_version)  # its writer may have died before it could
        intents.disarm(manifest.root.objects, intent)
        return ended[0].audit if ended else None
    found = [_inspect(manifest, table, state) for table in intent.tables]
    forward = _may_go_forward(intent, found, state) and _flush_effects(manifest, tables, intent)
    way = Resolution.ROLLED_FORWARD if forward else Resolution.ROLLED_BACK
    reach(Fault.RECOVER_FOUND)
    match intents.decide(manifest.root.objects, intent, way, check=grant.check):
        case None:
            grant.check()  # mostly lost by then: somebody else resolved it
            return None
        case Resolution.ROLLED_FORWARD:
            commit = _roll_forward(manifest, tables, intent, epoch=grant.epoch)
        case _:
            commit = _roll_back(manifest, intent, found, grant=grant)
    reach(Fault.RECOVER_AFTER_PUBLISH)
    intents.disarm(manifest.root.objects, intent)
    log.info("%s of %s: %s", intent.operation, intent.branch.name, commit.audit and commit.audit.outcome)
    return commit.audit


def _may_go_forward(intent: Intent, found: list[TableEffect], state: State) -> bool:
    """Was everything committed, and is the branch where the write began?"""
    reached = all(effect.status is EffectStatus.COMMITTED for effect in found)
    return reached and intent.way is not Resolution.ROLLED_BACK and (state.head.commit, state.head.schema) == (intent.parent, intent.schema)


def _flush_effects(manifest: Manifest, tables: Tables, intent: Intent) -> bool:
    """Flush what the dead writer made, before anything is built on it. False when some of it is not there, or not whole."""
    root = manifest.root
    if not all(_is_created(manifest, birth) for birth in intent.births):
        return False
    made = [table.base.at(table.base.version + 1) for table in intent.tables]
    try:
        for table, ref in zip(intent.tables, made, strict=True):
            stage.settle_version(tables.open(ref), before=tables.open(table.before.ref))
            if table.creates_ref:
                keep_ref(root, ref.path, str(table.native))
        stage.keep(root, [*made, *(birth.row.ref for birth in intent.births)])
    except StorageError as error:
        if error.kind is not Kind.TORN_FILE:
            raise
        log.warning("the write %s is undone, not finished: %s", intent.operation, error)
        return False
    return True


# -- forward, back, away


def _roll_forward(manifest: Manifest, tables: Tables, intent: Intent, *, epoch: int) -> Commit:
    """Everything was committed: publish what the writer would have published, under its own commit id and name (REC-08)."""
    rows = [birth.row for birth in intent.births]
    for table in intent.tables:
        ref = table.base.at(table.base.version + 1)
        rows.append(after(intent, table, rows=tables.open(ref).count()))
    finished = publication(intent, rows, epoch=epoch, audit=_audit(intent, Resolution.ROLLED_FORWARD, rows))
    reach(Fault.RECOVER_BEFORE_PUBLISH)
    return publish(manifest, finished, branch=intent.branch.name).commit


def _roll_back(manifest: Manifest, intent: Intent, found: list[TableEffect], *, grant: Grant) -> Commit:
    """Restore every table the intent could still change, moved or not: a writer that only slept then finds its commit refused.

    The restored versions are published, so that what the graph shows is HEAD again and the next write starts from it.
    """
    reach(Fault.RECOVER_BEFORE_RESTORE)
    rows = [restored for effect in found if (restored := _restore(manifest.root, effect, grant)) is not None]
    for birth in intent.births:
        if _is_created(manifest, birth):  # RT-44: what somebody else put there is neither taken over nor removed
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
    """Put one table back. None for a first touch: its native branch is removed, and the graph never showed it."""
    intent = effect.intent
    grant.check()
    if effect.status is EffectStatus.OVERTAKEN:
        return None
    if intent.creates_ref:
        delete_ref(root, intent.base.path, str(intent.native))
        return None
    assert effect.head is not None, "a table that was there before the write is there after it"
    head = effect.head
    if effect.status is not EffectStatus.RESTORED:
        stage.keep(root, [head.ref])  # whose version lies below a restore must be told after a power cut, too
        head = stage.commit(stage.put_back(head, intent.base.version, uuid=intent.restore_uuid))
    return msgspec.structs.replace(intent.before, version=head.ref.version)


def _discard(manifest: Manifest, intent: Intent, branch: BranchName, *, grant: Grant) -> Audit | None:
    """The branch is gone, and with it all that the write could have changed. Say so once, on main (REC-14)."""
    audit = _audit(intent, Resolution.DISCARDED, [])
    if branch != MAIN:
        return None  # only main's holder may write there; it will come by
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
    """Remove the forks and tables that the dead writer made on a branch that is gone, unless a living branch shows them."""
    root = manifest.root
    shown = [row for name in (MAIN, *list_branches(root.objects)) for row in manifest.look(name)[2].tables.values()]
    homes, paths = {row.ref.home for row in shown}, {row.path for row in shown}
    for table in intent.tables:
        if table.creates_ref and table.base.home not in homes:
            grant.check()
            delete_ref(root, table.base.path, str(table.native))
    for birth in intent.births:
        if birth.row.path not in paths and _is_created(manifest, birth):
            grant.check()
            root.objects.delete_prefix(birth.row.path)


# -- what is there


def _inspect(manifest: Manifest, intent: TableIntent, state: State) -> TableEffect:
    root, base = manifest.root, intent.base
    if intent.creates_ref and not _is_forked(root, base):
        return TableEffect(intent, EffectStatus.UNTOUCHED, None)
    discard_torn_head(root, base.path, branch=intent.native, after=base.version)
    head = table_at_head(root, base.path, branch=intent.native)
    newest = head.ref.version
    if newest < base.version:
        behind = f"{base.path} is at version {newest}, behind the {base.version} that the graph shows; restore it from a backup"
        raise StorageError(Kind.CORRUPT, behind, table=base.path)
    made = [committed_uuid(root, base.at(version)) for version in range(base.version + 1, newest + 1)]
    match made:
        case []:
            return TableEffect(intent, EffectStatus.UNTOUCHED, head)
        case [ours] if ours == intent.uuid:
            return TableEffect(intent, EffectStatus.COMMITTED, head)
        case [*earlier, last] if last == intent.restore_uuid and earlier in ([], [intent.uuid]):
            return TableEffect(intent, EffectStatus.RESTORED, head)
        case [first, *_] if first != intent.uuid and _shown_past(intent, state):
            return TableEffect(intent, EffectStatus.OVERTAKEN, head)
        case _:
            raise RecoveryRequired(
                Kind.RECOVERY_REQUIRED,
                f"{intent.before.alias} was committed to by somebody else on top of an interrupted write; nothing was changed. "
                f"Look at versions {base.version + 1} to {newest} of {base.path}, then remove the intent by hand",
                table=base.path,
                expected=base.version + 1,
                actual=newest,
            )


def _is_forked(root: Root, base: TableRef) -> bool:
    """Is the native branch there, and whole?"""
    return has_ref(root, base.path, str(base.branch)) and committed_uuid(root, base) is not None


def _is_created(manifest: Manifest, birth: TableBirth) -> bool:
    """Is the table there, and made by this very write?"""
    return committed_uuid(manifest.root, birth.row.ref) == birth.uuid


def _shown_past(intent: TableIntent, state: State) -> bool:
    row = state.tables.get(intent.before.id)
    return row is not None and row.ref.home == intent.base.home and row.version > intent.base.version


def _concerns(manifest: Manifest, intent: Intent, branch: BranchName) -> bool:
    return intent.branch.name == branch or not _is_live(manifest, intent)


def _is_live(manifest: Manifest, intent: Intent) -> bool:
    """Is the branch the intent was armed on still that branch? Decided by its object, never by a failed open."""
    try:
        return find_branch(manifest.root.objects, intent.branch.name) == intent.branch
    except NotFound:
        return False


# -- what is said


def publication(intent: Intent, rows: list[TableRow], *, epoch: int, audit: Audit | None = None) -> Publication:
    """What an intent publishes when all of it is done, whoever publishes it."""
    return Publication(
        intent.kind,
        tables=(*rows, *intent.restated),
        schema=intent.new_schema,
        commit=intent.commit,
        actor=intent.actor,
        message=intent.message,
        token=intent.token,
        at=intent.at,
        counts=intent.counts,
        audit=audit,
        expect=Preconditions(
            branch=intent.branch,
            epoch=epoch,
            head=intent.parent,
            schema=intent.schema,
            tables={
                **{table.before.id: table.before.version for table in intent.tables},
                **{row.id: row.version for row in intent.restated},
            },
        ),
    )


def after(intent: Intent, table: TableIntent, *, rows: int) -> TableRow:
    """The row that shows a table's new version."""
    version = table.before.version + 1
    return msgspec.structs.replace(
        table.before,
        alias=table.alias or table.before.alias,
        native=table.native,
        owner=intent.branch.native,
        version=version,
        rows=rows,
        dropped=table.drops,
        floor=version if table.gives_up else table.before.floor,
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
