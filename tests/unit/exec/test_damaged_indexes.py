"""Index files that are gone, cut short or changed: reads and writes do what they do without them, and `ensure_indices` builds them anew."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.exec.upkeep.indices import IndexState
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run
from tests.unit.cli.calls import run as cli

SCHEMA = """
node Person { name: String @key  born: I32? @index  email: String? @unique  photo: Blob? }
edge Knows: Person -> Person { since: I32? @index }
"""
PEOPLE = 600


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    monkeypatch.setenv("OMNIGRAPH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graphs that hold the same, ids included: `plain` has no index, `indexed` has all."""
    folder = tmp_path_factory.mktemp("twins")
    graph = og.init(folder / "plain", schema=SCHEMA)
    people: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": f"p{n:04d}", "born": 1900 + n % 90, "email": f"e{n}@x"}} for n in range(PEOPLE)
    ]
    people[7]["data"]["photo"] = "base64:" + "QUJD" * 50
    edges = [
        {"edge": "Knows", "from": f"p{n:04d}", "to": f"p{(n * 7 + 1) % PEOPLE:04d}", "data": {"id": f"k{n:04d}", "since": n % 50}}
        for n in range(PEOPLE)
    ]
    graph.load([*people, *edges])
    shutil.copytree(folder / "plain", folder / "indexed")
    assert og.open(folder / "indexed").ensure_indices().built
    return folder


@pytest.fixture
def pair(twins: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of both, each with a branch that inherits everything and one that has written to the table of people."""
    for name in ("plain", "indexed"):
        shutil.copytree(twins / name, tmp_path / name)
        graph = og.open(tmp_path / name)
        graph.branches.create("inherits")
        graph.branches.create("forked")
        run(graph, 'insert Person { name: "forked" }', branch="forked")
    return tmp_path / "plain", tmp_path / "indexed"


# -- what can happen to index files


def _files(graph: Path, pattern: str = "*") -> list[Path]:
    return sorted(file for file in graph.glob(f"*/*/_indices/*/{pattern}") if file.is_file())


def _remove_all(graph: Path) -> None:
    for folder in graph.glob("*/*/_indices"):
        shutil.rmtree(folder)


def _remove_one(graph: Path) -> None:
    """The index on the key of people, which keyed reads and writes ask."""
    shutil.rmtree(index_on(graph, "node:Person", "id"))


def _empty(graph: Path) -> None:
    for file in _files(graph, "page_data.lance"):
        os.truncate(file, 0)


def _cut(graph: Path) -> None:
    for file in _files(graph):
        os.truncate(file, max(0, file.stat().st_size - 100))


def _flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(data)


def _flip_middles(graph: Path) -> None:
    """A byte of what says how the file is laid out."""
    for file in _files(graph, "page_lookup.lance"):
        _flip(file, file.stat().st_size // 2)


def _flip_ends(graph: Path) -> None:
    for file in _files(graph):
        _flip(file, file.stat().st_size - 1)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "all_removed": _remove_all,
    "one_removed": _remove_one,
    "emptied": _empty,
    "cut_short": _cut,
    "middle_flipped": _flip_middles,
    "end_flipped": _flip_ends,
}


def index_on(uri: Path, alias: str, column: str, branch: str = "main") -> Path:
    graph = og.open(uri, mode="r")
    row = graph.engine.manifest.snapshot(BranchName(branch)).state.table(alias)
    assert row is not None
    (index,) = [index for index in graph.engine.tables.open(row.ref).indexes if (index.column, index.kind) == (column, "BTree")]
    return uri / index.directory


# -- what is asked


def _read(text: str, branch: str = "main") -> Callable[[Graph], object]:
    return lambda graph: sorted(map(repr, graph.query(f"query q() {{ {text} }}", branch=branch).rows))


def _do(text: str, branch: str = "main") -> Callable[[Graph], object]:
    def done(graph: Graph) -> object:
        receipt = run(graph, text, branch=branch)
        return receipt.affected_nodes, receipt.affected_edges

    return done


def _load(mode: str) -> Callable[[Graph], object]:
    rows = [{"type": "Person", "data": {"name": name, "born": 7}} for name in ("p0003", "p0500", "new")]
    return lambda graph: graph.load(rows, mode=mode).total


def _twice(graph: Graph) -> object:
    return [_do(f'update Person set {{ born: {n} }} where name = "p0042"')(graph) for n in (1, 2)]


QUESTIONS: dict[str, Callable[[Graph], object]] = {
    "keyed_read": _read('match { $p: Person { name: "p0042" } } return { $p.name, $p.born }'),
    "range_read": _read("match { $p: Person  $p.born < 1910 } return { $p.name }"),
    "prefix_read": _read('match { $p: Person  $p.name starts_with "p00" } return { $p.name }'),
    "count": _read("match { $p: Person  $p.born >= 1950 } return { count($p) }"),
    "traversal": _read('match { $p: Person { name: "p0042" }  $p knows $q } return { $q.name }'),
    "traversal_back": _read('match { $q: Person { name: "p0001" }  $p knows $q } return { $p.name }'),
    "branch_read": _read('match { $p: Person { name: "p0042" } } return { $p.born }', "inherits"),
    "forked_read": _read('match { $p: Person { name: "forked" } } return { $p.name }', "forked"),
    "blob": lambda graph: graph.blob("node", "Person", "p0007", "photo").read(),
    "upsert": _do('insert Person { name: "p0042", born: 1 } insert Person { name: "new", email: "new@x" }'),
    "update_where": _do("update Person set { born: 2000 } where born < 1905"),
    "delete_by_key": _do('delete Person where name = "p0042"'),
    "delete_where": _do("delete Knows where since < 3"),
    "load_merge": _load("merge"),
    "load_append_refused": lambda graph: _refused(lambda: _load("append")(graph)),
    "unique_refused": lambda graph: _refused(lambda: _do('insert Person { name: "twin", email: "e9@x" }')(graph)),
    "next_writes": _twice,
    "branch_write": _do('delete Person where name = "p0042"', "inherits"),
    "forked_write": _do('update Person set { born: 3 } where name = "p0042"', "forked"),
}


def _refused(ask: Callable[[], object]) -> object:
    with pytest.raises(og.OmniGraphError) as caught:
        ask()
    return caught.value.kind


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


def heads(graph: Graph) -> dict[str, str]:
    return {branch: graph.snapshot(branch).commit_id for branch in graph.branches.list()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_depends_on_an_index_file(pair: tuple[Path, Path], damage: str) -> None:
    """X-15: Missing or damaged index files change no answer.

    Each question on handles of its own, so that nothing is remembered. Answers, and what is there then, are the twin's.
    """
    plain, indexed = pair
    DAMAGES[damage](indexed)
    compared: object = None
    for name, ask in QUESTIONS.items():
        assert ask(og.open(indexed)) == ask(og.open(plain)), name
        if (now := [heads(og.open(uri, mode="r")) for uri in pair]) != compared:
            assert shown(og.open(indexed)) == shown(og.open(plain)), name
            compared = now


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_depends_on_an_index_file_that_goes_while_the_graph_is_open(pair: tuple[Path, Path], damage: str) -> None:
    plain, indexed = (og.open(uri) for uri in pair)
    for graph in (plain, indexed):
        QUESTIONS["keyed_read"](graph)
        QUESTIONS["count"](graph)
    DAMAGES[damage](pair[1])
    for name, ask in QUESTIONS.items():
        assert ask(indexed) == ask(plain), name
    assert shown(indexed) == shown(plain)


def errors_of(graph: Graph) -> list[str]:
    """What is wrong now. Earlier commits still show an index that was built anew since; that is a warning."""
    found = graph.verify()
    assert {(finding.code, finding.branches) for finding in found if finding.severity == "warning"} <= {("damaged_index", ())}
    return [finding.code for finding in found if finding.severity == "error"]


FOUND_BY_SIZE = [name for name in DAMAGES if "flipped" not in name]


@pytest.mark.parametrize("damage", FOUND_BY_SIZE)
def test_a_damaged_index_is_reported_and_built_anew(pair: tuple[Path, Path], damage: str, caplog: pytest.LogCaptureFixture) -> None:
    _, uri = pair
    DAMAGES[damage](uri)
    found = og.open(uri).verify()
    assert {(finding.severity.value, finding.code) for finding in found} == {("error", "damaged_index")}
    assert "main:node:Person" in {finding.where for finding in found}
    assert {branch for finding in found for branch in finding.branches if "node:Person" in finding.tables} == {"main", "inherits", "forked"}
    assert all("omnigraph repair" in finding.remedy for finding in found)

    graph = og.open(uri)
    question = 'query q() { match { $p: Person { name: "p0042" } } return { $p.born } }'
    explained = graph.explain(question)
    assert "full scan" in explained.text
    assert "index on node:Person.id is damaged and not used" in explained.text

    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="omnigraph"):
        reader = og.open(uri, mode="r")
        for _ in range(3):
            reader.query(question)
    told = [record.getMessage() for record in caplog.records if "is damaged and is not used" in record.getMessage()]
    assert len(told) == len(set(told)) >= 1

    before = shown(graph)
    for branch in graph.branches.list():
        built = og.open(uri).ensure_indices(branch)
        assert built.commit is not None
        assert all(index.damage is not None for index in built.built)
    assert not errors_of(og.open(uri))
    assert "index on" in og.open(uri).explain(question).text
    assert {index.state for index in og.open(uri).ensure_indices().indexes} == {IndexState.PRESENT}
    assert shown(og.open(uri)) == before


def test_an_index_that_cannot_be_asked_is_built_anew_by_who_found_out(pair: tuple[Path, Path]) -> None:
    """Its files have the right size. The process that met the error knows; another one finds out by itself."""
    _, uri = pair
    _flip_middles(uri)
    graph = og.open(uri)
    question = 'query q() { match { $p: Person { name: "p0042" } } return { $p.born } }'
    assert graph.query(question).rows == [{"p.born": 1942}]
    assert "is damaged and not used" in graph.explain(question).text
    assert "damaged_index" in {finding.code for finding in graph.verify()}
    assert {index.column for index in graph.ensure_indices().built} >= {"name"}
    assert "index on" in graph.explain(question).text
    assert graph.query(question).rows == [{"p.born": 1942}]


def test_a_damaged_index_on_a_table_that_lost_its_rows_is_replaced(pair: tuple[Path, Path]) -> None:
    _, uri = pair
    _remove_all(uri)
    graph = og.open(uri)
    for branch in graph.branches.list():
        run(graph, "delete Person where born > 0", branch=branch)
        graph.ensure_indices(branch)
    assert not errors_of(graph)


def test_the_command_line_answers_on_one_stream_and_warns_on_the_other(pair: tuple[Path, Path]) -> None:
    """X-15: a warning is for who asked, and not part of the answer."""
    _, indexed = pair
    for folder in indexed.glob("nodes/*/_indices"):
        shutil.rmtree(folder)
    text = 'query q() { match { $p: Person { name: "p0007" } } return { $p.born } }'
    said = cli("query", "--store", str(indexed), "-e", text, "--format", "jsonl")
    assert said.returncode == 0, said.stderr
    assert '"p.born":1907' in said.stdout.replace(" ", "")
    assert "is damaged and is not used" in said.stderr
    assert "is damaged" not in said.stdout
