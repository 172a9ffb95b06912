"""Native branches: names, incarnations, residue, and what may be committed where."""

from __future__ import annotations

import dataclasses
import inspect
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import DataFile, LanceFragment

from omnigraph.store.bases import rebased
from tests.guard.substrate import append, born, commit, delete, ids, part, upsert


def orphan_tree(table: LanceDataset, name: str) -> None:
    """What a crash between the tree and the ref leaves: the tree is written first, the ref last."""
    table.create_branch(name)
    Path(table.uri, "_refs", "branches", f"{name}.json").unlink()


# Creating, naming, telling apart


def test_a_branch_starts_at_its_parents_version_and_counts_on(tmp_path: Path) -> None:
    """Version numbers collide between branches, so we key by branch and version, and base + 1 holds there, too."""
    table = born(tmp_path / "t", "a")
    table = commit(table, append(table, "b"))
    branch = table.create_branch("x")
    assert branch.version == 2
    assert commit(branch, append(branch, "c")).version == 3
    assert commit(table, append(table, "d")).version == 3
    assert ids(table.checkout_version(("x", None))) == ["a", "b", "c"]
    assert ids(table.checkout_version(("main", None))) == ["a", "b", "d"]


def test_a_branch_can_start_at_an_older_version(tmp_path: Path) -> None:
    """A table forks lazily from the version the graph branch sees, which HEAD may have left behind."""
    table = born(tmp_path / "t", "a")
    commit(table, append(table, "b"))
    head = lance.dataset(table.uri)
    assert ids(head.create_branch("x", 1)) == ["a"]
    assert ids(head.create_branch("y", ("x", 1))) == ["a"]


def test_a_branch_handle_opens_by_name_and_by_its_uri(tmp_path: Path) -> None:
    """Both roads lead to the same branch, and both may commit there."""
    table = born(tmp_path / "t", "a")
    by_name = commit(branch := table.create_branch("team/x"), append(branch, "b"))
    assert branch.uri == f"{table.uri}/tree/team/x"
    assert ids(lance.dataset(branch.uri)) == ids(table.checkout_version(("team/x", None))) == ids(by_name) == ["a", "b"]


def test_a_main_handle_made_from_a_branch_keeps_the_branchs_uri(tmp_path: Path) -> None:
    """A handle's branch is never derived from its uri: this one says the branch and reads and writes main."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    commit(branch, append(branch, "on x"))
    main = branch.checkout_version(("main", None))
    assert main.uri == branch.uri
    assert ids(commit(main, append(main, "on main"))) == ids(lance.dataset(table.uri)) == ["a", "on main"]


def test_the_branch_identifier_changes_when_a_name_is_made_again(tmp_path: Path) -> None:
    """P-15: A native branch's identifier changes when its name is used again."""
    table = born(tmp_path / "t", "a")
    seen = set()
    for _ in range(2):
        table.create_branch("x")
        ((version, incarnation),) = table.branches.list()["x"]["branch_identifier"]
        assert version == 1
        seen.add(incarnation)
        table.branches.delete("x")
    assert len(seen) == 2


def test_a_grandchilds_identifier_ends_with_its_own_incarnation(tmp_path: Path) -> None:
    """The last pair is the branch's own; the ones before it are its ancestors'."""
    table = born(tmp_path / "t", "a")
    table.create_branch("p").create_branch("q")
    branches = table.branches.list()
    parent, child = branches["p"]["branch_identifier"], branches["q"]["branch_identifier"]
    assert child[:-1] == parent
    assert child[-1][1] != parent[-1][1]
    assert (branches["p"]["parent_branch"], branches["q"]["parent_branch"]) == (None, "p")


@pytest.mark.parametrize("name", ["a.b", "a-b", "a_b", "A", "9", "team/x", "x-0123456789abcdef"])
def test_a_branch_name_may_hold_letters_digits_and_a_few_signs(tmp_path: Path, name: str) -> None:
    """Fork names are made of exactly these."""
    table = born(tmp_path / "t", "a")
    table.create_branch(name)
    assert list(table.branches.list()) == [name]


@pytest.mark.parametrize("name", ["main", "", "..", "a..b", "a~b", "a b", "a@b", "/a", "a/", "a.lock"])
def test_a_branch_name_that_lance_refuses(tmp_path: Path, name: str) -> None:
    """We refuse these before any effect; should Lance begin to take one, our rule is the narrower and stays."""
    table = born(tmp_path / "t", "a")
    with pytest.raises(OSError):
        table.create_branch(name)
    assert table.branches.list() == {}


def test_names_that_overlap_by_prefix_are_accepted_and_leave_residue(tmp_path: Path) -> None:
    """P-15, B-18: Lance accepts `team` beside `team/x`; deleting `team` then leaves its tree, so live names are kept disjoint by us."""
    table = born(tmp_path / "t", "a")
    table.create_branch("team")
    inner = table.create_branch("team/x")
    commit(inner, append(inner, "k"))
    table.branches.delete("team")
    assert ids(table.checkout_version(("team/x", None))) == ["a", "k"]
    assert (tmp_path / "t/tree/team/_versions").exists()
    with pytest.raises(OSError):
        table.create_branch("team")


# Collisions, residue, deletion


def test_creating_a_live_branch_again_is_an_untyped_error(tmp_path: Path) -> None:
    """P-16: Creating a live native branch again is an untyped error; the list of branches decides."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    with pytest.raises(OSError):
        table.create_branch("x")
    assert list(table.branches.list()) == ["x"]


def test_of_several_threads_creating_one_branch_exactly_one_wins(tmp_path: Path) -> None:
    """Two graph branches of one name cannot both come to be."""
    table = born(tmp_path / "t", "a")
    for name in ("p", "q", "r", "s", "t"):
        barrier = threading.Barrier(3)

        def create(name: str = name, barrier: threading.Barrier = barrier) -> int | None:
            barrier.wait()
            try:
                return lance.dataset(table.uri).create_branch(name).version
            except OSError:
                return None

        with ThreadPoolExecutor(3) as pool:
            outcomes = [future.result() for future in [pool.submit(create) for _ in range(3)]]
        assert sorted(outcomes, key=str) == [1, None, None]
        assert ids(table.checkout_version((name, None))) == ["a"]


def test_residue_of_a_branch_blocks_its_name_and_cannot_be_deleted(tmp_path: Path) -> None:
    """P-14: Files of a half-made native branch block its name, and Lance cannot delete them."""
    table = born(tmp_path / "t", "a")
    orphan_tree(table, "x")
    assert table.branches.list() == {}
    with pytest.raises(OSError):
        table.create_branch("x")
    with pytest.raises(ValueError):
        table.branches.delete("x")
    assert (tmp_path / "t/tree/x").exists()
    assert list(inspect.signature(table.branches.delete).parameters) == ["branch"]


def test_removing_the_tree_of_a_residue_frees_its_name(tmp_path: Path) -> None:
    """P-14: what cleanup does is enough."""
    table = born(tmp_path / "t", "a")
    orphan_tree(table, "x")
    shutil.rmtree(tmp_path / "t/tree/x")
    assert ids(table.create_branch("x")) == ["a"]


def test_a_residue_still_opens_by_name(tmp_path: Path) -> None:
    """Opening is no proof that a branch is alive; the list of branches is."""
    table = born(tmp_path / "t", "a")
    orphan_tree(table, "x")
    assert ids(table.checkout_version(("x", None))) == ["a"]


def test_a_ref_without_its_tree_lists_does_not_open_and_can_be_deleted(tmp_path: Path) -> None:
    """The reverse residue heals by an ordinary delete."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    shutil.rmtree(tmp_path / "t/tree/x")
    with pytest.raises(ValueError):
        table.checkout_version(("x", None))
    assert list(table.branches.list()) == ["x"]
    table.branches.delete("x")
    assert table.branches.list() == {}


def test_a_branch_with_children_cannot_be_deleted(tmp_path: Path) -> None:
    """Children first: the child's files are in the parent's tree."""
    table = born(tmp_path / "t", "a")
    table.create_branch("p").create_branch("q")
    with pytest.raises(OSError):
        table.branches.delete("p")
    table.branches.delete("q")
    table.branches.delete("p")
    assert table.branches.list() == {}
    assert list((tmp_path / "t/tree").iterdir()) == []


def test_a_reader_of_a_deleted_branch_fails_loudly(tmp_path: Path) -> None:
    """Not with the rows of the parent: deleting a branch takes its files at once, from whoever still holds a handle."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    branch = commit(branch, append(branch, "k"))
    table.branches.delete("x")
    with pytest.raises(pa.ArrowInvalid):
        branch.to_table()
    with pytest.raises(ValueError):
        lance.dataset(branch.uri)


def test_deleting_an_unknown_branch_is_a_value_error(tmp_path: Path) -> None:
    """Deleting twice is told apart from failing."""
    with pytest.raises(ValueError):
        born(tmp_path / "t", "a").branches.delete("nobody")


# What is staged where, and committed where


def test_a_transaction_staged_on_a_branch_and_committed_on_main_makes_main_unreadable(tmp_path: Path) -> None:
    """Pylance accepts it. A transaction is committed on the handle it was staged on, always."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    assert commit(table, append(branch, "k")).version == 2
    with pytest.raises(pa.ArrowInvalid):
        lance.dataset(table.uri).to_table()


def test_a_transaction_staged_on_the_parent_and_committed_on_the_branch_makes_the_branch_unreadable(tmp_path: Path) -> None:
    """The same the other way round: a first touch never stages on the parent."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    assert commit(branch, append(table, "k")).version == 2
    with pytest.raises(pa.ArrowInvalid):
        lance.dataset(branch.uri).to_table()
    assert ids(lance.dataset(table.uri)) == ["a"]


@pytest.mark.parametrize("name", ["x", "team/x"])
def test_data_files_may_be_written_before_their_branch_exists(tmp_path: Path, name: str) -> None:
    """First touch: data is prepared without the lock, the ref comes later, and the folder is no obstacle."""
    table = born(tmp_path / "t", "a")
    early = part(f"{table.uri}/tree/{name}", "k")
    assert table.branches.list() == {}
    branch = table.create_branch(name)
    after = LanceDataset.commit(branch, LanceOperation.Append([early]), read_version=branch.version, max_retries=0)
    assert (after.version, ids(after), ids(lance.dataset(table.uri))) == (2, ["a", "k"], ["a"])


def one_row(**values: int) -> pa.Table:
    return pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()})


def changed_table(path: Path) -> LanceDataset:
    """`a` dropped and `c` added: the ids of the columns are 0, 2 and 3."""
    table = lance.write_dataset(one_row(id=1, a=10, b=20), str(path))
    table.drop_columns(["a"])
    table.add_columns(pa.field("c", pa.int64()))
    assert [(f.name(), f.id()) for f in table.lance_schema.fields()] == [("id", 0), ("b", 2), ("c", 3)]
    return table


def first_touch(table: LanceDataset, remap: Callable[[LanceDataset, DataFile], DataFile]) -> list[dict[str, Any]]:
    """One row written before the ref, committed after it."""
    early = LanceFragment.create(f"{table.uri}/tree/x", one_row(id=2, b=21, c=31))
    branch = table.create_branch("x")
    early = dataclasses.replace(early, files=[remap(branch, file) for file in early.files])
    after = LanceDataset.commit(branch, LanceOperation.Append([early]), read_version=branch.version, max_retries=0)
    found: list[dict[str, Any]] = after.to_table(filter="id = 2").to_pylist()
    return found


def test_early_data_files_count_field_ids_from_zero_and_land_in_the_wrong_column(tmp_path: Path) -> None:
    """The hazard: after a schema change the value of `c` is read as `b`, and nobody says a word."""
    assert first_touch(changed_table(tmp_path / "t"), lambda _, file: file) == [{"id": 2, "b": 31, "c": None}]


def by_hand(branch: LanceDataset, file: DataFile) -> DataFile:
    table_ids = [field.id() for field in branch.lance_schema.fields()]
    return DataFile(file.path, table_ids, file.column_indices, file.file_major_version, file.file_minor_version, file.file_size_bytes)


@pytest.mark.parametrize("remap", [by_hand, lambda branch, file: DataFile.create(branch, file.path)], ids=["by hand", "DataFile.create"])
def test_early_data_files_with_mapped_field_ids_land_in_their_columns(
    tmp_path: Path, remap: Callable[[LanceDataset, DataFile], DataFile]
) -> None:
    """The cure, in its two forms: rebuild the entry, or let pylance match the file's columns by name."""
    assert first_touch(changed_table(tmp_path / "t"), remap) == [{"id": 2, "b": 21, "c": 31}]


def test_files_staged_on_a_handle_carry_the_tables_field_ids(tmp_path: Path) -> None:
    """Only files written to a bare path need mapping."""
    table = changed_table(tmp_path / "t")
    tx = lance.fragment.write_fragments(one_row(id=2, b=21, c=31), table, return_transaction=True)
    assert isinstance(tx.operation, LanceOperation.Append)
    assert next(iter(tx.operation.fragments)).files[0].fields == [0, 2, 3]


def test_removing_a_tree_under_a_prepared_writer_lets_its_commit_succeed_unreadable(tmp_path: Path) -> None:
    """Why no writer ever reclaims a folder: Lance does not look whether the files are still there."""
    table = born(tmp_path / "t", "a")
    early = part(f"{table.uri}/tree/x", "k")
    shutil.rmtree(tmp_path / "t/tree/x")
    branch = table.create_branch("x")
    LanceDataset.commit(branch, LanceOperation.Append([early]), read_version=branch.version, max_retries=0)
    with pytest.raises(pa.ArrowInvalid):
        lance.dataset(branch.uri).to_table()


def test_upserts_deletes_and_restores_work_on_a_branch(tmp_path: Path) -> None:
    """Everything the write path and recovery do on main, they do on a fork of it."""
    branch = born(tmp_path / "t", "a", "b").create_branch("x")
    branch = commit(branch, upsert(branch, "a", "c", n=5))
    branch = commit(branch, delete(branch, "id = 'b'"))
    assert ids(branch) == ["a", "c"]
    branch.checkout_version(("x", 1)).restore()
    restored = lance.dataset(branch.uri)
    assert (restored.version, ids(restored)) == (4, ["a", "b"])


# Where a branch's files are


def test_a_moved_tables_branch_breaks_and_its_main_does_not(tmp_path: Path) -> None:
    """Native forks hold the absolute path of their parent. So every handle is opened with the paths of the present place."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    shutil.move(tmp_path / "t", tmp_path / "moved")
    moved = lance.dataset(str(tmp_path / "moved"))
    assert ids(moved) == ["a"]
    with pytest.raises(pa.ArrowInvalid):
        moved.checkout_version(("x", None)).to_table()


def test_a_copied_tables_branch_reads_the_originals_files(tmp_path: Path) -> None:
    """A copied folder seems to work until the original is cleaned: this is why recorded paths are never used."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/data")
    assert ids(lance.dataset(str(tmp_path / "copy")).checkout_version(("x", None))) == ["a"]


def _moved(tmp_path: Path) -> Any:
    """A branch of a branch in a moved table, opened with the paths of the new place."""
    table = born(tmp_path / "t", "a", "b")
    table.create_scalar_index("id", "BTREE")
    child = lance.dataset(table.uri).create_branch("x", ("main", 2))
    commit(child, append(child, "c"))
    lance.dataset(f"{table.uri}/tree/x").create_branch("y", ("x", None))
    there = str(shutil.move(tmp_path / "t", tmp_path / "moved"))
    stale = lance.dataset(f"{there}/tree/y")
    message = rebased(stale._ds.serialized_manifest(), lambda name: there if name is None else f"{there}/tree/{name}")
    return lance.LanceDataset(stale.uri, serialized_manifest=message)


def _bases(dataset: Any) -> dict[str | None, str]:
    return {base.name: base.path for base in dataset.base_paths().values()}


def test_a_branch_names_each_line_it_inherits_from_and_its_absolute_path(tmp_path: Path) -> None:
    """The main line has no name, also if the branch was made from it by name."""
    table = born(tmp_path / "t", "a")
    child = table.create_branch("x", ("main", 1)).create_branch("y", ("x", None))
    assert _bases(lance.dataset(child.uri)) == {None: table.uri, "x": f"{table.uri}/tree/x"}
    assert _bases(table) == {}


def test_a_handle_with_other_paths_reads_and_searches_there(tmp_path: Path) -> None:
    moved = _moved(tmp_path)
    assert set(_bases(moved).values()) == {str(tmp_path / "moved"), str(tmp_path / "moved/tree/x")}
    assert ids(moved) == ["a", "b", "c"]
    assert "ScalarIndexQuery" in moved.scanner(filter="id = 'a'").explain_plan()
    assert moved.to_table(filter="id = 'a'").num_rows == 1


def test_a_commit_on_a_handle_with_other_paths_records_them(tmp_path: Path) -> None:
    moved = _moved(tmp_path)
    after = commit(moved, append(moved, "d"))
    assert ids(lance.dataset(after.uri)) == ["a", "b", "c", "d"]
    assert _bases(lance.dataset(after.uri)) == _bases(moved)
    assert set(_bases(lance.dataset(after.uri, version=moved.version)).values()).isdisjoint(_bases(moved).values())


def test_a_restored_version_brings_its_paths_back(tmp_path: Path) -> None:
    """So the handle that a commit returns is looked at as well."""
    moved = _moved(tmp_path)
    after = commit(moved, append(moved, "d"))
    restored = lance.LanceDataset.commit(after, lance.LanceOperation.Restore(moved.version))
    assert _bases(restored) != _bases(moved)


def test_a_cleanup_of_a_moved_table_removes_what_its_branches_need(tmp_path: Path) -> None:
    """Lance recognizes what a branch inherits by the recorded path. So versions that branches were made from are never passed to it."""
    table = born(tmp_path / "t", "a")
    table.create_branch("x")
    lance.write_dataset(table.to_table(), table.uri, mode="overwrite")
    there = shutil.move(tmp_path / "t", tmp_path / "moved")
    lance.dataset(str(there)).cleanup_old_versions(versions=[1])
    assert not [name for name in os.listdir(tmp_path / "moved/_versions") if name.endswith(f"{2**64 - 2}.manifest")]


def test_indexes_of_the_parent_serve_branches_of_branches(tmp_path: Path) -> None:
    """A fork needs no index of its own until it has grown."""
    table = born(tmp_path / "t", "a", "b")
    table.create_scalar_index("id", "BTREE")
    grandchild = table.create_branch("p").create_branch("q")
    grandchild = commit(grandchild, append(grandchild, "k"))
    assert "ScalarIndexQuery" in grandchild.scanner(filter="id = 'a'").explain_plan()
    assert [grandchild.to_table(filter=f"id = '{key}'").num_rows for key in "abk"] == [1, 1, 1]


def test_rows_written_by_a_branch_are_invisible_to_the_parent_at_every_version(tmp_path: Path) -> None:
    """Isolation by construction: the parent's version list does not grow."""
    table = born(tmp_path / "t", "a")
    branch = table.create_branch("x")
    for name in "bcd":
        branch = commit(branch, append(branch, name))
    assert [v["version"] for v in lance.dataset(table.uri).versions()] == [1]
    assert lance.dataset(table.uri).count_rows() == 1
