"""The fence: naming fragment 0 of the base as updated makes any two data transactions from that base conflict."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.optimize import Compaction

from tests.guard.substrate import (
    KEYED,
    append,
    append_fenced,
    born,
    commit,
    content,
    delete,
    fence,
    fragment_of,
    ids,
    in_processes,
    transaction_of,
    upsert,
)

KINDS = {
    "append": lambda table, key: append(table, key),
    "insert": lambda table, key: upsert(table, key, n=1),
    "update": lambda table, key: upsert(table, "d", n=2),
    "delete": lambda table, key: delete(table, "id = 'c'"),
}


def four_rows(path: Path) -> LanceDataset:
    """Two fragments, so that updates and deletes may lie outside fragment 0."""
    return born(path, "a", "b", "c", "d", fragments=2, schema=KEYED)


def assert_second_is_refused(base: LanceDataset, first: Transaction, second: Transaction) -> None:
    """Both orders are covered by the callers; the loser is told to retry, and HEAD is exactly base + 1."""
    assert commit(base, fence(base, first)).version == base.version + 1
    with pytest.raises(CommitConflictError) as lost:
        commit(base, fence(base, second))
    assert lost.value.retryable is True
    assert base.latest_version == base.version + 1


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_any_two_fenced_transactions_from_one_base_conflict(tmp_path: Path, first: str, second: str) -> None:
    """The heart of the write path: one base, one successor, whatever the two writes are."""
    base = four_rows(tmp_path / "t")
    assert_second_is_refused(base, KINDS[first](base, "k"), KINDS[second](base, "k"))


@pytest.mark.parametrize("second", ["append", "insert"])
@pytest.mark.parametrize("first", ["append", "insert"])
def test_fenced_transactions_on_an_empty_table_conflict(tmp_path: Path, first: str, second: str) -> None:
    """Without a fragment to name, the transaction is a Merge: every table's first write is fenced, too."""
    base = born(tmp_path / "t", schema=KEYED)
    assert_second_is_refused(base, KINDS[first](base, "k"), KINDS[second](base, "k"))
    assert ids(lance.dataset(base.uri)) == ["k"]


def test_fenced_transactions_on_a_fresh_branch_conflict(tmp_path: Path) -> None:
    """Fragment 0 of a branch is its parent's file, and may be named all the same."""
    base = four_rows(tmp_path / "t").create_branch("x")
    assert_second_is_refused(base, append(base, "k"), upsert(base, "k", n=1))


def test_fenced_transactions_conflict_after_fragment_zero_is_gone(tmp_path: Path) -> None:
    """The fence names the lowest fragment there is, not the number 0."""
    table = four_rows(tmp_path / "t")
    base = commit(table, delete(table, "id IN ('a', 'b')"))
    assert [f.fragment_id for f in base.get_fragments()] == [1]
    assert_second_is_refused(base, append(base, "k"), upsert(base, "k", n=1))


def test_a_fenced_transaction_conflicts_when_stale_by_several_versions(tmp_path: Path) -> None:
    """A writer paused for long is refused like one paused briefly."""
    base = four_rows(tmp_path / "t")
    stale = fence(base, append(base, "late"))
    head = base
    for key in ("x", "y", "z"):
        head = commit(head, fence(head, append(head, key)))
    with pytest.raises(CommitConflictError) as lost:
        commit(base, stale)
    assert lost.value.retryable is True
    assert lance.dataset(base.uri).version == 4


def test_a_fenced_transaction_conflicts_with_an_orphan_commit_where_an_unfenced_one_absorbs_it(tmp_path: Path) -> None:
    """HEAD drift: rows committed but never published must not slip into the next writer's version."""
    base = four_rows(tmp_path / "t")
    fenced, unfenced = fence(base, append(base, "mine")), append(base, "mine")
    commit(base, fence(base, append(base, "orphan")))
    with pytest.raises(CommitConflictError):
        commit(base, fenced)
    assert "orphan" in ids(commit(base, unfenced))


def test_a_restore_on_top_of_the_base_refuses_a_paused_fenced_writer(tmp_path: Path) -> None:
    """Recovery restores every table a sidecar names, moved or not, so that a paused writer's later commit fails."""
    base = four_rows(tmp_path / "t")
    paused = fence(base, append(base, "late"))
    lance.dataset(base.uri, version=1).restore()
    with pytest.raises(CommitConflictError):
        commit(base, paused)
    assert ids(lance.dataset(base.uri)) == ["a", "b", "c", "d"]


def test_the_fence_changes_nothing_but_the_new_rows(tmp_path: Path) -> None:
    """The named fragment keeps its rows and its file."""
    base = four_rows(tmp_path / "t")
    after = commit(base, fence(base, append(base, "k", n=9)))
    assert content(after) == {"a": 0, "b": 0, "c": 0, "d": 0, "k": 9}
    assert fragment_of(after, 0).metadata == fragment_of(base, 0).metadata


def test_a_plain_append_is_absorbed_by_the_fence(tmp_path: Path) -> None:
    """The fence holds among fenced writers only: a foreign append lands, and shows as version base + 2."""
    base = four_rows(tmp_path / "t")
    mine, foreign = fence(base, append(base, "mine")), append(base, "foreign")
    commit(base, foreign)
    assert commit(base, mine).version == base.version + 2


def test_an_index_commit_slips_past_the_fence(tmp_path: Path) -> None:
    """So a result other than base + 1 is looked into, and index builds take the branch lock like any writer."""
    base = four_rows(tmp_path / "t")
    mine = fence(base, append(base, "k"))
    segment = base.create_index_uncommitted("id", "BTREE", name="id_idx", fragment_ids=[0, 1])
    LanceDataset.commit(base, LanceOperation.CreateIndex([segment], []), read_version=1, max_retries=0)
    after = commit(base, mine)
    assert (after.version, ids(after)) == (3, ["a", "b", "c", "d", "k"])
    assert after.to_table(filter="id = 'k'").num_rows == 1


def compacted(base: LanceDataset, *, from_fragment: int) -> LanceDataset:
    """Compact what lies at and behind a fragment, by the tasks of the plan."""
    plan = Compaction.plan(base, options={"target_rows_per_fragment": 4})
    tasks = [t for t in plan.tasks if min(f.id for f in t.fragments) >= from_fragment]
    assert tasks, "the plan has no task there"
    handle = lance.dataset(base.uri)
    Compaction.commit(handle, [task.execute(base) for task in tasks])
    return handle


def test_a_compaction_that_spares_fragment_zero_slips_past_the_fence(tmp_path: Path) -> None:
    """Compaction is a writer under the lock, not a background job, because the fence would not see it."""
    base = born(tmp_path / "t", *"abcdefghijkl", fragments=6)
    mine = fence(base, append(base, "late"))
    head = compacted(base, from_fragment=2)
    assert 0 in [f.fragment_id for f in head.get_fragments()]
    assert commit(base, mine).version == head.version + 1


def test_a_compaction_of_fragment_zero_conflicts_with_the_fence(tmp_path: Path) -> None:
    """The common compaction, which rewrites small fragments from the first on, is caught."""
    base = born(tmp_path / "t", *"abcd", fragments=4)
    mine = fence(base, append(base, "late"))
    head = compacted(base, from_fragment=0)
    assert 0 not in [f.fragment_id for f in head.get_fragments()]
    with pytest.raises(CommitConflictError):
        commit(base, mine)


def test_a_fenced_transaction_keeps_its_uuid(tmp_path: Path) -> None:
    """P-13 with the fence on: ownership stays provable."""
    base = four_rows(tmp_path / "t")
    tx = dataclasses.replace(append(base, "k"), uuid="00000000000000000000000000000007")
    assert transaction_of(commit(base, fence(base, tx)), 2).uuid == tx.uuid


@pytest.mark.parametrize("start", [("a",), ()], ids=["with rows", "empty"])
def test_two_processes_of_fenced_writers_make_one_chain(tmp_path: Path, start: tuple[str, ...]) -> None:
    """Every commit is the child of the one before it, every loser may retry, and no key is there twice."""
    uri = born(tmp_path / "t", *start, schema=KEYED).uri
    reports = in_processes(append_fenced, (uri, "x", 8), (uri, "y", 8))
    landed = sorted(pair for pairs, _, _ in reports for pair in pairs)
    assert landed == [(version, version + 1) for version in range(1, 17)]
    assert sum(other for _, _, other in reports) == 0
    assert ids(lance.dataset(uri)) == sorted([*start, *(f"{me}{i}" for me in "xy" for i in range(8))])
