"""What a repeated read costs in storage calls besides the rows themselves: one look whether anything is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE
from omnigraph.exec.engine import Engine
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.manifest.birth import open_graph
from omnigraph.store.objects import open_objects
from omnigraph.store.root import FSYNC_ENVIRONMENT, Root
from omnigraph.store.tables import Tables
from tests.counting import CountingObjects, reads_of
from tests.reads import acted, film, graph_of, knows, person, text_of

READS = [
    "match { $p: Person } return { $p.name }",
    'match { $p: Person { name: "a" }  $p actedIn $f } return { $p.name, $f.year, $f }',
    "match { $p: Person  $p knows{1,2} $q  $q actedIn $f } return { $p.name, count($f) as n } order { n desc } limit 5",
]


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing costs time, not storage calls."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


class Counted:
    """A graph whose control objects and manifest reads are counted, and that knows which tables are open."""

    def __init__(self, place: Path) -> None:
        graph_of(place, person("a"), person("b"), film("f"), knows("a", "b"), acted("b", "f"))
        self.objects = CountingObjects(open_objects(str(place / "graph.omni")))
        self.graph = Graph(Engine(open_graph(Root(self.objects))), mode="rw", actor=None)

    def read(self, body: str, *, branch: str = "main") -> None:
        self.graph.query(text_of(body), branch=branch)

    @property
    def open_tables(self) -> Tables:
        return self.graph.engine.tables

    def manifest_reads(self, branch: str = "main") -> int:
        _, ledger, _ = self.graph.engine.manifest.look(BranchName(branch))
        return reads_of(ledger)


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def handles(tables: Tables) -> set[int]:
    return {id(table) for table in tables._open.values()}


@pytest.mark.parametrize("body", READS)
def test_a_repeated_read_looks_once_and_opens_nothing(counted: Counted, body: str) -> None:
    """K-01, K-02: no object is asked for, no table is opened, however many tables the query reads."""
    counted.read(body)
    before = handles(counted.open_tables)
    counted.objects.calls.clear()
    for _ in range(3):
        counted.read(body)
    assert dict(counted.objects.calls) == {}
    assert handles(counted.open_tables) == before


def test_a_look_at_the_manifest_reads_nothing_when_nothing_is_new(counted: Counted) -> None:
    """K-01: A repeated read costs one version probe of the manifest and reads nothing of it."""
    counted.read(READS[0])
    counted.manifest_reads()
    counted.graph.engine.manifest.snapshot()
    assert counted.manifest_reads() == 0


def test_after_a_write_only_the_changed_table_is_opened_anew(counted: Counted) -> None:
    """K-02: A repeated read opens no table; after a write only the changed table is opened again."""
    counted.read(READS[2])
    before = {table.ref.path: table.ref for table in counted.open_tables._open.values()}
    counted.graph.mutate('query w() { insert Film { slug: "g" } }')
    counted.read(READS[2])
    after = {table.ref.path: table.ref for table in counted.open_tables._open.values()}
    changed = {path for path, ref in after.items() if before.get(path) != ref}
    assert changed == {counted.graph.snapshot().table("Film").path}  # type: ignore[union-attr]  # it is there


def test_a_repeated_read_of_a_branch_reads_the_branch_and_nothing_else(counted: Counted) -> None:
    """K-03: A repeated read of a branch reads its branch object and nothing else."""
    counted.graph.branches.create("work")
    counted.read(READS[1], branch="work")
    counted.objects.calls.clear()
    counted.read(READS[1], branch="work")
    assert dict(counted.objects.calls) == {"get": 1}


def test_a_fresh_branch_takes_the_adjacency_of_the_one_it_came_from(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K-17: the rows are the same, so nothing is built; and a query about one edge type builds that one only."""
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    fresh = Graph(Engine(open_graph(Root(open_objects(counted.graph.uri)))), mode="rw", actor=None)
    view = fresh.engine.view(fresh.engine.manifest.snapshot())
    knows_type = fresh.catalog.edge("knows")
    acted_type = fresh.catalog.edge("actedIn")
    assert knows_type is not None
    assert acted_type is not None
    from omnigraph.plan.expr import type_ref

    built = view.adjacency(type_ref(knows_type))
    assert {path.name.split("-")[1] for path in (tmp_path / "cache").rglob("edges-*")} == {knows_type.id}
    fresh.branches.create("other")
    other = fresh.engine.view(fresh.engine.manifest.snapshot(BranchName("other")))
    assert other.adjacency(type_ref(knows_type)) is built


def test_index_files_are_looked_at_once(counted: Counted) -> None:
    """X-15: one listing for each B-tree of a table that a filter is put to, and none ever after, also when the table moves on."""
    keyed = 'match { $p: Person { name: "a" } } return { $p.name }'
    counted.graph.ensure_indices()
    counted.objects.calls.clear()
    for n in range(3):
        counted.read(keyed)
        counted.graph.mutate(f'query q() {{ update Person set {{ born: {n} }} where name = "a" }}')
    assert counted.objects.calls["list"] - idle_lists(counted) == 3  # on `id`, `name` and `nickName`


def idle_lists(counted: Counted) -> int:
    """What three such writes list for other reasons."""
    before = counted.objects.calls["list"]
    for n in range(3):
        counted.graph.mutate(f'query q() {{ update Person set {{ born: {n} }} where name = "a" }}')
    return counted.objects.calls["list"] - before
