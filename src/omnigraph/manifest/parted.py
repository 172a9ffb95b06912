"""Two branches -> the commits of each since they parted, and the last commit that both have. The history before it is not read.

A branch inherits all rows of `__manifest` up to the version that it was created from. These rows are the last common commit and its
ancestors, so they cannot add to what the two branches have in common, nor to what one of them lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from omnigraph.ids import CommitId
from omnigraph.manifest import lineage
from omnigraph.manifest.model import Commit
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch, read_branch


class Parted(NamedTuple):
    """The commits of two branches since they parted. Both have `last`, the newest commit that they had before."""

    ours: Mapping[CommitId, Commit]
    theirs: Mapping[CommitId, Commit]
    last: Commit


def since_parting(manifest: Manifest, ours: BranchSnapshot, theirs: BranchSnapshot) -> Parted | None:
    """Return what two branches have made since they parted. None if it cannot be told, as after a branch between them was deleted."""
    version = _parting(manifest, ours.branch, theirs.branch)
    if version is None:
        return None
    mine, other = (manifest.history(each.branch.name, since=version + 1) for each in (ours, theirs))
    last = _entered_by(mine, ours.commit)
    if last is None or last != _entered_by(other, theirs.commit):
        return None
    commit = manifest.commit(last, first=ours.branch.name)
    return Parted({**mine, last: commit}, {**other, last: commit}, commit)


def _parting(manifest: Manifest, ours: Branch, theirs: Branch) -> int | None:
    """The newest version of `__manifest` that both branches inherited, or that one of them has and the other inherited."""
    mine = dict(_line(manifest, ours))
    for native, version in _line(manifest, theirs):
        if native in mine:
            ends = [end for end in (version, mine[native]) if end is not None]
            return min(ends, default=None)
    return None


def _line(manifest: Manifest, branch: Branch) -> Iterator[tuple[str | None, int | None]]:
    """The native branches that a branch is made of, its own first, and the version that it inherits of each. Ends at a deleted branch."""
    at: Branch | None = branch
    version: int | None = None
    yield branch.native, version
    while at is not None and at.parent is not None:
        version = at.forked_at if version is None else min(version, at.forked_at)
        yield at.parent_native, version
        parent = Branch.main() if at.parent_native is None else read_branch(manifest.root.objects, at.parent)
        at = parent if parent is not None and parent.native == at.parent_native else None


def _entered_by(commits: Mapping[CommitId, Commit], head: CommitId) -> CommitId | None:
    """The first parent of the oldest of these commits on the way from `head`: `head` itself if it is none of them."""
    oldest: Commit | None = None
    for commit in lineage.first_parents(commits, head):
        oldest = commit
    return head if oldest is None else next(iter(oldest.parents), None)
