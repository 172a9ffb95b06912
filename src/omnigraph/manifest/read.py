"""A graph's `__manifest` -> snapshots of any branch, now or in the past, its schemas and its commits. Takes no lock, writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, NotFound, StorageError
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN, BranchName, CommitId, GraphId, SchemaHash, TypeId
from omnigraph.lru import Lru
from omnigraph.manifest import intents, lineage
from omnigraph.manifest.intents import Intent
from omnigraph.manifest.model import COMMIT, SCHEMA, Commit, SchemaText, State, TableRow, read_commits, read_schema, read_state
from omnigraph.manifest.registry import Branch, find_branch, list_branches, read_branch
from omnigraph.store.ledger import Ledger, ledger_at, open_ledger
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, TornHead, discard_torn_head

PATH: Final = "__manifest"
WINDOW: Final = 256
"""How many versions back a short listing looks before it reads the whole history."""
SCHEMAS: Final = 256
"""How many schema texts stay in memory."""


class Snapshot(msgspec.Struct, frozen=True):
    """One branch at one manifest version. It never changes, whatever is published after (C-25)."""

    branch: Branch
    version: int
    state: State

    @property
    def commit(self) -> CommitId:
        return self.state.head.commit

    def table_of(self, type_id: TypeId, *, name: str) -> TableRow:
        """The table that shows a type here; `name` is what the type is called, for the message when there is none."""
        if (row := self.state.table_of(type_id)) is not None:
            return row
        raise NotFound(Kind.TABLE_NOT_FOUND, f"branch {self.branch.name!r} has no table for {name}", type=name)


class _Warm(msgspec.Struct, frozen=True):
    """A branch as it was last seen: the open ledger and its decoded state, always a pair."""

    branch: Branch
    ledger: Ledger
    state: State


def newest_ledger(root: Root, branch: Branch) -> Ledger:
    """A branch's ledger at its newest version that happened.

    A power cut can leave a version file without its bytes. It did not happen if its writer was not done with it: then its intent is still
    there, because an intent is removed only after the version that ends it was flushed. Without one, the version had been
    acknowledged, and the file was damaged since.
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
    """Could whoever follows this intent have published on top of `head`? That of a branch that is gone is ended on main."""
    if intent.branch == branch:
        return intent.parent == head
    return branch.name == MAIN and read_branch(root.objects, intent.branch.name) != intent.branch


class Manifest:
    """One graph's `__manifest`. Keeps each branch it has seen open, so that the next look costs one probe."""

    def __init__(self, root: Root, *, graph_id: GraphId, main: Ledger) -> None:
        self.root: Final = root
        self.graph_id: Final = graph_id
        self._mutex = threading.Lock()
        self._warm: dict[BranchName, _Warm] = {}
        self._schemas: Final = Lru[SchemaHash, SchemaText](SCHEMAS)
        self.remember(Branch.main(), main, read_state(main.state()))

    # -- now

    def look(self, branch: BranchName = MAIN) -> tuple[Branch, Ledger, State]:
        """The newest state of a branch and the ledger it was read from: what a publish starts from."""
        found = find_branch(self.root.objects, branch)
        with self._mutex:
            warm = self._warm.get(branch)
        try:
            # B-21: a branch of the same name made anew shares nothing with the old one.
            if warm is not None and warm.branch == found and warm.ledger.newest_version() == warm.ledger.version:
                return found, warm.ledger, warm.state
            ledger = newest_ledger(self.root, found)
            state = read_state(ledger.state())
        except (StorageError, NotFound):
            if self._lives(found):
                raise
            return self.look(branch)  # deleted while we looked: it is gone, or there is another one
        self.remember(found, ledger, state)
        return found, ledger, state

    @contextmanager
    def reading(self, snapshot: Snapshot, *, past: bool) -> Iterator[None]:
        """A read of a snapshot. One that fails because the branch was deleted meanwhile says that, and not which file it missed (T-06).

        `past`: a certain commit or moment was asked for, not the branch as it is.
        """
        try:
            yield
        except (StorageError, NotFound) as error:
            if self._lives(snapshot.branch):
                raise
            name = snapshot.branch.name
            if past:
                raise _went_with_its_branch(snapshot.commit, name) from error
            raise NotFound(Kind.BRANCH_NOT_FOUND, f"branch {name!r} was deleted while it was read", branch=name) from error

    def _lives(self, branch: Branch) -> bool:
        return branch.native is None or read_branch(self.root.objects, branch.name) == branch

    def discard_torn(self, branch: Branch) -> None:
        """Remove newer versions than the one that `look` shows: they are not whole, and did not happen. Under the branch's lock."""
        _, ledger, _ = self.look(branch.name)
        discard_torn_head(self.root, PATH, branch=branch.native, after=ledger.version)

    def known_epoch(self, branch: BranchName) -> int:
        """The fencing epoch in the head that was seen last, without a look where there is one in memory: it only grows."""
        with self._mutex:
            warm = self._warm.get(branch)
        return (warm.state if warm is not None else self.look(branch)[2]).head.epoch

    def remember(self, branch: Branch, ledger: Ledger, state: State) -> None:
        """Fold what a publish has just made true into memory instead of reading it back (W-48)."""
        with self._mutex:
            warm = self._warm.get(branch.name)
            if warm is None or warm.branch != branch or warm.ledger.version <= ledger.version:
                self._warm[branch.name] = _Warm(branch, ledger, state)

    def snapshot(self, branch: BranchName = MAIN, *, at: CommitId | int | datetime | None = None) -> Snapshot:
        """A branch now, or at a manifest version or a moment; or a commit, which names its branch itself."""
        match at:
            case None:
                found, ledger, state = self.look(branch)
                return Snapshot(found, ledger.version, state)
            case bool():
                raise InvalidInput(Kind.INVALID_ARGUMENT, "`at` takes a commit id, a manifest version or a time")
            case int():
                return self._at_version(branch, at)
            case datetime():
                return self._at_commit(self._commit_at(branch, at))
            case _:
                return self._at_commit(self.commit(at, first=branch))

    # -- then

    def _at_version(self, branch: BranchName, version: int) -> Snapshot:
        found = find_branch(self.root.objects, branch)
        if found.parent is not None and version < found.forked_at:  # before it was made, a branch was its parent
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
        ledger = newest.at(version)
        return Snapshot(found, version, read_state(ledger.state()))

    def _at_commit(self, commit: Commit) -> Snapshot:
        """A commit is read where it was born. A branch made anew under the old name has another native name (B-22)."""
        born_on = Branch.main() if commit.native is None else read_branch(self.root.objects, commit.branch)
        if born_on is None or born_on.native != commit.native:
            raise _went_with_its_branch(commit.id, commit.branch)
        _, newest, _ = self.look(born_on.name)
        return Snapshot(born_on, commit.manifest_version, read_state(newest.at(commit.manifest_version).state()))

    def _commit_at(self, branch: BranchName, moment: datetime) -> Commit:
        if moment.tzinfo is None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{moment.isoformat()} has no time zone; give an aware time, e.g. in UTC")
        _, _, state = self.look(branch)
        chain = lineage.first_parents(self.history(branch), state.head.commit)
        found = next((commit for commit in chain if commit.created_at <= moment), None)
        if found is None:
            raise NotFound(Kind.COMMIT_NOT_FOUND, f"branch {branch!r} has no commit as old as {moment.isoformat()}", branch=branch)
        return found

    # -- history

    def commit(self, commit: CommitId, *, first: BranchName = MAIN) -> Commit:
        """One commit, wherever it is: looked up on one branch, which mostly knows it, then on the others."""
        if len(commit) == COMMIT_ID_LENGTH:
            if (found := self._commit_of(first, commit)) is not None:
                return found
            for name in (MAIN, *list_branches(self.root.objects)):
                with suppress(NotFound):  # the branch may have been deleted since it was listed
                    if name != first and (found := self._commit_of(name, commit)) is not None:
                        return found
        raise NotFound(Kind.COMMIT_NOT_FOUND, f"there is no commit {commit!r} in the history of any branch", commit=commit)

    def _commit_of(self, branch: BranchName, commit: CommitId) -> Commit | None:
        _, ledger, _ = self.look(branch)
        return next(iter(read_commits(ledger.find(COMMIT + commit))), None)

    def commits(self, branch: BranchName = MAIN, *, limit: int | None = None) -> list[Commit]:
        """The history of a branch, newest first. A short listing reads the newest part only."""
        _, ledger, state = self.look(branch)
        if limit is not None and limit < WINDOW:
            recent = _by_id(ledger, since=ledger.version - WINDOW)
            chain = list(islice(_straight(recent, state.head.commit), limit))
            if len(chain) == limit:
                return chain
        return list(islice(lineage.newest_first(_by_id(ledger), state.head.commit), limit))

    def history(self, branch: BranchName = MAIN) -> Mapping[CommitId, Commit]:
        """All commits a branch knows, by id: the ground for ancestry and merge bases."""
        _, ledger, _ = self.look(branch)
        return _by_id(ledger)

    def schema(self, schema: SchemaHash, *, branch: BranchName = MAIN) -> SchemaText:
        """An accepted schema by its hash. Immutable, so it is read once."""
        if (known := self._schemas.get(schema)) is not None:
            return known
        _, ledger, _ = self.look(branch)
        text = read_schema(ledger.find(SCHEMA + schema))
        if text is None:
            raise NotFound(Kind.OBJECT_NOT_FOUND, f"branch {branch!r} knows no schema {schema}", schema=schema, branch=branch)
        return self._schemas.put(schema, text)


def _went_with_its_branch(commit: CommitId, branch: BranchName) -> NotFound:
    return NotFound(
        Kind.VERSION_RECLAIMED,
        f"commit {commit} was made on a branch {branch!r} that has been deleted since; its rows cannot be read any more",
        commit=commit,
        branch=branch,
    )


def _by_id(ledger: Ledger, *, since: int = 0) -> dict[CommitId, Commit]:
    return {commit.id: commit for commit in read_commits(ledger.facts(COMMIT, since=since))}


def _straight(commits: Mapping[CommitId, Commit], head: CommitId) -> Iterator[Commit]:
    """The chain while it has no merge in it: there, and only there, a part of the history orders like the whole."""
    for commit in lineage.first_parents(commits, head):
        yield commit
        if len(commit.parents) > 1:
            return
