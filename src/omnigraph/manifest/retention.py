"""A graph and a retention policy -> the commits of each branch that stay readable, and all versions that must not be removed.

Kept whatever the policy: what a branch shows now, what a tagged commit shows, what is being read (on a disk), and what a later merge of
two branches compares with. The last are the states that branches were created from, and the merge bases of every two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from itertools import pairwise, takewhile

import msgspec

from omnigraph.errors import Kind, NotFound, RecoveryRequired
from omnigraph.ids import MAIN, BranchName, CommitId, TableId
from omnigraph.manifest import intents, lineage
from omnigraph.manifest.intents import Intent
from omnigraph.manifest.model import Commit, CommitKind, State
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import abandoned
from omnigraph.manifest.registry import Branch, all_branches, is_private, read_branch
from omnigraph.manifest.tags import living_tags
from omnigraph.store.floor import read_floor
from omnigraph.store.held import is_held
from omnigraph.store.ledger import Ledger
from omnigraph.store.reclaim import versions_below
from omnigraph.store.refs import forked_from
from omnigraph.store.tables import TableRef

Native = str | None
"""A native branch of `__manifest`. None is its main line."""


class Policy(msgspec.Struct, frozen=True):
    """Which commits of a branch stay readable: the newest `keep`, and those that were the newest at `since` or later.

    A commit that one of the two keeps is kept. The newest commit is always kept.
    """

    keep: int | None = None
    since: datetime | None = None

    def kept(self, chain: Sequence[Commit]) -> Sequence[Commit]:
        """The part of a chain of first parents, newest first, that is kept. What follows a commit replaced it at that time."""
        count = max(1, self.keep or 0)
        if (since := self.since) is not None:
            count = max(count, 1 + sum(1 for _ in takewhile(lambda newer: newer.created_at > since, chain)))
        return chain[:count]


class BranchLine(msgspec.Struct, frozen=True):
    """A live branch. Manifest versions from `floor` on stay; `kept` of its own `commits` stay readable."""

    branch: Branch
    ledger: Ledger
    state: State
    floor: int
    commits: int
    kept: int


class Needs(msgspec.Struct, frozen=True):
    """Everything that must not be removed. `manifests` are single manifest versions below the floors."""

    lines: tuple[BranchLine, ...]
    tables: frozenset[TableRef]
    manifests: Mapping[Native, frozenset[int]]


def refuse_pending(manifest: Manifest) -> None:
    """Raise if a write is not resolved: which files it needs is not decided yet (O-14). For the holder of the exclusive lock."""
    for intent in intents.pending(manifest.root.objects):
        raise _unresolved(intent)


def refuse_abandoned(manifest: Manifest) -> None:
    """The same without a lock: what writers that are at work had begun is waited for."""
    if (intent := abandoned(manifest)) is not None:
        raise _unresolved(intent)


def _unresolved(intent: Intent) -> RecoveryRequired:
    return RecoveryRequired(
        Kind.RECOVERY_REQUIRED,
        f"a write to branch {intent.branch.name!r} was interrupted and is not resolved; nothing was removed. "
        "Open the graph for writing, or call refresh, and try again",
        operation_id=intent.operation,
        branch=intent.branch.name,
    )


def needs(manifest: Manifest, policy: Policy, *, without: Collection[BranchName] = ()) -> Needs:
    """Read every branch and tag, and return what must stay. Raises if a branch or a tag cannot be read.

    `without` are abandoned private branches, which need nothing.
    """
    names = [MAIN, *(name for name in all_branches(manifest.root.objects) if name not in without)]
    commits, heads = manifest.histories(names)
    tables: set[TableRef] = set()
    lines = []
    for name in names:
        branch, ledger, state = manifest.look(name)
        own = _own(branch, lineage.first_parents(commits, heads[name]))
        kept = policy.kept(own)
        tables.update(_shown(manifest, ledger, state, kept))
        floor = kept[-1].manifest_version if len(kept) < len(own) else branch.forked_at
        lines.append(BranchLine(branch, ledger, state, floor, len(own), len(kept)))
    points = _pinned(manifest, commits, [line.branch for line in lines], heads, [*_held(manifest, lines)])
    tables.update(_shown_at(manifest, {line.branch.native: line.ledger for line in lines}, points))
    return Needs(tuple(lines), frozenset(tables), points)


def still_shown(manifest: Manifest) -> frozenset[TableRef]:
    """What every branch shows now, what it was created from, and what tags show; read anew."""
    lines = [manifest.look(name) for name in (MAIN, *all_branches(manifest.root.objects))]
    points = _collect([*_fork_points(branch for branch, _, _ in lines), *_tagged(manifest)])
    shown = (ref for _, _, state in lines for ref in _refs(state).values())
    return frozenset([*shown, *_shown_at(manifest, {branch.native: ledger for branch, ledger, _ in lines}, points)])


def _own(branch: Branch, chain: Iterable[Commit]) -> list[Commit]:
    """The commits that were made on a branch itself."""
    return list(takewhile(lambda commit: commit.native == branch.native, chain))


# -- what a branch shows


def _refs(state: State) -> dict[TableId, TableRef]:
    return {row.id: row.ref for row in state.tables.values() if not row.dropped}


def _shown(manifest: Manifest, ledger: Ledger, state: State, kept: Sequence[Commit]) -> Iterator[TableRef]:
    """The table versions that a branch shows now and at each of its newest commits.

    Commits record the versions of tables, but not their native branches. Where those may have changed, the state of the parent is read.
    Where an earlier cleanup removed it, nothing before is readable, except what a tag or another branch needs (`_pinned`).
    """
    refs = _refs(state)
    yield from refs.values()
    first_version = cache(lambda path, native: forked_from(manifest.root, path, native))
    for commit, parent in pairwise(kept):
        if _may_move(commit, refs, first_version):
            try:
                refs = _refs(manifest.state_at(ledger, parent.manifest_version))
            except NotFound:
                if parent.manifest_version < read_floor(manifest.root.objects, ledger.ref.path, branch=ledger.ref.branch):
                    return
                raise
            yield from refs.values()
            continue
        for change in commit.tables:
            if change.before is None:
                del refs[change.id]
            else:
                refs[change.id] = refs[change.id].at(change.before)
                yield refs[change.id]


def _may_move(commit: Commit, refs: Mapping[TableId, TableRef], first_version: Callable[[str, str], int | None]) -> bool:
    """Whether a commit may have moved a table to another native branch: by its first write to the table, or by a merge."""
    if commit.kind is CommitKind.MERGE:
        return bool(commit.tables)
    for change in commit.tables:
        ref = refs.get(change.id)
        if ref is None:
            return True  # it was dropped
        if ref.branch is not None and first_version(ref.path, ref.branch) in (None, change.before):
            return True
    return False


# -- single commits


def _pinned(
    manifest: Manifest,
    commits: Mapping[CommitId, Commit],
    live: Sequence[Branch],
    heads: Mapping[BranchName, CommitId],
    held: Sequence[tuple[Native, int]],
) -> dict[Native, frozenset[int]]:
    """The manifest versions that are read now, that branches were created from, that tags name, and that are the base of a merge."""
    natives = {branch.native for branch in live}
    public = [head for name, head in heads.items() if not is_private(name)]
    bases = lineage.all_merge_bases(commits, public, readable=lambda commit: commit.native in natives)
    points = [(commits[base].native, commits[base].manifest_version) for base in bases]
    return _collect([*points, *held, *_fork_points(live), *_tagged(manifest)])


def _held(manifest: Manifest, lines: Iterable[BranchLine]) -> Iterator[tuple[Native, int]]:
    """The versions below the floors that a process reads, for example an export (O-17)."""
    for line in lines:
        native = line.branch.native
        for version in versions_below(line.ledger.as_table(), line.floor):
            if is_held(manifest.root, line.ledger.ref.at(version)):
                yield native, version


def _fork_points(live: Iterable[Branch]) -> Iterator[tuple[Native, int]]:
    yield from ((branch.parent_native, branch.forked_at) for branch in live if branch.parent is not None)


def _tagged(manifest: Manifest) -> Iterator[tuple[Native, int]]:
    """The versions of tagged commits. A branch cannot be deleted before its tags."""
    for tag in living_tags(manifest.root.objects):
        commit = manifest.commit(tag.commit_id, first=tag.branch)
        if tag.native is None or ((branch := read_branch(manifest.root.objects, tag.branch)) is not None and branch.native == tag.native):
            yield commit.native, commit.manifest_version


def _collect(points: Iterable[tuple[Native, int]]) -> dict[Native, frozenset[int]]:
    found: dict[Native, set[int]] = {}
    for native, version in points:
        found.setdefault(native, set()).add(version)
    return {native: frozenset(versions) for native, versions in found.items()}


def _shown_at(manifest: Manifest, ledgers: Mapping[Native, Ledger], points: Mapping[Native, frozenset[int]]) -> Iterator[TableRef]:
    for native, versions in points.items():
        for version in versions:
            # A branch that was deleted since is no longer a base, and an older commit becomes one, whose state may be gone.
            with suppress(NotFound):
                yield from _refs(manifest.state_at(ledgers[native], version)).values()
