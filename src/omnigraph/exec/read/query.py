"""A `.gq` text, parameters and a snapshot -> a plan, and its result. Texts are checked once a schema, not once a call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, ResourceLimitExceeded, Unsupported
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.exec.read.measure import Recorder
from omnigraph.exec.read.result import Result
from omnigraph.exec.read.run import HELD_BYTES, Clause, run
from omnigraph.exec.read.statistics import Surveyor
from omnigraph.exec.read.view import Opened, View
from omnigraph.exec.read.watch import Watch
from omnigraph.ids import SchemaHash, TypeId
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Bm25, Fuzzy, MatchText, Nearest, Read, Rrf, Search
from omnigraph.lang.tree import Syntax
from omnigraph.manifest.read import Snapshot
from omnigraph.plan import ops
from omnigraph.plan.check import check_read
from omnigraph.plan.explain import Explanation, explain
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import TypedRead
from omnigraph.store.tables import Tables

QUERIES: Final = 256
"""Checked texts that are remembered."""
VIEWS: Final = 4
"""Snapshots whose tables are remembered: mostly the newest one is asked, again and again."""


class Ask(msgspec.Struct, frozen=True):
    """One call: which query of which text, with which parameters, at which instant."""

    source: Source
    name: str | None
    params: object
    now_ms: int


class Checked(msgspec.Struct, frozen=True):
    """A query that fits its schema."""

    tree: Read
    read: TypedRead
    types: frozenset[TypeId]
    """Whose rows it reads."""
    search: Syntax | None
    """The first call in it that nobody can run yet."""


class Queries:
    """Runs reads on snapshots of one graph."""

    def __init__(self, tables: Tables, topology: Topology, catalog_of: Callable[[Snapshot], Catalog]) -> None:
        self._opened: Final = Opened(tables, topology)
        self._surveyor: Final = Surveyor(tables)
        self._topology: Final = topology
        self._catalog_of: Final = catalog_of
        self._checked: OrderedDict[tuple[str, str | None, SchemaHash], Checked] = OrderedDict()
        self._views: OrderedDict[tuple[str | None, int], View] = OrderedDict()
        self._mutex = threading.Lock()

    def result(self, ask: Ask, snapshot: Snapshot, *, watch: Watch, route: ops.Route | None = None, held_bytes: int = HELD_BYTES) -> Result:
        """With `route` every link is followed that way; the answer is the same. `held_bytes` bounds what it may hold."""
        view = self._view(snapshot)
        checked, plan = self._plan(ask, view)
        table = self._run(ask, checked, plan, view, watch=watch, route=route, held_bytes=held_bytes)
        return Result(table, query_name=plan.name, branch=snapshot.branch.name, commit_id=snapshot.commit)

    def explanation(self, ask: Ask, snapshot: Snapshot, *, run_with: Watch | None = None) -> Explanation:
        """The plan; with `run_with` it is run within those limits, and what each step did stands beside the guesses."""
        view = self._view(snapshot)
        with located(ask.source):
            types = self._check(ask, snapshot).types
        notes = self._surveyor.damage(snapshot, types)  # before the plan, which leaves a damaged index out
        checked, plan = self._plan(ask, view)
        if run_with is None:
            return explain(plan, notes=notes)
        recorder = Recorder()
        self._run(ask, checked, plan, view, watch=run_with, recorder=recorder)
        return explain(plan, notes=notes, measured=recorder.measured)

    def _run(
        self,
        ask: Ask,
        checked: Checked,
        plan: ops.ReadPlan,
        view: View,
        *,
        watch: Watch,
        route: ops.Route | None = None,
        held_bytes: int = HELD_BYTES,
        recorder: Recorder | None = None,
    ) -> pa.Table:
        if checked.search is not None:
            raise _unsupported(checked.search, ask.source)
        try:
            return run(plan, view, watch=watch, route=route, held_bytes=held_bytes, recorder=recorder)
        except ResourceLimitExceeded as error:
            raise _placed(error, checked.tree, ask.source) from error

    def _view(self, snapshot: Snapshot) -> View:
        key = (snapshot.branch.native, snapshot.version)
        with self._mutex:
            if (known := self._views.get(key)) is not None:
                self._views.move_to_end(key)
                return known
        view = View(snapshot, self._catalog_of(snapshot), self._opened, self._topology)
        with self._mutex:
            self._views[key] = view
            while len(self._views) > VIEWS:
                self._views.popitem(last=False)
        return view

    def _plan(self, ask: Ask, view: View) -> tuple[Checked, ops.ReadPlan]:
        with located(ask.source):
            checked = self._check(ask, view.snapshot)
            parameters = bind_parameters(checked.read.parameters, ask.params)
            catalog = self._catalog_of(view.snapshot)
            statistics = self._surveyor.statistics(
                view.snapshot,
                catalog,
                types=checked.types,
                availability=view.availability,
                spent_ms=view.spent_ms,
                known=view.known_edges,
            )
            return checked, plan_read(checked.read, parameters, now_ms=ask.now_ms, statistics=statistics)

    def _check(self, ask: Ask, snapshot: Snapshot) -> Checked:
        key = (ask.source.text, ask.name, snapshot.state.head.schema)
        with self._mutex:
            if (known := self._checked.get(key)) is not None:
                self._checked.move_to_end(key)
                return known
        query = select_query(parse_queries(ask.source.text, name=ask.source.name), ask.name)
        catalog = self._catalog_of(snapshot)
        read = check_read(query, catalog)
        assert isinstance(query.body, Read)
        checked = Checked(query.body, read, frozenset(type_.id for type_ in touched(read, catalog).reads), next(_searches(query), None))
        with self._mutex:
            self._checked[key] = checked
            while len(self._checked) > QUERIES:
                self._checked.popitem(last=False)
        return checked


_SEARCHES: Final = {Nearest: "nearest", Bm25: "bm25", Rrf: "rrf", Search: "search", Fuzzy: "fuzzy", MatchText: "match_text"}


def _unsupported(call: Syntax, source: Source) -> Unsupported:
    """Rankings and text search are planned and explained, but nobody runs them yet."""
    at, name = source.position(call.span.start), _SEARCHES[type(call)]
    return Unsupported(
        Kind.UNSUPPORTED,
        f"{name}() at line {at.line}, column {at.column} cannot be run yet; leave it out, or ask for the plan only",
        line=at.line,
        column=at.column,
        function=name,
    )


def _placed(error: ResourceLimitExceeded, tree: Read, source: Source) -> ResourceLimitExceeded:
    """The error with the place of the clause that asked for too much."""
    part = {Clause.MATCH: tree.match, Clause.RETURN: tree.returns, Clause.ORDER: tree.order}[Clause(str(error.facts["clause"]))]
    at = source.position(part[0].span.start)
    message = f"{error.message} ({error.facts['clause']}, line {at.line}, column {at.column})"
    return ResourceLimitExceeded(error.kind, message, **{**error.facts, "line": at.line, "column": at.column})


def _searches(tree: object) -> Iterator[Syntax]:
    """The calls of search functions in a tree, in the order in which they stand."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from _searches(item)
    elif isinstance(tree, Syntax):
        if type(tree) in _SEARCHES:
            yield tree
        for field in tree.__struct_fields__:
            yield from _searches(getattr(tree, field))
