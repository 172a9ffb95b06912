"""A branch's state and a publication -> the next state, in one compare-and-swap, or a typed error.

Only a publish makes a change visible. Each attempt reads the newest state, checks all preconditions against it, and swaps
the state fragment that it read. After a lost race it starts over with the new state, a bounded number of times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final
from uuid import uuid4

import msgspec

from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    InvalidInput,
    Kind,
    ReadSetChanged,
    StorageError,
)
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, SchemaHash, TableId, new_commit_id, new_ulid
from omnigraph.manifest import intents
from omnigraph.manifest.intents import Intent
from omnigraph.manifest.locks import Grant
from omnigraph.manifest.model import (
    COMMIT,
    SCHEMA,
    Audit,
    Commit,
    CommitKind,
    Head,
    SchemaText,
    State,
    TableChange,
    TableRow,
    fact_rows,
    now,
    read_commits,
    read_receipt,
    state_rows,
    token_id,
)
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch
from omnigraph.store.checked import Sums
from omnigraph.store.checksums import grouped
from omnigraph.store.durable import version_file
from omnigraph.store.ledger import Draft, Ledger, SwapLost
from omnigraph.store.origins import RowOrigin
from omnigraph.store.root import Root

ATTEMPTS: Final = 5
LOCK_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


class Preconditions(msgspec.Struct, frozen=True):
    """Conditions that must hold when a publication is committed. A field that is None or empty is not checked."""

    head: CommitId | None = None
    schema: SchemaHash | None = None
    branch: Branch | None = None
    epoch: int | None = None
    tables: Mapping[TableId, int] = {}
    """Table id -> visible version, for tables that are written and tables that were only read (C-04)."""


class Publication(msgspec.Struct, frozen=True):
    """A change to publish: table rows, a schema, and the data of its commit."""

    kind: CommitKind
    tables: tuple[TableRow, ...] = ()
    schema: SchemaText | None = None
    expect: Preconditions = Preconditions()
    commit: CommitId | None = None
    """Generated in advance by a writer, so that its commit can be found after a crash."""
    actor: str | None = None
    message: str | None = None
    token: str | None = None
    digest: str | None = None
    at: datetime | None = None
    merged: CommitId | None = None
    copied: tuple[Commit, ...] = ()
    """The commits of the merged branch, whose head `merged` is the second parent: its history survives its deletion."""
    counts: Mapping[str, int] = {}
    audit: Audit | None = None
    origins: tuple[RowOrigin, ...] = ()
    """Those of rewritten fragments. They are not in the intent: without them rows are compared by their values."""


class PublishResult(msgspec.Struct, frozen=True):
    """A published commit. `repeated`: this token or this commit was published before, and this call changed nothing."""

    commit: Commit
    snapshot: BranchSnapshot
    repeated: bool = False


class Drafted(msgspec.Struct, frozen=True):
    """A publication on the state that was the newest. Its rows are being written to files, which no version names."""

    rows: Draft
    state: State
    commit: Commit
    added: frozenset[str]
    """The files that the commit adds, whose checksums it records."""

    def discard(self) -> None:
        """Remove the files of a draft that was not published. Has no effect on others."""
        self.rows.discard()


def draft(manifest: Manifest, publication: Publication, *, branch: BranchName = MAIN) -> Drafted:
    """Begin to write the rows of a publication that this caller is about to publish, or else to discard."""
    # Without a look for a newer state: the caller holds the lock, and `publish` looks, and drafts again if it finds one.
    return _draft(manifest, publication, publication.commit or new_commit_id(), *(manifest.known(branch) or manifest.look(branch)))


def publish(manifest: Manifest, publication: Publication, *, branch: BranchName = MAIN, drafted: Drafted | None = None) -> PublishResult:
    """Publish a change atomically, as the child of the commit that is the head at that moment (C-10), or raise.

    `drafted` is a draft of this publication. It is used if the state is still the one that it was made on. The caller discards it
    afterwards, which has no effect if it was used.
    """
    _check_distinct_tables(publication)
    commit_id = publication.commit or new_commit_id()
    versions: dict[str, int] = {}
    for attempt in range(ATTEMPTS):
        try:
            found, ledger, state = manifest.look(branch)
        except StorageError as error:  # C-06, F-09: nothing was written yet, so a retry is safe
            if error.kind is not Kind.STORAGE_UNAVAILABLE or attempt == ATTEMPTS - 1:
                raise
            continue
        if (first := _published_before(publication, found, ledger, state)) is not None:
            return PublishResult(first, BranchSnapshot(found, ledger.version, state), repeated=True)
        _check(publication, found, state)
        if drafted is None or drafted.rows.base is not ledger:
            drafted = _draft(manifest, publication, commit_id, found, ledger, state)
        versions |= _version_checksums(manifest.root, publication)
        try:
            moved = drafted.rows.swap(uuid=str(uuid4()), versions=versions)
            if not publication.copied:
                manifest.recorded.published(found, ledger, moved, drafted.state, drafted.commit, versions)
            manifest.remember(found, moved, drafted.state)
            manifest.root.checksums.forget(drafted.added)
            return PublishResult(drafted.commit, BranchSnapshot(found, moved.version, drafted.state))
        except SwapLost:
            log.debug("publish to %s lost the race for version %d (attempt %d)", branch, ledger.version + 1, attempt + 1)
    raise ConflictError(
        Kind.CONTENTION,
        f"{ATTEMPTS} attempts to publish to branch {branch!r} lost to other writers; nothing was published, retry",
        branch=branch,
        attempts=ATTEMPTS,
    )


@contextmanager
def hold(manifest: Manifest, branch: BranchName = MAIN, *, timeout_seconds: float = LOCK_SECONDS) -> Iterator[Grant]:
    """Hold the writer lock of a branch, under an epoch that the graph accepts.

    A holder that replaced another publishes its epoch in `head` first. If the former holder is still running, its publish
    finds the newer epoch and fails.
    """
    with manifest.locks.writer(branch, timeout_seconds=timeout_seconds) as grant:
        if grant.took_over:  # leases only: a local lock is released when its process ends, which can write nothing afterwards
            _fence_former(manifest, branch, grant)
        elif grant.epoch < manifest.known_epoch(branch):
            _catch_up(manifest, branch, grant)
        yield grant


def _fence_former(manifest: Manifest, branch: BranchName, grant: Grant) -> None:
    """Publish an epoch above those of the graph and the lease: the lease may have been removed, or restored from an older copy."""
    published = manifest.look(branch)[2].head.epoch
    if grant.epoch <= published:
        grant.raise_epoch(published + 1)
    _raise_epoch(manifest, branch, grant.epoch)
    grant.epoch_published()


def _catch_up(manifest: Manifest, branch: BranchName, grant: Grant) -> None:
    """Raise the epoch of the lock to that of the graph, whose files were copied from elsewhere.

    On a disk a paused holder keeps its lock, so there is no former holder to fence.
    """
    if manifest.root.is_local:
        grant.raise_epoch(manifest.known_epoch(branch))
    else:
        _fence_former(manifest, branch, grant)


def _raise_epoch(manifest: Manifest, branch: BranchName, epoch: int) -> None:
    def raised(head: Head) -> Head:
        return msgspec.structs.replace(head, epoch=max(head.epoch, epoch))

    _rewrite_head(manifest, branch, raised)


def _rewrite_head(manifest: Manifest, branch: BranchName, change: Callable[[Head], Head]) -> None:
    """Change the head row only, without a commit. Writes nothing if the head does not change."""
    while True:
        found, ledger, state = manifest.look(branch)
        head = change(state.head)
        if head == state.head:
            return
        restated = State(head, state.tables)
        intent = _head_intent(found, state.head)
        intents.arm(manifest.root.objects, intent)
        try:
            rows = state_rows(restated, born=ledger.version + 1), fact_rows(None, [], born=0)
            moved = ledger.swap(*rows, uuid=str(uuid4()), versions=manifest.recorded.noted(found, ledger))
        except SwapLost:
            intents.disarm(manifest.root.objects, intent)
            continue  # each lost race is another publish that succeeded, so this loop ends
        intents.disarm(manifest.root.objects, intent)
        manifest.remember(found, moved, restated)
        return


def fence_off_publishes(manifest: Manifest, branch: BranchName) -> None:
    """Make every publish that was begun before this call fail, for good. Without a commit. Requires the exclusive lock."""
    found, ledger, state = manifest.look(branch)
    intent = _head_intent(found, state.head)
    intents.arm(manifest.root.objects, intent)
    try:
        versions = manifest.recorded.noted(found, ledger)
        manifest.remember(found, ledger.fence_off(uuid=str(uuid4()), versions=versions), state)
    finally:
        intents.disarm(manifest.root.objects, intent)


def _head_intent(branch: Branch, head: Head) -> Intent:
    """Return the intent of a head rewrite, which has no effects."""
    return Intent(
        format=intents.FORMAT,
        operation=OperationId(new_ulid()),
        branch=branch,
        parent=head.commit,
        schema=head.schema,
        commit=new_commit_id(),
        rollback=new_commit_id(),
        kind=CommitKind.RECOVERY,
        at=now(),
        tables=(),
    )


# -- one attempt


def _version_checksums(root: Root, publication: Publication) -> dict[str, int]:
    return root.checksums.take_versions(f"{row.ref.home}/{version_file(row.version)}" for row in publication.tables)


def _draft(manifest: Manifest, publication: Publication, commit_id: CommitId, branch: Branch, ledger: Ledger, state: State) -> Drafted:
    recorded, tables = manifest.recorded, publication.tables
    added = manifest.root.checksums.of(row.ref.home for row in tables)
    summed = recorded.summed(state, merged=publication.merged, changed=tables)
    sums = recorded.to_record(branch, ledger, state, tables, added)
    if summed == state.head.summed and (shown := recorded.all_shown(branch, ledger, state)) is not None:
        sums, summed = {**shown, **sums}, ledger.version + 1
    commit = _commit(publication, commit_id, branch, ledger, state, sums)
    after = _next(publication, state, commit, summed=summed)
    born = commit.manifest_version
    facts = fact_rows(commit, _new_schemas(publication, ledger), copied=publication.copied, origins=publication.origins, born=born)
    return Drafted(ledger.draft(state_rows(after, born=born), facts), after, commit, frozenset(added))


def _commit(publication: Publication, commit_id: CommitId, branch: Branch, ledger: Ledger, state: State, sums: Sums) -> Commit:
    checksums, blocks = grouped(sums)
    merged = (publication.merged,) if publication.merged is not None else ()
    return Commit(
        id=commit_id,
        parents=(state.head.commit, *merged),
        branch=branch.name,
        native=branch.native,
        manifest_version=ledger.version + 1,  # known before the swap, which creates exactly this version or fails
        created_at=max(publication.at or now(), state.head.committed_at),  # clocks differ; a child is never older than its parent
        kind=publication.kind,
        schema=publication.schema.hash if publication.schema is not None else state.head.schema,
        actor=publication.actor,
        message=publication.message,
        token=publication.token,
        digest=publication.digest,
        tables=tuple(_changes(publication, state)),
        counts=publication.counts,
        audit=publication.audit,
        checksums=checksums,
        blocks=blocks,
    )


def _next(publication: Publication, state: State, commit: Commit, *, summed: int) -> State:
    head = msgspec.structs.replace(state.head, commit=commit.id, schema=commit.schema, committed_at=commit.created_at, summed=summed)
    return State(head, {**state.tables, **{row.id: row for row in publication.tables}})


def _changes(publication: Publication, state: State) -> Iterator[TableChange]:
    for row in publication.tables:
        before = state.tables.get(row.id)
        was = before.version if before is not None and not before.dropped else None
        yield TableChange(row.id, row.alias, was, None if row.dropped else row.version)


def _new_schemas(publication: Publication, ledger: Ledger) -> list[SchemaText]:
    """Return the publication's schema, unless the branch has it already (a change that was undone): facts are written once."""
    schema = publication.schema
    return [schema] if schema is not None and not len(ledger.find(SCHEMA + schema.hash)) else []


def _published_before(publication: Publication, branch: Branch, ledger: Ledger, state: State) -> Commit | None:
    """Return the first commit of this publication, by its token or by its id."""
    if publication.token is not None and (first := published_before(ledger, branch, publication.token)) is not None:
        return first
    return _already_published(publication, ledger, state)


def _already_published(publication: Publication, ledger: Ledger, state: State) -> Commit | None:
    """Return the commit whose id was generated in advance, if it is already published. Several processes may publish one intent.

    The commit is read from the ledger that the swap starts from, so the second of two concurrent publishes finds it. While the
    head is still the expected parent, it has no child and nothing is read.
    """
    if publication.commit is None or publication.expect.head == state.head.commit:
        return None
    return next(iter(read_commits(ledger.find(COMMIT + publication.commit))), None)


def published_before(ledger: Ledger, branch: Branch, token: str) -> Commit | None:
    receipt = read_receipt(ledger.find(token_id(branch.native, token)))
    return read_commits(ledger.find(COMMIT + receipt.commit))[0] if receipt is not None else None


# -- preconditions


def _check(publication: Publication, branch: Branch, state: State) -> None:
    expect, head = publication.expect, state.head
    if expect.branch is not None and expect.branch != branch:
        raise ConflictError(
            Kind.BRANCH_REPLACED,
            f"branch {branch.name!r} was deleted and created again since this write began; read the new branch and repeat the write",
            branch=branch.name,
        )
    if expect.epoch is not None and expect.epoch < head.epoch:
        raise ConflictError(
            Kind.FENCED,
            f"another writer took over branch {branch.name!r} while this one was paused; nothing was published, repeat the write",
            branch=branch.name,
            epoch=expect.epoch,
            current=head.epoch,
        )
    if expect.head is not None and expect.head != head.commit:
        raise ReadSetChanged(
            Kind.READ_SET_CHANGED,
            f"branch {branch.name!r} is at commit {head.commit}, not at {expect.head}; read it again and repeat the write",
            branch=branch.name,
            expected=expect.head,
            actual=head.commit,
        )
    if expect.schema is not None and expect.schema != head.schema:
        raise ReadSetChanged(
            Kind.SCHEMA_CHANGED,
            f"the schema of branch {branch.name!r} changed since this write began; read it again and repeat the write",
            branch=branch.name,
            expected=expect.schema,
            actual=head.schema,
        )
    for table, expected in expect.tables.items():
        _check_version(table, expected, state.tables.get(table))
    for row in publication.tables:
        _check_version_grows(row, state.tables.get(row.id))


def _check_version(table: TableId, expected: int, row: TableRow | None) -> None:
    actual = row.version if row is not None and not row.dropped else 0
    if actual != expected:
        name = row.alias if row is not None else table
        raise ExpectedVersionMismatch(
            Kind.VERSION_MISMATCH, f"{name} is at version {actual}, not at {expected}", table=table, expected=expected, actual=actual
        )


def _check_version_grows(row: TableRow, before: TableRow | None) -> None:
    """A published version does not change, and versions of one native branch only grow (C-08)."""
    if before is None or before.ref.home != row.ref.home or row == before or row.dropped:
        return
    renamed = msgspec.structs.replace(before, alias=row.alias) == row
    if row.version <= before.version and not renamed:
        raise ExpectedVersionMismatch(
            Kind.VERSION_MISMATCH,
            f"{row.alias} is published at version {before.version}; version {row.version} cannot replace it",
            table=row.id,
            expected=row.version,
            actual=before.version,
        )


def _check_distinct_tables(publication: Publication) -> None:
    ids = [row.id for row in publication.tables]
    if twice := {table for table in ids if ids.count(table) > 1}:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"table {min(twice)} is named twice in one publication", table=min(twice))
