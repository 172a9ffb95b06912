"""A column with a full-text index -> which texts have a word, how often, and how long they are, without reading the texts.

The lists of the index say it, if their format is known. Otherwise Lance is asked. It does not say how often a text has a word, but its
score does: it is BM25 for one word, from numbers that are whole. The length of every text is in a file of the index, so the count is
computed from the score, and is refused unless it is very nearly whole. So counts are exact although scores are of single precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.exec.adjacency.numbering import Numbering, Numbers64
from omnigraph.exec.read.text import K1, B, Hits, rarity
from omnigraph.lru import Lru
from omnigraph.store.tables import Table
from omnigraph.store.word_lists import WordLists
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


class Counted(NamedTuple):
    """The row numbers of texts that have a word, and how often they have it."""

    numbers: Numbers64
    counts: Numbers64


class Covered(Protocol):
    """The texts that an index covers, by their words."""

    @property
    def search_each(self) -> bool:
        """Whether each word costs a search."""
        ...

    def of(self, words: Mapping[str, str]) -> Sequence[Counted] | None:
        """Return the texts with each word, given with a text that has this word and no other; None if the index cannot tell."""
        ...


class Postings:
    """The texts of one column at one version by their words: those that an index covers, and the others, whose words are given."""

    def __init__(self, covered: Covered, lengths: Lengths, *, rest: Numbers64, rest_words: Words) -> None:
        """`lengths` has the number of words of every text by its number."""
        self._covered: Final = covered
        self._lengths: Final = lengths
        self._rest: Final = rest
        self._rest_words: Final = rest_words
        self._kept: Final = Lru[str, Hits](KEPT_BYTES, weigh=lambda hits: hits.numbers.nbytes + hits.counts.nbytes + hits.lengths.nbytes)
        self.totals: Final = Totals(int(np.count_nonzero(lengths)), int(lengths.sum()))

    def searches(self, words: Mapping[str, str]) -> int:
        """Return how many searches the index has to make for some words."""
        return sum(self._kept.get(word) is None for word in words) if self._covered.search_each else 0

    def of(self, words: Mapping[str, str]) -> list[Hits] | None:
        """Return the texts with each word; None if the index cannot tell. Each word comes with a text that has it and no other."""
        found = {word: hits for word in words if (hits := self._kept.get(word)) is not None}
        asked = {word: spelled for word, spelled in words.items() if word not in found}
        if asked:
            if (covered := self._covered.of(asked)) is None:
                return None
            found |= {word: self._kept.put(word, self._hits(word, *counted)) for word, counted in zip(asked, covered, strict=True)}
        return [found[word] for word in words]

    def _hits(self, word: str, numbers: Numbers64, counts: Numbers64) -> Hits:
        if len(self._rest):
            others, more = self._rest_words.hits(word)
            numbers, counts = np.concatenate([numbers, self._rest[others]]), np.concatenate([counts, more])
        return Hits(numbers, counts, self._lengths[numbers].astype(np.int64))


class Listed:
    """The texts by the lists of an index. Texts that were deleted since are in them, and left out."""

    search_each: Final = False

    def __init__(self, table: Table, column: str, lists: WordLists, numbers: Numbers64 | Lengths) -> None:
        """`numbers` has the row number of each text in the order of the index; -1 for one that is gone."""
        self._table: Final = table
        self._column: Final = column
        self._lists: Final = lists
        self._numbers: Final = numbers

    def of(self, words: Mapping[str, str]) -> list[Counted] | None:
        if (found := self._table.listed(self._column, self._lists, list(words))) is None:
            return None
        return [self._present(texts, counts) for texts, counts in found]

    def _present(self, texts: Numbers64, counts: Numbers64) -> Counted:
        numbers = self._numbers[texts].astype(np.int64)
        there = numbers >= 0
        return Counted(numbers, counts) if there.all() else Counted(numbers[there], counts[there])


class Scored:
    """The texts by the scores of an index. No text in it may have been deleted: Lance goes on counting it."""

    search_each: Final = True

    def __init__(self, table: Table, numbers: Numbering, column: str, lengths: Lengths, totals: Totals) -> None:
        """`totals` are those of the texts that the index covers."""
        self._table: Final = table
        self._numbers: Final = numbers
        self._column: Final = column
        self._lengths: Final = lengths
        self._totals: Final = totals

    def of(self, words: Mapping[str, str]) -> list[Counted] | None:
        found = [self._one(spelled) for spelled in words.values()]
        told = [each for each in found if each is not None]
        return told if len(told) == len(found) else None

    def _one(self, spelled: str) -> Counted | None:
        if (found := self._table.word_scores(self._column, spelled)) is None:
            return None
        numbers = self._numbers.from_addresses(found.addresses)
        counts = self._counts(found.scores, self._lengths[numbers])
        near = np.rint(counts)
        if len(counts) and not ((np.abs(counts - near) <= TOLERANCE) & (near >= 1) & (near <= MOST_COUNT)).all():
            return None
        return Counted(numbers, near.astype(np.int64))

    def _counts(self, scores: Floats, lengths: Lengths) -> Floats:
        """Solve the formula of BM25 for the number of occurrences."""
        texts, words = self._totals
        if not len(scores) or not texts:
            return np.zeros(len(scores))
        saturation = scores / rarity(texts, len(scores))
        with np.errstate(all="ignore"):  # what does not come out is refused
            return saturation * K1 * (1 - B + B * lengths / (words / texts)) / (K1 + 1 - saturation)
