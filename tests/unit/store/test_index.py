"""Indexes are staged, all of a table in one transaction; a row is found by every kind however it was written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.query import MatchQuery

from omnigraph.errors import ConflictError, InvalidInput, Kind
from omnigraph.store import stage
from omnigraph.store.index import BuiltIndex, IndexSpec, LanceIndexKind, build, existing, fits, write_index
from omnigraph.store.refs import create_ref, write_before_ref
from omnigraph.store.tables import Table, create_table
from tests.unit.store.tables import PATH, compacted, delete_where, place, reopened, some

DIMENSION = 8
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("txt", pa.string()),
        pa.field("v", pa.list_(pa.float32(), DIMENSION)),
        pa.field("flag", pa.string()),
    ]
)
SMALL = {"num_partitions": 1, "metric": "l2"}
SPECS = (
    IndexSpec("id", LanceIndexKind.BTREE, "id_idx"),
    IndexSpec("n", LanceIndexKind.BTREE, "n_idx"),
    IndexSpec("txt", LanceIndexKind.INVERTED, "txt_idx"),
    IndexSpec("v", LanceIndexKind.VECTOR, "v_idx", SMALL),
)


def words(values: dict[str, int]) -> pa.Table:
    """One row per id, whose number is also its word and its place in space."""
    columns = {
        "id": list(values),
        "n": list(values.values()),
        "txt": [f"word{n} common" for n in values.values()],
        "v": [_vector(n) for n in values.values()],
        "flag": ["even" if n % 2 == 0 else "odd" for n in values.values()],
    }
    return pa.table(columns, schema=SCHEMA)


def _vector(n: int) -> list[float]:
    return [float(n * 10 + i) for i in range(DIMENSION)]


def library(path: Path) -> Table:
    """Forty rows in two fragments, not indexed."""
    table = create_table(place(path), PATH, SCHEMA)
    table = stage.commit(some(stage.append(table, words({f"k{n}": n for n in range(30)}))))
    return stage.commit(some(stage.append(table, words({f"k{n}": n for n in range(30, 40)}))))


def by_key(table: Table, key: str) -> list[int]:
    found: list[int] = table.scan(["n"], where=f"id = '{key}'").read_all()["n"].to_pylist()
    return found


def by_number(table: Table, n: int) -> list[str]:
    found: list[str] = table.scan(["id"], where=f"n = {n}").read_all()["id"].to_pylist()
    return found


def by_word(table: Table, n: int) -> list[str]:
    found: list[str] = table.dataset.to_table(columns=["id", "_score"], full_text_query=MatchQuery(f"word{n}", "txt"))["id"].to_pylist()
    return found


def by_place(table: Table, n: int) -> list[str]:
    nearest = {"column": "v", "q": _vector(n), "k": 3, "refine_factor": 20}
    read = table.dataset.to_table(columns=["id", "_distance"], nearest=nearest).to_pylist()
    return [row["id"] for row in read if row["_distance"] < 1.0]


def assert_found(table: Table, key: str, n: int) -> None:
    assert by_key(table, key) == [n]
    assert by_number(table, n) == [key]
    assert by_word(table, n) == [key]
    assert by_place(table, n) == [key]


def assert_gone(table: Table, n: int) -> None:
    assert (by_number(table, n), by_word(table, n), by_place(table, n)) == ([], [], [])


def assert_coverage_is_what_lance_says(table: Table) -> None:
    """Ours is read from the version file alone; Lance's own opens every index."""
    for index in existing(table):
        assert index.uncovered_rows == table.dataset.stats.index_stats(index.name)["num_unindexed_rows"]
        assert index.covered_rows + index.uncovered_rows == table.count()


# -- building


def test_all_indexes_of_a_table_are_one_transaction_and_one_version(tmp_path: Path) -> None:
    """X-07: staged, so HEAD does not move; committed, they all work at once, full text too."""
    table = library(tmp_path)
    staged = some(build(table, [*SPECS, IndexSpec("flag", LanceIndexKind.BITMAP, "flag_idx")], uuid="mine"))
    assert (table.head(), existing(table)) == (table.ref.version, ())
    after = stage.commit(staged)
    assert after.ref.version == table.ref.version + 1
    assert after.dataset.read_transaction(after.ref.version).uuid == "mine"
    assert existing(after) == (
        BuiltIndex("flag_idx", "flag", LanceIndexKind.BITMAP, 40, 0),
        BuiltIndex("id_idx", "id", LanceIndexKind.BTREE, 40, 0),
        BuiltIndex("n_idx", "n", LanceIndexKind.BTREE, 40, 0),
        BuiltIndex("txt_idx", "txt", LanceIndexKind.INVERTED, 40, 0),
        BuiltIndex("v_idx", "v", LanceIndexKind.VECTOR, 40, 0),
    )
    assert "ScalarIndexQuery" in after.dataset.scanner(filter="n = 7").explain_plan()
    for n in (0, 17, 39):
        assert_found(after, f"k{n}", n)
    assert after.count("flag = 'odd'") == 20


@pytest.mark.parametrize("covered", [False, True], ids=["with nothing to cover", "covering all"])
def test_full_text_works_right_after_the_commit(tmp_path: Path, covered: bool) -> None:
    """An inverted segment that was not finalised makes every full-text query fail."""
    table = library(tmp_path) if covered else create_table(place(tmp_path), PATH, SCHEMA)
    table = stage.commit(some(build(table, [IndexSpec("txt", LanceIndexKind.INVERTED, "txt_idx")])))
    assert by_word(table, 3) == (["k3"] if covered else [])


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    table = stage.commit(some(build(library(tmp_path), SPECS[:1])))
    for specs in ([IndexSpec("n", LanceIndexKind.BTREE, "id_idx")], [SPECS[1], IndexSpec("txt", LanceIndexKind.INVERTED, "n_idx")]):
        with pytest.raises(InvalidInput) as refused:
            build(table, specs)
        assert refused.value.facts["index"] == specs[-1].name


@pytest.mark.parametrize(
    "spec",
    [
        IndexSpec("nothing", LanceIndexKind.BTREE, "x"),
        IndexSpec("v", LanceIndexKind.BTREE, "x"),
        IndexSpec("n", LanceIndexKind.INVERTED, "x"),
        IndexSpec("txt", LanceIndexKind.VECTOR, "x"),
    ],
    ids=["no column", "a vector in order", "a number as text", "text as a vector"],
)
def test_an_index_that_does_not_fit_its_column_is_refused(tmp_path: Path, spec: IndexSpec) -> None:
    with pytest.raises(InvalidInput):
        build(library(tmp_path), [spec])


def test_a_vector_index_with_nothing_to_learn_from_is_left_out(tmp_path: Path) -> None:
    """X-08: its siblings are built; alone, it is nothing to build."""
    table = create_table(place(tmp_path), PATH, SCHEMA)
    nowhere = words({f"k{n}": n for n in range(300)}).set_column(3, "v", pa.nulls(300, SCHEMA.field("v").type))
    table = stage.commit(some(stage.append(table, nowhere)))
    assert write_index(table, SPECS[3]) is None
    assert build(table, SPECS[3:]) is None
    after = stage.commit(some(build(table, SPECS)))
    assert [index.name for index in existing(after)] == ["id_idx", "n_idx", "txt_idx"]


@pytest.mark.parametrize("where", ["here", "on a branch"])
def test_an_index_takes_the_place_of_an_older_one_of_its_kind(tmp_path: Path, where: str) -> None:
    """X-03: whatever its name was, and wherever its files lie; one index is left, and covers every row."""
    table = stage.commit(some(build(library(tmp_path), SPECS)))
    if where == "on a branch":
        table = create_ref(table, "child")
    table = stage.commit(some(stage.upsert(table, words({"k3": 500, "new": 501}))))
    again = [IndexSpec(spec.column, spec.kind, f"new_{spec.name}", spec.options) for spec in SPECS[:2]]
    after = stage.commit(some(build(table, [*again, *SPECS[2:]])))
    assert [(index.name, index.uncovered_rows) for index in existing(after)] == [
        ("new_id_idx", 0),
        ("new_n_idx", 0),
        ("txt_idx", 0),
        ("v_idx", 0),
    ]
    for step in (lambda same: same, _compacted, _optimised):
        after = step(after)
        for key, n in {"k3": 500, "new": 501, "k17": 17}.items():
            assert_found(after, key, n)
        assert_gone(after, 3)


# -- files written ahead of the commit

AFTER_WRITING: dict[str, tuple[Callable[[Table], Table], int]] = {
    # what happens between writing an index and committing it, and how many rows it does not cover then
    "nothing": (lambda t: t, 0),
    "an append": (lambda t: stage.commit(some(stage.append(t, words({"new": 500})))), 1),
    "an update": (lambda t: stage.commit(some(stage.upsert(t, words({"k3": 500})))), 1),
    "a delete": (lambda t: stage.commit(some(stage.delete_keys(t, pa.array(["k3", "k35"])))), 0),
    "a fragment gone": (lambda t: stage.commit(some(delete_where(t, "n < 30"))), 0),
    "appends that fold": (
        lambda t: functools.reduce(lambda u, n: stage.commit(some(stage.append(u, words({f"new{n}": 500 + n})))), range(12), t),
        22,
    ),
    "a compaction": (lambda t: _compacted(stage.commit(some(stage.append(t, words({"new": 500}))))), 0),
    "an overwrite": (lambda t: stage.commit(stage.overwrite(t, words({f"k{n}": n + 1000 for n in range(40)}))), 0),
    "every row gone": (lambda t: stage.commit(some(delete_where(t, "true"))), 0),
}


@pytest.mark.parametrize("between", AFTER_WRITING)
def test_an_index_written_earlier_tells_the_truth_later(tmp_path: Path, between: str) -> None:
    """RT-47, X-03: what it covers it finds, what it does not is scanned, and it claims nothing that it never saw."""
    table = library(tmp_path)
    ready = [segment for spec in SPECS if (segment := write_index(table, spec)) is not None]
    change, uncovered = AFTER_WRITING[between]
    table = change(table)
    shown = table.scan(["id", "n"]).read_all()
    expected = dict(zip(shown["id"].to_pylist(), shown["n"].to_pylist(), strict=True))
    after = stage.commit(some(build(table, SPECS, ready=ready)))
    assert [index.name for index in existing(after)] == ["id_idx", "n_idx", "txt_idx", "v_idx"]
    assert_coverage_is_what_lance_says(after)
    assert {index.uncovered_rows for index in existing(after)} == {uncovered}
    for key, n in expected.items():
        assert_found(after, key, n)
    for n in {3, 17, 35} - set(expected.values()):
        assert_gone(after, n)


def test_an_index_of_another_branch_is_not_taken(tmp_path: Path) -> None:
    table = library(tmp_path)
    segment = write_index(table, SPECS[0])
    assert segment is not None
    child = create_ref(table, "child")
    assert fits(segment, table)
    assert not fits(segment, child)
    assert_found(stage.commit(some(build(child, SPECS, ready=[segment]))), "k17", 17)


def test_of_two_index_builds_from_one_base_one_lands(tmp_path: Path) -> None:
    table = library(tmp_path)
    first, second = some(build(table, SPECS[:1])), some(build(table, SPECS[1:2]))
    stage.commit(first)
    with pytest.raises(ConflictError) as refused:
        stage.commit(second)
    assert refused.value.kind is Kind.VERSION_MISMATCH
    assert table.head() == table.ref.version + 1


def test_an_index_staged_before_rows_came_is_refused(tmp_path: Path) -> None:
    """RT-52: An index staged before newer rows came is refused, although Lance would accept it."""
    table = library(tmp_path)
    staged = some(build(table, SPECS))
    newest = stage.commit(some(stage.upsert(table, words({"k3": 503, "new": 500}))))
    with pytest.raises(ConflictError) as refused:
        stage.commit(staged)
    assert refused.value.kind is Kind.VERSION_MISMATCH
    assert table.head() == newest.ref.version
    assert_found(newest, "new", 500)


def test_an_index_committed_over_newer_rows_is_sound(tmp_path: Path) -> None:
    """RT-47: what Lance itself does when nobody looks: it lands two versions on, and the newer rows are found without it."""
    table = library(tmp_path)
    staged = some(build(table, SPECS))
    stage.commit(some(stage.upsert(table, words({"k3": 503, "new": 500}))))
    late = lance.LanceDataset.commit(table.dataset, staged.transaction, max_retries=0)
    assert late.version == table.ref.version + 2
    newest = reopened(table, table.head())
    assert_found(newest, "new", 500)
    assert_found(newest, "k3", 503)
    assert_gone(newest, 3)


# -- rows are found by every kind, however they were written


def _first_touch(table: Table) -> Table:
    written = write_before_ref(table, "side", words({"new": 500}))
    return stage.commit(some(stage.put_files(create_ref(table, "side"), written)))


WAYS: dict[str, tuple[Callable[[Table], Table], str, set[int]]] = {
    # how a row with number 500 comes in, its key, and the numbers that are gone afterwards
    "append": (lambda t: stage.commit(some(stage.append(t, words({"new": 500})))), "new", set()),
    "insert": (lambda t: stage.commit(some(stage.upsert(t, words({"new": 500})))), "new", set()),
    "update": (lambda t: stage.commit(some(stage.upsert(t, words({"k3": 500})))), "k3", {3}),
    "update in the last fragment": (lambda t: stage.commit(some(stage.upsert(t, words({"k35": 500})))), "k35", {35}),
    "update before a delete": (
        lambda t: stage.commit(some(stage.delete_keys(stage.commit(some(stage.upsert(t, words({"k3": 500})))), pa.array(["k5", "k36"])))),
        "k3",
        {3, 5, 36},
    ),
    "append beside a delete": (
        lambda t: stage.commit(some(stage.append(stage.commit(some(stage.delete_keys(t, pa.array(["k3"])))), words({"new": 500})))),
        "new",
        {3},
    ),
    "after the first fragment went": (
        lambda t: stage.commit(some(stage.append(stage.commit(some(delete_where(t, "n < 30"))), words({"new": 500})))),
        "new",
        {3, 29},
    ),
    "after every row went": (
        lambda t: stage.commit(some(stage.upsert(stage.commit(some(delete_where(t, "true"))), words({"new": 500})))),
        "new",
        {3, 35},
    ),
    "overwrite": (lambda t: stage.commit(stage.overwrite(t, words({"new": 500, "other": 600}))), "new", {3, 35}),
    "first touch of a branch": (_first_touch, "new", set()),
    "upsert on a branch": (lambda t: stage.commit(some(stage.upsert(create_ref(t, "side"), words({"k3": 500})))), "k3", {3}),
}


def _optimised(table: Table) -> Table:
    by_hand = lance.dataset(table.root.of(table.ref.home))
    by_hand.optimize.optimize_indices()
    return reopened(table, by_hand.version)


def _compacted(table: Table) -> Table:
    after = compacted(table)
    # Fragments of different coverage stay apart, and a branch leaves alone what its parent's indexes cover.
    fragments = len(table.dataset.get_fragments())
    assert table.ref.branch is not None or fragments <= 2 or len(after.dataset.get_fragments()) < fragments
    return after


@pytest.mark.parametrize(
    ("built", "upkeep"),
    [("on rows", (_optimised, _compacted)), ("on rows", (_compacted, _optimised)), ("on nothing", (_optimised, _compacted, _optimised))],
    ids=["optimize first", "compact first", "index before rows"],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_row_is_found_by_every_index_however_it_was_written(
    tmp_path: Path, way: str, built: str, upkeep: tuple[Callable[[Table], Table], ...]
) -> None:
    """X-03, X-09: a fragment wrongly counted as covered would never be searched again, at once and after any upkeep."""
    if built == "on rows":
        table = stage.commit(some(build(library(tmp_path), SPECS)))
    else:
        table = stage.commit(some(build(create_table(place(tmp_path), PATH, SCHEMA), SPECS)))
        table = stage.commit(some(stage.append(table, words({f"k{n}": n for n in range(40)}))))
    write, key, gone = WAYS[way]
    table = write(table)
    rows = table.count()
    for step in (lambda same: same, *upkeep):
        table = step(table)
        assert table.count() == rows
        assert_coverage_is_what_lance_says(table)
        assert_found(table, key, 500)
        for number in gone:
            assert_gone(table, number)
        if rows > 20:
            assert_found(table, "k17", 17)


def test_a_branch_keeps_what_its_parents_indexes_cover_when_it_is_compacted(tmp_path: Path) -> None:
    parent = stage.commit(some(build(library(tmp_path), SPECS)))
    child = create_ref(parent, "child")
    for n in range(3):
        child = stage.commit(some(stage.upsert(child, words({f"k{n}": 500 + n, f"new{n}": 600 + n}))))
    grandchild = create_ref(compacted(child), "grandchild")
    own = stage.commit(some(build(grandchild, [IndexSpec("flag", LanceIndexKind.BITMAP, "flag_idx")])))
    for table in (reopened(grandchild, grandchild.ref.version), own, _optimised(own), _compacted(_optimised(own))):
        for n in range(3):
            assert_found(table, f"k{n}", 500 + n)
            assert_found(table, f"new{n}", 600 + n)
            assert_gone(table, n)
        assert_found(table, "k17", 17)
        assert table.count("flag = 'odd'") == 21


def test_a_branch_with_indexes_of_its_own_is_compacted_like_any_table(tmp_path: Path) -> None:
    child = create_ref(library(tmp_path), "child")
    child = stage.commit(some(build(child, SPECS)))
    child = _compacted(child)
    assert len(child.dataset.get_fragments()) == 1
    for n in (0, 17, 39):
        assert_found(child, f"k{n}", n)
