"""Threads that share one handle: each kind of work beside every other, and nothing fails or is lost.

Lance refuses some calls while another thread uses the same dataset handle. Such calls need a handle of their own, and only many threads
at once show where one is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph import Graph

SCHEMA = "node Person { name: String @key  age: I64?  about: String? @index }\nedge Knows: Person -> Person"
PUT = 'query put($name: String, $age: I64) { insert Person { name: $name, age: $age, about: "new" } }'
AGES = "match { $p: Person } return { count($p) as persons, sum($p.age) as ages }"
ROUNDS = 6
PEOPLE = 200


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    people = ({"type": "Person", "data": {"name": f"p{at}", "age": 0, "about": f"word{at % 7}"}} for at in range(PEOPLE))
    knows = ({"edge": "Knows", "from": f"p{at}", "to": f"p{(at * 7) % PEOPLE}"} for at in range(PEOPLE))
    graph.load(chain[dict[str, Any]](people, knows), mode="append")
    return graph


def side_by_side(works: Iterable[Callable[[int], object]]) -> None:
    """Run each work in a thread of its own, `ROUNDS` times. Raises what they raised."""
    failed: list[Exception] = []

    def run(work: Callable[[int], object]) -> None:
        for at in range(ROUNDS):
            try:
                work(at)
            except Exception as error:  # noqa: BLE001  # it fails the test
                failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise ExceptionGroup("threads failed", failed)


def test_all_work_beside_all_other_work(graph: Graph) -> None:
    """W-17, B-13: writers, readers, branches, transactions and upkeep of one process do not disturb each other."""

    loaded = graph.commits(limit=1)[0].id

    def write(name: str) -> Callable[[int], object]:
        return lambda at: graph.mutate(PUT, params={"name": f"{name}{at}", "age": 1})

    def read(at: int) -> None:
        assert graph.query("match { $p: Person { name: $name } $p knows $q } return { $q.name as name }", params={"name": f"p{at}"}).rows
        assert graph.query(AGES).rows[0]["persons"] >= PEOPLE

    def look_back(_: int) -> None:
        assert graph.query(AGES, at=loaded).rows[0]["persons"] == PEOPLE

    def review(at: int) -> None:
        graph.branches.create(f"review-{at}")
        graph.mutate(PUT, params={"name": f"reviewed{at}", "age": 1}, branch=f"review-{at}")
        assert graph.merge(f"review-{at}", delete_source=True).inserted == 1

    def transact(at: int) -> None:
        with graph.transaction() as transaction:
            transaction.mutate(PUT, params={"name": f"transacted{at}", "age": 1})
            assert transaction.query(AGES).rows[0]["persons"] > PEOPLE

    def verify(_: int) -> None:  # it may meet the work of the others, of which it warns
        assert not [found for found in graph.verify() if found.severity == "error"]

    side_by_side(
        [
            write("one"),
            write("two"),
            read,
            look_back,
            review,
            transact,
            verify,
            lambda _: graph.optimize(),
            lambda _: graph.cleanup(keep=100),
            lambda _: list(graph.export()),
        ]
    )
    assert graph.query(AGES).rows == [{"persons": PEOPLE + 4 * ROUNDS, "ages": 4 * ROUNDS}]
    assert not graph.verify(deep=True)
