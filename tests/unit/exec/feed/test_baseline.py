"""The head of a branch -> its rows and the cursor after them; and pages that come when there are new commits."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice

import pytest

import omnigraph as og
from omnigraph.errors import ChangeCursorRejected, ConflictError, InvalidInput, Kind, NotFound
from omnigraph.exec.feed.pages import ChangePage
from omnigraph.graph import Graph
from omnigraph.store.leaving import LONGEST_SECONDS
from tests.feeds import apply, brief, every_page, exported
from tests.mutations import run


def add(graph: Graph, *names: str, branch: str = "main") -> None:
    graph.load([{"type": "Person", "data": {"name": name}} for name in names], branch=branch)


def test_a_baseline_is_the_head_and_its_cursor_is_right_after_it(graph: Graph) -> None:
    """D-25: A baseline is exactly the snapshot of the head, and the first block after its cursor is the next commit.

    A baseline that was not read to its end has no cursor.
    """
    add(graph, "a", "b")
    run(graph, 'insert Knows { from: "a", to: "b" }')
    baseline = graph.changes.baseline()
    head = graph.snapshot().commit_id
    add(graph, "later")
    with pytest.raises(InvalidInput) as caught:
        _ = baseline.cursor
    assert caught.value.kind is Kind.BASELINE_NOT_READ
    assert baseline.commit_id == head
    assert list(baseline) == list(graph.export(at=head))
    page = graph.changes.poll(baseline.cursor)
    assert brief(page.blocks) == [[("insert", "later")]]


def test_a_failing_sink_gets_no_cursor(graph: Graph) -> None:
    add(graph, "a", "b")
    baseline = graph.changes.baseline()

    def sink() -> None:
        for at, _ in enumerate(baseline):
            if at == 1:
                raise OSError("no space left")

    with pytest.raises(OSError):
        sink()
    with pytest.raises(InvalidInput):
        _ = baseline.cursor


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_baseline_is_read_once(graph: Graph, rows: int) -> None:
    """D-25: a second loop would lack the rows of the first, and must not end with a cursor; whether or not the first was whole."""
    add(graph, "a", "b")
    baseline = graph.changes.baseline()
    assert len(list(islice(baseline, rows))) == min(rows, 2)
    with pytest.raises(InvalidInput) as caught:
        list(baseline)
    assert caught.value.kind is Kind.BASELINE_NOT_READ
    if rows < 3:
        with pytest.raises(InvalidInput):
            _ = baseline.cursor
    else:
        assert graph.changes.poll(baseline.cursor).caught_up


def test_a_baseline_that_failed_has_no_cursor_when_it_is_read_again(graph: Graph) -> None:
    add(graph, "a")
    baseline = graph.changes.baseline()
    graph.load([{"type": "Person", "data": {"name": "a", "age": 1}}])
    graph.load([{"type": "Person", "data": {"name": "a", "age": 2}}])
    graph.cleanup(keep=1)
    with pytest.raises(NotFound) as gone:
        list(baseline)
    assert gone.value.kind is Kind.VERSION_RECLAIMED
    with pytest.raises(InvalidInput):
        list(baseline)
    with pytest.raises(InvalidInput):
        _ = baseline.cursor


def test_a_baseline_of_some_rows(graph: Graph) -> None:
    """`kinds` and `types` select rows; the cursor is for the same selection."""
    add(graph, "a")
    graph.load([{"type": "Film", "data": {"slug": "alien"}}])
    run(graph, 'insert Knows { from: "a", to: "a" }')
    baseline = graph.changes.baseline(kinds=["node"], types=["Person"], ops=["delete"])
    assert [line[:16] for line in baseline] == ['{"type":"Person"']
    with pytest.raises(ChangeCursorRejected):
        graph.changes.poll(baseline.cursor)
    assert graph.changes.poll(baseline.cursor, kinds=["node"], types=["Person"], ops=["delete"]).caught_up
    assert [line[:15] for line in graph.changes.baseline(kinds=["edge"])] == ['{"edge":"Knows"']
    with pytest.raises(InvalidInput):
        graph.changes.baseline(types=["Persons"])
    with pytest.raises(NotFound):
        graph.changes.baseline("nowhere")


def test_a_baseline_whose_branch_is_deleted_has_no_cursor(graph: Graph) -> None:
    add(graph, "a")
    graph.branches.create("work")
    add(graph, *(f"p{at}" for at in range(3)), branch="work")
    baseline = og.open(graph.uri, mode="r").changes.baseline("work")
    graph.branches.delete("work")
    with pytest.raises(NotFound) as caught:
        list(baseline)
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND
    with pytest.raises(InvalidInput):
        _ = baseline.cursor


def test_a_schema_boundary_is_passed_by_a_new_baseline(graph: Graph) -> None:
    """What the rules refuse to show, a reader gets over with a baseline."""
    add(graph, "a")
    rows = exported(baseline := graph.changes.baseline())
    cursor = baseline.cursor
    graph.apply_schema(graph.schema.replace("note: String?", ""))
    add(graph, "b")
    with pytest.raises(ConflictError):
        graph.changes.poll(cursor)
    rows = exported(baseline := graph.changes.baseline())
    add(graph, "c")
    for page in every_page(graph, cursor=baseline.cursor):
        apply(rows, page.blocks)
    assert rows == exported(graph.export())


def test_follow_waits_for_commits(graph: Graph) -> None:
    """A follower gets the pages that there are, then those of each new commit, from any handle, and ends after its wait."""
    add(graph, "a")
    first = graph.changes.poll(start="beginning").cursor
    writer = og.open(graph.uri)
    got: list[ChangePage] = []

    def write() -> None:
        for name in ("b", "c"):
            time.sleep(0.15)
            add(writer, name)

    thread = threading.Thread(target=write)
    thread.start()
    for page in graph.changes.follow(first, wait=20):
        got.append(page)
        if sum(len(page.blocks) for page in got) == 2:
            break
    thread.join()
    assert got[0].blocks == ()
    assert [block for page in got for block in brief(page.blocks)] == [[("insert", "b")], [("insert", "c")]]
    assert [page.caught_up for page in graph.changes.follow(got[-1].cursor, wait=0.05)] == [True]
    with pytest.raises(InvalidInput):
        graph.changes.follow(wait=-1)


def test_a_follower_can_be_cancelled(graph: Graph) -> None:
    stop = og.Cancellation()
    pages: Iterator[ChangePage] = graph.changes.follow(cancellation=stop)
    assert next(pages).caught_up
    threading.Timer(0.1, stop.cancel).start()
    began = time.monotonic()
    assert list(pages) == []
    assert time.monotonic() - began < 20


def test_a_follower_of_a_branch_that_is_replaced_is_refused(graph: Graph) -> None:
    graph.branches.create("work")
    pages = og.open(graph.uri, mode="r").changes.follow(branch="work")
    assert next(pages).caught_up
    graph.branches.delete("work")
    graph.branches.create("work")
    with pytest.raises(ChangeCursorRejected):
        next(pages)
    gone = og.open(graph.uri, mode="r").changes.follow(branch="work")
    next(gone)
    graph.branches.delete("work")
    with pytest.raises(NotFound):
        next(gone)


def test_a_follower_on_a_daemon_thread_does_not_hold_up_the_exit(graph: Graph) -> None:
    code = (
        "import sys, threading, time, omnigraph as og\n"
        "graph = og.open(sys.argv[1], mode='r')\n"
        "threading.Thread(target=lambda: list(graph.changes.follow()), daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print('leaving', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, graph.uri], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "leaving\n"
        began = time.monotonic()
        assert running.wait(60) == 0
        assert time.monotonic() - began < LONGEST_SECONDS / 2, "it is waited for only while it looks at the head"
