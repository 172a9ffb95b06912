"""The packed lists of a full-text index of Lance -> which of its texts have a word, and how often they have it.

A list is a series of blocks. A full block has 128 texts: four bytes of a score, the first text, then the distances from each text to the
next and the counts, each with a byte that says how many bits a number takes. The rest of a list is a block of numbers of variable length:
again the score, then all distances, then all counts.

128 numbers of n bits are four interleaved series of 32: the numbers 0, 4, 8, .. fill the words 0, 4, 8, .. of 32 bits, from the lowest bit.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

BLOCK: Final = 128
_SCORE: Final = 4
_FIRST: Final = 4
_STRETCH: Final = BLOCK // 8
"""How many bytes of a packed block one bit of each number takes."""
_WORD: Final = 32
_LANES: Final = 4
_LONGEST: Final = 5
"""The most bytes of a number of variable length."""
_BEYOND: Final = np.zeros(_WORD, np.uint8)
"""Follows the last block, because two words are read for a number that ends in the first of them."""


class PostingList(NamedTuple):
    """The texts with a word, ascending, as numbers from 0 in the order of the index, and how often they have it."""

    texts: Integers
    counts: Integers


def unpacked(lists: pa.ListArray, lengths: Integers) -> list[PostingList]:
    """The lists of several words, of which each has as many texts as `lengths` says. Raises ValueError for bytes that are no lists."""
    flat = lists.flatten()
    _, offsets, values = flat.buffers()
    starts = np.frombuffer(offsets, np.int64, len(flat) + 1, 8 * flat.offset)
    data = np.frombuffer(values, np.uint8, int(starts[-1])) if values is not None else np.zeros(0, np.uint8)
    data, starts = np.concatenate([data[starts[0] :], _BEYOND]), starts - starts[0]
    blocks, full = np.asarray(lists.value_lengths(), np.int64), lengths // BLOCK
    if not np.array_equal(blocks, full + (lengths % BLOCK > 0)):
        raise ValueError("the lists of a full-text index do not have as many blocks as they need")
    try:
        return _split(data, starts, full, lengths % BLOCK, np.cumsum(blocks) - blocks)
    except IndexError as error:
        raise ValueError("the lists of a full-text index do not decode") from error


def _split(data: Bytes, starts: Integers, full: Integers, rest: Integers, first: Integers) -> list[PostingList]:
    """`first` is the number of the first block of each list, `full` says how many are full, and `rest` what the block after them has."""
    places = [np.arange(at, at + count) for at, count in zip(first.tolist(), full.tolist(), strict=True)]
    packed = np.concatenate(places)
    texts, counts = _full_blocks(data, starts[packed], starts[packed + 1])
    found, at = [], 0
    tails = iter(_tails(data, starts, (first + full)[rest > 0], rest[rest > 0]))
    for blocks, tail in zip(full.tolist(), rest.tolist(), strict=True):
        parts = [PostingList(texts[at : at + blocks].ravel(), counts[at : at + blocks].ravel())]
        if tail:
            parts.append(next(tails))
        found.append(parts[0] if len(parts) == 1 else PostingList(*map(np.concatenate, zip(*parts, strict=True))))
        at += blocks
    return found


def _full_blocks(data: Bytes, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """The texts and counts of full blocks, 128 in a row."""
    words: Any = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))  # the word that begins at each byte
    distances = starts + _SCORE + _FIRST
    counts = distances + 1 + _STRETCH * data[distances].astype(np.int64)
    if not np.array_equal(counts + 1 + _STRETCH * data[counts].astype(np.int64), ends):
        raise ValueError("a block of a full-text index is longer or shorter than its numbers are")
    numbers = _numbers(words, np.concatenate([distances, counts]) + 1, data[np.concatenate([distances, counts])])
    texts = words[starts + _SCORE].astype(np.int64)[:, None] + np.cumsum(numbers[: len(starts)], axis=1)
    return texts, numbers[len(starts) :]


def _numbers(words: Any, starts: Integers, bits: Bytes) -> Integers:
    """Packed numbers of several widths, 128 in a row."""
    widths = bits.astype(np.int64)[:, None]
    if (widths > _WORD).any():
        raise ValueError("a number of a full-text index has more bits than it can have")
    low = np.arange(_WORD) * widths
    at = (starts[:, None] + low // _WORD * (4 * _LANES))[:, :, None] + 4 * np.arange(_LANES)
    pairs = words[at].astype(np.uint64) | words[at + 4 * _LANES].astype(np.uint64) << np.uint64(_WORD)
    masks = (np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1)
    numbers: Integers = (pairs >> (low % _WORD).astype(np.uint64)[:, :, None] & masks[:, :, None]).astype(np.int64)
    return numbers.reshape(-1, BLOCK)


def _tails(data: Bytes, starts: Integers, blocks: Integers, lengths: Integers) -> list[PostingList]:
    """What blocks that are not full have."""
    if not len(blocks):
        return []
    numbers = _variable(np.concatenate([data[starts[at] + _SCORE : starts[at + 1]] for at in blocks.tolist()]))
    if len(numbers) != 2 * lengths.sum():
        raise ValueError("a block of a full-text index has more or fewer numbers than texts")
    ends = 2 * np.cumsum(lengths)
    return [
        PostingList(np.cumsum(numbers[end - 2 * length : end - length]), numbers[end - length : end])
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]


def _variable(data: Bytes) -> Integers:
    """Numbers of variable length, seven bits in a byte, the lowest first; the highest bit of a byte says that another one follows."""
    if not len(data) or data[-1] >= 0x80:
        raise ValueError("a number of a full-text index does not end")
    ends = np.flatnonzero(data < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    if (sizes > _LONGEST).any():
        raise ValueError("a number of a full-text index has more bytes than it can have")
    parts = (data & 0x7F).astype(np.int64) << 7 * (np.arange(len(data)) - np.repeat(starts, sizes))
    sums: Integers = np.add.reduceat(parts, starts)
    return sums
