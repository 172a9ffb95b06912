"""Changing the columns of a table: one commit, nothing rewritten, no value under a wrong name; or all of it rewritten on purpose."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.layout import PROPERTY_MARK
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound
from omnigraph.store import index, stage
from omnigraph.store.alter import COLUMN_MARK, alter, rewrite
from omnigraph.store.index import IndexSpec, LanceIndexKind
from omnigraph.store.reclaim import remove_versions, versions_below
from omnigraph.store.refs import create_ref, fresh_ref, write_before_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import PRIMARY_KEY, Table, create_table, table_at_head
from tests.unit.store.tables import (
    AFTER,
    BEFORE,
    CHANGES,
    FOUR,
    PATH,
    SCHEMA,
    added,
    before_change,
    changed,
    changed_on_branch,
    compacted,
    content,
    marked,
    place,
    reopened,
    rows,
    some,
)


def files_of(table: Table, kind: str) -> set[str]:
    return {str(path) for path in Path(table.root.of(table.ref.path)).rglob(f"{kind}/*") if path.is_file()}


def field_ids(table: Table) -> dict[str, int]:
    return {field.name(): field.id() for field in table.dataset.lance_schema.fields()}


def test_the_mark_is_the_catalogs() -> None:
    """The two layers do not know each other."""
    assert COLUMN_MARK == PROPERTY_MARK


@pytest.mark.parametrize("shape", [changed, changed_on_branch])
def test_columns_are_renamed_dropped_added_and_reordered_at_once(tmp_path: Path, shape: object) -> None:
    """S-08: A change of columns is one version, writes no data file, and keeps the key annotation and the marks of properties.

    Also S-06.
    """
    table = changed(place(tmp_path)) if shape is changed else changed_on_branch(place(tmp_path))
    assert content(table) == FOUR
    assert table.schema.equals(pa.schema([AFTER.field("id").with_metadata(PRIMARY_KEY), *(AFTER.field(at) for at in range(1, 5))]), True)
    assert table.scan(["added"]).read_all().column("added").null_count == 4
    assert table.ref.version == before_change(place(tmp_path / "other")).ref.version + 1
    assert len(files_of(table, "data")) == 2
    assert field_ids(table) == {"id": 0, "added": 6, "n": 5, "nickName": 2, "tags": 3}


def test_an_old_version_keeps_its_columns(tmp_path: Path) -> None:
    """T-05: An old version keeps its columns: what was dropped softly can be read there.

    Also S-05.
    """
    table = changed(place(tmp_path))
    old = reopened(table, table.ref.version - 1)
    assert old.schema.names == BEFORE.names
    assert old.scan(["gone"], where="id = 'a'").read_all().column("gone").to_pylist() == [-1]


def test_a_table_that_has_the_columns_already_is_not_touched(tmp_path: Path) -> None:
    assert alter(changed(place(tmp_path)), AFTER) is None


def test_a_column_that_comes_back_under_its_old_name_is_empty(tmp_path: Path) -> None:
    """S-06: another identity is another column, even where data files still hold the old one's values."""
    table = before_change(place(tmp_path))
    without = pa.schema([field for field in BEFORE if field.name != "gone"])
    again = pa.schema([*without, marked("gone", pa.int64(), "p-other")])
    for schema in (without, again):
        table = stage.commit(some(alter(table, schema)))
    assert table.scan(["gone"]).read_all().column("gone").null_count == 4


def test_a_name_does_not_go_from_one_column_to_another_at_once(tmp_path: Path) -> None:
    """Schema plans never ask for it: an exact name wins over a hint."""
    swapped = pa.schema([BEFORE.field("id"), marked("label", pa.int64(), "p-gone"), marked("gone", pa.string(), "p-nick")])
    taken = pa.schema([BEFORE.field("id"), marked("gone", pa.int64(), "p-other")])
    table = before_change(place(tmp_path))
    for schema in (swapped, taken):
        with pytest.raises(InvalidInput, match="drop or rename first"):
            alter(table, schema)


TYPES_CHANGED = (marked("n", pa.int64(), "p-n"), pa.field("n", pa.int32(), nullable=False, metadata={COLUMN_MARK: b"p-n"}))


@pytest.mark.parametrize("wanted", TYPES_CHANGED)
def test_values_are_never_converted(tmp_path: Path, wanted: pa.Field) -> None:
    with pytest.raises(InvalidInput):
        alter(before_change(place(tmp_path)), pa.schema([BEFORE.field("id"), wanted]))


def test_a_column_without_nulls_cannot_be_added(tmp_path: Path) -> None:
    """S-04"""
    required = pa.field("must", pa.string(), nullable=False, metadata={COLUMN_MARK: b"p-must"})
    with pytest.raises(InvalidInput, match="does not allow nulls"):
        alter(before_change(place(tmp_path)), pa.schema([*BEFORE, required]))


SHAPED = {
    "list": pa.list_(pa.field("item", pa.string())),
    "vector": pa.list_(pa.field("item", pa.float32()), 3),
    "date": pa.date32(),
    "moment": pa.date64(),
    "flag": pa.bool_(),
    "big": pa.uint64(),
}


@pytest.mark.parametrize("shape", SHAPED)
def test_a_column_of_any_type_is_added_renamed_and_written_to(tmp_path: Path, shape: str) -> None:
    root = place(tmp_path)
    table = added(create_table(root, PATH, SCHEMA), FOUR)
    one = pa.schema([*SCHEMA, marked("x", SHAPED[shape], "p-x")])
    table = stage.commit(some(alter(table, one)))
    value = {"list": ["u"], "vector": [1.0, 2.0, 3.0], "date": 3, "moment": 86_400_000, "flag": True, "big": 2**63}[shape]
    new = rows({"e": 5}, SCHEMA).append_column(one.field("x"), pa.array([value], SHAPED[shape]))
    table = stage.commit(some(stage.upsert(table, new)))
    two = pa.schema([SCHEMA.field("id"), marked("renamed", SHAPED[shape], "p-x"), *(SCHEMA.field(at) for at in (1, 2, 3))])
    table = stage.commit(some(alter(table, two)))
    found = dict(zip(*table.scan(["id", "renamed"]).read_all().to_pydict().values(), strict=True))
    assert found.pop("e") is not None
    assert set(found.values()) == {None}
    assert content(table) == {**FOUR, "e": 5}


@pytest.mark.parametrize("first", ["alter", "other"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_columns_and_any_other_change_from_one_base_collide(tmp_path: Path, kind: str, first: str) -> None:
    """S-10: rows of the old shape cannot land on the new one, nor the other way round."""
    base = added(added(create_table(place(tmp_path), PATH, SCHEMA), {"a": 1, "b": 2}), {"c": 3, "d": 4})
    both = [some(alter(base, pa.schema([*SCHEMA, marked("x", pa.int64(), "p-x")]))), some(CHANGES[kind].stage(base))]
    winner, loser = both if first == "alter" else reversed(both)
    stage.commit(winner)
    with pytest.raises(ConflictError):
        stage.commit(loser)
    assert base.head() == base.ref.version + 1


def test_two_changes_of_columns_from_one_base_collide(tmp_path: Path) -> None:
    base = before_change(place(tmp_path))
    one, two = some(alter(base, AFTER)), rewrite(base, pa.schema([BEFORE.field("id")]))
    stage.commit(one)
    with pytest.raises(ConflictError):
        stage.commit(two)


def test_an_index_follows_its_column_and_goes_with_it(tmp_path: Path) -> None:
    table = before_change(place(tmp_path))
    specs = [IndexSpec("label", LanceIndexKind.BTREE, "nick"), IndexSpec("gone", LanceIndexKind.BTREE, "gone")]
    table = stage.commit(some(index.build(table, specs)))
    table = stage.commit(some(alter(table, AFTER)))
    assert [(built.name, built.column, built.uncovered_rows) for built in index.existing(table)] == [("nick", "nickName", 0)]
    assert "ScalarIndexQuery" in table.dataset.scanner(filter="nickName = 'a-1'").explain_plan()
    assert table.count("nickName = 'a-1'") == 1


def test_compaction_and_new_indexes_after_a_change_of_columns(tmp_path: Path) -> None:
    table = compacted(added(changed(place(tmp_path)), {"e": 5}))
    assert content(table) == {**FOUR, "e": 5}
    table = stage.commit(
        some(
            index.build(table, [IndexSpec("added", LanceIndexKind.BTREE, "added"), IndexSpec("nickName", LanceIndexKind.INVERTED, "words")])
        )
    )
    assert (table.count("added = 'e+5'"), table.count("added IS NULL")) == (1, 4)
    assert content(added(table, {"f": 6})) == {**FOUR, "e": 5, "f": 6}


def test_files_written_before_a_native_branch_fit_the_changed_columns(tmp_path: Path) -> None:
    table = changed(place(tmp_path))
    name = fresh_ref("side")
    files = write_before_ref(table, name, rows({"x": 1}, table.schema))
    fork = stage.commit(some(stage.put_files(create_ref(table, name), files)))
    assert content(fork) == {**FOUR, "x": 1}


def album(tmp_path: Path) -> Table:
    schema = pa.schema([SCHEMA.field("id"), marked("data", pa.large_binary(), "p-data"), marked("n", pa.int32(), "p-n")])
    table = create_table(place(tmp_path), PATH, schema)
    new = pa.table({"id": ["a", "b"], "data": [b"bytes" * 20_000, None], "n": [1, 2]}, schema=schema)
    return stage.commit(some(stage.append(table, new)))


def test_blobs_keep_their_bytes_under_a_new_name(tmp_path: Path) -> None:
    """S-06, S-14: nothing is rewritten, so nothing of a blob is read; a new one of the old name has none of it."""
    table = album(tmp_path)
    assert alter(table, table.schema) is None
    table = stage.commit(some(alter(table, pa.schema([SCHEMA.field("id"), marked("picture", pa.large_binary(), "p-data")]))))
    assert table.scan(["picture"]).read_all().column("picture").to_pylist() == [b"bytes" * 20_000, None]
    for schema in (pa.schema([SCHEMA.field("id")]), pa.schema([SCHEMA.field("id"), marked("data", pa.large_binary(), "p-new")])):
        table = stage.commit(some(alter(table, schema)))
    assert table.scan(["data"]).read_all().column("data").to_pylist() == [None, None]
    again = pa.table({"id": ["b"], "data": [b"new"]}, schema=table.schema)
    table = stage.commit(some(stage.upsert(table, again)))
    assert dict(zip(*table.scan(["id", "data"]).read_all().to_pydict().values(), strict=True)) == {"a": None, "b": b"new"}


def test_blobs_are_laid_down_anew_with_their_rows(tmp_path: Path) -> None:
    """S-14: and a blob column that is left out is gone with its files."""
    table = album(tmp_path)
    kept = stage.commit(rewrite(table, pa.schema([SCHEMA.field("id"), marked("picture", pa.large_binary(), "p-data")])))
    assert kept.scan(["picture"]).read_all().column("picture").to_pylist() == [b"bytes" * 20_000, None]
    without = stage.commit(rewrite(kept, pa.schema([SCHEMA.field("id")])))
    remove_versions(without, versions_below(without, without.ref.version))
    assert spoken_of(without, b"bytesbytes") == []


NAMES = "abcdef"
COLUMNS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 7), max_size=5)
"""Column name -> property."""


def schema_of(columns: dict[str, int]) -> pa.Schema:
    return pa.schema([SCHEMA.field("id"), *(marked(name, pa.string(), f"p{columns[name]}") for name in sorted(columns))])


def is_plan(before: dict[str, int], after: dict[str, int]) -> bool:
    """Could a schema plan ask for it? A property has one name, and an exact name wins."""
    return len(set(after.values())) == len(after) and all(before.get(name, number) == number for name, number in after.items())


@settings(max_examples=25, deadline=None)
@given(wishes=st.lists(COLUMNS, min_size=2, max_size=8))
def test_a_column_shows_what_was_written_to_its_property(tmp_path_factory: pytest.TempPathFactory, wishes: list[dict[str, int]]) -> None:
    """A law: through any renames, drops and additions, a value is found under its property's name of today, or nowhere."""
    table = create_table(place(tmp_path_factory.mktemp("t")), PATH, schema_of({}))
    now: dict[str, int] = {}
    known: dict[str, dict[int, str]] = {}
    for at, columns in enumerate(wishes):
        if not is_plan(now, columns):
            continue
        if (staged := alter(table, schema_of(columns))) is not None:
            table = stage.commit(staged)
        now, key = columns, f"row{at}"
        known = {row: {number: text for number, text in held.items() if number in now.values()} for row, held in known.items()}
        known[key] = {number: f"{key}:{number}" for number in now.values()}
        values = {"id": [key], **{name: [known[key][number]] for name, number in now.items()}}
        table = stage.commit(some(stage.append(table, pa.table({name: values[name] for name in table.schema.names}, schema=table.schema))))
        shown = {row["id"]: row for row in table.scan().read_all().to_pylist()}
        assert shown == {row: {"id": row, **{name: held.get(number) for name, number in now.items()}} for row, held in known.items()}


# -- laid down anew


def secret_table(tmp_path: Path) -> Table:
    schema = pa.schema([SCHEMA.field("id"), marked("n", pa.int32(), "p-n"), marked("secret", pa.string(), "p-secret")])
    table = create_table(place(tmp_path), PATH, schema)
    for key, n in FOUR.items():
        new = pa.table({"id": [key], "n": [n], "secret": [f"hush-{key}"]}, schema=schema)
        table = stage.commit(some(stage.append(table, new)))
    return stage.commit(some(index.build(table, [IndexSpec("secret", LanceIndexKind.BTREE, "secret")])))


def spoken_of(table: Table, text: bytes) -> list[str]:
    return [str(path) for path in Path(table.root.of(table.ref.path)).rglob("*") if path.is_file() and text in path.read_bytes()]


def test_a_rewritten_table_and_no_older_version_hold_nothing_of_a_dropped_column(tmp_path: Path) -> None:
    """S-05: not in data files, not in indexes."""
    table = secret_table(tmp_path)
    old = table.ref
    assert spoken_of(table, b"hush-")
    wanted = pa.schema([SCHEMA.field("id"), marked("m", pa.int32(), "p-n"), marked("new", pa.string(), "p-new")])
    staged = rewrite(table, wanted)
    assert staged.counts.updated == 4
    table = stage.commit(staged)
    assert {row["id"]: row["m"] for row in table.scan().read_all().to_pylist()} == FOUR
    assert table.scan(["new"]).read_all().column("new").null_count == 4
    assert table.schema.field("id").metadata == PRIMARY_KEY
    spent = versions_below(table, table.ref.version)
    assert spent == list(range(1, table.ref.version))
    remove_versions(table, spent)
    remove_versions(table, spent)
    assert versions_below(table, table.ref.version) == []
    assert spoken_of(table, b"hush-") == []
    with pytest.raises(NotFound) as gone:
        reopened(table, old.version)
    assert gone.value.kind is Kind.VERSION_RECLAIMED


def test_an_emptied_table_keeps_its_columns_and_nothing_else(tmp_path: Path) -> None:
    table = secret_table(tmp_path)
    staged = rewrite(table, None)
    assert staged.counts.deleted == 4
    table = stage.commit(staged)
    assert (table.count(), table.schema.names, index.existing(table)) == (0, ["id", "n", "secret"], ())
    remove_versions(table, versions_below(table, table.ref.version))
    assert spoken_of(table, b"hush-") == []


def test_a_version_that_a_native_branch_was_made_from_is_kept(tmp_path: Path) -> None:
    table = secret_table(tmp_path)
    fork = create_ref(table, "fork")
    table = stage.commit(rewrite(table, None))
    remove_versions(table, versions_below(table, table.ref.version))
    assert versions_below(table, table.ref.version) == [fork.ref.version]
    assert reopened(fork, fork.ref.version).count() == 4


def test_a_version_that_a_native_branch_was_made_from_is_kept_after_a_move(tmp_path: Path) -> None:
    """Lance alone would remove it: it looks for the absolute path that the branch recorded."""
    table = secret_table(tmp_path)
    fork = create_ref(table, "fork")
    nested = create_ref(fork, "nested")
    there = open_root(Path(table.root.uri).rename(tmp_path / "there"))
    moved = stage.commit(rewrite(table_at_head(there, table.ref.path, branch=None), None))
    remove_versions(moved, versions_below(moved, moved.ref.version))
    assert versions_below(moved, moved.ref.version) == [fork.ref.version]
    emptied = stage.commit(rewrite(table_at_head(there, table.ref.path, branch="fork"), None))
    remove_versions(emptied, versions_below(emptied, emptied.ref.version))
    assert [table_at_head(there, table.ref.path, branch=name).count() for name in (None, "fork", "nested")] == [0, 0, 4]
    assert nested.ref.version == fork.ref.version


def test_a_version_put_back_on_a_moved_branch_is_read_where_the_branch_is(tmp_path: Path) -> None:
    """A restore brings the recorded paths of its version back, and the handle that it returns does not use them."""
    fork = create_ref(secret_table(tmp_path), "fork")
    there = open_root(Path(fork.root.uri).rename(tmp_path / "there"))
    emptied = stage.commit(rewrite(table_at_head(there, fork.ref.path, branch="fork"), None))
    back = stage.commit(stage.put_back(emptied, fork.ref.version, uuid=str(uuid4())))
    assert {row["id"]: row["n"] for row in back.scan().read_all().to_pylist()} == FOUR


def test_a_reader_that_stood_on_a_removed_version_is_told_so(tmp_path: Path) -> None:
    """T-06: not that a file is missing."""
    table = secret_table(tmp_path)
    moved = stage.commit(rewrite(table, None))
    remove_versions(moved, versions_below(moved, moved.ref.version))
    with pytest.raises(NotFound) as gone:
        table.scan(["n"]).read_all()
    assert gone.value.kind is Kind.VERSION_RECLAIMED
