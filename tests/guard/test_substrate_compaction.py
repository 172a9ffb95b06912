"""Compaction and cleanup: how far they move HEAD, what they keep, and what they would destroy."""

from __future__ import annotations

import dataclasses
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments
from lance.lance import _Session as Session
from lance.optimize import Compaction, RewriteResult

from tests.guard.substrate import append, born, commit, delete, fragment_of, ids, part, swap, transaction_of


def planned(table: LanceDataset) -> list[RewriteResult]:
    """Rewrite the small fragments, and commit nothing."""
    plan = Compaction.plan(table, options={})
    assert plan.num_tasks() == 1
    return [task.execute(table) for task in plan.tasks]


def numbers(table: LanceDataset) -> list[int]:
    return [version["version"] for version in lance.dataset(table.uri).versions()]


# Compaction


def test_a_compaction_moves_head_by_two_and_takes_its_handle_along(tmp_path: Path) -> None:
    """The base version must be kept beside the handle, and base + 1 is the reservation of ids, not the rewrite."""
    table = born(tmp_path / "t", *"abcd", fragments=4)
    results = planned(table)
    assert table.latest_version == 1
    Compaction.commit(table, results)
    assert (table.version, table.latest_version, ids(table)) == (3, 3, ["a", "b", "c", "d"])
    assert len(table.get_fragments()) == 1
    assert isinstance(transaction_of(table, 3).operation, LanceOperation.Rewrite)


def test_a_compaction_with_nothing_to_do_moves_nothing(tmp_path: Path) -> None:
    """Upkeep may be called as often as one likes."""
    table = born(tmp_path / "t", "a")
    table.optimize.compact_files()
    assert table.latest_version == 1


def test_an_index_built_on_a_detached_version_fits_the_swap_that_follows(tmp_path: Path) -> None:
    """The expensive work is done before the lock, on a version that nobody sees."""
    table = born(tmp_path / "t", *"abcd", fragments=4)
    new = dataclasses.replace(part(table, *"abcd"), id=1_000)
    change = swap(table, out=[0, 1, 2, 3], parts=[new])
    ahead = LanceDataset.commit(table, change, detached=True)
    built = ahead.create_index_uncommitted("id", "BTREE", name="by_id", fragment_ids=[1_000])
    assert (table.latest_version, ids(lance.dataset(table.uri))) == (1, ["a", "b", "c", "d"])
    commit(table, append(table, "z"))  # meanwhile
    head = lance.dataset(table.uri)
    moved = commit(head, dataclasses.replace(change, read_version=head.version))
    assert {fragment.fragment_id for fragment in moved.get_fragments()} == {4, 1_000}
    indexed = commit(moved, Transaction(moved.version, LanceOperation.CreateIndex([dataclasses.replace(built, dataset_version=3)], [])))
    assert (indexed.version, [index.num_rows_indexed for index in indexed.describe_indices()]) == (4, [4])
    assert [indexed.count_rows(f"id = '{id_}'") for id_ in "acz"] == [1, 1, 1]
    later = commit(indexed, append(indexed, "y"))
    assert max(fragment.fragment_id for fragment in later.get_fragments()) == 1_001


def test_overlapping_segments_of_a_text_index_are_not_committed(tmp_path: Path) -> None:
    """Two that extend one index at once must notice each other."""
    table = born(tmp_path / "t", *"ab", fragments=2)
    for _ in range(2):
        segment = table.create_index_uncommitted("id", "INVERTED", name="words", fragment_ids=[0, 1], replace=True)
        segment = table.merge_existing_index_segments([segment])
        change = Transaction(table.version, LanceOperation.CreateIndex([segment], []))
        if table.version == 1:
            table = commit(table, change)
    with pytest.raises(BaseException, match="not implemented"):  # a panic of Rust is no Exception
        commit(table, change)
    assert lance.dataset(table.uri).version == 2


def test_a_compaction_lands_over_a_concurrent_append(tmp_path: Path) -> None:
    """Its result is then not base + 2: the chain is read back version by version."""
    table = born(tmp_path / "t", *"abcd", fragments=4)
    results = planned(table)
    handle = lance.dataset(table.uri)
    commit(table, append(table, "z"))
    Compaction.commit(handle, results)
    assert (handle.version, ids(handle)) == (4, ["a", "b", "c", "d", "z"])


def test_a_compaction_refused_by_a_delete_has_moved_head_all_the_same(tmp_path: Path) -> None:
    """The reservation of ids stays behind as a version of its own: a failed compaction is drift that the sidecar must name.
    The error is a plain OSError."""
    table = born(tmp_path / "t", *"abcdefgh", fragments=4)
    results = planned(table)
    handle = lance.dataset(table.uri)
    commit(table, delete(table, "id = 'a'"))
    with pytest.raises(OSError) as lost:
        Compaction.commit(handle, results)
    assert not isinstance(lost.value, CommitConflictError)
    head = lance.dataset(table.uri)
    assert (handle.version, head.version, ids(head)) == (1, 3, list("bcdefgh"))


def test_a_delete_of_compacted_fragments_is_refused(tmp_path: Path) -> None:
    """The other order is typed and may be retried."""
    table = born(tmp_path / "t", *"abcdefgh", fragments=4)
    stale = delete(table, "id = 'a'")
    lance.dataset(table.uri).optimize.compact_files()
    with pytest.raises(CommitConflictError) as lost:
        commit(table, stale)
    assert lost.value.retryable is True


def test_an_index_keeps_covering_compacted_rows(tmp_path: Path) -> None:
    """Without stable row ids the index is remapped by the compaction, and nothing is left uncovered."""
    table = born(tmp_path / "t", *"abcd", fragments=4)
    table.create_scalar_index("id", "BTREE")
    table.optimize.compact_files()
    assert table.stats.index_stats("id_idx")["num_unindexed_rows"] == 0
    assert "ScalarIndexQuery" in table.scanner(filter="id = 'c'").explain_plan()
    assert [table.to_table(filter=f"id = '{key}'").num_rows for key in "abcd"] == [1, 1, 1, 1]


def test_folding_an_index_moves_head_by_one_and_then_by_none(tmp_path: Path) -> None:
    """`optimize_indices` commits by itself: one version when rows were uncovered, none when there is nothing to do."""
    table = born(tmp_path / "t", "a", "b")
    table.create_scalar_index("id", "BTREE")
    table = commit(table, append(table, "c"))
    assert table.stats.index_stats("id_idx")["num_unindexed_rows"] == 1
    table.optimize.optimize_indices()
    assert (table.latest_version, table.stats.index_stats("id_idx")["num_unindexed_rows"]) == (4, 0)
    table.optimize.optimize_indices()
    assert table.latest_version == 4


# Cleanup


def four_versions(path: Path) -> LanceDataset:
    table = born(path, "a")
    for key in "bcd":
        table = commit(table, append(table, key))
    return table


def test_cleanup_removes_exactly_the_versions_it_is_given(tmp_path: Path) -> None:
    """We compute what may go, and pass numbers; HEAD keeps every row."""
    head = four_versions(tmp_path / "t")
    assert head.cleanup_old_versions(versions=[1, 3]).old_versions == 2
    assert numbers(head) == [2, 4]
    assert ids(lance.dataset(head.uri)) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError):
        lance.dataset(head.uri, version=1)


@pytest.mark.parametrize("asked", [4, 99], ids=["the newest", "an unknown one"])
def test_cleanup_ignores_the_newest_and_unknown_versions(tmp_path: Path, asked: int) -> None:
    """Neither is an error, and neither goes."""
    head = four_versions(tmp_path / "t")
    assert head.cleanup_old_versions(versions=[asked]).old_versions == 0
    assert numbers(head) == [1, 2, 3, 4]


@pytest.mark.parametrize("how", [{"versions": [1]}, {"older_than": timedelta(0)}], ids=["by number", "by age"])
def test_cleanup_keeps_what_a_native_branch_needs(tmp_path: Path, how: dict[str, Any]) -> None:
    """The fork point stays, though main has replaced every row of it."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    head = commit(table, swap(table, out=[0], parts=[part(table, "b")]))
    head.cleanup_old_versions(**how)
    assert numbers(table) == [1, 2]
    assert ids(lance.dataset(branch.uri)) == ["a"]


def test_cleanup_on_a_branch_handle_cleans_that_branch_only(tmp_path: Path) -> None:
    """Numbers mean the branch's own versions there."""
    table = four_versions(tmp_path / "t")
    branch = table.create_branch("x")
    for key in "ef":
        branch = commit(branch, append(branch, key))
    branch.cleanup_old_versions(versions=[3, 5])
    assert [version["version"] for version in lance.dataset(branch.uri).versions()] == [4, 6]
    assert numbers(table) == [1, 2, 3, 4]
    assert ids(lance.dataset(branch.uri)) == list("abcdef")


def test_a_plain_cleanup_keeps_files_that_are_staged(tmp_path: Path) -> None:
    """A live writer's data files are younger than any age limit of the unverified."""
    head = four_versions(tmp_path / "t")
    staged = append(head, "staged")
    head.cleanup_old_versions(older_than=timedelta(0))
    assert "staged" in ids(commit(head, staged))


def test_an_unverified_cleanup_destroys_staged_files_and_the_commit_still_succeeds(tmp_path: Path) -> None:
    """delete_unverified=True is never passed: the next commit would make the table unreadable."""
    head = four_versions(tmp_path / "t")
    staged = append(head, "staged")
    head.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert commit(head, staged).version == 5
    with pytest.raises(pa.ArrowInvalid):
        lance.dataset(head.uri).to_table()


def test_an_unverified_cleanup_destroys_detached_versions(tmp_path: Path) -> None:
    """P-21: the other reason against them."""
    head = four_versions(tmp_path / "t")
    hidden = lance.LanceDataset.commit(head, append(head, "hidden"), detached=True)
    head.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    reopened = lance.dataset(head.uri, version=hidden.version, session=Session())
    with pytest.raises(pa.ArrowInvalid):
        reopened.to_table()


def test_a_version_pinned_by_nothing_lance_knows_is_collected(tmp_path: Path) -> None:
    """A lazy branch pins a version only in our manifest: we keep it out of the list, for Lance would not."""
    head = four_versions(tmp_path / "t")
    head.cleanup_old_versions(older_than=timedelta(0))
    assert numbers(head) == [4]


def test_cleanup_of_an_unknown_version_removes_files_that_no_version_names_after_a_week(tmp_path: Path) -> None:
    """Files of dead writers are collected so. An empty list of versions is refused."""
    head = four_versions(tmp_path / "t")
    files = [tmp_path / "t" / "data" / f"{name}.lance" for name in ("old", "young")]
    for file, days in zip(files, (8, 6), strict=True):
        file.write_bytes(b"left")
        os.utime(file, times=(time.time() - days * 86_400,) * 2)
    with pytest.raises(OSError):
        head.cleanup_old_versions(versions=[])
    assert head.explain_cleanup_old_versions(versions=[0]).stats.bytes_removed == 4
    assert head.cleanup_old_versions(versions=[0]).bytes_removed == 4
    assert [file.exists() for file in files] == [False, True]
    assert numbers(head) == [1, 2, 3, 4]


def test_a_scan_of_fragments_gives_their_rows_in_the_order_of_their_offsets_and_files_take_them_in_this_order(tmp_path: Path) -> None:
    """A record of rewritten rows counts them: fragments as they are listed, deleted rows left out, and new files one after another."""
    table = born(tmp_path / "t", *(f"{at:04}" for at in range(4_000)), fragments=4)
    gone = [f"{at:04}" for at in range(0, 4_000, 7)]
    table.delete("id IN (" + ", ".join(f"'{name}'" for name in gone) + ")")
    chosen = [fragment_of(table, number) for number in (2, 0, 3)]
    reader = table.scanner(fragments=chosen, batch_size=64, scan_in_order=True).to_reader()
    written = write_fragments(reader, table, mode="append", max_rows_per_file=1_000)
    wanted = [f"{at:04}" for start in (2_000, 0, 3_000) for at in range(start, start + 1_000) if at % 7]
    grown = LanceDataset.commit(table, LanceOperation.Append(written), read_version=table.version)
    new = [part for part in grown.get_fragments() if part.fragment_id >= 4]
    assert [name for part in new for name in part.to_table(columns=["id"])["id"].to_pylist()] == wanted
    assert [part.physical_rows for part in written] == [1_000, 1_000, len(wanted) - 2_000]
