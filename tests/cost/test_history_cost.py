"""What differences cost in storage calls: they follow the difference, neither the rows nor the commits that both sides share."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.exec.history import pairs
from omnigraph.graph import Graph
from omnigraph.store import difference
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.counting import reads_of
from tests.mutations import run
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def graph_of(place: Path, *, rows: int) -> Graph:
    graph = og.init(place, schema=SCHEMA)
    graph.load({"Person": pa.table({"name": [f"p{at:06}" for at in range(rows)], "age": pa.array([1] * rows, pa.int32())})})
    return graph


def diff_reads(uri: str) -> int:
    """The reads of a diff in a process that has read both branches, but no table."""
    graph = og.open(uri, mode="r")
    graph.snapshot("work")
    ledger = graph.engine.manifest.look()[1]
    reads_of(ledger)
    assert len(list(graph.diff("main", "work"))) == 1
    return reads_of(ledger)


def changed(graph: Graph, *, first: int = 0) -> None:
    graph.branches.create("work")
    run(graph, f'update Person set {{ age: 2 }} where name = "p{first:06}"', branch="work")


def test_a_diff_reads_the_difference(tmp_path: Path) -> None:
    counts = []
    for rows in (1_000, 100_000):
        graph = graph_of(tmp_path / str(rows), rows=rows)
        changed(graph)
        counts.append(diff_reads(graph.uri))
    assert counts[1] <= counts[0] + 2


def test_shared_fragments_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(tmp_path / "g", rows=100_000)
    graph.branches.create("work")
    run(graph, 'delete Person where name = "p000007"', branch="work")

    def no_scan(*_: object) -> None:
        raise AssertionError("a fragment that both sides share is scanned")

    for module in (difference, pairs):
        monkeypatch.setattr(module, "scan_fragments", no_scan)
    assert [change.id for change in graph.diff("main", "work")] == ["p000007"]


def test_a_diff_does_not_grow_with_the_commits(tmp_path: Path) -> None:
    """Small fragments are folded as they come, so the reads vary with the commits since the last fold, up to a bound."""
    counts = []
    for commits in (10, 100, sample(200, whole=1_000)):
        graph = graph_of(tmp_path / str(commits), rows=100)
        for at in range(commits):
            run(graph, f'update Person set {{ age: {at} }} where name = "p000001"')
        changed(graph)
        counts.append(diff_reads(graph.uri))
    assert max(counts) <= counts[0] + 14, counts  # the commits with the recorded checksums, which both branches share, are read once


def merge_reads(uri: str) -> int:
    """The reads of a merge in a process that has read both branches, but no table."""
    graph = og.open(uri)
    graph.snapshot("work")
    ledger = graph.engine.manifest.look()[1]
    reads_of(ledger)
    assert graph.merge("work").updated == 1
    return reads_of(ledger)


def test_a_merge_reads_the_difference(tmp_path: Path) -> None:
    """K-12: The reads of a merge follow the difference, not the rows."""
    counts = []
    for rows in (1_000, 100_000):
        graph = graph_of(tmp_path / str(rows), rows=rows)
        changed(graph)
        run(graph, 'insert Person { name: "new" }')
        counts.append(merge_reads(graph.uri))
    assert counts[1] <= counts[0] + 8, counts


def test_a_merge_does_not_grow_with_the_commits(tmp_path: Path) -> None:
    """K-13: The reads of a merge are bounded, whatever the number of commits.

    They vary with the commits since the last folds and the last upkeep: 29 after 10 commits, 34 to 39 after 100, 40 to 48 after 1,000.
    """
    counts = []
    for commits in (10, 100, sample(200, whole=1_000)):
        graph = graph_of(tmp_path / str(commits), rows=100)
        for at in range(commits):
            run(graph, f'update Person set {{ age: {at} }} where name = "p000001"')
        changed(graph)
        run(graph, 'insert Person { name: "new" }')
        counts.append(merge_reads(graph.uri))
    assert max(counts) <= counts[0] + 22, counts


def test_a_merge_reads_changed_rows_once(tmp_path: Path) -> None:
    """Neither the histories that this process wrote are read, nor the rows of the source more than once, nor those of the target."""
    graph = graph_of(tmp_path / "g", rows=10_000)
    graph.ensure_indices()
    ledger = graph.engine.manifest.look()[1]
    for turn in range(4):
        graph.branches.create(f"work-{turn}")
        for side, branch in enumerate((f"work-{turn}", "main")):
            names = [f"p{at * 10 + 2 * turn + side:06}" for at in range(1_000)]
            graph.load({"Person": pa.table({"name": names, "age": pa.array([turn + 10] * 1_000, pa.int32())})}, branch=branch)
        reads_of(ledger)
        assert graph.merge(f"work-{turn}").updated == 1_000
        assert reads_of(ledger) <= 20


def bytes_across_a_compaction(place: Path, *, rows: int) -> tuple[int, int]:
    """The bytes that a diff and a merge read of a branch and a target whose rows were all rewritten since."""
    graph = og.init(place, schema=SCHEMA)
    for part in range(4):
        names = [f"p{at:06}" for at in range(part, rows, 4)]
        graph.load({"Person": pa.table({"name": names, "age": pa.array([1] * len(names), pa.int32())})}, mode="append")
    run(graph, 'delete Person where name = "p000009"')
    changed(graph, first=5)
    before = graph.commits()[0].id
    assert graph.optimize().tables[0].rows_rewritten == rows - 1
    run(graph, 'update Person set { age: 3 } where name = "p000001"')
    run(graph, 'delete Person where name = "p000002"')
    reader = og.open(place)
    reader.snapshot("work")
    dataset = reader.engine.manifest.look()[1].as_table().dataset
    dataset.io_stats_incremental()
    assert [(change.op, change.id) for change in reader.diff(before, "main")] == [("update", "p000001"), ("delete", "p000002")]
    diffed = int(dataset.io_stats_incremental().read_bytes)
    merged = reader.merge("work")
    assert (merged.inserted, merged.updated, merged.deleted) == (0, 1, 0)
    return diffed, int(dataset.io_stats_incremental().read_bytes)


def test_differences_across_a_compaction_read_what_changed(tmp_path: Path) -> None:
    """K-12: an optimize of all rows between both sides is no reason to read them: it records which rows it moved where."""
    few, many = (bytes_across_a_compaction(tmp_path / str(rows), rows=rows) for rows in (6_000, 60_000))
    assert all(more <= less + 20_000 for less, more in zip(few, many, strict=True)), (few, many)
