"""Columns of any type -> columns that Arrow groups by value, and back. Null equals null, NaN equals NaN, and -0.0 equals 0.0.

Arrow distinguishes the two zeros and the bits of a NaN, and it cannot group by lists. So floats get one form of each value, and a list
becomes its bytes: those of its items in order, each after a byte that says whether it is null.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.store.arrays import Column, chunks_of

_END, _ESCAPE = "\x00", "\x01"
_ESCAPED: Final = ((_ESCAPE, _ESCAPE + "\x02"), (_END, _ESCAPE + "\x03"))
"""What replaces the two characters inside a text of a list, in this order."""
_VALUE, _NULL = "v", "n"
"""How a text of a list begins, and what stands for null; `_END` follows both."""


def encoded(column: Column) -> Column:
    """Return a column with equal values where the given values are equal. Nulls stay null."""
    if pa.types.is_floating(column.type):
        return _one_form(column)
    if not is_list(column.type):
        return column
    encode = _texts_to_bytes if pa.types.is_string(column.type.value_type) else _items_to_bytes
    return pa.chunked_array([encode(chunk) for chunk in chunks_of(column)], pa.large_binary())


def decoded(column: Column, type_: pa.DataType) -> Column:
    """Return the values of an encoded column of that type."""
    if not is_list(type_):
        return column
    decode = _texts_of_bytes if pa.types.is_string(type_.value_type) else _items_of_bytes
    return pa.chunked_array([decode(chunk, type_) for chunk in chunks_of(column)], type_)


def is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_))


def normalize_zero(column: Column) -> Column:
    """Replace `-0.0` by `0.0`. They are equal values, but Arrow distinguishes them."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def has_nan(column: Column) -> bool:
    return bool(pa.types.is_floating(column.type) and pc.any(pc.is_nan(column), min_count=0).as_py())


def _one_form(floats: Column) -> Column:
    floats = normalize_zero(floats)
    if not has_nan(floats):
        return floats
    return pc.if_else(pc.is_nan(floats), pa.scalar(float("nan"), floats.type), floats)


# -- items of a fixed width


def _items_to_bytes(lists: pa.Array) -> pa.Array:
    items = encoded(pc.list_flatten(lists))
    plain = _plain(items)
    width = plain.dtype.itemsize + 1
    block = np.empty((len(plain), width), np.uint8)
    block[:, 0] = np.asarray(items.is_valid())
    block[:, 1:] = plain.view(np.uint8).reshape(len(plain), width - 1)
    return _bytes(lists, _offsets(pc.list_value_length(lists)) * width, pa.py_buffer(block))


def _items_of_bytes(encoded_lists: pa.Array, type_: pa.DataType) -> pa.Array:
    _, offsets, data = encoded_lists.buffers()
    ends = np.frombuffer(offsets, np.int64)[encoded_lists.offset : encoded_lists.offset + len(encoded_lists) + 1]
    number = _number_type(type_.value_type)
    width = number.bit_width // 8 + 1
    begin, end = (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)
    block = np.frombuffer(data, np.uint8)[begin:end] if data is not None else np.empty(0, np.uint8)
    block = block.reshape(-1, width)
    numbers = np.ascontiguousarray(block[:, 1:]).view(number.to_pandas_dtype()).reshape(-1)
    items = pa.array(numbers, number, mask=block[:, 0] == 0)
    items = items.cast(type_.value_type) if pa.types.is_boolean(type_.value_type) else items.view(type_.value_type)
    return _lists(encoded_lists, (ends - begin) // width, items, type_)


def _number_type(type_: pa.DataType) -> pa.DataType:
    """Return the number type with the same bits as the values of a type."""
    if pa.types.is_boolean(type_):
        return pa.uint8()
    if pa.types.is_date32(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_date64(type_) else type_


def _plain(items: pa.Array) -> npt.NDArray[np.generic]:
    """Return the items as numbers, with 0 in place of null."""
    number = _number_type(items.type)
    numbers = items.cast(number) if pa.types.is_boolean(items.type) else items.view(number)
    filled = numbers.fill_null(pa.scalar(0, number)) if numbers.null_count else numbers
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False))


# -- texts


def _texts_to_bytes(lists: pa.Array) -> pa.Array:
    items = pc.list_flatten(lists).cast(pa.large_string())
    for character, instead in _ESCAPED:
        items = pc.replace_substring(items, pattern=character, replacement=instead)
    around = [pa.scalar(text, pa.large_string()) for text in (_VALUE, _END, "")]
    items = pc.binary_join_element_wise(around[0], items, *around[1:]).fill_null(_NULL + _END)
    _, ends, data = items.buffers()
    ends = np.zeros(1, np.int64) if ends is None else np.frombuffer(ends, np.int64)[items.offset : items.offset + len(items) + 1]
    return _bytes(lists, ends[_offsets(pc.list_value_length(lists))], data)


def _texts_of_bytes(encoded_lists: pa.Array, type_: pa.DataType) -> pa.Array:
    split = pc.split_pattern(encoded_lists.cast(pa.large_string()), pattern=_END)  # the last part is always empty
    lengths = pc.list_value_length(split)
    items = pc.list_flatten(split)
    items = items.filter(pc.not_equal(items, ""))
    is_null = pc.equal(items, _NULL)
    items = pc.utf8_slice_codeunits(items, start=1)
    for character, instead in reversed(_ESCAPED):
        items = pc.replace_substring(items, pattern=instead, replacement=character)
    items = pc.if_else(is_null, pa.scalar(None, items.type), items)
    return _lists(encoded_lists, _offsets(pc.subtract(lengths, 1)), items.cast(type_.value_type), type_)


# -- lists and bytes from their parts


def _bytes(lists: pa.Array, ends: Numbers64, data: pa.Buffer | None) -> pa.Array:
    found = pa.Array.from_buffers(pa.large_binary(), len(lists), [None, pa.py_buffer(ends), data])
    return pc.if_else(lists.is_valid(), found, pa.scalar(None, found.type)) if lists.null_count else found


def _lists(encoded_lists: pa.Array, offsets: Numbers64, items: pa.Array, type_: pa.DataType) -> pa.Array:
    is_null = pc.is_null(encoded_lists)
    if pa.types.is_fixed_size_list(type_):
        # A null list has no bytes, but takes the place of as many items as any other.
        at = np.cumsum(_array(encoded_lists.is_valid())) - 1
        places = (np.maximum(at, 0)[:, None] * type_.list_size + np.arange(type_.list_size)).reshape(-1)
        mask = np.repeat(_array(is_null), type_.list_size)
        return pa.FixedSizeListArray.from_arrays(items.take(pa.array(places, pa.int64(), mask=mask)), type=type_, mask=is_null)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=type_, mask=is_null)


def _offsets(lengths: pa.Array) -> Numbers64:
    """Return where each list begins and ends among the items. A null has none."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)])


def _array(flags: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(flags.fill_null(fill_value=False).to_numpy(zero_copy_only=False), np.bool_)
