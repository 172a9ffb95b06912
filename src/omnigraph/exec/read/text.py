"""Texts and a query -> which texts match it, and how well. Both depend on the words of the texts alone, never on an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.plan import ir
from omnigraph.plan.typed import TextMode
from omnigraph.store.arrays import Mask
from omnigraph.store.words import Words, words_of

K1: Final = 1.2
B: Final = 0.75
"""The usual constants of BM25: how soon more occurrences of a word stop counting, and how much a long text loses."""

UNITS: Final = float(1 << 40)
"""Scores are multiples of one part in this many. Two scores that are equal by their formula are then equal, however they were rounded."""


class TextMatcher:
    """A text match, ready for any number of columns: the words of the query are found once."""

    def __init__(self, match: ir.TextMatch) -> None:
        self._words: Final = tuple(dict.fromkeys(words_of(match.query)))
        self._edits: Final = match.max_edits if match.mode is TextMode.FUZZY else 0

    def found(self, texts: pa.Array) -> Mask:
        """Return for each text whether it has a word of the query. A null text has none."""
        if not self._words:
            return np.zeros(len(texts), np.bool_)
        words = Words(texts)
        chosen = words.near(self._words, edits=self._edits) if self._edits else words.among(self._words)
        return words.counts(chosen) > 0


def rounded(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return scores as multiples of a unit far below what they mean."""
    return np.rint(scores * UNITS) / UNITS


class Hits(NamedTuple):
    """The texts with one word: their row numbers, how often they have it, and the number of their words."""

    numbers: Numbers64
    counts: Numbers64
    lengths: Numbers64


class Relevance(NamedTuple):
    """The row numbers, ascending, of the texts that have a word of a query, and their scores. Other texts have no score."""

    numbers: Numbers64
    scores: npt.NDArray[np.float64]


def hits_of(parts: Iterable[tuple[Numbers64, Words]], wanted: Sequence[str]) -> tuple[list[Hits], tuple[int, int]]:
    """Return the texts with each word, and the number of texts and of words in the table, from the words of all its texts."""
    found: list[list[Hits]] = [[Hits(*(np.zeros(0, np.int64),) * 3)] for _ in wanted]
    texts, every = 0, 0
    for numbers, words in parts:
        texts, every = texts + words.total[0], every + words.total[1]
        for word, hits in zip(wanted, found, strict=True):
            at, counts = words.hits(word)
            hits.append(Hits(numbers[at], counts, words.lengths[at]))
    return [Hits(*map(np.concatenate, zip(*hits, strict=True))) for hits in found], (texts, every)


def rarity(texts: int, having: int) -> float:
    """Return the weight of a word that some of the texts have."""
    return float(np.log1p((texts - having + 0.5) / (having + 0.5)))


def bm25(hits: Sequence[Hits], *, texts: int, words: int) -> Relevance:
    """Return the scores of the texts that have one of several words.

    How rare a word is, and how long a text is, is measured against all texts of the table: `texts` that have words, `words` of them.
    """
    numbers = np.concatenate([np.zeros(0, np.int64), *(each.numbers for each in hits)])
    parts = [np.zeros(0)]
    for each in hits:
        lengthened = K1 * (1 - B + B * each.lengths / (words / texts)) if texts else 0.0
        parts.append(rarity(texts, len(each.numbers)) * each.counts * (K1 + 1) / (each.counts + lengthened))
    found, places = np.unique(numbers, return_inverse=True)
    return Relevance(found, rounded(np.bincount(places, np.concatenate(parts), len(found)).astype(np.float64)))
