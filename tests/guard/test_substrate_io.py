"""Counting storage reads and sharing sessions: what the cost tests measure with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance import LanceDataset
from lance.fragment import LanceFragment
from lance.lance import _Session as Session

from tests.guard.substrate import append, born, commit, ids, part, rows, swap


def test_io_stats_have_four_numbers(tmp_path: Path) -> None:
    """The written bytes are `written_bytes`, whatever the printed form and the documentation say."""
    stats = born(tmp_path / "t", "a").io_stats_snapshot()
    assert sorted(name for name in dir(stats) if not name.startswith("_")) == ["read_bytes", "read_iops", "write_iops", "written_bytes"]


def test_incremental_stats_reset_and_snapshots_do_not(tmp_path: Path) -> None:
    """A cost test calls incremental before and after."""
    table = lance.dataset(born(tmp_path / "t", "a").uri)
    table.to_table()
    first, second = table.io_stats_snapshot(), table.io_stats_snapshot()
    assert first.read_iops == second.read_iops > 0
    assert table.io_stats_incremental().read_iops == first.read_iops
    assert table.io_stats_incremental().read_iops == 0


def test_handles_of_one_session_share_one_counter_across_tables(tmp_path: Path) -> None:
    """The counter belongs to the session's store: reads per publish need a session that nothing else uses."""
    session = Session()
    one = lance.dataset(born(tmp_path / "t", "a").uri, session=session)
    other = lance.dataset(born(tmp_path / "u", "b").uri, session=session)
    one.io_stats_incremental()
    other.to_table()
    assert one.io_stats_snapshot().read_iops == other.io_stats_snapshot().read_iops > 0
    other.io_stats_incremental()
    assert one.io_stats_snapshot().read_iops == 0


def test_handles_without_a_session_count_for_themselves(tmp_path: Path) -> None:
    """A reader elsewhere in the process does not disturb a count."""
    uri = born(tmp_path / "t", "a").uri
    one, other = lance.dataset(uri), lance.dataset(uri)
    one.io_stats_incremental()
    other.to_table()
    assert one.io_stats_snapshot().read_iops == 0


@pytest.mark.parametrize(
    "derive",
    [
        lambda t: commit(t, append(t, "b")),
        lambda t: t.checkout_version(1),
        lambda t: (branch := t.create_branch("x")) and commit(branch, append(branch, "b")),
    ],
    ids=["commit", "checkout", "branch"],
)
def test_a_handle_derived_from_another_shares_its_counter(tmp_path: Path, derive: Callable[[LanceDataset], LanceDataset]) -> None:
    """So one counter follows a publish from the handle it read to the handle it made."""
    table = lance.dataset(born(tmp_path / "t", "a").uri)
    derived = derive(table)
    table.io_stats_incremental()
    derived.to_table()
    assert table.io_stats_snapshot().read_iops == derived.io_stats_snapshot().read_iops > 0


def test_reads_of_the_parents_files_count_only_on_a_branch_opened_by_uri_in_the_session(tmp_path: Path) -> None:
    """A cost test on a branch opens it by its uri: the handle that create_branch or checkout gives reads the parent's files uncounted."""
    session = Session()
    table = lance.dataset(born(tmp_path / "t", "a").uri, session=session)
    created = table.create_branch("x")
    table.io_stats_incremental()
    assert (ids(created), table.io_stats_incremental().read_iops) == (["a"], 0)
    opened = lance.dataset(created.uri, session=session)
    table.io_stats_incremental()
    assert (ids(opened), table.io_stats_incremental().read_iops) == (["a"], 1)


def test_files_written_to_a_path_count_only_with_the_session(tmp_path: Path) -> None:
    """LanceFragment.create has a store of its own unless it is given the session."""
    session = Session()
    table = lance.dataset(born(tmp_path / "t", "a").uri, session=session)
    table.io_stats_incremental()
    part(table, "b")
    assert table.io_stats_snapshot().write_iops == 0
    LanceFragment.create(table.uri, rows("b"), session=session)
    assert table.io_stats_snapshot().write_iops == 1


def test_a_swap_on_a_held_handle_reads_once_at_any_history(tmp_path: Path) -> None:
    """The cost promise of publishing: one small read, the version hint, after one commit as after thirty."""
    table = lance.dataset(born(tmp_path / "t", "a").uri, session=Session())
    reads = []
    for _ in range(30):
        staged = swap(table, out=[table.get_fragments()[-1].fragment_id], parts=[part(table, "s")])
        table.io_stats_incremental()
        table = commit(table, staged)
        reads.append(table.io_stats_incremental().read_iops)
    assert reads == [1] * 30


@pytest.mark.parametrize(("version", "looks"), [(None, 0), (1, 1)], ids=["the newest", "a pinned one"])
def test_a_second_open_of_one_version_reads_no_bytes_within_a_session(tmp_path: Path, version: int | None, looks: int) -> None:
    """Version files are cached by the session: opening again costs no byte, and a pinned version one look at the file."""
    session = Session()
    uri = born(tmp_path / "t", "a").uri
    assert lance.dataset(uri, version=version, session=session).io_stats_incremental().read_bytes > 0
    again = lance.dataset(uri, version=version, session=session).io_stats_incremental()
    assert (again.read_iops, again.read_bytes) == (looks, 0)


def test_asking_for_the_latest_version_reads_no_bytes(tmp_path: Path) -> None:
    """The probe before every write is a look into the folder."""
    table = lance.dataset(born(tmp_path / "t", "a").uri)
    commit(lance.dataset(table.uri), append(table, "b"))
    table.io_stats_incremental()
    assert table.latest_version == 2
    assert table.io_stats_incremental().read_bytes == 0


def test_two_handles_of_one_session_see_each_others_commits_when_they_ask(tmp_path: Path) -> None:
    """A shared session caches files, never the answer to 'what is newest'."""
    session = Session()
    uri = born(tmp_path / "t", "a").uri
    one, other = lance.dataset(uri, session=session), lance.dataset(uri, session=session)
    commit(one, append(one, "b"))
    assert (other.version, other.latest_version, ids(other)) == (1, 2, ["a"])
    other.checkout_latest()
    assert ids(other) == ids(lance.dataset(uri, session=session)) == ["a", "b"]


def test_a_session_does_not_confuse_a_branch_with_its_former_incarnation(tmp_path: Path) -> None:
    """A name deleted and made again shows the new rows, though the session has cached the old version of the same number."""
    session = Session()
    table = lance.dataset(born(tmp_path / "t", "a").uri, session=session)
    for key in ("old", "new"):
        branch = table.create_branch("x")
        commit(branch, append(branch, key))
        assert ids(table.checkout_version(("x", 2))) == ["a", key]
        table.branches.delete("x")
