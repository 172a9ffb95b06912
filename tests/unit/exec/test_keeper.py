"""The keeper: a thread that optimizes when the manifest shows that it is due, and yields to writers."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.exec.upkeep.automatic import UPKEEP_ACTOR
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import hold
from omnigraph.store.fragments import fragments
from omnigraph.store.index import existing
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import rows, run, table

SCHEMA = "node Person { name: String @key  age: I32? @index }"
SOON = 0.02


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "g", schema=SCHEMA, auto_upkeep=False)


def people(graph: Graph, *names: str, branch: str = "main") -> None:
    for name in names:
        run(graph, f'insert Person {{ name: "{name}", age: {len(name)} }}', branch=branch)


def until(true: Callable[[], object], *, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


@contextmanager
def held(graph: Graph) -> Iterator[None]:
    """Another writer, on a thread of its own, holds the branch."""
    has, may_go = threading.Event(), threading.Event()

    def writer() -> None:
        with hold(graph.engine.manifest, MAIN):
            has.set()
            may_go.wait(60)

    thread = threading.Thread(target=writer)
    thread.start()
    has.wait(60)
    try:
        yield
    finally:
        may_go.set()
        thread.join()


def test_it_optimizes_what_is_due_and_leaves_the_rest(graph: Graph) -> None:
    """G-17: a keeper compacts and indexes a table, on every branch, after so many commits, and not before."""
    people(graph, "Ada", "Bob")
    graph.branches.create("work")
    keeper = graph.keep_tidy(every_seconds=SOON, after_commits=5)
    with keeper:
        until(lambda: keeper.running)
        time.sleep(5 * SOON)
        assert keeper.optimized == []
        people(graph, "Cy", "Dan", "Eve")
        until(lambda: len(keeper.optimized) == 1)
        people(graph, "Val", "Wim", "Xia", "Yan", "Zoe", branch="work")
        until(lambda: len(keeper.optimized) == 2)
    assert (keeper.running, keeper.last_error) == (False, None)
    done = [(each.branch, each.commit.kind, each.commit.actor) for each in keeper.optimized if each.commit is not None]
    assert done == [("main", CommitKind.OPTIMIZE, UPKEEP_ACTOR), ("work", CommitKind.OPTIMIZE, UPKEEP_ACTOR)]
    assert len(fragments(table(graph, "node:Person"))) == 1
    assert {index.uncovered_rows for index in existing(table(graph, "node:Person"))} == {0}
    assert (len(rows(graph, "node:Person")), len(rows(graph, "node:Person", branch="work"))) == (5, 7)
    assert graph.verify() == []


def test_it_yields_to_writers(graph: Graph) -> None:
    """G-17: while a writer holds the branch it does nothing, and never waits."""
    people(graph, "Ada", "Bob", "Cy")
    keeper = graph.keep_tidy(after_commits=1)
    other = og.open(graph.uri, auto_upkeep=False)
    with held(other):
        keeper.tidy(graph.engine)
        assert (keeper.optimized, keeper.last_error) == ([], None)
    keeper.tidy(graph.engine)
    assert len(keeper.optimized) == 1
    keeper.tidy(graph.engine)
    assert len(keeper.optimized) == 1


def test_it_ends_with_the_graph(graph: Graph) -> None:
    first = graph.keep_tidy(every_seconds=SOON).start()
    assert first.start() is first
    graph.close()
    until(lambda: not first.running)
    other = og.open(graph.uri)
    second = other.keep_tidy(every_seconds=SOON).start()
    until(lambda: second.running)
    del other
    gc.collect()
    until(lambda: not second.running)
    second.stop()


def test_a_damaged_branch_does_not_end_it(graph: Graph) -> None:
    """The error is kept, and the other branches are optimized."""
    people(graph, "Ada", "Bob")
    keeper = graph.keep_tidy(["gone", "main"], after_commits=1)
    keeper.tidy(graph.engine)
    assert keeper.last_error is not None
    assert (keeper.last_error.kind, len(keeper.optimized)) == (Kind.BRANCH_NOT_FOUND, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"every_seconds": 0},
        {"every_seconds": float("nan")},
        {"every_seconds": float("inf")},
        {"every_seconds": 1e300},
        {"after_commits": 0},
        {"branches": "main"},
        {"branches": [""]},
        {"branches": ["no/"]},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(graph: Graph, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        graph.keep_tidy(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_a_reader_keeps_nothing(graph: Graph) -> None:
    with pytest.raises(Unsupported):
        og.open(graph.uri, mode="r").keep_tidy()
