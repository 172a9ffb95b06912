"""A graph's `__manifest` -> snapshots of any branch, now or in the past, its schemas and its commits. Takes no lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa

from omnigraph.errors import InvalidInput, Kind, NotFound, StorageError
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN, BranchName, CommitId, GraphId, SchemaHash, TypeId
from omnigraph.lru import Lru
from omnigraph.manifest import intents, lineage
from omnigraph.manifest.intents import Intent
from omnigraph.manifest.model import (
    COMMIT,
    ORIGIN,
    SCHEMA,
    Commit,
    SchemaText,
    State,
    TableRow,
    read_commits,
    read_origins,
    read_schema,
    read_state,
)
from omnigraph.manifest.recorded import BRANCHES, RecordedChecksums
from omnigraph.manifest.registry import Branch, find_branch, given_name, list_branches, read_branch
from omnigraph.manifest.tags import read_tag
from omnigraph.store.held import holding
from omnigraph.store.ledger import Ledger, ledger_at, open_ledger
from omnigraph.store.origins import Origins
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, TornHead, discard_torn_head, require_version

if TYPE_CHECKING:
    from omnigraph.manifest.locks import Locks

T = TypeVar("T")

PATH: Final = "__manifest"
WINDOW: Final = 256
"""How many versions a short listing reads before it reads the whole history."""
LISTED: Final = 10
"""How many commits the error of an ambiguous prefix lists."""
COMMITS: Final = 4_096
"""How many commits stay in memory, decoded."""
SCHEMAS: Final = 256
"""How many schema texts stay in memory."""


class BranchSnapshot(msgspec.Struct, frozen=True):
    """One branch at one manifest version. Immutable: later publishes do not change it (C-25)."""

    branch: Branch
    version: int
    state: State

    @property
    def commit(self) -> CommitId:
        return self.state.head.commit

    def table_of(self, type_id: TypeId, *, name: str) -> TableRow:
        """Return the table of a type. `name` is the name of the type in the error if there is none."""
        if (row := self.state.table_of(type_id)) is not None:
            return row
        raise NotFound(Kind.TABLE_NOT_FOUND, f"branch {self.branch.name!r} has no table for {name}", type=name)


class _CachedBranch(msgspec.Struct, frozen=True):
    """A branch as it was last read: the open ledger and the state decoded from it."""

    branch: Branch
    ledger: Ledger
    state: State


def newest_ledger(root: Root, branch: Branch) -> Ledger:
    """Return a branch's ledger at its newest complete version.

    A power cut can leave a version file without its bytes. If the intent of its writer still exists, the version was never
    acknowledged and is ignored: an intent is removed only after its version is flushed. Without an intent, the version was
    acknowledged and the file was damaged later, so the error is raised.
    """
    try:
        return open_ledger(root, PATH, branch=branch.native)
    except TornHead as torn:
        before = ledger_at(root, TableRef(PATH, branch.native, int(str(torn.facts["version"])) - 1))
        head = read_state(before.state()).head.commit
        if any(_may_have_torn(root, intent, branch, head) for intent in intents.pending(root.objects)):
            return before
        raise


def _may_have_torn(root: Root, intent: Intent, branch: Branch, head: CommitId) -> bool:
    """Return whether a publish for this intent could follow `head`. The intent of a deleted branch is resolved on main."""
    if intent.branch == branch:
        return intent.parent == head
    return branch.name == MAIN and read_branch(root.objects, intent.branch.name) != intent.branch


class Manifest:
    """One graph's `__manifest`. Keeps the branches that were read last open, so that the next read costs one probe."""

    def __init__(self, root: Root, *, graph_id: GraphId, main: Ledger) -> None:
        self.root: Final = root
        self.graph_id: Final = graph_id
        self._mutex = threading.Lock()
        self._cache: Final = Lru[BranchName, _CachedBranch](BRANCHES)
        self._schemas: Final = Lru[SchemaHash, SchemaText](SCHEMAS)
        self.recorded: Final = RecordedChecksums(root)
        root.recorded = self.recorded.of
        self._commits: Final = Lru[str, Commit](COMMITS)
        self.remember(Branch.main(), main, read_state(main.state()))

    @cached_property
    def locks(self) -> Locks:
        """The locks of the graph. Held here: they are freed with the last open graph of this process, and with them a kept lock."""
        from omnigraph.manifest.locks import Locks  # readers take no lock

        return Locks.of(self.root.objects)

    # -- now

    def look(self, branch: BranchName = MAIN) -> tuple[Branch, Ledger, State]:
        """Return a branch with its newest state and the ledger that it was read from."""
        found = find_branch(self.root.objects, branch)
        with self._mutex:
            cached = self._cache.get(branch)
        try:
            # B-21: a branch that was deleted and created again shares nothing with the old one.
            if cached is not None and cached.branch == found and cached.ledger.newest_version() == cached.ledger.version:
                return found, cached.ledger, cached.state
            ledger = newest_ledger(self.root, found)
            state = read_state(ledger.state())
        except (StorageError, NotFound):
            if self.is_live(found):
                raise
            return self.look(branch)  # the branch was deleted during the read: it does not exist, or a new one does
        self.remember(found, ledger, state)
        return found, ledger, state

    def _read(self, branch: BranchName, read: Callable[[Ledger, State], T]) -> T:
        """Look at a branch and read more of its ledger. If the branch is deleted meanwhile, it does not exist, or a new one does (T-06)."""
        found, ledger, state = self.look(branch)
        try:
            return read(ledger, state)
        except (StorageError, NotFound):
            if self.is_live(found):
                raise
            return self._read(branch, read)

    @contextmanager
    def reading(self, snapshot: BranchSnapshot, *, past: bool) -> Iterator[None]:
        """Read a snapshot inside this block. If the branch was deleted meanwhile, the error says so and not which file is missing (T-06).

        `past`: the caller requested a commit or a time, and not the current state of the branch. On a disk, cleanup keeps the snapshot
        until the block ends (O-17).
        """
        try:
            with holding(self.root, TableRef(PATH, snapshot.branch.native, snapshot.version)):
                yield
        except (StorageError, NotFound) as error:
            if self.is_live(snapshot.branch):
                raise
            name = snapshot.branch.name
            if past:
                raise _deleted_with_branch(snapshot.commit, name) from error
            raise NotFound(Kind.BRANCH_NOT_FOUND, f"branch {name!r} was deleted during the read", branch=name) from error

    def is_live(self, branch: Branch) -> bool:
        """Return whether this branch, not a later one of the same name, still exists. Costs one read, and none for main."""
        return branch.native is None or read_branch(self.root.objects, branch.name) == branch

    def discard_torn(self, branch: Branch) -> None:
        """Remove versions newer than the one that `look` returns: they are incomplete. Requires the branch's lock."""
        _, ledger, _ = self.look(branch.name)
        discard_torn_head(self.root, PATH, branch=branch.native, after=ledger.version)

    def known(self, branch: BranchName) -> tuple[Branch, Ledger, State] | None:
        """Return what `look` last returned, or what was published here since, which others may have changed. Reads nothing."""
        with self._mutex:
            cached = self._cache.get(branch)
        return None if cached is None else (cached.branch, cached.ledger, cached.state)

    def last_read(self, branch: BranchName) -> BranchSnapshot | None:
        """Return the branch as it was last read or written here, which others may have changed since. Reads nothing."""
        if (known := self.known(branch)) is None:
            return None
        found, ledger, state = known
        return BranchSnapshot(found, ledger.version, state)

    def known_epoch(self, branch: BranchName) -> int:
        """Return the fencing epoch of the last head that was read. Reads only if there is none in memory: the epoch only grows."""
        with self._mutex:
            cached = self._cache.get(branch)
        return (cached.state if cached is not None else self.look(branch)[2]).head.epoch

    def remember(self, branch: Branch, ledger: Ledger, state: State) -> None:
        """Store the result of a publish in the cache instead of reading it back (W-48)."""
        self.recorded.show(branch, ledger, state)
        with self._mutex:
            cached = self._cache.get(branch.name)
            if cached is None or cached.branch != branch or cached.ledger.version <= ledger.version:
                self._cache.put(branch.name, _CachedBranch(branch, ledger, state))

    def forget(self, branch: BranchName) -> None:
        """Forget a branch that was deleted and whose name is not used again."""
        with self._mutex:
            self._cache.discard(branch)

    def snapshot(self, branch: BranchName = MAIN, *, at: str | int | datetime | None = None) -> BranchSnapshot:
        """Return a branch now, at a manifest version or at a time; or the snapshot of a commit, on the branch that made the commit."""
        match at:
            case None:
                found, ledger, state = self.look(branch)
                return BranchSnapshot(found, ledger.version, state)
            case bool():
                raise InvalidInput(Kind.INVALID_ARGUMENT, "`at` takes a commit id, a manifest version or a time")
            case int():
                return self._at_version(branch, at)
            case datetime():
                return self.snapshot_of(self._commit_at(branch, at))
            case _:
                return self.snapshot_of(self.commit(at, first=branch))

    # -- the past

    def past(self, branch: BranchName, at: str | int | datetime) -> tuple[Branch, Ledger, State]:
        """Return what `look` returned when a commit was the newest: the branch that made it, its ledger, its state.

        Raises NotFound if a table version that the commit shows was removed.
        """
        snapshot = self.snapshot(branch, at=at)
        for row in snapshot.state.tables.values():
            if not row.dropped:
                require_version(self.root, row.ref)
        return snapshot.branch, self.look(snapshot.branch.name)[1].at(snapshot.version), snapshot.state

    def state_at(self, newest: Ledger, version: int) -> State:
        """Return the state of a branch at a manifest version, given its newest ledger. Raises NotFound if `cleanup` removed the version."""
        return read_state(self._ledger_at(newest, version).state())

    def _ledger_at(self, newest: Ledger, version: int) -> Ledger:
        if version != newest.version:
            require_version(self.root, newest.ref.at(version))  # Lance would still read from its caches
        return newest.at(version)

    def _shown(self, branch: Branch, newest: Ledger, version: int) -> BranchSnapshot:
        ledger = self._ledger_at(newest, version)
        state = read_state(ledger.state())
        self.recorded.show(branch, ledger, state)
        return BranchSnapshot(branch, version, state)

    def _at_version(self, branch: BranchName, version: int) -> BranchSnapshot:
        found = find_branch(self.root.objects, branch)
        if found.parent is not None and version < found.forked_at:  # before its creation, the history of a branch is that of its parent
            return self._at_version(found.parent, version)
        _, newest, _ = self.look(branch)
        if version < 1 or version > newest.version:
            raise NotFound(
                Kind.VERSION_NOT_FOUND,
                f"branch {branch!r} has no manifest version {version}; the newest is {newest.version}",
                branch=branch,
                version=version,
                newest=newest.version,
            )
        try:
            return self._shown(found, newest, version)
        except NotFound as error:
            raise _reclaimed(f"version {version} of branch {branch!r}", branch=branch, version=version) from error

    def snapshot_of(self, commit: Commit) -> BranchSnapshot:
        """Return the snapshot of a commit on the branch that made it. A new branch of the same name has another native name (B-22)."""
        born_on = Branch.main() if commit.native is None else read_branch(self.root.objects, commit.branch)
        if born_on is None or born_on.native != commit.native:
            raise _deleted_with_branch(commit.id, commit.branch)
        _, newest, _ = self.look(born_on.name)
        try:
            return self._shown(born_on, newest, commit.manifest_version)
        except (StorageError, NotFound) as error:
            if not self.is_live(born_on):
                raise _deleted_with_branch(commit.id, commit.branch) from error
            if isinstance(error, StorageError):
                raise
            raise _reclaimed(f"commit {commit.id} of branch {born_on.name!r}", branch=born_on.name, commit=commit.id) from error

    def _commit_at(self, branch: BranchName, moment: datetime) -> Commit:
        if moment.tzinfo is None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{moment.isoformat()} has no time zone; pass one, for example UTC")
        _, _, state = self.look(branch)
        chain = lineage.first_parents(self.history(branch), state.head.commit)
        found = next((commit for commit in chain if commit.created_at <= moment), None)
        if found is None:
            raise NotFound(Kind.COMMIT_NOT_FOUND, f"branch {branch!r} has no commit as old as {moment.isoformat()}", branch=branch)
        return found

    # -- history

    def commit(self, name: str, *, first: BranchName = MAIN) -> Commit:
        """Return a commit of any branch: by its id, by the name of a tag, or by the beginning of its id, in this order.

        Searches `first`, then the other branches. Letters of an id may be small. Raises InvalidInput if several ids begin like that.
        """
        wanted = name.upper()
        if len(wanted) == COMMIT_ID_LENGTH:
            if (found := self._commit_of(first, CommitId(wanted))) is not None:
                return found
            for branch in (MAIN, *list_branches(self.root.objects)):
                with suppress(NotFound):  # the branch may have been deleted since it was listed
                    if branch != first and (found := self._commit_of(branch, CommitId(wanted))) is not None:
                        return found
        elif (tag := read_tag(self.root.objects, name)) is not None:
            return self.commit(tag.commit_id, first=tag.branch)
        elif wanted and wanted.isascii() and wanted.isalnum():
            fitting = self._commits_like(wanted)
            if len(fitting) > 1:
                raise _ambiguous(name, fitting)
            if fitting:
                return fitting[0]
        raise self._no_commit(name)

    def _no_commit(self, name: str) -> NotFound:
        what = f"there is no commit {name!r} in the history of any branch, and no such tag"
        with suppress(NotFound, InvalidInput):  # not the name of a branch either
            newest = self.snapshot(given_name(name)).commit
            what = f"{name!r} is a branch, and a commit is wanted here: its newest commit is {newest}"
        return NotFound(Kind.COMMIT_NOT_FOUND, what, commit=name)

    def _commit_of(self, branch: BranchName, commit: CommitId) -> Commit | None:
        return self._read(branch, lambda ledger, _: next(iter(read_commits(ledger.find(COMMIT + commit))), None))

    def _commits_like(self, prefix: str) -> list[Commit]:
        """Return the commits of all branches whose ids begin with `prefix`, the oldest first."""
        found: dict[CommitId, Commit] = {}
        for branch in (MAIN, *list_branches(self.root.objects)):
            with suppress(NotFound):
                fitting = self._read(branch, lambda ledger, _: read_commits(ledger.facts(COMMIT + prefix)))
                found.update({commit.id: commit for commit in fitting})
        return [found[commit] for commit in sorted(found)]

    def commits(self, branch: BranchName = MAIN, *, limit: int | None = None) -> list[Commit]:
        """Return the history of a branch, newest first. A short listing reads the newest part only."""

        def read(ledger: Ledger, state: State) -> list[Commit]:
            if limit is not None and limit < WINDOW:
                recent = _by_id(ledger, since=ledger.version - WINDOW)
                chain = list(islice(_straight(recent, state.head.commit), limit))
                if len(chain) == limit:
                    return chain
            return list(islice(lineage.newest_first(_by_id(ledger), state.head.commit), limit))

        return self._read(branch, read)

    def histories(self, branches: Iterable[BranchName]) -> tuple[dict[CommitId, Commit], dict[BranchName, CommitId]]:
        """Return all commits in the histories of some branches, by id, and the head of each. What a branch inherited is read once."""
        names = list(dict.fromkeys(branches))
        seen = [self.look(name) for name in names]
        natives = {branch.native for branch, _, _ in seen}
        commits: dict[CommitId, Commit] = {}
        for branch, ledger, _ in seen:
            inherits = branch.parent is not None and branch.parent_native in natives
            try:
                commits.update(_by_id(ledger, since=branch.forked_at + 1 if inherits else 0))
            except (StorageError, NotFound):
                if self.is_live(branch):
                    raise
                return self.histories(names)
        return commits, {branch.name: state.head.commit for branch, _, state in seen}

    def history(self, branch: BranchName = MAIN, *, since: int = 0) -> Mapping[CommitId, Commit]:
        """Return the commits in the history of a branch, by id: all, or those written at a version of `__manifest` or later.

        A commit never changes, so it is decoded once, for all branches.
        """
        rows = self._read(branch, lambda ledger, _: ledger.recent(COMMIT, since=since) if since else ledger.held_facts(COMMIT))
        known = [self._commits.get(object_id) for object_id in rows.column("object_id").to_pylist()]
        new = read_commits(rows.filter(pa.array([commit is None for commit in known], pa.bool_())))
        for commit in new:
            self._commits.put(COMMIT + commit.id, commit)
        return {commit.id: commit for commit in (*known, *new) if commit is not None}

    def origins(self, branch: BranchName) -> Origins:
        """Return the origins of rewritten fragments that a branch knows, its own and those that it inherited."""
        return self._read(branch, lambda ledger, _: read_origins(ledger.facts(ORIGIN)))

    def schema(self, schema: SchemaHash, *, branch: BranchName = MAIN) -> SchemaText:
        """Return an accepted schema by its hash. It is immutable, so it is read once."""
        if (known := self._schemas.get(schema)) is not None:
            return known
        text = self._read(branch, lambda ledger, _: read_schema(ledger.find_early(SCHEMA + schema)))
        if text is None:
            raise NotFound(Kind.OBJECT_NOT_FOUND, f"branch {branch!r} has no schema {schema}", schema=schema, branch=branch)
        return self._schemas.put(schema, text)


def _deleted_with_branch(commit: CommitId, branch: BranchName) -> NotFound:
    return NotFound(
        Kind.VERSION_RECLAIMED,
        f"commit {commit} was made on a branch {branch!r} that was deleted; its rows can no longer be read",
        commit=commit,
        branch=branch,
    )


def _reclaimed(what: str, **facts: object) -> NotFound:
    return NotFound(
        Kind.VERSION_RECLAIMED,
        f"{what} can no longer be read: cleanup removed its data. Read a newer commit; a tag keeps one for as long as it exists",
        **facts,
    )


def _ambiguous(prefix: str, commits: Sequence[Commit]) -> InvalidInput:
    ids = [commit.id for commit in commits]
    listed = ", ".join(ids[:LISTED]) + (", ..." if len(ids) > LISTED else "")
    return InvalidInput(
        Kind.AMBIGUOUS_COMMIT,
        f"{len(ids)} commits begin with {prefix!r}: {listed}; give more characters",
        prefix=prefix,
        commits=ids[:LISTED],
        count=len(ids),
    )


def _by_id(ledger: Ledger, *, since: int = 0) -> dict[CommitId, Commit]:
    return {commit.id: commit for commit in read_commits(ledger.facts(COMMIT, since=since))}


def _straight(commits: Mapping[CommitId, Commit], head: CommitId) -> Iterator[Commit]:
    """Yield the first-parent chain up to the first merge. Only up to there is the order of a part that of the whole history."""
    for commit in lineage.first_parents(commits, head):
        yield commit
        if len(commit.parents) > 1:
            return
