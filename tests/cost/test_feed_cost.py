"""What the change feed costs in storage calls: nothing if there is nothing new, and else what changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.exec.engine import Engine
from omnigraph.exec.feed import chain, follow
from omnigraph.graph import Graph
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.model import Commit, read_commits
from omnigraph.store.ledger import Ledger
from omnigraph.store.objects import open_objects
from omnigraph.store.root import FSYNC_ENVIRONMENT, Root
from tests.counting import CountingObjects, reads_of
from tests.mutations import run
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }\nnode Film { slug: String @key }\nedge Knows: Person -> Person"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def graph_of(place: Path, *, rows: int) -> Graph:
    graph = og.init(place, schema=SCHEMA)
    names = [f"p{at:07}" for at in range(rows)]
    graph.load({"Person": pa.table({"name": names, "age": pa.array([1] * rows, pa.int32()), "note": [f"about {name}" for name in names]})})
    return graph


def counted(uri: str) -> tuple[Graph, CountingObjects]:
    objects = CountingObjects(open_objects(uri))
    return Graph(Engine(open_graph(Root(objects))), mode="r", actor=None), objects


def test_a_poll_without_new_commits_reads_no_data(tmp_path: Path) -> None:
    """K-16: A poll that is caught up looks at the head and reads nothing, after any number of commits; a poll reads only the commits
    that it shows."""
    for commits in (2, 60):
        graph = graph_of(tmp_path / str(commits), rows=10)
        for at in range(commits):
            run(graph, f'update Person set {{ age: {at} }} where name = "p0000001"')
        graph.branches.create("work")
        reader, objects = counted(graph.uri)
        for branch, gets in (("main", 0), ("work", 1)):
            cursor = reader.changes.poll(branch=branch).cursor
            ledger = reader.engine.manifest.look()[1]
            reads_of(ledger)
            objects.calls.clear()
            assert reader.changes.poll(cursor, branch=branch).caught_up
            assert reads_of(ledger) == 0
            assert objects.calls["get"] == gets, "the object of the branch says whether it is still the same branch"
            assert objects.calls["list"] == 0


def test_a_poll_reads_the_commits_that_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(tmp_path / "g", rows=10)
    for at in range(40):
        run(graph, f'update Person set {{ age: {at} }} where name = "p0000001"')
    decoded: list[Commit] = []

    def reading(rows: pa.Table) -> list[Commit]:
        found = read_commits(rows)
        decoded.extend(found)
        return found

    monkeypatch.setattr(chain, "read_commits", reading)
    cursor = graph.changes.poll(start="beginning", max_commits=1).cursor
    decoded.clear()
    assert len(graph.changes.poll(cursor, max_commits=1).blocks) == 1
    assert len(decoded) == 1


def page_cost(uri: str, cursor: str | None) -> tuple[int, int, int]:
    """Reads, bytes and opened tables of the page of one change, in a process that has read nothing but the head."""
    reader = og.open(uri, mode="r")
    dataset = reader.engine.manifest.look()[1].as_table().dataset
    dataset.io_stats_incremental()
    (block,) = reader.changes.poll(cursor).blocks
    assert len(block.changes) == 1
    stats = dataset.io_stats_incremental()
    return stats.read_iops, stats.read_bytes, len(reader.engine.tables._open)


def test_a_page_of_one_change_reads_what_changed(tmp_path: Path) -> None:
    """K-15: A page opens each changed table twice at most, and no other; what it reads does not grow with the table."""
    costs = []
    for rows in (10_000, sample(100_000, whole=1_000_000)):
        graph = graph_of(tmp_path / str(rows), rows=rows)
        found = []
        for text in (
            'update Person set { age: 2 } where name = "p0000007"',
            'delete Person where name = "p0000008"',
            'insert Person { name: "new" }',
        ):
            cursor = graph.changes.poll().cursor
            run(graph, text)
            found.append(page_cost(graph.uri, cursor))
        costs.append(found)
    for small, large in zip(*costs, strict=True):
        assert large[0] <= small[0] + 4, costs
        assert large[1] <= 1_000_000, costs
        assert large[2] <= 2, "the tables that did not change are not opened"


def test_a_compaction_is_not_read(tmp_path: Path) -> None:
    """The page of a commit that moves rows is empty, and costs the same for any number of rows (D-11)."""
    graph = graph_of(tmp_path / "g", rows=20_000)
    for at in range(5):
        run(graph, f'insert Person {{ name: "new-{at}" }}')
    cursor = graph.changes.poll().cursor
    graph.optimize()
    reader = og.open(graph.uri, mode="r")
    dataset = reader.engine.manifest.look()[1].as_table().dataset
    dataset.io_stats_incremental()
    blocks = reader.changes.poll(cursor).blocks
    assert [block.cause.kind for block in blocks][-1] == "optimize"
    assert [block.changes for block in blocks] == [()] * len(blocks)
    assert dataset.io_stats_incremental().read_bytes <= 100_000
    run(graph, 'update Person set { age: 3 } where name = "new-3"')
    (change,) = reader.changes.poll(reader.changes.poll(cursor, max_commits=len(blocks)).cursor).blocks[0].changes
    assert change.id == "new-3"


def test_the_pages_of_a_large_commit_do_not_read_all_of_it_each(tmp_path: Path) -> None:
    """A handle that goes on inside a commit reads the ids of its changes once, and the rows of each page."""
    rows = 50_000
    graph = graph_of(tmp_path / "g", rows=rows)
    commit = graph.snapshot().commit_id
    dataset = graph.engine.manifest.look()[1].as_table().dataset
    page = graph.changes.commit(commit, limit=10)
    costs = []
    for _ in range(4):
        dataset.io_stats_incremental()
        page = graph.changes.commit(commit, page=page.next_page, limit=10)
        costs.append(dataset.io_stats_incremental().read_bytes)
    assert max(costs[1:]) <= 200_000, costs


def test_a_follower_waits_with_probes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that waits reads nothing of the graph, and waits longer each time."""
    graph = graph_of(tmp_path / "g", rows=10)
    reader, objects = counted(graph.uri)
    reader.changes.poll()
    looks = 0
    newest = Ledger.newest_version

    def probe(ledger: Ledger) -> int:
        nonlocal looks
        looks += 1
        return newest(ledger)

    monkeypatch.setattr(Ledger, "newest_version", probe)
    ledger = reader.engine.manifest.look()[1]
    pages = reader.changes.follow(wait=1.0)
    next(pages)
    reads_of(ledger)
    objects.calls.clear()
    looks = 0
    assert list(pages) == []
    assert reads_of(ledger) == 0
    assert objects.calls["get"] == objects.calls["list"] == 0
    assert 2 <= looks <= 9, f"{follow.SHORTEST_WAIT_SECONDS} s at first, doubled each time"
