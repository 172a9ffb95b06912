"""Commits -> who descends from whom: ancestry, the merge base, and a listing with the newest first. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping

from omnigraph.errors import Kind, NotFound
from omnigraph.ids import CommitId
from omnigraph.manifest.model import Commit

Commits = Mapping[CommitId, Commit]


def distances(commits: Commits, start: CommitId) -> dict[CommitId, int]:
    """Every ancestor of `start`, itself included, with the fewest steps to it."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for parent in _known(commits, at).parents:
            if parent not in found:
                found[parent] = found[at] + 1
                queue.append(parent)
    return found


def is_ancestor(commits: Commits, ancestor: CommitId, of: CommitId) -> bool:
    return ancestor in distances(commits, of)


def merge_base(commits: Commits, ours: CommitId, theirs: CommitId) -> CommitId | None:
    """The common ancestor nearest to both: of those that no other common ancestor descends from, the smallest sum of steps,
    and of equals the one born at the newest manifest version.

    Steps alone would not do: a merge that reached far back makes an old commit near, although a later one is shared too.
    """
    left, right = distances(commits, ours), distances(commits, theirs)
    common = left.keys() & right.keys()
    # All ancestors of a common ancestor are common, so those that another descends from are just the parents.
    last = common - {parent for commit in common for parent in commits[commit].parents}
    return min(last, key=lambda c: (left[c] + right[c], -commits[c].manifest_version, c), default=None)


def newest_first(commits: Commits, head: CommitId) -> Iterator[Commit]:
    """Ancestors of `head`, each child before its parents, otherwise by time, newest first."""
    waiting = _child_counts(commits, head)
    ready = [_rank(_known(commits, head))]
    while ready:
        *_, found = heapq.heappop(ready)
        yield found
        for parent in found.parents:
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, _rank(commits[parent]))


def first_parents(commits: Commits, head: CommitId) -> Iterator[Commit]:
    """The branch's own chain: from `head` along first parents. Stops where `commits` ends."""
    at: CommitId | None = head
    while at is not None and at in commits:
        yield commits[at]
        at = next(iter(commits[at].parents), None)


def _child_counts(commits: Commits, head: CommitId) -> dict[CommitId, int]:
    counts: dict[CommitId, int] = {}
    for commit in distances(commits, head):
        for parent in commits[commit].parents:
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def _rank(commit: Commit) -> tuple[float, str, Commit]:
    # Ids break ties of time (two commits within a microsecond), and are never equal, so commits are never compared.
    return -commit.created_at.timestamp(), commit.id, commit


def _known(commits: Commits, commit: CommitId) -> Commit:
    try:
        return commits[commit]
    except KeyError:
        raise NotFound(Kind.COMMIT_NOT_FOUND, f"commit {commit} is not in this history", commit=commit) from None
