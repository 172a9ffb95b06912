"""Texts -> their words, as a full-text index has them: lower case, without accents, stop words and endings.

Lance analyses texts for an index. Without an index it splits them in another way, so the analysis happens here, by the same function.
A space always ends a word. So texts are split at spaces first, and each distinct part is analysed only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from random import SystemRandom
from typing import Any, Final, TypeAlias

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrays import Mask
from omnigraph.store.membership import is_in

Integers: TypeAlias = npt.NDArray[np.int64]

ANALYSER: Final[dict[str, Any]] = {
    "base_tokenizer": "simple",
    "language": "English",
    "max_token_length": 40,
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
}
"""How a text becomes words. Scans and indexes use the same settings."""
PARTS: Final = 1 << 16
"""The number of distinct parts of texts that are analysed together."""

_MARK: Final = "".join(SystemRandom().choices("123456789", k=32))
"""A word between two parts that are analysed together. It is drawn anew in every process, so that no text contains it."""


def words_of(text: str) -> list[str]:
    """The words of one text, in order, with repetitions."""
    return [token.text for token in lance.tokenize(text, **ANALYSER)]


def spelled_words(text: str) -> dict[str, str]:
    """The distinct words of one text, each as it is spelled there, in lower case: a word is not always its own form."""
    spelled = {token.position: token.text for token in lance.tokenize(text, **ANALYSER | {"stem": False, "remove_stop_words": False})}
    found: dict[str, str] = {}
    for token in lance.tokenize(text, **ANALYSER):
        found.setdefault(token.text, spelled[token.position])
    return found


class Words:
    """The words of a column of texts. A null text has none."""

    def __init__(self, texts: pa.Array) -> None:
        split = pc.ascii_split_whitespace(texts.fill_null(""))
        parts = pc.list_flatten(split).dictionary_encode()
        self._ends: Final[Integers] = np.concatenate([[0], np.cumsum(pc.list_value_length(split).to_numpy(zero_copy_only=False))])
        self._parts: Final = parts.indices.to_numpy(zero_copy_only=False)
        """The parts of all texts, one text after another."""
        self._count: Final = len(parts.dictionary)
        """The number of distinct parts."""
        self._owners, self._codes, self.vocabulary = _analysed(parts.dictionary)

    @cached_property
    def lengths(self) -> Integers:
        """The number of words of each text."""
        return self._sums(np.bincount(self._owners, minlength=self._count))

    def counts(self, chosen: Mask) -> Integers:
        """How many words of each text are among the chosen ones of the vocabulary."""
        if not chosen.any():
            return np.zeros(len(self._ends) - 1, np.int64)
        return self._sums(np.bincount(self._owners[chosen[self._codes]], minlength=self._count))

    def hits(self, word: str) -> tuple[Integers, Integers]:
        """The texts, ascending, that have a word, and how often they have it. Others are not looked at."""
        code = pc.index(self.vocabulary, word).as_py()
        if code < 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        wanted, times = np.unique(self._owners[self._codes == code], return_counts=True)
        order, starts = self._postings
        sizes = starts[wanted + 1] - starts[wanted]
        at = np.repeat(starts[wanted] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        texts = np.searchsorted(self._ends, order[at], side="right") - 1
        found, places = np.unique(texts, return_inverse=True)
        return found, np.bincount(places, np.repeat(times, sizes), len(found)).astype(np.int64)

    @cached_property
    def total(self) -> tuple[int, int]:
        """The number of texts with words, and of their words."""
        return int(np.count_nonzero(self.lengths)), int(self.lengths.sum())

    @cached_property
    def _postings(self) -> tuple[Integers, Integers]:
        """The places of each distinct part, one part after another, and where those of each begin."""
        return np.argsort(self._parts, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(self._parts, minlength=self._count))])

    @property
    def nbytes(self) -> int:
        """What they take in memory, with everything that is computed from them later."""
        places = 2 * self._ends.nbytes + self._parts.nbytes + 8 * len(self._parts) + 8 * self._count
        return int(places + self._owners.nbytes + self._codes.nbytes + self.vocabulary.nbytes)

    def _sums(self, of_parts: Integers) -> Integers:
        totals = np.concatenate([[0], np.cumsum(of_parts[self._parts])])
        sums: Integers = totals[self._ends[1:]] - totals[self._ends[:-1]]
        return sums

    def among(self, words: Sequence[str]) -> Mask:
        """For each word of the vocabulary, whether it is one of these."""
        return is_in(self.vocabulary, pa.array(words, pa.string()))

    def near(self, words: Iterable[str], *, edits: int) -> Mask:
        """For each word of the vocabulary, whether it can be made one of these by at most so many edits."""
        found = np.zeros(len(self.vocabulary), np.bool_)
        for word in words:
            found |= within_edits(self.vocabulary, word, edits)
        return found


def _analysed(parts: pa.Array) -> tuple[Integers, Integers, pa.Array]:
    """Parts of texts -> the words in them: for each, the position of its part and its position in the vocabulary; and the vocabulary."""
    owners, words = [np.zeros(0, np.int64)], [pa.array([], pa.string())]
    for start in range(0, len(parts), PARTS):
        some = parts.slice(start, PARTS)
        joined = pc.binary_join(pa.array([some.to_pylist()], pa.list_(pa.string())), f" {_MARK} ")[0].as_py()
        found = pa.array(words_of(joined), pa.string())
        marks = pc.equal(found, _MARK).to_numpy(zero_copy_only=False)
        owners.append((np.cumsum(marks) + start)[~marks])
        words.append(found.filter(pa.array(~marks)))
    encoded = pa.concat_arrays(words).dictionary_encode()
    return np.concatenate(owners), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


# -- edits


def within_edits(words: pa.Array, wanted: str, edits: int) -> Mask:
    """For each word, whether at most so many letters must be inserted, deleted or replaced to get `wanted` (Levenshtein's distance)."""
    lengths = pc.utf8_length(words).to_numpy(zero_copy_only=False).astype(np.int64)
    near = np.abs(lengths - len(wanted)) <= edits
    found = np.zeros(len(words), np.bool_)
    for places in np.array_split(np.flatnonzero(near), max(1, int(near.sum()) // PARTS)):
        if len(places):
            some = np.asarray(words.take(pa.array(places)).to_pylist(), np.str_)
            found[places] = _distances(some, lengths[places], wanted) <= edits
    return found


def _distances(words: npt.NDArray[np.str_], lengths: Integers, wanted: str) -> Integers:
    """The distances of all words at once, one row of the usual table after another."""
    width = words.dtype.itemsize // 4
    letters = np.ascontiguousarray(words.view(np.uint32).reshape(len(words), width).T)
    before = np.repeat(np.arange(width + 1)[:, None], len(words), axis=1)
    for at, letter in enumerate(wanted, 1):
        row = np.empty_like(before)
        row[0] = at
        replaced = before[:-1] + (letters != ord(letter))
        for place in range(1, width + 1):
            np.minimum(replaced[place - 1], np.minimum(before[place], row[place - 1]) + 1, out=row[place])
        before = row
    return np.asarray(before[lengths, np.arange(len(words))], np.int64)
