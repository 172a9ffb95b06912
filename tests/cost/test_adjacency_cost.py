"""What an adjacency costs: it follows the change and the query, not the graph."""

from __future__ import annotations

from pathlib import Path

from omnigraph.exec.adjacency.topology import Topology
from omnigraph.store.tables import Tables
from tests.unit.exec.adjacency.test_topology import city
from tests.unit.exec.adjacency.town import Town


def bytes_read(town: Town, topology: Topology) -> int:
    """For the adjacency of now, by the counters that all handles on a table share."""
    handles = [Tables(town.root).open(row.ref).dataset for row in town.rows()[:2]]
    before = [handle.io_stats_snapshot().read_bytes for handle in handles]
    topology.adjacency(*town.rows())
    found: int = sum(handle.io_stats_snapshot().read_bytes for handle in handles) - sum(before)
    return found


def test_a_small_change_reads_only_itself(tmp_path: Path) -> None:
    town = city(tmp_path, people=4000, edges=50_000)
    topology = town.topology()
    whole = bytes_read(town, topology)
    assert whole > 100_000
    town.add_people(["new"])
    town.link([("one", "new", "p2")])
    assert bytes_read(town, topology) < whole / 20
    town.unlink(["e5"])
    town.touch_people(["p17"])
    assert bytes_read(town, topology) < whole / 4
    assert len(topology.adjacency(*town.rows())) == 50_000


def test_what_is_known_is_not_read_again(tmp_path: Path) -> None:
    town = city(tmp_path)
    assert bytes_read(town, town.topology()) > 0
    later = town.topology()
    later.availability(*town.rows())
    assert bytes_read(town, later) == 0, "another process reads the cache, not the tables"


def test_a_direction_is_turned_from_the_other_without_reading(tmp_path: Path) -> None:
    town = city(tmp_path)
    topology = town.topology()
    topology.adjacency(*town.rows())
    handles = [Tables(town.root).open(row.ref).dataset for row in town.rows()[:2]]
    before = [handle.io_stats_snapshot().read_bytes for handle in handles]
    topology.adjacency(*town.rows(), back=True)
    assert [handle.io_stats_snapshot().read_bytes for handle in handles] == before


def test_one_edge_type_builds_only_that_one(tmp_path: Path) -> None:
    """K-17: A query about one edge type builds the adjacency of that type only; a fresh branch builds none."""
    town = city(tmp_path, square=False)
    topology = town.topology()
    topology.adjacency(*town.rows())
    made = sorted(file.name.split("-")[0] + file.name.split("-")[1][:4] for file in town.cache.iterdir())
    assert made == ["edgescccc", "idsaaaa", "idsbbbb"]


def test_a_fresh_branch_builds_nothing(tmp_path: Path) -> None:
    """K-17: native branches that hold the same fragments share what was made from them."""
    town = city(tmp_path)
    topology = town.topology()
    first = topology.adjacency(*town.rows())
    files = sorted(town.cache.iterdir())
    town.branch("side-0000000000000000")
    assert topology.adjacency(*town.rows()) is first
    assert sorted(town.cache.iterdir()) == files
