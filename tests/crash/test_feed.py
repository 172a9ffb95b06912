"""Readers of the change feed, killed at random moments: each resumes by its cursor, and its copy is the branch in the end."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.crash.feed_child import ENDED, FILE, start
from tests.feeds import Rows, exported
from tests.forks import Forked
from tests.mutations import run
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }\nnode Film { slug: String @key }\nedge Knows: Person -> Person"
PATIENCE_SECONDS = 60.0

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


class Reader:
    """A process with a copy of a branch. It is killed now and then, and started again."""

    def __init__(self, graph: Graph, branch: str, folder: Path, *, limit: int) -> None:
        folder.mkdir()
        self.branch, self.folder = branch, folder
        self._graph, self._limit = graph, limit
        self.printed: list[str] = []
        self.process = self._start()

    def _start(self) -> Forked:
        return start(self._graph.uri, self.branch, self.folder, limit=self._limit)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.printed += self.process.communicate()[0].split()
        self.process = self._start()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.printed += self.process.communicate()[0].split()

    def until_equal(self) -> None:
        """Wait until the copy is the branch."""
        until = time.monotonic() + PATIENCE_SECONDS
        wanted = exported(self._graph.export(self.branch))
        while self.rows() != wanted:
            assert self.process.poll() is None, self.process.errors()
            assert time.monotonic() < until, "the copy does not become the branch"
            time.sleep(0.02)

    def rows(self) -> Rows | None:
        file = self.folder / FILE
        return json.loads(file.read_text())["rows"] if file.exists() else None


def write(graph: Graph, chance: random.Random, at: int) -> None:
    """One random commit on one of the two branches."""
    branch, other = chance.choice([("main", "work"), ("work", "main")])
    name = chance.choice("abcdefgh")
    match chance.randrange(8):
        case 0 | 1:
            graph.load([{"type": "Person", "data": {"name": name, "age": at}}], branch=branch)
        case 2:
            edge = {"edge": "Knows", "from": name, "to": name, "data": {"id": f"{name}{at}"}}
            graph.load([{"type": "Person", "data": {"name": name, "age": at}}, edge], branch=branch)
        case 3:
            run(graph, f'delete Person where name = "{name}"', branch=branch)
        case 4:
            graph.load(
                [{"type": "Film", "data": {"slug": f"{name}-{at}-{film}"}} for film in range(chance.randrange(1, 30))], branch=branch
            )
        case 5:
            graph.load(list(graph.export(branch)) or [{"type": "Film", "data": {"slug": name}}], mode="overwrite", branch=branch)
        case 6:
            graph.optimize(branch)
        case _:
            try:
                graph.merge(other, branch, on_conflict="theirs")
            except ConflictError:  # an edge to a node that the other side deleted
                return


def test_a_killed_reader_resumes_by_its_cursor(tmp_path: Path) -> None:
    """Through merges in both directions, schema changes with and without loss, and a branch that is deleted and created again."""
    chance = random.Random(7)
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "a", "age": 0}}])
    graph.branches.create("work")
    readers = [Reader(graph, branch, tmp_path / f"{branch}-{limit}", limit=limit) for branch, limit in (("main", 3), ("work", 500))]
    main, work = readers
    for at in range(sample(30, whole=400)):
        write(graph, chance, at)
        if chance.random() < 0.25:
            chance.choice(readers).kill()
    for reader in readers:
        reader.until_equal()
    # a property more: a block. A type with another name: a copy of names begins again. A property less: refused
    schema = SCHEMA
    for change, expected in (
        (("age: I32?", "age: I32?  more: I32?"), None),
        (("node Film {", 'node Movie @rename_from("Film") {'), None),
        (("note: String?", ""), "schema_boundary"),
    ):
        schema = schema.replace(*change)
        graph.apply_schema(schema)
        if expected is None:
            chance.choice(readers).kill()
        graph.load([{"type": "Person", "data": {"name": "z", "age": 1}}])
        main.until_equal()
        schema = schema.replace(' @rename_from("Film")', "")
    # a branch of the same name is another branch; one that is gone ends its reader
    graph.branches.delete("work")
    graph.branches.create("work", from_="main")
    graph.load([{"type": "Person", "data": {"name": "new"}}], branch="work")
    if (work.folder / ENDED).exists():  # it looked in between
        work.kill()
    work.until_equal()
    graph.branches.delete("work")
    assert work.process.wait() == 0
    for reader in readers:
        reader.end()
    assert (work.folder / ENDED).exists()
    assert "schema_boundary" in main.printed
    assert {"branch_not_found"} <= set(work.printed)
    assert main.printed.count("page") > 5
