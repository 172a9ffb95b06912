"""Calls on `g.changes` -> pages of what was committed on a branch, after a position that the caller keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from omnigraph.arguments import checked_methods
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.feed.baseline import Baseline
from omnigraph.exec.feed.follow import follow
from omnigraph.exec.feed.pages import CHANGES, COMMITS, PAGE_BYTES, ChangePage, CommitPage, page_limits
from omnigraph.exec.feed.poll import FeedRequest, Poll, ResumedPairs, commit_page
from omnigraph.exec.history.diff import change_filter
from omnigraph.exec.read.watch import Cancellation
from omnigraph.handle import Handle
from omnigraph.ids import MAIN
from omnigraph.manifest.registry import given_name
from omnigraph.store.leaving import waited_for


@checked_methods(but=("cursor", "page", "wait"))
class Changes:
    """The change feed of a graph. Nothing about its readers is stored in the graph; each keeps its own cursor."""

    def __init__(self, graph: Handle) -> None:
        self._graph = graph
        self._resumed = ResumedPairs()

    def __repr__(self) -> str:
        return f"Changes of {self._graph!r}"

    @waited_for
    def poll(
        self,
        cursor: str | None = None,
        *,
        branch: str = MAIN,
        start: str | None = None,
        page: str | None = None,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
        limit: int = CHANGES,
        limit_bytes: int = PAGE_BYTES,
        max_commits: int = COMMITS,
    ) -> ChangePage:
        """Return the commits of a branch after a cursor, oldest first, each with its changes against its first parent.

        Without a cursor, `start` is "now" (no commit, only a cursor), "beginning", or "after:" and a commit. If the page ends inside a
        commit, pass its `next_page` as `page` to go on, else its `cursor`. `limit` and `limit_bytes` bound the changes of a page. `kinds`,
        `types` and `ops` select changes as in `diff`; a cursor is valid for the same selection only.
        """
        wanted, limits = change_filter(kinds, types, ops), page_limits(changes=limit, size_bytes=limit_bytes, commits=max_commits)
        request = FeedRequest(branch=given_name(branch), wanted=wanted, limits=limits, cursor=cursor, start=start, page=page)
        return Poll(self._graph.engine, request, self._resumed).page()

    def follow(
        self,
        cursor: str | None = None,
        *,
        branch: str = MAIN,
        start: str | None = None,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
        limit: int = CHANGES,
        limit_bytes: int = PAGE_BYTES,
        max_commits: int = COMMITS,
        wait: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Iterator[ChangePage]:
        """Yield pages as `poll` returns them, and wait for new commits when there are none. The first page may be empty.

        It ends when there was no commit for `wait` seconds, or when `cancellation` is cancelled; without both, never.
        """
        if wait is not None and not (isinstance(wait, int | float) and wait >= 0):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"wait must be a number of seconds, not {wait!r}")
        wanted, limits = change_filter(kinds, types, ops), page_limits(changes=limit, size_bytes=limit_bytes, commits=max_commits)
        request = FeedRequest(branch=given_name(branch), wanted=wanted, limits=limits, cursor=cursor, start=start)
        return follow(self._graph.engine, request, wait_seconds=wait, cancellation=cancellation)

    @waited_for
    def baseline(
        self,
        branch: str = MAIN,
        *,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
    ) -> Baseline:
        """Return the rows of a branch as lines, as `export` yields them, and the cursor of the feed right after them.

        `kinds` and `types` select rows, and changes after them; `ops` only changes.
        """
        return Baseline(self._graph.engine, given_name(branch), change_filter(kinds, types, ops))

    @waited_for
    def commit(
        self,
        id_: str,
        *,
        page: str | None = None,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
        limit: int = CHANGES,
        limit_bytes: int = PAGE_BYTES,
    ) -> CommitPage:
        """Return one page of the changes of one commit, compared with its first parent. `page` is the `next_page` of the page before."""
        limits = page_limits(changes=limit, size_bytes=limit_bytes)
        engine = self._graph.engine
        return commit_page(engine, engine.manifest.commit(id_), change_filter(kinds, types, ops), limits, page, self._resumed)
