"""A table and a version -> the older versions, and their removal with all files that no other version or native branch needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from omnigraph.store.durable import version_file
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.refs import fork_points
from omnigraph.store.tables import Table

_NUMBERED: Final = len(version_file(0).rpartition("/")[2])


def versions_below(table: Table, floor: int) -> list[int]:
    """The existing versions of this native branch that are older than `floor`. Costs one listing."""
    names = {name.rpartition("/")[2] for name in table.root.objects.list(f"{table.ref.home}/_versions")}
    newest = 2**64 - 1
    found = (newest - int(name.removesuffix(".manifest")) for name in names if name.endswith(".manifest") and len(name) == _NUMBERED)
    return sorted(version for version in found if version < floor)


def remove_versions(table: Table, versions: Sequence[int]) -> None:
    """Removes exactly these versions and the files that only they need. Ignores versions that are already removed.

    Keeps a version that a native branch was made from, and with it the files that the branch inherits. Lance would keep them as well,
    but recognizes them by absolute paths, which are those of another place in a graph that was moved. Files of a writer that has not
    committed are never removed, because its later commit would be unreadable.
    """
    spent = sorted(set(versions) - fork_points(table)) if versions else []
    if not spent:
        return
    try:
        table.dataset.cleanup_old_versions(versions=spent, error_if_tagged_old_versions=False)
    except raised_by_lance() as error:
        raise table.failed(error, doing="remove old versions of") from error
