"""A manifest and a name -> a branch made or removed, under the exclusive lock; each in one visible step."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import State, now
from omnigraph.manifest.publish import LOCK_SECONDS, set_home
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.manifest.registry import FOLDER, Branch, check_free, check_name, claim, find_branch, list_branches, object_of, read_branch
from omnigraph.store.durable import sync_folder
from omnigraph.store.refs import create_ref, delete_ref, fresh_ref
from omnigraph.store.tables import Table, table_at_head

log = logging.getLogger(__name__)


def create_branch(manifest: Manifest, name: str, *, from_: BranchName = MAIN, timeout_seconds: float = LOCK_SECONDS) -> Branch:
    """Make a branch that sees exactly what `from_` sees now. Copies nothing, writes no commit, moves no table (B-01)."""
    wanted = check_name(name)
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        live = list_branches(objects)
        check_free(wanted, live)
        if not live and manifest.look(MAIN)[2].head.home != manifest.root.uri:
            set_home(manifest)  # the graph was moved while it had only main; from now on its place is here
        parent, ledger, state = manifest.look(from_)
        branch = Branch(wanted, fresh_ref(wanted), parent.name, parent.native, ledger.version, now())
        reach(Fault.BRANCH_BEFORE_CREATE)
        create_ref(ledger.as_table(), str(branch.native))
        reach(Fault.BRANCH_AFTER_CREATE)
        Locks.of(objects).begin(wanted, epoch=state.head.epoch)  # its lease must not start below the epoch its head inherits
        grant.check()
        if not claim(objects, branch):
            _drop(ledger.as_table(), str(branch.native))
            raise ConflictError(Kind.BRANCH_EXISTS, f"there is a branch {name!r} already", branch=name)
        return branch


def delete_branch(manifest: Manifest, name: str, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Remove a branch. Gone the moment its object is; its files follow, and what resists is left to `cleanup` (RT-60)."""
    if name == MAIN:
        raise InvalidInput(Kind.INVALID_BRANCH_NAME, "the branch 'main' cannot be deleted", branch=name)
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        branch = find_branch(objects, name)
        survivors = [found for other in list_branches(objects) if other != name and (found := read_branch(objects, other)) is not None]
        if children := sorted(other.name for other in survivors if other.parent_native == branch.native):
            raise ConflictError(
                Kind.BRANCH_HAS_CHILDREN,
                f"branch {name!r} cannot be deleted before the branches made from it: {', '.join(children)}",
                branch=name,
                children=children,
            )
        _, ledger, state = manifest.look(branch.name)
        grant.check()
        reach(Fault.BRANCH_BEFORE_DELETE)
        _remove(manifest, branch)
        sync_folder(manifest.root, FOLDER)  # else a power cut could bring the branch back after its files are gone
        reach(Fault.BRANCH_AFTER_DELETE)
        _drop(ledger.as_table(), str(branch.native))
        for fork in _unshared_forks(manifest, branch, state, survivors):
            _drop(fork, str(fork.ref.branch))
        for path in _unshared_births(manifest, branch, state, survivors):
            _drop_table(manifest, path)
        Locks.of(objects).forget(branch.name)


def _remove(manifest: Manifest, branch: Branch) -> None:
    """The visible step. An unclear answer is settled by looking again (B-19)."""
    objects = manifest.root.objects
    try:
        objects.delete(object_of(branch.name))
    except StorageError:
        left = read_branch(objects, branch.name)
        if left is None:
            return
        if left == branch:
            raise
        raise ConflictError(
            Kind.BRANCH_REPLACED, f"branch {branch.name!r} was made again while it was deleted; look at the new one", branch=branch.name
        ) from None


def _unshared_forks(manifest: Manifest, branch: Branch, state: State, survivors: list[Branch]) -> Iterator[Table]:
    """The native forks that a deleted branch made and that no living branch shows."""
    shared = {row.ref.home for other in [Branch.main(), *survivors] for row in manifest.look(other.name)[2].tables.values()}
    for row in state.tables.values():
        if row.native is not None and row.owner == branch.native and row.ref.home not in shared:
            try:
                yield table_at_head(manifest.root, row.path, branch=row.native)
            except OmniGraphError as error:
                log.info("fork %s of a deleted branch is left to cleanup: %s", row.ref.home, error)


def _unshared_births(manifest: Manifest, branch: Branch, state: State, survivors: list[Branch]) -> list[str]:
    """The tables of types that were added on a deleted branch, and that no living branch shows or was forked from."""
    shared = {row.path for other in [Branch.main(), *survivors] for row in manifest.look(other.name)[2].tables.values()}
    born = [row.path for row in state.tables.values() if row.native is None and row.owner == branch.native]
    return [path for path in born if path not in shared]


def _drop_table(manifest: Manifest, path: str) -> None:
    try:
        manifest.root.objects.delete_prefix(path)
    except OmniGraphError as error:
        log.info("table %s of a deleted branch is left to cleanup: %s", path, error)


def _drop(table: Table, native: str) -> None:
    """Remove a native branch that nobody sees any more. A failure costs space until `cleanup`, never correctness."""
    try:
        delete_ref(table.root, table.ref.path, native)
    except OmniGraphError as error:
        log.info("native branch %s of %s is left to cleanup: %s", native, PATH, error)
