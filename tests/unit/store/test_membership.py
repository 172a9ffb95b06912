"""Law: whatever is looked up, in memory or in files, the places are those of `pc.index_in` and the memberships those of `pc.is_in`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import StorageError
from omnigraph.store.arrays import joined, whole
from omnigraph.store.fingerprints import BLOCK_ROWS, LONG_BYTES, fingerprint, fingerprints
from omnigraph.store.membership import FEW, KeySet, Members, in_order, is_in, matching, others, placed
from tests.samples import sample

_TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "\0", "aaaaaaaa", "aaaaaaaa\0", "é" * 9, "x" * 300, "x" * 299 + "y", "y" + "x" * 299]), st.text()
)
_FLOATS = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf]), st.floats(width=32))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "string": (pa.string(), _TEXTS),
    "large_string": (pa.large_string(), _TEXTS),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "fixed": (pa.binary(11), st.binary(min_size=11, max_size=11)),
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-5, 5)),
    "int64": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "uint64": (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    "float32": (pa.float32(), _FLOATS),
    "float64": (pa.float64(), _FLOATS),
    "date32": (pa.date32(), st.dates(date(1900, 1, 1))),
    "date64": (pa.date64(), st.dates(date(1900, 1, 1))),
    "timestamp": (pa.timestamp("ms", "UTC"), st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))),
    "decimal": (pa.decimal128(12, 2), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), _TEXTS),
}


@st.composite
def _columns(draw: st.DrawFn) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Values, and a column to look up among them, with some in common."""
    type_, cells = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    pool = draw(st.lists(st.one_of(st.none(), cells), min_size=1, max_size=12))
    some = st.lists(st.sampled_from(pool), max_size=30)
    return _chunked(draw(some), type_, draw(st.integers(1, 9))), _chunked(draw(some), type_, draw(st.integers(1, 9)))


def _chunked(cells: list[object], type_: pa.DataType, size: int) -> pa.ChunkedArray:
    array = pa.array([None, *cells], type_).slice(1)  # an offset that is not 0
    return pa.chunked_array([array.slice(start, size) for start in range(0, len(array), size)], type_)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return whole(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)


def _index_in(column: pa.ChunkedArray, values: pa.ChunkedArray, *, skip_nulls: bool = False) -> list[int]:
    found: list[int] = pc.index_in(_plain(column), value_set=_plain(values), skip_nulls=skip_nulls).fill_null(-1).to_pylist()
    return found


def _located(keys: KeySet, column: pa.ChunkedArray) -> list[int]:
    """The places in the order of the rows, whatever order they come in."""
    places = np.full(len(column), -2, np.int64)
    table = pa.table({"key": column, "row": np.arange(len(column))})
    for rows, found in keys.locate(table.to_batches(), on="key"):
        places[rows.column("row").to_numpy()] = found
    return places.tolist()


@settings(deadline=None, max_examples=sample(100, whole=2_000))
@given(_columns())
def test_places_are_those_of_the_kernel(columns: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> None:
    values, column = columns
    assert Members(values).find(column).tolist() == _index_in(column, values)
    assert is_in(column, values).tolist() == pc.is_in(_plain(column), value_set=_plain(values)).to_pylist()


@settings(deadline=None, max_examples=sample(150, whole=4_000))
@given(_columns(), st.booleans())
def test_places_in_a_table_of_ours_are_those_of_the_kernel(columns: tuple[pa.ChunkedArray, pa.ChunkedArray], nulls: bool) -> None:
    values, column = columns
    assert Members(values, match_nulls=nulls, few=0).find(column).tolist() == _index_in(column, values, skip_nulls=not nulls)


@settings(deadline=None, max_examples=sample(60, whole=2_000))
@given(st.sampled_from([1, 7, 8, 9, 15, 16, 17, 24, 26, LONG_BYTES, LONG_BYTES + 1]), st.data())
def test_places_of_values_of_one_width_are_those_of_the_kernel(width: int, data: st.DataObject) -> None:
    """Values that differ in one byte only, wherever it is, and values of another width among those looked up."""
    spots = data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=20))
    texts = ["a" * at + "b" + "a" * (width - at - 1) for at in spots]
    values = pa.chunked_array([pa.array(["", *texts]).slice(1)])
    asked = pa.chunked_array([pa.array(["a" * at + "b" + "a" * (width - at - 1) for at in range(width)] + ["a" * width])])
    assert Members(values, few=0).find(asked).tolist() == _index_in(asked, values)
    mixed = pa.chunked_array([pa.array([*texts, "a" * (width + 1), "b" * width, None, ""])])
    assert Members(values, few=0).find(mixed).tolist() == _index_in(mixed, values)
    assert Members(mixed, few=0).find(asked).tolist() == _index_in(asked, mixed)


@given(st.one_of(_TEXTS.map(str.encode), st.binary(max_size=LONG_BYTES + 9)))
def test_the_fingerprint_of_one_value_is_that_of_a_column(value: bytes) -> None:
    assert fingerprint(value) == int(fingerprints(pa.array([value]))[0]) == int(fingerprints(pa.array([value, b"other"]))[0])


@settings(deadline=None, max_examples=sample(25, whole=1_000))
@given(_columns())
def test_places_in_files_are_those_of_the_kernel(columns: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> None:
    values, column = columns
    keys = KeySet.of(values.chunks, limit_bytes=48, few=0)
    assert len(keys) == len(values)
    assert _located(keys, column) == _index_in(column, values)
    assert _located(keys, column) == _index_in(column, values), "probed again"


@pytest.mark.parametrize("limit_bytes", [1 << 30, 1 << 16])
def test_many_texts_are_found_and_filtered(limit_bytes: int) -> None:
    count = 20 * FEW
    rng = np.random.default_rng(7)
    texts = pa.array([f"person-{number:019d}" for number in range(2 * count)])
    known, wanted = texts.take(pa.array(rng.permutation(2 * count)[:count])), texts.take(pa.array(rng.integers(0, 2 * count, 3 * count)))
    keys = KeySet.of((known.slice(start, 999) for start in range(0, count, 999)), limit_bytes=limit_bytes)
    assert keys.is_spilled is (limit_bytes == 1 << 16)
    expected = _index_in(pa.chunked_array([wanted]), pa.chunked_array([known]))
    assert _located(keys, pa.chunked_array([wanted])) == expected
    rows = pa.table({"key": wanted}).to_batches(max_chunksize=1_000)
    inside = wanted.filter(pc.is_in(wanted, value_set=known))
    outside = wanted.filter(pc.invert(pc.is_in(wanted, value_set=known)))
    assert sorted(_texts(matching(keys, rows, on="key"))) == sorted(inside.to_pylist())
    assert sorted(_texts(others(keys, rows, on="key"))) == sorted(outside.to_pylist())


def _texts(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return [text for batch in batches for text in batch.column("key").to_pylist()]


def test_no_values_hold_nothing() -> None:
    rows = pa.table({"key": ["a", None]}).to_batches()
    assert [located.places.tolist() for located in KeySet.of([]).locate(rows, on="key")] == [[-1, -1]]
    assert Members(pa.array([], pa.string())).find(pa.array(["a", None])).tolist() == [-1, -1]
    assert Members(pa.array(["a"])).find(pa.chunked_array([], pa.string())).tolist() == []


def test_values_with_one_fingerprint_are_told_apart() -> None:
    first, last = 0x0102030405060708, 0x1112131415161718
    pairs = (first, last), (first ^ 1 << 63, last ^ 1 << 63 ^ 1 << 34)
    one, other = (b"".join(word.to_bytes(8, "little") for word in words) for words in pairs)
    assert len(set(fingerprints(pa.array([one, other])).tolist())) == 1
    assert Members(pa.array([other, other]), few=0).find(pa.array([one, other])).tolist() == [-1, 0], "and all of one width"
    assert Members(pa.array([other, one, None]), few=0).find(pa.array([one, other, b"", None])).tolist() == [1, 0, -1, 2]
    assert Members(pa.array([other, other, b""]), few=0).find(pa.array([one, other, b"", None])).tolist() == [-1, 0, 2, -1]


def test_slots_past_the_last_are_found_and_empty_ones_are_not() -> None:
    greatest = (1 << 64) - 1
    tags = [0, 5, greatest - 2, greatest - 1, greatest]
    slots = placed(np.array(tags, np.uint64), np.arange(5))
    assert slots.find(np.array([*tags, 6, greatest - 3], np.uint64)).tolist() == [0, 1, 2, 3, 4, -1, -1]
    assert placed(np.array(tags[:2], np.uint64), np.arange(2)).find(np.array([greatest, 5], np.uint64)).tolist() == [-1, 1]


def test_slots_of_one_block_follow_those_of_the_block_before() -> None:
    """Many fingerprints that want the same slot push those of later blocks on."""
    wanted = np.concatenate([np.arange(3 * BLOCK_ROWS), (np.arange(40) << 50) + (1 << 52)]).astype(np.uint64)
    slots = placed(wanted, np.arange(len(wanted)))
    looked_up = np.concatenate([np.arange(0, len(wanted), sample(61, whole=1)), np.arange(len(wanted) - 80, len(wanted))])
    assert np.array_equal(slots.find(wanted[looked_up]), looked_up)
    assert (slots.find(wanted[-40:] + np.uint64(1)) == -1).all()


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5) | st.integers(2**64 - 5, 2**64 - 1), max_size=40))
def test_fingerprints_are_sorted_also_where_only_low_bits_differ(numbers: list[int]) -> None:
    given_ = np.array(numbers, np.uint64)
    tags, order = in_order(given_)
    assert tags.tolist() == given_[order].tolist() == sorted(numbers)
    assert sorted(order.tolist()) == list(range(len(numbers)))


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(pa.ArrowTypeError, match="int64"):
        Members(pa.array(["a"]), few=0).find(pa.array([1]))
    assert Members(pa.array(["a"]), few=0).has(pa.array(["a"], pa.large_string())).tolist() == [True]


def test_one_value_many_times_is_not_partitioned_for_ever() -> None:
    keys = KeySet.of([pa.array(["same"] * 5_000)] * 4, limit_bytes=1_000)
    assert _located(keys, pa.chunked_array([["same", "other"]])) == [0, -1]


def test_temporary_files_go_with_the_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keys = KeySet.of([pa.array([f"{number}" for number in range(5_000)])], limit_bytes=1_000)
    probing = keys.locate(pa.table({"key": ["1", "none"]}).to_batches(), on="key")
    next(probing)
    assert list(tmp_path.iterdir())
    del probing, keys
    assert not list(tmp_path.iterdir())


def test_a_disk_that_takes_no_files_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(StorageError, match="temporary directory"):
        KeySet.of([pa.array([f"{number}" for number in range(5_000)])], limit_bytes=1_000)


def test_long_texts_that_differ_in_their_middle_have_different_fingerprints() -> None:
    long = "x" * LONG_BYTES
    one, other = fingerprints(pa.array([long + "a" + "tail1234", long + "b" + "tail1234"]))
    assert one != other


def test_joined_columns_are_one_column() -> None:
    column = joined([pa.array(["a"]), pa.chunked_array([["b"], ["c"]])], pa.string())
    assert column.to_pylist() == ["a", "b", "c"]
    assert whole(column).to_pylist() == ["a", "b", "c"]
    assert whole(joined([], pa.string())).to_pylist() == []
