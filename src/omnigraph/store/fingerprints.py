"""An Arrow array -> one 64-bit fingerprint for each value, equal for equal values. Partitions and hash tables use them.

Different fixed-width values of up to eight bytes have different fingerprints. Longer values and texts can collide, so a caller that
finds two equal fingerprints must compare the values.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]
Sizes: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

LONG_BYTES: Final = 256
"""Longer values are hashed one by one. In the vectorized loop, a single long value would add a step for each eight bytes."""
BLOCK_ROWS: Final = 1 << 15
"""The number of values hashed together. They fit in the processor cache."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_LAST_FACTORS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_ALL: Final = (1 << 64) - 1
_UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def is_short(type_: pa.DataType) -> bool:
    """Whether equal fingerprints mean equal values."""
    return pa.types.is_boolean(type_) or (_is_fixed(type_) and _width(type_) in _UNSIGNED)


def can_fingerprint(type_: pa.DataType) -> bool:
    """Whether a type is text, binary or of fixed width. Lists, structs and dictionaries are not supported."""
    return pa.types.is_boolean(type_) or _is_fixed(type_) or _is_bytes(type_)


def fingerprints(values: pa.Array) -> Hashes:
    """Returns the fingerprint of each value. That of a null is undefined. Floats are compared by their bits."""
    if len(values) > BLOCK_ROWS:
        numbers = np.empty(len(values), np.uint64)
        for start in range(0, len(values), BLOCK_ROWS):
            numbers[start : start + BLOCK_ROWS] = fingerprints(values.slice(start, BLOCK_ROWS))
        return numbers
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if is_short(values.type):
        return _finished(_short(values))
    if not (_is_fixed(values.type) or _is_bytes(values.type)):
        raise pa.ArrowNotImplementedError(f"values of type {values.type} have no fingerprint")
    data, bounds = _bytes(values)
    return _finished(_of_bytes(data[bounds[0] : bounds[-1]], bounds - bounds[0]))


def fingerprint(value: bytes) -> int:
    """The fingerprint of a text or of bytes. For a few values, this costs less than an array."""
    if len(value) > LONG_BYTES:
        return _finished_one(_digest(value))
    number = len(value) * int(_FACTOR) & _ALL
    for at in range(0, len(value), 8):
        word = value[at : at + 8]
        number = (number ^ int.from_bytes(word, "little") << 8 * (8 - len(word))) * int(_FACTOR) & _ALL
        number ^= number >> 29
    return _finished_one(number)


class EqualWidth:
    """Values that all have the same number of bytes, more than none and up to `LONG_BYTES`."""

    def __init__(self, data: Bytes, width: int) -> None:
        self.width: Final = width
        self._rows: Final[npt.NDArray[np.void]] = data.view(f"V{width}")

    @staticmethod
    def of(values: pa.Array) -> EqualWidth | None:
        """A view of the values, or None if they differ in width."""
        if not can_fingerprint(values.type) or pa.types.is_boolean(values.type) or not len(values):
            return None
        data, bounds = _bytes(values)
        width = int(bounds[1] - bounds[0])
        if not 0 < width <= LONG_BYTES or int(bounds[-1] - bounds[0]) != width * len(values) or (np.diff(bounds) != width).any():
            return None
        return EqualWidth(data[bounds[0] : bounds[-1]], width)

    @cached_property
    def _last_words(self) -> Hashes:
        return np.ascontiguousarray(self._words(self._rows, self.width - 8))

    def same(self, places: Sizes, others: EqualWidth) -> Mask:
        """Whether the values at some places equal others of the same width, if their fingerprints are equal.

        The words after the first are compared. A fingerprint is a bijection of the first word, if the others are equal.
        """
        if self.width <= 8:
            return np.ones(len(places), np.bool_)
        if self.width <= 16:
            last: Mask = self._last_words[places] == self._words(others._rows, self.width - 8)
            return last
        rows, equal = self._rows.take(places), np.ones(len(places), np.bool_)
        for start in range(8, self.width, 8):
            at = min(start, self.width - 8)
            equal &= self._words(rows, at) == self._words(others._rows, at)
        return equal

    def _words(self, rows: npt.NDArray[np.void], at: int) -> Hashes:
        return np.ndarray((len(rows),), "<u8", buffer=rows, offset=at, strides=(self.width,))


def _bytes(values: pa.Array) -> tuple[Bytes, Sizes]:
    """The data of a column, and where each of its values begins and ends in it."""
    if _is_fixed(values.type):
        data, bounds = values.buffers()[1], np.arange(values.offset, values.offset + len(values) + 1) * _width(values.type)
    else:
        _, offsets, data = values.buffers()
        wide = np.int64 if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type) else np.int32
        bounds = np.zeros(1, np.int64)
        if offsets is not None and len(values):
            bounds = np.frombuffer(offsets, wide)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(int(bounds[-1]), np.uint8), bounds


def _short(values: pa.Array) -> Hashes:
    unsigned = _UNSIGNED[_width(values.type)]
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), np.uint64)
    return np.frombuffer(data, unsigned)[values.offset : values.offset + len(values)].astype(np.uint64)


def _of_bytes(data: Bytes, bounds: Sizes) -> Hashes:
    """Hashes all values together, eight bytes at a time."""
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    starts, lengths = bounds[:-1], np.diff(bounds)
    shortest, longest = int(lengths.min(initial=LONG_BYTES)), int(lengths.max(initial=0))
    if 0 < shortest == longest <= LONG_BYTES:
        return _of_one_width(padded, len(lengths), longest)
    words: Hashes = np.ndarray((len(data) + 1,), "<u8", buffer=padded, strides=(1,))
    numbers = lengths.astype(np.uint64) * _FACTOR
    for at in range(0, min(longest, LONG_BYTES), 8):
        if at + 8 <= shortest:
            numbers = _mixed(numbers, words[starts + at])
            continue
        longer = np.flatnonzero(lengths > at)
        beyond = np.maximum(at + 8 - lengths[longer], 0).astype(np.uint64) * np.uint64(8)
        numbers[longer] = _mixed(numbers[longer], words[starts[longer] + at] << beyond)
    for at in np.flatnonzero(lengths > LONG_BYTES).tolist():
        numbers[at] = _digest(data[starts[at] : starts[at] + lengths[at]].tobytes())
    return numbers


def _of_one_width(padded: Bytes, count: int, width: int) -> Hashes:
    """The same for values of one width, which need no index: a third of the time."""
    numbers = np.full(count, width * int(_FACTOR) & _ALL, np.uint64)
    for at in range(0, width, 8):
        words: Hashes = np.ndarray((count,), "<u8", buffer=padded, offset=at, strides=(width,))
        beyond = max(at + 8 - width, 0) * 8
        numbers = _mixed(numbers, words << np.uint64(beyond) if beyond else words)
    return numbers


def _digest(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "little")


def _mixed(numbers: Hashes, words: Hashes) -> Hashes:
    mixed = numbers ^ words
    mixed *= _FACTOR
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _finished(numbers: Hashes) -> Hashes:
    """A bijection in which every output bit depends on all input bits. The high bits select a slot, the low bits a partition."""
    for factor in _LAST_FACTORS:
        numbers = numbers ^ (numbers >> np.uint64(33))
        numbers *= factor
    numbers ^= numbers >> np.uint64(33)
    return numbers


def _finished_one(number: int) -> int:
    for factor in _LAST_FACTORS:
        number = (number ^ number >> 33) * int(factor) & _ALL
    return number ^ number >> 33


def _is_fixed(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_primitive, pa.types.is_fixed_size_binary, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds) and not pa.types.is_interval(type_)


def _width(type_: pa.DataType) -> int:
    return int(type_.bit_width) // 8


def _is_bytes(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(type_) for is_kind in kinds)
