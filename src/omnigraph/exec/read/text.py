"""Texts and a query -> which texts match it, and how well. Both depend on the words of the texts alone, never on an index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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


def bm25(
    parts: Iterable[tuple[Numbers64, Words]], query: str, *, size: int, totals: tuple[int, int] | None = None
) -> npt.NDArray[np.float64]:
    """Return the score of each row number below `size`; NaN where the text has no word of the query.

    `parts` are the texts of a whole table: how rare a word is, and how long a text is, is measured against all of them. With `totals`,
    the number of texts and of words in the table, they are at least those that have a word of the query.
    """
    wanted = tuple(dict.fromkeys(words_of(query)))
    lengths = np.zeros(size, np.int64)
    hits: list[list[tuple[Numbers64, Numbers64]]] = [[] for _ in wanted]
    for numbers, words in parts:
        lengths[numbers] = words.lengths
        for word, found in zip(wanted, hits, strict=True):
            at, counts = words.hits(words.among((word,)))
            found.append((numbers[at], counts))
    texts, words_of_all = (int(np.count_nonzero(lengths)), int(lengths.sum())) if totals is None else totals
    scores = np.zeros(size)
    if not texts:
        return np.full(size, np.nan)
    mean = words_of_all / texts
    for found in hits:
        rows = np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in found)])
        counts = np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in found)])
        weight = np.log1p((texts - len(rows) + 0.5) / (len(rows) + 0.5))
        scores[rows] += weight * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths[rows] / mean))
    return np.where(scores > 0, rounded(scores), np.nan)
