"""Rows that were rewritten are known to be the same rows, through any number of rewrites and deletions, on any native branch."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store import stage
from omnigraph.store.compact import first_free_id, rewrite, stage_rewrites
from omnigraph.store.difference import Addresses, RowsApart, moved_to, rows_apart
from omnigraph.store.fragments import Fragment, fragments
from omnigraph.store.origins import MOST_BYTES, RowOrigin, Runs, old_fragment, origins_of
from omnigraph.store.refs import create_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import ADDRESS, Table, create_table

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])


def rows(values: dict[str, int]) -> pa.Table:
    return pa.table({"id": list(values), "n": list(values.values())}, schema=SCHEMA)


class Line:
    """A native branch of a table that is written to and rewritten. `origins` are shared by all branches."""

    def __init__(self, table: Table, origins: dict[str, RowOrigin], rng: random.Random) -> None:
        self.table, self.origins, self.rng = table, origins, rng

    def put(self, values: dict[str, int]) -> None:
        staged = stage.upsert(self.table, rows(values))
        assert staged is not None
        self.table = stage.commit(staged)

    def drop(self, ids: list[str]) -> None:
        staged = stage.delete_keys(self.table, pa.array(ids, pa.string()))
        if staged is not None:
            self.table = stage.commit(staged)

    def rewrite(self) -> None:
        parts = fragments(self.table)
        chosen = tuple(part for part in parts if self.rng.random() < 0.7)
        if not chosen:
            return
        made = rewrite(self.table, chosen, first_id=first_free_id(self.table))
        self.origins.update({origin.file: origin for origin in made.origins})
        self.table = stage.commit(stage_rewrites(self.table, [made]))

    def content(self, addresses: Addresses) -> set[tuple[str, int]]:
        found = self.table.take(addresses, ["id", "n"])
        return set(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))

    def every(self) -> dict[str, tuple[int, int]]:
        found = self.table.scan(["id", "n"], addresses=True).read_all()
        return dict(zip(found["id"].to_pylist(), zip(found["n"].to_pylist(), found[ADDRESS].to_pylist(), strict=True), strict=True))


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(create_table(open_root(tmp_path / "g"), "nodes/t", SCHEMA), {}, random.Random(0))


def whole(table: Table, side: RowsApart) -> Addresses:
    every: Addresses = table.addresses("true")
    return every[side.has(every)]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_not_apart_is_the_same_row(tmp_path: Path, seed: int) -> None:
    """Every entity whose values differ is apart on both sides; one that is apart on neither has its row where `moved_to` says (D-11)."""
    rng = random.Random(seed)
    first = Line(create_table(open_root(tmp_path / "g"), "nodes/t", SCHEMA), {}, rng)
    for part in range(5):
        first.put({f"{part}-{at}": at for at in range(40)})
    second = Line(create_ref(first.table, "fork"), first.origins, rng)
    shown = [first.table]
    for step in range(10):
        line = rng.choice((first, second))
        names = rng.sample(sorted(line.every()), 3)
        match rng.randrange(3):
            case 0:
                line.put(dict.fromkeys(names, 1000 + step))
            case 1:
                line.drop(names)
            case _:
                line.rewrite()
        shown.append(line.table)
    for before, after in [(rng.choice(shown), rng.choice(shown)) for _ in range(8)]:
        old, new = Line(before, first.origins, rng), Line(after, first.origins, rng)
        gone, come = rows_apart(before, after, origins=lambda: first.origins, traced_rows=0)
        was, is_ = old.every(), new.every()
        apart_before, apart_after = set(whole(before, gone).tolist()), set(whole(after, come).tolist())
        for name in was.keys() | is_.keys():
            here, there = was.get(name), is_.get(name)
            same = here is not None and there is not None and here[1] not in apart_before and there[1] not in apart_after
            if same:
                assert here is not None
                assert there is not None
                assert here[0] == there[0], name
                moved = moved_to(before, after, np.array([here[1]], np.uint64), origins=lambda: first.origins)
                assert moved.tolist() == [there[1]], name
            else:
                assert here is None or here[1] in apart_before, name
                assert there is None or there[1] in apart_after, name


def test_a_rewrite_leaves_only_changed_rows_apart(line: Line) -> None:
    for part in range(4):
        line.put({f"{part}-{at}": at for at in range(50)})
    line.drop(["0-7", "2-3"])
    before = line.table
    made = rewrite(line.table, fragments(line.table), first_id=first_free_id(line.table))
    line.origins.update({origin.file: origin for origin in made.origins})
    line.table = stage.commit(stage_rewrites(line.table, [made]))
    line.put({"1-1": 99, "new": 1})
    line.drop(["3-3"])
    gone, come = rows_apart(before, line.table, origins=lambda: line.origins, traced_rows=0)
    assert (gone.fragments, come.fragments) == ((), ())
    assert Line(before, {}, line.rng).content(gone.single) == {("1-1", 1), ("3-3", 3)}
    assert line.content(come.single) == {("1-1", 99), ("new", 1)}
    assert rows_apart(before, line.table, origins=lambda: line.origins)[0].fragments  # few rows are read as they are


def test_without_a_record_whole_fragments_are_apart(line: Line) -> None:
    """An interrupted rewrite that another process finished has none. Records of other tables, or of other sizes, are not taken."""
    for part in range(3):
        line.put({f"{part}-{at}": at for at in range(50)})
    before = line.table
    made = rewrite(line.table, fragments(line.table), first_id=first_free_id(line.table))
    line.table = stage.commit(stage_rewrites(line.table, [made]))
    (true,) = made.origins
    for known in (
        {},
        {"other": true},
        {true.file: RowOrigin(true.file, 149, 0, true.old)},
        {true.file: RowOrigin(true.file, 150, 1, true.old)},
    ):
        gone, come = rows_apart(before, line.table, origins=lambda known=known: known, traced_rows=0)  # type: ignore[misc]
        assert (len(gone.fragments), len(come.fragments)) == (3, 1)


def test_rows_in_several_new_fragments_know_where_they_were() -> None:
    class Piece:
        def __init__(self, name: str, rows: int) -> None:
            self.physical_rows = rows
            self.files = [type("File", (), {"path": name})()]

    old = [old_fragment(Fragment(at, 10, (f"old{at}",), None), np.array(gone, np.uint32)) for at, gone in enumerate(([1, 2], [], [9]))]
    found = origins_of(old, [Piece("a", 5), Piece("b", 14), Piece("c", 8)])
    assert [(origin.file, origin.rows, origin.start, [part.files[0] for part in origin.old]) for origin in found] == [
        ("a", 5, 0, ["old0"]),
        ("b", 14, 5, ["old0", "old1", "old2"]),
        ("c", 8, 1, ["old2"]),
    ]
    third = np.flatnonzero(np.random.default_rng(0).random(4_000_000) < 0.3).astype(np.uint32)
    many = old_fragment(Fragment(0, 4_000_000, ("old",), None), third)
    assert len(many.deleted) > MOST_BYTES
    assert origins_of([many], [Piece("d", 5)]) == ()


def test_runs_are_cut_and_turned() -> None:
    runs = Runs.of((0, 10, 100), (20, 5, 50))
    cut = runs.cut(np.array([3, 22], np.uint64), np.array([6, 40], np.uint64))
    assert [column.tolist() for column in cut] == [[3, 22], [3, 3], [103, 52]]
    rest = runs.cut(np.array([3, 22], np.uint64), np.array([6, 40], np.uint64), inside=False)
    assert rest.numbers().tolist() == [0, 1, 2, 6, 7, 8, 9, 20, 21]
    assert runs.turned().moved(np.array([50, 54, 55, 100], np.uint64))[0].tolist() == [20, 24, 0, 0]
    assert runs.turned().moved(np.array([50, 54, 55, 100], np.uint64))[1].tolist() == [True, True, False, True]
    assert Runs.of().cut(np.empty(0, np.uint64), np.empty(0, np.uint64)).numbers().tolist() == []
