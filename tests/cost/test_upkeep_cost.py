"""What a long history costs when upkeep is on: as many storage reads as a short one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.counting import reads_of
from tests.mutations import run
from tests.samples import is_whole, sample

SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"
SHORT = 50
LONG = sample(210, whole=5_000)
LOOKED_AT = 24
"""The reads are the most of so many commits in a row: they vary with the fragments that a write folds. Each commit is asked one of the
queries, which then profits from nothing that another has read.
"""
SLACK = 4

RUNS = 3
"""How often each query runs after a commit, and before the first one: a read by key may load a column in its second run, and a hop look
its edges up at first, and then extend the adjacency of the commit before.
"""
HOP, MOST_OF_A_HOP = 2, 12
"""A hop reads the new fragments. It read every fragment that no index covers, four times: 16 to 28 reads, after other queries had read some
of them. After those it is at most 10 now; as the first query on a commit, 11.
"""
QUERIES = (
    'query key() { match { $p: Person { name: "base7" } } return { $p.age } }',
    "query value() { match { $p: Person { age: 7 } } return { $p.name } }",
    'query hop() { match { $p: Person { name: "p7" } $p knows $x } return { $x.name } }',
    "query back() { match { $p: Person { age: 7 } $x knows $p } return { $x.name } }",
)


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


class Reads(NamedTuple):
    """The most reads of a write, and of each query on a commit of its own, in any of its runs."""

    write: int
    queries: tuple[int, ...]


def commit(graph: Graph, at: int) -> None:
    run(graph, f'insert Person {{ name: "p{at}", age: {at % 100} }} insert Knows {{ from: "p{at}", to: "base{at % 200}" }}')


def counted(graph: Graph, act: Callable[[], object]) -> int:
    ledger = graph.engine.manifest.look()[1]
    reads_of(ledger)
    act()
    return reads_of(ledger)


def looked_at(graph: Graph, first: int) -> Reads:
    writes: list[int] = []
    reads = [0] * len(QUERIES)
    for query in QUERIES * RUNS:
        graph.query(query)
    for at in range(first, first + LOOKED_AT):
        spent = counted(graph, partial(commit, graph, at))
        if graph.commits(limit=1)[0].kind is not CommitKind.OPTIMIZE:  # without an upkeep of its own
            writes.append(spent)
        asked = at % len(QUERIES)
        reads[asked] = max(reads[asked], *(counted(graph, partial(graph.query, QUERIES[asked])) for _ in range(RUNS)))
    return Reads(max(writes), tuple(reads))


@pytest.mark.parametrize("indexed", [True, False] if is_whole() else [True], ids=lambda indexed: "indexed" if indexed else "no index")
def test_a_long_history_costs_no_more_reads_than_a_short_one(tmp_path: Path, *, indexed: bool) -> None:
    """K-09: with upkeep on, reads per write and per warm read do not grow with the number of small commits."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Person": pa.table({"name": [f"base{n}" for n in range(200)], "age": pa.array(range(200), pa.int32())})})
    if indexed:
        graph.ensure_indices()
    for at in range(SHORT - LOOKED_AT):
        commit(graph, at)
    short = looked_at(graph, SHORT - LOOKED_AT)
    for at in range(SHORT, LONG - LOOKED_AT):
        commit(graph, at)
    long = looked_at(graph, LONG - LOOKED_AT)
    assert sum(commit_.kind is CommitKind.OPTIMIZE for commit_ in graph.commits()) >= LONG // 64 - 2
    assert long.write <= short.write + SLACK, (short, long)
    assert all(after <= before + SLACK for before, after in zip(short.queries, long.queries, strict=True)), (short, long)
    assert long.queries[HOP] <= MOST_OF_A_HOP, (short, long)


def test_a_commit_that_only_moves_rows_is_shown_without_reading_them(tmp_path: Path) -> None:
    """D-11: neither rows nor fragments are compared."""
    counts = []
    for rows in (2, 5_000):
        graph = og.init(tmp_path / str(rows), schema=SCHEMA)
        for part in range(3):
            graph.load({"Person": pa.table({"name": [f"p{part}-{n}" for n in range(rows)]})}, mode="append")
        found = graph.optimize().commit
        assert found is not None
        counts.append(counted(graph, partial(lambda graph, id_: list(graph.commit_changes(id_)), graph, found.id)))
    assert counts[0] == counts[1] <= 4


def test_optimize_reads_as_much_after_any_history(tmp_path: Path) -> None:
    """K-08: also `optimize`, with nothing to do and with the same work."""
    counts = []
    for commits in (10, 120):
        graph = og.init(tmp_path / str(commits), schema=SCHEMA)
        for at in range(commits):
            run(graph, f'insert Person {{ name: "p{at}", age: {at} }}')
        graph.optimize()
        run(graph, 'update Person set { age: 7 } where name = "p1"')
        counts.append((counted(graph, graph.optimize), counted(graph, graph.optimize)))
    assert all(after <= before + 8 for before, after in zip(*counts, strict=True)), counts
