"""The law of the feed: a baseline and every change after it, applied in order, is the export of the head."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from tests.feeds import Rows, apply, exported
from tests.mutations import run
from tests.samples import sample
from tests.unit.exec.feed.conftest import SCHEMA

NAMES = st.sampled_from("abcdef")
BRANCH = st.sampled_from(["main", "work"])
STEP = st.one_of(
    st.tuples(st.just("put"), BRANCH, NAMES, st.integers(0, 3)),
    st.tuples(st.just("link"), BRANCH, NAMES, st.integers(0, 3)),
    st.tuples(st.just("delete"), BRANCH, NAMES, st.just(0)),
    st.tuples(st.just("overwrite"), BRANCH, NAMES, st.integers(0, 3)),
    st.tuples(st.just("bulk"), BRANCH, NAMES, st.integers(1, 40)),
    st.tuples(st.sampled_from(["index", "optimize"]), BRANCH, NAMES, st.just(0)),
    st.tuples(st.just("property"), BRANCH, NAMES, st.integers(0, 3)),
    st.tuples(st.just("merge"), BRANCH, NAMES, st.just(0)),
    st.tuples(st.just("poll"), BRANCH, NAMES, st.integers(1, 5)),
    st.tuples(st.just("crash"), BRANCH, NAMES, st.integers(1, 5)),
)
OTHER = {"main": "work", "work": "main"}


class Copy:
    """A copy of a branch that knows only its baseline and the feed."""

    def __init__(self, graph: Graph, branch: str) -> None:
        self._graph, self._branch = graph, branch
        self.rows: Rows = exported(baseline := graph.changes.baseline(branch))
        self.cursor = baseline.cursor

    def poll(self, *, limit: int, keeps_cursor: bool = True) -> bool:
        """Read one page. A copy that does not keep the cursor has crashed after it applied the page."""
        page = self._graph.changes.poll(self.cursor, branch=self._branch, limit=limit, max_commits=limit)
        while page.cursor is None:
            apply(self.rows, page.blocks)
            page = self._graph.changes.poll(page=page.next_page, branch=self._branch, limit=limit)
        apply(self.rows, page.blocks)
        if keeps_cursor:
            self.cursor = page.cursor
        return page.caught_up


def take(graph: Graph, copies: dict[str, Copy], step: tuple[str, str, str, int]) -> None:
    what, branch, name, number = step
    person: dict[str, Any] = {"type": "Person", "data": {"name": name, "age": number}}
    match what:
        case "put":
            graph.load([person], branch=branch)
        case "link":
            edge = {"edge": "Knows", "from": name, "to": name, "data": {"id": f"{name}{number}"}}
            graph.load([person, edge], branch=branch)
        case "delete":
            run(graph, f'delete Person where name = "{name}"', branch=branch)
        case "overwrite":
            graph.load(list(graph.export(branch)) or [person], mode="overwrite", branch=branch)
        case "bulk":
            graph.load([{"type": "Film", "data": {"slug": f"film-{name}-{at}"}} for at in range(number)], branch=branch)
        case "index":
            graph.ensure_indices(branch)
        case "optimize":
            graph.optimize(branch)
        case "property":
            wanted = SCHEMA.replace("age: I32?", " ".join(["age: I32?", *(f"more{at}: I32?" for at in range(number))]))
            with suppress(og.Unsupported):
                graph.apply_schema(wanted, branch)
        case "merge":
            with suppress(MergeConflicts, og.ConflictError, og.Unsupported):
                graph.merge(OTHER[branch], branch)
        case _:
            try:
                copies[branch].poll(limit=number, keeps_cursor=what == "poll")
            except og.ConflictError:  # a property was dropped: the rules say to begin again
                copies[branch] = Copy(graph, branch)


@settings(max_examples=sample(10, whole=300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=2, max_size=12))
def test_baseline_and_replay_are_the_head(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, int]]) -> None:
    """Through loads, deletes, cascades, overwrites, index builds, compactions, schema changes and merges in both directions; pages of
    any size; pages that are applied twice."""
    graph = og.init(tmp_path_factory.mktemp("r") / "g", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "a", "age": 1}}])
    graph.branches.create("work")
    copies = {branch: Copy(graph, branch) for branch in OTHER}
    for step in steps:
        take(graph, copies, step)
    for branch, copy in copies.items():
        try:
            while not copy.poll(limit=3):
                pass
        except og.ConflictError:
            copy = Copy(graph, branch)
        assert copy.rows == exported(graph.export(branch))
