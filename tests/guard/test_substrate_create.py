"""How a table is born: who wins, what it carries, and which ways of creating one may overwrite another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import LanceFragment

from tests.guard.substrate import KEY, KEYED, PLAIN, born, commit, create_each, ids, in_processes, part, rows, transaction_of, upsert


def create(uri: str, name: str, **how: Any) -> LanceDataset:
    return LanceDataset.commit(uri, LanceOperation.Overwrite(PLAIN, [LanceFragment.create(uri, rows(name))]), **how)


@pytest.mark.parametrize("how", [{}, {"read_version": 0}], ids=["no read version", "read version 0"])
def test_a_second_create_without_retries_is_refused_by_a_plain_os_error(tmp_path: Path, how: dict[str, Any]) -> None:
    """init leans on it: the loser must not write version 2, and must ask whose version 1 it is, since the error is not typed."""
    uri = str(tmp_path / "t")
    assert create(uri, "first", max_retries=0, **how).version == 1
    with pytest.raises(OSError) as lost:
        create(uri, "second", max_retries=0, **how)
    assert not isinstance(lost.value, CommitConflictError)
    assert (lance.dataset(uri).version, ids(lance.dataset(uri))) == (1, ["first"])


@pytest.mark.parametrize("how", [{}, {"read_version": 0}], ids=["no read version", "read version 0"])
def test_a_second_create_with_default_retries_replaces_the_first(tmp_path: Path, how: dict[str, Any]) -> None:
    """Why every create passes max_retries=0: with the default a late creator wipes a living table as its version 2."""
    uri = str(tmp_path / "t")
    create(uri, "first", max_retries=0)
    assert create(uri, "second", **how).version == 2
    assert ids(lance.dataset(uri)) == ["second"]


def test_a_create_that_names_read_version_one_replaces_even_without_retries(tmp_path: Path) -> None:
    """Why a create never names another read version than 0: 1 is accepted where nothing exists, and overwrites where something does."""
    uri = str(tmp_path / "t")
    assert create(uri, "first", max_retries=0, read_version=1).version == 1
    assert create(uri, "second", max_retries=0, read_version=1).version == 2
    assert ids(lance.dataset(uri)) == ["second"]


def test_of_two_processes_creating_one_table_exactly_one_wins(tmp_path: Path) -> None:
    """Two `init` at once: one graph, one clear loser, version 1 holds the winner's rows."""
    uris = [str(tmp_path / f"t{i}") for i in range(25)]
    first, second = in_processes(create_each, (uris, "first"), (uris, "second"))
    for uri, outcome in zip(uris, zip(first, second, strict=True), strict=True):
        assert sorted(outcome) == ["OSError", "won"]
        table = lance.dataset(uri)
        assert (table.version, ids(table)) == (1, [("first", "second")[outcome.index("won")]])


def test_write_dataset_in_create_mode_refuses_an_existing_table(tmp_path: Path) -> None:
    """Its own race is lost with retries, as above, so only tests use it; there at least it must refuse."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows("first"), uri, mode="create")
    with pytest.raises(OSError):
        lance.write_dataset(rows("second"), uri, mode="create")
    assert lance.dataset(uri).version == 1


def test_a_create_may_carry_a_uuid_minted_before(tmp_path: Path) -> None:
    """After a lost or unknown create we ask read_transaction(1) whether it was ours."""
    uri = str(tmp_path / "t")
    mine = "0123456789abcdef0123456789abcdef"
    LanceDataset.commit(uri, Transaction(0, LanceOperation.Overwrite(PLAIN, []), uuid=mine), max_retries=0)
    assert transaction_of(lance.dataset(uri), 1).uuid == mine


def test_overwrite_with_no_fragments_is_an_empty_typed_table(tmp_path: Path) -> None:
    """Every type's table starts like this, and takes its first keyed write."""
    table = born(tmp_path / "t", schema=KEYED)
    assert (table.version, table.count_rows(), table.get_fragments()) == (1, 0, [])
    assert table.schema.remove_metadata().equals(KEYED)
    assert ids(commit(table, upsert(table, "a"))) == ["a"]


def test_a_new_table_has_format_2_2_no_cleanup_settings_and_no_stable_row_ids(tmp_path: Path) -> None:
    """P-20: A new table has file format 2.2, no clean-up settings and no stable row ids."""
    table = born(tmp_path / "t", "a")
    assert table.config() == {}
    assert table.data_storage_version == "2.2"
    assert table.has_stable_row_ids is False


def test_schema_and_key_metadata_survive_swaps_branches_and_reopening(tmp_path: Path) -> None:
    """The format number is in the schema metadata and the key annotation on the field: both must outlive every commit."""
    uri = str(tmp_path / "t")
    stamped = KEYED.with_metadata({b"omnigraph:format": b"1"})
    table = LanceDataset.commit(uri, LanceOperation.Overwrite(stamped, [part(uri, "a")]), max_retries=0)
    later = commit(table, Transaction(1, LanceOperation.Update(removed_fragment_ids=[0], new_fragments=[part(uri, "b")])))
    branch = later.create_branch("x")
    on_branch = commit(branch, upsert(branch, "c"))
    for handle in (later, lance.dataset(uri), branch, on_branch, lance.dataset(on_branch.uri)):
        assert handle.schema.metadata == {b"omnigraph:format": b"1"}
        assert handle.schema.field("id").metadata == {KEY: b"true"}
        assert handle.schema.field("id").nullable is False


@pytest.mark.parametrize("change", [{"id": {KEY.decode(): "true"}}, {"id": {KEY.decode(): None}}, {"n": {KEY.decode(): "true"}}])
def test_the_key_annotation_cannot_be_changed_once_set(tmp_path: Path, change: dict[str, Any]) -> None:
    """P-17: The key annotation is written at creation and cannot be set again."""
    table = born(tmp_path / "t", "a", schema=KEYED)
    with pytest.raises(OSError):
        table.update_field_metadata(change)
    assert lance.dataset(table.uri).schema.field("id").metadata == {KEY: b"true"}


def test_a_missing_table_is_a_value_error(tmp_path: Path) -> None:
    """Opening tells 'no such table' by type; an empty folder counts as none."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent"):
        with pytest.raises(ValueError):
            lance.dataset(str(tmp_path / name))


def test_columns_keep_the_order_and_types_of_the_schema(tmp_path: Path) -> None:
    """Arrow in, Arrow out: what we declare is what a scan gives back."""
    schema = pa.schema(
        [("z", pa.int64()), ("a", pa.list_(pa.string())), ("v", pa.list_(pa.float32(), 2)), ("t", pa.timestamp("us", "UTC"))]
    )
    table = LanceDataset.commit(str(tmp_path / "t"), LanceOperation.Overwrite(schema, []), max_retries=0)
    assert table.to_table().schema.equals(schema)
