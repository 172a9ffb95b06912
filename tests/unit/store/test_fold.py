"""Small fragments taken along by the writes that follow: few fragments, the same rows, the same answers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ConflictError
from omnigraph.store import index, stage
from omnigraph.store.alter import alter
from omnigraph.store.fold import FOLD, SMALL_ROWS, fold, foldable
from omnigraph.store.index import IndexSpec, LanceIndexKind
from omnigraph.store.root import open_root
from omnigraph.store.tables import Table, Tables, create_table

Steps = list[tuple[str, set[int]]]
COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("text", pa.string()), pa.field("n", pa.int64())])


def rows(*ids: str, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "text": [f"word {one}" for one in ids], "n": [n] * len(ids)}, schema=COLUMNS)


def start(folder: Path, *ids: str) -> Table:
    table = create_table(open_root(folder / "g"), "nodes/t", COLUMNS)
    return put(table, rows(*ids)) if ids else table


def put(table: Table, data: pa.Table) -> Table:
    staged = stage.upsert(table, data)
    assert staged is not None
    return stage.commit(staged)


def content(table: Table) -> dict[str, int | None]:
    found = table.scan(["id", "n"]).read_all()
    return dict(zip(found.column("id").to_pylist(), found.column("n").to_pylist(), strict=True))


def fragments(table: Table) -> int:
    return len(table.dataset.get_fragments())


def test_a_long_run_of_small_writes_leaves_few_fragments(tmp_path: Path) -> None:
    """INV-5: 150 one-row commits, new rows and old ones in turn; each commit is still one version."""
    table, model = start(tmp_path), {}
    for n in range(150):
        key = f"k{n % 100}"
        before = table.ref.version
        table = put(table, rows(key, n=n))
        model[key] = n
        assert table.ref.version == before + 1
        assert fragments(table) <= 20
    assert content(table) == model


def test_appends_take_small_fragments_along_too(tmp_path: Path) -> None:
    table = start(tmp_path)
    for n in range(60):
        staged = stage.append(table, rows(f"k{n}", n=n))
        assert staged is not None
        assert staged.counts == stage.Counts(inserted=1), "what is taken along is not counted"
        table = stage.commit(staged)
    assert fragments(table) <= 15
    assert content(table) == {f"k{n}": n for n in range(60)}


def test_rows_that_were_deleted_do_not_come_back(tmp_path: Path) -> None:
    table = start(tmp_path)
    for n in range(40):
        table = put(table, rows(f"k{n}", n=n))
        if n % 3 == 0:
            staged = stage.delete_keys(table, pa.array([f"k{n}"]))
            assert staged is not None
            table = stage.commit(staged)
    assert set(content(table)) == {f"k{n}" for n in range(40) if n % 3}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ud"), st.sets(st.integers(0, 12), min_size=1, max_size=3)), max_size=40))
def test_any_sequence_of_writes_gives_what_a_dict_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[int]]]
) -> None:
    table = start(tmp_path_factory.mktemp("t"))
    model: dict[str, int] = {}
    for n, (kind, keys) in enumerate(steps):
        ids = [f"k{key}" for key in sorted(keys)]
        if kind == "u":
            table = put(table, rows(*ids, n=n))
            model |= dict.fromkeys(ids, n)
        elif (staged := stage.delete_keys(table, pa.array(ids))) is not None:
            table = stage.commit(staged)
            model = {key: value for key, value in model.items() if key not in ids}
        assert content(table) == model


def test_what_an_index_covers_is_left_alone_and_everything_is_found(tmp_path: Path) -> None:
    """INV-4, X-03: full text and B-tree find rows covered, uncovered, and taken along."""
    table = start(tmp_path, *(f"base{n}" for n in range(20)))
    built = index.build(table, [IndexSpec("id", LanceIndexKind.BTREE, "id_btree"), IndexSpec("text", LanceIndexKind.INVERTED, "text_fts")])
    assert built is not None
    table = stage.commit(built)
    covered = {fragment.fragment_id for fragment in table.dataset.get_fragments()}
    for n in range(40):
        table = put(table, rows(f"new{n}", n=n))
    left = {fragment.fragment_id for fragment in table.dataset.get_fragments()}
    assert covered <= left
    assert len(left) <= 20
    for key in ("base7", "new0", "new17", "new39"):
        assert table.count(f"id = '{key}'") == 1
        hits = table.dataset.to_table(full_text_query={"columns": ["text"], "query": key}, columns=["id"])
        assert hits.column("id").to_pylist() == [key]


def test_two_writes_from_one_base_collide_although_both_take_along(tmp_path: Path) -> None:
    table = start(tmp_path)
    for n in range(8):
        table = put(table, rows(f"k{n}", n=n))
    first, second = stage.upsert(table, rows("x")), stage.upsert(table, rows("y"))
    assert first is not None
    assert second is not None
    winner = stage.commit(first)
    with pytest.raises(ConflictError):
        stage.commit(second)
    assert set(content(winner)) == {*(f"k{n}" for n in range(8)), "x"}


def test_large_fragments_are_left_alone(tmp_path: Path) -> None:
    table = start(tmp_path)
    for at in range(FOLD + 1):
        table = put(table, rows(*(f"{at}-{n}" for n in range(SMALL_ROWS))))
    assert foldable(table, touched=set()) == []


def test_a_fragment_the_write_itself_touches_is_not_taken_along(tmp_path: Path) -> None:
    table = start(tmp_path)
    for n in range(FOLD):
        table = put(table, rows(f"k{n}"))
    every = {fragment.fragment_id for fragment in table.dataset.get_fragments()}
    assert foldable(table, touched=every) == []
    assert len(fold(foldable(table, touched=set()), incoming=1)) in (0, FOLD)


def test_rows_folded_from_memory_are_those_on_the_disk(tmp_path: Path) -> None:
    """Two processes take turns, and each deletes rows that the other wrote: what is in memory is used only while it is all there."""
    table, model = start(tmp_path, "first"), {"first": 0}
    roots = [table.root, open_root(table.root.uri)]
    for n in range(60):
        table = Tables(roots[n // 7 % 2]).open(table.ref)
        if n % 9 == 8:
            staged = stage.delete_keys(table, pa.array([f"k{n - 2}"]))
            assert staged is not None
            table = stage.commit(staged)
            model.pop(f"k{n - 2}")
        else:
            table = put(table, rows(f"k{n}", n=n))
            model[f"k{n}"] = n
        assert content(table) == model
    assert fragments(table) <= 20


def test_a_column_that_was_dropped_and_added_again_is_empty_in_folded_rows(tmp_path: Path) -> None:
    """It has the name and the type of the old one. The rows in memory still have the old values."""
    table = start(tmp_path)
    for n in range(FOLD - 1):
        table = put(table, rows(f"k{n}", n=7))
    for columns in (COLUMNS.remove(COLUMNS.get_field_index("n")), COLUMNS):
        staged = alter(table, columns)
        assert staged is not None
        table = stage.commit(staged)
    for n in range(FOLD + 1):
        table = put(table, rows(f"new{n}", n=1))
    assert fragments(table) < 2 * FOLD
    assert content(table) == {**{f"k{n}": None for n in range(FOLD - 1)}, **{f"new{n}": 1 for n in range(FOLD + 1)}}
