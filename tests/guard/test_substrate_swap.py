"""Replacing whole fragments: the exact-parent swap behind every publish, and the order of fragments it leans on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from tests.guard.substrate import append, born, commit, fence, ids, in_processes, part, rows, swap, swap_in_turn


def on_main(path: Path) -> LanceDataset:
    return born(path, "old")


def on_branch(path: Path) -> LanceDataset:
    return born(path, "old").create_branch("x")


@pytest.mark.parametrize("place", [on_main, on_branch])
def test_of_two_swaps_of_one_fragment_exactly_one_wins(tmp_path: Path, place: Callable[[Path], LanceDataset]) -> None:
    """Publishing leans on it: two publishers remove the same state fragment, so lineage is one chain."""
    base = place(tmp_path / "t")
    first = swap(base, out=[0], parts=[part(base, "first")])
    second = swap(base, out=[0], parts=[part(base, "second")])
    after = commit(base, first)
    assert (after.version, ids(after)) == (base.version + 1, ["first"])
    with pytest.raises(CommitConflictError) as lost:
        commit(base, second)
    assert lost.value.retryable is True
    assert (base.latest_version, ids(after)) == (base.version + 1, ["first"])


@pytest.mark.parametrize("place", [on_main, on_branch])
def test_a_swap_stale_by_several_versions_is_refused(tmp_path: Path, place: Callable[[Path], LanceDataset]) -> None:
    """A publisher paused for long loses, however much has happened since."""
    base = place(tmp_path / "t")
    late = swap(base, out=[0], parts=[part(base, "late")])
    head = base
    for i in range(4):
        head = commit(head, swap(head, out=[head.get_fragments()[-1].fragment_id], parts=[part(head, f"s{i}")]))
    with pytest.raises(CommitConflictError) as lost:
        commit(base, late)
    assert lost.value.retryable is True
    assert (base.latest_version, ids(head)) == (base.version + 4, ["s3"])


def test_a_swap_with_default_retries_is_refused_as_well(tmp_path: Path) -> None:
    """The refusal is a conflict of content, not of retries: no retry may bring a stale state in."""
    base = born(tmp_path / "t", "old")
    late = swap(base, out=[0], parts=[part(base, "late")])
    commit(base, swap(base, out=[0], parts=[part(base, "first")]))
    with pytest.raises(CommitConflictError):
        commit(base, late, max_retries=20)
    assert ids(lance.dataset(base.uri)) == ["first"]


def test_swaps_of_different_fragments_both_land(tmp_path: Path) -> None:
    """Why the whole mutable state is one fragment: two fragments would be two independent swaps."""
    base = born(tmp_path / "t", "a", "b", fragments=2)
    first = swap(base, out=[0], parts=[part(base, "first")])
    second = swap(base, out=[1], parts=[part(base, "second")])
    commit(base, first)
    assert commit(base, second).version == base.version + 2
    assert ids(lance.dataset(base.uri)) == ["first", "second"]


def test_a_swap_conflicts_with_a_fenced_write_of_its_fragment(tmp_path: Path) -> None:
    """Removed here and updated there is a conflict in both orders."""
    base = born(tmp_path / "t", "old")
    replace, write = swap(base, out=[0], parts=[part(base, "new")]), fence(base, append(base, "k"))
    after = commit(base, write)
    with pytest.raises(CommitConflictError):
        commit(base, replace)
    replace = swap(after, out=[0], parts=[part(base, "new")])
    write = fence(after, append(after, "l"))
    commit(after, replace)
    with pytest.raises(CommitConflictError):
        commit(after, write)


def test_removing_a_fragment_that_is_not_there_is_silently_ignored(tmp_path: Path) -> None:
    """The base version and the fragment it names must come from one read: a wrong pair adds a second state instead of failing."""
    base = born(tmp_path / "t", "old")
    head = commit(base, swap(base, out=[0], parts=[part(base, "new")]))
    after = commit(head, swap(head, out=[0], parts=[part(base, "more")]))
    assert (after.version, ids(after)) == (3, ["more", "new"])


def test_new_fragments_get_ids_in_the_order_of_the_list(tmp_path: Path) -> None:
    """The state fragment is the last of the list, and so the newest by id."""
    base = born(tmp_path / "t", "old")
    parts = [part(base, name) for name in ("immutable", "folded", "state")]
    assert [p.id for p in parts] == [0, 0, 0]
    after = commit(base, swap(base, out=[0], parts=parts))
    for handle in (after, lance.dataset(base.uri)):
        assert [(f.fragment_id, f.to_table()["id"].to_pylist()) for f in handle.get_fragments()] == [
            (1, ["immutable"]),
            (2, ["folded"]),
            (3, ["state"]),
        ]


def test_an_id_given_by_hand_is_kept_and_decides_the_order(tmp_path: Path) -> None:
    """Only id 0 means 'to be numbered': a staged fragment that carries a number could take the newest place from the state."""
    base = born(tmp_path / "t", "old")
    numbered = dataclasses.replace(part(base, "numbered"), id=9)
    after = commit(base, swap(base, out=[0], parts=[numbered, part(base, "state")]))
    assert [(f.fragment_id, f.to_table()["id"].to_pylist()) for f in after.get_fragments()] == [(1, ["state"]), (9, ["numbered"])]


def test_fragment_ids_are_never_used_again(tmp_path: Path) -> None:
    """Removing the newest fragment must not give its number to the next, or the last would not be the newest."""
    base = born(tmp_path / "t", "old")
    first = commit(base, swap(base, out=[0], parts=[part(base, "kept"), part(base, "state1")]))
    second = commit(first, swap(first, out=[2], parts=[part(base, "state2")]))
    third = commit(second, swap(second, out=[3], parts=[part(base, "more"), part(base, "state3")]))
    seen = [(f.fragment_id, f.to_table()["id"].to_pylist()) for f in third.get_fragments()]
    assert seen == [(1, ["kept"]), (4, ["more"]), (5, ["state3"])]


def test_fragments_of_a_branch_are_numbered_on_from_the_parent(tmp_path: Path) -> None:
    """The state fragment is the newest on a fresh branch, too, and the parent goes its own way."""
    table = born(tmp_path / "t", "old")
    table = commit(table, swap(table, out=[0], parts=[part(table, "kept"), part(table, "state")]))
    branch = table.create_branch("x")
    on_x = commit(branch, swap(branch, out=[2], parts=[part(branch, "more"), part(branch, "state on x")]))
    assert [f.fragment_id for f in on_x.get_fragments()] == [1, 3, 4]
    assert on_x.get_fragments()[-1].to_table()["id"].to_pylist() == ["state on x"]
    assert [f.fragment_id for f in lance.dataset(table.uri).get_fragments()] == [1, 2]


def test_scans_read_fragments_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """A whole-table read gives the state rows last."""
    base = born(tmp_path / "t", "old")
    after = commit(base, swap(base, out=[0], parts=[part(base, "x"), part(base, "y"), part(base, "z")]))
    assert after.to_table()["id"].to_pylist() == ["x", "y", "z"]


def test_a_swap_may_add_nothing(tmp_path: Path) -> None:
    """Removing alone works, and leaves a table that takes new rows."""
    base = born(tmp_path / "t", "old")
    empty = commit(base, Transaction(1, LanceOperation.Update(removed_fragment_ids=[0])))
    assert (empty.version, empty.count_rows()) == (2, 0)
    assert ids(commit(empty, append(empty, "k"))) == ["k"]


@pytest.mark.parametrize("place", [on_main, on_branch])
def test_two_processes_swapping_without_a_lock_make_one_chain(tmp_path: Path, place: Callable[[Path], LanceDataset]) -> None:
    """Every swap is the child of the one before it, and none forgets what the one before it wrote."""
    base = place(tmp_path / "t")
    landed = in_processes(swap_in_turn, (base.uri, "x", 8), (base.uri, "y", 8))
    assert sorted(landed[0] + landed[1]) == [(version, version + 1) for version in range(base.version, base.version + 16)]
    assert ids(lance.dataset(base.uri)) == sorted(["old", *(f"{me}{i}" for me in "xy" for i in range(8))])


def test_a_fragment_of_no_rows_cannot_be_written(tmp_path: Path) -> None:
    """A state or a load of nothing is seen beforehand: one call raises, the other stages no fragment."""
    base = born(tmp_path / "t", "old")
    with pytest.raises(OSError):
        part(base)
    assert write_fragments(rows(), base) == []


@pytest.mark.parametrize("place", [on_main, on_branch])
@pytest.mark.parametrize("restored", [False, True], ids=["without a restore", "after a restore"])
def test_a_stale_swap_lands_when_the_versions_since_were_removed_unless_a_restore_stays(
    tmp_path: Path, place: Callable[[Path], LanceDataset], restored: bool
) -> None:
    """Conflicts are found in the versions since the base. So cleanup of `__manifest` commits a restore first, which stays."""
    base = place(tmp_path / "t")
    late = swap(base, out=[0], parts=[part(base, "late")])
    head = base
    for i in range(4):
        head = commit(head, swap(head, out=[head.get_fragments()[-1].fragment_id], parts=[part(head, f"s{i}")]))
    if restored:
        head = LanceDataset.commit(head, Transaction(head.version, LanceOperation.Restore(head.version)), max_retries=0)
        assert ids(head) == ["s3"]
    head.cleanup_old_versions(versions=list(range(base.version, head.version)))
    if restored:
        with pytest.raises(CommitConflictError):
            commit(base, late)
        after = commit(head, swap(head, out=[head.get_fragments()[-1].fragment_id], parts=[part(head, "next")]))
        assert ids(after) == ["next"]
        with pytest.raises(CommitConflictError):
            commit(base, late)
    else:
        assert ids(commit(base, late)) == ["late", "s3"]
