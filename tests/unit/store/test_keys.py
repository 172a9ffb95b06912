"""Keys are found without a scan where a scan finds them: in every version, on every branch, and never in a file that was not read whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store import index, stage
from omnigraph.store.deletions import deleted_offsets
from omnigraph.store.index import IndexSpec, LanceIndexKind
from omnigraph.store.keys import FEW, UNCOVERED_ROWS, addresses_of
from omnigraph.store.refs import create_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import Table, Tables, create_table, one_of

COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
BTREE = [IndexSpec("id", LanceIndexKind.BTREE, "id_btree")]


def start(tmp_path: Path) -> Table:
    return create_table(open_root(tmp_path / "g"), "nodes/t", COLUMNS)


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(range(len(ids)))}, schema=COLUMNS)


def landed(staged: stage.Staged | None) -> Table:
    assert staged is not None
    return stage.commit(staged)


def indexed(table: Table) -> Table:
    return landed(index.build(table, BTREE))


def scanned(table: Table, *ids: str) -> list[int]:
    return sorted(table.addresses(one_of("id", pa.array(ids, pa.string()))).tolist())


def found(table: Table, *ids: str) -> list[int]:
    addresses: Any = addresses_of(table, pa.array(ids, pa.string()))
    assert addresses is not None, "a scan was asked for"
    assert addresses.dtype == np.uint64
    return list(addresses.tolist())


def anew(table: Table) -> Table:
    """The same version in a process that has read nothing yet."""
    return Tables(open_root(table.root.uri)).open(table.ref)


def agrees(table: Table, *ids: str) -> None:
    for handle in (table, anew(table)):
        for id_ in ids:
            assert found(handle, id_) == scanned(handle, id_), id_
        assert found(handle, *ids) == scanned(handle, *ids)


def test_keys_are_found_in_fragments_that_no_index_covers(tmp_path: Path) -> None:
    table = start(tmp_path)
    assert found(table, "a") == []
    table = landed(stage.append(table, rows("a", "b", "c")))
    table = landed(stage.append(table, rows("d")))
    agrees(table, "a", "c", "d", "nobody")
    assert len(found(table, "a", "d", "nobody")) == 2


@pytest.mark.parametrize("names", [lambda n: f"k{n:06d}", lambda n: f"{chr(0x41 + n % 0xD000)}é\U0001f600{n}", lambda n: f"'{n}"])
def test_keys_are_found_in_the_pages_of_an_index(tmp_path: Path, names: Any) -> None:
    """Three pages; their order is that of UTF-8 bytes, which is the order of code points."""
    ids = [names(n) for n in range(10_000)]
    table = indexed(landed(stage.append(start(tmp_path), rows(*ids))))
    agrees(table, *random.Random(1).sample(ids, 20), min(ids), max(ids), "", "\U0010ffff")


def test_a_row_that_was_replaced_or_deleted_is_not_found(tmp_path: Path) -> None:
    table = indexed(landed(stage.append(start(tmp_path), rows(*(f"k{n}" for n in range(100))))))
    table = landed(stage.upsert(table, rows("k1", "new")))
    table = landed(stage.upsert(table, rows("k1", "k2")))
    table = landed(stage.delete_keys(table, pa.array(["k2", "k3", "new"])))
    agrees(table, "k1", "k2", "k3", "k4", "new")
    assert found(table, "k2", "k3", "new") == []


def test_keys_of_deleted_rows_are_read_too(tmp_path: Path) -> None:
    """What is read at one version holds at every other: an older one still shows the row."""
    old = landed(stage.append(start(tmp_path), rows("a", "b", "c")))
    new = landed(stage.delete_keys(old, pa.array(["b"])))
    root = open_root(old.root.uri)
    new, old = Tables(root).open(new.ref), Tables(root).open(old.ref)
    assert found(new, "b") == []
    assert found(new, "c") == found(old, "c") == scanned(old, "c")
    assert found(old, "b") == scanned(old, "b") != []


def test_a_fragment_that_an_index_lists_and_that_is_gone_is_left_out(tmp_path: Path) -> None:
    table = indexed(landed(stage.append(start(tmp_path), rows("a", "b"))))
    table = landed(stage.overwrite(table, rows("b", "c")))
    agrees(table, "a", "b", "c")


def test_a_native_branch_finds_what_it_inherits_and_what_it_wrote(tmp_path: Path) -> None:
    table = indexed(landed(stage.append(start(tmp_path), rows(*(f"k{n}" for n in range(10))))))
    table = landed(stage.upsert(table, rows("k1", "new")))
    forked = create_ref(table, "work-1")
    here = landed(stage.upsert(forked, rows("k2", "new")))
    there = landed(stage.upsert(table, rows("k3", "new")))
    for handle in (forked, here, there):
        agrees(handle, "k0", "k1", "k2", "k3", "new")


def test_many_deleted_rows_are_looked_up_too(tmp_path: Path) -> None:
    """Past 5,000 deleted rows of a fragment, Lance writes a bitmap instead of a list."""
    ids = [f"k{n:05d}" for n in range(20_000)]
    table = indexed(landed(stage.append(start(tmp_path), rows(*ids))))
    table = landed(stage.delete_keys(table, pa.array(ids[::3])))
    assert table.dataset.get_fragments()[0].metadata.deletion_file.file_type == "bitmap"
    agrees(table, *ids[:9])
    table = landed(stage.upsert(table, rows("k00001", "k00003")))
    agrees(table, *ids[:9])


def test_what_a_delete_wrote_is_not_read_again(tmp_path: Path) -> None:
    """The rows of a deletion file are those of the one before it and the new ones, and equal what a new process reads."""
    table = indexed(landed(stage.append(start(tmp_path), rows(*(f"k{n}" for n in range(100))))))
    for step in range(3):
        table = landed(stage.delete_keys(table, pa.array([f"k{40 - step}", f"k{50 + step}"])))
        (path,) = Path(table.root.uri).glob(f"nodes/t/_deletions/0-{table.ref.version - 1}-*")
        name = str(path.relative_to(table.root.uri))
        known, read = table.root.memory.deleted.get(name), deleted_offsets(anew(table), 0)
        assert known is not None
        assert read is not None
        assert known.tolist() == read.tolist() == sorted([*range(40 - step, 41), *range(50, 51 + step)])


def test_too_much_is_left_to_a_scan(tmp_path: Path) -> None:
    table = landed(stage.append(start(tmp_path), rows(*(f"k{n}" for n in range(UNCOVERED_ROWS + 1)))))
    assert addresses_of(table, pa.array(["k1"])) is None
    table = indexed(table)
    agrees(table, "k1", "nobody")
    assert addresses_of(table, pa.array([f"k{n}" for n in range(FEW + 1)])) is None


@pytest.mark.parametrize("file", ["page_data.lance", "page_lookup.lance"])
@pytest.mark.parametrize("damage", ["removed", "emptied", "zeroed"])
def test_a_damaged_index_is_left_to_a_scan(tmp_path: Path, file: str, damage: str) -> None:
    """Rule 7: no write depends on an index file. A wrong answer would let two rows of one key live."""
    ids = [f"k{n:05d}" for n in range(5_000)]
    table = indexed(landed(stage.append(start(tmp_path), rows(*ids))))
    (path,) = Path(table.root.uri).glob(f"nodes/t/_indices/*/{file}")
    match damage:
        case "removed":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case _:
            path.write_bytes(bytes(path.stat().st_size))
    table = anew(table)
    assert addresses_of(table, pa.array(["k00007"])) is None
    table = landed(stage.upsert(table, rows("k00007", "new")))
    assert table.count() == 5_001


def test_any_history_of_small_writes_finds_what_a_scan_finds(tmp_path: Path) -> None:
    """Upserts, deletes, folds and index builds, on two handles that take turns and so read each other's files."""
    chance = random.Random(11)
    table = indexed(landed(stage.append(start(tmp_path), rows(*(f"k{n}" for n in range(50))))))
    roots = [table.root, open_root(table.root.uri)]
    for step in range(80):
        table = Tables(roots[step % 2]).open(table.ref)
        ids = [f"k{n}" for n in chance.sample(range(80), chance.randrange(1, 4))]
        if step % 5 == 4:
            staged = stage.delete_keys(table, pa.array(ids))
            table = table if staged is None else stage.commit(staged)
        else:
            table = landed(stage.upsert(table, rows(*ids)))
        if step == 40:
            table = indexed(table) if index.build(table, BTREE) is not None else table
        for id_ in (*ids, f"k{chance.randrange(80)}"):
            assert found(table, id_) == scanned(table, id_)
            assert len(found(table, id_)) <= 1
    agrees(table, *(f"k{n}" for n in range(0, 80, 3)))
