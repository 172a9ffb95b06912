"""Two columns or two sets of rows, side by side -> where they differ. Pure.

The comparison is typed: null, an empty text and an empty list are three values, and `["a, b"]` is not `["a", "b"]`. Floats are compared
by their bits, so that a change from 0.0 to -0.0 is a change, and NaN equals itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrays import Column, Mask, whole

_BITS: Final = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def any_differing(pairs: Iterable[tuple[Column, Column]], rows: int) -> Mask:
    """The rows in which at least one pair of columns differs."""
    apart = np.zeros(rows, np.bool_)
    for before, after in pairs:
        apart |= differing(before, after)
    return apart


def differing(before: Column, after: Column) -> Mask:
    """The rows in which two columns of one type differ."""
    old, new = whole(before), whole(after)
    has_old, has_new = _valid(old), _valid(new)
    apart: Mask = has_old != has_new
    both = np.flatnonzero(has_old & has_new)
    if len(both) < len(old):
        old, new = old.take(pa.array(both)), new.take(pa.array(both))
    apart[both] = _lists_differing(old, new) if _is_list(old.type) else np.asarray(pc.not_equal(_bits(old), _bits(new)))
    return apart


def _lists_differing(old: pa.Array, new: pa.Array) -> Mask:
    lengths, others = (pc.list_value_length(lists).to_numpy(zero_copy_only=False) for lists in (old, new))
    apart: Mask = lengths != others
    same = np.flatnonzero(~apart)
    if len(same) < len(old):
        old, new = old.take(pa.array(same)), new.take(pa.array(same))
    items = differing(pc.list_flatten(old), pc.list_flatten(new))
    apart[np.repeat(same, lengths[same])[items]] = True
    return apart


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_))


def _bits(values: pa.Array) -> pa.Array:
    return values.view(_BITS[values.type.bit_width]) if pa.types.is_floating(values.type) else values


def _valid(values: pa.Array) -> Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
