"""A graph and a retention policy -> old versions, unused native branches and left-over files removed, or a preview of that.

What is needed is decided first, for the whole graph, under the exclusive lock; if anything cannot be decided, nothing is removed. Then, in
this order:

    1 transactions   the private branches of processes that have ended
    2 history        `__manifest` forgets old commits: its floor is raised, stalled publishes are fenced off, its versions are removed
    3 forks          native branches and tables that nothing shows any more, children before parents
    4 tables         versions of each table, and files that no version names and that are a week old

So a commit is forgotten before its data is removed: a commit that can be opened can be read completely. After step 2 no branch or tag
can be made of a forgotten commit, so what was spent remains spent. Steps 2 and 3 run under one exclusive lock. Each table has a lock of
its own, so that writers wait for one table at most, and what every branch shows is read again under it (B-26, B-27). A step that was
interrupted is finished by the next cleanup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError
from omnigraph.exec.engine import Engine
from omnigraph.faults import Fault, reach
from omnigraph.grid import counted
from omnigraph.ids import BranchName
from omnigraph.manifest.branches import abandon_private_branch
from omnigraph.manifest.intents import DIRECTORY as INTENTS
from omnigraph.manifest.locks import Grant, Locks
from omnigraph.manifest.model import TableRow, now
from omnigraph.manifest.publish import LOCK_SECONDS, fence_off_publishes
from omnigraph.manifest.read import PATH
from omnigraph.manifest.registry import DIRECTORY as BRANCHES
from omnigraph.manifest.registry import all_branches, is_private
from omnigraph.manifest.retention import BranchLine, Needs, Policy, needs, refuse_abandoned, refuse_pending, still_shown
from omnigraph.manifest.tags import DIRECTORY as TAGS
from omnigraph.manifest.tags import withdraw_all
from omnigraph.store.bases import home
from omnigraph.store.floor import raise_floor
from omnigraph.store.reclaim import Removal, aged_lines, existing_versions, leftovers, remove_leftovers, spent_versions, sweep
from omnigraph.store.refs import delete_ref, native_refs, origins, parent_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, table_at_head

log = logging.getLogger(__name__)

_TABLES: Final = ("nodes", "edges")


class TableCleanup(msgspec.Struct, frozen=True):
    """What was removed from one table, or would be. `error`: why not all of it was; the next cleanup tries again."""

    table: str
    """The name of the table, such as `node:Person`; its path if no branch shows it; `__manifest` for the history."""
    versions: int
    size_bytes: int
    error: str | None = None


class Cleanup(msgspec.Struct, frozen=True):
    """The result of a cleanup. With `dry_run`, what it would remove."""

    dry_run: bool
    tables: tuple[TableCleanup, ...]
    forks: tuple[str, ...] = ()
    """The directories of native branches that nothing shows."""
    transactions: tuple[str, ...] = ()
    """The private branches of transactions whose processes have ended."""

    def __repr__(self) -> str:
        removed = "would remove" if self.dry_run else "removed"
        return f"Cleanup({removed} {counted(self.versions, 'version')}, {counted(self.size_bytes, 'byte')})"

    @property
    def versions(self) -> int:
        return sum(table.versions for table in self.tables)

    @property
    def size_bytes(self) -> int:
        return sum(table.size_bytes for table in self.tables)


class CleanupProgress(msgspec.Struct, frozen=True):
    """One table is about to be cleaned: number `at` of `of`."""

    table: str
    at: int
    of: int


OnCleanupProgress = Callable[[CleanupProgress], None]


def cleanup(
    engine: Engine,
    *,
    keep: int | None,
    older_than: timedelta | None,
    dry_run: bool = False,
    on_progress: OnCleanupProgress | None = None,
    timeout_seconds: float = LOCK_SECONDS,
) -> Cleanup:
    """Remove what the policy does not keep and nothing needs. A dry run takes no lock and removes nothing."""
    policy = _policy(keep, older_than)
    run = _Preview(engine) if dry_run else _Removal(engine, timeout_seconds)
    return run.clean(policy, on_progress or (lambda _: None))


def _policy(keep: int | None, older_than: timedelta | None) -> Policy:
    if keep is None and older_than is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "cleanup needs a policy: `keep`, a number of commits, or `older_than`, an age, or both")
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"keep must be one or more, not {keep!r}: the newest commit is always kept", keep=keep)
    if older_than is not None and (not isinstance(older_than, timedelta) or older_than < timedelta(0)):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"older_than must be a timedelta of zero or more, not {older_than!r}")
    return Policy(keep, None if older_than is None else _ago(older_than))


def _ago(age: timedelta) -> datetime:
    try:
        return now() - age
    except OverflowError:  # before the first year: every commit is younger
        return datetime.min.replace(tzinfo=UTC)


class _LineSweep(msgspec.Struct, frozen=True):
    """One native branch of a table, and its versions that nothing needs."""

    native: str | None
    spent: tuple[int, ...]


class _TableSweep(msgspec.Struct, frozen=True):
    """One table. `unused` are native branches that nothing shows, children before parents. Without `lines` nothing shows the table."""

    path: str
    name: str
    lines: tuple[_LineSweep, ...]
    unused: tuple[str, ...]


class _Preview:
    """Each step, without its effects. `_Removal` adds them."""

    dry_run = True

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._manifest: Final = engine.manifest
        self._root: Final = engine.root

    def clean(self, policy: Policy, on_progress: OnCleanupProgress) -> Cleanup:
        abandoned = self._abandoned()
        with self._gate() as grant:
            for name in abandoned:
                self._abandon(name, grant)
            needed = needs(self._manifest, policy, without=abandoned)
            self._refuse_drift(needed.lines)
            plans = list(_plans(self._root, needed))
            self._discard_staged(needed.lines)
            unused = _unused(self._root, PATH, {str(line.branch.native) for line in needed.lines if line.branch.native is not None})
            done = {PATH: Removal()}
            for fork in unused:
                done[PATH] = done[PATH].plus(self._remove_fork(PATH, fork, grant))
            made_from = origins(self._root, PATH, without=unused)
            for line in needed.lines:
                done[PATH] = done[PATH].plus(self._forget_commits(line, needed, made_from, grant))
            for plan in plans:
                done[plan.path] = self._remove_unused(plan, grant)
        errors: dict[str, str] = {}
        tables = [plan for plan in plans if plan.lines]
        for at, plan in enumerate(tables, start=1):
            on_progress(CleanupProgress(plan.name, at, len(tables)))
            try:
                with self._gate() as grant:
                    done[plan.path] = done[plan.path].plus(self._remove_versions(plan, grant))
            except OmniGraphError as error:  # the others go on (F-11)
                errors[plan.path] = error.message
        names = {PATH: PATH, **{plan.path: plan.name for plan in plans}}
        rows = (TableCleanup(names[path], removed.versions, removed.size_bytes, errors.get(path)) for path, removed in done.items())
        forks = [home(path, fork) for path, forks in ((PATH, unused), *((plan.path, plan.unused) for plan in plans)) for fork in forks]
        return Cleanup(self.dry_run, tuple(sorted(rows, key=lambda row: row.table)), tuple(forks), tuple(abandoned))

    @contextmanager
    def _gate(self) -> Iterator[Grant]:
        refuse_abandoned(self._manifest)
        yield Grant()

    def _refuse_drift(self, lines: Iterable[BranchLine]) -> None:
        """A table is also ahead of its branch while a writer is between its commit and its publication."""
        ahead = list(_drifted(self._root, lines))
        if ahead:
            refuse_abandoned(self._manifest)  # waits for the writers
            for line, row, newest in ahead:
                _, _, state = self._manifest.look(line.branch.name)
                now_shown = state.tables.get(row.id, row)
                if (now_shown.owner, now_shown.dropped) == (row.owner, False) and now_shown.version < newest:
                    raise _drift(line, now_shown, newest)

    # -- the steps

    def _abandoned(self) -> list[BranchName]:
        """The private branches of transactions whose processes have ended. That does not change any more, so it needs no lock."""
        private = [name for name in all_branches(self._root.objects) if is_private(name)]
        return Locks.of(self._root.objects).ownerless(private) if private else []

    def _abandon(self, name: BranchName, grant: Grant) -> None:
        """Give up a private branch. The following steps remove its files."""

    def _discard_staged(self, lines: Iterable[BranchLine]) -> None:
        """Remove what killed processes had staged of intents, branches, tags and floors. No listing shows it."""

    def _forget_commits(self, line: BranchLine, needed: Needs, forks: Mapping[str | None, set[int]], grant: Grant) -> Removal:
        native = line.branch.native
        pinned = needed.manifests.get(native, frozenset()) | forks.get(native, set())
        spent = spent_versions(self._root, PATH, branch=native, below=line.floor, needed=pinned)
        return self._remove_history(line, spent, grant) if spent else Removal()

    def _remove_history(self, line: BranchLine, spent: list[int], grant: Grant) -> Removal:
        return sweep(line.ledger.as_table(), spent, preview=True)

    def _remove_unused(self, plan: _TableSweep, grant: Grant) -> Removal:
        """Remove the native branches of a table that nothing shows, or the table."""
        if not plan.lines:
            return self._remove_table(plan.path, grant)
        removed = Removal()
        for fork in plan.unused:
            removed = removed.plus(self._remove_fork(plan.path, fork, grant))
        return removed

    def _remove_fork(self, path: str, fork: str, grant: Grant) -> Removal:
        return Removal(len(existing_versions(self._root, path, branch=fork)), self._size(home(path, fork)))

    def _remove_table(self, path: str, grant: Grant) -> Removal:
        return Removal(len(existing_versions(self._root, path, branch=None)), self._size(path))

    def _remove_versions(self, plan: _TableSweep, grant: Grant) -> Removal:
        removed = Removal()
        for line in self._with_work(plan):
            removed = removed.plus(sweep(table_at_head(self._root, plan.path, branch=line.native), line.spent, preview=True))
        return removed.plus(self._remove_leftovers(plan.path, leftovers(self._root, plan.path, at=now()), grant))

    def _with_work(self, plan: _TableSweep) -> list[_LineSweep]:
        """The lines with spent versions, or with old files, among which may be some that no version names.

        A line, or the table, may be gone: its branch may have been deleted after the plan was made.
        """
        aged = aged_lines(self._root, plan.path, at=now())
        lines = (line for line in plan.lines if line.spent or line.native in aged)
        return [line for line in lines if existing_versions(self._root, plan.path, branch=line.native)]

    def _remove_leftovers(self, path: str, found: Mapping[str, int], grant: Grant) -> Removal:
        return Removal(0, sum(found.values()))

    def _size(self, directory: str) -> int:
        return sum(self._root.objects.sizes(directory).values())


class _Removal(_Preview):
    """Each step with its effects."""

    dry_run = False

    def __init__(self, engine: Engine, timeout_seconds: float) -> None:
        super().__init__(engine)
        self._timeout_seconds: Final = timeout_seconds

    @contextmanager
    def _gate(self) -> Iterator[Grant]:
        objects = self._root.objects
        reach(Fault.CLEANUP_BEFORE_LOCK)
        with Locks.of(objects).exclusive(timeout_seconds=self._timeout_seconds) as grant:
            withdraw_all(objects)  # a creator of a branch or a tag may be paused, with a state in hand that is about to go
            refuse_pending(self._manifest)
            yield grant

    def _refuse_drift(self, lines: Iterable[BranchLine]) -> None:
        for drift in _drifted(self._root, lines):  # no writer is at work under the exclusive lock
            raise _drift(*drift)

    def _abandon(self, name: BranchName, grant: Grant) -> None:
        reach(Fault.CLEANUP_BEFORE_TRANSACTION)
        abandon_private_branch(self._manifest, name, grant)
        reach(Fault.CLEANUP_AFTER_TRANSACTION)

    def _discard_staged(self, lines: Iterable[BranchLine]) -> None:
        for directory in (INTENTS, BRANCHES, TAGS, *(line.ledger.ref.home for line in lines)):
            self._root.objects.discard_staged(directory)

    def _remove_history(self, line: BranchLine, spent: list[int], grant: Grant) -> Removal:
        branch = line.branch
        grant.check()
        raise_floor(self._root.objects, PATH, branch=branch.native, version=line.floor)
        reach(Fault.CLEANUP_AFTER_FLOOR)
        grant.check()
        fence_off_publishes(self._manifest, branch.name)
        reach(Fault.CLEANUP_AFTER_FENCE)
        grant.check()
        _, ledger, _ = self._manifest.look(branch.name)
        removed = sweep(ledger.as_table(), spent, preview=False)
        reach(Fault.CLEANUP_AFTER_HISTORY)
        return removed

    def _remove_fork(self, path: str, fork: str, grant: Grant) -> Removal:
        removed = super()._remove_fork(path, fork, grant)
        reach(Fault.CLEANUP_BEFORE_FORK)
        grant.check()
        delete_ref(self._root, path, fork)
        reach(Fault.CLEANUP_AFTER_FORK)
        return removed

    def _remove_table(self, path: str, grant: Grant) -> Removal:
        removed = super()._remove_table(path, grant)
        reach(Fault.CLEANUP_BEFORE_FORK)
        grant.check()
        self._root.objects.delete_prefix(path)
        reach(Fault.CLEANUP_AFTER_FORK)
        return removed

    def _remove_versions(self, plan: _TableSweep, grant: Grant) -> Removal:
        lines = self._with_work(plan)
        shown = still_shown(self._manifest) if lines else frozenset()
        removed = Removal()
        for line in lines:
            spent = [version for version in line.spent if TableRef(plan.path, line.native, version) not in shown]
            reach(Fault.CLEANUP_BEFORE_TABLE)
            grant.check()
            removed = removed.plus(sweep(table_at_head(self._root, plan.path, branch=line.native), spent, preview=False))
            self._engine.tables.forget(TableRef(plan.path, line.native, version) for version in spent)
            reach(Fault.CLEANUP_AFTER_TABLE)
        return removed.plus(self._remove_leftovers(plan.path, leftovers(self._root, plan.path, at=now()), grant))

    def _remove_leftovers(self, path: str, found: Mapping[str, int], grant: Grant) -> Removal:
        grant.check()
        remove_leftovers(self._root, path, found)
        return super()._remove_leftovers(path, found, grant)


# -- planning


def _drifted(root: Root, lines: Iterable[BranchLine]) -> Iterator[tuple[BranchLine, TableRow, int]]:
    """The tables whose newest version is not the one that its branch shows: it is not known who needs it (O-14)."""
    for line in lines:
        for row in line.state.tables.values():
            if row.dropped or row.owner != line.branch.native:
                continue
            newest = max(existing_versions(root, row.path, branch=row.native), default=0)
            if newest != row.version:
                yield line, row, newest


def _drift(line: BranchLine, row: TableRow, newest: int) -> StorageError:
    return StorageError(
        Kind.DRIFT,
        f"{row.alias} on branch {line.branch.name!r} is at version {newest}, but the graph shows version {row.version}: "
        "another program committed to it directly. Nothing was removed. Check the graph with `omnigraph verify`",
        table=row.path,
        expected=row.version,
        actual=newest,
    )


def _plans(root: Root, needed: Needs) -> Iterator[_TableSweep]:
    names = {row.path: row.alias for line in reversed(needed.lines) for row in line.state.tables.values()}
    needed_of: dict[str, list[TableRef]] = {}
    for ref in needed.tables:
        needed_of.setdefault(ref.path, []).append(ref)
    for path in sorted(entry.rstrip("/") for kind in _TABLES for entry in root.objects.list(kind)):
        if path not in needed_of:
            yield _TableSweep(path, names.get(path, path), (), ())
            continue
        unused = _unused(root, path, {ref.branch for ref in needed_of[path] if ref.branch is not None})
        natives = [None, *(native for native in native_refs(root, path) if native not in unused)]
        keep = origins(root, path, without=unused)
        for ref in needed_of[path]:
            keep.setdefault(ref.branch, set()).add(ref.version)
        spent = ((native, spent_versions(root, path, branch=native, below=None, needed=keep.get(native, set()))) for native in natives)
        yield _TableSweep(path, names.get(path, path), tuple(_LineSweep(native, tuple(versions)) for native, versions in spent), unused)


def _unused(root: Root, path: str, used: set[str]) -> tuple[str, ...]:
    """The native branches of a table that are not used, and that no used one was made from; children before parents (B-28)."""
    parents = {name: parent_ref(root, path, name) for name in native_refs(root, path)}
    kept = {ancestor for name in used for ancestor in _line_of(parents, name)}
    free = [name for name in parents if name not in kept]
    return tuple(sorted(free, key=lambda name: (-len(list(_line_of(parents, name))), name)))


def _line_of(parents: dict[str, str | None], name: str | None) -> Iterator[str]:
    """A native branch and those that it comes from."""
    while name is not None:
        yield name
        name = parents.get(name)
