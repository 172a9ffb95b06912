"""A source and a target of a merge -> how they are related: what both come from, and the commits that the target lacks."""

from __future__ import annotations

from collections.abc import Callable, Set
from enum import StrEnum
from functools import cache

import msgspec

from omnigraph.errors import Kind, NotFound
from omnigraph.ids import CommitId
from omnigraph.manifest import lineage
from omnigraph.manifest.model import Commit
from omnigraph.manifest.parted import since_parting
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.manifest.registry import living_branches


class MergeOutcome(StrEnum):
    """How a merge ended."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"
    CONFLICTS = "conflicts"
    """Only of a dry run. Otherwise a merge with conflicts raises."""


class Relation(msgspec.Struct, frozen=True):
    """How a source commit relates to a target: the states that both come from, and the commits that the target lacks."""

    outcome: MergeOutcome
    bases: tuple[Commit, ...] = ()
    copied: tuple[Commit, ...] = ()


def relate(manifest: Manifest, theirs: BranchSnapshot, ours: BranchSnapshot) -> Relation:
    """Find the nearest common ancestors whose rows can still be read. Those of a deleted branch cannot.

    Reads the commits since the branches parted, and the whole histories only if these do not tell.
    """
    here = {None, ours.branch.native, theirs.branch.native}

    @cache
    def live() -> frozenset[str | None]:
        return frozenset(branch.native for branch in living_branches(manifest.root.objects))

    def readable(commit: Commit) -> bool:
        return commit.native in here or commit.native in live()

    parted = since_parting(manifest, ours, theirs)
    if parted is not None and readable(parted.last):
        new, known = parted.theirs, parted.ours
        steps = lineage.among({**new, **known})
    else:
        new, known = (manifest.history(each.branch.name) for each in (theirs, ours))
        steps = {**new, **known}
    found = _relation({**new, **known}, steps, known.keys(), theirs.commit, ours.commit, readable)
    if found is None:
        raise NotFound(
            Kind.COMMIT_NOT_FOUND, f"branches {theirs.branch.name!r} and {ours.branch.name!r} have no common commit that can be read"
        )
    return found


def _relation(
    commits: lineage.Commits,
    steps: lineage.Commits,
    known: Set[CommitId],
    theirs: CommitId,
    ours: CommitId,
    readable: Callable[[Commit], bool],
) -> Relation | None:
    """The relation of two of these commits. `steps` leads from each to its parents; `known` are those that the target has."""
    if theirs in known and theirs in lineage.distances(steps, ours):
        return Relation(MergeOutcome.ALREADY_UP_TO_DATE)
    bases = lineage.merge_bases(steps, ours, theirs, readable=readable)
    if not bases:
        return None
    copied = tuple(commits[commit] for commit in sorted(lineage.distances(steps, theirs)) if commit not in known)
    outcome = MergeOutcome.FAST_FORWARD if bases == [ours] else MergeOutcome.MERGED
    return Relation(outcome, tuple(commits[base] for base in bases), copied)
