"""Deleting rows: what moves the table, what can be counted beforehand, and how a staged delete is put together."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance import LanceOperation, Transaction

from tests.guard.substrate import born, commit, delete, fragment_of, ids, part


@pytest.mark.parametrize("predicate", ["id = 'nobody'", "false"])
def test_an_inline_delete_that_matches_nothing_still_moves_the_version(tmp_path: Path, predicate: str) -> None:
    """P-10: An inline delete or update that matches nothing makes a version."""
    table = born(tmp_path / "t", "a")
    table.delete(predicate)
    assert (table.version, ids(table)) == (2, ["a"])


def test_an_inline_update_that_matches_nothing_still_moves_the_version(tmp_path: Path) -> None:
    """P-10: the same for update."""
    table = born(tmp_path / "t", "a")
    table.update({"n": "1"}, where="id = 'nobody'")
    assert table.version == 2


def test_a_fragment_delete_that_matches_nothing_returns_equal_metadata(tmp_path: Path) -> None:
    """P-11: so an untouched fragment can be left out, and a delete of nothing need not be committed."""
    table = born(tmp_path / "t", "a", "b")
    fragment = table.get_fragments()[0]
    assert fragment.delete("id = 'nobody'") == fragment.metadata


def test_a_fragment_delete_counts_before_anything_is_committed(tmp_path: Path) -> None:
    """P-11: A fragment's delete commits nothing and knows its count; a staged delete is built from it."""
    table = born(tmp_path / "t", "a", "b", "c")
    fragment = table.get_fragments()[0]
    after = fragment.delete("id IN ('a', 'b')")
    assert after is not None
    assert after.deletion_file is not None
    assert after.deletion_file.num_deleted_rows - fragment.num_deletions == 2
    assert (table.latest_version, ids(table)) == (1, ["a", "b", "c"])


def test_a_fragment_delete_of_every_row_returns_none(tmp_path: Path) -> None:
    """P-11: such a fragment is named by id as removed."""
    table = born(tmp_path / "t", "a", "b")
    assert table.get_fragments()[0].delete("true") is None


def test_delete_rows_takes_offsets_inside_the_fragment(tmp_path: Path) -> None:
    """Deletes by address, after one scan that finds them: the address is fragment << 32 | offset."""
    table = born(tmp_path / "t", "a", "b", "c", "d", fragments=2)
    found = table.scanner(columns=[], with_row_address=True, filter="id = 'd'").to_table()["_rowaddr"].to_pylist()
    assert found == [(1 << 32) | 1]
    after = fragment_of(table, 1).delete_rows([1])
    assert after is not None
    assert ids(commit(table, Transaction(1, LanceOperation.Delete([after], [], "")))) == ["a", "b", "c"]


def test_delete_rows_adds_to_the_deletions_already_there(tmp_path: Path) -> None:
    """Two deletes one after the other in one fragment: the second keeps the first's."""
    table = born(tmp_path / "t", "a", "b", "c")
    once = commit(table, delete(table, "id = 'a'"))
    after = once.get_fragments()[0].delete_rows([2])
    assert after is not None
    assert after.deletion_file is not None
    assert after.deletion_file.num_deleted_rows == 2
    assert ids(commit(once, Transaction(2, LanceOperation.Delete([after], [], "")))) == ["b"]


def test_a_staged_delete_moves_head_only_when_committed(tmp_path: Path) -> None:
    """P-11: there is no uncommitted delete in the binding, so it is built from fragments and LanceOperation.Delete."""
    table = born(tmp_path / "t", "a", "b", "c", "d", fragments=2)
    tx = delete(table, "id IN ('a', 'c', 'd')")
    assert isinstance(tx.operation, LanceOperation.Delete)
    assert [len(list(tx.operation.updated_fragments)), tx.operation.deleted_fragment_ids] == [1, [1]]
    assert lance.dataset(table.uri).version == 1
    after = commit(table, tx)
    assert (after.version, ids(after), [f.fragment_id for f in after.get_fragments()]) == (2, ["b"], [0])


def test_an_update_may_delete_and_insert_in_one_version(tmp_path: Path) -> None:
    """An upsert of ours: deletion vectors, removed fragments and new rows land together or not at all."""
    table = born(tmp_path / "t", "a", "b", "c", "d", fragments=2)
    cut = fragment_of(table, 0).delete_rows([0])
    assert cut is not None
    op = LanceOperation.Update(removed_fragment_ids=[1], updated_fragments=[cut], new_fragments=[part(table, "a", n=7)])
    after = commit(table, Transaction(1, op))
    assert (after.version, ids(after)) == (2, ["a", "b"])
    assert after.to_table(filter="id = 'a'")["n"].to_pylist() == [7]
