"""A table opens exactly where it is named, never moves, and is read with or without pending rows laid over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput, Kind, NotFound, StorageError
from omnigraph.store import stage
from omnigraph.store.durable import is_newest, version_file
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.refs import create_ref
from omnigraph.store.tables import (
    ADDRESS,
    HANDLES,
    Overlay,
    Table,
    TableRef,
    Tables,
    committed_uuid,
    create_table,
    open_newest,
)
from tests.unit.store.tables import (
    FOUR,
    PATH,
    SCHEMA,
    SHAPES,
    added,
    compacted,
    content,
    empty,
    numbers,
    place,
    reopened,
    rows,
    some,
    two_fragments,
    with_deletions,
)


def ids(reader: pa.RecordBatchReader) -> list[str]:
    return sorted(reader.read_all()["id"].to_pylist())


# -- being made


def test_a_new_table_is_empty_keyed_by_id_alone_and_without_settings_we_do_not_want(tmp_path: Path) -> None:
    """P-20, W-51: no stable row ids, file format 2.2, nothing that lets Lance collect versions by itself."""
    misleading = pa.schema(
        [
            pa.field("other", pa.string(), metadata={b"lance-schema:unenforced-primary-key": b"true", b"kept": b"yes"}),
            pa.field("id", pa.string(), metadata={b"note": b"kept too"}),
        ],
        metadata={b"graph": b"g"},
    )
    dataset = create_table(place(tmp_path), PATH, misleading).dataset
    assert (dataset.version, dataset.count_rows(), dataset.get_fragments()) == (1, 0, [])
    assert (dataset.has_stable_row_ids, dataset.data_storage_version) == (False, "2.2")
    assert not [name for name in dataset.config() if "cleanup" in name]
    assert dataset.schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true", b"note": b"kept too"}
    assert dataset.schema.field("other").metadata == {b"kept": b"yes"}
    assert not dataset.schema.field("id").nullable
    assert dataset.schema.metadata == {b"graph": b"g"}


def test_a_table_without_an_id_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        create_table(place(tmp_path), PATH, pa.schema([pa.field("n", pa.int32())]))
    assert not (tmp_path / "graph").exists()


def test_a_table_is_not_made_over_another(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    with pytest.raises(StorageError):
        create_table(table.root, PATH, SCHEMA)
    assert table.head() == table.ref.version
    assert content(reopened(table, table.head())) == FOUR


# -- being opened


@pytest.mark.parametrize("shape", ["two_fragments", "branched", "branched_twice"])
def test_every_version_opens_exactly_as_it_was(tmp_path: Path, shape: str) -> None:
    table = SHAPES[shape](place(tmp_path))
    images = {table.ref.version: content(table)}
    for n in range(3):
        table = added(table, {f"k{n}": n})
        images[table.ref.version] = content(table)
    tables = Tables(place(tmp_path))
    for version, image in images.items():
        opened = tables.open(table.ref.at(version))
        assert (opened.ref, content(opened), opened.dataset.version) == (table.ref.at(version), image, version)
        assert opened.head() == table.ref.version


def test_versions_of_two_branches_are_told_apart(tmp_path: Path) -> None:
    """B-21: Equal version numbers of two branches are not one version: the branch is part of the key, in caches too."""
    root = place(tmp_path)
    main = two_fragments(root)
    side = added(create_ref(main, "side"), {"s": 1})
    main = added(main, {"m": 2})
    assert main.ref.version == side.ref.version
    tables = Tables(root)
    for _ in range(2):
        assert content(tables.open(TableRef(PATH, None, main.ref.version))) == {**FOUR, "m": 2}
        assert content(tables.open(TableRef(PATH, "side", side.ref.version))) == {**FOUR, "s": 1}


@pytest.mark.parametrize(
    "ref", [TableRef(PATH, None, 99), TableRef(PATH, None, 0), TableRef(PATH, "nobranch", 3), TableRef("nodes/none", None, 1)], ids=str
)
def test_a_table_or_version_that_is_not_there_is_not_found(tmp_path: Path, ref: TableRef) -> None:
    root = place(tmp_path)
    two_fragments(root)
    with pytest.raises(NotFound) as missing:
        Tables(root).open(ref)
    assert missing.value.kind is Kind.VERSION_NOT_FOUND
    assert missing.value.facts == {"path": ref.path, "branch": ref.branch, "version": ref.version}


@pytest.mark.parametrize(("path", "branch"), [("nodes/none", None), (PATH, "nobranch")])
def test_the_newest_version_of_nothing_is_not_found(tmp_path: Path, path: str, branch: str | None) -> None:
    root = place(tmp_path)
    two_fragments(root)
    with pytest.raises(NotFound) as missing:
        open_newest(root, path, branch=branch)
    assert missing.value.kind is Kind.TABLE_NOT_FOUND


def test_the_newest_version_is_that_of_its_branch(tmp_path: Path) -> None:
    root = place(tmp_path)
    main = two_fragments(root)
    side = added(added(create_ref(main, "side"), {"s": 1}), {"t": 1})
    assert open_newest(root, PATH, branch=None).version == main.ref.version
    assert open_newest(root, PATH, branch="side").version == side.ref.version == main.ref.version + 2


def test_a_broken_version_file_is_an_error_and_not_an_absence(tmp_path: Path) -> None:
    """ "Not there" must never stand for "cannot be read"."""
    table = two_fragments(place(tmp_path))
    (newest,) = Path(table.root.uri, PATH, "_versions").glob(f"*{2**64 - 1 - table.ref.version}.manifest")
    newest.write_bytes(b"garbage")
    with pytest.raises(StorageError):
        Tables(place(tmp_path)).open(table.ref)


def test_only_so_many_handles_stay_open_and_the_least_used_goes_first(tmp_path: Path) -> None:
    """A cache without a bound is a leak; the same table is never opened twice while it is in there."""
    root = place(tmp_path)
    table = two_fragments(root)
    tables = Tables(root)
    first = tables.open(table.ref)
    assert tables.open(table.ref) is first
    for version in range(HANDLES - 1):
        tables.keep(Table(root, TableRef("somewhere", None, version), None))
    assert tables.open(table.ref) is first  # now the most recently used
    for version in range(HANDLES - 1):
        tables.keep(Table(root, TableRef("elsewhere", None, version), None))
    assert tables.open(table.ref) is first
    for version in range(HANDLES):
        tables.keep(Table(root, TableRef("anywhere", None, version), None))
    assert tables.open(table.ref) is not first
    assert len(tables._open) == HANDLES


def test_a_handle_that_a_commit_returned_is_kept_and_serves(tmp_path: Path) -> None:
    """K-02."""
    root = place(tmp_path)
    tables = Tables(root)
    moved = tables.keep(added(two_fragments(root), {"x": 1}))
    assert tables.open(moved.ref) is moved
    assert content(tables.open(moved.ref)) == {**FOUR, "x": 1}


def test_a_handle_never_moves(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    newest = added(added(table, {"x": 1}), {"y": 2})
    assert (content(table), table.count(), table.dataset.version) == (FOUR, 4, table.ref.version)
    assert table.head() == newest.ref.version


# -- whose version is it


def test_the_uuid_of_a_version_says_whose_it_is(tmp_path: Path) -> None:
    """P-13: on main and on a branch; a version that is not there has none."""
    root = place(tmp_path)
    table = two_fragments(root)
    for base in (table, create_ref(table, "side")):
        staged = some(stage.append(base, rows({"x": 1})))
        assert committed_uuid(root, base.ref.at(base.ref.version + 1)) is None
        stage.commit(staged)
        assert committed_uuid(root, base.ref.at(base.ref.version + 1)) == staged.uuid
    assert committed_uuid(root, TableRef("nodes/none", None, 1)) is None


def test_the_uuid_of_a_compaction_that_moved_an_index_along_is_readable(tmp_path: Path) -> None:
    """pylance fails to build its own object for such a version."""
    table = two_fragments(place(tmp_path))
    table = stage.commit(some(build(table, [IndexSpec("n", LanceIndexKind.BTREE, "n_idx")])))
    after = compacted(table)
    found = [committed_uuid(table.root, table.ref.at(version)) for version in range(1, after.ref.version + 2)]
    assert found.pop() is None
    assert len(set(found)) == after.ref.version
    transactions = {name.split("-", 1)[1] for name in os.listdir(f"{table.root.uri}/{PATH}/_transactions")}
    assert {f"{uuid}.txn" for uuid in found} <= transactions


# -- being read


def test_a_scan_reads_the_columns_it_is_asked_for_in_that_order(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    assert table.scan().schema.names == SCHEMA.names
    read = table.scan(["nickName", "id"]).read_all()
    assert read.schema.names == ["nickName", "id"]
    assert sorted(read["nickName"].to_pylist()) == ["a-1", "b-2", "c-3", "d-4"]


@pytest.mark.parametrize("shape", ["two_fragments", "with_deletions", "first_gone", "branched", "branched_twice", "altered"])
@pytest.mark.parametrize(
    "where", ["nickName >= 'b-' AND n < 4", (pc.field("nickName") >= "b-") & (pc.field("n") < 4)], ids=["text", "expression"]
)
def test_a_scan_filters_by_text_and_by_expression(tmp_path: Path, where: str | pc.Expression, shape: str) -> None:
    table = SHAPES[shape](place(tmp_path))
    assert numbers(table.scan(where=where).read_all()) == {"b": 2, "c": 3}
    assert table.count(where) == 2
    assert ids(table.scan(["id"], where=where, limit=1)) in (["b"], ["c"])


def test_a_limit_holds(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    assert [len(table.scan(limit=limit).read_all()) for limit in (0, 1, 3, 4, 9)] == [0, 1, 3, 4, 4]


@pytest.mark.parametrize("shape", ["two_fragments", "with_deletions", "first_gone", "branched_twice"])
def test_row_addresses_name_fragment_and_offset(tmp_path: Path, shape: str) -> None:
    table = SHAPES[shape](place(tmp_path))
    read = table.scan(["id"], addresses=True).read_all()
    assert read.schema.names == ["id", ADDRESS]
    assert sorted(table.addresses("true").tolist()) == sorted(read[ADDRESS].to_pylist())
    (of_c,) = table.addresses("id = 'c'")
    assert of_c.dtype == np.uint64
    assert dict(zip(read["id"].to_pylist(), read[ADDRESS].to_pylist(), strict=True))["c"] == of_c
    # where the row lies: deleting that offset of that fragment leaves one row less there, and it is c
    fragment = table.dataset.get_fragment(int(of_c) >> 32)
    assert "c" in fragment.to_table(columns=["id"])["id"].to_pylist()
    assert fragment.delete_rows([int(of_c) & 0xFFFFFFFF]).deletion_file.num_deleted_rows == fragment.num_deletions + 1
    assert (
        table.dataset._take_rows([int(of_c)], columns=["id"])["id"].to_pylist() == ["c"] if hasattr(table.dataset, "_take_rows") else True
    )


@pytest.mark.parametrize("where", ["noColumn = 'a-1'", "n = = 1", pc.field("nothing") == 1], ids=["column", "syntax", "expression"])
def test_a_filter_that_does_not_fit_is_an_error_of_ours(tmp_path: Path, where: str | pc.Expression) -> None:
    table = two_fragments(place(tmp_path))
    for attempt in (
        lambda: table.scan(where=where).read_all(),
        lambda: table.count(where),
        lambda: table.addresses(where),
        lambda: table.scan(where=where, overlay=Overlay()).read_all(),
        lambda: table.scan(["noColumn"]).read_all(),
    ):
        with pytest.raises(StorageError):
            attempt()


def test_columns_that_differ_only_in_case_are_told_apart(tmp_path: Path) -> None:
    """Y-08: Names that differ only in case are different, in committed and new rows, in text and in expressions.

    Also W-46.
    """
    schema = pa.schema([pa.field(name, pa.string()) for name in ("id", "nickname", "nickName", "NickName")])
    table = create_table(place(tmp_path), PATH, schema)
    two = pa.table({"id": ["a", "b"], "nickname": ["x", "y"], "nickName": ["y", "z"], "NickName": ["z", "x"]}, schema=schema)
    committed = stage.commit(some(stage.append(table, two)))
    for column, value, found in (("nickname", "x", "a"), ("nickName", "y", "a"), ("NickName", "x", "b"), ("nickname", "y", "b")):
        for where in (f"{column} = '{value}'", pc.field(column) == value):
            assert ids(committed.scan(["id"], where=where)) == [found]
            assert ids(table.scan(["id"], where=where, overlay=Overlay(rows=two))) == [found]
            assert committed.count(where) == 1
        assert committed.scan([column], where=f"id = '{found}'").read_all().to_pylist() == [{column: value}]


def test_a_scan_that_fails_in_the_middle_fails_with_an_error_of_ours(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    for file in Path(table.root.uri, PATH, "data").iterdir():
        file.unlink()
    fresh = Tables(place(tmp_path)).open(table.ref)
    reader = fresh.scan()
    with pytest.raises(StorageError) as failed:
        reader.read_all()
    assert failed.value.facts["path"] == f"{table.root.uri}/{PATH}"
    with pytest.raises(StorageError):
        list(fresh.scan(where="n > 1"))
    with pytest.raises(StorageError):
        fresh.addresses("n > 1")
    with pytest.raises(StorageError):
        fresh.scan(overlay=Overlay(rows=rows({"a": 1}))).read_all()


# -- being read with pending rows laid over


def test_pending_rows_shadow_committed_ones_and_deleted_ids_are_gone(tmp_path: Path) -> None:
    """Y-07: A row that the mutation has deleted is gone for later statements, while HEAD has not moved.

    Also Y-02, Y-03.
    """
    table = with_deletions(place(tmp_path))
    overlay = Overlay(rows=rows({"a": 10, "x": 11}), deleted=pa.array(["b", "nobody"]))
    assert numbers(table.scan(overlay=overlay).read_all()) == {"a": 10, "c": 3, "d": 4, "x": 11}
    assert table.head() == table.ref.version


def test_the_same_filter_holds_for_committed_and_for_pending_rows(tmp_path: Path) -> None:
    """Y-02: A filter means the same for committed and for new rows.

    Also Y-08.
    """
    table = two_fragments(place(tmp_path))
    overlay = Overlay(rows=rows({"a": 100, "c": 1, "x": 2}))
    for where in ("n < 3", pc.field("n") < 3):
        assert numbers(table.scan(where=where, overlay=overlay).read_all()) == {"b": 2, "c": 1, "x": 2}
    for where in ("nickName = 'x-2'", pc.field("nickName") == "x-2"):
        assert numbers(table.scan(where=where, overlay=overlay).read_all()) == {"x": 2}


@pytest.mark.parametrize("columns", [["n"], ["nickName", "n"], ["n", "id"], ["tags"], None], ids=str)
@pytest.mark.parametrize("addresses", [False, True])
def test_a_projection_without_the_key_still_shadows(tmp_path: Path, columns: list[str] | None, addresses: bool) -> None:
    """Y-05: Replaced and deleted rows are hidden also when the key is not selected."""
    table = two_fragments(place(tmp_path))
    overlay = Overlay(rows=rows({"a": 10, "x": 11}), deleted=pa.array(["b"]))
    read = table.scan(columns, overlay=overlay, addresses=addresses).read_all()
    plain = table.scan(columns, addresses=addresses).read_all()
    assert read.schema == plain.schema
    wanted = rows({"c": 3, "d": 4, "a": 10, "x": 11})
    for name in columns or SCHEMA.names:
        assert read[name].to_pylist() == wanted[name].to_pylist()
    if addresses:
        assert read[ADDRESS].null_count == 2


@pytest.mark.parametrize("limit", range(7))
def test_a_limit_counts_committed_and_pending_rows_together(tmp_path: Path, limit: int) -> None:
    table = two_fragments(place(tmp_path))
    overlay = Overlay(rows=rows({"a": 10, "x": 11}), deleted=pa.array(["b"]))
    read = numbers(table.scan(limit=limit, overlay=overlay).read_all())
    assert len(read) == min(limit, 4)
    assert read.items() <= {"c": 3, "d": 4, "a": 10, "x": 11}.items()
    assert len(table.scan(limit=limit, where="n > 3", overlay=overlay).read_all()) == min(limit, 3)


@pytest.mark.parametrize(
    "overlay",
    [
        Overlay(),
        Overlay(rows=rows({})),
        Overlay(rows=SCHEMA.empty_table(), deleted=pa.array([], pa.string())),
        Overlay(deleted=pa.array([])),
        Overlay(deleted=pa.chunked_array([], pa.string())),
        Overlay(deleted=pa.array(["nobody"])),
    ],
    ids=["nothing", "no rows", "neither", "untyped", "no chunks", "nobody"],
)
@pytest.mark.parametrize("where", [None, "n > 0"])
def test_an_overlay_without_effect_is_a_plain_scan(tmp_path: Path, overlay: Overlay, where: str | None) -> None:
    table = two_fragments(place(tmp_path))
    assert numbers(table.scan(where=where, overlay=overlay).read_all()) == FOUR


def test_an_overlay_on_an_empty_table_gives_its_own_rows(tmp_path: Path) -> None:
    """Y-01: A statement sees the rows that earlier statements of its mutation inserted."""
    table = empty(place(tmp_path))
    assert numbers(table.scan(overlay=Overlay(rows=rows(FOUR))).read_all()) == FOUR
    assert numbers(table.scan(overlay=Overlay(rows=rows(FOUR)), where="id = 'c'").read_all()) == {"c": 3}


def test_nulls_match_alike_in_committed_and_pending_rows(tmp_path: Path) -> None:
    """X-10, W-22: a comparison with null is unknown, and unknown is not true."""
    nothing_known = pa.table({"id": ["u"], "n": [None], "nickName": [None], "tags": [None]}, schema=SCHEMA)
    plain = two_fragments(place(tmp_path))
    committed = stage.commit(some(stage.append(plain, nothing_known)))
    pending = Overlay(rows=nothing_known)
    for where, known in {
        "n < 100": "abcd",
        "NOT (n < 100)": "",
        "n IS NULL": "u",
        "(n < 3) IS NOT TRUE": "cdu",
        "nickName IS NOT NULL AND n <> 1": "bcd",
        "nickName = NULL": "",
        "starts_with(nickName, 'a')": "a",
    }.items():
        assert ids(committed.scan(where=where)) == ids(plain.scan(where=where, overlay=pending)) == list(known), where


def test_pending_rows_in_a_wider_type_are_judged_as_the_tables_own(tmp_path: Path) -> None:
    """int64 for int32, large strings for strings: a writer's buffer need not have the table's types."""
    table = two_fragments(place(tmp_path))
    wide = rows({"a": 10, "x": 11}).cast(
        pa.schema(
            [
                pa.field("id", pa.large_string()),
                pa.field("n", pa.int64()),
                pa.field("nickName", pa.large_string()),
                pa.field("tags", pa.large_list(pa.large_string())),
            ]
        )
    )
    read = table.scan(overlay=Overlay(rows=wide, deleted=pa.array(["b"], pa.large_string())), where="n >= 3").read_all()
    assert read.schema == table.scan().schema
    assert numbers(read) == {"a": 10, "c": 3, "d": 4, "x": 11}


def test_pending_rows_that_lack_a_column_are_an_error_of_ours(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    with pytest.raises(StorageError):
        table.scan(["id"], overlay=Overlay(rows=rows({"a": 1}).drop_columns(["n"])), where="n = 1").read_all()


def test_laying_rows_over_writes_nothing_anywhere(tmp_path: Path) -> None:
    table = two_fragments(place(tmp_path))
    before = sorted(path for path in tmp_path.rglob("*"))
    table.scan(overlay=Overlay(rows=rows({"a": 1})), where="n = 1").read_all()
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert not Path("memory:").exists()


KEYS = st.sampled_from("abcdefg")
OVERLAYS = st.builds(
    lambda put, drop: (put, drop), st.dictionaries(KEYS, st.integers(-9, 9), max_size=5), st.lists(KEYS, max_size=4, unique=True)
)


@settings(max_examples=60, deadline=None)
@given(laid=OVERLAYS, bound=st.integers(-9, 9), compare=st.sampled_from(["<", ">=", "=", "<>"]))
def test_an_overlay_reads_like_its_commit(
    tmp_path_factory: pytest.TempPathFactory, laid: tuple[dict[str, int], list[str]], bound: int, compare: str
) -> None:
    """Y-02 as a law: staged and laid over, or committed and read, the filtered rows are the same."""
    global _law
    if _law is None:
        _law = with_deletions(place(tmp_path_factory.mktemp("overlay")))
    put, drop = laid[0], [key for key in laid[1] if key not in laid[0]]
    where = f"n {compare} {bound}"
    read = _law.scan(where=where, overlay=Overlay(rows=rows(put), deleted=pa.array(drop, pa.string()))).read_all()
    after = {**{key: n for key, n in FOUR.items() if key not in drop}, **put}
    test = {"<": int.__lt__, ">=": int.__ge__, "=": int.__eq__, "<>": int.__ne__}[compare]
    assert numbers(read) == {key: n for key, n in after.items() if test(n, bound)}


_law: Table | None = None


# -- the probe for the newest version


def versions(table: Table) -> Path:
    return Path(table.root.of(table.ref.home)) / "_versions"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_probe_sees_every_commit_and_lists_nothing_while_there_is_none(tmp_path: Path, shape: str) -> None:
    table = added(SHAPES[shape](place(tmp_path)), {"x": 1})
    assert is_newest(table.root, table.ref.home, table.ref.version)
    other = added(reopened(table, table.ref.version), {"y": 2})
    assert not is_newest(table.root, table.ref.home, table.ref.version)
    assert is_newest(other.root, other.ref.home, other.ref.version)
    assert (table.head(), other.head()) == (other.ref.version, other.ref.version)


def test_the_probe_is_not_misled_by_versions_that_were_removed(tmp_path: Path) -> None:
    """A handle that stands on a version which was kept, while the ones after it were removed."""
    kept = added(empty(place(tmp_path)), {"x": 1})
    newest = added(added(kept, {"y": 2}), {"z": 3})
    (versions(kept) / Path(version_file(kept.ref.version + 1)).name).unlink()
    assert not is_newest(kept.root, kept.ref.home, kept.ref.version)
    assert kept.head() == newest.ref.version


@pytest.mark.parametrize("note", ["", "{}", "not json", '{"version": 99}', None])
def test_the_probe_asks_lance_when_the_note_of_the_newest_version_is_of_no_use(tmp_path: Path, note: str | None) -> None:
    table = added(empty(place(tmp_path)), {"x": 1})
    file = versions(table) / "latest_version_hint.json"
    file.unlink() if note is None else file.write_text(note)
    assert not is_newest(table.root, table.ref.home, table.ref.version)
    assert table.head() == table.ref.version
    assert added(table, {"y": 2}).head() == table.ref.version + 1


def test_the_probe_of_a_table_that_is_gone_is_an_error(tmp_path: Path) -> None:
    table = added(empty(place(tmp_path)), {"x": 1})
    shutil.rmtree(table.root.of(table.ref.home))
    with pytest.raises((StorageError, NotFound)):
        table.head()
