"""Plans are kept for other values, and no longer than what they depend on: the snapshot, its indexes, and where adjacencies are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.read import view as views
from omnigraph.exec.read.view import View
from omnigraph.graph import Graph
from omnigraph.store.damage import IndexDamage
from omnigraph.store.intact import record
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run, table
from tests.reads import load

SCHEMA = """
node Person { name: String @key  born: I32?  city: String? @index }
edge Knows: Person -> Person
"""
BORN = "query q($y: I32?) { match { $p: Person  $p.born = $y } return { $p.name as name } }"
CITY = "query q($c: String) { match { $p: Person  $p.city = $c } return { $p.name as name } order { name } }"
HOP = "query q($n: String) { match { $p: Person { name: $n }  $p knows $q } return { $q.name as name } order { name } }"
PEOPLE = 60


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """People in a ring, ten cities, without indexes."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "cache"))
    made = og.init(tmp_path / "graph", schema=SCHEMA)
    load(made, *({"type": "Person", "data": {"name": f"p{n}", "born": 1900 + n, "city": f"c{n % 10}"}} for n in range(PEOPLE)))
    load(made, *({"edge": "Knows", "from": f"p{n}", "to": f"p{(n + 1) % PEOPLE}"} for n in range(PEOPLE)))
    return made


def names(graph: Graph, text: str, *, branch: str = "main", at: str | None = None, **params: object) -> list[object]:
    return [row["name"] for row in graph.query(text, params=params, branch=branch, at=at).rows]


def plan(graph: Graph, *, branch: str = "main", at: str | None = None) -> str:
    """The plan of CITY, which a query has used, with other values, before."""
    names(graph, CITY, branch=branch, at=at, c="c1")
    return graph.explain(CITY, params={"c": "c2"}, branch=branch, at=at).text


def view_of(graph: Graph) -> View:
    return graph.engine.view(graph.engine.snapshot())


def test_a_text_is_planned_once_for_all_values(graph: Graph) -> None:
    """One plan is kept, and each call has the answer of its own values."""
    assert names(graph, CITY, c="c3") == [f"p{n}" for n in sorted(range(3, PEOPLE, 10), key=str)]
    (kept,) = view_of(graph).plans.values()
    for city in range(10):
        assert len(names(graph, CITY, c=f"c{city}")) == PEOPLE // 10
    assert names(graph, CITY, c="nowhere") == []
    assert [each is kept for each in view_of(graph).plans.values()] == [True]


def test_a_null_has_a_plan_of_its_own(graph: Graph) -> None:
    """A comparison with null keeps no row, before and after a plan was kept for values."""
    assert names(graph, BORN, y=None) == []
    assert names(graph, BORN, y=1905) == ["p5"]
    assert names(graph, BORN, y=None) == []
    assert names(graph, BORN) == []
    assert names(graph, BORN, y=1906) == ["p6"]


def test_an_index_is_used_once_it_is_built_and_never_before(graph: Graph) -> None:
    """X-02: after the build, on the branch that has it, and at commits that have it."""
    assert "full scan" in plan(graph)
    graph.branches.create("side")
    before = next(iter(graph.commits())).id
    graph.ensure_indices()
    assert "index on city" in plan(graph)
    assert "full scan" in plan(graph, branch="side")
    assert "full scan" in plan(graph, at=before)
    assert "index on city" in plan(graph)


def test_a_damaged_index_ends_the_plan_that_uses_it(graph: Graph) -> None:
    """X-15: on the same snapshot, from the moment that the damage is known."""
    graph.ensure_indices()
    assert "index on city" in plan(graph)
    held = table(graph, "node:Person")
    record(graph.engine.root, IndexDamage(next(each for each in held.indexes if each.column == "city"), "a page is gone"))
    assert "full scan" in plan(graph)
    assert names(graph, CITY, c="c3") == [f"p{n}" for n in sorted(range(3, PEOPLE, 10), key=str)]


def test_a_changed_schema_has_plans_of_its_own(graph: Graph) -> None:
    """The same text means what the schema of its snapshot says."""
    assert names(graph, BORN, y=1907) == ["p7"]
    graph.apply_schema(SCHEMA.replace("born: I32?", "born: I32? @index  nick: String?"))
    assert names(graph, BORN, y=1907) == ["p7"]
    run(graph, 'update Person set { born: 1907 } where name = "p8"')
    assert sorted(map(str, names(graph, BORN, y=1907))) == ["p7", "p8"]


def test_an_adjacency_that_is_ready_is_used_by_the_next_call(graph: Graph) -> None:
    """A plan from before the adjacency was built does not keep later calls from it."""
    first = graph.explain(HOP, params={"n": "p1"}).text
    assert names(graph, HOP, n="p1") == ["p2"]
    view = view_of(graph)
    knows = graph.catalog.edge("Knows")
    assert knows is not None
    view._topology.adjacency(*view._between(knows.id))
    then = graph.explain(HOP, params={"n": "p1"}).text
    assert ("in memory" in first, "in memory" in then) == (False, True)
    assert names(graph, HOP, n="p9") == ["p10"]


def test_threads_with_one_text_have_the_answers_of_their_own_values(graph: Graph) -> None:
    def ask(n: int) -> list[object]:
        return names(graph, HOP, n=f"p{n % PEOPLE}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(400))) == [[f"p{(n + 1) % PEOPLE}"] for n in range(400)]


def test_few_plans_are_kept(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts that were asked last have plans; memory does not grow with their number."""
    monkeypatch.setattr(views, "PLANS", 3)
    graph.branches.create("side")
    for n in range(8):
        assert names(graph, f"// {n}\n{CITY}", branch="side", c="c1")
    assert len(graph.engine.view(graph.engine.snapshot("side")).plans) == 3
