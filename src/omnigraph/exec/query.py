"""A `.gq` text, parameters and a snapshot -> a plan, and its result. Texts are checked once a schema, not once a call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, Unsupported
from omnigraph.exec.result import Result
from omnigraph.exec.run import run
from omnigraph.exec.view import Opened, View
from omnigraph.exec.watch import Watch
from omnigraph.ids import SchemaHash
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Bm25, Fuzzy, MatchText, Nearest, Query, Rrf, Search
from omnigraph.lang.tree import Syntax
from omnigraph.manifest.read import Snapshot
from omnigraph.plan import ops
from omnigraph.plan.check import check_read
from omnigraph.plan.explain import Explanation, explain
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.typed import TypedRead
from omnigraph.store.tables import Tables

QUERIES: Final = 256
"""Checked texts that are remembered."""


class Ask(msgspec.Struct, frozen=True):
    """One call: which query of which text, with which parameters, at which instant."""

    source: Source
    name: str | None
    params: object
    now_ms: int


class Checked(msgspec.Struct, frozen=True):
    """A query that fits its schema, and the tree it was made from."""

    query: Query
    read: TypedRead


class Queries:
    """Runs reads on snapshots of one graph."""

    def __init__(self, tables: Tables, catalog_of: Callable[[Snapshot], Catalog]) -> None:
        self._opened: Final = Opened(tables)
        self._catalog_of: Final = catalog_of
        self._checked: OrderedDict[tuple[str, str | None, SchemaHash], Checked] = OrderedDict()
        self._mutex = threading.Lock()

    def result(self, ask: Ask, snapshot: Snapshot, *, watch: Watch) -> Result:
        view = View(snapshot, self._opened)
        plan = self._plan(ask, view)
        _refuse_search(self._check(ask, snapshot).query, ask.source)
        table = run(plan, view, watch=watch)
        return Result(table, query_name=plan.name, branch=snapshot.branch.name, commit_id=snapshot.commit)

    def explanation(self, ask: Ask, snapshot: Snapshot) -> Explanation:
        return explain(self._plan(ask, View(snapshot, self._opened)))

    def _plan(self, ask: Ask, view: View) -> ops.ReadPlan:
        with located(ask.source):
            read = self._check(ask, view.snapshot).read
            return plan_read(read, bind_parameters(read.parameters, ask.params), now_ms=ask.now_ms)

    def _check(self, ask: Ask, snapshot: Snapshot) -> Checked:
        key = (ask.source.text, ask.name, snapshot.state.head.schema)
        with self._mutex:
            if (known := self._checked.get(key)) is not None:
                self._checked.move_to_end(key)
                return known
        query = select_query(parse_queries(ask.source.text, name=ask.source.name), ask.name)
        checked = Checked(query, check_read(query, self._catalog_of(snapshot)))
        with self._mutex:
            self._checked[key] = checked
            while len(self._checked) > QUERIES:
                self._checked.popitem(last=False)
        return checked


_SEARCHES: Final = {Nearest: "nearest", Bm25: "bm25", Rrf: "rrf", Search: "search", Fuzzy: "fuzzy", MatchText: "match_text"}


def _refuse_search(query: Query, source: Source) -> None:
    """Rankings and text search are planned and explained, but nobody runs them yet."""
    call = next(_calls(query.body), None)
    if call is None:
        return
    at, name = source.position(call.span.start), _SEARCHES[type(call)]
    raise Unsupported(
        Kind.UNSUPPORTED,
        f"{source.name}:{at.line}:{at.column}: {name}() cannot be run yet; leave it out, or ask for the plan only",
        line=at.line,
        column=at.column,
        function=name,
    )


def _calls(tree: object) -> Iterator[Syntax]:
    """The calls of search functions in a tree, in the order in which they stand."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from _calls(item)
    elif isinstance(tree, Syntax):
        if type(tree) in _SEARCHES:
            yield tree
        for field in tree.__struct_fields__:
            yield from _calls(getattr(tree, field))
