"""A branch and a commit of it -> the commits after it along first parents, oldest first, up to a cut.

On one native branch of `__manifest` every version was made by one commit at most, and each is the child of the one before. So the chain
of a branch is the commits of its native branch, by version, after those of its parent up to the version that it was created from. The
commits that a merge copied have other native names or other versions, and are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from omnigraph.ids import BranchName, CommitId
from omnigraph.manifest.model import COMMIT, Commit, read_commits, read_state
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import find_branch

FIRST_VERSION: Final = 1


class ChainPosition(NamedTuple):
    """A commit, and a manifest version at which it was the newest one of the branch."""

    commit: CommitId
    version: int


class _Segment(NamedTuple):
    """A part of the chain: the commits of one native branch up to a version."""

    native: str | None
    upto: int


class Chain:
    """The first-parent chain of a branch, as it is when this is made. Costs one probe."""

    def __init__(self, manifest: Manifest, name: BranchName) -> None:
        self.branch, self._ledger, self._state = manifest.look(name)
        self._manifest: Final = manifest
        self._segments: list[_Segment] | None = None
        self.head: Final = ChainPosition(self._state.head.commit, self._ledger.version)

    @property
    def snapshot(self) -> BranchSnapshot:
        """The newest snapshot."""
        return BranchSnapshot(self.branch, self._ledger.version, self._state)

    def snapshot_at(self, version: int) -> BranchSnapshot:
        """The snapshot of the branch, or of the parent that it was then, at a manifest version. Raises NotFound if it was removed."""
        if self.branch.parent is not None and version < self.branch.forked_at:
            return self._manifest.snapshot(self.branch.parent, at=version)
        return BranchSnapshot(self.branch, version, read_state(self._ledger.at(version).state()))

    def has(self, commit: Commit) -> bool:
        """Whether a commit is part of the chain."""
        return commit.manifest_version <= self.head.version and commit.native == self._native(commit.manifest_version)

    def first(self) -> Commit:
        """The first commit of the graph."""
        return next(self._commits(FIRST_VERSION, self.head.version, window=1))

    def after(self, position: ChainPosition, *, upto: ChainPosition, count: int) -> Iterator[Commit]:
        """The commits after a position up to a cut, as many as `count`. Reads about as many rows as it yields."""
        return islice(self._commits(position.version + 1, upto.version, window=count), count)

    def _commits(self, version: int, upto: int, *, window: int) -> Iterator[Commit]:
        while version <= upto:
            last = min(version + window - 1, upto)
            found = [commit for commit in read_commits(self._ledger.facts(COMMIT, since=version, until=last)) if self.has(commit)]
            yield from sorted(found, key=lambda commit: commit.manifest_version)
            version = last + 1

    def _native(self, version: int) -> str | None:
        if version > self.branch.forked_at:
            return self.branch.native
        if self._segments is None:
            self._segments = list(self._inherited())
        return next(segment.native for segment in self._segments if version <= segment.upto)

    def _inherited(self) -> Iterator[_Segment]:
        """The parts that the branch inherits, the oldest first. A branch with children is not deleted, so all parents exist."""
        found: list[_Segment] = []
        branch = self.branch
        while branch.parent is not None:
            found.append(_Segment(branch.parent_native, branch.forked_at))
            branch = find_branch(self._manifest.root.objects, branch.parent)
        return reversed(found)
