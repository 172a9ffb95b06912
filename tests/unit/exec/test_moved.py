"""A graph with branches works wherever its files are: moved, copied by a tool that knows nothing of graphs, or mounted elsewhere."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run

SCHEMA = """
node Person { name: String @key  born: I32? @index  bio: String?  note: String? @index }
node Script { code: String @key  body: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
LARGE = "base64:" + base64.b64encode(os.urandom(100_000)).decode()
FRIENDS = 'query q() { match { $p: Person { name: "p7" }  $p knows $q } return { $q.name as name } order { name } }'
BORN = "query q() { match { $p: Person  $p.born > 1995 } return { $p.name as name } order { name } }"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def source(tmp_path: Path) -> Graph:
    """Three branches, one made from another. Each has rows, deletions, blobs and indexes of its own and of its parents."""
    graph = og.init(tmp_path / "source", schema=SCHEMA, actor="act-ada")
    rows: list[dict[str, object]] = [{"edge": "Knows", "from": f"p{n}", "to": f"p{(n * 7 + 1) % 100}"} for n in range(100)]
    for n in range(100):
        rows.append({"type": "Person", "data": {"name": f"p{n}", "born": 1900 + n, "bio": f"number {n}", "note": f"text {n}"}})
    graph.load(rows)
    graph.ensure_indices()
    for code, body in (("large", LARGE), ("small", "base64:AAAA"), ("none", None)):
        run(graph, "($c: String, $b: Blob?) insert Script { code: $c, body: $b }", {"c": code, "b": body})
    graph.branches.create("one")
    run(graph, 'update Person set { born: 2001 } where name = "p1"', branch="one")
    graph.branches.create("two")
    graph.branches.create("nested", from_="one")
    run(graph, 'delete Person where name = "p2"', branch="nested")
    run(graph, 'insert Person { name: "new", born: 2002 } insert Knows { from: "p7", to: "new" }', branch="nested")
    graph.ensure_indices("nested")
    run(graph, 'delete Person where name = "p3"')
    return graph


def shown(graph: Graph) -> dict[str, list[object]]:
    """Everything that each branch shows now, and what its queries by index and by adjacency answer."""
    return {
        branch: [
            *graph.export(branch),
            *(graph.query(text, branch=branch).to_json() for text in (FRIENDS, BORN)),
            hashlib.sha256(graph.blob("node", "Script", "large", "body", branch=branch).read()).hexdigest(),
        ]
        for branch in graph.branches.list()
    }


def past(graph: Graph) -> dict[str, str]:
    return {commit.id: "".join(graph.export(at=commit.id)) for branch in graph.branches.list() for commit in graph.commits(branch)}


def digests(place: Path) -> dict[str, str]:
    files = (Path(directory) / name for directory, _, names in os.walk(place) for name in names)
    return {str(file.relative_to(place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def work(graph: Graph) -> None:
    """Every kind of write, on every branch, and new branches of branches."""
    for at, branch in enumerate(graph.branches.list()):
        run(graph, f'insert Person {{ name: "w{at}", born: 1999 }} insert Knows {{ from: "w{at}", to: "p7" }}', branch=branch)
        run(graph, 'update Person set { born: 1998, bio: "changed" } where name = "p10"', branch=branch)
        run(graph, 'delete Person where name = "p11"', branch=branch)
        run(graph, '($b: Blob?) update Script set { body: $b } where code = "small"', {"b": LARGE}, branch=branch)
        graph.load([{"type": "Person", "data": {"name": f"p{n}", "born": 1990}} for n in range(20, 1500)], branch=branch)
        graph.ensure_indices(branch)
        graph.branches.create(f"child-{at}", from_=branch)
        run(graph, 'delete Script where code = "none"', branch=f"child-{at}")
    graph.apply_schema(SCHEMA.replace("bio: String?", "motto: String?"), "one")
    run(graph, 'insert Person { name: "after", motto: "on" }', branch="one")


def renamed(old: Path, new: Path) -> None:
    old.rename(new)


MOVES: dict[str, Callable[[Path, Path], object]] = {"mv": renamed, "cp": shutil.copytree}


@pytest.mark.parametrize("how", MOVES)
def test_a_moved_graph_shows_the_same_and_can_be_written(source: Graph, tmp_path: Path, how: str) -> None:
    """B-40: A graph with branches that was moved or copied by its files shows what it showed, now and in the past, and is written."""
    before, history, there = shown(source), past(source), tmp_path / "else where"
    MOVES[how](tmp_path / "source", there)
    moved = og.open(there)
    assert shown(moved) == before
    assert past(moved) == history
    assert moved.verify(deep=True) == []
    work(moved)
    assert moved.verify(deep=True) == []
    assert history.items() <= past(moved).items()
    merged = moved.merge("nested", into="main", on_conflict="theirs")
    assert merged.commit is not None
    assert {"new", "w1"} <= {row["name"] for row in moved.query("query q() { match { $p: Person } return { $p.name as name } }").rows}
    assert moved.verify(deep=True) == []
    again = og.open(there)
    assert shown(again) == shown(moved)
    for branch in ("child-1", "nested", "child-2", "one"):
        again.branches.delete(branch)
    assert again.verify(deep=True) == []


def test_a_copy_of_the_files_and_its_original_share_nothing(source: Graph, tmp_path: Path) -> None:
    """B-41: After a copy of the files neither graph reads or changes a file of the other."""
    here, there = tmp_path / "source", tmp_path / "copy"
    before = shown(source)
    shutil.copytree(here, there)
    original = digests(here)
    copy = og.open(there)
    work(copy)
    assert digests(here) == original
    after, copied = shown(copy), digests(there)
    source = og.open(here)
    assert shown(source) == before
    run(source, 'insert Person { name: "mine" }', branch="nested")
    work(source)
    assert source.verify(deep=True) == []
    assert digests(there) == copied
    shutil.rmtree(here)
    assert shown(og.open(there)) == after
    assert og.open(there).verify(deep=True) == []


def test_a_reader_of_a_moved_graph_writes_nothing(source: Graph, tmp_path: Path) -> None:
    """B-42: A moved graph can be read without permission to write."""
    before, there = shown(source), tmp_path / "there"
    (tmp_path / "source").rename(there)
    files = digests(there)
    reader = og.open(there, mode="r")
    assert shown(reader) == before
    assert reader.verify(deep=True) == []
    assert digests(there) == files


def test_a_graph_can_be_moved_again_and_back(source: Graph, tmp_path: Path) -> None:
    """Versions written at three places are read at each of them, also by a branch that was made from a version of another place."""
    places = [tmp_path / "a", tmp_path / "b", tmp_path / "source"]
    at = tmp_path / "source"
    for n, place in enumerate(places):
        at.rename(place)
        at = place
        graph = og.open(at)
        for branch in graph.branches.list():
            run(graph, f'insert Person {{ name: "move {n}" }}', branch=branch)
        graph.branches.create(f"made-{n}", from_="nested")
        run(graph, 'insert Person { name: "there" }', branch=f"made-{n}")
        assert graph.verify(deep=True) == []
    answer = graph.query("query q() { match { $p: Person } return { $p.name as name } }", branch="made-2")
    assert {"move 0", "move 1", "move 2", "there", "new"} <= {row["name"] for row in answer.rows}


@pytest.mark.parametrize("point", [Fault.WRITE_COMMITTED, Fault.PUBLISH_BEFORE_COMMIT, Fault.STAGE_AFTER_COMMIT])
def test_a_write_that_was_interrupted_before_or_after_the_move_is_recovered(source: Graph, tmp_path: Path, point: Fault) -> None:
    """A rollback restores versions that were written elsewhere."""
    before = shown(source)
    with armed(point), pytest.raises(SimulatedCrash):
        run(source, 'insert Person { name: "x" } insert Knows { from: "x", to: "p1" }', branch="nested")
    shutil.copytree(tmp_path / "source", tmp_path / "there")
    shutil.rmtree(tmp_path / "source")
    moved = og.open(tmp_path / "there")
    assert {branch: rows for branch, rows in shown(moved).items() if branch != "nested"} == {
        branch: rows for branch, rows in before.items() if branch != "nested"
    }
    assert moved.verify(deep=True) == []
    with armed(point), pytest.raises(SimulatedCrash):
        run(moved, 'insert Person { name: "y" } insert Knows { from: "y", to: "p1" }', branch="nested")
    shutil.move(tmp_path / "there", tmp_path / "source")
    back = og.open(tmp_path / "source")
    run(back, 'insert Person { name: "z" } insert Knows { from: "z", to: "p1" }', branch="nested")
    assert back.verify(deep=True) == []


def test_versions_given_up_in_a_moved_graph_take_no_file_of_a_branch_with_them(source: Graph, tmp_path: Path) -> None:
    """B-43: Removing the history of dropped data in a moved graph keeps every file that a branch inherits."""
    (tmp_path / "source").rename(tmp_path / "there")
    moved = og.open(tmp_path / "there")
    before = shown(moved)
    moved.apply_schema(SCHEMA.replace("bio: String?", ""), allow_data_loss=True)
    moved.apply_schema(SCHEMA.replace("bio: String?", ""), "one", allow_data_loss=True)
    after = shown(moved)
    assert {name: after[name] for name in ("nested", "two")} == {name: before[name] for name in ("nested", "two")}
    assert moved.verify(deep=True) == []
