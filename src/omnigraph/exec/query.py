"""A `.gq` text, parameters and a snapshot -> a plan, and its result. Texts are checked once a schema, not once a call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.exec.result import Result
from omnigraph.exec.run import run
from omnigraph.exec.view import Opened, View
from omnigraph.exec.watch import Watch
from omnigraph.ids import SchemaHash
from omnigraph.lang import Source, located, parse_queries, select_query
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


class Queries:
    """Runs reads on snapshots of one graph."""

    def __init__(self, tables: Tables, catalog_of: Callable[[Snapshot], Catalog]) -> None:
        self._opened: Final = Opened(tables)
        self._catalog_of: Final = catalog_of
        self._checked: OrderedDict[tuple[str, str | None, SchemaHash], TypedRead] = OrderedDict()
        self._mutex = threading.Lock()

    def result(self, ask: Ask, snapshot: Snapshot, *, watch: Watch) -> Result:
        view = View(snapshot, self._opened)
        plan = self._plan(ask, view)
        table = run(plan, view, watch=watch)
        return Result(table, query_name=plan.name, branch=snapshot.branch.name, commit_id=snapshot.commit)

    def explanation(self, ask: Ask, snapshot: Snapshot) -> Explanation:
        return explain(self._plan(ask, View(snapshot, self._opened)))

    def _plan(self, ask: Ask, view: View) -> ops.ReadPlan:
        with located(ask.source):
            read = self._read(ask, view.snapshot)
            return plan_read(read, bind_parameters(read.parameters, ask.params), now_ms=ask.now_ms)

    def _read(self, ask: Ask, snapshot: Snapshot) -> TypedRead:
        key = (ask.source.text, ask.name, snapshot.state.head.schema)
        with self._mutex:
            if (known := self._checked.get(key)) is not None:
                self._checked.move_to_end(key)
                return known
        query = select_query(parse_queries(ask.source.text, name=ask.source.name), ask.name)
        read = check_read(query, self._catalog_of(snapshot))
        with self._mutex:
            self._checked[key] = read
            while len(self._checked) > QUERIES:
                self._checked.popitem(last=False)
        return read
