"""Encoded columns: equal where the values are, and back to the same values."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.read.encoding import decoded, encoded, is_list

NAN: Final = float("nan")
POOLS: Final[dict[pa.DataType, list[Any]]] = {
    pa.float64(): [0.0, -0.0, NAN, -NAN, float("inf"), 1.5],
    pa.float32(): [0.0, -0.0, NAN, 1.5],
    pa.string(): ["", "a", "\x00", "\x01", "\x01\x02", "\x01\x03", "v", "n", "é\x00n"],
    pa.int32(): [0, 1, -1],
    pa.uint64(): [0, 2**64 - 1],
    pa.bool_(): [True, False],
    pa.date32(): [0, -5],
    pa.date64(): [0, 86_400_000],
}
TYPES: Final = [
    *POOLS,
    *(pa.list_(pa.field("item", item)) for item in POOLS),
    *(pa.list_(pa.field("item", item), 2) for item in POOLS if not pa.types.is_string(item)),
]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """A column of any type, sliced out of a longer one."""
    type_ = draw(st.sampled_from(TYPES))
    if not is_list(type_):
        values = st.none() | st.sampled_from(POOLS[type_])
    else:
        items = st.none() | st.sampled_from(POOLS[type_.value_type])
        fixed = pa.types.is_fixed_size_list(type_)
        values = st.none() | st.lists(items, min_size=2 if fixed else 0, max_size=2 if fixed else 3)
    column = pa.array(draw(st.lists(values, max_size=8)), type_)
    return column.slice(draw(st.integers(0, 2)))


def form(value: Any) -> Any:
    """Equal for equal values only."""
    if isinstance(value, list):
        return tuple(form(item) for item in value)
    return "NaN" if isinstance(value, float) and value != value else value


@settings(deadline=None)
@given(columns())
def test_equal_values_have_equal_codes(column: pa.Array) -> None:
    codes = [form(code) for code in encoded(column).to_pylist()]
    values = [form(value) for value in column.to_pylist()]
    assert [codes.index(code) for code in codes] == [values.index(value) for value in values]
    assert encoded(column).is_null().to_pylist() == column.is_null().to_pylist()


@settings(deadline=None)
@given(columns(), st.integers(0, 2))
def test_a_code_gives_its_value_back(column: pa.Array, start: int) -> None:
    found = decoded(encoded(column).slice(start), column.type)
    found.validate(full=True)
    assert found.type == column.type
    assert form(found.to_pylist()) == form(column.slice(start).to_pylist())


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_column_may_come_in_chunks_or_be_empty(type_: pa.DataType) -> None:
    empty = pa.chunked_array([], type_)
    assert decoded(encoded(empty), type_) == empty
    pool = POOLS[type_.value_type if is_list(type_) else type_]
    value = [pool[0], pool[1]] if is_list(type_) else pool[1]
    chunks = pa.chunked_array([[value], [], [None, value]], type_)
    first, null, second = encoded(chunks).to_pylist()
    assert (null, first == second) == (None, True)
