"""A table and some of its versions -> their removal with all files that no other version or native branch needs, or a preview of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from omnigraph.faults import Fault, reach
from omnigraph.store.bases import home
from omnigraph.store.data_files import PATCHES
from omnigraph.store.deep import named_files
from omnigraph.store.durable import is_detached, numbered_versions, version_file
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.refs import fork_points, native_refs
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, open_dataset

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
    return sorted(numbered_versions(root.objects.list(f"{home(path, branch)}/_versions")))


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
    if table.ref.branch is not None:
        return _sweep_fork(table.root, table.ref, versions, preview=preview)
    return _preview(table, versions) if preview else _remove(table, versions)


def _sweep_fork(root: Root, ref: TableRef, versions: Sequence[int], *, preview: bool) -> Removal:
    """The same for a native branch. Lance reads the references of all native branches for each one, which is quadratic for all of them.

    Those that were made from this one inherit nothing but files of the versions that they were made from, and these versions stay.
    Version files are removed first: a version that can be opened can be read. What a killed process then leaves is removed after a week.
    """
    every = existing_versions(root, ref.path, branch=ref.branch)
    spent = sorted(set(versions).intersection(every))
    kept = {name for version in set(every).difference(spent) for name in _named_at(root, ref.at(version))}
    gone = {name for version in spent for name in _named_at(root, ref.at(version))} - kept
    sizes = root.objects.sizes(ref.home)
    old = {name for name, written in root.objects.written(ref.home).items() if written < datetime.now(UTC) - AGE}
    owners = {name: owner for name in sizes if (owner := _owner(ref, name)) is not None}
    removed = {name: owner for name, owner in owners.items() if owner in gone or (owner not in kept and name in old)}
    files = [f"{ref.home}/{version_file(version)}" for version in spent]
    if not preview:
        list(root.pool.map(root.objects.delete, files))
        reach(Fault.CLEANUP_AFTER_VERSIONS)
        list(root.pool.map(root.objects.delete, removed))
        if root.is_local:  # the empty directories of indexes and blobs
            for owner in set(removed.values()).difference(owner for name, owner in owners.items() if name not in removed):
                root.objects.delete_prefix(owner.removesuffix(".lance"))
    return Removal(len(spent), sum(sizes.get(name, 0) for name in (*removed, *files)))


def _named_at(root: Root, ref: TableRef) -> Iterator[str]:
    """The file of a version, and what it names: data and deletion files, and directories of indexes."""
    table = Table(root, ref, open_dataset(root, ref))
    yield f"{ref.home}/{version_file(ref.version)}"
    yield from (file.path for files in named_files(table).values() for file in files)
    yield from (index.directory for index in table.indexes)


def _owner(ref: TableRef, name: str) -> str | None:
    """What a file is kept with: itself, its data file if it is a blob, the directory of its index, or the version of its transaction.

    None for version files, and for files that are not those of a version.
    """
    kind, _, rest = name.removeprefix(f"{ref.home}/").partition("/")
    first, _, below = rest.partition("/")
    match kind:
        case "data":
            return f"{ref.home}/data/{first}.lance" if below else name
        case "_indices":
            return f"{ref.home}/_indices/{first}"
        case "_deletions":
            return name
        case "_transactions" if (base := first.partition("-")[0]).isdigit():
            return f"{ref.home}/{version_file(int(base) + 1)}"
        case _:
            return None


def leftovers(root: Root, path: str, *, at: datetime) -> dict[str, int]:
    """The objects of a table that nothing can refer to any more and that Lance leaves alone, with their sizes: patches of loads on a
    cluster, files for a native branch that was never created, and detached versions. They may belong to a running load or optimize, unless
    nothing was written for a week.
    """
    refs, old = set(native_refs(root, path)), at - AGE
    groups: dict[str, list[str]] = {}
    written = root.objects.written(path)
    for name in written:
        parts = name.removeprefix(f"{path}/").split("/")
        if parts[0] == _TREE and parts[1] not in refs:
            groups.setdefault(parts[1], []).append(name)
        elif PATCHES in (parts[0], *parts[2:3]) or is_detached(name):
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
