"""Calls on an open graph -> results of the engine: schema, history and upkeep, beside the statements of `handle`.

The façade checks arguments; it has no algorithms and no loops over rows.

Modules that only some methods need are imported inside them: a process that runs one query skips a third of the modules.
"""

from __future__ import annotations

import os
import platform
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from omnigraph.answers import CommitGraph, Info, LoadReceipt, Mode, Receipt, Recovery, Snapshot, TableState, TransactionReceipt
from omnigraph.arguments import checked, checked_methods
from omnigraph.branches import Branches, Tags
from omnigraph.catalog import Catalog, build_catalog, encode
from omnigraph.embed import Embedder, EmbeddingProvider
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.engine import Engine, check_at
from omnigraph.exec.external_blobs import checked_bases
from omnigraph.exec.problems import with_hint
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.watch import Cancellation
from omnigraph.exec.upkeep.automatic import AutomaticUpkeep
from omnigraph.handle import OWN_CHECKS, Handle, checked_actor, source_text
from omnigraph.ids import MAIN, CommitId, EntityName, new_hex16
from omnigraph.lang import located, parse_schema
from omnigraph.manifest import read
from omnigraph.manifest.birth import create_graph, open_graph
from omnigraph.manifest.lineage import distinct_length, newest_first
from omnigraph.manifest.model import FORMAT, Audit, Commit, CommitKind, SchemaText
from omnigraph.manifest.registry import all_branches, check_name, given_name, list_branches
from omnigraph.manifest.tags import Tag, living_tags
from omnigraph.plan.explain import Explanation
from omnigraph.store.leaving import waited_for, waited_for_methods, waited_for_steps
from omnigraph.store.root import Root, open_root

if TYPE_CHECKING:
    from omnigraph.catalog.evolve import SchemaPlan
    from omnigraph.exec.blobs import Blob
    from omnigraph.exec.history.changes import EntityChange
    from omnigraph.exec.history.conflicts import Conflict
    from omnigraph.exec.history.copy import OnCopyProgress
    from omnigraph.exec.history.entity_log import LogEntry
    from omnigraph.exec.history.merge import RevertResult
    from omnigraph.exec.upkeep.cleanup import Cleanup, OnCleanupProgress
    from omnigraph.exec.upkeep.embeddings import Embeddings, OnEmbeddingProgress
    from omnigraph.exec.upkeep.indices import Indexes, OnIndexProgress
    from omnigraph.exec.upkeep.keeper import Keeper
    from omnigraph.exec.upkeep.optimize import OnOptimizeProgress, Optimized
    from omnigraph.exec.upkeep.repair import RepairReport
    from omnigraph.exec.upkeep.verify import Finding, OnVerifyProgress
    from omnigraph.exec.write.migrate import AppliedSchema
    from omnigraph.feed import Changes
    from omnigraph.transaction import Transaction

__all__ = [
    "Branches",
    "Cancellation",
    "CommitGraph",
    "Explanation",
    "Graph",
    "Info",
    "LoadReceipt",
    "Mode",
    "Receipt",
    "Recovery",
    "Result",
    "Snapshot",
    "TableState",
    "Tag",
    "Tags",
    "TransactionReceipt",
    "init",
    "memory",
    "open_",
]

T = TypeVar("T")

SCHEMA_NAME: Final = "schema.pg"
"""The name that messages use for a text without a name."""
MEMORY: Final = ":memory:"
"""The location of `init` for a graph in memory."""


@waited_for
@partial(checked, but=OWN_CHECKS)
def init(
    uri: str | os.PathLike[str],
    *,
    schema: str,
    actor: str | None = None,
    message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedding: Embedder | EmbeddingProvider | None = None,
    external_blobs: Collection[str] | None = None,
    auto_upkeep: bool = True,
) -> Graph:
    """Create a graph with a schema (`.pg` text) at a location without a graph. The other arguments are as in `open`.

    The location `:memory:` is that of a graph in memory, as of `memory`.
    """
    from omnigraph.exec.write.migrate import new_table

    if uri == MEMORY:
        return memory(
            schema=schema,
            actor=actor,
            message=message,
            embedding=embedding,
            external_blobs=external_blobs,
            auto_upkeep=auto_upkeep,
        )
    by = checked_actor(actor)

    with located(source_text(schema, SCHEMA_NAME)):
        catalog = build_catalog(parse_schema(schema, name=SCHEMA_NAME), mint=new_hex16)
    engine = _engine(embedding, external_blobs, auto_upkeep=auto_upkeep)
    root = open_root(uri, storage_options=storage_options)
    tables = [*map(new_table, catalog.nodes), *map(new_table, catalog.edges)]
    text = SchemaText(schema, encode(catalog).decode())
    return Graph(engine(create_graph(root, schema=text, tables=tables, actor=by, message=message)), mode="rw", actor=by)


@partial(checked, but=OWN_CHECKS)
def memory(
    *,
    schema: str,
    actor: str | None = None,
    message: str | None = None,
    embedding: Embedder | EmbeddingProvider | None = None,
    external_blobs: Collection[str] | None = None,
    auto_upkeep: bool = True,
) -> Graph:
    """Create a graph in memory, for tests and notebooks. The arguments are those of `init`.

    It is a directory in `/dev/shm`, or, where the system has none, among the temporary files. It is removed by `close`, at the end of a
    `with` block, when nothing refers to the graph any more, and when the process ends. A process that is killed leaves it behind.
    """
    from omnigraph.store.temporary import temporary_directory

    made = temporary_directory()
    try:
        graph = init(
            f"{made.path}/graph",
            schema=schema,
            actor=actor,
            message=message,
            embedding=embedding,
            external_blobs=external_blobs,
            auto_upkeep=auto_upkeep,
        )
    except BaseException:
        made.remove()
        raise
    graph.on_close = weakref.finalize(graph.engine.root, made.remove)
    return graph


@waited_for
@partial(checked, but=OWN_CHECKS)
def open_(
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedding: Embedder | EmbeddingProvider | None = None,
    external_blobs: Collection[str] | None = None,
    auto_upkeep: bool = True,
) -> Graph:
    """Open a graph. Mode "r" never writes, not even to recover. Mode "rw" first recovers the writes of dead writers on every branch.

    It does not wait: a branch with an active writer is left as it is. `embedding` is an embedder or the settings of a provider; without it
    the environment is asked when a text is to be embedded. `external_blobs` are the bases from which blobs may be copied into the graph by
    their URIs; without it the environment is asked, and by default there are none. With `auto_upkeep=False`, a write that leaves many small
    fragments does not put them together afterwards.
    """
    if mode not in ("r", "rw"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"mode must be 'r' or 'rw', not {mode!r}", mode=mode)
    if uri == MEMORY:
        what = (
            f"a graph in memory has no location to open; make one with `omnigraph.memory(schema=...)` or `omnigraph.init({MEMORY!r}, ...)`"
        )
        raise InvalidInput(Kind.INVALID_ARGUMENT, what)
    by = checked_actor(actor)
    engine = _engine(embedding, external_blobs, auto_upkeep=auto_upkeep)
    root = open_root(uri, storage_options=storage_options)
    graph = Graph(engine(open_graph(root, writable=mode == "rw")), mode=mode, actor=by)
    if mode == "rw":
        from omnigraph.manifest.recover import heal_dead

        heal_dead(graph.engine.manifest, graph.engine.tables)
    return graph


@waited_for_methods
@checked_methods(but=OWN_CHECKS)
class Graph(Handle):
    """One open graph. Safe to use from many threads. Every read sees the newest commit unless it asks for another."""

    def __init__(self, engine: Engine, *, mode: Mode, actor: str | None) -> None:
        super().__init__(engine, mode=mode, actor=actor)
        self.branches: Final = Branches(self)
        self.tags: Final = Tags(self)

    @cached_property
    def changes(self) -> Changes:
        """The change feed."""
        from omnigraph.feed import Changes

        return Changes(self)

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, {'closed' if self.closed else f'mode={self.mode!r}'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the location of the graph, which is opened there."""
        engine = self.engine
        settings = (engine.root.storage_options, engine.embedding, engine.external_bases, engine.after_write is not None)
        return _reopened, (self.uri, self.mode, self.actor, *settings)

    @property
    def schema(self) -> str:
        """The source text of main's schema."""
        return self.schema_of(MAIN)

    def schema_of(self, branch: str) -> str:
        """Return the source text of a branch's schema."""
        snapshot = self.engine.manifest.snapshot(given_name(branch))
        return self.engine.manifest.schema(snapshot.state.head.schema, branch=snapshot.branch.name).source

    @property
    def catalog(self) -> Catalog:
        """The catalog of main's schema."""
        return self.engine.catalog(self.engine.manifest.snapshot())

    def plan_schema(self, text: str, branch: str = MAIN, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan the change of a branch's schema to `text`. Changes nothing. The plan may contain steps that cannot be applied."""
        from omnigraph.exec.write.migrate import Wanted, evolve

        accepted = self.engine.catalog(self.engine.manifest.snapshot(given_name(branch)))
        return evolve(Wanted(source_text(text, SCHEMA_NAME), allow_data_loss), accepted).plan

    def apply_schema(
        self, text: str, branch: str = MAIN, *, allow_data_loss: bool = False, message: str | None = None, token: str | None = None
    ) -> AppliedSchema:
        """Make `text` the schema of a branch, in one commit. Other branches keep theirs. Dropped data stays readable at older
        commits. With `allow_data_loss` the history of dropped tables is removed, except for what another branch shows. A retry with the
        same `token` returns the first result.
        """
        from omnigraph.exec.write.migrate import Wanted, apply

        self.require_writable()
        wanted = Wanted(source_text(text, SCHEMA_NAME), allow_data_loss)
        return apply(self.engine, wanted, branch=given_name(branch), actor=self.actor, message=message, token=token)

    def ensure_indices(
        self, branch: str = MAIN, *, message: str | None = None, token: str | None = None, on_progress: OnIndexProgress | None = None
    ) -> Indexes:
        """Build, in one commit, every index that the schema declares and the tables lack. A second call has nothing to do; with the
        same `token` it returns the commit of the first.
        """
        from omnigraph.exec.upkeep.indices import ensure_indices

        self.require_writable()
        name = given_name(branch)
        return ensure_indices(self.engine, branch=name, actor=self.actor, message=message, token=token, on_progress=on_progress)

    def ensure_embeddings(
        self, branch: str = MAIN, *, message: str | None = None, token: str | None = None, on_progress: OnEmbeddingProgress | None = None
    ) -> Embeddings:
        """Embed, in one commit or, if they are many, in several, the texts of `@embed` properties whose vectors are missing.

        A second call has nothing to do; with the same `token` it returns the last commit of the first.
        """
        from omnigraph.exec.upkeep.embeddings import ensure_embeddings

        self.require_writable()
        name = given_name(branch)
        return ensure_embeddings(self.engine, branch=name, actor=self.actor, message=message, token=token, on_progress=on_progress)

    def optimize(
        self, branch: str = MAIN, *, message: str | None = None, token: str | None = None, on_progress: OnOptimizeProgress | None = None
    ) -> Optimized:
        """Compact the tables of a branch and bring their indexes up to date, in one commit. No answer changes, and nothing is deleted.
        A second call has nothing to do; with the same `token` it returns the commit of the first.
        """
        from omnigraph.exec.upkeep.optimize import optimize

        self.require_writable()
        name = given_name(branch)
        return optimize(self.engine, branch=name, actor=self.actor, message=message, token=token, on_progress=on_progress)

    def keep_tidy(self, branches: Iterable[str] | None = None, *, every_seconds: float = 60.0, after_commits: int = 64) -> Keeper:
        """Return a keeper for a long-lived process: a thread that optimizes branches, all or some, when a table had that many commits.

        It runs in a `with` block, or between `start` and `stop`. It never makes a writer wait, and works for at most a tenth of the time.
        """
        from omnigraph.exec.upkeep.keeper import Keeper

        self.require_writable()
        if isinstance(branches, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"branches takes a list of names, not the text {branches!r}")
        names = None if branches is None else [check_name(branch) for branch in branches]
        graph = weakref.ref(self)

        def engine() -> Engine | None:
            alive = graph()
            return None if alive is None or alive.closed else alive.engine

        return Keeper(engine, names, every_seconds=every_seconds, after_commits=after_commits)

    def export(
        self, branch: str = MAIN, *, at: str | int | datetime | None = None, types: str | Iterable[str] | None = None
    ) -> Iterator[str]:
        """Yield one snapshot as NDJSON lines that `load` accepts: edges, then nodes, by type and id. Rows are streamed, not collected.

        `types` is the name of a node or edge type, or several.
        """
        from omnigraph.exec.history.export import export_lines

        engine = self.engine
        snapshot = engine.snapshot(branch, at)
        chosen = [types] if isinstance(types, str) else types
        lines = export_lines(engine.tables, snapshot, engine.catalog(snapshot), types=chosen)

        def read() -> Iterator[str]:
            with engine.reading(snapshot, at):
                yield from lines

        return waited_for_steps(read())

    def copy_to(
        self,
        uri: str | os.PathLike[str],
        *,
        branch: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        on_progress: OnCopyProgress | None = None,
    ) -> Graph:
        """Copy the graph with all branches to an empty location; with `branch`, copy only that branch, as main of the new graph."""
        from omnigraph.exec.history.copy import copy_graph

        target = open_root(uri, storage_options=storage_options)
        name = given_name(branch) if branch is not None else None
        made = copy_graph(self.engine, target, branch=name, actor=self.actor, on_progress=on_progress)
        engine = _engine(self.engine.embedding, self.engine.external_bases, auto_upkeep=self.engine.after_write is not None)
        return Graph(engine(made), mode="rw", actor=self.actor)

    def blob(self, kind: str, type_: str, id_: str, property_: str, *, branch: str = MAIN, at: str | int | datetime | None = None) -> Blob:
        """Return one Blob property of one `node` or `edge`: its size, its tag, and any part of its bytes."""
        from omnigraph.exec.blobs import find_blob

        snapshot = self.engine.snapshot(branch, at)
        reading = partial(self.engine.reading, snapshot, at)
        with reading():
            catalog = self.engine.catalog(snapshot)
            return find_blob(self.engine.tables, snapshot, catalog, kind=kind, type_=type_, id_=id_, property_=property_, reading=reading)

    def snapshot(self, branch: str = MAIN, *, at: str | int | datetime | None = None) -> Snapshot:
        """Return a snapshot of a branch: now, or at a commit, a manifest version or a time."""
        found = self.engine.snapshot(branch, at)
        return Snapshot(found.branch.name, found.commit, found.version, tuple(_table_states(found)))

    def commits(
        self,
        branch: str = MAIN,
        *,
        limit: int | None = None,
        since: str | datetime | None = None,
        types: str | Iterable[str] | None = None,
    ) -> list[Commit]:
        """Return the commits of a branch, newest first: at most `limit`, not older than `since`, that changed one of `types`."""
        limit = _checked_limit(limit)
        if since is None and types is None:
            return self.engine.manifest.commits(given_name(branch), limit=limit)
        moment = check_at(since)
        if not isinstance(moment, datetime | None):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{since!r} is no time such as 2026-01-31T12:00:00Z")
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"since needs a time zone, as in datetime.now(UTC), and {moment} has none")
        commits = self.engine.manifest.commits(given_name(branch))
        if types is not None:
            commits = _commits_of_types(
                commits, [types] if isinstance(types, str) else types, self.engine.catalog(self.engine.snapshot(branch))
            )
        return list(islice((commit for commit in commits if moment is None or commit.created_at >= moment), limit))

    def commit(self, id_: str) -> Commit:
        """Return a commit of any branch, by its id or by the beginning of its id."""
        if not isinstance(id_, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"a commit id is text, not {id_!r}")
        return self.engine.manifest.commit(id_)

    def commit_graph(self, branches: Iterable[str] | None = None, *, limit: int | None = None) -> CommitGraph:
        """Return the commits of all branches, or of some, with their parents, and where branches and tags stand."""
        limit = _checked_limit(limit)
        if isinstance(branches, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"branches takes a list of names, not the text {branches!r}")
        manifest = self.engine.manifest
        names = [MAIN, *list_branches(manifest.root.objects)] if branches is None else [given_name(name) for name in branches]
        commits, heads = manifest.histories(names)
        shown = tuple(islice(newest_first(commits, *heads.values()), limit))
        tags = {tag.name: str(tag.commit_id) for tag in living_tags(manifest.root.objects) if tag.commit_id in commits}
        return CommitGraph(shown, {name: str(head) for name, head in heads.items()}, tags, distinct_length(commits))

    def diff(
        self,
        a: str | int | datetime,
        b: str | int | datetime,
        *,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
    ) -> Iterator[EntityChange]:
        """Yield the changes that lead from `a` to `b`: nodes before edges, then by type and id. Rows that both share are not read.

        Each side is a branch, a commit, or main at a manifest version or a time. `kinds` ("node", "edge"), `types` and `ops`
        ("insert", "update", "delete") select some of the changes.
        """
        from omnigraph.exec.history.diff import change_filter, diff

        before, after = self.engine.point(a), self.engine.point(b)
        return self._stream(diff(self.engine, before, after, change_filter(kinds, types, ops)), before, after)

    def commit_changes(
        self,
        id_: str,
        *,
        kinds: str | Collection[str] | None = None,
        types: str | Collection[str] | None = None,
        ops: str | Collection[str] | None = None,
    ) -> Iterator[EntityChange]:
        """Yield the changes of one commit, compared with its first parent, as `diff` does."""
        from omnigraph.exec.history.diff import change_filter, check_boundary, diff, parent_of

        commit, wanted = self.commit(id_), change_filter(kinds, types, ops)
        after = self.engine.manifest.snapshot_of(commit)
        before = parent_of(self.engine, commit, after)
        check_boundary(self.engine, commit, before, after, wanted)
        if commit.kind.moves_rows_only:  # D-11: the rows are the same in other files
            after = before
        return self._stream(diff(self.engine, before, after, wanted), before, after)

    def merge_conflicts(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[EntityName, str] | None = None,
    ) -> Iterator[Conflict]:
        """Yield all conflicts that `merge` with these arguments finds now: nodes before edges, then by type and id. Writes nothing.

        Rows are read in parts, however many conflicts there are. If there are none between entities, the rules of the schema that
        the merged graph would break are yielded; those are held in memory.
        """
        from omnigraph.exec.history.conflicts import settlement
        from omnigraph.exec.history.merge import open_merge

        found = open_merge(self.engine, given_name(source), given_name(into), settlement(strategy, on_conflict, resolve))
        return self._stream(found.conflicts, *found.read)

    def _stream(self, changes: Iterator[T], *read: read.BranchSnapshot) -> Iterator[T]:
        manifest = self.engine.manifest

        def steps() -> Iterator[T]:
            with ExitStack() as scopes:
                for snapshot in read:
                    scopes.enter_context(manifest.reading(snapshot, past=True))
                yield from changes

        return waited_for_steps(steps())

    def log(self, type_: str, id_: str, branch: str = MAIN, *, kind: str | None = None) -> Iterator[LogEntry]:
        """Yield the commits of a branch that changed one entity, newest first, with its values before and after.

        `kind` ("node" or "edge") is needed only if a node type and an edge type have this name.
        """
        from omnigraph.exec.history.entity_log import entity_log

        snapshot = self.engine.snapshot(branch)
        return self._stream(entity_log(self.engine, snapshot, type_, id_, kind=kind), snapshot)

    def revert(
        self,
        commit: str,
        branch: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[EntityName, str] | None = None,
        message: str | None = None,
        token: str | None = None,
    ) -> RevertResult:
        """Undo one commit on a branch, in a new commit, or raise `MergeConflicts` if later commits changed the same entities.

        "ours" is the branch, "theirs" the state before the commit. A retry with the same `token` returns the first result.
        """
        from omnigraph.exec.history.conflicts import settlement
        from omnigraph.exec.history.merge import revert
        from omnigraph.exec.write.protocol import Request
        from omnigraph.exec.write.tokens import digest_of

        self.require_writable()
        settled = settlement(strategy, on_conflict, resolve)
        found = self.commit(commit)
        text = message if message is not None else f"revert {found.id}" + (f": {found.message}" if found.message else "")
        digest = digest_of(found.id, settled.text) if token is not None else None
        request = Request(CommitKind.REVERT, branch=given_name(branch), actor=self.actor, message=text, token=token, digest=digest)
        return revert(self.engine, found, request, settled)

    def transaction(
        self, branch: str = MAIN, *, message: str | None = None, actor: str | None = None, token: str | None = None
    ) -> Transaction:
        """Return a transaction on a branch, for a `with` block: its mutations and loads become one commit, or none.

        The block sees its own changes, and others see them when it ends. An exception inside it discards them. If what was committed
        meanwhile conflicts with them, `MergeConflicts` is raised. A retry with the same `token` commits nothing and has the first receipt.
        """
        from omnigraph.exec.write.protocol import Request
        from omnigraph.transaction import Transaction

        self.require_writable()
        by = self.actor if actor is None else checked_actor(actor)
        return Transaction(self, Request(CommitKind.TRANSACTION, branch=given_name(branch), actor=by, message=message, token=token))

    def recoveries(self) -> list[Recovery]:
        """Return the interrupted writes on every branch that were finished or undone, newest first."""
        found: dict[CommitId, Recovery] = {}
        for branch in (MAIN, *list_branches(self.engine.root.objects)):
            for commit in self.engine.manifest.commits(branch):
                if commit.audit is not None:
                    found.setdefault(commit.id, _recovery(commit, commit.audit))
        return sorted(found.values(), key=lambda recovery: (recovery.at, recovery.commit_id), reverse=True)

    def refresh(self) -> list[Audit]:
        """Finish or undo the interrupted writes of dead writers on every branch. Waits for active writers. Readers need no refresh."""
        from omnigraph.manifest.publish import LOCK_SECONDS
        from omnigraph.manifest.recover import heal

        self.require_writable()
        branches = (MAIN, *all_branches(self.engine.root.objects))
        return [
            audit for branch in branches for audit in heal(self.engine.manifest, self.engine.tables, branch, timeout_seconds=LOCK_SECONDS)
        ]

    def verify(self, *, deep: bool = False, on_progress: OnVerifyProgress | None = None) -> list[Finding]:
        """Check the whole graph. An empty list means that it is sound. `deep` reads every byte that a branch shows."""
        from omnigraph.exec.upkeep.verify import verify

        return verify(self.engine, deep=deep, on_progress=on_progress)

    def repair(
        self, branch: str = MAIN, *, confirm: bool = False, force: bool = False, message: str | None = None, token: str | None = None
    ) -> RepairReport:
        """Classify what is wrong with the tables of a branch. With `confirm`, mend what can be mended without rewriting a row.

        `force` also publishes what another program changed in a table. What has no remedy is listed in `lost`.
        """
        from omnigraph.exec.upkeep.repair import repair

        if confirm:
            self.require_writable()
        name = given_name(branch)
        return repair(self.engine, branch=name, confirm=confirm, force=force, actor=self.actor, message=message, token=token)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
        on_progress: OnCleanupProgress | None = None,
    ) -> Cleanup:
        """Remove old versions that no branch and no tag needs, and what interrupted writers left. A dry run only says what that would be.

        The newest `keep` commits of each branch stay readable, and those that were the newest less than `older_than` ago. With both,
        a commit that one of them keeps is kept. Older commits stay in the history; reading them raises `NotFound`.
        """
        from omnigraph.exec.upkeep.cleanup import cleanup

        if not dry_run:
            self.require_writable()
        return cleanup(self.engine, keep=keep, older_than=older_than, dry_run=dry_run, on_progress=on_progress)

    def info(self) -> Info:
        """Return facts about the graph: its location and format, and how many branches, commits and rows of main it has."""
        root: Root = self.engine.root
        snapshot = self.engine.manifest.snapshot()
        return Info(
            uri=root.uri,
            graph_id=self.engine.manifest.graph_id,
            format=FORMAT,
            mode=self.mode,
            fsync=root.sync,
            branches=1 + len(list_branches(root.objects)),
            commits=len(self.engine.manifest.commits()),
            tables={row.alias: row.rows for row in snapshot.state.tables.values() if not row.dropped},
            python=platform.python_version(),
        )


open_.__name__ = open_.__qualname__ = "open"  # its public name, which `help(omnigraph)` shows


def _reopened(
    uri: str,
    mode: Mode,
    actor: str | None,
    storage_options: Mapping[str, str],
    embedding: Embedder | EmbeddingProvider | None,
    external_blobs: tuple[str, ...] | None,
    auto_upkeep: bool,  # noqa: FBT001  # pickle passes arguments by position
) -> Graph:
    return open_(
        uri,
        mode=mode,
        actor=actor,
        storage_options=storage_options,
        embedding=embedding,
        external_blobs=external_blobs,
        auto_upkeep=auto_upkeep,
    )


def _engine(
    embedding: Embedder | EmbeddingProvider | None, external_blobs: Collection[str] | None, *, auto_upkeep: bool
) -> Callable[[read.Manifest], Engine]:
    """Check the settings of an open graph."""
    bases = None if external_blobs is None else checked_bases(external_blobs)
    after_write = AutomaticUpkeep() if auto_upkeep else None
    return partial(Engine, embedding=_embedding(embedding), external_blobs=bases, after_write=after_write)


def _embedding(choice: Embedder | EmbeddingProvider | None) -> Embedder | EmbeddingProvider | None:
    if choice is None or isinstance(choice, EmbeddingProvider) or (hasattr(choice, "embed") and hasattr(choice, "model")):
        return choice
    message = f"`embedding` takes an EmbeddingProvider, or an object with `model` and `embed`, not {type(choice).__name__}"
    raise InvalidInput(Kind.INVALID_ARGUMENT, message)


def _checked_limit(limit: int | None) -> int | None:
    """Return a number of commits that `islice` takes."""
    if limit is not None and limit < 0:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"limit must be zero or more, not {limit}", limit=limit)
    return None if limit is None else min(limit, sys.maxsize)


def _commits_of_types(commits: list[Commit], types: Iterable[str], catalog: Catalog) -> list[Commit]:
    """Return the commits that changed one of the types. A name that neither the schema nor the history has is refused."""
    changed = {commit.id: {change.alias.partition(":")[2] for change in commit.tables} for commit in commits}
    known, wanted = {entity.name for entity in catalog.entities}.union(*changed.values()), set(types)
    for name in sorted(wanted - known):
        raise InvalidInput(Kind.INVALID_ARGUMENT, with_hint(f"unknown type {name!r}", name, known), type=name)
    return [commit for commit in commits if changed[commit.id] & wanted]


def _table_states(snapshot: read.BranchSnapshot) -> Iterator[TableState]:
    for row in sorted(snapshot.state.tables.values(), key=lambda row: row.alias):
        if not row.dropped:
            kind, _, name = row.alias.partition(":")
            yield TableState(kind, name, row.path, row.version, row.native, row.rows)


def _recovery(commit: Commit, audit: Audit) -> Recovery:
    return Recovery(
        audit.operation, audit.outcome, audit.writer, audit.actor, commit.branch, commit.created_at, audit.tables, commit.id, audit.by
    )
