"""A number n -> n fresh ULIDs in ascending order, minted as one column."""

from __future__ import annotations

import secrets
import time
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ALPHABET: Final = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
_LENGTH: Final = 26
_TIME_DIGITS: Final = 10  # of five bits each: 48 bits of milliseconds
_HALF_DIGITS: Final = 8  # 80 random bits are two halves of 40


def mint(count: int) -> pa.Array:
    """`count` ULIDs of this millisecond, sorted. All are equally random: none can be guessed from another."""
    now = np.array([time.time_ns() // 1_000_000], np.uint64)
    # Two words of 40 bits from the system's source of randomness; sorted as pairs, so that equal high words stay in order.
    halves = np.frombuffer(secrets.token_bytes(16 * count), np.uint64).reshape(2, count) >> np.uint64(24)
    high, low = halves[:, np.lexsort((halves[1], halves[0]))]
    text = np.empty((count, _LENGTH), np.uint8)
    text[:, :_TIME_DIGITS] = _digits(now, _TIME_DIGITS)
    text[:, _TIME_DIGITS : _TIME_DIGITS + _HALF_DIGITS] = _digits(high, _HALF_DIGITS)
    text[:, _TIME_DIGITS + _HALF_DIGITS :] = _digits(low, _HALF_DIGITS)
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))])


def _digits(numbers: npt.NDArray[np.uint64], digits: int) -> npt.NDArray[np.uint8]:
    shifts = np.arange(5 * (digits - 1), -1, -5, dtype=np.uint64)
    places: npt.NDArray[np.uint64] = (numbers[:, None] >> shifts) & np.uint64(31)
    return np.take(_ALPHABET, places)
