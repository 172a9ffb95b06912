"""Calls on an open graph -> results of the engine. The façade checks arguments; it has no algorithms and no loops over rows.

Modules that only some methods need are imported inside them: a process that runs one query skips a third of the modules.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Never, Self, TypeVar

from msgspec import structs

from omnigraph.answers import CommitGraph, Info, LoadReceipt, Mode, Receipt, Recovery, Snapshot, TableState, TransactionReceipt
from omnigraph.catalog import Catalog, build_catalog, encode
from omnigraph.embed import Embedder, EmbeddingProvider
from omnigraph.errors import InvalidInput, Kind, NotFound, Unsupported
from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.engine import Engine, check_at
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.problems import REPORTED
from omnigraph.exec.query import explanation, query
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.watch import Cancellation, Watch
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN, CommitId, new_hex16
from omnigraph.lang import Source, located, parse_schema
from omnigraph.manifest import read
from omnigraph.manifest.birth import create_graph, open_graph
from omnigraph.manifest.lineage import distinct_length, newest_first
from omnigraph.manifest.model import FORMAT, Audit, Commit, CommitKind, SchemaText, now
from omnigraph.manifest.registry import all_branches, check_name, given_name, list_branches
from omnigraph.manifest.tags import Tag, living_tags
from omnigraph.plan.explain import Explanation
from omnigraph.store.leaving import waited_for, waited_for_methods, waited_for_steps
from omnigraph.store.root import Root, open_root

if TYPE_CHECKING:
    from omnigraph.catalog.evolve import SchemaPlan
    from omnigraph.exec.blobs import Blob
    from omnigraph.exec.history.changes import EntityChange
    from omnigraph.exec.history.entity_log import LogEntry
    from omnigraph.exec.history.merge import MergeResult, RevertResult
    from omnigraph.exec.history.squash import Fork
    from omnigraph.exec.load.batches import Data
    from omnigraph.exec.load.load import Intake, OnProgress
    from omnigraph.exec.upkeep.embeddings import Embeddings, OnEmbeddingProgress
    from omnigraph.exec.upkeep.indices import Indexes, OnIndexProgress
    from omnigraph.exec.upkeep.verify import Finding, OnVerifyProgress
    from omnigraph.exec.write.migrate import AppliedSchema
    from omnigraph.exec.write.protocol import Request, Written

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
    "Transaction",
    "TransactionReceipt",
    "init",
    "open_",
]

T = TypeVar("T")

SCHEMA_NAME: Final = "schema.pg"
QUERY_NAME: Final = "query.gq"
"""The name that messages use for a text without a name."""


@waited_for
def init(
    uri: str | os.PathLike[str],
    *,
    schema: str,
    actor: str | None = None,
    message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedding: Embedder | EmbeddingProvider | None = None,
) -> Graph:
    """Create a graph with a schema (`.pg` text) at a location without a graph. `embedding` is as in `open`."""
    from omnigraph.exec.write.migrate import new_table

    with located(_source(schema, SCHEMA_NAME)):
        catalog = build_catalog(parse_schema(schema, name=SCHEMA_NAME), mint=new_hex16)
    engine = partial(Engine, embedding=_embedding(embedding))
    root = open_root(uri, storage_options=storage_options)
    tables = [*map(new_table, catalog.nodes), *map(new_table, catalog.edges)]
    text = SchemaText(schema, encode(catalog).decode())
    return Graph(engine(create_graph(root, schema=text, tables=tables, actor=actor, message=message)), mode="rw", actor=actor)


@waited_for
def open_(
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    actor: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    embedding: Embedder | EmbeddingProvider | None = None,
) -> Graph:
    """Open a graph. Mode "r" never writes, not even to recover. Mode "rw" first recovers the writes of dead writers on every branch.

    It does not wait: a branch with an active writer is left as it is. `embedding` is an embedder or the settings of a provider; without it
    the environment is asked when a text is to be embedded.
    """
    if mode not in ("r", "rw"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"mode must be 'r' or 'rw', not {mode!r}", mode=mode)
    engine = partial(Engine, embedding=_embedding(embedding))
    root = open_root(uri, storage_options=storage_options)
    graph = Graph(engine(open_graph(root, writable=mode == "rw")), mode=mode, actor=actor)
    if mode == "rw":
        from omnigraph.manifest.recover import heal_dead

        heal_dead(graph.engine.manifest, graph.engine.tables)
    return graph


@waited_for_methods
class Graph:
    """One open graph. Safe to use from many threads. Every read sees the newest commit unless it asks for another."""

    def __init__(self, engine: Engine, *, mode: Mode, actor: str | None) -> None:
        self.engine: Final = engine
        """The engine, for packages built on the graph. Its methods may change between releases; those of `Graph` are stable."""
        self.mode: Final = mode
        self.actor: Final = actor
        self.branches: Final = Branches(self)
        self.tags: Final = Tags(self)

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    @property
    def uri(self) -> str:
        return self.engine.root.uri

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

    def mutate(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        if_commit: str | None = None,
        token: str | None = None,
        message: str | None = None,
    ) -> Receipt:
        """Run one mutation of a `.gq` text as one commit. A retry with the same `token` returns the first receipt."""
        from omnigraph.exec.write.mutate import EDGES, NODES, mutate
        from omnigraph.exec.write.protocol import Request

        self._require_writable()
        request = Request(
            CommitKind.MUTATE,
            branch=given_name(branch),
            actor=self.actor,
            message=message,
            token=token,
            if_commit=self._expected(if_commit, branch),
        )
        written = _check_kind(mutate(self.engine, _call(source, name, params), request), request)
        return Receipt(written.counts[NODES], written.counts[EDGES], written.commit)

    def query(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: str | int | datetime | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Result:
        """Run one read of a `.gq` text on a branch: now, or at a commit, a manifest version or a time. `timeout` is in seconds."""
        watch = Watch(timeout_seconds=timeout, cancellation=cancellation)

        def run() -> Result:
            call, snapshot = _call(source, name, params), self.engine.snapshot(branch, at)
            with self.engine.reading(snapshot, at):
                return query(self.engine, call, snapshot, watch=watch)

        return watch.guard(run)

    def explain(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: str | int | datetime | None = None,
        analyze: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Explanation:
        """Explain a read: its operators, the pushed-down predicates, and the estimates behind each choice.

        With `analyze` it is run, within `timeout` seconds, and the rows, time and route of each operator are shown next to the estimates.
        """
        watch = Watch(timeout_seconds=timeout, cancellation=cancellation)

        def run() -> Explanation:
            call, snapshot = _call(source, name, params), self.engine.snapshot(branch, at)
            with self.engine.reading(snapshot, at):
                return explanation(self.engine, call, snapshot, run_with=watch if analyze else None)

        return watch.guard(run)

    def load(
        self,
        data: Data,
        mode: str = LoadMode.MERGE,
        *,
        branch: str = MAIN,
        from_branch: str | None = None,
        token: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        report_errors: int = REPORTED,
        on_progress: OnProgress | None = None,
    ) -> LoadReceipt:
        """Load data into a branch as one commit, or write nothing and raise an error that lists up to `report_errors` problems.

        `data` is the path of an NDJSON file (gzip and zstd too) or a list of paths, an open file, bytes, an iterable of lines or
        records, or a mapping from type names to Arrow tables, frames (pandas, polars, DuckDB), Parquet or CSV files. `from_branch`
        creates the branch from that one if it does not exist.
        """
        from omnigraph.exec.load.load import LocalIntake

        return self.load_intake(
            LocalIntake(data, lambda: self.engine.embedder, write=not dry_run),
            mode,
            branch=branch,
            from_branch=from_branch,
            token=token,
            message=message,
            dry_run=dry_run,
            report_errors=report_errors,
            on_progress=on_progress,
        )

    def load_intake(
        self,
        intake: Intake,
        mode: str,
        *,
        branch: str,
        from_branch: str | None,
        token: str | None,
        message: str | None,
        report_errors: int,
        on_progress: OnProgress | None,
        dry_run: bool = False,
    ) -> LoadReceipt:
        """Load the rows that an intake reads. Spark loads use this."""
        from omnigraph.exec.load.load import Load, run_load
        from omnigraph.exec.write.protocol import Request, Written

        if not dry_run:
            self._require_writable()
        chosen = _load_mode(mode)
        if report_errors < 1:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"report_errors must be at least 1, not {report_errors}")
        load = Load(self.engine, intake, chosen, write=not dry_run, report_errors=report_errors, on_progress=on_progress)
        if dry_run:
            existing = from_branch if from_branch is not None and branch not in self.branches.list() else branch
            checked = load.prepare(self.engine.manifest.snapshot(given_name(existing)))
            load.close()
            return _load_receipt(branch, chosen, Written(None, checked.counts))
        request = Request(CommitKind.LOAD, branch=given_name(branch), actor=self.actor, message=message, token=token)
        base = given_name(from_branch) if from_branch is not None else None
        return _load_receipt(branch, chosen, _check_kind(run_load(self.engine, request, load, from_=base), request))

    def plan_schema(self, text: str, branch: str = MAIN, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan the change of a branch's schema to `text`. Changes nothing. The plan may contain steps that cannot be applied."""
        from omnigraph.exec.write.migrate import Wanted, evolve

        accepted = self.engine.catalog(self.engine.manifest.snapshot(given_name(branch)))
        return evolve(Wanted(_source(text, SCHEMA_NAME), allow_data_loss), accepted).plan

    def apply_schema(self, text: str, branch: str = MAIN, *, allow_data_loss: bool = False, message: str | None = None) -> AppliedSchema:
        """Make `text` the schema of a branch, in one commit. Other branches keep theirs. Dropped data stays readable at older
        commits. With `allow_data_loss` the history of dropped tables is removed, except for what another branch shows.
        """
        from omnigraph.exec.write.migrate import Wanted, apply

        self._require_writable()
        wanted = Wanted(_source(text, SCHEMA_NAME), allow_data_loss)
        return apply(self.engine, wanted, branch=given_name(branch), actor=self.actor, message=message)

    def ensure_indices(self, branch: str = MAIN, *, message: str | None = None, on_progress: OnIndexProgress | None = None) -> Indexes:
        """Build, in one commit, every index that the schema declares and the tables lack. A second call has nothing to do."""
        from omnigraph.exec.upkeep.indices import ensure_indices

        self._require_writable()
        return ensure_indices(self.engine, branch=given_name(branch), actor=self.actor, message=message, on_progress=on_progress)

    def ensure_embeddings(
        self, branch: str = MAIN, *, message: str | None = None, on_progress: OnEmbeddingProgress | None = None
    ) -> Embeddings:
        """Embed, in one commit, every text of an `@embed` property whose vector is missing. A second call has nothing to do."""
        from omnigraph.exec.upkeep.embeddings import ensure_embeddings

        self._require_writable()
        return ensure_embeddings(self.engine, branch=given_name(branch), actor=self.actor, message=message, on_progress=on_progress)

    def export(self, branch: str = MAIN, *, at: str | int | datetime | None = None, types: Iterable[str] | None = None) -> Iterator[str]:
        """Yield one snapshot as NDJSON lines that `load` accepts: edges, then nodes, by type and id. Rows are streamed, not collected."""
        from omnigraph.exec.history.export import export_lines

        snapshot = self.engine.snapshot(branch, at)

        lines = export_lines(self.engine.tables, snapshot, self.engine.catalog(snapshot), types=types)

        def read() -> Iterator[str]:
            with self.engine.reading(snapshot, at):
                yield from lines

        return waited_for_steps(read())

    def copy_to(self, uri: str | os.PathLike[str], *, branch: str | None = None, storage_options: Mapping[str, str] | None = None) -> Graph:
        """Copy the graph with all branches to an empty location; with `branch`, copy only that branch, as main of the new graph."""
        from omnigraph.exec.history.copy import copy_graph

        target = open_root(uri, storage_options=storage_options)
        name = given_name(branch) if branch is not None else None
        made = copy_graph(self.engine, target, branch=name, actor=self.actor)
        return Graph(Engine(made, embedding=self.engine.embedding), mode="rw", actor=self.actor)

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

    def commits(self, branch: str = MAIN, *, limit: int | None = None) -> list[Commit]:
        """Return the commits of a branch, newest first."""
        if limit is not None and limit < 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"limit must be zero or more, not {limit}", limit=limit)
        return self.engine.manifest.commits(given_name(branch), limit=limit)

    def commit(self, id_: str) -> Commit:
        """Return a commit of any branch, by its id or by the beginning of its id."""
        if not isinstance(id_, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"a commit id is text, not {id_!r}")
        return self.engine.manifest.commit(id_)

    def commit_graph(self, branches: Iterable[str] | None = None, *, limit: int | None = None) -> CommitGraph:
        """Return the commits of all branches, or of some, with their parents, and where branches and tags stand."""
        if limit is not None and limit < 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"limit must be zero or more, not {limit}", limit=limit)
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
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
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
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
    ) -> Iterator[EntityChange]:
        """Yield the changes of one commit, compared with its first parent, as `diff` does."""
        from omnigraph.exec.history.diff import change_filter, diff, parent_of

        commit = self.commit(id_)
        after = self.engine.snapshot(at=commit.id)
        before = parent_of(self.engine, commit, after)
        return self._stream(diff(self.engine, before, after, change_filter(kinds, types, ops)), before, after)

    def _stream(self, changes: Iterator[T], *read: read.BranchSnapshot) -> Iterator[T]:
        def steps() -> Iterator[T]:
            with ExitStack() as scopes:
                for snapshot in read:
                    scopes.enter_context(self.engine.manifest.reading(snapshot, past=True))
                yield from changes

        return waited_for_steps(steps())

    def log(self, type_: str, id_: str, branch: str = MAIN, *, kind: str | None = None) -> Iterator[LogEntry]:
        """Yield the commits of a branch that changed one entity, newest first, with its values before and after.

        `kind` ("node" or "edge") is needed only if a node type and an edge type have this name.
        """
        from omnigraph.exec.history.entity_log import entity_log

        snapshot = self.engine.snapshot(branch)
        return self._stream(entity_log(self.engine, snapshot, type_, id_, kind=kind), snapshot)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[tuple[str, str], str] | None = None,
        message: str | None = None,
        delete_source: bool = False,
        dry_run: bool = False,
    ) -> MergeResult:
        """Bring what `source` changed since the last common commit into `into`, as one commit with two parents, or raise `MergeConflicts`.

        `strategy="property"` also merges entities of which both sides changed different properties. `on_conflict` ("ours" is the
        target, "theirs" the source) settles all conflicts between entities, and `resolve` single ones, by type and id. A dry run
        writes nothing and returns the conflicts.
        """
        from omnigraph.exec.history.conflicts import settlement
        from omnigraph.exec.history.merge import delete_merged, merge, plan_merge
        from omnigraph.exec.write.protocol import Request

        settled = settlement(strategy, on_conflict, resolve)
        theirs, ours = given_name(source), given_name(into)
        if dry_run:
            return plan_merge(self.engine, theirs, ours, settled)
        self._require_writable()
        request = Request(CommitKind.MERGE, branch=ours, actor=self.actor, message=message)
        result = merge(self.engine, theirs, request, settled)
        return delete_merged(self.engine, theirs, result) if delete_source else result

    def revert(
        self,
        commit: str,
        branch: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[tuple[str, str], str] | None = None,
        message: str | None = None,
    ) -> RevertResult:
        """Undo one commit on a branch, in a new commit, or raise `MergeConflicts` if later commits changed the same entities.

        "ours" is the branch, "theirs" the state before the commit.
        """
        from omnigraph.exec.history.conflicts import settlement
        from omnigraph.exec.history.merge import revert
        from omnigraph.exec.write.protocol import Request

        self._require_writable()
        settled = settlement(strategy, on_conflict, resolve)
        found = self.commit(commit)
        text = message if message is not None else f"revert {found.id}" + (f": {found.message}" if found.message else "")
        request = Request(CommitKind.REVERT, branch=given_name(branch), actor=self.actor, message=text)
        return revert(self.engine, found, request, settled)

    def transaction(
        self, branch: str = MAIN, *, message: str | None = None, actor: str | None = None, token: str | None = None
    ) -> Transaction:
        """Return a transaction on a branch, for a `with` block: its mutations and loads become one commit, or none.

        The block sees its own changes, and others see them when it ends. An exception inside it discards them. If what was committed
        meanwhile conflicts with them, `MergeConflicts` is raised. A retry with the same `token` commits nothing and has the first receipt.
        """
        from omnigraph.exec.write.protocol import Request

        self._require_writable()
        by = self.actor if actor is None else actor
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

        self._require_writable()
        branches = (MAIN, *all_branches(self.engine.root.objects))
        return [
            audit for branch in branches for audit in heal(self.engine.manifest, self.engine.tables, branch, timeout_seconds=LOCK_SECONDS)
        ]

    def verify(self, *, deep: bool = False, on_progress: OnVerifyProgress | None = None) -> list[Finding]:
        """Check the whole graph. An empty list means that it is sound. `deep` reads every byte that a branch shows."""
        from omnigraph.exec.upkeep.verify import verify

        return verify(self.engine, deep=deep, on_progress=on_progress)

    def info(self) -> Info:
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

    def _expected(self, commit: str | None, branch: str) -> CommitId | None:
        """Return the commit that `if_commit` names. It need not exist: a head that differs is a failed precondition."""
        if commit is None or len(commit) == COMMIT_ID_LENGTH:
            return None if commit is None else CommitId(commit)
        try:
            return self.engine.manifest.commit(commit, first=given_name(branch)).id
        except NotFound:
            return CommitId(commit)

    def _require_writable(self) -> None:
        if self.mode == "r":
            raise Unsupported(Kind.READ_ONLY, f"{self.uri} was opened for reading only; open it with mode='rw' to write", path=self.uri)


def _embedding(choice: Embedder | EmbeddingProvider | None) -> Embedder | EmbeddingProvider | None:
    if choice is None or isinstance(choice, EmbeddingProvider) or (hasattr(choice, "embed") and hasattr(choice, "model")):
        return choice
    message = f"`embedding` takes an EmbeddingProvider, or an object with `model` and `embed`, not {type(choice).__name__}"
    raise InvalidInput(Kind.INVALID_ARGUMENT, message)


def _source(text: str, name: str) -> Source:
    if not isinstance(text, str):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{name} must be passed as text, not as {type(text).__name__}")
    return Source(text, name)


def _call(source: str, name: str | None, params: Mapping[str, object] | None) -> QueryCall:
    """Build a call with one time for all its attempts, however often the write is prepared (W-49)."""
    return QueryCall(_source(source, QUERY_NAME), name, params, int(now().timestamp() * 1000))


def _check_kind(written: Written, request: Request) -> Written:
    """Raise InvalidInput if the token belongs to a write of another kind. Nothing was written then."""
    if written.commit is not None and written.commit.kind is not request.kind:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"the token {request.token!r} belongs to commit {written.commit.id}, a {written.commit.kind}; nothing was written",
            token=request.token,
            commit=written.commit.id,
        )
    return written


def _load_mode(mode: str) -> LoadMode:
    try:
        return LoadMode(mode)
    except ValueError:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"mode must be one of {', '.join(LoadMode)}, not {mode!r}", mode=mode) from None


def _load_receipt(branch: str, mode: LoadMode, written: Written) -> LoadReceipt:
    def of(kind: str) -> dict[str, int]:
        return {alias.removeprefix(kind): rows for alias, rows in sorted(written.counts.items()) if alias.startswith(kind)}

    from omnigraph.exec.load.load import EDGES_WITHOUT_ID

    nodes, edges = of("node:"), of("edge:")
    total = sum(nodes.values()) + sum(edges.values())
    return LoadReceipt(branch, mode, nodes, edges, total, written.commit, written.counts.get(EDGES_WITHOUT_ID, 0))


def _table_states(snapshot: read.BranchSnapshot) -> Iterator[TableState]:
    for row in sorted(snapshot.state.tables.values(), key=lambda row: row.alias):
        if not row.dropped:
            kind, _, name = row.alias.partition(":")
            yield TableState(kind, name, row.path, row.version, row.native, row.rows)


def _recovery(commit: Commit, audit: Audit) -> Recovery:
    return Recovery(
        audit.operation, audit.outcome, audit.writer, audit.actor, commit.branch, commit.created_at, audit.tables, commit.id, audit.by
    )


@waited_for_methods
class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> list[str]:
        """Return all branch names, main first."""
        return [MAIN, *list_branches(self._graph.engine.manifest.root.objects)]

    def create(self, name: str, *, from_: str = MAIN, at: str | int | datetime | None = None) -> str:
        """Create a branch with the contents of `from_`: now, or at a manifest version or a time; or of a commit of any branch.

        No data is copied.
        """
        from omnigraph.manifest.branches import create_branch

        self._graph._require_writable()
        return create_branch(self._graph.engine.manifest, name, from_=given_name(from_), at=check_at(at)).name

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[tuple[str, str], str] | None = None,
        message: str | None = None,
        delete_source: bool = False,
        dry_run: bool = False,
    ) -> MergeResult:
        """Merge a branch into another, as `Graph.merge` does."""
        return self._graph.merge(
            source,
            into,
            strategy=strategy,
            on_conflict=on_conflict,
            resolve=resolve,
            message=message,
            delete_source=delete_source,
            dry_run=dry_run,
        )

    def delete(self, name: str) -> None:
        """Delete a branch and the table forks that only it uses."""
        from omnigraph.manifest.branches import delete_branch

        self._graph._require_writable()
        delete_branch(self._graph.engine.manifest, check_name(name))


@waited_for_methods
class Tags:
    """The tags of a graph: names of commits. A tag keeps what its commit shows, and stands wherever a commit id does."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> list[Tag]:
        """Return all tags, sorted by name."""
        return living_tags(self._graph.engine.manifest.root.objects)

    def create(self, name: str, *, branch: str = MAIN, at: str | int | datetime | None = None, message: str | None = None) -> Tag:
        """Name a commit: the newest of `branch`, or at a manifest version or a time of it; or a commit of any branch by its id."""
        from omnigraph.manifest.tagging import create_tag

        self._graph._require_writable()
        manifest, actor = self._graph.engine.manifest, self._graph.actor
        return create_tag(manifest, name, branch=given_name(branch), at=check_at(at), actor=actor, message=message)

    def delete(self, name: str) -> None:
        """Delete a tag. Its commit stays in the history."""
        from omnigraph.manifest.tagging import delete_tag

        self._graph._require_writable()
        delete_tag(self._graph.engine.manifest, name)


@waited_for_methods
class Transaction:
    """Mutations, loads and queries on a private branch, which become one commit when the `with` block ends without an exception."""

    def __init__(self, graph: Graph, request: Request) -> None:
        self._graph: Final = graph
        self._request: Final = request
        self._fork: Fork | None = None
        self._ended = False
        self._receipt: TransactionReceipt | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            if not name.startswith("_") and name in dir(self._graph):
                raise Unsupported(
                    Kind.UNSUPPORTED,
                    f"a transaction has no {name!r}, only query, explain, mutate and load; call it on the graph, before or after the block",
                    name=name,
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def receipt(self) -> TransactionReceipt | None:
        """The receipt, after the block has ended without an exception."""
        return self._receipt

    @waited_for
    def __enter__(self) -> Self:
        from omnigraph.exec.history.squash import Fork

        if self._fork is not None:
            raise _not_open("a transaction is one `with` block; ask the graph for another transaction")
        self._fork = Fork(self._graph.engine, self._request.branch)
        return self

    @waited_for
    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        from omnigraph.exec.history.landing import DELETED, INSERTED, UPDATED

        fork = self._open_fork()
        self._ended = True
        try:
            if error is None:
                with self._target():
                    written = _check_kind(fork.squash(self._request), self._request)
                counts = written.counts
                self._receipt = TransactionReceipt(counts[INSERTED], counts[UPDATED], counts[DELETED], written.commit)
        finally:
            fork.drop()

    def mutate(self, source: str, name: str | None = None, params: Mapping[str, object] | None = None) -> Receipt:
        """Run one mutation, as `Graph.mutate` does. The receipt has no commit: the transaction has."""
        with self._target():
            done = self._graph.mutate(source, name, params, branch=self._open_fork().name)
        return structs.replace(done, commit=None)

    def load(
        self, data: Data, mode: str = LoadMode.MERGE, *, report_errors: int = REPORTED, on_progress: OnProgress | None = None
    ) -> LoadReceipt:
        """Load data, as `Graph.load` does. The receipt has no commit: the transaction has."""
        with self._target():
            done = self._graph.load(data, mode, branch=self._open_fork().name, report_errors=report_errors, on_progress=on_progress)
        return structs.replace(done, branch=self._request.branch, commit=None)

    def query(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Result:
        """Run one read, as `Graph.query` does. It sees the branch as it was when the block began, and the changes made inside the block.

        `commit_id` of the result is the commit that the transaction began at.
        """
        fork = self._open_fork()
        with self._target():
            found = self._graph.query(source, name, params, branch=fork.name, timeout=timeout, cancellation=cancellation)
        return Result(found.to_arrow(), query_name=found.query_name, branch=self._request.branch, commit_id=fork.begun_at)

    def explain(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Explanation:
        """Explain a read, as `Graph.explain` does."""
        branch = self._open_fork().name
        with self._target():
            return self._graph.explain(source, name, params, branch=branch, analyze=analyze, timeout=timeout, cancellation=cancellation)

    def _open_fork(self) -> Fork:
        if self._fork is None or self._ended:
            raise _not_open("the transaction is not open: its statements belong inside its `with` block")
        return self._fork

    @contextmanager
    def _target(self) -> Iterator[None]:
        """Name the branch that was deleted: with it, its transactions were."""
        try:
            yield
        except NotFound as error:
            if error.kind is not Kind.BRANCH_NOT_FOUND:
                raise
            branch = self._request.branch
            raise NotFound(
                Kind.BRANCH_NOT_FOUND, f"branch {branch!r} was deleted during the transaction; nothing was written", branch=branch
            ) from error


def _not_open(message: str) -> InvalidInput:
    return InvalidInput(Kind.TRANSACTION_NOT_OPEN, message)
