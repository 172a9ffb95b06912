"""A compaction moves HEAD by a chain of two versions that is proven, or says what it met; rows and indexes come along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import msgspec
import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError, Kind, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.store import stage
from omnigraph.store.index import IndexKind, IndexSpec, build, existing
from omnigraph.store.maintain import StagedCompaction, commit_compaction, stage_compaction
from omnigraph.store.tables import Table
from tests.unit.store.tables import FOUR, SHAPES, added, content, place, reopened, rows, some, two_fragments


def planned(table: Table) -> StagedCompaction:
    staged = stage_compaction(table)
    assert staged is not None
    return staged


def crumbled(path: Path, *, indexed: bool = False) -> Table:
    """Five small fragments, some with deletions, indexed or not."""
    table = added(two_fragments(place(path)), {"e": 5, "f": 6})
    table = stage.commit(some(stage.upsert(table, rows({"a": 10, "g": 7}))))
    table = stage.commit(some(stage.delete_keys(table, pa.array(["c"]))))
    if indexed:
        table = stage.commit(some(build(table, [IndexSpec("id", IndexKind.BTREE, "id_idx"), IndexSpec("n", IndexKind.BTREE, "n_idx")])))
    return added(table, {"h": 8})


CRUMBLED = {"a": 10, "b": 2, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_a_compaction_adds_two_versions_and_keeps_every_row(tmp_path: Path, indexed: bool) -> None:
    """K-09's neighbour: staged it moves nothing, committed it is base + 2, and the handle it was given stays where it was."""
    table = crumbled(tmp_path, indexed=indexed)
    before = len(table.dataset.get_fragments())
    staged = planned(table)
    assert (table.head(), content(table)) == (table.ref.version, CRUMBLED)
    after = commit_compaction(staged)
    assert (after.ref.version, after.head()) == (table.ref.version + 2,) * 2
    assert len(after.dataset.get_fragments()) == before - staged.fragments_before + staged.fragments_after < before
    assert content(after) == content(reopened(after, after.ref.version)) == CRUMBLED
    assert (staged.table.dataset.version, content(staged.table)) == (table.ref.version, CRUMBLED)
    assert all(fragment.num_deletions == 0 for fragment in after.dataset.get_fragments())
    if indexed:
        assert [(index.name, index.uncovered_rows) for index in existing(after)] == [("id_idx", 1), ("n_idx", 1)]
        assert "ScalarIndexQuery" in after.dataset.scanner(filter="n = 10").explain_plan()
    for key, n in CRUMBLED.items():
        assert after.scan(["id"], where=f"n = {n}").read_all()["id"].to_pylist() == [key]
        assert after.count(f"id = '{key}'") == 1
    assert (after.count("n = 1"), after.count("id = 'c'")) == (0, 0)
    again = stage.commit(some(stage.upsert_and_delete(after, rows({"a": 11, "z": 1}), pa.array(["b"]))))
    assert content(again) == {**{key: n for key, n in CRUMBLED.items() if key != "b"}, "a": 11, "z": 1}


def test_nothing_to_gain_is_nothing_staged(tmp_path: Path) -> None:
    """No-op upkeep moves no HEAD."""
    table = commit_compaction(planned(crumbled(tmp_path)))
    assert stage_compaction(table) is None
    assert stage_compaction(SHAPES["empty"](place(tmp_path / "empty"))) is None
    assert table.head() == table.ref.version


@pytest.mark.parametrize("shape", ["branched", "branched_twice", "with_deletions", "first_gone", "altered"])
def test_tables_of_every_shape_are_compacted(tmp_path: Path, shape: str) -> None:
    table, more = SHAPES[shape](place(tmp_path)), {"x": 1, "y": 2, "z": 3}
    for key, n in more.items():
        table = added(table, {key: n})
    after = commit_compaction(planned(table))
    assert content(reopened(after, after.ref.version)) == {**FOUR, **more}
    assert after.ref.branch == table.ref.branch
    assert len(after.dataset.get_fragments()) == 1


def test_a_compaction_is_refused_when_head_has_moved(tmp_path: Path) -> None:
    """O-10: A compaction planned on another version is refused, and nothing is done.

    Also RT-47.
    """
    table = crumbled(tmp_path)
    staged = planned(table)
    newest = added(table, {"z": 9})
    with pytest.raises(ConflictError) as refused:
        commit_compaction(staged)
    assert refused.value.kind is Kind.READ_SET_CHANGED
    assert table.head() == newest.ref.version
    assert content(reopened(newest, newest.ref.version)) == {**CRUMBLED, "z": 9}


def test_two_compactions_of_one_base_are_one(tmp_path: Path) -> None:
    table = crumbled(tmp_path)
    first, second = planned(table), planned(table)
    after = commit_compaction(first)
    with pytest.raises(ConflictError):
        commit_compaction(second)
    assert table.head() == after.ref.version


def test_a_compaction_that_fails_half_way_does_not_say_that_nothing_happened(tmp_path: Path) -> None:
    """The first of its two versions has landed when the second meets a conflict: HEAD has moved, so the outcome is unknown."""
    table = crumbled(tmp_path)
    staged = planned(table)
    newer = stage.commit(some(stage.delete_keys(table, pa.array(["a"]))))
    with pytest.raises(StorageError) as failed:  # as if somebody had deleted a row right after HEAD was looked at
        commit_compaction(msgspec.structs.replace(staged, table=newer))
    assert failed.value.outcome is Outcome.UNKNOWN
    assert table.head() == newer.ref.version + 1
    assert content(reopened(table, table.head())) == {key: n for key, n in CRUMBLED.items() if key != "a"}


class Meanwhile(tuple[Any, ...]):
    """Rewrites at whose first look, which is the moment before their commit, somebody else commits."""

    def __iter__(self) -> Iterator[Any]:
        if _somebody:
            _somebody.pop()()
        return super().__iter__()


_somebody: list[Callable[[], object]] = []


def test_rows_that_slip_in_between_look_and_commit_are_found_out(tmp_path: Path) -> None:
    """Lance commits a compaction over a plain append: the chain is one longer than ours. That is said, and nothing is lost."""
    table = crumbled(tmp_path)
    staged = planned(table)
    _somebody.append(lambda: lance.write_dataset(rows({"z": 9}), table.root.of(table.ref.home), mode="append"))
    with pytest.raises(OmniGraphError) as found:
        commit_compaction(msgspec.structs.replace(staged, rewrites=Meanwhile(staged.rewrites)))
    assert found.value.kind is Kind.DRIFT
    assert (found.value.facts["expected"], found.value.facts["actual"]) == (table.ref.version + 2, table.ref.version + 3)
    assert content(reopened(table, table.head())) == {**CRUMBLED, "z": 9}


def test_a_fenced_change_that_slips_in_between_wins(tmp_path: Path) -> None:
    """It named a fragment that the compaction rewrites: the compaction is refused half way, and the change stays."""
    table = crumbled(tmp_path)
    staged = planned(table)
    _somebody.append(lambda: stage.commit(some(stage.upsert(table, rows({"a": 77, "z": 9})))))
    with pytest.raises(StorageError) as failed:
        commit_compaction(msgspec.structs.replace(staged, rewrites=Meanwhile(staged.rewrites)))
    assert failed.value.outcome is Outcome.UNKNOWN
    assert content(reopened(table, table.head())) == {**CRUMBLED, "a": 77, "z": 9}


@pytest.mark.parametrize(("point", "moves"), [(Fault.STAGE_BEFORE_COMMIT, 0), (Fault.STAGE_AFTER_COMMIT, 2)])
def test_a_crash_around_a_compactions_commit_leaves_every_row(tmp_path: Path, point: Fault, moves: int) -> None:
    table = crumbled(tmp_path)
    with armed(point), pytest.raises(SimulatedCrash):
        commit_compaction(planned(table))
    assert table.head() == table.ref.version + moves
    assert content(reopened(table, table.head())) == CRUMBLED


@pytest.mark.parametrize(("point", "moves"), [(Fault.STAGE_BEFORE_COMMIT, 0), (Fault.STAGE_AFTER_COMMIT, 1)])
def test_a_crash_around_a_commit_leaves_all_of_it_or_nothing(tmp_path: Path, point: Fault, moves: int) -> None:
    """W-02: the row is either fully old or fully new."""
    table = two_fragments(place(tmp_path))
    staged = some(stage.upsert(table, rows({"a": 9})))
    with armed(point), pytest.raises(SimulatedCrash):
        stage.commit(staged)
    assert table.head() == table.ref.version + moves
    assert content(reopened(table, table.head())) == {**FOUR, "a": 9 if moves else 1}


def test_large_fragments_are_left_alone(tmp_path: Path) -> None:
    table = added(two_fragments(place(tmp_path)), {f"k{n}": n for n in range(50)})
    staged = stage_compaction(table, target_rows=20)
    assert staged is not None
    assert staged.fragments_before == 2
    assert content(commit_compaction(staged)) == {**FOUR, **{f"k{n}": n for n in range(50)}}
