"""Texts, vectors and a query -> which texts match, and scores: the simplest analyser and the plain formulas."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence


def tokens(text: str) -> list[str]:
    """Words in lower case without a plural's `s`: enough of a stemmer for small examples."""
    return [word.rstrip("s") for word in re.findall(r"\w+", text.lower())]


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


def distances(vectors: Mapping[str, Sequence[float] | None], query: Sequence[float]) -> dict[str, float]:
    """The cosine distance of every id that has a vector with a direction."""
    return {id_: 1 - _cosine(vector, query) for id_, vector in vectors.items() if vector is not None and any(vector)}


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def bm25(texts: Mapping[str, str | None], query: str, ids: set[str]) -> dict[str, float]:
    """The score of every one of `ids` whose text has a word of the query; all texts count for how rare a word is."""
    words = {id_: tokens(text) for id_, text in texts.items() if text}
    mean = sum(map(len, words.values())) / max(1, len(words))
    scores: dict[str, float] = {}
    for id_ in ids & set(words):
        found = words[id_]
        score = 0.0
        for token in set(tokens(query)) & set(found):
            holding = sum(token in other for other in words.values())
            weight = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
            score += weight * found.count(token) * 2.2 / (found.count(token) + 1.2 * (0.25 + 0.75 * len(found) / mean))
        if score:
            scores[id_] = score
    return scores


def fused(rankings: Sequence[Sequence[str]], k: int) -> dict[str, float]:
    """Reciprocal rank fusion of lists of ids, best first."""
    total: dict[str, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            total[id_] = total.get(id_, 0.0) + 1 / (k + rank)
    return total
