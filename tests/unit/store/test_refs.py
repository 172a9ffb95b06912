"""Native branches: made from an exact version, removed from any half state, and written to before they exist."""

from __future__ import annotations

import re
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, StorageError
from omnigraph.store import stage
from omnigraph.store.refs import create_ref, delete_ref, fresh_ref, has_ref, write_before_ref
from omnigraph.store.root import Root
from omnigraph.store.stage import Counts
from omnigraph.store.tables import Table, TableRef, Tables, create_table
from tests.unit.store.tables import (
    ALTERED,
    CHANGES,
    FOUR,
    PATH,
    SHAPES,
    added,
    altered,
    branched_twice,
    content,
    place,
    reopened,
    rows,
    some,
    two_fragments,
)


def folder(root: Root) -> Path:
    return Path(root.uri, PATH)


# -- names


@pytest.mark.parametrize(
    ("branch", "label"),
    [
        ("feature", "feature"),
        ("team/x", "team_x"),
        ("ümlaut ~", "mlaut"),
        ("..", "branch"),
        ("", "branch"),
        ("/", "branch"),
        ("x" * 99, "x" * 40),
        ("a..b", "a.b"),
        ("....a...b/..c", "a.b_.c"),
        (f"{'x' * 39}..y", f"{'x' * 39}."),
        ("x.lock", "x.lock"),
        ("main", "main"),
    ],
)
def test_a_fresh_name_shows_its_branch_and_can_be_used(tmp_path: Path, branch: str, label: str) -> None:
    name = fresh_ref(branch)
    assert re.fullmatch(re.escape(label) + "-[0-9a-f]{16}", name)
    assert fresh_ref(branch) != name
    assert content(create_ref(two_fragments(place(tmp_path)), name)) == FOUR


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a~b", "../x", "ü", "a\nb"])
def test_a_name_that_could_leave_its_folder_is_refused_everywhere(tmp_path: Path, name: str) -> None:
    """Deleting the branch "" would otherwise delete the files of every branch."""
    table = two_fragments(place(tmp_path))
    side = added(create_ref(table, "side"), {"s": 1})
    removed = lambda table, name: delete_ref(table.root, table.ref.path, name)  # noqa: E731
    for attempt in (create_ref, removed, lambda table, name: write_before_ref(table, name, rows({"x": 1}))):
        with pytest.raises(InvalidInput) as refused:
            attempt(table, name)
        assert refused.value.kind is Kind.INVALID_ARGUMENT
    assert content(reopened(side, side.ref.version)) == {**FOUR, "s": 1}


# -- being made


@pytest.mark.parametrize("shape", SHAPES)
def test_a_branch_starts_as_its_parent_was_and_goes_its_own_way(tmp_path: Path, shape: str) -> None:
    """B-13: from main, from a branch, from a branch of a branch; neither sees the other's writes afterwards."""
    parent = SHAPES[shape](place(tmp_path))
    before = content(parent)
    child = create_ref(parent, "child")
    assert child.ref == TableRef(PATH, "child", parent.ref.version)
    assert (content(child), child.head()) == (before, parent.ref.version)
    assert has_ref(child.root, PATH, "child")
    grown, other = added(child, {"k": 1}), added(parent, {"p": 2})
    assert (grown.ref.version, other.ref.version) == (parent.ref.version + 1,) * 2
    assert content(reopened(child, grown.ref.version)) == {**before, "k": 1}
    assert content(reopened(parent, other.ref.version)) == {**before, "p": 2}
    assert content(reopened(parent, parent.ref.version)) == before


@pytest.mark.parametrize("on_branch", [False, True])
def test_a_branch_may_start_at_an_older_version(tmp_path: Path, on_branch: bool) -> None:
    old = two_fragments(place(tmp_path))
    if on_branch:
        old = create_ref(old, "parent")
    newest = added(added(old, {"x": 1}), {"y": 2})
    child = create_ref(reopened(old, old.ref.version), "child")
    assert (child.ref.version, content(child)) == (old.ref.version, FOUR)
    between = create_ref(reopened(old, old.ref.version + 1), "between")
    assert content(between) == {**FOUR, "x": 1}
    assert content(reopened(old, newest.ref.version)) == {**FOUR, "x": 1, "y": 2}


def test_other_threads_read_with_the_handle_while_a_branch_is_created_from_it(tmp_path: Path) -> None:
    """Lance refuses each other use of a handle while it creates a branch from it, and to create one while the handle is used."""
    table = two_fragments(place(tmp_path))
    reading, created, failed = threading.Event(), threading.Event(), []

    def read() -> None:
        while not created.is_set():
            try:
                assert content(table) == FOUR
            except Exception as error:  # noqa: BLE001  # it fails the test
                failed.append(error)
            reading.set()

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait()
    try:
        for at in range(40):
            create_ref(table, f"side-{at}")
    finally:
        created.set()
        reader.join()
    assert not failed


def test_every_kind_of_change_works_on_the_first_version_of_a_branch(tmp_path: Path) -> None:
    """B-13: a parent's deletion files and fragments serve the branch until it has its own."""
    parent = branched_twice(place(tmp_path))
    for kind, change in CHANGES.items():
        child = create_ref(parent, fresh_ref(kind))
        after = stage.commit(some(change.stage(child)))
        assert content(reopened(after, after.ref.version)) == change.after(FOUR), kind
    assert content(reopened(parent, parent.ref.version)) == FOUR


def test_a_name_in_use_is_refused_and_the_branch_unharmed(tmp_path: Path) -> None:
    """P-16."""
    table = two_fragments(place(tmp_path))
    side = added(create_ref(table, "side"), {"s": 1})
    with pytest.raises(StorageError):
        create_ref(table, "side")
    assert content(reopened(side, side.ref.version)) == {**FOUR, "s": 1}


# -- being removed


def test_a_removed_branch_leaves_nothing_and_its_siblings_alone(tmp_path: Path) -> None:
    root = place(tmp_path)
    table = two_fragments(root)
    doomed = added(create_ref(table, "side"), {"x": 1})
    sibling = added(create_ref(table, "side-2"), {"y": 2})
    delete_ref(table.root, table.ref.path, "side")
    assert not has_ref(root, PATH, "side")
    assert not (folder(root) / "tree/side").exists()
    with pytest.raises(NotFound):
        Tables(place(tmp_path)).open(doomed.ref)
    assert content(reopened(sibling, sibling.ref.version)) == {**FOUR, "y": 2}
    assert content(reopened(table, table.ref.version)) == FOUR
    again = create_ref(table, "side")
    assert content(again) == FOUR


@pytest.mark.parametrize("half", ["both", "ref only", "tree only", "data files only", "neither"])
def test_removing_a_branch_works_from_every_half_state(tmp_path: Path, half: str) -> None:
    """P-14: what an interrupted create, delete or first touch may leave. Nothing there is success, and twice is, too."""
    root = place(tmp_path)
    table = two_fragments(root)
    if half == "data files only":
        write_before_ref(table, "side", rows({"x": 1}))
    elif half != "neither":
        added(create_ref(table, "side"), {"x": 1})
    if half == "ref only":
        shutil.rmtree(folder(root) / "tree/side")
    if half == "tree only":
        (folder(root) / "_refs/branches/side.json").unlink()
    for _ in range(2):
        delete_ref(table.root, table.ref.path, "side")
        assert not has_ref(root, PATH, "side")
        assert not (folder(root) / "tree/side").exists()
    assert content(added(create_ref(table, "side"), {"y": 1})) == {**FOUR, "y": 1}


def test_a_branch_with_children_is_not_removed(tmp_path: Path) -> None:
    """B-27: A native branch that another one was made from is not removed: its child reads its files."""
    root = place(tmp_path)
    table = two_fragments(root)
    parent = added(create_ref(table, "parent"), {"p": 1})
    child = added(create_ref(parent, "child"), {"c2": 2})
    with pytest.raises(ConflictError) as refused:
        delete_ref(table.root, table.ref.path, "parent")
    assert refused.value.kind is Kind.BRANCH_HAS_CHILDREN
    assert refused.value.facts["children"] == ["child"]
    assert content(reopened(child, child.ref.version)) == {**FOUR, "p": 1, "c2": 2}
    delete_ref(child.root, child.ref.path, "child")
    delete_ref(parent.root, parent.ref.path, "parent")  # a handle of a branch serves as well as main's
    assert not (folder(root) / "tree").exists() or not any((folder(root) / "tree").iterdir())


def test_a_paused_writers_commit_lands_in_a_dead_folder_and_hurts_nobody(tmp_path: Path) -> None:
    """B-28: A commit to a fork whose branch was deleted and created again changes neither the new branch nor main.

    Also B-21.
    """
    root = place(tmp_path)
    table = two_fragments(root)
    paused_on = create_ref(table, fresh_ref("feature"))
    paused = some(stage.upsert(paused_on, rows({"a": 99, "x": 1})))
    delete_ref(table.root, table.ref.path, str(paused_on.ref.branch))
    anew = create_ref(table, fresh_ref("feature"))
    with suppress(StorageError, ConflictError):  # whether it is refused is Lance's affair; that it hurts nobody is ours
        stage.commit(paused)
    anew = added(anew, {"y": 2})
    assert content(reopened(anew, anew.ref.version)) == {**FOUR, "y": 2}
    assert content(reopened(table, table.head())) == FOUR
    delete_ref(table.root, table.ref.path, str(paused_on.ref.branch))
    assert sorted(path.name for path in (folder(root) / "tree").iterdir()) == [anew.ref.branch]


# -- being written to before they exist


def first_touch(parent: Table, values: dict[str, int], name: str = "side") -> Table:
    """Files first, then the ref, then the change: the order of a first touch."""
    written = write_before_ref(parent, name, rows(values, parent.schema))
    assert not has_ref(parent.root, PATH, name)
    staged = some(stage.put_files(create_ref(parent, name), written))
    assert staged.counts == Counts(inserted=len(values))
    return stage.commit(staged)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_written_before_the_branch_exists_are_in_it_afterwards(tmp_path: Path, shape: str) -> None:
    """Every column holds its own values, on every table: `content` checks each against the others."""
    parent = SHAPES[shape](place(tmp_path))
    before = content(parent)
    child = first_touch(parent, {"x": 1, "y": 2})
    assert content(reopened(child, child.ref.version)) == {**before, "x": 1, "y": 2}
    assert content(reopened(parent, parent.head())) == before
    child = stage.commit(some(stage.upsert(child, rows({"x": 5, "z": 6}, child.schema))))
    assert content(child) == {**before, "x": 5, "y": 2, "z": 6}


NESTED = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("gone", pa.struct([pa.field("deep", pa.list_(pa.int32()))])),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("point", pa.struct([pa.field("x", pa.int32()), pa.field("ys", pa.list_(pa.int64())), pa.field("name", pa.string())])),
        pa.field("structs", pa.list_(pa.struct([pa.field("k", pa.string()), pa.field("w", pa.float64())]))),
        pa.field("data", pa.large_binary()),
        pa.field("n", pa.int64()),
        pa.field("m", pa.int64()),
    ]
)


@pytest.mark.parametrize("change_schema", [False, True], ids=["as made", "dropped and added"])
def test_nested_lists_vectors_and_blobs_written_early_land_in_their_columns(tmp_path: Path, change_schema: bool) -> None:
    """Early files count field ids from zero, the table's have holes and children: without a mapping n and m would change places."""
    row = {
        "id": "a",
        "gone": {"deep": [1]},
        "v": [1.0, 2.0, 3.0, 4.0],
        "point": {"x": 7, "ys": [8, 9], "name": "p"},
        "structs": [{"k": "q", "w": 0.5}, {"k": "r", "w": 1.5}],
        "n": 10,
        "m": 20,
        "late": {"u": 1, "s": "t"},
    }

    def table_of(schema: pa.Schema, key: str, blob: bytes) -> pa.Table:
        return pa.table({name: [{**row, "id": key, "data": blob}[name]] for name in schema.names}, schema=schema)

    parent = create_table(place(tmp_path), PATH, NESTED)
    parent = stage.commit(some(stage.append(parent, table_of(NESTED, "old", b"old"))))
    if change_schema:
        by_hand = lance.dataset(parent.root.of(PATH))
        by_hand.drop_columns(["gone"])
        by_hand.add_columns(pa.schema([pa.field("late", pa.struct([pa.field("u", pa.int32()), pa.field("s", pa.string())]))]))
        parent = reopened(parent, by_hand.version)
        assert "gone" not in parent.schema.names
    large = bytes(range(256)) * 400
    written = write_before_ref(parent, "side", table_of(parent.schema, "a", large))
    child = stage.commit(some(stage.put_files(create_ref(parent, "side"), written)))
    read = reopened(child, child.ref.version).scan(where="id = 'a'").read_all()
    assert read.to_pylist() == [{name: large if name == "data" else row[name] for name in parent.schema.names}]
    assert child.count("point.x = 7 AND n = 10") == (2)
    assert child.count() == 2


def test_several_attempts_under_fresh_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    """B-07: A fork left by an interrupted write does not block the next fork, which has a name of its own.
    B-08: Removing abandoned forks leaves the fork that is in use whole.
    B-09: Several forks of one table for one branch can exist, and a commit on one does not change another.

    Also B-10.
    """
    root = place(tmp_path)
    parent = altered(root)
    assert ALTERED.names != parent.schema.names
    first, second, third, fourth = (fresh_ref("feature") for _ in range(4))
    write_before_ref(parent, first, rows({"x": 1}, parent.schema))
    of_second = write_before_ref(parent, second, rows({"x": 2}, parent.schema))
    create_ref(parent, third)
    paused = some(stage.put_files(create_ref(parent, second), of_second))
    landed = first_touch(parent, {"x": 4}, fourth)
    assert content(landed) == {**FOUR, "x": 4}
    assert content(stage.commit(paused)) == {**FOUR, "x": 2}
    assert content(reopened(landed, landed.ref.version)) == {**FOUR, "x": 4}
    for name in (first, second, third):
        delete_ref(parent.root, parent.ref.path, name)
    assert content(reopened(landed, landed.ref.version)) == {**FOUR, "x": 4}
    assert sorted(path.name for path in (folder(root) / "tree").iterdir()) == [fourth]


def test_no_rows_before_a_branch_are_no_files(tmp_path: Path) -> None:
    """W-17."""
    parent = two_fragments(place(tmp_path))
    written = write_before_ref(parent, "side", rows({}))
    assert written == []
    assert not (folder(parent.root) / "tree").exists()
    assert stage.put_files(create_ref(parent, "side"), written) is None


def test_rows_that_do_not_fit_are_refused_before_a_branch_has_files(tmp_path: Path) -> None:
    parent = two_fragments(place(tmp_path))
    good = rows({"x": 1, "y": 2})
    for bad in (good.drop_columns(["n"]), good.set_column(1, "n", pa.array(["one", "two"]))):
        with pytest.raises(InvalidInput):
            write_before_ref(parent, "side", bad)
    assert not (folder(parent.root) / "tree").exists()
