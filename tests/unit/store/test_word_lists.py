"""Bytes that are no words or lists of a full-text index: refused, never misread without end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.store.posting_lists import PostingList, unpacked
from omnigraph.store.word_map import WordMap

HEAD = (3).to_bytes(8, "little") + bytes(8)
LISTS = pa.list_(pa.large_binary())


def lists(*blocks: list[bytes]) -> pa.ListArray:
    return pa.array(list(blocks), LISTS)


def equal(one: PostingList, texts: list[int], counts: list[int]) -> bool:
    return (one.texts.tolist(), one.counts.tolist()) == (texts, counts)


def full(first: int, distances: int, counts: int) -> bytes:
    """A block of 128 texts with equal distances of up to one bit, and equal counts of up to one bit."""
    bits = [bytes([1]) + (b"\xff" if each else b"\x00") * 16 for each in (distances, counts)]
    return bytes(4) + first.to_bytes(4, "little") + b"".join(bits)


def test_lists_of_blocks_that_are_full_and_blocks_that_are_not() -> None:
    """Several lists at once, empty ones among them, and a slice of more."""
    tail = bytes(4) + bytes([0xAC, 0x02, 1, 7, 0x80, 0x01])  # 300, 1; 7, 128
    found = unpacked(
        lists([b"?"], [full(9, 1, 1), tail], [], [tail], [full(0, 0, 1)]).slice(1),
        np.array([130, 0, 2, 128]),
    )
    assert equal(found[0], [*range(10, 138), 300, 301], [1] * 128 + [7, 128])
    assert equal(found[1], [], [])
    assert equal(found[2], [300, 301], [7, 128])
    assert equal(found[3], [0] * 128, [1] * 128)


@pytest.mark.parametrize(
    ("blocks", "length"),
    [
        ([full(9, 1, 1)], 129),
        ([full(9, 1, 1), b"1234\x01\x01"], 128),
        ([full(9, 1, 1)[:-1]], 128),
        ([full(9, 1, 1) + b"!"], 128),
        ([b""], 128),
        ([bytes(8) + bytes([33]) + bytes(16 * 33) + bytes([0])], 128),
        ([b"1234\x01"], 1),
        ([b"1234\x01\x01\x01"], 1),
        ([b"1234\x01\x81"], 1),
        ([b"1234\x01\xff\xff\xff\xff\xff\x01"], 1),
        ([b""], 1),
    ],
    ids=["too few", "too many", "cut", "longer", "empty", "too wide", "no count", "more", "open", "long number", "no bytes"],
)
def test_lists_that_do_not_fit_are_refused(blocks: list[bytes], length: int) -> None:
    with pytest.raises(ValueError, match="full-text index"):
        unpacked(lists(blocks), np.array([length]))


@given(st.lists(st.binary(max_size=60), max_size=4), st.integers(0, 400))
def test_any_bytes_are_lists_or_refused(blocks: list[bytes], length: int) -> None:
    try:
        (found,) = unpacked(lists(blocks), np.array([length]))
    except ValueError:
        return
    assert len(found.texts) == len(found.counts) == length


@given(st.binary(max_size=200), st.text(max_size=8))
def test_any_bytes_are_words_or_refused(data: bytes, word: str) -> None:
    try:
        words = WordMap(HEAD + data)
        found = words.find(word)
    except ValueError:
        return
    assert found is None or found < words.count


def test_words_of_another_version_are_refused() -> None:
    assert not WordMap.is_known(b"\x04" + bytes(60))
    for data in (b"", b"\x04" + bytes(60), HEAD + bytes(3)):
        with pytest.raises(ValueError, match="unknown format"):
            WordMap(data)
