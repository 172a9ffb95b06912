"""A number of rows -> as many new ids, all at once."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow as pa

_ALPHABET: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = np.array([[first, second] for first in _ALPHABET for second in _ALPHABET], np.uint8).view(np.uint16).reshape(-1)
"""The two characters for each 10-bit value, as one 16-bit word in memory order."""
_LENGTH: Final = 26
_TIME_PAIRS: Final = 5  # 50 bits, of which the milliseconds take 48
_HALF_PAIRS: Final = 4  # 80 random bits are two halves of 40
_HALF: Final = 1 << 40


def mint(count: int) -> pa.Array:
    """`count` ULIDs of this millisecond, in ascending order.

    The upper random half counts up from a random start, which orders the ids. The lower half is random for each id. Two calls in the
    same millisecond, in any two processes, are as unlikely to collide as fully random ids.
    """
    random = np.random.default_rng()  # seeded by the system for each call, so that forked processes do not repeat each other
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
