"""Versions, transactions, restore and detached commits: what recovery reads, proves and undoes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from tests.guard.substrate import append, born, commit, delete, fence, ids, overwrite, transaction_of, upsert

MINE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "stage",
    [
        lambda t: append(t, "k"),
        lambda t: upsert(t, "a", n=1),
        lambda t: delete(t, "id = 'a'"),
        lambda t: fence(t, append(t, "k")),
        lambda t: overwrite(t, "z"),
        lambda t: Transaction(t.version, LanceOperation.Restore(1)),
    ],
    ids=["append", "upsert", "delete", "fenced append", "overwrite", "restore"],
)
def test_a_uuid_minted_before_the_commit_can_be_read_back_from_the_version(
    tmp_path: Path, stage: Callable[[LanceDataset], Transaction]
) -> None:
    """P-13: A uuid minted before a commit can be read back from the version, which proves whose it is."""
    table = born(tmp_path / "t", "a", "b")
    commit(table, dataclasses.replace(stage(table), uuid=MINE))
    assert transaction_of(lance.dataset(table.uri), 2).uuid == MINE


def test_the_uuid_is_readable_when_all_transaction_files_are_gone(tmp_path: Path) -> None:
    """Ownership is written in the version file itself, so cleanup of .txn files takes no proof away."""
    table = born(tmp_path / "t", "a")
    commit(table, dataclasses.replace(append(table, "b"), uuid=MINE))
    gone = list(Path(table.uri, "_transactions").iterdir())
    for file in gone:
        file.unlink()
    assert len(gone) == 2
    kept = transaction_of(lance.dataset(table.uri), 2)
    assert (kept.uuid, kept.read_version, type(kept.operation)) == (MINE, 1, LanceOperation.Append)


def test_transaction_properties_are_kept_and_a_message_beside_a_transaction_is_refused(tmp_path: Path) -> None:
    """Whatever we attach to a table commit goes into the properties."""
    table = born(tmp_path / "t", "a")
    tx = dataclasses.replace(append(table, "b"), transaction_properties={"omnigraph:commit": "01J"})
    assert transaction_of(commit(table, tx), 2).transaction_properties == {"omnigraph:commit": "01J"}
    with pytest.raises(ValueError):
        LanceDataset.commit(table, append(table, "c"), commit_message="hello")


def test_the_transaction_of_a_version_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    """The recovery probe of base + 1 tells 'not reached' by this."""
    with pytest.raises(OSError):
        born(tmp_path / "t", "a").read_transaction(2)


def test_an_older_version_opens_by_number_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    """A snapshot is a version number; one that was collected must be told from a broken table. Open and checkout differ in type."""
    table = born(tmp_path / "t", "a")
    head = commit(table, append(table, "b"))
    assert ids(lance.dataset(table.uri, version=1)) == ids(head.checkout_version(1)) == ["a"]
    with pytest.raises(ValueError):
        lance.dataset(table.uri, version=9)
    with pytest.raises(OSError):
        head.checkout_version(9)


def test_a_handle_stays_at_its_version_until_it_is_told(tmp_path: Path) -> None:
    """A reader's snapshot does not move under it."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    assert ids(table) == ["a"]
    table.checkout_latest()
    assert ids(table) == ["a", "b"]


def test_restore_makes_a_new_version_with_the_old_content(tmp_path: Path) -> None:
    """Roll back goes forward: history keeps what was undone."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    handle = lance.dataset(table.uri, version=1)
    handle.restore()
    head = lance.dataset(table.uri)
    assert (handle.version, head.version, ids(head), ids(head.checkout_version(2))) == (3, 3, ["a"], ["a", "b"])
    assert transaction_of(head, 3).operation == LanceOperation.Restore(1)


def test_restore_buries_a_concurrent_append_without_a_word(tmp_path: Path) -> None:
    """P-12: A restore hides a concurrent append without an error.
    P-22: A restore lands at whatever HEAD + 1 is, so the achieved version is compared with the HEAD seen.
    """
    table = born(tmp_path / "t", "a")
    seen = commit(table, append(table, "b"))
    back = Transaction(seen.version, LanceOperation.Restore(1))
    commit(seen, append(seen, "foreign"))
    after = LanceDataset.commit(seen, back, max_retries=0)
    assert ids(after) == ["a"]
    assert after.version == seen.version + 2


def test_a_write_staged_before_a_restore_is_refused_for_good(tmp_path: Path) -> None:
    """A paused writer cannot bring back what recovery has undone."""
    table = born(tmp_path / "t", "a")
    stale = append(table, "late")
    table.restore()
    with pytest.raises(CommitConflictError) as refused:
        commit(lance.dataset(table.uri, version=1), stale)
    assert refused.value.retryable is False


def test_a_detached_commit_moves_no_head_and_takes_no_successor(tmp_path: Path) -> None:
    """P-21: A detached commit moves no HEAD, has a number past 2^63 and takes no successor."""
    table = born(tmp_path / "t", "a")
    hidden = LanceDataset.commit(table, append(table, "b"), detached=True)
    assert hidden.version > 2**63
    assert table.latest_version == 1
    assert ids(lance.dataset(table.uri, version=hidden.version)) == ["a", "b"]
    with pytest.raises(OSError):
        commit(hidden, append(hidden, "c"))
    assert lance.dataset(table.uri).version == 1


def test_versions_are_listed_in_order_with_a_time_each(tmp_path: Path) -> None:
    """Cleanup by age reads these."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    first, second = lance.dataset(table.uri).versions()
    assert (first["version"], second["version"]) == (1, 2)
    earlier, later = first["timestamp"], second["timestamp"]
    assert isinstance(earlier, datetime)
    assert isinstance(later, datetime)
    assert earlier <= later
