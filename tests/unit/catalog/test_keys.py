"""Keys -> ids, against a plain reference that spells one value at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.catalog.keys import derive_ids, spell_tuples
from omnigraph.catalog.model import Key
from omnigraph.errors import InvalidInput, Kind

Value = str | bool | int | float | np.float32


def spelled(value: Value) -> str:
    """The reference: the canonical spelling of one value, dates as the numbers they are stored as."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0"
    shortest = str(value) if isinstance(value, np.float32) else repr(value)
    digits = format(Decimal(shortest), "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def reference(rows: Sequence[Sequence[Value]]) -> list[str]:
    """The ids of rows of key values."""
    texts = [[spelled(value) for value in row] for row in rows]
    return [row[0] if len(row) == 1 else json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in texts]


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


finite = st.floats(allow_nan=False, allow_infinity=False)
finite32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
texts = st.text() | st.text('"\\\n\r\t\b\f\x00\x1f\x7f/é😀', max_size=6)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Value]]] = {
    "string": (pa.string(), texts),
    "large_string": (pa.large_string(), texts),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), texts),
    "bool": (pa.bool_(), st.booleans()),
    "i32": (pa.int32(), signed(32)),
    "i64": (pa.int64(), signed(64)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f32": (pa.float32(), finite32.map(np.float32)),
    "f64": (pa.float64(), finite),
    "date": (pa.date32(), signed(32)),
    "datetime": (pa.date64(), signed(64)),
}


def column_of(name: str, values: Sequence[Value | None]) -> pa.Array:
    type_ = COLUMNS[name][0]
    match name:
        case "date":
            return pa.array(values, pa.int32()).view(type_)
        case "datetime":
            return pa.array(values, pa.int64()).view(type_)
        case "dictionary":
            return pa.array(values, pa.string()).dictionary_encode()
        case _:
            return pa.array(values, type_)


def ids(*columns: pa.Array) -> list[str]:
    names = [f"c{position}" for position in range(len(columns))]
    found: list[str] = derive_ids(Key(tuple(names)), pa.record_batch(list(columns), names=names)).to_pylist()
    return found


@pytest.mark.parametrize("name", COLUMNS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_one_column_is_spelled_as_the_reference(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(COLUMNS[name][1], max_size=20))
    assert ids(column_of(name, values)) == reference([[value] for value in values])


@settings(deadline=None, max_examples=60)
@given(st.lists(finite | st.integers(-(10**18), 10**18).map(lambda n: n / 1000), max_size=30))
@example([1e21, 1e22, 5e-324, 1.7976931348623157e308, -1.25e-7, 123456789012345.6, 1234567890123456.7, -0.0, 2.0, 0.1, 1e10, 9999999999.5])
def test_doubles_are_spelled_in_full(values: list[float]) -> None:
    result = ids(pa.array(values, pa.float64()))
    assert result == reference([[value] for value in values])
    assert [float(text) for text in result] == values


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_several_columns_are_a_json_array(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=2, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(COLUMNS[name][1] for name in names)), max_size=10))
    columns = [column_of(name, [row[position] for row in rows]) for position, name in enumerate(names)]
    assert ids(*columns) == reference(rows)


@settings(deadline=None, max_examples=60)
@given(st.lists(texts, max_size=8), st.lists(finite, max_size=8), st.integers(0, 8))
def test_chunks_make_no_difference(words: list[str], numbers: list[float], cut: int) -> None:
    size = min(len(words), len(numbers))
    whole = pa.table({"a": pa.array(words[:size], pa.string()), "b": pa.array(numbers[:size], pa.float64())})
    words_cut = pa.chunked_array([whole["a"].slice(0, cut).combine_chunks(), whole["a"].slice(cut).combine_chunks()], pa.string())
    in_chunks = pa.table({"a": words_cut, "b": whole["b"]})
    key = Key(("a", "b"))
    assert derive_ids(key, in_chunks).to_pylist() == derive_ids(key, whole).to_pylist()
    assert derive_ids(Key(("b",)), whole.slice(cut)).to_pylist() == derive_ids(Key(("b",)), whole).to_pylist()[cut:]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["Blade Runner"]), "Blade Runner"),
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([2.0]), "2"),
        (pa.array([1e21]), "1000000000000000000000"),
        (pa.array([-0.0], pa.float32()), "0"),
        (pa.array([3431], pa.int32()).view(pa.date32()), "3431"),
        (pa.array([1704225600000], pa.int64()).view(pa.date64()), "1704225600000"),
    ],
)
def test_spelling(column: pa.Array, expected: str) -> None:
    assert ids(column) == [expected]


def test_composite_spelling() -> None:
    assert ids(pa.array(['a"b']), pa.array([7], pa.uint32())) == [r'["a\"b","7"]']
    assert ids(pa.array(["heat"]), pa.array([3], pa.int32())) == ['["heat","3"]']


def test_key_order_is_the_order_of_its_columns() -> None:
    rows = pa.record_batch({"a": ["1"], "b": ["2"]})
    assert derive_ids(Key(("b", "a")), rows).to_pylist() == ['["2","1"]']


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_number_that_is_not_finite_is_refused_at_its_row(bad: float, type_: pa.DataType) -> None:
    rows = pa.table({"x": pa.chunked_array([pa.array([1.0, 2.0], type_), pa.array([3.0, bad], type_)])})
    with pytest.raises(InvalidInput, match="scalar key: non-finite") as caught:
        derive_ids(Key(("x",)), rows)
    assert (caught.value.kind, caught.value.facts) == (Kind.VALIDATION, {"row": 3, "property": "x"})


def test_null_in_a_key_is_refused_at_its_row() -> None:
    rows = pa.record_batch({"a": pa.array(["x", "y"]), "b": pa.array([1, None], pa.int32())})
    with pytest.raises(InvalidInput, match="@key property 'b' cannot contain null") as caught:
        derive_ids(Key(("a", "b")), rows)
    assert caught.value.facts == {"row": 1, "property": "b"}


def test_null_in_a_tuple_makes_the_tuple_null() -> None:
    rows = pa.record_batch({"a": pa.array(["x", None, "z"]), "b": pa.array([1.5, 1e30, None])})
    assert spell_tuples(("a", "b"), rows).to_pylist() == ['["x","1.5"]', None, None]
    assert spell_tuples(("b",), rows).to_pylist() == ["1.5", "1" + "0" * 30, None]


@pytest.mark.parametrize("type_", [pa.list_(pa.string()), pa.list_(pa.float32(), 2), pa.large_binary()])
def test_column_without_a_spelling_is_refused(type_: pa.DataType) -> None:
    rows = pa.record_batch({"x": pa.nulls(1, type_)})
    with pytest.raises(InvalidInput, match="scalar key: unsupported column type") as caught:
        spell_tuples(("x",), rows)
    assert caught.value.facts == {"property": "x"}
