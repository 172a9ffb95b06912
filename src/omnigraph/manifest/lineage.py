"""Commits -> ancestry, the merge base, and a listing with the newest first. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import pairwise
from typing import Final

import msgspec

from omnigraph.errors import FormatError, Kind, NotFound
from omnigraph.ids import CommitId
from omnigraph.manifest.model import Commit, CommitKind

Commits = Mapping[CommitId, Commit]

SHORTEST: Final = 8
"""How much of an id is shown at least."""


def distances(commits: Commits, start: CommitId) -> dict[CommitId, int]:
    """Return every ancestor of `start`, itself included, with the smallest number of steps to it."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for parent in _known(commits, at).parents:
            if parent not in found:
                found[parent] = found[at] + 1
                queue.append(parent)
    return found


def among(commits: Commits) -> Commits:
    """Return these commits without the parents that are not among them: a part of a history that can be walked by itself."""
    return {
        commit.id: commit if all(map(commits.__contains__, commit.parents)) else _with_parents(commit, commits)
        for commit in commits.values()
    }


def _with_parents(commit: Commit, some: Commits) -> Commit:
    return msgspec.structs.replace(commit, parents=tuple(parent for parent in commit.parents if parent in some))


def merge_base(
    commits: Commits, ours: CommitId, theirs: CommitId, *, readable: Callable[[Commit], bool] = lambda _: True
) -> CommitId | None:
    """Return the common ancestor nearest to both, or None. It is the first of `merge_bases`."""
    return next(iter(merge_bases(commits, ours, theirs, readable=readable)), None)


def merge_bases(
    commits: Commits, ours: CommitId, theirs: CommitId, *, readable: Callable[[Commit], bool] = lambda _: True
) -> list[CommitId]:
    """Return the common ancestors that no other common ancestor descends from. Only a `readable` commit is considered, which is asked of
    the others only if one of the last is not.

    There are several after crossing merges. The first has the smallest sum of steps, and of equals the newest manifest
    version. Steps alone are not enough to find them: a merge with an old commit makes that commit near, although a later one is
    common too.
    """
    left, right = distances(commits, ours), distances(commits, theirs)
    common = left.keys() & right.keys()
    last = _last(commits, common)
    if not all(readable(commits[commit]) for commit in last):
        last = _last(commits, {commit for commit in common if readable(commits[commit])})
    return sorted(last, key=lambda c: (left[c] + right[c], -commits[c].manifest_version, c))


def _last(commits: Commits, some: Set[CommitId]) -> Set[CommitId]:
    """Return those of some commits that no other of them descends from."""
    return some - _ancestors(commits, {parent for commit in some for parent in commits[commit].parents})


def all_merge_bases(commits: Commits, heads: Iterable[CommitId], *, readable: Callable[[Commit], bool] = lambda _: True) -> set[CommitId]:
    """Return the `merge_bases` of every two of the heads. One pass over the history, however many heads there are."""
    distinct = sorted(set(heads))
    bit = {head: 1 << at for at, head in enumerate(distinct)}
    reached: dict[CommitId, int] = dict.fromkeys(commits, 0)  # the heads that descend from a commit, or are it
    covered: dict[CommitId, int] = dict.fromkeys(commits, 0)  # the pairs of heads that a descendant is common to
    pairs = _Pairs()
    found: set[CommitId] = set()
    for commit in newest_first(commits, *distinct):
        mine = reached[commit.id] | bit.get(commit.id, 0)
        common = pairs.of(mine) if readable(commit) else 0
        if common & ~covered[commit.id]:
            found.add(commit.id)
        for parent in commit.parents:
            reached[parent] |= mine
            covered[parent] |= covered[commit.id] | common
    return found


class _Pairs:
    """Sets of heads -> the sets of their pairs, both as bits."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, heads: int) -> int:
        if heads not in self._known:
            ones = [at for at in range(heads.bit_length()) if heads >> at & 1]
            self._known[heads] = sum(1 << (high * (high - 1) // 2 + low) for high in ones for low in ones if low < high)
        return self._known[heads]


def _ancestors(commits: Commits, starts: set[CommitId]) -> set[CommitId]:
    """Return these commits and all their ancestors."""
    found, queue = set(starts), deque(starts)
    while queue:
        for parent in _known(commits, queue.popleft()).parents:
            if parent not in found:
                found.add(parent)
                queue.append(parent)
    return found


def newest_first(commits: Commits, *heads: CommitId) -> Iterator[Commit]:
    """Yield `heads` and their ancestors: each child before its parents, otherwise by time, newest first."""
    waiting = _child_counts(commits, heads)
    ready = [_rank(_known(commits, head)) for head in set(heads) if not waiting.get(head)]
    heapq.heapify(ready)
    while ready:
        *_, found = heapq.heappop(ready)
        yield found
        for parent in found.parents:
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, _rank(commits[parent]))


def distinct_length(commits: Iterable[CommitId]) -> int:
    """Return how many characters tell the ids of these commits apart, `SHORTEST` at least."""
    return max(SHORTEST, *(1 + _shared(one, other) for one, other in pairwise(sorted(commits))), 0)


def _shared(one: str, other: str) -> int:
    """Return the length of the beginning that two texts share."""
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))


def first_parents(commits: Commits, head: CommitId) -> Iterator[Commit]:
    """Yield the chain of first parents from `head`. Stops where `commits` ends. Raises on a cycle."""
    at: CommitId | None = head
    seen: set[CommitId] = set()
    while at is not None and at in commits:
        if at in seen:
            raise FormatError(Kind.CORRUPT, f"commit {at} is its own ancestor; check the graph with `omnigraph verify`", commit=at)
        seen.add(at)
        yield commits[at]
        at = next(iter(commits[at].parents), None)


def flaws(commits: Commits, head: CommitId) -> Iterator[str]:
    """Yield each defect of a history as a sentence. A sound history leads from its head to the genesis commit, and yields nothing."""
    if head not in commits:
        yield f"the head, commit {head}, is not in the history"
        return
    waiting, reached = _all_child_counts(commits, head)
    for commit in (commits[found] for found in sorted(reached)):
        for parent in commit.parents:
            if parent not in commits:
                yield f"commit {commit.id} names a parent {parent} that is not in the history"
        first = commits.get(commit.parents[0]) if commit.parents else None
        if not commit.parents and commit.kind is not CommitKind.GENESIS:
            yield f"commit {commit.id} has no parent, and is not the genesis commit"
        if first is not None and first.native == commit.native and first.manifest_version >= commit.manifest_version:
            yield f"commit {commit.id} has version {commit.manifest_version}, and its parent {first.id} has {first.manifest_version}"
    # Repeatedly remove commits without children. What remains contains a cycle.
    free = [found for found in reached if not waiting.get(found)]
    while free:
        at = free.pop()
        reached.discard(at)
        for parent in commits[at].parents:
            waiting[parent] -= 1
            if not waiting[parent] and parent in reached:
                free.append(parent)
    if reached:
        yield f"{len(reached)} commits are ancestors of themselves, {min(reached)} among them"


def _all_child_counts(commits: Commits, head: CommitId) -> tuple[dict[CommitId, int], set[CommitId]]:
    """Return the number of children of each ancestor of `head`, and the ancestors that exist, in a history that may be damaged."""
    reached, queue = {head}, deque([head])
    counts: dict[CommitId, int] = {}
    while queue:
        for parent in commits[queue.popleft()].parents:
            counts[parent] = counts.get(parent, 0) + 1
            if parent in commits and parent not in reached:
                reached.add(parent)
                queue.append(parent)
    return counts, reached


def _child_counts(commits: Commits, heads: Iterable[CommitId]) -> dict[CommitId, int]:
    counts: dict[CommitId, int] = {}
    for commit in _ancestors(commits, set(heads)):
        for parent in commits[commit].parents:
            counts[parent] = counts.get(parent, 0) + 1
    return counts


def _rank(commit: Commit) -> tuple[float, str, Commit]:
    # Ids break ties of time (two commits within a microsecond). They are unique, so commits are never compared.
    return -commit.created_at.timestamp(), commit.id, commit


def _known(commits: Commits, commit: CommitId) -> Commit:
    try:
        return commits[commit]
    except KeyError:
        raise NotFound(Kind.COMMIT_NOT_FOUND, f"commit {commit} is not in this history", commit=commit) from None
