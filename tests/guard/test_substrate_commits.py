"""Two writers from one base: which pairs pylance refuses, which it lets through, and with which error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError

from tests.guard.substrate import (
    KEYED,
    append,
    append_in_turn,
    append_once,
    born,
    commit,
    content,
    delete,
    ids,
    in_processes,
    inline_upsert,
    overwrite,
    rows,
    upsert,
)


def two_handles(table: LanceDataset) -> tuple[LanceDataset, LanceDataset]:
    return lance.dataset(table.uri), lance.dataset(table.uri)


# Keyed merges that commit by themselves


def test_inline_merges_of_one_new_key_both_land_without_the_key_annotation(tmp_path: Path) -> None:
    """P-01: Only with the key annotation is a keyed merge a compare-and-swap."""
    first, second = two_handles(born(tmp_path / "t", "a"))
    inline_upsert(first, "k", n=1)
    inline_upsert(second, "k", n=2)
    assert ids(lance.dataset(first.uri)) == ["a", "k", "k"]


def test_inline_merge_of_a_taken_key_is_refused_with_annotation_no_index_and_no_retries(tmp_path: Path) -> None:
    """P-02: With annotation, without index and retries, the second merge of a key is refused by a plain OSError."""
    first, second = two_handles(born(tmp_path / "t", "a", schema=KEYED))
    inline_upsert(first, "k", n=1)
    with pytest.raises(OSError) as lost:
        inline_upsert(second, "k", n=2)
    assert not isinstance(lost.value, CommitConflictError)
    assert content(lance.dataset(first.uri)) == {"a": 0, "k": 1}


def test_inline_merge_with_default_retries_overwrites_the_winner(tmp_path: Path) -> None:
    """P-03: With default retries the second merge of a key overwrites the first."""
    first, second = two_handles(born(tmp_path / "t", "a", schema=KEYED))
    inline_upsert(first, "k", n=1)
    inline_upsert(second, "k", n=2, retries=None)
    assert content(lance.dataset(first.uri)) == {"a": 0, "k": 2}


def test_a_btree_on_the_key_undoes_the_key_fence(tmp_path: Path) -> None:
    """P-04: A B-tree on the key undoes the protection of a keyed merge, so `__manifest.object_id` is never indexed."""
    table = born(tmp_path / "t", "a", schema=KEYED)
    table.create_scalar_index("id", "BTREE")
    first, second = two_handles(table)
    inline_upsert(first, "k", n=1, use_index=None)
    inline_upsert(second, "k", n=2, use_index=None)
    assert ids(lance.dataset(first.uri)) == ["a", "k", "k"]


# Staged transactions


def test_staged_merges_of_one_new_key_both_land_even_with_the_annotation(tmp_path: Path) -> None:
    """P-05: Staged merges of one key both land, annotated or not; therefore every transaction is fenced."""
    table = born(tmp_path / "t", "a", schema=KEYED)
    first, second = upsert(table, "k", n=1), upsert(table, "k", n=2)
    commit(table, first)
    commit(table, second)
    assert ids(lance.dataset(table.uri)) == ["a", "k", "k"]


def test_a_staged_merge_lands_over_an_append_of_its_key(tmp_path: Path) -> None:
    """P-06: A staged merge lands over an append of its key."""
    table = born(tmp_path / "t", "a", schema=KEYED)
    first, second = append(table, "k", n=1), upsert(table, "k", n=2)
    commit(table, first)
    commit(table, second)
    assert ids(lance.dataset(table.uri)) == ["a", "k", "k"]


@pytest.mark.parametrize("stage", [append, upsert])
def test_no_retries_does_not_mean_exact_parent(tmp_path: Path, stage: Callable[..., Transaction]) -> None:
    """P-07: Zero retries is not exact-parent: a stale append or upsert of new keys lands at base + 2."""
    base = born(tmp_path / "t", "a")
    stale = stage(base, "late")
    commit(base, append(base, "early"))
    assert commit(base, stale).version == base.version + 2
    assert ids(lance.dataset(base.uri)) == ["a", "early", "late"]


def test_a_stale_overwrite_without_retries_is_refused(tmp_path: Path) -> None:
    """P-08: A stale overwrite is refused without retries; with them it removes the concurrent rows."""
    base = born(tmp_path / "t", "a")
    replacement = overwrite(base, "z")
    commit(base, append(base, "early"))
    with pytest.raises(CommitConflictError):
        commit(base, replacement)
    assert ids(lance.dataset(base.uri)) == ["a", "early"]


def test_a_stale_overwrite_with_default_retries_buries_the_append(tmp_path: Path) -> None:
    """P-08: the other half: with pylance's default the concurrent rows are gone without a word."""
    base = born(tmp_path / "t", "a")
    replacement = overwrite(base, "z")
    commit(base, append(base, "early"))
    LanceDataset.commit(base, replacement)
    assert ids(lance.dataset(base.uri)) == ["z"]


@pytest.mark.parametrize("stage", [append, upsert])
def test_a_write_staged_before_an_overwrite_is_refused(tmp_path: Path, stage: Callable[..., Transaction]) -> None:
    """P-08: nothing staged on the old content lands on the new; this one is not worth a retry."""
    base = born(tmp_path / "t", "a")
    stale = stage(base, "late")
    commit(base, overwrite(base, "z"))
    with pytest.raises(CommitConflictError) as refused:
        commit(base, stale)
    assert refused.value.retryable is False


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda t: upsert(t, "a", n=1), lambda t: upsert(t, "b", n=2)),
        (lambda t: upsert(t, "a", n=1), lambda t: delete(t, "id = 'b'")),
        (lambda t: delete(t, "id = 'a'"), lambda t: upsert(t, "b", n=2)),
        (lambda t: delete(t, "id = 'a'"), lambda t: delete(t, "id = 'b'")),
    ],
    ids=["update-update", "update-delete", "delete-update", "delete-delete"],
)
def test_two_changes_inside_one_fragment_conflict_even_for_different_rows(
    tmp_path: Path, first: Callable[[LanceDataset], Transaction], second: Callable[[LanceDataset], Transaction]
) -> None:
    """P-09: Two changes inside one fragment conflict, also of different rows. The fence is built on this."""
    table = born(tmp_path / "t", "a", "b", "c")
    winner, loser = first(table), second(table)
    commit(table, winner)
    with pytest.raises(CommitConflictError) as lost:
        commit(table, loser)
    assert lost.value.retryable is True
    assert lance.dataset(table.uri).version == 2


def test_committing_one_transaction_twice_appends_twice(tmp_path: Path) -> None:
    """No uuid makes a commit idempotent: a retry after an unknown outcome first asks whether the uuid is already there."""
    table = born(tmp_path / "t", "a")
    tx = append(table, "b")
    assert commit(table, tx).version == 2
    assert commit(table, tx).version == 3
    assert ids(lance.dataset(table.uri)) == ["a", "b", "b"]


@pytest.mark.parametrize(
    "stage",
    [
        lambda t: append(t, "b"),
        lambda t: upsert(t, "a", n=9),
        lambda t: delete(t, "id = 'a'"),
        lambda t: overwrite(t, "z"),
    ],
    ids=["append", "upsert", "delete", "overwrite"],
)
def test_staging_never_moves_head(tmp_path: Path, stage: Callable[[LanceDataset], Transaction]) -> None:
    """Everything before the commit step may be thrown away: neither the table nor the handle has moved."""
    table = born(tmp_path / "t", "a", "c")
    before = content(table)
    tx = stage(table)
    assert (table.version, table.latest_version, lance.dataset(table.uri).version) == (1, 1, 1)
    assert content(lance.dataset(table.uri)) == before
    assert tx.read_version == 1


def test_commit_leaves_the_given_handle_where_it_was(tmp_path: Path) -> None:
    """The base handle stays usable as the base: only the returned handle is newer."""
    table = born(tmp_path / "t", "a")
    after = commit(table, append(table, "b"))
    assert (table.version, after.version, ids(table)) == (1, 2, ["a"])


def test_a_staged_transaction_can_be_pickled(tmp_path: Path) -> None:
    """A Spark executor stages, the driver commits."""
    table = born(tmp_path / "t", "a")
    tx = append(table, "b")
    again = pickle.loads(pickle.dumps(tx))
    assert again == tx
    assert ids(commit(table, again)) == ["a", "b"]


# What a keyed merge does with odd input


def test_a_merge_that_changes_nothing_still_commits_a_version(tmp_path: Path) -> None:
    """We find out ourselves that there is nothing to do, and then do not commit."""
    table = born(tmp_path / "t", "a")
    tx, stats = table.merge_insert("id").when_not_matched_insert_all().execute_uncommitted(rows("a", n=5))
    assert (stats["num_inserted_rows"], stats["num_updated_rows"]) == (0, 0)
    after = commit(table, tx)
    assert (after.version, content(after)) == (2, {"a": 0})


def test_duplicate_source_keys_are_refused_only_when_they_match_a_row(tmp_path: Path) -> None:
    """Input is made unique before it is staged: pylance inserts both copies of a new key."""
    table = born(tmp_path / "t", "a")
    with pytest.raises(OSError):
        upsert(table, "a", "a", n=1)
    assert ids(commit(table, upsert(table, "k", "k", n=1))) == ["a", "k", "k"]


def test_a_null_key_never_matches_and_is_always_inserted(tmp_path: Path) -> None:
    """Null keys are refused by us, as pylance would pile them up."""
    nullable = pa.schema([("id", pa.string()), ("n", pa.int32())])
    table = born(tmp_path / "t", schema=nullable)
    null = pa.table({"id": [None], "n": [1]}, schema=nullable)
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    table = commit(table, merge.execute_uncommitted(null)[0])
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert commit(table, merge.execute_uncommitted(null)[0]).count_rows() == 2


def test_a_merge_source_may_hold_only_the_key_to_delete_rows(tmp_path: Path) -> None:
    """Delete by keys without a predicate of ten thousand literals."""
    table = born(tmp_path / "t", "a", "b", "c")
    tx, stats = table.merge_insert("id").when_matched_delete().execute_uncommitted(pa.table({"id": ["a", "c", "x"]}))
    assert stats["num_deleted_rows"] == 2
    assert ids(commit(table, tx)) == ["b"]


# Several processes


def test_two_processes_lose_no_commit(tmp_path: Path) -> None:
    """The default commit is put-if-absent of the version file; a table is shared by processes without a server."""
    uri = born(tmp_path / "t", "a").uri
    reached = in_processes(append_in_turn, (uri, "x", 10), (uri, "y", 10))
    assert sorted(reached[0] + reached[1]) == list(range(2, 22))
    assert lance.dataset(uri).count_rows() == 21


def test_latest_version_sees_the_commits_of_another_process(tmp_path: Path) -> None:
    """The cheap probe for 'has HEAD moved', on a handle that stays where it is."""
    table = born(tmp_path / "t", "a")
    assert in_processes(append_once, (table.uri,)) == [2]
    assert (table.latest_version, table.version, ids(table)) == (2, 1, ["a"])
