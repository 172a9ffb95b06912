"""A table and some of its versions -> their removal with all files that no other version or native branch needs, or a preview of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from omnigraph.store.bases import home
from omnigraph.store.data_files import PATCHES
from omnigraph.store.durable import version_file
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.refs import fork_points, native_refs
from omnigraph.store.root import Root
from omnigraph.store.tables import Table

_NUMBERED: Final = len(version_file(0).rpartition("/")[2])
AGE: Final = timedelta(days=7)
"""After this time without a write, files that no version names belong to a writer that has ended. Lance uses the same."""
_TREE: Final = "tree"
_NO_VERSION: Final = 0
"""No table has this version. Lance refuses an empty list of versions, and removes aged files only along with a list."""


class Removal(NamedTuple):
    """What was removed, or would be."""

    versions: int = 0
    size_bytes: int = 0

    def plus(self, other: Removal) -> Removal:
        return Removal(self.versions + other.versions, self.size_bytes + other.size_bytes)


def existing_versions(root: Root, path: str, *, branch: str | None) -> list[int]:
    """The versions of a native branch that exist, oldest first. Costs one listing."""
    names = {name.rpartition("/")[2] for name in root.objects.list(f"{home(path, branch)}/_versions")}
    newest = 2**64 - 1
    found = (newest - int(name.removesuffix(".manifest")) for name in names if name.endswith(".manifest") and len(name) == _NUMBERED)
    return sorted(found)


def versions_below(table: Table, floor: int) -> list[int]:
    """The existing versions of this native branch that are older than `floor`. Costs one listing."""
    return [version for version in existing_versions(table.root, table.ref.path, branch=table.ref.branch) if version < floor]


def spent_versions(root: Root, path: str, *, branch: str | None, below: int | None, needed: Collection[int]) -> list[int]:
    """The versions of a native branch that can be removed: not needed, not the newest, and older than `below`, if it is given.

    `needed` includes the versions that native branches were made from.
    """
    *older, _ = existing_versions(root, path, branch=branch) or [0]
    return [version for version in older if version not in needed and (below is None or version < below)]


def remove_versions(table: Table, versions: Sequence[int]) -> Removal:
    """Removes exactly these versions and the files that only they need. Ignores versions that are already removed.

    Keeps a version that a native branch was made from, and with it the files that the branch inherits. Lance would keep them as well,
    but recognizes them by absolute paths, which are those of another place in a graph that was moved. Files of a writer that has not
    committed are never removed, because its later commit would be unreadable.
    """
    spent = sorted(set(versions) - fork_points(table)) if versions else []
    return _remove(table, spent) if spent else Removal()


def sweep(table: Table, versions: Sequence[int], *, preview: bool) -> Removal:
    """Removes versions that `spent_versions` named, and files that no version names and that were written a week ago or earlier.

    A writer may still commit a younger file.
    """
    return _preview(table, versions) if preview else _remove(table, versions)


def leftovers(root: Root, path: str, *, at: datetime) -> dict[str, int]:
    """The objects of a table that Lance does not know, that nothing can refer to any more, and their sizes: patches of loads on a cluster,
    and files for a native branch that was never created. Both may belong to a running load, unless nothing was written for a week.
    """
    refs, old = set(native_refs(root, path)), at - AGE
    groups: dict[str, list[str]] = {}
    written = root.objects.written(path)
    for name in written:
        parts = name.removeprefix(f"{path}/").split("/")
        if parts[0] == _TREE and parts[1] not in refs:
            groups.setdefault(parts[1], []).append(name)
        elif PATCHES in (parts[0], *parts[2:3]):
            groups.setdefault(name, []).append(name)
    spent = [name for names in groups.values() if max(written[name] for name in names) < old for name in names]
    sizes = root.objects.sizes(path) if spent else {}
    return {name: sizes.get(name, 0) for name in spent}


def aged_lines(root: Root, path: str, *, at: datetime) -> set[str | None]:
    """The native branches of a table that have files a week old, among which may be some that no version names."""
    old = [name.removeprefix(f"{path}/").split("/") for name, written in root.objects.written(path).items() if written < at - AGE]
    return {parts[1] if parts[0] == _TREE else None for parts in old}


def remove_leftovers(root: Root, path: str, names: Iterable[str]) -> None:
    """Removes objects that `leftovers` named, and on a disk the directories that are empty afterwards."""
    trees = set()
    for name in names:
        root.objects.delete(name)
        parts = name.removeprefix(f"{path}/").split("/")
        trees.add(f"{path}/{'/'.join(parts[:2])}" if parts[0] == _TREE and PATCHES not in parts else f"{path}/{'/'.join(parts[:-1])}")
    for directory in trees:
        if not root.objects.exists(directory):
            root.objects.delete_prefix(directory)


def _remove(table: Table, versions: Sequence[int]) -> Removal:
    try:
        done = table.dataset.cleanup_old_versions(versions=list(versions) or [_NO_VERSION], error_if_tagged_old_versions=False)
    except raised_by_lance() as error:
        raise table.failed(error, doing="remove old versions of") from error
    return Removal(done.old_versions, done.bytes_removed)


def _preview(table: Table, versions: Sequence[int]) -> Removal:
    try:
        found = table.dataset.explain_cleanup_old_versions(versions=list(versions) or [_NO_VERSION], error_if_tagged_old_versions=False)
    except raised_by_lance() as error:
        raise table.failed(error, doing="look for old versions of") from error
    return Removal(found.stats.old_versions, found.stats.bytes_removed)
