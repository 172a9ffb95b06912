"""Calls on an open graph -> reads, mutations, loads and merges: what a graph and its parts (branches, tags, transactions) both need.

The arguments are checked here; the algorithms are the engine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from omnigraph.answers import LoadReceipt, Mode, Receipt
from omnigraph.arguments import checked_methods
from omnigraph.errors import VALUE_CHARACTERS, InvalidInput, Kind, NotFound, Unsupported, shortened
from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.engine import Engine
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.problems import REPORTED
from omnigraph.exec.query import explanation, query
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.watch import Cancellation, Watch
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN, CommitId, EntityName
from omnigraph.lang import Source
from omnigraph.manifest.model import CommitKind, now
from omnigraph.manifest.registry import given_name, list_branches
from omnigraph.plan.explain import Explanation
from omnigraph.store.leaving import waited_for_methods

if TYPE_CHECKING:
    from omnigraph.exec.history.merge import MergeResult
    from omnigraph.exec.load.batches import Data
    from omnigraph.exec.load.load import Intake, OnProgress
    from omnigraph.exec.write.protocol import Written

OWN_CHECKS: Final = frozenset({"source", "name", "params", "timeout", "at", "since", "text", "schema"})
"""Arguments whose own check says more than their type."""
QUERY_NAME: Final = "query.gq"
_IS_PATH: Final = re.compile(r"\S+\.(?:gq|pg)")
"""The name that messages use for a text without a name."""


def checked_actor(actor: str | None) -> str | None:
    """Return an actor that a commit may name. An empty one comes from an unset variable, and would say who wrote where nobody knows."""
    if actor == "":
        raise InvalidInput(Kind.INVALID_ARGUMENT, "the actor is empty; name who writes, or leave the actor out")
    return actor


@waited_for_methods
@checked_methods(but=OWN_CHECKS)
class Handle:
    """An engine, and who writes with it."""

    def __init__(self, engine: Engine, *, mode: Mode, actor: str | None) -> None:
        self._engine: Engine | None = engine
        self.on_close: Callable[[], object] = lambda: None
        """Called by `close`. A graph in memory removes its directory."""
        self._uri: Final = engine.root.uri
        self.mode: Final = mode
        self.actor: Final = actor

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._uri

    @property
    def engine(self) -> Engine:
        """The engine, for packages built on the graph. Its methods may change between releases; those of `Graph` are stable."""
        if self._engine is None:
            raise InvalidInput(Kind.GRAPH_CLOSED, f"the graph {self.uri} was closed; open it again with `omnigraph.open`", path=self.uri)
        return self._engine

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._engine is None

    def close(self) -> None:
        """Give up the caches and threads of this handle. Every later call on it is refused; a second `close` has no effect.

        Calls that are under way on other threads, and iterators that were handed out, end as if it were still open.
        """
        self._engine = None
        self.on_close()

    def mutate(
        self,
        source: str,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        if_commit: str | None = None,
        token: str | None = None,
        message: str | None = None,
    ) -> Receipt:
        """Run one mutation of a `.gq` text as one commit. A retry with the same `token` returns the first receipt.

        A token names one write: with another text or other parameters it is refused.
        """
        from omnigraph.exec.write.mutate import EDGES, NODES, mutate
        from omnigraph.exec.write.protocol import Request
        from omnigraph.exec.write.tokens import call_digest

        self.require_writable()
        call = _call(source, name, params)
        request = Request(
            CommitKind.MUTATE,
            branch=given_name(branch),
            actor=self.actor,
            message=message,
            token=token,
            digest=call_digest(call) if token is not None else None,
            if_commit=self._expected(if_commit, branch),
        )
        written = mutate(self.engine, call, request)
        return Receipt(written.counts[NODES], written.counts[EDGES], written.commit)

    def query(
        self,
        source: str,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: str | int | datetime | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Result:
        """Run one read of a `.gq` text on a branch: now, or at a commit, a manifest version or a time. `timeout` is in seconds.

        `name` selects one of several queries; for a text with one query, `params` may stand in its place.
        """
        watch = Watch(timeout_seconds=timeout, cancellation=cancellation)

        def run() -> Result:
            call, snapshot = _call(source, name, params), self.engine.snapshot(branch, at)
            with self.engine.reading(snapshot, at):
                return query(self.engine, call, snapshot, watch=watch)

        return watch.guard(run)

    def explain(
        self,
        source: str,
        name: str | Mapping[str, object] | None = None,
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
        from omnigraph.exec.load.digests import load_digest
        from omnigraph.exec.load.load import LocalIntake

        return self.load_intake(
            LocalIntake(data, lambda: self.engine.embedder, external=lambda: self.engine.external_blobs, write=not dry_run),
            mode,
            branch=branch,
            from_branch=from_branch,
            token=token,
            digest=load_digest(data, _load_mode(mode)) if token is not None and not dry_run else None,
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
        digest: str | None = None,
    ) -> LoadReceipt:
        """Load the rows that an intake reads. Spark loads use this; their data is not compared when a token is used again."""
        from omnigraph.exec.load.load import Load, run_load
        from omnigraph.exec.write.protocol import Request, Written

        if not dry_run:
            self.require_writable()
        chosen = _load_mode(mode)
        if report_errors < 1:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"report_errors must be at least 1, not {report_errors}")
        load = Load(self.engine, intake, chosen, write=not dry_run, report_errors=report_errors, on_progress=on_progress)
        if dry_run:
            existing = (
                from_branch
                if from_branch is not None and given_name(branch) not in (MAIN, *list_branches(self.engine.root.objects))
                else branch
            )
            checked = load.prepare(self.engine.manifest.snapshot(given_name(existing)))
            load.close()
            return _load_receipt(branch, chosen, Written(None, checked.counts))
        request = Request(CommitKind.LOAD, branch=given_name(branch), actor=self.actor, message=message, token=token, digest=digest)
        base = given_name(from_branch) if from_branch is not None else None
        return _load_receipt(branch, chosen, run_load(self.engine, request, load, from_=base))

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: str = "entity",
        on_conflict: str = "fail",
        resolve: Mapping[EntityName, str] | None = None,
        message: str | None = None,
        token: str | None = None,
        delete_source: bool = False,
        dry_run: bool = False,
    ) -> MergeResult:
        """Bring what `source` changed since the last common commit into `into`, as one commit with two parents, or raise `MergeConflicts`.

        `strategy="property"` also merges entities of which both sides changed different properties. `on_conflict` ("ours" is the
        target, "theirs" the source) settles all conflicts between entities, and `resolve` single ones, by type and id. A dry run
        writes nothing and returns the conflicts. A retry with the same `token` returns the first result.
        """
        from omnigraph.exec.history.conflicts import settlement
        from omnigraph.exec.history.merge import delete_merged, merge, plan_merge
        from omnigraph.exec.write.protocol import Request
        from omnigraph.exec.write.tokens import digest_of

        settled = settlement(strategy, on_conflict, resolve)
        theirs, ours = given_name(source), given_name(into)
        if dry_run:
            return plan_merge(self.engine, theirs, ours, settled)
        self.require_writable()
        digest = digest_of(theirs, settled.text) if token is not None else None
        request = Request(CommitKind.MERGE, branch=ours, actor=self.actor, message=message, token=token, digest=digest)
        result = merge(self.engine, theirs, request, settled)
        return delete_merged(self.engine, theirs, result) if delete_source else result

    def _expected(self, commit: str | None, branch: str) -> CommitId | None:
        """Return the commit that `if_commit` names. It need not exist: a head that differs is a failed precondition."""
        if commit == "":  # a variable of a script that is not set
            raise InvalidInput(Kind.INVALID_ARGUMENT, "the expected commit is empty; name the commit that the branch must be at, or none")
        if commit is None or len(commit) == COMMIT_ID_LENGTH:
            return None if commit is None else CommitId(commit)
        try:
            return self.engine.manifest.commit(commit, first=given_name(branch)).id
        except NotFound:
            return CommitId(commit)

    def require_writable(self) -> None:
        """Raise `Unsupported` if the graph was opened for reading only."""
        if self.mode == "r":
            raise Unsupported(Kind.READ_ONLY, f"{self.uri} was opened for reading only; open it with mode='rw' to write", path=self.uri)


def source_text(text: str, name: str) -> Source:
    """Return the text of a query or of a schema. The path of a file with such a text is refused: it is no query, and says nothing."""
    what = "a query" if name == QUERY_NAME else "a schema"
    if isinstance(text, os.PathLike) or (isinstance(text, str) and _IS_PATH.fullmatch(text)):
        shown = shortened(os.fsdecode(text), VALUE_CHARACTERS)
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{what} is passed as text, and '{shown}' is a path; read the file: Path(...).read_text()"
        )
    if not isinstance(text, str):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{what} is passed as text, not as {type(text).__name__}")
    return Source(text, name)


def _call(source: str, name: str | Mapping[str, object] | None, params: Mapping[str, object] | None) -> QueryCall:
    """Build a call with one time for all its attempts, however often the write is prepared (W-49)."""
    if isinstance(name, Mapping) and params is None:
        name, params = None, name
    if name is not None and not isinstance(name, str):
        what = f"the name of a query is text, not {type(name).__name__}; parameters are given as `params={{...}}`"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what)
    if params is not None and not isinstance(params, Mapping):
        what = f"params takes a mapping of names to values, not {type(params).__name__}"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what)
    return QueryCall(source_text(source, QUERY_NAME), name, params, int(now().timestamp() * 1000))


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
