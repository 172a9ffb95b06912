"""A branch and a position of a caller -> pages of what was committed after it.

Each poll reads the head of the branch once: the cut. Later commits wait for the next poll (D-18). The caller keeps the position as a
cursor, which a page has if it ends between two commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from omnigraph.errors import ChangeFeedGap, ConflictError, InvalidInput, Kind, NotFound, OmniGraphError, StorageError
from omnigraph.exec.engine import Engine
from omnigraph.exec.feed.chain import Chain, ChainPosition
from omnigraph.exec.feed.pages import ChangeBlock, ChangePage, CommitPage, PageLimits, PageSpace, packed
from omnigraph.exec.feed.tokens import CommitPageToken, FeedCursor, FeedPageToken, check_branch, check_scope, decode, encode, scope_of
from omnigraph.exec.history.changes import EntityChange
from omnigraph.exec.history.diff import (
    ChangeFilter,
    ChangePlace,
    Pairing,
    changes_between,
    check_boundary,
    check_types,
    cursor_rejected,
    parent_of,
)
from omnigraph.exec.history.pairs import RowPairs, Side, candidates
from omnigraph.ids import BranchName, CommitId
from omnigraph.lru import Lru
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch, read_branch
from omnigraph.store.tables import TableRef

NOW: Final = "now"
BEGINNING: Final = "beginning"
AFTER: Final = "after:"
PAIRS_BYTES: Final = 64 * 1024 * 1024
"""The memory for ids of commits that are read page by page: about two million changes."""
_REMOVED: Final = (Kind.VERSION_RECLAIMED, Kind.VERSION_NOT_FOUND)


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes of which branch are wanted, and from where: at most one of the three. None of them is the same as `start="now"`."""

    branch: BranchName
    wanted: ChangeFilter
    limits: PageLimits
    cursor: str | None = None
    start: str | None = None
    page: str | None = None


class ResumedPairs:
    """The pairs of commits that readers go on inside of, page by page, so that each page need not read all ids of the commit again."""

    def __init__(self) -> None:
        self._pairs: Final = Lru[tuple[TableRef | None, TableRef | None], RowPairs](PAIRS_BYTES, weigh=lambda pairs: pairs.nbytes)

    def pairing(self, place: ChangePlace | None) -> Pairing:
        """How to find the candidates of a commit. Nothing is kept of a commit that is read from its start."""
        return candidates if place is None else self._candidates

    def _candidates(self, before: Side, after: Side) -> RowPairs:
        key = tuple(side.table.ref if side.table is not None else None for side in (before, after))
        known = self._pairs.get((key[0], key[1]))
        return known if known is not None else self._pairs.put((key[0], key[1]), candidates(before, after))


class Poll:
    """One look at a branch, and the pages from the position of the caller up to it."""

    def __init__(self, engine: Engine, request: FeedRequest, resumed: ResumedPairs | None = None) -> None:
        if sum(each is not None for each in (request.cursor, request.start, request.page)) > 1:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "pass one of cursor, start and page: each says where to begin")
        self._engine: Final = engine
        self._resumed: Final = resumed if resumed is not None else ResumedPairs()
        self._manifest: Final = engine.manifest
        self._wanted: Final = request.wanted
        self._limits: Final = request.limits
        self._scope: Final = scope_of(request.wanted)
        self._chain: Final = Chain(engine.manifest, request.branch)
        self._cut = self._chain.head
        self._place: ChangePlace | None = None
        self._given = request.cursor
        if request.page is not None:
            token = decode(request.page, FeedPageToken)
            self._place, self._cut = token.place, ChainPosition(token.cut, token.cut_at)
            self._start, self._given = self._known(token.cursor), encode(token.cursor)
        elif request.cursor is not None:
            self._start = self._known(decode(request.cursor, FeedCursor))
        else:
            check_types(self._wanted, engine.catalog(self._chain.snapshot))
            self._start = self._begin(request.start if request.start is not None else NOW)

    @property
    def branch(self) -> Branch:
        return self._chain.branch

    @property
    def head(self) -> CommitId:
        """The newest commit of the branch."""
        return self._chain.head.commit

    def page(self) -> ChangePage:
        """The first page. It is empty if there is nothing new."""
        return next(self.pages())

    def pages(self) -> Iterator[ChangePage]:
        """All pages up to the cut, or to the number of commits that a poll may read; one at least.

        A commit that cannot be shown ends them before it. It is refused if it is the first that is asked for, or if a page ended inside it.
        """
        if self._start.commit == self._cut.commit:
            yield ChangePage((), self._cursor(self._start), None, caught_up=True)
            return
        at, inside, some = self._start, False, False
        blocks: list[ChangeBlock] = []
        space = PageSpace(self._limits)
        commits = self._chain.after(self._start, upto=self._cut, count=self._limits.commits)
        commit: Commit | None = None
        try:
            commit = next(commits, None)
            if commit is None:
                raise self._unknown(self._start)
            before = self._before(self._start)
            while commit is not None:
                after = self._chain.snapshot_at(commit.manifest_version)
                for part, whole in self._parts(commit, before, after, space, self._place if at == self._start else None):
                    if part or whole:
                        blocks.append(ChangeBlock(commit, tuple(part), self._schema(before, after)))
                    if not whole:
                        yield self._ended(blocks, at, part[-1] if part else None)
                        inside, some, blocks = bool(part), True, []
                at, before, inside = ChainPosition(commit.id, commit.manifest_version), after, False
                commit = next(commits, None)
                if space.is_full and commit is not None:
                    yield self._ended(blocks, at, None)
                    some, blocks = True, []
                    space.clear()
        except (NotFound, StorageError, ConflictError) as error:
            if inside or not (some or blocks):
                raise self._refusal(error, commit) from error
            if not blocks:
                return
        yield self._ended(blocks, at, None)

    # -- where to begin

    def _known(self, cursor: FeedCursor) -> ChainPosition:
        check_scope(cursor, graph=self._manifest.graph_id, scope=self._scope)
        check_branch(cursor, self._chain.branch)
        found = ChainPosition(cursor.commit, cursor.at)
        if max(found.version, self._cut.version) > self._chain.head.version:
            raise self._unknown(found)
        return found

    def _begin(self, start: str) -> ChainPosition:
        if start == NOW:
            return self._chain.head
        if start == BEGINNING:
            return self._beginning()
        if not isinstance(start, str) or not start.startswith(AFTER):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"start is 'now', 'beginning' or 'after:' and a commit, not {start!r}", start=start)
        commit = self._manifest.commit(start.removeprefix(AFTER), first=self._chain.branch.name)
        if not self._chain.has(commit):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"commit {commit.id} is not on the chain of first parents of branch {self._chain.branch.name!r}",
                commit=commit.id,
                branch=self._chain.branch.name,
            )
        return ChainPosition(commit.id, commit.manifest_version)

    def _beginning(self) -> ChainPosition:
        """The first commit of the graph. It has no parent, so it must have no rows: those of a copy would be missing from the feed."""
        first = self._chain.first()
        try:
            tables = self._chain.snapshot_at(first.manifest_version).state.tables
        except NotFound as error:
            raise self._refusal(error, first) from error
        if any(row.rows for row in tables.values()):
            raise ConflictError(
                Kind.PARENTLESS_COMMIT,
                f"commit {first.id} is the first of the graph and has rows, which no change shows; begin with a baseline",
                commit=first.id,
            )
        return ChainPosition(first.id, first.manifest_version)

    # -- one commit

    def _before(self, position: ChainPosition) -> BranchSnapshot:
        found = self._chain.snapshot_at(position.version)
        if found.commit != position.commit:
            raise self._unknown(position)
        return found

    def _parts(
        self, commit: Commit, before: BranchSnapshot, after: BranchSnapshot, space: PageSpace, place: ChangePlace | None
    ) -> Iterator[tuple[list[EntityChange], bool]]:
        return packed(_changes(self._engine, commit, before, after, self._wanted, self._limits, place, self._resumed), space)

    def _schema(self, before: BranchSnapshot, after: BranchSnapshot) -> str | None:
        schema = after.state.head.schema
        return None if schema == before.state.head.schema else self._manifest.schema(schema, branch=after.branch.name).source

    # -- the end of a page

    def _ended(self, blocks: list[ChangeBlock], at: ChainPosition, last: EntityChange | None) -> ChangePage:
        """A page that ends after a commit, or, with `last`, inside the next one."""
        if not self._manifest.is_live(self._chain.branch):
            raise _replaced(self._manifest, self._chain.branch)  # what was read may be of files that are being removed (D-27)
        if last is None:
            return ChangePage(tuple(blocks), self._cursor(at), None, caught_up=at.commit == self._cut.commit)
        token = FeedPageToken(self._cursor_of(at), ChangePlace.after(last), self._cut.commit, self._cut.version)
        return ChangePage(tuple(blocks), None, encode(token), caught_up=False)

    def _cursor(self, at: ChainPosition) -> str:
        return encode(self._cursor_of(at))

    def _cursor_of(self, at: ChainPosition) -> FeedCursor:
        branch = self._chain.branch
        return FeedCursor(self._manifest.graph_id, self._scope, branch.name, branch.native, at.commit, at.version)

    # -- refusals

    def _unknown(self, position: ChainPosition) -> OmniGraphError:
        name = self._chain.branch.name
        return cursor_rejected("history", f"commit {position.commit} is not in the history of branch {name!r}", commit=position.commit)

    def _refusal(self, error: OmniGraphError, commit: Commit | None) -> OmniGraphError:
        if not self._manifest.is_live(self._chain.branch):
            return _replaced(self._manifest, self._chain.branch)
        return _gap(commit, self._given) if commit is not None and error.kind in _REMOVED else error


def baseline_cursor(manifest: Manifest, snapshot: BranchSnapshot, wanted: ChangeFilter) -> str:
    """The cursor after a snapshot of the head of a branch: the feed goes on with the commit after it."""
    branch = snapshot.branch
    return encode(FeedCursor(manifest.graph_id, scope_of(wanted), branch.name, branch.native, snapshot.commit, snapshot.version))


def commit_page(
    engine: Engine, commit: Commit, wanted: ChangeFilter, limits: PageLimits, page: str | None, resumed: ResumedPairs
) -> CommitPage:
    """One page of the changes of a commit, compared with its first parent."""
    manifest, scope = engine.manifest, scope_of(wanted)
    place: ChangePlace | None = None
    if page is not None:
        token = decode(page, CommitPageToken)
        check_scope(token, graph=manifest.graph_id, scope=scope)
        if token.commit != commit.id:
            raise cursor_rejected("commit", f"it belongs to commit {token.commit}", commit=token.commit)
        place = token.place
    try:
        after = manifest.snapshot_of(commit)
        before = parent_of(engine, commit, after)
        check_types(wanted, engine.catalog(before), engine.catalog(after))
        changes = _changes(engine, commit, before, after, wanted, limits, place, resumed)
        part, whole = next(packed(changes, PageSpace(limits)))
    except NotFound as error:
        raise _gap(commit, None) if error.kind in _REMOVED else error from error
    more = None if whole else encode(CommitPageToken(manifest.graph_id, scope, commit.id, ChangePlace.after(part[-1])))
    return CommitPage(commit, tuple(part), more)


def _changes(
    engine: Engine,
    commit: Commit,
    before: BranchSnapshot,
    after: BranchSnapshot,
    wanted: ChangeFilter,
    limits: PageLimits,
    place: ChangePlace | None,
    resumed: ResumedPairs,
) -> Iterator[EntityChange]:
    """The changes of a commit after a place. Raises at once if they cannot be shown."""
    if commit.kind.moves_rows_only:  # a compaction rewrites every row: that they are the same need not be read (D-11)
        return iter(())
    check_boundary(engine, commit, before, after, wanted)
    pairing = resumed.pairing(place)
    return changes_between(engine, before, after, wanted, place=place, first_rows=limits.changes + 1, pairing=pairing)


def _gap(commit: Commit, cursor: str | None) -> ChangeFeedGap:
    return ChangeFeedGap(
        Kind.CHANGE_FEED_GAP,
        f"the changes of commit {commit.id} can no longer be read: what it or its parent shows was removed; begin again with a baseline",
        commit=commit.id,
        cursor=cursor,
    )


def _replaced(manifest: Manifest, branch: Branch) -> OmniGraphError:
    """The error for a branch that was deleted during a poll, or deleted and created again."""
    if read_branch(manifest.root.objects, branch.name) is None:
        return NotFound(Kind.BRANCH_NOT_FOUND, f"branch {branch.name!r} was deleted during the read", branch=branch.name)
    return cursor_rejected("incarnation", f"branch {branch.name!r} was deleted and created again since", branch=branch.name)
