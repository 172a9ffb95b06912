"""A manifest and a name -> a branch made or removed, under the exclusive lock; each in one visible step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.locks import Grant, Locks
from omnigraph.manifest.model import State, now
from omnigraph.manifest.publish import LOCK_SECONDS, set_home
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.manifest.registry import (
    FOLDER,
    Branch,
    VersionedBranch,
    check_free,
    check_name,
    find_branch,
    list_branches,
    read_branch,
    read_versioned,
    remove,
    reserve,
    settle,
    touch,
    withdraw,
    withdraw_all,
)
from omnigraph.store.durable import sync_folder
from omnigraph.store.ledger import Ledger
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
        reservation = reserve(objects, wanted)
        if reservation is None:
            raise _branch_exists(wanted)
        try:
            return _make(manifest, wanted, from_, reservation, grant)
        except OmniGraphError:
            withdraw(objects, wanted, reservation)
            raise


def _make(manifest: Manifest, name: BranchName, from_: BranchName, reservation: str, grant: Grant) -> Branch:
    """From a reserved name to a branch. What the parent shows is looked at only now: nobody removes any of it from here on."""
    objects = manifest.root.objects
    parent, ledger, state = manifest.look(from_)
    branch = Branch(name, fresh_ref(name), parent.name, parent.native, ledger.version, now())
    reach(Fault.BRANCH_BEFORE_CREATE)
    grant.check()
    create_ref(ledger.as_table(), str(branch.native))
    reach(Fault.BRANCH_AFTER_CREATE)
    try:
        grant.check()
        Locks.of(objects).begin(name, epoch=state.head.epoch)  # its lease must not start below the epoch its head inherits
        if not touch(objects, parent) or not settle(objects, branch, reservation):
            grant.check()
            raise _branch_replaced(parent.name)  # by somebody who minds no lock
    except OmniGraphError as error:
        if _surely_not_settled(error):
            _clean_up(grant, [partial(_drop, ledger.as_table(), str(branch.native))])
        raise
    return branch


def _surely_not_settled(error: OmniGraphError) -> bool:
    return not isinstance(error, StorageError) or error.outcome is Outcome.DID_NOT_HAPPEN


def delete_branch(manifest: Manifest, name: str, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Remove a branch. Gone the moment its object says so; its files follow, and what resists is left to `cleanup` (RT-60)."""
    if name == MAIN:
        raise InvalidInput(Kind.INVALID_BRANCH_NAME, "the branch 'main' cannot be deleted", branch=name)
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        seen = read_versioned(objects, check_name(name))
        if seen is None:
            find_branch(objects, name)  # says that it is not there
            raise _branch_replaced(name)
        branch = seen.branch
        withdraw_all(objects)
        if children := sorted(other.name for other in _others(manifest, branch) if other.parent_native == branch.native):
            raise ConflictError(
                Kind.BRANCH_HAS_CHILDREN,
                f"branch {name!r} cannot be deleted before the branches made from it: {', '.join(children)}",
                branch=name,
                children=children,
            )
        _, ledger, state = manifest.look(branch.name)
        reach(Fault.BRANCH_BEFORE_DELETE)
        grant.check()
        _remove(manifest, seen)
        sync_folder(manifest.root, FOLDER)  # else a power cut could bring the branch back after its files are gone
        reach(Fault.BRANCH_AFTER_DELETE)
        _clean_up(grant, _leftovers(manifest, branch, ledger, state))


def _remove(manifest: Manifest, seen: VersionedBranch) -> None:
    """The visible step: of exactly the branch that was seen. An unclear answer is settled by looking again (B-19)."""
    objects, name = manifest.root.objects, seen.branch.name
    try:
        removed = remove(objects, seen)
    except StorageError as error:
        left = read_branch(objects, name)
        if left is not None and left == seen.branch:
            raise
        if objects.is_local and error.outcome is Outcome.UNKNOWN:
            raise  # a flush failed: the branch is out of sight, and a power cut could bring it back
        removed = left is None
    if not removed:
        raise _branch_replaced(name)


def _others(manifest: Manifest, branch: Branch) -> list[Branch]:
    """All branches but main and this one, as they are now."""
    objects = manifest.root.objects
    return [found for other in list_branches(objects) if other != branch.name and (found := read_branch(objects, other)) is not None]


def _leftovers(manifest: Manifest, branch: Branch, ledger: Ledger, state: State) -> Iterator[Callable[[], None]]:
    """What a branch that is gone leaves behind, as steps that remove it. Who else shows any of it is looked at now, not before."""
    yield partial(_drop, ledger.as_table(), str(branch.native))
    shown = [manifest.look(other.name)[2] for other in [Branch.main(), *_others(manifest, branch)]]
    for fork in _unshared_forks(manifest, branch, state, shown):
        yield partial(_drop, fork, str(fork.ref.branch))
    for path in _unshared_births(branch, state, shown):
        yield partial(_drop_table, manifest, path)
    yield partial(Locks.of(manifest.root.objects).forget, branch.name)


def _clean_up(grant: Grant, steps: Iterable[Callable[[], None]]) -> None:
    """Destroy step by step, as long as the lock is ours. Whoever slept too long stops: the rest is for `cleanup`, under a fresh lock."""
    try:
        for step in steps:
            reach(Fault.BRANCH_BEFORE_DROP)
            grant.check()
            step()
    except OmniGraphError as error:
        log.info("what is left of a branch is left to cleanup: %s", error)


def _unshared_forks(manifest: Manifest, branch: Branch, state: State, shown: list[State]) -> Iterator[Table]:
    """The native forks that a deleted branch made and that no living branch shows."""
    shared = {row.ref.home for other in shown for row in other.tables.values()}
    for row in state.tables.values():
        if row.native is not None and row.owner == branch.native and row.ref.home not in shared:
            try:
                yield table_at_head(manifest.root, row.path, branch=row.native)
            except OmniGraphError as error:
                log.info("fork %s of a deleted branch is left to cleanup: %s", row.ref.home, error)


def _unshared_births(branch: Branch, state: State, shown: list[State]) -> list[str]:
    """The tables of types that were added on a deleted branch, and that no living branch shows or was forked from."""
    shared = {row.path for other in shown for row in other.tables.values()}
    born = [row.path for row in state.tables.values() if row.native is None and row.owner == branch.native]
    return [path for path in born if path not in shared]


def _branch_exists(name: BranchName) -> ConflictError:
    return ConflictError(Kind.BRANCH_EXISTS, f"there is a branch {name!r} already", branch=name)


def _branch_replaced(name: str) -> ConflictError:
    return ConflictError(
        Kind.BRANCH_REPLACED, f"branch {name!r} was made again, or others were made from it, meanwhile; look again", branch=name
    )


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
