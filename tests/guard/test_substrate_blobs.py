"""Blob columns: bytes beside the rows, kept through staged writes, upserts and compaction."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from tests.guard.substrate import commit

SCHEMA = pa.schema([pa.field("id", pa.string()), lance.blob_field("data")])


def rows(**blobs: bytes | None) -> pa.Table:
    return pa.table({"id": list(blobs), "data": lance.blob_array(list(blobs.values()))}, schema=SCHEMA)


def album(path: Path, **blobs: bytes | None) -> LanceDataset:
    table = LanceDataset.commit(str(path), LanceOperation.Overwrite(SCHEMA, []), max_retries=0)
    return commit(table, write_fragments(rows(**blobs), table, return_transaction=True))


def contents(table: LanceDataset) -> dict[str, bytes | None]:
    answer = table.scanner(blob_handling="all_binary").to_table().to_pydict()
    return dict(zip(answer["id"], answer["data"], strict=True))


def test_blobs_are_staged_and_read_back_whole(tmp_path: Path) -> None:
    """Null, empty and large ones alike."""
    large = bytes(range(256)) * 1024
    assert contents(album(tmp_path / "t", a=b"small", b=None, c=large)) == {"a": b"small", "b": None, "c": large}


def test_a_part_of_a_blob_can_be_read_without_the_rest(tmp_path: Path) -> None:
    """Range requests are answered from the file."""
    table = album(tmp_path / "t", a=b"0123456789")
    (address,) = table.scanner(columns=[], with_row_address=True, filter="id = 'a'").to_table()["_rowaddr"].to_pylist()
    (blob,) = table.take_blobs("data", addresses=[address])
    assert blob is not None
    with blob:
        blob.seek(3)
        assert (blob.size(), blob.read(4)) == (10, b"3456")


def test_blobs_survive_upserts_and_compaction(tmp_path: Path) -> None:
    """The other rows' bytes move along untouched."""
    table = album(tmp_path / "t", a=b"one", b=b"two")
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    table = commit(table, merge.execute_uncommitted(rows(b=b"changed", c=b"new"))[0])
    table.optimize.compact_files()
    assert len(table.get_fragments()) == 1
    assert contents(table) == {"a": b"one", "b": b"changed", "c": b"new"}


def test_plain_binary_is_refused_in_a_blob_column(tmp_path: Path) -> None:
    """Input is turned into a blob array by us."""
    table = album(tmp_path / "t", a=b"one")
    with pytest.raises(OSError):
        write_fragments(pa.table({"id": ["b"], "data": pa.array([b"x"], pa.large_binary())}), table, return_transaction=True)
