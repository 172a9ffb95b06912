"""An Arrow array -> one 64-bit fingerprint for each value, equal for equal values. Partitions and hash tables use them.

Different fixed-width values of up to eight bytes have different fingerprints. Longer values and texts can collide, so a caller that
finds two equal fingerprints must compare the values.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]
Sizes: TypeAlias = npt.NDArray[np.int64]

LONG_BYTES: Final = 256
"""Longer values are hashed one by one. In the vectorized loop, a single long value would add a step for each eight bytes."""
BLOCK_ROWS: Final = 1 << 15
"""The number of values hashed together. They fit in the processor cache."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_LAST_FACTORS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
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
        return np.concatenate([fingerprints(values.slice(start, BLOCK_ROWS)) for start in range(0, len(values), BLOCK_ROWS)])
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if is_short(values.type):
        return _finished(_short(values))
    if _is_fixed(values.type):
        width = _width(values.type)
        bounds = np.arange(values.offset, values.offset + len(values) + 1, dtype=np.int64) * width
        return _finished(_of_bytes(values.buffers()[1], bounds))
    if not _is_bytes(values.type):
        raise pa.ArrowNotImplementedError(f"values of type {values.type} have no fingerprint")
    _, offsets, data = values.buffers()
    wide = np.int64 if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type) else np.int32
    bounds = np.zeros(1, np.int64)
    if offsets is not None and len(values):
        bounds = np.frombuffer(offsets, wide)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return _finished(_of_bytes(data, bounds))


def _short(values: pa.Array) -> Hashes:
    unsigned = _UNSIGNED[_width(values.type)]
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), np.uint64)
    return np.frombuffer(data, unsigned)[values.offset : values.offset + len(values)].astype(np.uint64)


def _of_bytes(data: Any, bounds: Sizes) -> Hashes:
    """Hashes all values together, eight bytes at a time."""
    used = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if data is not None else np.zeros(0, np.uint8)
    padded = np.concatenate([used, np.zeros(8, np.uint8)])
    words: Hashes = np.ndarray((len(used) + 1,), "<u8", buffer=padded, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    numbers = lengths.astype(np.uint64) * _FACTOR
    shortest = int(lengths.min(initial=LONG_BYTES))
    for at in range(0, min(int(lengths.max(initial=0)), LONG_BYTES), 8):
        if at + 8 <= shortest:
            numbers = _mixed(numbers, words[starts + at])
            continue
        longer = np.flatnonzero(lengths > at)
        beyond = np.maximum(at + 8 - lengths[longer], 0).astype(np.uint64) * np.uint64(8)
        numbers[longer] = _mixed(numbers[longer], words[starts[longer] + at] << beyond)
    for at in np.flatnonzero(lengths > LONG_BYTES).tolist():
        digest = blake2b(used[starts[at] : starts[at] + lengths[at]].tobytes(), digest_size=8).digest()
        numbers[at] = int.from_bytes(digest, "little")
    return numbers


def _mixed(numbers: Hashes, words: Hashes) -> Hashes:
    mixed = (numbers ^ words) * _FACTOR
    return mixed ^ (mixed >> np.uint64(29))


def _finished(numbers: Hashes) -> Hashes:
    """A bijection in which every output bit depends on all input bits. The high bits select a slot, the low bits a partition."""
    for factor in _LAST_FACTORS:
        numbers = (numbers ^ (numbers >> np.uint64(33))) * factor
    return numbers ^ (numbers >> np.uint64(33))


def _is_fixed(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_primitive, pa.types.is_fixed_size_binary, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds) and not pa.types.is_interval(type_)


def _width(type_: pa.DataType) -> int:
    return int(type_.bit_width) // 8


def _is_bytes(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(type_) for is_kind in kinds)
