"""What `ensure_indices` costs in storage calls: it follows what is there to build, not the history."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.counting import reads_of
from tests.mutations import run
from tests.s3 import CountingProxy

PEOPLE = "node Person { name: String @key  born: I32? @index }\nedge Knows: Person -> Person"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def grow(graph: Graph, *, commits: int) -> None:
    """A history of small commits, each of them on the same few rows."""
    for n in range(commits):
        run(graph, f'update Person set {{ born: {n} }} where name = "Ada"')


def reads(graph: Graph) -> int:
    """The reads of a run on a handle that has written before, as a maintainer's has; tables and `__manifest` alike."""
    handles = [graph.engine.tables.open(row.ref).dataset for row in graph.engine.manifest.snapshot().state.tables.values()]
    _, ledger, _ = graph.engine.manifest.look()
    for dataset in handles:
        dataset.io_stats_incremental()
    reads_of(ledger)
    graph.ensure_indices()
    _, ledger, _ = graph.engine.manifest.look()
    found: int = sum(dataset.io_stats_incremental().read_iops for dataset in handles) + reads_of(ledger)
    return found


def test_reads_do_not_grow_with_history(tmp_path: Path) -> None:
    """K-08: Reads of `ensure_indices` do not grow with the history; a run that finds nothing to do reads nothing."""
    counted = []
    for commits in (10, 100):
        graph = og.init(tmp_path / str(commits), schema=PEOPLE)
        run(graph, 'insert Person { name: "Ada" }  insert Person { name: "Bob" }')
        run(graph, 'insert Knows { from: "Ada", to: "Bob" }')
        grow(graph, commits=commits)
        counted.append((reads(graph), reads(graph)))
    (building, idle), (building_later, idle_later) = counted
    assert building > 0, "the counter counts nothing"
    assert building_later <= building + 6
    assert (idle, idle_later) == (0, 0)


@pytest.mark.s3
def test_requests_on_s3_do_not_grow_with_history(s3_proxy: CountingProxy, s3_uri: str) -> None:
    """K-08: counted by a proxy in front of the server, on a handle just opened: what a nightly job would pay."""
    graph = og.init(s3_uri, schema=PEOPLE, storage_options=s3_proxy.storage_options)
    run(graph, 'insert Person { name: "Ada" }')
    graph.ensure_indices()
    counted = []
    for _ in range(2):
        grow(graph, commits=24)
        fresh = og.open(s3_uri, storage_options=s3_proxy.storage_options)
        s3_proxy.reset()
        assert fresh.ensure_indices().commit is None
        counted.append(sum(s3_proxy.counts.values()))
    assert 0 < counted[1] <= counted[0] + 6
