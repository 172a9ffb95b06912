"""A column with a full-text index -> which texts have a word, how often, and how long they are, without reading the texts.

Lance's index does not say how often a text has a word, but its score does: it is BM25 for one word, from numbers that are whole. The
length of every text is in a file of the index, so the count is computed from the score, and is refused unless it is very nearly whole. So
counts are exact although scores are of single precision.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.exec.adjacency.numbering import Numbering, Numbers64
from omnigraph.exec.read.text import K1, B, Hits, rarity
from omnigraph.lru import Lru
from omnigraph.store.tables import Table
from omnigraph.store.words import Words

Floats: TypeAlias = npt.NDArray[np.float64]
Lengths: TypeAlias = npt.NDArray[np.int32]

MOST_COUNT: Final = 200
"""Above this many occurrences of a word in one text, scores of single precision do not tell them apart safely."""
TOLERANCE: Final = 0.02
"""How far from a whole number a computed count may be. Its error is below a thousandth for the counts of most texts."""
KEPT_BYTES: Final = 8 << 20
"""The size of the postings of a column that are kept in memory."""


class Totals(NamedTuple):
    """How many texts have words, and how many words they have together."""

    texts: int
    words: int


class Postings:
    """The texts of one column at one version by their words: those that an index covers, and the others, whose words are given."""

    def __init__(
        self, table: Table, numbers: Numbering, column: str, *, lengths: Lengths, covered: Totals, rest: Numbers64, rest_words: Words
    ) -> None:
        """`lengths` has the number of words of every text by its number. No text in the index may have been deleted."""
        self._table: Final = table
        self._numbers: Final = numbers
        self._column: Final = column
        self._lengths: Final = lengths
        self._covered: Final = covered
        self._rest: Final = rest
        self._rest_words: Final = rest_words
        self._kept: Final = Lru[str, Hits](KEPT_BYTES, weigh=lambda hits: hits.numbers.nbytes + hits.counts.nbytes + hits.lengths.nbytes)
        self.totals: Final = Totals(int(np.count_nonzero(lengths)), int(lengths.sum()))

    def kept(self, word: str) -> bool:
        """Return whether no index has to be asked for a word."""
        return self._kept.get(word) is not None

    def of(self, word: str, spelled: str) -> Hits | None:
        """Return the texts with a word; None if the index cannot tell. `spelled` is a text that has this word and no other."""
        if (known := self._kept.get(word)) is not None:
            return known
        if (found := self._table.word_scores(self._column, spelled)) is None:
            return None
        numbers = self._numbers.from_addresses(found.addresses)
        lengths = self._lengths[numbers]
        counts = self._counts(found.scores, lengths)
        near = np.rint(counts)
        if len(counts) and not ((np.abs(counts - near) <= TOLERANCE) & (near >= 1) & (near <= MOST_COUNT)).all():
            return None
        others, more = self._rest_words.hits(word)
        rest = self._rest[others]
        hits = Hits(
            np.concatenate([numbers, rest]),
            np.concatenate([near.astype(np.int64), more]),
            np.concatenate([lengths, self._lengths[rest]]).astype(np.int64),
        )
        return self._kept.put(word, hits)

    def _counts(self, scores: Floats, lengths: Lengths) -> Floats:
        """Solve the formula of BM25 for the number of occurrences."""
        texts, words = self._covered
        if not len(scores) or not texts:
            return np.zeros(len(scores))
        saturation = scores / rarity(texts, len(scores))
        with np.errstate(all="ignore"):  # what does not come out is refused
            return saturation * K1 * (1 - B + B * lengths / (words / texts)) / (K1 + 1 - saturation)
