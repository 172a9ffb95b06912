"""Changing a table's columns in a staged transaction: how field ids are kept, and what silently goes wrong."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.schema import LanceSchema

from tests.guard.substrate import KEY, KEYED, append, born, commit, delete, fence, ids, overwrite, schema_parts, upsert


def one_row(**values: int) -> pa.Table:
    return pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()})


def three_columns(path: Path) -> LanceDataset:
    return lance.write_dataset(one_row(id=1, a=10, b=20), str(path))


def field_ids(table: LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in table.lance_schema.fields()}


def project(table: LanceDataset, schema: LanceSchema) -> Transaction:
    return Transaction(table.version, LanceOperation.Project(schema))


def merge(table: LanceDataset, schema: LanceSchema) -> Transaction:
    return Transaction(table.version, LanceOperation.Merge([f.metadata for f in table.get_fragments()], schema))


def without(table: LanceDataset, name: str) -> LanceSchema:
    """The table's schema less one column, every other with the id it has."""
    build, (metadata, *fields) = schema_parts(table.lance_schema)
    kept = [proto for proto, field in zip(fields, table.lance_schema.fields(), strict=True) if field.name() != name]
    return build(metadata, *kept)


def with_new(table: LanceDataset, field: pa.Field, *, number: int) -> LanceSchema:
    """The table's schema and one more column, which has the given id because as many fields stand before it."""
    build, (metadata, *fields) = schema_parts(table.lance_schema)
    _, (_, *padded) = schema_parts(LanceSchema.from_pyarrow(pa.schema([*(pa.field(f"pad{i}", pa.int8()) for i in range(number)), field])))
    return build(metadata, *fields, padded[-1])


def test_a_projection_by_a_pyarrow_schema_reads_the_wrong_column(tmp_path: Path) -> None:
    """The hazard: ids are counted from zero, so `b` shows what the dropped `a` held, and nobody says a word."""
    table = three_columns(tmp_path / "t")
    after = commit(table, project(table, pa.schema([("id", pa.int64()), ("b", pa.int64())])))
    assert after.to_table().to_pylist() == [{"id": 1, "b": 10}]


def test_a_projection_by_a_schema_with_its_ids_drops_the_column(tmp_path: Path) -> None:
    """The cure: a Lance schema is taken apart and put together again by what it pickles to."""
    table = three_columns(tmp_path / "t")
    after = commit(table, project(table, without(table, "a")))
    assert (after.version, field_ids(after)) == (2, {"id": 0, "b": 2})
    assert after.to_table().to_pylist() == [{"id": 1, "b": 20}]


def test_a_merge_of_the_same_fragments_adds_a_column_of_nulls(tmp_path: Path) -> None:
    """Adding an optional property writes no data file, and old rows read null."""
    table = three_columns(tmp_path / "t")
    after = commit(table, merge(table, with_new(table, pa.field("c", pa.int64()), number=3)))
    assert (after.version, field_ids(after)) == (2, {"id": 0, "a": 1, "b": 2, "c": 3})
    assert after.to_table().to_pylist() == [{"id": 1, "a": 10, "b": 20, "c": None}]
    assert len(list((tmp_path / "t/data").iterdir())) == 1


def test_a_column_added_after_a_drop_needs_a_number_never_used(tmp_path: Path) -> None:
    """Lance remembers dropped ids and refuses to give one again, also when a pyarrow schema counts from zero: this one is not silent."""
    table = three_columns(tmp_path / "t")
    table = commit(table, project(table, without(table, "b")))
    new = pa.field("c", pa.int64())
    for schema in (LanceSchema.from_pyarrow(table.schema.append(new)), with_new(table, new, number=2)):
        with pytest.raises(OSError):
            commit(table, merge(table, schema))
    after = commit(table, merge(table, with_new(table, new, number=3)))
    assert field_ids(after) == {"id": 0, "a": 1, "c": 3}
    assert after.to_table().to_pylist() == [{"id": 1, "a": 10, "c": None}]


def test_the_columns_of_an_empty_table_can_be_changed_as_well(tmp_path: Path) -> None:
    """A type without rows takes the same road."""
    table = born(tmp_path / "t", schema=KEYED)
    after = commit(table, merge(table, with_new(table, pa.field("c", pa.int64()), number=2)))
    after = commit(after, project(after, without(after, "n")))
    assert field_ids(after) == {"id": 0, "c": 2}


def test_the_key_annotation_survives_a_change_of_columns(tmp_path: Path) -> None:
    """P-17: it could not be set again."""
    table = born(tmp_path / "t", "a", schema=KEYED)
    after = commit(table, merge(table, with_new(table, pa.field("c", pa.int64()), number=2)))
    after = commit(after, project(after, without(after, "n")))
    assert after.schema.field("id").metadata == {KEY: b"true"}


CHANGES = {
    "add": lambda t: merge(t, with_new(t, pa.field("c", pa.int64()), number=2)),
    "drop": lambda t: project(t, without(t, "n")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_columns_and_a_fenced_write_conflict_in_both_orders(tmp_path: Path, change: str) -> None:
    """Schema changes need no fence of their own: rows of the old shape cannot land on the new one, nor the other way round."""
    for order in ("change first", "write first"):
        base = born(tmp_path / order, "a", "b", fragments=2)
        both = [CHANGES[change](base), fence(base, append(base, "k"))]
        first, second = both if order == "change first" else reversed(both)
        commit(base, first)
        with pytest.raises(CommitConflictError) as lost:
            commit(base, second)
        assert lost.value.retryable is True
        assert base.latest_version == 2


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", CHANGES)
def test_two_changes_of_columns_from_one_base_conflict(tmp_path: Path, first: str, second: str) -> None:
    """Two schema applies at once: one wins."""
    base = born(tmp_path / "t", "a", "b", fragments=2)
    winner, loser = CHANGES[first](base), CHANGES[second](base)
    commit(base, winner)
    with pytest.raises(CommitConflictError):
        commit(base, loser)
    assert base.latest_version == 2


def test_an_old_version_keeps_its_columns(tmp_path: Path) -> None:
    """Old commits decode with the schema of their day."""
    table = three_columns(tmp_path / "t")
    commit(table, project(table, without(table, "a")))
    assert lance.dataset(table.uri, version=1).to_table().to_pylist() == [{"id": 1, "a": 10, "b": 20}]


def test_a_renamed_column_keeps_its_id_its_values_and_its_index(tmp_path: Path) -> None:
    """A renamed property costs no rewrite and no index build."""
    table = three_columns(tmp_path / "t")
    table.create_scalar_index("a", "BTREE")
    table.alter_columns({"path": "a", "name": "renamed"})  # type: ignore[dict-item]  # pylance types its own form wrongly
    assert field_ids(table) == {"id": 0, "renamed": 1, "b": 2}
    assert table.to_table(filter="renamed = 10").to_pylist() == [{"id": 1, "renamed": 10, "b": 20}]
    assert "ScalarIndexQuery" in table.scanner(filter="renamed = 10").explain_plan()


def test_dropping_a_column_drops_its_index(tmp_path: Path) -> None:
    """No index is left behind that names a field which is not there."""
    table = three_columns(tmp_path / "t")
    table.create_scalar_index("a", "BTREE")
    after = commit(table, project(table, without(table, "a")))
    assert after.describe_indices() == []


def all_at_once(table: LanceDataset) -> Transaction:
    """`n` renamed, `c` added before it: everything a change of columns can be, as one Merge."""
    build, (metadata, id_, _) = schema_parts(table.lance_schema)
    padded = [pa.field("pad", pa.int8()), pa.field("m", pa.int32()), pa.field("c", pa.list_(pa.int64()))]
    _, (_, _, m, *c) = schema_parts(LanceSchema.from_pyarrow(pa.schema(padded)))
    return merge(table, build(metadata, id_, *c, m))


def test_a_merge_renames_adds_and_reorders_in_one_step(tmp_path: Path) -> None:
    """One version for a whole schema step, and a nested column takes as many ids as it has fields."""
    table = born(tmp_path / "t", "a", "b", fragments=2)
    table.create_scalar_index("n", "BTREE")
    after = commit(table, all_at_once(table))
    assert after.schema.names == ["id", "c", "m"]
    assert field_ids(after) == {"id": 0, "c": 2, "m": 1}
    assert after.max_field_id == 3
    assert after.to_table(filter="m = 0").to_pylist() == [{"id": "a", "c": None, "m": 0}, {"id": "b", "c": None, "m": 0}]
    assert [index.field_names for index in after.describe_indices()] == [["m"]]


def test_a_merge_on_a_native_branch_leaves_the_parent_alone(tmp_path: Path) -> None:
    """The fragments it names lie in the parent's folder, deletions included."""
    base = born(tmp_path / "t", "a", "b", "c", fragments=1)
    base = commit(base, delete(base, "id = 'b'"))
    branch = base.create_branch("side", ("main", base.version))
    after = commit(branch, all_at_once(branch))
    assert after.to_table(columns=["id", "m"]).to_pylist() == [{"id": "a", "m": 0}, {"id": "c", "m": 0}]
    assert lance.dataset(str(tmp_path / "t")).schema.names == ["id", "n"]


OTHERS = {
    "append": lambda t: fence(t, append(t, "k")),
    "upsert": lambda t: fence(t, upsert(t, "a", "k")),
    "delete": lambda t: fence(t, delete(t, "id = 'a'")),
    "overwrite": lambda t: overwrite(t, "o"),
    "merge": all_at_once,
}


@pytest.mark.parametrize("order", ["change first", "other first"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_merge_conflicts_with_every_other_change_of_its_base(tmp_path: Path, other: str, order: str) -> None:
    """Why a change of columns is a Merge."""
    base = born(tmp_path / "t", "a", "b", fragments=2)
    both = [all_at_once(base), OTHERS[other](base)]
    first, second = both if order == "change first" else reversed(both)
    commit(base, first)
    with pytest.raises(CommitConflictError):
        commit(base, second)
    assert base.latest_version == 2


@pytest.mark.parametrize("order", ["change first", "delete first"])
def test_a_projection_and_a_delete_pass_each_other(tmp_path: Path, order: str) -> None:
    """Why it is not a Project: a fenced delete lands beside it, in either order."""
    base = born(tmp_path / "t", "a", "b", fragments=2)
    both = [project(base, without(base, "n")), fence(base, delete(base, "id = 'a'"))]
    first, second = both if order == "change first" else reversed(both)
    commit(base, first)
    assert commit(base, second).version == 3


def test_a_merge_refuses_to_give_a_name_to_another_column(tmp_path: Path) -> None:
    """A name that goes from one field id to another looks like lost data to Lance, also when that is meant."""
    table = three_columns(tmp_path / "t")
    build, (metadata, id_, _, b) = schema_parts(table.lance_schema)
    padded = [*(pa.field(f"pad{i}", pa.int8()) for i in range(3)), pa.field("a", pa.int64())]
    _, (_, *fresh) = schema_parts(LanceSchema.from_pyarrow(pa.schema(padded)))
    with pytest.raises(OSError, match="remaps existing field"):
        commit(table, merge(table, build(metadata, id_, fresh[-1], b)))


def test_cleanup_by_name_takes_those_versions_and_no_others(tmp_path: Path) -> None:
    """Old or young, once or twice; the version a branch was made from stays, and so do files nobody has committed yet."""
    table = born(tmp_path / "t", "a", fragments=1)
    for key in "bcd":
        table = commit(table, overwrite(table, key))
    table.create_branch("side", ("main", 2))
    staged = append(table, "later")
    for _ in range(2):
        table.cleanup_old_versions(versions=[1, 2])
        assert [version["version"] for version in table.versions()] == [2, 3, 4]
    assert ids(lance.dataset(table.uri).checkout_version(("side", None))) == ["b"]
    assert ids(commit(table, staged)) == ["d", "later"]
    with pytest.raises(ValueError):
        lance.dataset(table.uri, version=1)
