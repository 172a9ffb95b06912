"""Statistics come from the snapshot and from version files: they are true, and warm ones cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import omnigraph as og
from omnigraph.catalog import Catalog
from omnigraph.exec.read import table_statistics as known
from omnigraph.exec.read.table_statistics import AdjacencyState, Surveyor, live_tables, statistics_from, usable_columns
from omnigraph.graph import Graph
from omnigraph.ids import TypeId
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.statistics import Availability, EdgeStatistics, NodeStatistics, Statistics
from omnigraph.store.index import BuiltIndex, LanceIndexKind
from omnigraph.store.objects import open_objects
from omnigraph.store.root import Root, open_root
from omnigraph.store.tables import Tables
from tests.counting import CountingObjects
from tests.mutations import SOCIETY, build_indexes, run, table_row


def society(path: Path) -> Graph:
    """Two people, one film, three edges; an index on the people's names and on one edge type's ends."""
    graph = og.init(path / "g", schema=SOCIETY)
    run(graph, 'insert Person { name: "Ada" }  insert Person { name: "Bob" }  insert Film { slug: "alien", year: 1979 }')
    run(graph, 'insert Knows { from: "Ada", to: "Bob" }  insert Knows { from: "Bob", to: "Ada" }')
    run(graph, 'insert Likes { from: "Ada", to: "alien" }')
    build_indexes(graph, "node:Person", "id", "name")
    build_indexes(graph, "edge:Knows", "src", "dst")
    build_indexes(graph, "edge:Likes", "src")
    return graph


def ids(graph: Graph, *names: str) -> list[TypeId]:
    found = {type_.name: type_.id for type_ in (*graph.catalog.nodes, *graph.catalog.edges)}
    return [found[name] for name in names]


def statistics(
    surveyor: Surveyor,
    snapshot: BranchSnapshot,
    catalog: Catalog,
    types: list[TypeId],
    state_of: Callable[[TypeId], AdjacencyState] = lambda _: AdjacencyState(),
) -> Statistics:
    """The statistics of a snapshot for a query on these types."""
    tables = live_tables(snapshot.state)
    edges = [edge.id for edge in catalog.edges if edge.id in types]
    return statistics_from(catalog, tables, surveyor.facts(tables, types=types, edges=edges, state_of=state_of))


def test_statistics_tell_rows_indexes_degrees_and_ready_adjacencies(tmp_path: Path) -> None:
    """X-02: an index is claimed where one stands, and nowhere else."""
    graph = society(tmp_path)
    person, film, knows, likes = ids(graph, "Person", "Film", "Knows", "Likes")
    snapshot = graph.engine.manifest.snapshot()
    told = statistics(
        Surveyor(Tables(open_root(graph.uri))),
        snapshot,
        graph.catalog,
        [person, film, knows, likes],
        state_of=lambda edge: AdjacencyState(Availability.CACHE if edge == knows else Availability.MISSING),
    )
    assert told.node(person) == NodeStatistics(2, frozenset({"id", "name"}), frozenset({"id", "name"}))
    assert told.node(film) == NodeStatistics(1, frozenset(), frozenset({"id", "slug"}))
    assert told.edge(knows) == EdgeStatistics(2, 1.0, 1.0, Availability.CACHE, indexed=True, ends=4)
    assert told.edge(likes) == EdgeStatistics(1, 0.5, 1.0, indexed=False, ends=3)


def test_types_that_a_query_does_not_touch_are_counted_and_not_opened(tmp_path: Path) -> None:
    graph = society(tmp_path)
    person, film = ids(graph, "Person", "Film")
    told = statistics(Surveyor(Tables(open_root(graph.uri))), graph.engine.manifest.snapshot(), graph.catalog, [film])
    assert told.node(person) == NodeStatistics(2, frozenset(), frozenset({"id", "name"}))


def test_warm_statistics_make_no_storage_call(tmp_path: Path) -> None:
    """K-01: facts of a version never change, so they are looked up once, whatever has been closed since."""
    graph = society(tmp_path)
    types = ids(graph, "Person", "Film", "Knows", "Likes")
    objects = CountingObjects(open_objects(graph.uri))
    manifest = open_graph(Root(objects))
    tables = Tables(manifest.root)
    surveyor, snapshot = Surveyor(tables), manifest.snapshot()
    first = statistics(surveyor, snapshot, graph.catalog, types)
    opened = [tables.open(row.ref) for row in live_tables(snapshot.state).values()]
    objects.calls.clear()
    for table in opened:
        table.dataset.io_stats_incremental()
    assert statistics(surveyor, snapshot, graph.catalog, types) == first
    assert dict(objects.calls) == {}
    assert [table.dataset.io_stats_incremental().read_iops for table in opened] == [0] * len(opened)


def test_each_version_is_told_by_itself(tmp_path: Path) -> None:
    """A snapshot of the past is planned by the indexes of its day."""
    graph = society(tmp_path)
    (film,) = ids(graph, "Film")
    surveyor, before = Surveyor(Tables(open_root(graph.uri))), graph.engine.manifest.snapshot()
    assert statistics(surveyor, before, graph.catalog, [film]).node(film).indexed == frozenset()
    build_indexes(graph, "node:Film", "slug")
    after = graph.engine.manifest.snapshot()
    assert statistics(surveyor, after, graph.catalog, [film]).node(film).indexed == {"slug"}
    assert statistics(surveyor, before, graph.catalog, [film]).node(film).indexed == frozenset()


def test_few_versions_are_remembered_for_long(tmp_path: Path) -> None:
    graph = society(tmp_path)
    surveyor = Surveyor(Tables(open_root(graph.uri)))
    ref = table_row(graph, "node:Person").ref
    assert surveyor._survey(ref).columns.indexed == {"id", "name"}
    assert surveyor._survey(ref) is surveyor._survey(ref)
    assert len(surveyor._known) == 1 < known.KNOWN


def test_an_index_that_covers_too_little_is_not_counted_on() -> None:
    """X-03: the rows outside are scanned; while they are few, or a small part, the index still leads."""

    def usable(covered: int, uncovered: int, kind: LanceIndexKind | None = LanceIndexKind.BTREE) -> bool:
        return usable_columns([BuiltIndex("x", "name", kind, covered, uncovered)]) == {"name"}

    assert usable(0, 0)
    assert usable(0, 40_000)
    assert not usable(0, 40_001)
    assert usable(1_000_000, 100_000)
    assert not usable(1_000_000, 200_000)
    assert not usable(10, 0, LanceIndexKind.INVERTED)
    assert not usable(10, 0, None)
