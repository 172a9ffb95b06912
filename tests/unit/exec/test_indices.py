"""`ensure_indices`: what it builds, what it leaves for later, and that no answer depends on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.catalog.layout import IndexKind, table_schema
from omnigraph.errors import Kind, Unsupported
from omnigraph.exec.engine import Engine
from omnigraph.exec.upkeep.indices import ColumnIndex, IndexProgress, IndexState, Pending
from omnigraph.exec.write.protocol import Overwrite, Prepared, Request, write
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.store.index import existing
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import fill, manifest_of, rows, run, table, table_row, versions

DIMENSION = 2_000
ENOUGH = 2_000
LIBRARY = f"""
node Author {{ name: String @key  born: I32? @index }}
node Book {{ title: String @index  year: I32?  place: Vector({DIMENSION})? @index }}
edge Wrote: Author -> Book {{ share: F32? @index }}
"""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "g", schema=LIBRARY, actor="act-ada")


def books(count: int, *, vectors: str = "all", prefix: str = "b", seed: int = 0) -> pa.Table:
    """So many books, with a vector each, none at all, zero ones, or ones next to zero."""
    numbers = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype("float32")
    numbers *= {"zero": 0.0, "tiny": 1e-30}.get(vectors, 1.0)
    places = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), DIMENSION, mask=pa.array([vectors == "none"] * count))
    ids = [f"{prefix}{n}" for n in range(count)]
    columns: dict[str, Any] = {"id": ids, "title": [f"the book {n}" for n in range(count)], "year": list(range(count)), "place": places}
    schema = pa.schema([("id", pa.string()), ("place", pa.list_(pa.float32(), DIMENSION)), ("title", pa.string()), ("year", pa.int32())])
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def authors(graph: Graph, *names: str) -> None:
    for name in names:
        run(graph, f'insert Author {{ name: "{name}", born: {len(name)} }}')


def states(graph: Graph, alias: str, found: tuple[ColumnIndex, ...] | None = None) -> dict[tuple[str, str], IndexState]:
    indexes = found if found is not None else graph.ensure_indices().indexes
    return {(index.column, index.kind.value): index.state for index in indexes if index.table == alias}


def names(graph: Graph, alias: str, *, branch: str = "main") -> list[str]:
    return [index.name for index in existing(table(graph, alias, branch=branch))]


# -- what is built


def test_every_missing_index_is_built_in_one_commit(graph: Graph) -> None:
    """X-01: The kind of an index follows from the property's type; ids and both ends of edges always have a B-tree.

    Also X-07, X-11.
    """
    authors(graph, "Ada", "Bob")
    fill(graph, {"node:Book": books(3)})
    run(graph, 'insert Wrote { from: "Ada", to: "b1", share: 0.5 }')
    before, commits = versions(graph), len(graph.commits())
    found = graph.ensure_indices()
    assert states(graph, "node:Author", found.indexes) == {
        ("id", "btree"): IndexState.BUILT,
        ("born", "btree"): IndexState.BUILT,
        ("name", "full_text"): IndexState.BUILT,
        ("name", "btree"): IndexState.BUILT,
    }
    assert states(graph, "edge:Wrote", found.indexes) == dict.fromkeys(
        [("id", "btree"), ("src", "btree"), ("dst", "btree"), ("share", "btree")], IndexState.BUILT
    )
    assert [(index.column, index.kind, index.reason) for index in found.pending] == [("place", IndexKind.VECTOR, Pending.FEW_VECTORS)]
    assert found.commit is not None
    assert (found.commit.kind, found.commit.actor, len(graph.commits())) == (CommitKind.INDEX, "act-ada", commits + 1)
    assert versions(graph) == {alias: version + 1 for alias, version in before.items()}
    assert graph.verify() == []


def test_a_second_run_does_nothing(graph: Graph) -> None:
    """X-07: no commit, no version, and it says what is there."""
    authors(graph, "Ada")
    first = graph.ensure_indices()
    before, commits = versions(graph), graph.commits()
    again = graph.ensure_indices()
    assert (again.commit, again.built, versions(graph), graph.commits()) == (None, (), before, commits)
    assert {(index.table, index.column) for index in again.present} == {(index.table, index.column) for index in first.built}


def test_no_write_builds_an_index(graph: Graph) -> None:
    """X-07: No write builds an index. `ensure_indices` builds all that are missing in one commit; a second run does nothing."""
    authors(graph, "Ada")
    fill(graph, {"node:Book": books(3)})
    assert names(graph, "node:Author") == names(graph, "node:Book") == []


def test_empty_tables_wait_for_rows(graph: Graph) -> None:
    """S-09: nothing to build is no failure, and no commit."""
    found = graph.ensure_indices()
    assert (found.commit, found.built, found.present) == (None, (), ())
    assert {index.reason for index in found.pending} == {Pending.NO_ROWS}
    authors(graph, "Ada")
    assert {index.table for index in graph.ensure_indices().built} == {"node:Author"}


def test_names_come_from_the_identity_of_the_property(graph: Graph) -> None:
    """They survive a rename, and a property that takes over the old name gets one of its own."""
    authors(graph, "Ada")
    graph.ensure_indices()
    node = graph.catalog.node("Author")
    assert node is not None
    born, name = (property_.id for property_ in node.properties)
    assert names(graph, "node:Author") == sorted([f"btree_{born}", "btree_id", f"btree_{name}", f"full_text_{name}"])


def test_an_overwritten_table_keeps_its_indexes_and_they_cover_nothing(graph: Graph) -> None:
    """X-03: they are told to be present, with every row uncovered; and every row is found."""
    fill(graph, {"node:Book": books(3)})
    graph.ensure_indices()
    manifest, row = manifest_of(graph), table_row(graph, "node:Book")
    write(Engine(manifest), Request(CommitKind.LOAD), lambda _: Prepared({row.id: Overwrite(books(2, prefix="new"))}))
    found = [index for index in graph.ensure_indices().indexes if index.table == "node:Book" and index.kind is not IndexKind.VECTOR]
    assert [(index.column, index.state, index.uncovered_rows) for index in found] == [
        ("id", IndexState.PRESENT, 2),
        ("title", IndexState.PRESENT, 2),
        ("title", IndexState.PRESENT, 2),
    ]
    assert table(graph, "node:Book").count("id = 'new1'") == table(graph, "node:Book").count("title = 'the book 1'") == 1


@pytest.mark.parametrize(("late", "state"), [(40_000, IndexState.PRESENT), (40_001, IndexState.BUILT)], ids=["a few", "too many"])
def test_an_index_that_covers_too_little_is_built_again(graph: Graph, late: int, state: IndexState) -> None:
    """X-02, X-03: while the planner counts on an index it stays, else it is replaced; either way every row is found."""
    authors(graph, "Ada", "Bob")
    graph.ensure_indices()
    ids = pa.array([f"late{n}" for n in range(late)])
    node = graph.catalog.node("Author")
    assert node is not None
    fill(graph, {"node:Author": pa.table({"id": ids, "born": pa.array(range(late), pa.int32()), "name": ids}, schema=table_schema(node))})
    found = graph.ensure_indices()
    assert set(states(graph, "node:Author", found.indexes).values()) == {state}
    indexed = table(graph, "node:Author")
    assert {index.uncovered_rows for index in existing(indexed)} == {late if state is IndexState.PRESENT else 0}
    assert len(existing(indexed)) == 4
    assert indexed.count("born = 39999") == indexed.count("name = 'late39999'") == indexed.count("id = 'Ada'") == 1
    assert graph.ensure_indices().commit is None


def test_a_reader_builds_nothing(graph: Graph) -> None:
    with pytest.raises(Unsupported) as refused:
        og.open(graph.uri, mode="r").ensure_indices()
    assert refused.value.kind is Kind.READ_ONLY


def test_progress_is_told_table_by_table(graph: Graph) -> None:
    authors(graph, "Ada", "Bob")
    fill(graph, {"node:Book": books(3)})
    told: list[IndexProgress] = []
    graph.ensure_indices(on_progress=told.append)
    graph.ensure_indices(on_progress=told.append)
    assert told == [
        IndexProgress("node:Author", ("id", "born", "name"), 2, 1, 2),
        IndexProgress("node:Book", ("id", "title"), 3, 2, 2),
    ]


# -- vectors


@pytest.mark.parametrize(
    ("count", "vectors", "reason"),
    [(ENOUGH, "none", Pending.NO_VECTORS), (ENOUGH - 1, "all", Pending.FEW_VECTORS), (ENOUGH, "zero", Pending.NO_VECTORS)],
    ids=["all null", "too few", "without a direction"],
)
def test_a_vector_index_waits_for_vectors_and_holds_up_no_other(graph: Graph, count: int, vectors: str, reason: Pending) -> None:
    """X-08: A vector index without enough vectors is pending, with a reason, and the others are built."""
    fill(graph, {"node:Book": books(count, vectors=vectors)})
    for expected in (IndexState.BUILT, IndexState.PRESENT):
        found = graph.ensure_indices()
        assert [(index.column, index.reason) for index in found.pending if index.table == "node:Book"] == [("place", reason)]
        assert states(graph, "node:Book", found.indexes)["title", "full_text"] is expected


def test_vectors_that_lance_cannot_learn_from_are_left_for_later(graph: Graph) -> None:
    """X-08: so small that their length is zero in 32 bits: pending, its siblings built, nothing fails."""
    fill(graph, {"node:Book": books(ENOUGH, vectors="tiny")})
    found = graph.ensure_indices()
    assert [(index.column, index.reason) for index in found.pending if index.table == "node:Book"] == [("place", Pending.FEW_VECTORS)]
    assert states(graph, "node:Book", found.indexes)["title", "btree"] is IndexState.BUILT
    assert graph.verify() == []


def test_enough_vectors_get_an_index_that_finds_them(graph: Graph) -> None:
    """X-09: A vector index finds the same nearest rows as a scan, rows that came later included."""
    fill(graph, {"node:Book": books(ENOUGH)})
    assert states(graph, "node:Book")["place", "vector"] is IndexState.BUILT
    fill(graph, {"node:Book": books(1, prefix="late", seed=7)})
    indexed = table(graph, "node:Book").dataset
    for id_ in ("b3", "b1999", "late0"):
        (wanted,) = indexed.to_table(columns=["place"], filter=f"id = '{id_}'")["place"].to_pylist()
        nearest = {"column": "place", "q": np.array(wanted, dtype="float32"), "k": 5, "refine_factor": 4, "metric": "cosine"}
        found = indexed.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
        scanned = indexed.to_table(columns=["id", "_distance"], nearest={**nearest, "use_index": False})["id"].to_pylist()
        assert found[0] == scanned[0] == id_
        assert set(found) == set(scanned)
    assert [index.uncovered_rows for index in graph.ensure_indices().indexes if index.table == "node:Book"] == [1, 1, 1, 1]


# -- branches


def test_a_branch_reuses_the_indexes_of_its_parent(graph: Graph) -> None:
    """X-11: A branch uses the indexes of its parent, also after it has written."""
    authors(graph, "Ada", "Bob")
    graph.ensure_indices()
    graph.branches.create("work")
    found = graph.ensure_indices("work")
    assert (found.commit, found.built) == (None, ())
    assert table_row(graph, "node:Author", branch="work").native is None
    run(graph, 'insert Author { name: "Cy", born: 7 }', branch="work")
    forked = table(graph, "node:Author", branch="work")
    assert "ScalarIndexQuery" in forked.dataset.scanner(filter="born = 7").explain_plan()
    assert (forked.count("born = 7"), forked.count("born = 3")) == (1, 2)
    assert graph.ensure_indices("work").built == ()


def test_indexing_a_branch_forks_what_it_inherits_without_indexes(graph: Graph) -> None:
    """RT-51: Indexing a branch forks exactly the inherited tables that lack an index; main does not change.

    Also B-02.
    """
    authors(graph, "Ada", "Bob")
    graph.branches.create("work")
    before = versions(graph)
    found = graph.ensure_indices("work")
    assert {index.table for index in found.built} == {"node:Author"}
    assert table_row(graph, "node:Author", branch="work").native is not None
    assert table_row(graph, "node:Book", branch="work").native is None
    assert (versions(graph), names(graph, "node:Author")) == (before, [])
    assert rows(graph, "node:Author", branch="work") == rows(graph, "node:Author")
    run(graph, 'update Author set { born: 9 } where name = "Bob"', branch="work")
    assert table(graph, "node:Author", branch="work").count("born = 9") == 1
    assert graph.ensure_indices("work").commit is None
    assert graph.ensure_indices().commit is not None
    assert graph.verify() == []


# -- others write meanwhile


def racing(graph: Graph, race: Mapping[int, object]) -> tuple[ColumnIndex, ...]:
    """Index; when the first table is told of, the files of none are written yet; somebody else writes then, or later."""
    told: list[IndexProgress] = []

    def meanwhile(progress: IndexProgress) -> None:
        told.append(progress)
        change = race.get(len(told))
        if callable(change):
            change()

    return graph.ensure_indices(on_progress=meanwhile).indexes


def test_rows_that_come_while_indexes_are_written_are_found_and_reported(graph: Graph) -> None:
    """RT-47: Index files written before the head moved are kept; rows that came since are not covered, and are found."""
    authors(graph, "Ada", "Bob")
    fill(graph, {"node:Book": books(3)})
    other = og.open(graph.uri)
    found = racing(graph, {2: lambda: authors(other, "Cyril")})  # Author is written, Book comes next
    assert states(graph, "node:Author", found)["born", "btree"] is IndexState.BUILT
    indexed = table(graph, "node:Author")
    assert {index.name.partition("_")[0]: index.uncovered_rows for index in existing(indexed)} == {"btree": 1, "full": 1}
    assert "ScalarIndexQuery" in indexed.dataset.scanner(filter="born = 5").explain_plan()
    assert sorted(indexed.scan(["id"], where="born < 9").read_all()["id"].to_pylist()) == ["Ada", "Bob", "Cyril"]
    assert graph.verify() == []


def test_indexes_written_for_content_that_was_overwritten_are_written_again(graph: Graph) -> None:
    """RT-47: nothing that they cover is left."""
    authors(graph, "Ada")
    fill(graph, {"node:Book": books(40)})

    def overwrite() -> None:
        manifest, row, node = manifest_of(graph), table_row(graph, "node:Author"), graph.catalog.node("Author")
        assert node is not None
        content = pa.table({"id": ["Zoe"], "born": [77], "name": ["Zoe"]}, schema=table_schema(node))
        write(Engine(manifest), Request(CommitKind.LOAD), lambda _: Prepared({row.id: Overwrite(content)}))

    racing(graph, {2: overwrite})
    indexed = table(graph, "node:Author")
    assert {index.uncovered_rows for index in existing(indexed)} == {0}
    assert indexed.count("born = 77") == indexed.count("name = 'Zoe'") == 1
    assert indexed.count("born = 3") == 0


def test_a_rival_that_built_the_same_indexes_leaves_nothing_to_do(graph: Graph) -> None:
    """C-09: two at once are one; the second finds everything there and makes no commit."""
    authors(graph, "Ada")
    other = og.open(graph.uri)
    found = racing(graph, {1: other.ensure_indices})
    assert set(states(graph, "node:Author", found).values()) == {IndexState.PRESENT}
    assert sum(commit.kind is CommitKind.INDEX for commit in graph.commits()) == 1


def test_other_threads_use_the_table_while_its_index_is_built(graph: Graph) -> None:
    """X-07: no write waits for an index, also in the same open graph: a build has a handle of its own."""
    fill(graph, {"node:Book": books(8_000, vectors="none")})
    building = threading.Thread(target=graph.ensure_indices)
    building.start()
    written = 0
    while building.is_alive():
        run(graph, f'insert Book {{ title: "new {written}" }}')
        assert graph.query('query q() { match { $b: Book { title: "the book 7" } } return { $b.year } }').rows == [{"b.year": 7}]
        written += 1
    building.join()
    assert table(graph, "node:Book").count() == 8_000 + written


def test_drift_is_refused(graph: Graph) -> None:
    """W-52: a table moved by hand is not indexed over."""
    authors(graph, "Ada")
    table(graph, "node:Author").dataset.delete("id = 'Ada'")
    with pytest.raises(og.StorageError) as refused:
        graph.ensure_indices()
    assert refused.value.kind is Kind.DRIFT
    assert names(graph, "node:Author") == []
