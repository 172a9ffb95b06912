"""The branches of a graph -> every version of every table that a kept commit shows, with the branches and commits that show it.

A branch keeps the versions of its line of `__manifest` from its retention floor on. What `cleanup` removed below the floor, and what a hard
drop gave up, is not damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from omnigraph.errors import FormatError, OmniGraphError
from omnigraph.exec.upkeep.file_damage import RESTORE, Damage, GraphFiles
from omnigraph.ids import BranchName, CommitId
from omnigraph.manifest.model import Commit, State, TableRow, read_state
from omnigraph.manifest.read import PATH, Manifest, newest_ledger
from omnigraph.manifest.registry import Branch
from omnigraph.manifest.tags import list_tags, read_tag
from omnigraph.store.durable import is_torn, version_file
from omnigraph.store.floor import floor_object, read_floor
from omnigraph.store.ledger import Ledger
from omnigraph.store.reclaim import existing_versions
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, operation_of

FLOOR_NEXT: Final = (
    "the next `omnigraph cleanup` that forgets a commit writes it again; "
    "until then `verify` does not see whether versions of the history are lost"
)
RESTORE_OPERATION: Final = "Restore"


class Shown(msgspec.Struct):
    """Who shows one version of a table."""

    alias: str
    tips: set[BranchName] = msgspec.field(default_factory=set)
    branches: set[BranchName] = msgspec.field(default_factory=set)
    commits: set[CommitId] = msgspec.field(default_factory=set)


class KeptVersions(msgspec.Struct):
    """The versions that kept commits show, and damage of `__manifest` itself with the branch it is on and the commits it hides."""

    retained: dict[Branch, int | None] = msgspec.field(default_factory=dict)
    """The retention floor of each branch: older versions of `__manifest` may be removed. None if it cannot be decoded."""
    tables: dict[TableRef, Shown] = msgspec.field(default_factory=dict)
    floors: dict[str, int] = msgspec.field(default_factory=dict)
    """The directory of a native branch of a table -> the version below which a hard drop gave up its versions."""
    noted: dict[str, int] = msgspec.field(default_factory=dict)
    """Version files of tables -> their checksums."""
    damages: list[tuple[Damage, BranchName, tuple[CommitId, ...]]] = msgspec.field(default_factory=list)

    def is_given_up(self, ref: TableRef) -> bool:
        return ref.version < self.floors.get(ref.home, 0)


def survey(manifest: Manifest, branch: Branch, commits: dict[CommitId, Commit], files: GraphFiles, kept: KeptVersions) -> None:
    """Add what a branch shows now and in its past."""
    _, newest, state = manifest.look(branch.name)
    made = {commit.manifest_version: commit.id for commit in commits.values() if commit.native == branch.native}
    tags = set(_tagged(manifest))
    tagged = {at for at, commit in made.items() if commit in tags}
    floor = kept.retained[branch] = _floor(manifest, branch, kept)
    for row in state.tables.values():
        kept.floors[row.ref.home] = max(row.floor, kept.floors.get(row.ref.home, 0))
    if floor is None:  # which versions were removed on purpose is not known
        since = set(existing_versions(manifest.root, PATH, branch=branch.native))
    else:
        since = set(range(max(1, branch.forked_at, floor), newest.version + 1))
    for version, found in _versions(manifest.root, newest, sorted(since | tagged, reverse=True), files, kept.noted):
        if isinstance(found, Damage):
            kept.damages.append((found, branch.name, tuple(commit for at, commit in made.items() if at == version)))
            continue
        for row in (row for row in found.tables.values() if not row.dropped):
            _add(kept, row, branch.name, found.head.commit, is_tip=version == newest.version)


def _floor(manifest: Manifest, branch: Branch, kept: KeptVersions | None = None) -> int | None:
    """The retention floor of a branch. None if it is damaged, or if it is lost, which is a damage."""
    path = floor_object(PATH, branch.native)
    try:
        floor = read_floor(manifest.root.objects, PATH, branch=branch.native)
        if floor or not _was_cleaned(manifest.root, branch):
            return floor
        lost = f"{path} is missing: it says which versions a cleanup removed. Without it they look like versions that are lost"
        damage = Damage("missing_file", lost, f"restore it from a backup, or wait: {FLOOR_NEXT}", path)
    except FormatError as error:
        damage = Damage(error.kind.value, error.message, f"remove it: {FLOOR_NEXT}", path)
    if kept is not None:
        kept.damages.append((damage, branch.name, ()))
    return None


def _was_cleaned(root: Root, branch: Branch) -> bool:
    """Whether a cleanup removed versions of this line. Before it does, it commits a restore, as nothing else does. The newest one stays."""
    found = existing_versions(root, PATH, branch=branch.native)
    if not found or set(range(max(1, branch.forked_at), found[-1] + 1)).issubset(found):
        return False
    return any(_operation(root, TableRef(PATH, branch.native, version)) == RESTORE_OPERATION for version in reversed(found))


def _operation(root: Root, ref: TableRef) -> str | None:
    with suppress(OmniGraphError):  # a damaged version is a finding of its own
        return operation_of(root, ref)
    return None


def _tagged(manifest: Manifest) -> Iterator[CommitId]:
    for name in list_tags(manifest.root.objects):
        with suppress(OmniGraphError):  # a tag that cannot be decoded is a finding of its own
            if (tag := read_tag(manifest.root.objects, name)) is not None:
                yield tag.commit_id


def survey_files(manifest: Manifest, branch: Branch, files: GraphFiles, kept: KeptVersions) -> None:
    """Add the damaged files of the newest version of a branch that cannot be read."""
    with suppress(OmniGraphError):  # the version file itself cannot be read, which the error of the branch says
        newest = newest_ledger(manifest.root, branch).as_table()
        files.check(newest)
        kept.damages += ((damage, branch.name, ()) for damage in files.harmed(newest))


def is_current(manifest: Manifest, kept: KeptVersions) -> bool:
    """Whether no cleanup removed versions since the survey."""
    return all(_floor(manifest, branch) == floor for branch, floor in kept.retained.items())


def _add(kept: KeptVersions, row: TableRow, branch: BranchName, commit: CommitId, *, is_tip: bool) -> None:
    shown = kept.tables.setdefault(row.ref, Shown(row.alias))
    shown.branches.add(branch)
    shown.commits.add(commit)
    if is_tip:
        shown.tips.add(branch)
        shown.alias = row.alias


def _versions(
    root: Root, newest: Ledger, wanted: list[int], files: GraphFiles, noted: dict[str, int]
) -> Iterator[tuple[int, State | Damage]]:
    """These versions of a branch's line, each with its state or its damage."""
    home = newest.ref.home
    listed = {name.rpartition("/")[2] for name in root.objects.list(f"{home}/_versions")}
    for version in wanted:
        path = f"{home}/{version_file(version)}"
        if path.rpartition("/")[2] not in listed:
            yield version, Damage("missing_file", f"{path} is missing", RESTORE, path)
            continue
        try:
            if is_torn(root, path):
                yield version, Damage("unreadable_version", f"{path} is incomplete", RESTORE, path)
                continue
            ledger = newest.at(version)
            files.check(ledger.as_table())
            if harmed := files.harmed(ledger.as_table()):
                yield from ((version, damage) for damage in harmed)
                continue
            noted.update(ledger.noted_versions())
            yield version, read_state(ledger.state())
        except OmniGraphError as error:
            yield version, Damage("unreadable_version", f"{path} cannot be read: {error.message}", RESTORE, path)
