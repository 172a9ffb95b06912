"""Partitions of keys: equal keys meet, whatever buffers they come from; and how committed rows are asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.validate.arrays import distinct
from omnigraph.exec.validate.integrity import Delta, RowsInMemory, check_integrity
from omnigraph.exec.validate.keys import FEW_KEYS, PROBED_KEYS, ROWS_PER_PROBE, KeyPartition, pick
from omnigraph.store.fingerprints import LONG_BYTES, fingerprints
from omnigraph.store.membership import repeated
from tests.unit.exec.validate.test_integrity import CATALOG, ENTITIES, InMemory, filler, table

texts = st.lists(st.sampled_from(["", "a", "b", "aaaaaaaa", "aaaaaaab", "aaaaaaaa\0", "é", "x" * 300, "x" * 299 + "y", "y" + "x" * 299]))


@settings(deadline=None)
@given(texts, st.integers(0, 4))
def test_equal_texts_have_one_fingerprint_wherever_they_stand(values: list[str], skipped: int) -> None:
    whole = pa.array(["zzz"] * skipped + values, pa.string())
    numbers = fingerprints(whole.slice(skipped)).tolist()
    alone = [fingerprints(pa.array([value]))[0] for value in values]
    assert numbers == alone
    assert len(set(numbers)) == len(set(values))


@settings(deadline=None)
@given(texts, st.integers(0, 4))
def test_texts_that_stood_before_are_found_wherever_they_stand(values: list[str], skipped: int) -> None:
    whole = pa.array(["zzz"] * skipped + values, pa.string())
    assert repeated(whole.slice(skipped)).tolist() == [at for at, value in enumerate(values) if value in values[:at]]


def test_long_texts_that_differ_in_their_middle_are_not_taken_for_equal() -> None:
    long = "x" * LONG_BYTES
    assert repeated(pa.array([long + "a" + "tail1234", long + "b" + "tail1234"])).tolist() == []


def test_nulls_fall_somewhere_and_texts_spread_over_the_partitions() -> None:
    assert len(fingerprints(pa.array([None, "a", None], pa.string()))) == 3
    assert len(fingerprints(pa.array([], pa.string()))) == 0
    spread = np.bincount((fingerprints(pa.array([f"person-{n:07d}" for n in range(8_000)])) % np.uint64(8)).astype(np.int64))
    assert spread.min() > 800


def test_partitions_hold_every_row_once_under_its_own_number() -> None:
    rows = table("P", [filler("P", at) for at in range(20)])
    held = RowsInMemory(pa.Table.from_batches(rows.to_batches(max_chunksize=3)))
    picked = [pick(held, ["id"], by=["id"], part=KeyPartition(at, 4)) for at in range(4)]
    numbered = {
        row: id_ for one in picked for row, id_ in zip(one.rows(np.arange(len(one.table))), one.table["id"].to_pylist(), strict=True)
    }
    assert numbered == dict(enumerate(rows["id"].to_pylist()))


@given(texts)
def test_distinct_texts_know_where_they_stood_first(values: list[str]) -> None:
    found = distinct(pa.array(values, pa.string()))
    assert [found.texts[at].as_py() for at in found.places] == values
    assert [values[at] for at in found.first] == list(dict.fromkeys(values))
    assert found.repeats().tolist() == [at for at, value in enumerate(values) if value in values[:at]]


def _asked(rows: int, committed: int) -> list[str | None]:
    """The filters of the scans that a change of so many rows makes on a `@unique` column."""
    there = InMemory({"P": [{"id": f"c{n}", "k": f"c{n}", "u": 1_000_000 + n} for n in range(committed)]})
    added = table("P", [{"id": f"n{n}", "k": f"n{n}", "u": n} for n in range(rows)])
    assert not check_integrity([Delta(ENTITIES["P"], RowsInMemory(added))], CATALOG, there)
    return [where for _, where in there.scans]


def test_a_change_makes_as_many_scans_for_many_rows_as_for_few() -> None:
    """K-11: A check against committed rows is one scan: by key for a small change, one pass for a large one.

    Also V-16.
    """
    (few,) = _asked(4, 8)
    (more,) = _asked(FEW_KEYS, 8)
    (many,) = _asked(64, 8)
    (beside,) = _asked(64, 64 * ROWS_PER_PROBE)
    assert few is not None
    assert more is not None
    assert many is None
    assert beside is not None
    assert beside.count("arrow_cast") == 64


def test_keys_are_asked_for_in_bounded_lists() -> None:
    """V-16: Committed keys are looked up in lists of bounded length."""

    class Vast(InMemory):
        def rows(self, entity: object) -> int:
            return (PROBED_KEYS + 1) * ROWS_PER_PROBE

    there = Vast({})
    ids = pa.array([f"n{n}" for n in range(PROBED_KEYS + 1)])
    check_integrity([Delta(ENTITIES["Q"], RowsInMemory(pa.table({"id": ids, "t": ids})), replaces=False)], CATALOG, there)
    assert [where.count("', '") + 1 for _, where in there.scans if where is not None] == [PROBED_KEYS, 1]


def test_a_change_of_types_without_rules_looks_at_nothing() -> None:
    there = InMemory({"Q": [{"id": "a"}]})
    ids = pa.array(["a", "b"])
    assert not check_integrity([Delta(ENTITIES["Q"], RowsInMemory(pa.table({"id": ids, "t": ids})))], CATALOG, there)
    assert there.scans == []
