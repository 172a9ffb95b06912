"""Commits, each with its changes -> pages of bounded size. A page ends between two commits, or inside one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, ResourceLimitExceeded
from omnigraph.exec.history.changes import EntityChange
from omnigraph.manifest.model import Commit

CHANGES: Final = 1_000
MOST_CHANGES: Final = 8_192
PAGE_BYTES: Final = 4 * 1024 * 1024
MOST_PAGE_BYTES: Final = 32 * 1024 * 1024
COMMITS: Final = 128
MOST_COMMITS: Final = 512


class PageLimits(msgspec.Struct, frozen=True):
    """How much a page holds at most: changes, bytes of their JSON, and commits."""

    changes: int = CHANGES
    size_bytes: int = PAGE_BYTES
    commits: int = COMMITS


class ChangeBlock(msgspec.Struct, frozen=True):
    """A commit and its changes, or some of them if the page ended inside the commit. `cause.parents` are the parent and the merged one.

    `schema` is the accepted schema text if the commit changed the schema, else None.
    """

    cause: Commit
    changes: tuple[EntityChange, ...]
    schema: str | None = None


class ChangePage(msgspec.Struct, frozen=True):
    """Changes of a branch. Either `cursor` or `next_page` is set: a page that ends inside a commit has no cursor.

    `caught_up`: there was no later commit when the poll began.
    """

    blocks: tuple[ChangeBlock, ...]
    cursor: str | None
    next_page: str | None
    caught_up: bool


class CommitPage(msgspec.Struct, frozen=True):
    """Changes of one commit. `next_page` is set if there are more."""

    cause: Commit
    changes: tuple[EntityChange, ...]
    next_page: str | None


def page_limits(*, changes: int = CHANGES, size_bytes: int = PAGE_BYTES, commits: int = COMMITS) -> PageLimits:
    """Check the limits of a page (D-22)."""
    for name, resource, given, most in (
        ("limit", "commit_changes_page_changes", changes, MOST_CHANGES),
        ("limit_bytes", "commit_changes_page_bytes", size_bytes, MOST_PAGE_BYTES),
        ("max_commits", "change_feed_commits_per_poll", commits, MOST_COMMITS),
    ):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{name} must be a whole number of at least 1, not {given!r}", **{name: given})
        if given > most:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"resource limit exceeded for {resource}: actual {given}, limit {most}",
                resource=resource,
                limit=most,
                actual=given,
            )
    return PageLimits(changes, size_bytes, commits)


class PageSpace:
    """The space that is left on a page. A change larger than a whole page is on a page of its own (D-23)."""

    def __init__(self, limits: PageLimits) -> None:
        self._limits: Final = limits
        self._changes = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._changes >= self._limits.changes or self._bytes >= self._limits.size_bytes

    def take(self, change: EntityChange) -> bool:
        """Make place for a change. Returns False if it belongs on the next page."""
        size = len(msgspec.json.encode(change))
        if self._changes and (self.is_full or self._bytes + size > self._limits.size_bytes):
            return False
        self._changes += 1
        self._bytes += size
        return True

    def clear(self) -> None:
        self._changes = self._bytes = 0


def packed(changes: Iterator[EntityChange], space: PageSpace) -> Iterator[tuple[list[EntityChange], bool]]:
    """The changes of one commit in parts, one for each page that they are on, and whether the part is the last."""
    part: list[EntityChange] = []
    for change in changes:
        if not space.take(change):
            yield part, False
            part = []
            space.clear()
            space.take(change)
        part.append(change)
    yield part, True
