"""`optimize`: what it rewrites and indexes, what it leaves alone, and that no answer depends on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.catalog.layout import table_schema
from omnigraph.errors import Kind, StorageError, Unsupported
from omnigraph.exec.upkeep.indices import IndexState, Pending
from omnigraph.exec.upkeep.optimize import Bounds, OptimizedTable, OptimizeProgress, TableUpkeep, optimize
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.manifest.model import CommitKind
from omnigraph.store.fragments import fragments
from omnigraph.store.index import existing, parts_of
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import fill, rows, run, table, table_row, versions

DIMENSION = 2_000
LIBRARY = f"""
node Author {{ name: String @key  born: I32? @index }}
node Book {{ title: String @index  year: I32?  place: Vector({DIMENSION})? @index }}
node Scan {{ slug: String @key  page: Blob? }}
edge Wrote: Author -> Book {{ share: F32? @index }}
"""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "g", schema=LIBRARY, actor="act-ada")


def authors(graph: Graph, *names: str, branch: str = "main") -> None:
    for name in names:
        run(graph, f'insert Author {{ name: "{name}", born: {len(name)} }}', branch=branch)


def books(graph: Graph, count: int, *, prefix: str = "b", vectors: bool = False) -> None:
    numbers = np.random.default_rng(count).normal(size=(count, DIMENSION)).astype("float32")
    places = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), DIMENSION, mask=pa.array([not vectors] * count))
    ids = pa.array([f"{prefix}{n}" for n in range(count)])
    columns = {"id": ids, "title": pa.array([f"the book {n}" for n in range(count)]), "year": pa.array(range(count), pa.int32())}
    node = graph.catalog.node("Book")
    assert node is not None
    schema = table_schema(node)
    fill(graph, {"node:Book": pa.table({name: {**columns, "place": places}[name] for name in schema.names}, schema=schema)})


def of(found: og.Optimized, alias: str) -> OptimizedTable:
    (one,) = [each for each in found.tables if each.table == alias]
    return one


def sizes(graph: Graph, alias: str, *, branch: str = "main") -> list[int]:
    return sorted(part.rows for part in fragments(table(graph, alias, branch=branch)))


def leftovers(graph: Graph) -> list[str]:
    """Files that no reader finds: previews, and intents."""
    root = Path(graph.uri)
    return [path.name for path in root.rglob("*") if path.name.startswith("d") and path.suffix == ".manifest"] + [
        path.name for path in (root / intents.DIRECTORY).glob("*.json")
    ]


# -- what it does


def test_all_tables_are_compacted_and_indexed_in_one_commit(graph: Graph) -> None:
    """O-02: Several tables are optimized in one commit; a second run has nothing to do, and makes none.

    Also O-01, O-05.
    """
    authors(graph, *(f"a{n}" for n in range(9)))
    for part in range(3):
        books(graph, 10, prefix=f"p{part}-")
    run(graph, 'insert Wrote { from: "a1", to: "p0-1", share: 0.5 }')
    before, commits = {alias: rows(graph, alias) for alias in ("node:Author", "node:Book", "edge:Wrote")}, len(graph.commits())
    found = graph.optimize(message="tidy")
    assert found.commit is not None
    assert (found.commit.kind, found.commit.actor, found.commit.message) == (CommitKind.OPTIMIZE, "act-ada", "tidy")
    assert len(graph.commits()) == commits + 1
    assert (sizes(graph, "node:Author"), sizes(graph, "node:Book")) == ([9], [30])
    assert {index.uncovered_rows for alias in ("node:Author", "node:Book", "edge:Wrote") for index in existing(table(graph, alias))} == {0}
    assert [of(found, alias).state for alias in ("node:Author", "node:Scan")] == [TableUpkeep.OPTIMIZED, TableUpkeep.UNCHANGED]
    assert of(found, "node:Author").version == versions(graph)["node:Author"] == table(graph, "node:Author").head()
    assert of(found, "node:Book").rows_rewritten == 30
    assert {alias: rows(graph, alias) for alias in before} == before
    assert (graph.verify(), leftovers(graph)) == ([], [])
    shown = versions(graph)
    again = graph.optimize()
    assert (again.commit, len(graph.commits()), versions(graph)) == (None, commits + 1, shown)
    assert {each.state for each in again.tables} == {TableUpkeep.UNCHANGED}


def test_writes_and_schema_changes_go_on_afterwards(graph: Graph) -> None:
    """O-01: What `optimize` publishes is HEAD, so writes, deletes and a schema change start from it."""
    authors(graph, "Ada", "Bob", "Cy")
    graph.optimize()
    run(graph, 'update Author set { born: 99 } where name = "Bob"')
    run(graph, 'delete Author where name = "Cy"')
    authors(graph, "Dora")
    graph.apply_schema(LIBRARY.replace("born: I32? @index", "born: I32? @index  city: String? @index"))
    assert {id_: row["born"] for id_, row in rows(graph, "node:Author").items()} == {"Ada": 3, "Bob": 99, "Dora": 4}
    assert graph.optimize().commit is not None
    assert graph.optimize().commit is None
    assert table(graph, "node:Author").count("born = 99") == 1
    assert graph.verify() == []


def test_coverage_alone_is_work_and_old_segments_stay(graph: Graph) -> None:
    """O-05: Rows that came after the indexes are covered by a segment of their own; a large one is not built again for a few rows.

    Also X-03.
    """
    books(graph, 2_000)
    graph.optimize()
    first = {part.uuid for part in parts_of(table(graph, "node:Book"))}
    books(graph, 3, prefix="late")
    found = graph.optimize()
    assert found.commit is not None
    after = table(graph, "node:Book")
    assert first < {part.uuid for part in parts_of(after)}
    assert {(index.covered_rows, index.uncovered_rows) for index in existing(after)} == {(2_003, 0)}
    assert (of(found, "node:Book").fragments_removed, sizes(graph, "node:Book")) == (0, [3, 2_000])
    assert after.count("id = 'late1'") == after.count("id = 'b1'") == 1
    assert graph.query('query q() { match { $b: Book  search($b.title, "1999") } return { $b.year } }').rows == [{"b.year": 1999}]


def test_segments_stay_few_however_often_a_table_grows(graph: Graph) -> None:
    """X-03: small segments are replaced by the next, so their number grows with the logarithm of the table."""
    books(graph, 500)
    graph.optimize()
    for part in range(20):
        books(graph, 5, prefix=f"n{part}-")
        assert graph.optimize().commit is not None
    grown = table(graph, "node:Book")
    counts = [sum(part.name == index.name for part in parts_of(grown)) for index in existing(grown)]
    assert max(counts) <= 4
    assert len(fragments(grown)) <= 4
    assert sorted(rows(graph, "node:Book")) == sorted([f"b{n}" for n in range(500)] + [f"n{p}-{n}" for p in range(20) for n in range(5)])
    assert grown.count("title = 'the book 3'") == 21
    assert graph.verify(deep=True) == []


def test_an_index_of_a_renamed_property_is_kept_and_one_that_is_missing_is_built(graph: Graph) -> None:
    """O-05: indexes that the schema declares later are built, also after a rename."""
    authors(graph, "Ada", "Bob")
    graph.optimize()
    graph.apply_schema(LIBRARY.replace("born: I32? @index", 'year: I32? @index @rename_from("born")  city: String? @index'))
    found = of(graph.optimize(), "node:Author")
    assert {(index.column, index.state) for index in found.indexes} == {
        ("id", IndexState.PRESENT),
        ("name", IndexState.PRESENT),
        ("year", IndexState.PRESENT),
        ("city", IndexState.BUILT),
    }
    assert table(graph, "node:Author").count("year = 3") == 2


def test_deleted_rows_go_and_older_commits_keep_theirs(graph: Graph) -> None:
    """O-07: A fragment with many deleted rows is rewritten without them. No version is deleted."""
    books(graph, 200)
    graph.optimize()
    old = graph.commits()[0].id
    files = {path for path in Path(graph.uri).rglob("*") if path.is_file() and "__locks" not in path.parts}
    run(graph, "delete Book where year < 50")
    assert graph.optimize().commit is not None
    assert [(part.rows, part.deletions) for part in fragments(table(graph, "node:Book"))] == [(150, None)]
    assert {(index.covered_rows, index.uncovered_rows) for index in existing(table(graph, "node:Book"))} == {(150, 0)}
    assert all(path.exists() for path in files)
    count = "query q() { match { $b: Book { year: 7 } } return { $b.title } }"
    assert (graph.query(count, at=old).rows, graph.query(count).rows) == ([{"b.title": "the book 7"}], [])
    assert graph.verify(deep=True) == []


def test_cleanup_and_optimize_in_any_order(graph: Graph) -> None:
    """O-16: after a cleanup the tables are optimized and written to as before, and after that cleaned up again."""
    authors(graph, "Ada", "Bob")
    graph.optimize()
    authors(graph, "Cy", "Dora")
    graph.cleanup(keep=1)
    assert graph.optimize().commit is not None
    graph.cleanup(keep=1)
    authors(graph, "Eve")
    assert sorted(rows(graph, "node:Author")) == ["Ada", "Bob", "Cy", "Dora", "Eve"]
    assert table(graph, "node:Author").count("born = 3") == 3
    assert graph.optimize().commit is not None
    assert graph.verify(deep=True) == []


def test_few_deleted_rows_are_left(graph: Graph) -> None:
    """O-02: a rewrite that would not pay is not made."""
    books(graph, 200)
    graph.optimize()
    run(graph, "delete Book where year < 20")
    assert graph.optimize().commit is None


def test_a_table_whose_rows_are_all_deleted(graph: Graph) -> None:
    authors(graph, "Ada", "Bob")
    graph.optimize()
    run(graph, "delete Author where born >= 0")
    graph.optimize()
    assert (rows(graph, "node:Author"), graph.optimize().commit) == ({}, None)
    authors(graph, "Zoe")
    assert list(rows(graph, "node:Author")) == ["Zoe"]


def test_blobs_are_compacted_like_other_values(graph: Graph) -> None:
    """O-08: payloads, nulls, empty blobs and their neighbours are the same afterwards."""
    payloads: dict[str, bytes | None] = {f"s{n}": [None, b"", b"x" * n, bytes([n]) * 300_000][n % 4] for n in range(16)}
    node = graph.catalog.node("Scan")
    assert node is not None
    for part in range(4):
        ids = [f"s{n}" for n in range(16) if n // 4 == part]
        columns = {"id": ids, "slug": ids, "page": pa.array([payloads[id_] for id_ in ids], pa.large_binary())}
        schema = table_schema(node)
        fill(graph, {"node:Scan": pa.table({name: columns[name] for name in schema.names}, schema=schema)})
    run(graph, 'delete Scan where slug = "s5"')
    before = graph.snapshot().commit_id
    assert of(graph.optimize(), "node:Scan").fragments_removed > 1
    assert sizes(graph, "node:Scan") == [15]
    assert {id_: row["page"] for id_, row in rows(graph, "node:Scan").items()} == {k: v for k, v in payloads.items() if k != "s5"}
    assert graph.blob("node", "Scan", "s15", "page").read() == payloads["s15"]
    assert list(graph.diff(before, "main")) == []
    assert graph.verify(deep=True) == []


def test_damaged_indexes_are_replaced(graph: Graph) -> None:
    """O-05: the damaged files of an index are in the way until it is built again."""
    authors(graph, "Ada", "Bob")
    graph.optimize()
    broken = next(file for file in (Path(graph.uri) / table_row(graph, "node:Author").path / "_indices").rglob("page_data.lance"))
    broken.unlink()
    again = og.open(graph.uri)
    found = of(again.optimize(), "node:Author")
    assert sum(index.damage is not None and index.state is IndexState.BUILT for index in found.indexes) == 1
    assert again.optimize().commit is None
    assert [finding for finding in again.verify() if finding.severity == "error"] == []


def test_pending_indexes_are_reported_and_make_no_commit(graph: Graph) -> None:
    """RT-57: A table whose only work is an index that cannot be built is not part of the commit.

    Also X-08.
    """
    books(graph, 5)
    graph.optimize()
    again = graph.optimize()
    assert again.commit is None
    assert [(index.column, index.reason) for index in of(again, "node:Book").pending] == [("place", Pending.NO_VECTORS)]


def test_vectors_are_indexed_when_they_are_enough(graph: Graph) -> None:
    """X-09: vectors that came after the index get a segment when they are too many to scan; either way they are found."""
    books(graph, 2_000, vectors=True)
    assert ("place", IndexState.BUILT) in {(index.column, index.state) for index in of(graph.optimize(), "node:Book").indexes}
    books(graph, 50, prefix="few", vectors=True)
    few = {index.column: index for index in of(graph.optimize(), "node:Book").indexes if index.kind == "vector"}["place"]
    assert (few.state, few.uncovered_rows) == (IndexState.PRESENT, 50)
    books(graph, 2_100, prefix="more", vectors=True)
    assert ("place", IndexState.BUILT) in {(index.column, index.state) for index in of(graph.optimize(), "node:Book").indexes}
    assert graph.optimize().commit is None
    stored = table(graph, "node:Book")
    for id_ in ("b3", "few7", "more2099"):
        (wanted,) = stored.scan(["place"], where=f"id = '{id_}'").read_all()["place"].to_pylist()
        query = f"query q($v: Vector({DIMENSION})) {{ match {{ $b: Book }} return {{ $b }} order {{ nearest($b.place, $v) }} limit 1 }}"
        assert graph.query(query, params={"v": wanted}).rows == [{"b": id_}]


# -- what it refuses and leaves alone


def test_drift_is_skipped_and_reported(graph: Graph) -> None:
    """O-04: A table that another program committed to is left as it is and reported; the others are optimized."""
    authors(graph, "Ada", "Bob")
    books(graph, 3)
    table(graph, "node:Author").dataset.delete("id = 'Ada'")
    shown = table_row(graph, "node:Author").version
    found = graph.optimize()
    assert [(each.table, each.version, each.head) for each in found.needs_repair] == [("node:Author", shown, shown + 1)]
    assert of(found, "node:Book").state is TableUpkeep.OPTIMIZED
    assert table_row(graph, "node:Author").version == shown


def test_a_write_that_cannot_be_resolved_is_in_the_way(graph: Graph) -> None:
    """O-03: While an interrupted write of any table of the branch is unresolved, nothing is optimized."""
    from omnigraph.faults import Fault, SimulatedCrash, armed

    authors(graph, "Ada", "Bob")
    books(graph, 3)
    graph.optimize()
    books(graph, 3, prefix="n")
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        authors(graph, "Cy")
    author = table_row(graph, "node:Author")
    opened = table(graph, "node:Author").dataset
    opened.checkout_version(author.version + 1).delete("id = 'Ada'")  # somebody on top of the interrupted write
    before = versions(graph)
    with pytest.raises(og.RecoveryRequired) as refused:
        graph.optimize()
    assert refused.value.kind is Kind.RECOVERY_REQUIRED
    assert versions(graph) == before


def test_a_dead_writer_is_resolved_first(graph: Graph) -> None:
    """O-03: the write of a dead writer is finished before anything is optimized, and is part of the result."""
    from omnigraph.faults import Fault, SimulatedCrash, armed

    authors(graph, "Ada", "Bob")
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        authors(graph, "Cy")
    graph.optimize()
    assert (sorted(rows(graph, "node:Author")), len(graph.recoveries()), leftovers(graph)) == (["Ada", "Bob", "Cy"], 1, [])


def test_a_reader_optimizes_nothing(graph: Graph) -> None:
    with pytest.raises(Unsupported) as refused:
        og.open(graph.uri, mode="r").optimize()
    assert refused.value.kind is Kind.READ_ONLY


def test_an_error_before_the_commit_leaves_the_graph_as_it_was(graph: Graph) -> None:
    """RT-56: After a failure between the two commits of a table, its own first commit is not taken for that of another program: it is
    undone, and the next run succeeds.
    """
    from omnigraph.faults import Fault, armed

    authors(graph, "Ada", "Bob")
    books(graph, 3)
    books(graph, 3, prefix="n")
    before = rows(graph, "node:Book")
    failure = StorageError(Kind.STORAGE, "the disk is gone")
    with pytest.raises(StorageError, match="the disk is gone"), armed(Fault.WRITE_BETWEEN_COMMITS, failure=failure):
        graph.optimize()
    assert (rows(graph, "node:Book"), leftovers(graph)) == (before, [])
    assert graph.optimize().commit is not None
    assert graph.verify() == []


# -- branches


def test_a_branch_compacts_only_what_it_owns(graph: Graph) -> None:
    """O-04: a table that the branch inherits is left to its owner, and reported; its own are compacted on its own line."""
    authors(graph, "Ada", "Bob")
    books(graph, 3)
    books(graph, 3, prefix="n")
    graph.branches.create("work")
    authors(graph, *(f"w{n}" for n in range(6)), branch="work")
    main = versions(graph)
    found = graph.optimize("work")
    assert (of(found, "node:Author").state, of(found, "node:Book").state) == (TableUpkeep.OPTIMIZED, TableUpkeep.INHERITED)
    assert (sizes(graph, "node:Author", branch="work"), versions(graph)) == ([8], main)
    assert table_row(graph, "node:Book", branch="work").native is None
    assert graph.optimize("work").commit is None
    assert {index.uncovered_rows for index in existing(table(graph, "node:Author", branch="work"))} == {0}
    assert graph.optimize().commit is not None
    assert len(rows(graph, "node:Author", branch="work")) == 8
    assert graph.verify() == []


# -- history across a compaction


def test_a_diff_across_a_compaction_has_only_the_real_changes(graph: Graph) -> None:
    """D-11: a commit that only moves rows has no changes, and a diff across it has those of the others."""
    authors(graph, "Ada", "Bob", "Cy")
    start = graph.commits()[0].id
    found = graph.optimize()
    assert found.commit is not None
    assert list(graph.commit_changes(found.commit.id)) == []
    assert list(graph.diff(start, "main")) == []
    run(graph, 'update Author set { born: 99 } where name = "Bob"')
    run(graph, 'delete Author where name = "Cy"')
    graph.optimize()
    authors(graph, "Dora")
    assert [(change.op, change.id) for change in graph.diff(start, "main")] == [("update", "Bob"), ("delete", "Cy"), ("insert", "Dora")]


@pytest.mark.parametrize("where", [("main",), ("work",), ("main", "work")], ids="-".join)
def test_a_merge_across_a_compaction_brings_only_the_real_changes(graph: Graph, where: tuple[str, ...]) -> None:
    """M-01: compaction on either side of a merge is no change: it conflicts with none and is not brought along."""
    authors(graph, "Ada", "Bob", "Cy")
    graph.branches.create("work")
    run(graph, 'update Author set { born: 99 } where name = "Bob"', branch="work")
    authors(graph, "Wim", branch="work")
    run(graph, 'update Author set { born: 11 } where name = "Ada"')
    for branch in where:
        assert graph.optimize(branch).commit is not None
    merged = graph.merge("work")
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 1, 0)
    assert {id_: row["born"] for id_, row in rows(graph, "node:Author").items()} == {"Ada": 11, "Bob": 99, "Cy": 2, "Wim": 3}


# -- others write meanwhile


def racing(graph: Graph, change: Callable[[], object], *, at: int = 2) -> og.Optimized:
    """Optimize; somebody else writes when the `at`-th table is told of, which is before the lock is taken."""
    told: list[OptimizeProgress] = []

    def meanwhile(progress: OptimizeProgress) -> None:
        told.append(progress)
        if len(told) == at:
            change()

    return graph.optimize(on_progress=meanwhile)


def test_rows_that_come_meanwhile_are_kept(graph: Graph) -> None:
    """O-09: What other writers commit while tables are rewritten is neither lost nor waited for; rows added since do not disturb."""
    authors(graph, "Ada", "Bob")
    books(graph, 3)
    books(graph, 3, prefix="n")
    other = og.open(graph.uri)
    found = racing(graph, lambda: authors(other, "Cy"))
    assert sorted(rows(graph, "node:Author")) == ["Ada", "Bob", "Cy"]
    assert of(found, "node:Author").state is TableUpkeep.OPTIMIZED
    assert {index.uncovered_rows for index in existing(table(graph, "node:Author"))} <= {0, 1}
    assert (graph.verify(), leftovers(graph)) == ([], [])


@pytest.mark.parametrize("change", ['delete Author where name = "Ada"', 'update Author set { born: 77 } where name = "Ada"'])
def test_rows_that_change_meanwhile_keep_their_change(graph: Graph, change: str) -> None:
    """O-10: A rewrite of fragments that another writer changed is made again."""
    authors(graph, "Ada", "Bob")
    books(graph, 3)
    other = og.open(graph.uri)
    found = racing(graph, lambda: run(other, change))
    assert found.commit is not None
    born = {id_: row["born"] for id_, row in rows(graph, "node:Author").items()}
    assert born == ({"Bob": 3} if change.startswith("delete") else {"Ada": 77, "Bob": 3})
    assert table(graph, "node:Author").count("id = 'Bob'") == 1
    assert (graph.optimize().commit, graph.verify()) == (None, [])


def test_a_writer_that_never_rests_only_makes_it_wait_for_the_lock(graph: Graph) -> None:
    """O-10: the last attempt is made under the lock, so a busy branch is optimized too."""
    authors(graph, *(f"a{n}" for n in range(6)))
    books(graph, 3)
    other = og.open(graph.uri)
    years = iter(range(1000))

    def disturb(progress: OptimizeProgress) -> None:
        if progress.table == "node:Author" and not other.engine.manifest.root.objects.list(intents.DIRECTORY) and next(years) < 2:
            run(other, 'update Author set { born: 5 } where name = "a1"')

    assert graph.optimize(on_progress=disturb).commit is not None
    assert rows(graph, "node:Author")["a1"]["born"] == 5
    assert graph.verify() == []


def test_a_rival_that_optimized_first_leaves_nothing_to_do(graph: Graph) -> None:
    """O-10: of two at once one makes the commit."""
    authors(graph, "Ada", "Bob")
    other = og.open(graph.uri)
    racing(graph, other.optimize, at=1)
    assert sum(commit.kind is CommitKind.OPTIMIZE for commit in graph.commits()) == 1


def test_a_rival_that_extended_the_same_index_is_noticed(graph: Graph) -> None:
    """O-10: two segments of one index never cover the same fragment: Lance would not commit to the table any more."""
    graph.load({"Author": pa.table({"name": [f"a{n}" for n in range(500)]})}, mode="append")
    books(graph, 3)
    graph.optimize()
    authors(graph, "Bob")
    books(graph, 3, prefix="late")
    other = og.open(graph.uri)
    only = Bounds(tables=frozenset({table_row(graph, "node:Author").id}))
    racing(graph, lambda: optimize(other.engine, bounds=only))  # the indexes of authors are extended, and books come next
    parts = [(part.name, fragment) for part in parts_of(table(graph, "node:Author")) for fragment in part.fragments]
    assert len(parts) == len(set(parts))
    authors(graph, "Cy")
    assert graph.optimize().commit is not None
    assert {index.uncovered_rows for index in existing(table(graph, "node:Author"))} == {0}


def test_progress_is_told_table_by_table(graph: Graph) -> None:
    authors(graph, "Ada", "Bob")
    books(graph, 3)
    told: list[OptimizeProgress] = []
    graph.optimize(on_progress=told.append)
    assert [(each.table, each.fragments, each.rows) for each in told] == [("node:Author", 2, 2), ("node:Book", 0, 3)]
