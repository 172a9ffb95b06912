"""Two versions of a table -> the rows that only one shows. What the deletion files say is what Lance says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store import deletions, difference, stage
from omnigraph.store.difference import StoredRows, moved_to, rows_apart, stored_rows
from omnigraph.store.refs import create_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import ADDRESS, Table, Tables, create_table

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
ROWS = 20_000


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": [f"{at:06}" for at in range(first, first + count)], "n": list(range(count))}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    empty = create_table(open_root(tmp_path / "g"), "nodes/t", SCHEMA)
    staged = stage.append(empty, rows(0, ROWS))
    assert staged is not None
    return stage.commit(staged)


def without(table: Table, ids: list[str]) -> Table:
    """The table without these rows, in a process that has read nothing yet and must read the deletion file."""
    staged = stage.delete_keys(table, pa.array(ids))
    assert staged is not None
    return Tables(open_root(table.root.uri)).open(stage.commit(staged).ref)


def ids_of(table: Table) -> set[str]:
    return set(table.scan(["id"]).read_all().column("id").to_pylist())


def ids_apart(before: Table | None, after: Table | None) -> list[StoredRows]:
    return [stored_rows(table, rows) for table, rows in zip((before, after), rows_apart(before, after), strict=True)]


def test_rows_apart_know_their_addresses_without_reading_ids(table: Table) -> None:
    removed = ["000001", "000007"]
    gone, come = rows_apart(table, without(table, removed))
    every = table.addresses("true")
    assert set(table.take(every[gone.has(every)], ["id"]).column("id").to_pylist()) == set(removed)
    assert not come.has(every).any()
    assert rows_apart(table, None)[0].has(every).all()


@pytest.mark.parametrize("deleted", [1, 300, 5_000, 15_000], ids=str)
def test_deleted_rows_are_read_from_the_deletion_files(table: Table, deleted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [f"{at:06}" for at in range(deleted)]
    after = without(table, gone)
    forked = create_ref(after, "fork")
    further = without(forked, [f"{ROWS - 1:06}"])

    def no_scan(*_: object) -> None:
        raise AssertionError("no row of a shared fragment is read")

    monkeypatch.setattr(difference, "scan_fragments", no_scan)
    assert [set(side.ids.to_pylist()) for side in ids_apart(table, after)] == [set(gone), set()]
    assert [set(side.ids.to_pylist()) for side in ids_apart(after, table)] == [set(), set(gone)]
    assert [set(side.ids.to_pylist()) for side in ids_apart(table, further)] == [{*gone, f"{ROWS - 1:06}"}, set()]
    assert [len(side.ids) for side in ids_apart(after, forked)] == [0, 0]


def test_an_unknown_deletion_file_is_read_by_lance(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    after = without(table, ["000001", "000007"])
    monkeypatch.setattr(deletions, "_ARRAY", "something else")
    before_only, after_only = ids_apart(table, after)
    assert (before_only.ids.to_pylist(), len(after_only.ids)) == (["000001", "000007"], 0)


def test_new_and_removed_fragments_are_read_whole(table: Table) -> None:
    staged = stage.upsert(table, rows(10, ROWS // 2))
    assert staged is not None
    after = stage.commit(staged)
    old, new = ids_apart(table, after)
    assert set(old.ids.to_pylist()) == set(new.ids.to_pylist()) == {f"{at:06}" for at in range(10, 10 + ROWS // 2)}
    found = after.take(new.addresses, ["id"]).column("id").to_pylist()
    assert found == new.ids.to_pylist()
    assert [len(side.ids) for side in ids_apart(None, table)] == [0, ROWS]
    assert [len(side.ids) for side in ids_apart(table, None)] == [ROWS, 0]


def test_shared_rows_have_an_address_on_both_sides(table: Table) -> None:
    after = without(table, ["000001"])
    scanned = after.scan(["id"], addresses=True).read_all()
    addresses = scanned.column(ADDRESS).to_numpy()[::1_000]
    assert np.array_equal(moved_to(table, after, addresses), addresses)
    assert ids_of(after) == ids_of(table) - {"000001"}
