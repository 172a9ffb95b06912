"""Where two columns differ: exactly where their values do, as Python sees them, type by type."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.history.compare import differing

TYPES = {
    "string": (pa.string(), st.sampled_from(["", "a", "a, b", "b"])),
    "int": (pa.int32(), st.integers(-2, 2)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "bool": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.integers(-1, 1)),
    "moment": (pa.date64(), st.sampled_from([0, 86_400_000])),
    "blob": (pa.large_binary(), st.sampled_from([b"", b"a", b"b"])),
    "texts": (pa.list_(pa.string()), st.lists(st.sampled_from(["", "a", "b", "a, b", None]), max_size=3)),
    "floats": (pa.list_(pa.float32()), st.lists(st.sampled_from([0.0, -0.0, 1.0]), max_size=2)),
    "vector": (pa.list_(pa.float32(), 2), st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=2, max_size=2)),
}


def told_apart(value: object) -> object:
    if isinstance(value, float):
        return struct.pack("d", value)
    return [told_apart(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_columns_differ_where_their_values_do(name: str, data: st.DataObject) -> None:
    """M-22: Rows are compared by typed values: null, an empty text and an empty list differ, and a list is not its joined text."""
    type_, values = TYPES[name]
    pairs = data.draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=12))
    before, after = (pa.array([pair[side] for pair in pairs], type_) for side in (0, 1))
    expected = [told_apart(old) != told_apart(new) for old, new in pairs]
    assert differing(before, after).tolist() == expected
    cut = data.draw(st.integers(0, len(pairs)))  # a slice has an offset
    assert differing(before.slice(cut), after.slice(cut)).tolist() == expected[cut:]
    chunked = [pa.chunked_array([column.slice(0, cut), column.slice(cut)], type_) for column in (before, after)]
    assert np.array_equal(differing(*chunked), expected)
