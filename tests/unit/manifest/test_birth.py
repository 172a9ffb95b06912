"""Being born in one commit, being opened, and being refused with a reason and a remedy."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound, OmniGraphError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.manifest.birth import FORMAT_STAMP, GRAPH_STAMP, create_graph, open_graph
from omnigraph.manifest.model import FORMAT, CommitKind
from omnigraph.store.ledger import ROWS
from omnigraph.store.root import open_root
from tests.graphs import COMPANY, PERSON, SCHEMA, make, reopen, tables


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_graph_is_born_in_one_commit(tmp_path: Path) -> None:
    """L-01: A graph is created in one commit: tables, first commit, schema and format stamp are in version 1.
    L-06: History lives in the manifest only, and every table has exactly `id` as its key.
    """
    graph = make(tmp_path / "g", PERSON, COMPANY)
    (genesis,) = graph.commits()
    assert genesis.kind is CommitKind.GENESIS
    assert (genesis.parents, genesis.manifest_version, genesis.actor) == ((), 1, "act-test")
    assert graph.snapshot().version == 1
    assert graph.schema(graph.snapshot().state.head.schema) == SCHEMA
    assert (tmp_path / "g" / "_schema.pg").read_text() == SCHEMA.source
    for row in graph.snapshot().state.tables.values():
        schema = lance.dataset(str(tmp_path / "g" / row.path)).schema
        keys = [field.name for field in schema if b"lance-schema:unenforced-primary-key" in (field.metadata or {})]
        assert keys == ["id"]


def test_what_is_born_is_plain_lance(tmp_path: Path) -> None:
    """Anybody's Lance reader can look inside: the facts are rows of JSON."""
    make(tmp_path / "g")
    rows = lance.dataset(str(tmp_path / "g" / "__manifest")).to_table().to_pylist()
    kinds = sorted(row["object_id"].split(":")[0] for row in rows)
    assert kinds == ["commit", "head", "schema", "table"]
    assert all(json.loads(row["body"]) for row in rows)


def test_init_over_a_graph_is_refused_and_changes_no_byte(tmp_path: Path) -> None:
    """L-02: An init over a graph is refused and changes no byte."""
    make(tmp_path / "g")
    before = {name: (tmp_path / "g" / name).read_bytes() for name in files(tmp_path / "g") if (tmp_path / "g" / name).is_file()}
    with pytest.raises(ConflictError) as caught:
        make(tmp_path / "g")
    assert caught.value.kind is Kind.ALREADY_INITIALIZED
    after = {name: (tmp_path / "g" / name).read_bytes() for name in files(tmp_path / "g") if (tmp_path / "g" / name).is_file()}
    assert after == before


def test_init_in_a_folder_that_holds_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInput) as caught:
        make(tmp_path / "g")
    assert caught.value.kind is Kind.NOT_EMPTY
    assert "thesis.txt" in caught.value.message
    assert files(tmp_path / "g") == ["thesis.txt"]


def test_init_in_an_empty_folder_works(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    assert make(tmp_path / "g").snapshot().version == 1


@pytest.mark.parametrize("place", ["missing", "empty", "other"])
def test_a_path_that_is_not_a_graph_is_refused_and_left_alone(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "g"
    if place != "missing":
        folder.mkdir()
    if place == "other":
        (folder / "x").write_text("1")
    before = files(tmp_path)
    with pytest.raises(NotFound) as caught:
        reopen(folder)
    assert caught.value.kind is Kind.NOT_A_GRAPH
    assert str(folder) in caught.value.message
    assert "omnigraph init" in caught.value.message
    assert files(tmp_path) == before


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g").write_text("not a folder")
    for attempt in (make, reopen):
        with pytest.raises(OmniGraphError) as caught:
            attempt(tmp_path / "g")
        assert str(tmp_path / "g") in caught.value.message
    assert (tmp_path / "g").read_text() == "not a folder"


@pytest.mark.parametrize(("stamp", "kind", "remedy"), [("999", Kind.FORMAT_NEWER, "upgrade"), ("0", Kind.FORMAT_OLDER, "export")])
def test_another_format_is_refused_with_what_to_do(tmp_path: Path, stamp: str, kind: Kind, remedy: str) -> None:
    """L-05: A graph of another format is refused in both open modes, and the message names the remedy."""
    schema = ROWS.with_metadata({FORMAT_STAMP: stamp.encode(), GRAPH_STAMP: b"g"})
    lance.write_dataset(schema.empty_table(), str(tmp_path / "g" / "__manifest"))
    for writable in (True, False):
        with pytest.raises(FormatError) as caught:
            open_graph(open_root(tmp_path / "g"), writable=writable)
        assert caught.value.kind is kind
        assert remedy in caught.value.message
        assert caught.value.facts["found"] == int(stamp)
        assert caught.value.facts["supported"] == FORMAT


def test_a_foreign_dataset_named_manifest_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "g" / "__manifest"))
    with pytest.raises(FormatError) as caught:
        reopen(tmp_path / "g")
    assert caught.value.kind is Kind.NOT_A_GRAPH


@pytest.mark.parametrize("point", [Fault.INIT_BEFORE_TABLES, Fault.INIT_BETWEEN_TABLES, Fault.INIT_BEFORE_MANIFEST])
def test_an_init_that_died_early_left_no_graph_and_can_be_run_again(tmp_path: Path, point: Fault) -> None:
    with armed(point), pytest.raises(SimulatedCrash):
        make(tmp_path / "g", PERSON, COMPANY)
    with pytest.raises(NotFound):
        reopen(tmp_path / "g")
    make(tmp_path / "g", PERSON, COMPANY)
    assert len(reopen(tmp_path / "g").snapshot().state.tables) == 2


def test_an_init_that_died_after_the_commit_is_a_graph(tmp_path: Path) -> None:
    """RT-67: An init that dies after its commit has made a graph that opens."""
    with armed(Fault.INIT_AFTER_MANIFEST), pytest.raises(SimulatedCrash):
        make(tmp_path / "g")
    assert len(reopen(tmp_path / "g").commits()) == 1


def test_an_init_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """A type without an id column cannot become a table; the one made before it must go too."""
    good, bad = tables(PERSON, COMPANY)
    bad = type(bad)(bad.id, bad.alias, bad.directory, pa.schema([("n", pa.int64())]))
    with pytest.raises(InvalidInput):
        create_graph(open_root(tmp_path / "g"), schema=SCHEMA, tables=[good, bad])
    assert not (tmp_path / "g").exists()


def test_of_many_inits_of_one_place_one_wins(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def work() -> None:
        try:
            outcomes.append(make(tmp_path / "g").graph_id)
        except ConflictError as error:
            outcomes.append(error.kind)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(outcomes).count(Kind.ALREADY_INITIALIZED) == 5
    graph = reopen(tmp_path / "g")
    assert graph.graph_id in outcomes
    assert len(graph.commits()) == 1
    named = {Path(row.path).name for row in graph.snapshot().state.tables.values()}
    assert {path.name for path in (tmp_path / "g" / "nodes").iterdir()} == named, "the losers' tables are gone"


def test_a_corrupt_head_row_is_named(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    _, ledger, _ = graph.look()
    empty = ROWS.empty_table()
    rows = pa.table([["table:x"], [2], ["{"]], schema=ROWS)
    ledger.swap(rows, empty, uuid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(FormatError) as caught:
        graph.snapshot()
    assert caught.value.kind is Kind.CORRUPT
    assert "table:x" in caught.value.message
