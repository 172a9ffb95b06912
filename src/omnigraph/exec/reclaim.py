"""Tables whose past a branch gave up -> their older versions removed, but for those that another branch still shows.

What is to be removed is written in the graph itself (`TableRow.floor`), by the commit that gave it up. So removing may stop
anywhere, and whoever comes again, however often, goes on from what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.publish import LOCK_SECONDS
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.registry import list_branches, withdraw_all
from omnigraph.store.reclaim import remove_versions, versions_below
from omnigraph.store.tables import TableRef, Tables


def reclaim(manifest: Manifest, tables: Tables, branch: BranchName, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Remove what `branch` has given up and nobody else shows. Alone in the graph, so that no branch is made from it meanwhile.

    Only tables the branch owns: of one it inherits, the versions are its parent's.
    """
    if not any(row.floor for row in manifest.look(branch)[2].tables.values()):
        return
    with Locks.of(manifest.root.objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        withdraw_all(manifest.root.objects)  # whoever was about to make a branch may have looked before these versions were given up
        found, _, state = manifest.look(branch)
        shown = frozenset(_shown(manifest))
        for row in state.tables.values():
            if row.floor and row.owner == found.native:
                table = tables.open(row.ref)
                spent = [version for version in versions_below(table, row.floor) if row.ref.at(version) not in shown]
                reach(Fault.RECLAIM_BEFORE)
                grant.check()  # what was given up and is not shown will not be shown again; but who lost its lock removes nothing
                remove_versions(table, spent)
                tables.forget(row.ref.at(version) for version in spent)
                reach(Fault.RECLAIM_AFTER)


def _shown(manifest: Manifest) -> Iterator[TableRef]:
    """What every branch shows now, and what it was made with: the first commits on it still show that."""
    for name in (MAIN, *list_branches(manifest.root.objects)):
        branch, _, state = manifest.look(name)
        states = [state] if branch.parent is None else [state, manifest.snapshot(branch.parent, at=branch.forked_at).state]
        yield from (row.ref for each in states for row in each.tables.values() if not row.dropped)
