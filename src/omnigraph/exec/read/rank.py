"""Rows and a ranking -> the same rows with a score. The score of an entity is computed once, however many rows it is in.

Scores are exact: distances are computed in double precision, and the relevance of a text from the words of all texts of its type. Which
rows are the nearest is exact too, unless an index finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import TypeKind
from omnigraph.exec.adjacency.column_cache import LARGEST_SQUARE, SMALLEST_SQUARE, VectorMatrix
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.entities import SMALL_TABLE_ROWS, SPARSE, Check, Entities
from omnigraph.exec.read.entity_union import AnyEntities
from omnigraph.exec.read.expressions import score_field
from omnigraph.exec.read.order import OrderColumn, places
from omnigraph.exec.read.rows import BATCH, NULL_ENTITY, Rows, distinct
from omnigraph.exec.read.text import Relevance, bm25, hits_of, rounded
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import ID, TYPE, Field, TypeRef
from omnigraph.plan.planner import HELD_NUMBERS
from omnigraph.store.arrays import Column, Mask, whole
from omnigraph.store.words import Words, spelled_words

Floats: TypeAlias = npt.NDArray[np.float64]

NUMBERS: Final = 1 << 20
"""How many numbers of vectors are multiplied together: few enough to stay in the cache of a processor."""


class Scores(Protocol):
    """The scores of one ranking."""

    def of(self, numbers: Numbers64) -> Floats:
        """Return the score of each entity, NaN for one that is not a candidate."""
        ...


def ranked_field(ranking: ir.Ranking) -> Field:
    """Return the property that a ranking is about. Both arms of a fusion rank the same variable."""
    return ranking.first.field if isinstance(ranking, ir.Fusion) else ranking.field


def scores_of(
    ranking: ir.Nearest | ir.Bm25,
    entities: AnyEntities,
    *,
    check: Check,
    index: ops.IndexSearch | ops.WordLookup | None,
    top: int | None = None,
) -> Scores:
    """Return the scores of a ranking. With `top`, only those of the `top` best of all entities are needed."""
    match ranking:
        case ir.Nearest():
            return _Distances(ranking, entities, check, top)
        case ir.Bm25():
            return _Relevance(ranking, entities, check, by_index=isinstance(index, ops.WordLookup) and index.column == ranking.field.column)
        case _:
            assert_never(ranking)


def scored(op: ops.Rank, scores: Scores, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the rows with their scores, without those that have none if only candidates are wanted."""
    binding = ranked_field(op.ranking).binding
    return (_with_scores(op, rows, scores.of(rows.bindings[binding])) for rows in batches)


def fused(op: ops.Rank, ranking: ir.Fusion, rows: Rows, entities: AnyEntities, type_: TypeRef, *, check: Check) -> Rows:
    """Return all rows of a match with the fused scores of their entities. The ranks are those among the entities of the rows."""
    numbers = rows.bindings[ranking.first.field.binding]
    found = np.unique(numbers[numbers != NULL_ENTITY])
    names = (ID, TYPE) if type_.kind is TypeKind.INTERFACE else (ID,)
    total, ranked = np.zeros(len(found)), np.zeros(len(found), np.bool_)
    for arm in (ranking.first, ranking.second):
        scores = scores_of(arm, entities, check=check, index=op.index).of(found)
        candidates = np.flatnonzero(~np.isnan(scores))

        def ties(at: Numbers64, candidates: Numbers64 = candidates) -> list[Column]:
            read = entities.read(found[candidates[at]], names, check=check)
            return [read[name] for name in names]

        key = OrderColumn(pa.array(scores[candidates]), descending=isinstance(arm, ir.Bm25))
        best = candidates[places([key], limit=ranking.depth, ties=ties)]
        total[best] += 1.0 / (ranking.k + np.arange(1, len(best) + 1))
        ranked[best] = True
    fusion = np.where(ranked, total, np.nan)
    if not len(found):
        return _with_scores(op, rows, np.full(rows.count, np.nan))
    at = np.minimum(np.searchsorted(found, numbers), len(found) - 1)
    return _with_scores(op, rows, np.where(found[at] == numbers, fusion[at], np.nan))


def best_of_scan(op: ops.Rank, entities: AnyEntities, scan: ops.Scan, *, check: Check) -> Rows | None:
    """Return rows of a scan with their scores, the best among them, without reading all of it. None if that cannot be done."""
    if isinstance(op.ranking, ir.Bm25):
        return _most_relevant(op, op.ranking, entities, scan, check=check)
    if not isinstance(op.ranking, ir.Nearest) or not isinstance(entities, Entities):
        return None
    found = _by_index(op, entities, scan, check=check)
    return found if found is not None else _in_memory(op, op.ranking, entities, scan, check=check)


def _most_relevant(op: ops.Rank, ranking: ir.Bm25, entities: AnyEntities, scan: ops.Scan, *, check: Check) -> Rows | None:
    """Return the rows of a scan of all entities whose texts have a word of the query; with `top`, at least the best of them.

    None if other rows are wanted too, or if the scan leaves out entities.
    """
    if not op.only_candidates or scan.where:
        return None
    scores = scores_of(ranking, entities, check=check, index=op.index)
    assert isinstance(scores, _Relevance)
    numbers, best = scores.found
    if op.top is not None and len(best) > op.top:
        kept = best >= np.partition(best, len(best) - op.top)[len(best) - op.top] if op.top else np.zeros(len(best), np.bool_)
        numbers, best = numbers[kept], best[kept]  # all that are as good as the last
    return _with_scores(op, Rows(len(numbers), {scan.binding: numbers}), best)


def _in_memory(op: ops.Rank, ranking: ir.Nearest, entities: Entities, scan: ops.Scan, *, check: Check) -> Rows | None:
    """Return the nearest rows of a scan, and those that are about as near, from vectors in memory; None if they are not there."""
    if op.top is None or not op.only_candidates:
        return None
    assert isinstance(ranking.query, tuple), "a text is embedded before a plan runs"
    kept = entities.mask(scan.where, check=check) if scan.where else None
    rows = entities.size if kept is None else int(np.count_nonzero(kept))
    if (held := entities.vectors(ranking.field.column, rows=rows)) is None:
        return None
    query = np.array(ranking.query, np.float64)
    few = _nearest(held, query, op.top, kept)
    return _with_scores(op, Rows(len(few), {scan.binding: few}), _exact(held, few, query, check=check))


def _by_index(op: ops.Rank, entities: Entities, scan: ops.Scan, *, check: Check) -> Rows | None:
    """Return about the best rows of a scan, with exact scores, found by an index on vectors; None if the index cannot answer."""
    if not isinstance(op.index, ops.IndexSearch) or op.top is None:
        return None
    assert isinstance(op.ranking, ir.Nearest)
    assert isinstance(op.ranking.query, tuple)
    if scan.where and np.count_nonzero(entities.mask(scan.where, check=check)) < HELD_NUMBERS // len(op.ranking.query):
        return None  # so few are left that all are compared: an index searches among those that a filter drops
    settings = {"probes": op.index.probes, "refine": op.index.refine}
    found = entities.nearest(op.index.column, op.ranking.query, op.top, scan.where, **settings)
    if found is None:
        return None
    numbers, vectors = found
    rows = _with_scores(op, Rows(len(numbers), {scan.binding: numbers}), cosine_distances(vectors, np.array(op.ranking.query)))
    return rows if rows.count >= op.top else None


def _with_scores(op: ops.Rank, rows: Rows, scores: Floats) -> Rows:
    missing = np.isnan(scores)
    field = score_field(op.slot)
    rows = rows.with_columns({(field.binding, field.column): pa.array(scores, mask=missing)})
    return rows.keep(~missing) if op.only_candidates else rows


class _Distances:
    """Cosine distances to a vector.

    The vectors of a few entities are read by number. Once these are too many, all vectors are read in one pass, so the cost is at most
    twice that of reading only what is needed.
    """

    def __init__(self, ranking: ir.Nearest, entities: AnyEntities, check: Check, top: int | None) -> None:
        assert isinstance(ranking.query, tuple), "a text is embedded before a plan runs"
        self._column: Final = ranking.field.column
        self._query: Final = np.array(ranking.query, np.float64)
        self._entities: Final = entities
        self._check: Final = check
        self._top: Final = top
        self._rows: Final = max(1, min(BATCH, NUMBERS // len(self._query)))
        """The number of vectors that are read together."""
        self._asked = 0
        self._all: Floats | None = None

    def of(self, numbers: Numbers64) -> Floats:
        if self._all is None:
            self._asked += len(numbers)
            if self._asked * SPARSE <= self._entities.size and self._entities.size > SMALL_TABLE_ROWS:
                return self._some(numbers)
            self._all = self._every()
        return np.append(self._all, np.nan)[numbers]  # the number of a null entity is that of the last

    def _some(self, numbers: Numbers64) -> Floats:
        present = numbers[numbers != NULL_ENTITY]
        wanted, at = distinct(present, size=self._entities.size)
        found = [np.zeros(0)]
        if (held := self._held(len(wanted))) is not None:
            found.append(_exact(held, wanted, self._query, check=self._check))
        for start in range(0, 0 if held is not None else len(wanted), self._rows):
            columns = self._entities.read(wanted[start : start + self._rows], (self._column,), check=self._check)
            found.append(cosine_distances(whole(columns[self._column]), self._query))
        scores = np.full(len(numbers), np.nan)
        scores[numbers != NULL_ENTITY] = np.concatenate(found)[at]
        return scores

    def _held(self, rows: int) -> VectorMatrix | None:
        return self._entities.vectors(self._column, rows=rows) if isinstance(self._entities, Entities) else None

    def _every(self) -> Floats:
        scores = np.full(self._entities.size, np.nan)
        if (held := self._held(self._entities.size)) is not None:
            return _exact(held, np.arange(self._entities.size), self._query, check=self._check)
        best = None if self._top is None else _Best(self._query, self._top)
        rows = self._rows if best is None else min(BATCH, 16 * self._rows)  # in half the precision and without copies
        for numbers, batch in self._entities.each((self._column,), check=self._check, batch_rows=rows):
            vectors = batch.column(0)
            if best is not None:
                few = best.candidates(vectors)
                numbers, vectors = numbers[few], vectors.take(pa.array(few))
            scores[numbers] = cosine_distances(vectors, self._query)
        return scores


def _exact(held: VectorMatrix, numbers: Numbers64, query: Floats, *, check: Check) -> Floats:
    """Return the distances of some vectors in memory."""
    parts, step = [np.zeros(0)], max(1, NUMBERS // len(query))
    for start in range(0, len(numbers), step):
        check()
        parts.append(_cosine_distances(held.rows[numbers[start : start + step]], query))
    return np.concatenate(parts)


def _nearest(held: VectorMatrix, query: Floats, top: int, kept: Mask | None) -> Numbers64:
    """Return the numbers of the vectors that may be among the `top` nearest of those to keep, by default of all.

    What is left out is farther than these by more than the error of single precision.
    """
    unit = (query / np.sqrt(np.square(query).sum())).astype(np.float32)
    with np.errstate(all="ignore"):
        # Not a product by BLAS: its threads wait for each other, which on busy cores costs more than they gain.
        distances = 1 - np.einsum("ij,j->i", held.rows, unit) * held.reciprocals
    distances[held.reciprocals == 0] = np.inf
    doubtful = held.doubtful
    if kept is not None:
        distances[~kept] = np.inf
        doubtful = doubtful[kept[doubtful]]
    last = np.partition(distances, top - 1)[top - 1] if 0 < top <= len(distances) else np.inf
    reached = distances <= last + 2 * _error(query) if np.isfinite(last) else np.isfinite(distances)
    return np.union1d(np.flatnonzero(reached), doubtful)


def _error(query: Floats) -> float:
    """Return a bound of the error of a distance in single precision."""
    return 8 * len(query) * float(np.finfo(np.float32).eps)


class _Best:
    """Finds vectors that may be among the `top` nearest, in single precision: what is left out is farther by more than its error."""

    def __init__(self, query: Floats, top: int) -> None:
        self._query: Final = (query / np.sqrt(np.square(query).sum())).astype(np.float32)
        self._top: Final = top
        self._error: Final = _error(query)
        self._distances = np.zeros(0, np.float32)
        """The smallest distances so far."""

    def candidates(self, vectors: pa.Array) -> Numbers64:
        """Return the positions of the vectors that may be among the nearest of all so far, null and zero vectors included."""
        if vectors.null_count or not self._top:
            return np.arange(len(vectors))
        matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(self._query))
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", matrix, matrix)
            distances = 1 - matrix @ self._query / np.sqrt(squares)
        safe = (squares > SMALLEST_SQUARE) & (
            squares < LARGEST_SQUARE
        )  # a vector that is too short or too long for this precision is compared exactly
        every = np.concatenate([self._distances, distances[safe]])
        if len(every) > self._top:
            every = np.partition(every, self._top - 1)[: self._top]
        self._distances = every
        if len(every) < self._top:
            return np.arange(len(vectors))
        return np.flatnonzero(~(safe & (distances > every.max() + 2 * self._error)))


def cosine_distances(vectors: pa.Array, query: Floats) -> Floats:
    """Return the distance of each vector to the query; NaN for null and zero vectors.

    Every sum is taken over one row, in an order that depends on the dimension alone. So equal vectors have equal distances.
    """
    if not len(vectors):
        return np.zeros(0)
    rows = vectors.flatten() if not vectors.null_count else vectors.fill_null([0.0] * len(query)).flatten()
    return _cosine_distances(rows.to_numpy(zero_copy_only=False).reshape(-1, len(query)), query)


def _cosine_distances(vectors: npt.NDArray[np.float32], query: Floats) -> Floats:
    matrix = vectors.astype(np.float64)
    products = (matrix * query).sum(axis=1)
    norms = np.sqrt(np.square(matrix, out=matrix).sum(axis=1)) * np.sqrt(np.square(query).sum())
    directed = norms > 0
    cosines = np.divide(products, norms, out=np.full(len(matrix), np.nan), where=directed)
    return rounded(np.clip(1.0 - cosines, 0.0, 2.0))


class _Relevance:
    """BM25 scores for a query. The texts of the type that have its words are found on first use."""

    def __init__(self, ranking: ir.Bm25, entities: AnyEntities, check: Check, *, by_index: bool) -> None:
        self._ranking: Final = ranking
        self._may_use_index: Final = by_index
        self._entities: Final = entities
        self._check: Final = check

    @cached_property
    def found(self) -> Relevance:
        """The entities whose texts have a word of the query, and their scores."""
        words = spelled_words(self._ranking.query)
        if (found := self._by_index(words)) is not None:
            return found
        hits, totals = hits_of(self._entities.words(self._ranking.field.column, check=self._check), list(words))
        return bm25(hits, texts=totals[0], words=totals[1])

    def of(self, numbers: Numbers64) -> Floats:
        return _looked_up(self.found, numbers)

    def _by_index(self, words: Mapping[str, str]) -> Relevance | None:
        """Return the scores by an index: from the counts that it gives away, else from the texts that it names. None if it cannot."""
        entities, column = self._entities, self._ranking.field.column
        if not self._may_use_index or not isinstance(entities, Entities):
            return None
        postings = entities.postings(column, check=self._check)
        searches = len(words) if postings is None else postings.searches(words)
        if searches and entities.held_words(column):
            return None  # words in memory are faster than a search by the index
        if postings is not None:
            if searches and entities.spend_words(column, rows=0, calls=searches):
                return None
            if (hits := postings.of(words)) is not None:
                return bm25(hits, texts=postings.totals.texts, words=postings.totals.words)
        numbers = entities.with_words(column, self._ranking.query)
        if numbers is None or entities.spend_words(column, rows=len(numbers)):
            return None
        if (totals := entities.text_totals(column, check=self._check)) is None:
            return None
        texts = whole(entities.read(numbers, (column,), check=self._check)[column]) if len(numbers) else pa.array([], pa.string())
        hits, _ = hits_of([(numbers, Words(texts))], list(words))
        return bm25(hits, texts=totals.texts, words=totals.words)


def _looked_up(found: Relevance, numbers: Numbers64) -> Floats:
    """Return the scores of entities; NaN for those without one, and for a null entity."""
    if not len(found.numbers):
        return np.full(len(numbers), np.nan)
    at = np.minimum(np.searchsorted(found.numbers, numbers), len(found.numbers) - 1)
    return np.where(found.numbers[at] == numbers, found.scores[at], np.nan)
