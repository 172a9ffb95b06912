"""Blobs travel with their rows through every kind of change, and are read only by those who ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.store import stage
from omnigraph.store.blobs import plain_schema, stored_schema
from omnigraph.store.data_files import Shelf
from omnigraph.store.fold import SMALL_BLOB_BYTES
from omnigraph.store.refs import create_ref, write_before_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Overlay, Table, create_table
from omnigraph.store.take import blob_sizes, read_blob, take
from tests.unit.store.tables import CHANGES, FOUR, PATH, SCHEMA, added, body, compacted, content, place, reopened, rows, some

BODY = pa.field("body", pa.large_binary(), metadata={b"omnigraph:property": b"b0d7"})
ALBUM = pa.schema([SCHEMA.field("id"), BODY, *(SCHEMA.field(at) for at in (1, 2, 3))])


def album(root: Root) -> Table:
    """Four rows in two fragments: no blob, an empty, a small and a large one."""
    return added(added(create_table(root, PATH, ALBUM), {"a": 1, "b": 2}), {"c": 3, "d": 4})


def with_deletions(root: Root) -> Table:
    table = added(album(root), {"x": 7, "y": 11})
    return stage.commit(some(stage.delete_keys(table, pa.array(["x", "y"]))))


def branched(root: Root) -> Table:
    """A branch of a branch, with rows that come from each of the three."""
    first = create_ref(added(create_table(root, PATH, ALBUM), {"a": 1, "b": 2}), "first")
    return added(create_ref(added(first, {"c": 3}), "second"), {"d": 4})


def rewritten(root: Root) -> Table:
    return compacted(album(root))


SHAPES: Mapping[str, Callable[[Root], Table]] = {shape.__name__: shape for shape in (album, with_deletions, branched, rewritten)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CHANGES)
def test_blobs_survive_every_kind_of_change(tmp_path: Path, kind: str, shape: str) -> None:
    """O-08: Compaction and every other change keep null, empty, small and large blobs.

    Also W-38.
    """
    base = SHAPES[shape](place(tmp_path))
    assert content(base) == FOUR
    staged = CHANGES[kind].stage(base)
    moved = stage.commit(some(staged))
    assert content(reopened(moved, moved.ref.version)) == CHANGES[kind].after(FOUR)
    assert moved.schema.field("body").equals(BODY, check_metadata=True)


def test_files_written_before_their_branch_bring_their_blobs(tmp_path: Path) -> None:
    """Large ones lie in files of their own, beside the data file."""
    parent = album(place(tmp_path))
    written = write_before_ref(parent, "side", rows({"p": 3, "q": 1, "r": 4}, ALBUM))
    child = stage.commit(some(stage.put_files(create_ref(parent, "side"), written)))
    assert content(child) == {**FOUR, "p": 3, "q": 1, "r": 4}
    assert content(parent) == FOUR


def test_a_shelf_moves_its_files_with_their_blobs_and_clears_them(tmp_path: Path) -> None:
    """Somebody made the branch first: what was written for it is taken over, or thrown away, to the last file."""
    parent = album(place(tmp_path))
    shelf = Shelf(parent, native="mine")
    shelf.put(rows({"p": 3, "q": 1, "r": 4}, ALBUM))
    theirs = create_ref(parent, "theirs")
    other = Shelf(theirs, native=None)
    other.take_over(shelf)
    assert not [path for path in (tmp_path / "graph" / PATH / "tree" / "mine").rglob("*") if path.is_file()]
    assert other.rows == 3
    child = stage.commit(some(stage.put_files(theirs, other.fragments)))
    assert content(child) == {**FOUR, "p": 3, "q": 1, "r": 4}
    late = Shelf(child, native=None)
    before = set((tmp_path / "graph").rglob("*"))
    late.put(rows({"s": 3}, ALBUM))
    late.clear()
    assert {path for path in set((tmp_path / "graph").rglob("*")) - before if path.is_file()} == set()


@pytest.mark.parametrize("native", [None, "mine"])
def test_columns_behind_a_blob_are_read_back_from_files_that_nobody_names(tmp_path: Path, native: str | None) -> None:
    """A reader of one file miscounts the columns behind a blob column, so files have their blobs last."""
    shelf = Shelf(album(place(tmp_path)), native=native)
    wanted = rows({"p": 3, "q": 1, "r": 4}, ALBUM)
    shelf.put(wanted)
    names = ["id", ALBUM.names[-1]]
    assert pa.Table.from_batches(shelf.read(names)).to_pylist() == wanted.select(names).to_pylist()


def test_small_fragments_with_blobs_are_folded(tmp_path: Path) -> None:
    """The number of fragments stays small, and every blob as it was."""
    table = create_table(place(tmp_path), PATH, ALBUM)
    expected = {}
    for n in range(24):
        expected[f"k{n}"] = n
        table = added(table, {f"k{n}": n})
    assert content(table) == expected
    assert len(table.dataset.get_fragments()) < 12


def test_fragments_with_heavy_blobs_are_not_folded(tmp_path: Path) -> None:
    """A small write must not rewrite megabytes."""
    table = create_table(place(tmp_path), PATH, pa.schema([SCHEMA.field("id"), BODY]))
    for n in range(5):
        row = pa.table({"id": [str(n)], "body": [bytes(SMALL_BLOB_BYTES // 2)]}, schema=table.schema)
        table = stage.commit(some(stage.append(table, row)))
    assert len(table.dataset.get_fragments()) == 5


def test_a_scan_that_does_not_ask_for_blobs_reads_none(tmp_path: Path) -> None:
    table = create_table(place(tmp_path), PATH, pa.schema([SCHEMA.field("id"), BODY]))
    row = pa.table({"id": ["a", "b"], "body": [bytes(60_000), bytes(500_000)]}, schema=table.schema)
    table = stage.commit(some(stage.append(table, row)))
    fresh = reopened(table, table.ref.version)
    fresh.dataset.io_stats_incremental()
    assert fresh.scan(["id"]).read_all().num_rows == 2
    assert blob_sizes(fresh, ["body"])["body"].to_pylist() == [60_000, 500_000]
    assert fresh.dataset.io_stats_incremental().read_bytes < 30_000


def test_pending_rows_keep_their_blobs_under_a_filter(tmp_path: Path) -> None:
    """W-38: what a statement put is seen whole by the next one."""
    table = album(place(tmp_path))
    overlay = Overlay(rows=rows({"a": 6, "z": 7}, ALBUM), deleted=pa.array(["c"]))
    read = table.scan(where="n > 2", overlay=overlay).read_all()
    assert {row["id"]: row["body"] for row in read.to_pylist()} == {"d": body("d", 4), "a": body("a", 6), "z": body("z", 7)}
    assert read.schema.equals(table.schema, check_metadata=True)


def test_rows_are_taken_in_the_order_of_their_addresses_given(tmp_path: Path) -> None:
    table = with_deletions(place(tmp_path))
    scanned = table.scan(["id"], addresses=True).read_all()
    address = dict(zip(scanned["id"].to_pylist(), scanned["_rowaddr"].to_pylist(), strict=True))
    order = ["d", "a", "c", "b"]
    taken = take(table, [address[key] for key in order], ["body", "id", "n"])
    assert taken.to_pylist() == [{"body": body(key, FOUR[key]), "id": key, "n": FOUR[key]} for key in order]
    assert taken.schema.names == ["body", "id", "n"]


def test_a_part_of_a_blob_is_read_alone(tmp_path: Path) -> None:
    table = album(place(tmp_path))
    (address,) = table.addresses("id = 'c'")
    whole = body("c", 3)
    assert whole is not None
    table.dataset.io_stats_incremental()
    assert read_blob(table, "body", int(address), start=50_000, length=7) == whole[50_000:50_007]
    assert table.dataset.io_stats_incremental().read_bytes < 10_000
    with pytest.raises(StorageError):
        read_blob(table, "body", int(address), start=len(whole), length=1)


def test_the_two_forms_of_a_schema_are_one(tmp_path: Path) -> None:
    for nullable in (True, False):
        schema = pa.schema([SCHEMA.field("id"), BODY.with_nullable(nullable)], metadata={b"k": b"v"})
        assert plain_schema(stored_schema(schema)).equals(schema, check_metadata=True)
        table = create_table(place(tmp_path), f"nodes/{nullable}", schema)
        assert table.schema.field("body").equals(schema.field("body"), check_metadata=True)
