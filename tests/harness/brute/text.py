"""Texts, vectors and a query -> which texts match, and scores: one text after another, by the plain formulas.

The words of a text are what Lance says they are. All else is written here once more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final, TypeVar

import lance

Id = TypeVar("Id", bound=Hashable)

UNITS: Final = 2.0**40
"""Scores are compared, and shown, as multiples of one part in this many."""


@cache
def tokens(text: str) -> list[str]:
    """The words of a text: in lower case, without accents, stop words and endings."""
    return [token.text for token in lance.tokenize(text)]


def text_matches(text: str, query: str, *, edits: int = 0) -> bool:
    """Whether a word of the text is one of the query's, up to so many edits."""
    return any(distance(word, wanted) <= edits for word in tokens(text) for wanted in tokens(query))


def distance(a: str, b: str) -> int:
    """Levenshtein's: letters to insert, delete or replace."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row = row, [i]
        for j, right in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (left != right)))
    return row[-1]


def distances(vectors: Mapping[Id, Sequence[float] | None], query: Sequence[float]) -> dict[Id, float]:
    """The cosine distance of every id that has a vector with a direction."""
    return {id_: _rounded(1 - _cosine(vector, query)) for id_, vector in vectors.items() if vector is not None and any(vector)}


def _rounded(score: float) -> float:
    return round(score * UNITS) / UNITS


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def bm25(texts: Mapping[Id, str | None], query: str, ids: AbstractSet[Id]) -> dict[Id, float]:
    """The score of every one of `ids` whose text has a word of the query; all texts count for how rare a word is."""
    words = {id_: tokens(text) for id_, text in texts.items() if text and tokens(text)}
    mean = sum(map(len, words.values())) / max(1, len(words))
    scores: dict[Id, float] = {}
    for id_ in ids & set(words):
        found = words[id_]
        terms = []
        for token in set(tokens(query)) & set(found):
            holding = sum(token in other for other in words.values())
            weight = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
            terms.append(weight * found.count(token) * 2.2 / (found.count(token) + 1.2 * (0.25 + 0.75 * len(found) / mean)))
        if terms:
            scores[id_] = _rounded(math.fsum(terms))
    return scores


def fused(rankings: Sequence[Sequence[Id]], k: int) -> dict[Id, float]:
    """Reciprocal rank fusion of lists of ids, best first."""
    total: dict[Id, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            total[id_] = total.get(id_, 0.0) + 1 / (k + rank)
    return total
