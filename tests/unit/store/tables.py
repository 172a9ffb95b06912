"""Tables in every shape that a staged change may meet, and rows whose columns vouch for each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import lance
import pyarrow as pa
from lance.optimize import Compaction

from omnigraph.store import stage
from omnigraph.store.alter import COLUMN_MARK, alter
from omnigraph.store.refs import create_ref
from omnigraph.store.root import FSYNC_ENVIRONMENT, Root, open_root
from omnigraph.store.stage import Counts, Staged
from omnigraph.store.tables import Table, TableRef, create_table, open_dataset

PATH = "nodes/0123456789abcdef-0000000000000001"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int32()),
        pa.field("nickName", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
ALTERED = pa.schema([SCHEMA.field("id"), pa.field("gone", pa.int64()), *(SCHEMA.field(i) for i in (1, 2, 3))])
"""A schema that loses `gone` and gains `added`, so that its field ids have a hole."""

FOUR: Mapping[str, int] = {"a": 1, "b": 2, "c": 3, "d": 4}


def rows(values: Mapping[str, int], schema: pa.Schema = SCHEMA) -> pa.Table:
    """One row per id; all other columns follow from the id and its number, so that a value in the wrong column shows."""
    columns = {
        "id": list(values),
        "gone": [-n for n in values.values()],
        "n": list(values.values()),
        "nickName": [f"{key}-{n}" for key, n in values.items()],
        "tags": [[key, str(n)] for key, n in values.items()],
        "body": [body(key, n) for key, n in values.items()],
        "added": [f"{key}+{n}" for key, n in values.items()],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def body(key: str, n: int) -> bytes | None:
    """A blob that follows from its row: none, an empty one, one that lies in the data file, or one that has its own."""
    return (None, b"", f"{key}={n}".encode(), f"{key}={n}".encode() * 30_000)[n % 4]


def content(table: Table) -> dict[str, int]:
    """Id -> number of every row of a table, once its other columns have vouched for them."""
    return numbers(table.scan().read_all())


def numbers(read: pa.Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in read.to_pylist():
        key, n = row["id"], row["n"]
        assert key not in found, f"{key} is there twice"
        assert (row["nickName"], row["tags"]) == (f"{key}-{n}", [key, str(n)])
        assert "body" not in row or row["body"] == body(key, n)
        assert row.get("added") in (None, "old", f"{key}+{n}")
        found[key] = n
    return found


def place(path: Path) -> Root:
    """A root that does not flush: durability has tests of its own."""
    with mock.patch.dict(os.environ, {FSYNC_ENVIRONMENT: "off"}):
        return open_root(path / "graph")


def empty(root: Root, path: str = PATH) -> Table:
    """A table just made."""
    return create_table(root, path, SCHEMA)


def added(table: Table, values: Mapping[str, int]) -> Table:
    return stage.commit(some(stage.append(table, rows(values, table.schema))))


def two_fragments(root: Root, path: str = PATH) -> Table:
    """a, b and c, d: a fragment each."""
    return added(added(empty(root, path), {"a": 1, "b": 2}), {"c": 3, "d": 4})


def with_deletions(root: Root) -> Table:
    """Both fragments have lost a row, one of them two, at different times."""
    table = added(added(empty(root), {"w": 7, "a": 1, "x": 8, "b": 2}), {"c": 3, "y": 9, "d": 4})
    for gone in (["x"], ["w", "y"]):
        table = stage.commit(some(stage.delete_keys(table, pa.array(gone))))
    assert all(fragment.num_deletions for fragment in table.dataset.get_fragments())
    return table


def first_gone(root: Root) -> Table:
    """The fragment that was number 0 is not there any more."""
    table = added(added(added(empty(root), {"x": 8}), {"a": 1, "b": 2}), {"c": 3, "d": 4})
    table = stage.commit(some(stage.delete_keys(table, pa.array(["x"]))))
    assert [fragment.fragment_id for fragment in table.dataset.get_fragments()] == [1, 2]
    return table


def emptied(root: Root) -> Table:
    """Had rows once."""
    table = two_fragments(root)
    table = stage.commit(some(delete_where(table, "true")))
    assert table.dataset.get_fragments() == []
    return table


def branched(root: Root) -> Table:
    """A native branch of a table that had deletions when it was made."""
    return create_ref(with_deletions(root), "side-0000000000000001")


def branched_twice(root: Root) -> Table:
    """A branch of a branch, with a row deleted on each of the three."""
    first = create_ref(added(with_deletions(root), {"p": 5, "q": 6}), "first")
    first = stage.commit(some(stage.delete_keys(first, pa.array(["p"]))))
    second = create_ref(first, "second")
    return stage.commit(some(stage.delete_keys(second, pa.array(["q"]))))


def marked(name: str, type_: pa.DataType, property_: str) -> pa.Field:
    """A column that is told by its identity."""
    return pa.field(name, type_, metadata={COLUMN_MARK: property_.encode()})


BEFORE = pa.schema(
    [
        SCHEMA.field("id"),
        marked("gone", pa.int64(), "p-gone"),
        marked("label", pa.string(), "p-nick"),
        marked("marks", pa.list_(pa.string()), "p-tags"),
        marked("n", pa.int32(), "p-n"),
    ]
)
AFTER = pa.schema(
    [
        SCHEMA.field("id"),
        marked("added", pa.string(), "p-added"),
        marked("n", pa.int32(), "p-n"),
        marked("nickName", pa.string(), "p-nick"),
        marked("tags", pa.list_(pa.string()), "p-tags"),
    ]
)
"""One column dropped, one added, two renamed, and all in another order."""


def before_change(root: Root) -> Table:
    """Two fragments with a deletion, in the columns of old."""
    table = create_table(root, PATH, BEFORE)
    for values in ({"w": 7, "a": 1, "b": 2}, {"c": 3, "d": 4}):
        named = rows(values, pa.schema([*SCHEMA, ALTERED.field("gone")])).rename_columns({"nickName": "label", "tags": "marks"})
        table = stage.commit(some(stage.append(table, named)))
    return stage.commit(some(stage.delete_keys(table, pa.array(["w"]))))


def changed(root: Root) -> Table:
    """All its rows were written before its columns were changed."""
    return stage.commit(some(alter(before_change(root), AFTER)))


def changed_on_branch(root: Root) -> Table:
    """The same, on a native branch, whose parent goes on as it was."""
    return stage.commit(some(alter(create_ref(before_change(root), "changed-0000000000000001"), AFTER)))


def altered(root: Root) -> Table:
    """One column dropped, another added with a value, by Lance itself."""
    table = create_table(root, PATH, ALTERED)
    table = added(table, FOUR)
    by_hand = lance.dataset(root.of(PATH))
    by_hand.drop_columns(["gone"])
    by_hand.add_columns({"added": "'old'"})
    table = reopened(table, by_hand.version)
    assert [field.id() for field in table.dataset.lance_schema.fields()] == [0, 2, 3, 4, 6]
    return table


def reopened(table: Table, version: int) -> Table:
    ref = TableRef(table.ref.path, table.ref.branch, version)
    return Table(table.root, ref, open_dataset(table.root, ref))


SHAPES: Mapping[str, Callable[[Root], Table]] = {
    shape.__name__: shape
    for shape in (empty, emptied, two_fragments, with_deletions, first_gone, branched, branched_twice, altered, changed, changed_on_branch)
}


class Change(NamedTuple):
    """A kind of staged change: what it puts and drops, and how it is staged. `whole` replaces everything."""

    put: Mapping[str, int]
    drop: frozenset[str]
    whole: bool
    stage: Callable[[Table], Staged | None]

    def after(self, before: Mapping[str, int]) -> dict[str, int]:
        kept = {} if self.whole else {key: n for key, n in before.items() if key not in self.drop}
        return {**kept, **self.put}

    def counts(self, before: Mapping[str, int]) -> Counts:
        if self.whole:
            return Counts(inserted=len(self.put), deleted=len(before))
        updated = len(self.put.keys() & before.keys())
        return Counts(inserted=len(self.put) - updated, updated=updated, deleted=len(self.drop & before.keys()))


def _change(
    work: Callable[[Table, pa.Table, pa.Array], Staged | None], put: Mapping[str, int] | None = None, drop: str = "", *, whole: bool = False
) -> Change:
    values = put or {}
    return Change(values, frozenset(drop), whole, lambda table: work(table, rows(values, table.schema), pa.array(list(drop), pa.string())))


CHANGES: Mapping[str, Change] = {
    "append": _change(lambda table, new, _: stage.append(table, new), {"x": 10, "y": 11}),
    "insert": _change(lambda table, new, _: stage.upsert(table, new), {"x": 20}),
    "update": _change(lambda table, new, _: stage.upsert(table, new), {"a": 30}),
    "upsert": _change(lambda table, new, _: stage.upsert(table, new), {"d": 40, "x": 41}),
    "delete_keys": _change(lambda table, _, keys: stage.delete_keys(table, keys), drop="bd"),
    "delete_all": _change(lambda table, _, keys: stage.delete_keys(table, keys), drop="abcd"),
    "overwrite": _change(lambda table, new, _: stage.overwrite(table, new), {"z": 60, "a": 61}, whole=True),
    "overwrite_empty": _change(lambda table, new, _: stage.overwrite(table, new), whole=True),
}


def compacted(table: Table, *, target_rows: int = 1_048_576) -> Table:
    """Small fragments rewritten into large ones, as another program may do it: the rows get new addresses.

    Fragments that an index of a parent branch covers stay. Lance would write the updated index into the branch and look for it in
    the parent ever after.
    """
    handle = open_dataset(table.root, table.ref)
    segments = [segment for index in handle.describe_indices() for segment in index.segments]
    inherited = {int(fragment) for segment in segments if segment.base_id is not None for fragment in segment.fragment_ids}
    plan = Compaction.plan(handle, options={"target_rows_per_fragment": target_rows})
    tasks = [task for task in plan.tasks if inherited.isdisjoint(fragment.id for fragment in task.fragments)]
    if tasks:
        Compaction.commit(handle, [task.execute(table.dataset) for task in tasks])
    return reopened(table, handle.version)


def delete_where(table: Table, where: str) -> Staged | None:
    return stage.delete_keys(table, table.scan(["id"], where=where).read_all()["id"])


def some(staged: Staged | None) -> Staged:
    """A change that must not be empty."""
    assert staged is not None
    return staged
