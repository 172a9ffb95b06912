"""Upkeep by itself: the writer that leaves too many small fragments puts them together, in a commit of its own."""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Kind, StorageError
from omnigraph.exec.upkeep.automatic import MOST_FRAGMENTS, UPKEEP_ACTOR, small_uncovered
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest.model import Commit, CommitKind
from omnigraph.manifest.publish import hold
from omnigraph.store.fragments import fragments
from omnigraph.store.index import existing
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import rows, run, table

SCHEMA = "node Scan { slug: String @key  page: Blob? }\nnode Note { text: String @key }"
PAGE = b"x" * 400_000
"""Three of them are too large for a write to fold."""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def scans(graph: Graph, first: int, last: int, *, branch: str = "main") -> None:
    for n in range(first, last):
        rows_ = pa.table({"slug": [f"s{n}"], "page": pa.array([PAGE], pa.large_binary())})
        graph.load({"Scan": rows_}, mode="append", branch=branch)


def upkeep(graph: Graph, *, branch: str = "main") -> list[Commit]:
    return [commit for commit in graph.commits(branch) if commit.kind is CommitKind.OPTIMIZE]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = og.init(tmp_path_factory.mktemp("crowd") / "g", schema=SCHEMA, auto_upkeep=False)
    scans(graph, 0, 1)
    graph.ensure_indices()
    scans(graph, 1, 1 + MOST_FRAGMENTS)
    return Path(graph.uri)


@pytest.fixture
def crowded(crowd: Path, tmp_path: Path) -> Graph:
    """A graph with as many small fragments as a table may have, left by a writer that tidies nothing."""
    return og.open(shutil.copytree(crowd, tmp_path / "g"))


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


def test_the_writer_that_leaves_too_many_small_fragments_tidies_them(crowded: Graph) -> None:
    """G-17: After 64 small commits on a table, a writer puts the small fragments together and covers them, in a commit of its own."""
    graph = crowded
    assert (upkeep(graph), small_uncovered(table(graph, "node:Scan"))) == ([], MOST_FRAGMENTS)
    run(graph, 'insert Note { text: "another table" }')
    assert upkeep(graph) == []
    receipt = graph.load({"Scan": pa.table({"slug": ["last"], "page": pa.array([PAGE], pa.large_binary())})}, mode="append")
    (commit,) = upkeep(graph)
    assert receipt.commit is not None
    assert (commit.parents, commit.actor) == ((receipt.commit.id,), UPKEEP_ACTOR)
    assert len(fragments(table(graph, "node:Scan"))) <= 3
    assert {index.uncovered_rows for index in existing(table(graph, "node:Scan"))} == {0}
    assert set(rows(graph, "node:Scan")) == {"last", *(f"s{n}" for n in range(1 + MOST_FRAGMENTS))}
    assert list(graph.commit_changes(commit.id)) == []
    scans(graph, 100, 105)
    assert len(upkeep(graph)) == 1
    assert graph.verify() == []


def test_small_commits_are_tidied_time_and_again(tmp_path: Path) -> None:
    """G-17: ordinary small commits, which writes fold as they come."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for n in range(2 * MOST_FRAGMENTS + 4):
        run(graph, f'insert Note {{ text: "{n}" }}')
    found = upkeep(graph)
    assert len(found) == 2
    assert {change.alias for commit in found for change in commit.tables} == {"node:Note"}
    assert len(rows(graph, "node:Note")) == 2 * MOST_FRAGMENTS + 4
    assert len(fragments(table(graph, "node:Note"))) < 6


def test_a_chain_of_conditional_writes_does_not_notice_it(tmp_path: Path) -> None:
    """C-18: a write that expects the commit of the write before succeeds, although upkeep has made another since."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    last: str | None = None
    for n in range(MOST_FRAGMENTS + 4):
        receipt = run(graph, f'insert Note {{ text: "{n}" }}', if_commit=last)
        assert receipt.commit is not None
        last = receipt.commit.id
    assert len(upkeep(graph)) == 1
    graph.optimize()
    first = graph.commits()[-2].id
    with pytest.raises(og.PreconditionFailed):
        run(graph, 'insert Note { text: "late" }', if_commit=first)
    run(graph, 'insert Note { text: "next" }', if_commit=last)


def test_it_can_be_turned_off(crowded: Graph) -> None:
    graph = og.open(crowded.uri, auto_upkeep=False)
    for handle in (graph, pickle.loads(pickle.dumps(graph))):
        scans(handle, 100 + len(graph.commits()), 101 + len(graph.commits()))
        assert upkeep(graph) == []
    scans(og.open(crowded.uri), 200, 201)
    assert len(upkeep(graph)) == 1


def test_a_waiting_writer_comes_first(crowded: Graph) -> None:
    """G-17: it is skipped while another writer waits for the branch."""
    graph = crowded
    scans(og.open(crowded.uri, auto_upkeep=False), 100, 101)
    commit = graph.commits()[0]
    other = og.open(crowded.uri)
    assert graph.engine.after_write is not None
    with held(other):
        graph.snapshot()
        graph.engine.after_write(graph.engine, commit)
        assert upkeep(graph) == []
    graph.engine.after_write(graph.engine, commit)
    assert len(upkeep(graph)) == 1


def test_its_failure_is_not_that_of_the_write(crowded: Graph) -> None:
    """G-17: the write has succeeded, and the tables are as they were."""
    graph = crowded
    with armed(Fault.WRITE_BETWEEN_COMMITS, failure=StorageError(Kind.STORAGE, "the disk is gone")):
        scans(graph, 100, 101)
    assert upkeep(graph) == []
    assert len(rows(graph, "node:Scan")) == MOST_FRAGMENTS + 2
    scans(graph, 101, 102)
    assert len(upkeep(graph)) == 1
    assert graph.verify() == []


def test_a_branch_tidies_its_own(crowded: Graph) -> None:
    graph = crowded
    graph.branches.create("work")
    scans(graph, 100, 101, branch="work")
    assert (len(upkeep(graph, branch="work")), upkeep(graph)) == (1, [])
    assert len(rows(graph, "node:Scan", branch="work")) == MOST_FRAGMENTS + 2


def test_a_transaction_is_tidied_when_it_ends(crowded: Graph) -> None:
    """Its private branch is not: it is gone soon."""
    graph = crowded
    with graph.transaction() as transaction:
        for n in range(3):
            transaction.load({"Scan": pa.table({"slug": [f"t{n}"], "page": pa.array([PAGE], pa.large_binary())})}, mode="append")
    kinds = [commit.kind for commit in graph.commits(limit=2)]
    assert kinds == [CommitKind.OPTIMIZE, CommitKind.TRANSACTION]
