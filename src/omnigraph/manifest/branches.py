"""A manifest and a name -> a branch created or deleted, under the exclusive lock, in one atomic step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName, new_hex16
from omnigraph.manifest.locks import Grant, Locks
from omnigraph.manifest.model import State, now
from omnigraph.manifest.publish import LOCK_SECONDS
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.manifest.registry import (
    DIRECTORY,
    PRIVATE,
    Branch,
    VersionedBranch,
    all_branches,
    check_free,
    check_name,
    existing_name,
    find_branch,
    is_private,
    list_branches,
    read_branch,
    read_versioned,
    remove,
    reserve,
    settle,
    touch,
    withdraw,
)
from omnigraph.manifest.tagging import tagged_states
from omnigraph.manifest.tags import living_tags, read_tag, withdraw_all
from omnigraph.store.bases import home
from omnigraph.store.durable import sync_directory
from omnigraph.store.ledger import Ledger
from omnigraph.store.refs import create_ref, delete_ref, fresh_ref
from omnigraph.store.tables import Table, table_at_head

log = logging.getLogger(__name__)


def create_branch(
    manifest: Manifest,
    name: str,
    *,
    from_: BranchName = MAIN,
    at: str | int | datetime | None = None,
    timeout_seconds: float = LOCK_SECONDS,
) -> Branch:
    """Create a branch that shows what `from_` shows now, or what a commit of any branch or a version or time of `from_` showed.

    Copies no data, writes no commit, and changes no table (B-01).
    """
    return _create(manifest, check_name(name), from_, at, timeout_seconds)


def new_private_name() -> BranchName:
    """Return a new name for the private branch of a transaction."""
    return BranchName(PRIVATE + new_hex16())


def create_private_branch(manifest: Manifest, name: BranchName, *, from_: BranchName, timeout_seconds: float = LOCK_SECONDS) -> Branch:
    """Create a branch that only its creator uses, for a transaction on `from_`.

    The creator holds `Locks.own` of the name, from before this call until the transaction ends: without it the branch is abandoned.
    """
    return _create(manifest, name, from_, None, timeout_seconds)


def abandon_private_branch(manifest: Manifest, name: BranchName, grant: Grant) -> None:
    """Make a private branch invisible whose owner has ended, under the exclusive lock. Nothing shows its files from then on."""
    if (seen := read_versioned(manifest.root.objects, name)) is not None:
        grant.check()
        _remove(manifest, seen)
        sync_directory(manifest.root, DIRECTORY)
    grant.check()
    Locks.of(manifest.root.objects).forget(name)
    manifest.forget(name)


def _create(manifest: Manifest, wanted: BranchName, from_: BranchName, at: str | int | datetime | None, timeout_seconds: float) -> Branch:
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        check_free(wanted, list_branches(objects))
        if read_tag(objects, wanted) is not None:
            raise ConflictError(Kind.TAG_EXISTS, f"there is a tag {wanted!r}; a branch needs another name", tag=wanted)
        reservation = reserve(objects, wanted)
        if reservation is None:
            raise _branch_exists(wanted)
        try:
            return _make(manifest, wanted, from_, at, reservation, grant)
        except OmniGraphError:
            withdraw(objects, wanted, reservation)
            raise


def _make(
    manifest: Manifest, name: BranchName, from_: BranchName, at: str | int | datetime | None, reservation: str, grant: Grant
) -> Branch:
    """Turn a reserved name into a branch. The parent is read after the reservation, from which on nothing that it shows is removed."""
    objects = manifest.root.objects
    parent, ledger, state = manifest.look(from_) if at is None else manifest.past(from_, at)
    branch = Branch(name, fresh_ref(name), parent.name, parent.native, ledger.version, now())
    reach(Fault.BRANCH_BEFORE_CREATE)
    grant.check()
    create_ref(ledger.as_table(), str(branch.native))
    reach(Fault.BRANCH_AFTER_CREATE)
    try:
        grant.check()
        Locks.of(objects).begin(name, epoch=state.head.epoch)  # its lease must not start below the epoch that its head inherits
        if not touch(objects, parent) or not settle(objects, branch, reservation):
            grant.check()
            raise _branch_replaced(parent.name)  # by a process that does not take the lock
    except OmniGraphError as error:
        if _surely_not_settled(error):
            _clean_up(grant, [partial(_drop, ledger.as_table(), str(branch.native))])
        raise
    return branch


def _surely_not_settled(error: OmniGraphError) -> bool:
    return not isinstance(error, StorageError) or error.outcome is Outcome.DID_NOT_HAPPEN


def delete_branch(manifest: Manifest, name: str, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Delete a branch. It is deleted as soon as its object says so; its files are removed afterwards.

    Files that cannot be removed cost space only, and the next `cleanup` removes them (RT-60).
    """
    if name == MAIN:
        raise InvalidInput(Kind.INVALID_BRANCH_NAME, "the branch 'main' cannot be deleted", branch=name)
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        seen = read_versioned(objects, existing_name(name))
        if seen is None:
            find_branch(objects, name)  # raises that it does not exist
            raise _branch_replaced(name)
        branch = seen.branch
        withdraw_all(objects)
        below = [other for other in _others(manifest, branch) if other.parent_native == branch.native]
        if children := sorted(other.name for other in below if not is_private(other.name)):
            raise ConflictError(
                Kind.BRANCH_HAS_CHILDREN,
                f"branch {name!r} has child branches; delete them first: {', '.join(children)}",
                branch=name,
                children=children,
            )
        if tags := [tag.name for tag in living_tags(objects) if tag.native == branch.native]:
            raise ConflictError(
                Kind.BRANCH_HAS_TAGS,
                f"branch {name!r} has tags that name its commits; delete them first: {', '.join(tags)}",
                branch=name,
                tags=tags,
            )
        for private in below:  # the transactions on this branch, open or dead: there will be no branch that they could change
            if (child := read_versioned(objects, private.name)) is not None:
                _delete(manifest, child, grant)
        _delete(manifest, seen, grant)


def _delete(manifest: Manifest, seen: VersionedBranch, grant: Grant) -> None:
    branch = seen.branch
    _, ledger, state = manifest.look(branch.name)
    reach(Fault.BRANCH_BEFORE_DELETE)
    grant.check()
    _remove(manifest, seen)
    sync_directory(manifest.root, DIRECTORY)  # otherwise a power cut could restore the branch after its files are removed
    reach(Fault.BRANCH_AFTER_DELETE)
    _clean_up(grant, _leftovers(manifest, branch, ledger, state))


def _remove(manifest: Manifest, seen: VersionedBranch) -> None:
    """Remove exactly the branch that was read. If the outcome of the request is unknown, the object is read again (B-19)."""
    objects, name = manifest.root.objects, seen.branch.name
    try:
        removed = remove(objects, seen)
    except StorageError as error:
        left = read_branch(objects, name)
        if left is not None and left == seen.branch:
            raise
        if objects.is_local and error.outcome is Outcome.UNKNOWN:
            raise  # a flush failed: the branch is not visible, and a power cut could restore it
        removed = left is None
    if not removed:
        raise _branch_replaced(name)


def _others(manifest: Manifest, branch: Branch) -> list[Branch]:
    """Return all branches other than main and this one, as they are now."""
    objects = manifest.root.objects
    return [found for other in all_branches(objects) if other != branch.name and (found := read_branch(objects, other)) is not None]


def _leftovers(manifest: Manifest, branch: Branch, ledger: Ledger, state: State) -> Iterator[Callable[[], None]]:
    """Yield the steps that remove the files of a deleted branch. The other branches are read now: they may have changed since."""
    yield partial(_drop, ledger.as_table(), str(branch.native))
    shown = [*(manifest.look(other.name)[2] for other in [Branch.main(), *_others(manifest, branch)]), *tagged_states(manifest)]
    for fork in _unshared_forks(manifest, branch, state, shown):
        yield partial(_drop, fork, str(fork.ref.branch))
    for path in _unshared_births(branch, state, shown):
        yield partial(_drop_table, manifest, path)
    yield partial(Locks.of(manifest.root.objects).forget, branch.name)


def _clean_up(grant: Grant, steps: Iterable[Callable[[], None]]) -> None:
    """Run steps that remove files while this process holds the lock. If the lock is lost, the other files stay and cost space only."""
    try:
        for step in steps:
            reach(Fault.BRANCH_BEFORE_DROP)
            grant.check()
            step()
    except OmniGraphError as error:
        log.info("some files of a branch were not removed; they cost space only, and cleanup removes them: %s", error)


def _unshared_forks(manifest: Manifest, branch: Branch, state: State, shown: list[State]) -> Iterator[Table]:
    """Yield the native branches that a deleted branch created and that no live branch shows."""
    shared = {needed for other in shown for row in other.tables.values() for needed in row.homes}
    for row in state.tables.values():
        own = [row.native] if row.native is not None and row.owner == branch.native else []
        for native in (*own, *row.former):
            if home(row.path, native) not in shared:
                try:
                    yield table_at_head(manifest.root, row.path, branch=native)
                except OmniGraphError as error:
                    log.info("native branch %s of a deleted branch was not removed; it costs space only: %s", native, error)


def _unshared_births(branch: Branch, state: State, shown: list[State]) -> list[str]:
    """Return the tables of types that were added on a deleted branch and that no live branch shows or is forked from."""
    shared = {row.path for other in shown for row in other.tables.values()}
    born = [row.path for row in state.tables.values() if row.native is None and row.owner == branch.native]
    return [path for path in born if path not in shared]


def _branch_exists(name: BranchName) -> ConflictError:
    return ConflictError(Kind.BRANCH_EXISTS, f"branch {name!r} already exists", branch=name)


def _branch_replaced(name: str) -> ConflictError:
    return ConflictError(
        Kind.BRANCH_REPLACED,
        f"branch {name!r} was created again, or got a child branch, during this operation; list the branches and retry",
        branch=name,
    )


def _drop_table(manifest: Manifest, path: str) -> None:
    try:
        manifest.root.objects.delete_prefix(path)
    except OmniGraphError as error:
        log.info("table %s of a deleted branch was not removed; it costs space only: %s", path, error)


def _drop(table: Table, native: str) -> None:
    """Remove a native branch that is no longer visible. A failure costs space, not correctness."""
    try:
        delete_ref(table.root, table.ref.path, native)
    except OmniGraphError as error:
        log.info("native branch %s of %s was not removed; it costs space only: %s", native, PATH, error)
