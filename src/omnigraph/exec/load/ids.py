"""Rows without their ids, and the ids that records brought -> every row's id: derived from its key, kept, or minted."""

from __future__ import annotations

import time
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import derive_ids
from omnigraph.catalog.model import EntityType, NodeType
from omnigraph.store.arrays import whole

_ALPHABET: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = np.array([[first, second] for first in _ALPHABET for second in _ALPHABET], np.uint8).view(np.uint16).reshape(-1)
"""Two characters for each value of ten bits, as they lie in memory."""
_LENGTH: Final = 26
_TIME_PAIRS: Final = 5  # 50 bits, of which the milliseconds take 48
_HALF_PAIRS: Final = 4  # 80 random bits are two halves of 40
_HALF: Final = 1 << 40


def mint(count: int) -> pa.Array:
    """`count` ULIDs of this millisecond, in order.

    The upper random half counts up from a random start, which orders them; the lower half is random for each. Two mints
    in one millisecond, in any two processes, are as unlikely to meet as ids that are random throughout.
    """
    random = np.random.default_rng()  # seeded by the system for each mint, so that forks do not repeat each other
    high = np.arange(count, dtype=np.int64) + random.integers(_HALF - count)
    text = np.empty((count, _LENGTH // 2), np.uint16)
    for place, pair in enumerate(_pairs(time.time_ns() // 1_000_000, _TIME_PAIRS)):
        text[:, place] = pair
    for place in range(_HALF_PAIRS):
        text[:, _TIME_PAIRS + place] = _PAIRS[(high >> (10 * (_HALF_PAIRS - 1 - place))) & 1023]
    text[:, _TIME_PAIRS + _HALF_PAIRS :] = _PAIRS[random.integers(1024, size=(count, _HALF_PAIRS), dtype=np.uint16)]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _pairs(number: int, count: int) -> list[np.uint16]:
    return [_PAIRS[(number >> (10 * place)) & 1023] for place in reversed(range(count))]


class Identified(msgspec.Struct, frozen=True):
    """Ids of all rows, whether every one was minted here, and the rows (from 0) whose record said another id."""

    ids: pa.Array
    minted: bool
    wrong: pa.Array


def identify(entity: EntityType, given: pa.Array, properties: pa.Table) -> Identified:
    """The ids of rows; `given` is null where a record brought none."""
    none = pa.array([], pa.int64())
    if isinstance(entity, NodeType) and entity.key is not None:
        derived = whole(derive_ids(entity.key, properties))
        if given.null_count == len(given):
            return Identified(derived, minted=False, wrong=none)
        differs = pc.fill_null(pc.not_equal(given, derived), fill_value=False)
        return Identified(derived, minted=False, wrong=pc.indices_nonzero(differs).cast(pa.int64()))
    if not given.null_count:
        return Identified(given, minted=False, wrong=none)
    fresh = mint(given.null_count)
    if given.null_count == len(given):
        return Identified(fresh, minted=True, wrong=none)
    missing = given.is_null()
    places = np.cumsum(missing.to_numpy(zero_copy_only=False)) - 1
    return Identified(pc.if_else(missing, fresh.take(pa.array(np.maximum(places, 0))), given), minted=False, wrong=none)
