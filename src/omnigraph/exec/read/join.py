"""Two plans' rows -> their product, their equal pairs, or the rows of one that have no partner in the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.exec.read.rows import BATCH, Mask, Numbers64, Rows, spread
from omnigraph.plan.expr import Field
from omnigraph.store.arrays import Column, whole
from omnigraph.store.membership import Members

FieldOf: TypeAlias = Callable[[Rows, Field], Column]
"""Rows and a field -> its column."""

PART: Final = 4 * BATCH


def product(lefts: Iterable[Rows], right: Rows) -> Iterator[Rows]:
    """Every row of the left with every row of the right."""
    if not right.count:
        return
    step = max(1, PART // right.count)
    for left in lefts:
        for start in range(0, left.count, step):
            part = left.part(start, step)
            owners = np.repeat(np.arange(part.count, dtype=np.int64), right.count)
            others = np.tile(np.arange(right.count, dtype=np.int64), part.count)
            yield part.take(owners).beside(right.take(others))


def equal_pairs(lefts: Iterable[Rows], right: Rows, on: Sequence[tuple[Field, Field]], field_of: FieldOf) -> Iterator[Rows]:
    """Pairs of rows whose fields are equal; a null equals nothing."""
    if not right.count:
        return
    codes = _Codes([whole(field_of(right, field)) for _, field in on])
    order = np.argsort(codes.own, kind="stable")
    held = np.bincount(codes.own + 1)  # codes are dense, so the rows of each are found by counting
    starts_of = np.cumsum(held) - held
    held[0] = 0  # what has no partner
    for left in lefts:
        wanted = codes.of([whole(field_of(left, field)) for field, _ in on])
        owners, at = spread(starts_of[wanted + 1], held[wanted + 1])
        if len(owners):
            yield left.take(owners).beside(right.take(order[at]))


class _Codes:
    """Tuples of values as integers: equal tuples have equal ones, a tuple with a null, or one that is not there, has -1."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: Final = [Members(column.unique().drop_null()) for column in columns]
        self._steps: list[Numbers64] = []
        self.own: Numbers64 = self._placed(columns, learn=True)

    def of(self, columns: Sequence[pa.Array]) -> Numbers64:
        return self._placed(columns, learn=False)

    def _placed(self, columns: Sequence[pa.Array], *, learn: bool) -> Numbers64:
        codes: Numbers64 | None = None
        for at, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            found = values.find(column)
            if codes is None:
                codes = found
                continue
            # Codes are made dense after every column, so that no product of them can outgrow an integer.
            mixed = np.where((codes < 0) | (found < 0), -1, codes * len(values) + found)
            if learn:
                self._steps.append(np.unique(mixed[mixed >= 0]))
            known = self._steps[at - 1]
            place = np.searchsorted(known, mixed)
            hit = (place < len(known)) & (mixed >= 0)
            hit[hit] = known[place[hit]] == mixed[hit]
            codes = np.where(hit, place, -1)
        assert codes is not None
        return codes


class Tuples:
    """The distinct tuples of some bindings in some rows, and for every row which of them it has."""

    def __init__(self, rows: Rows, on: Sequence[int]) -> None:
        codes = np.zeros(rows.count, np.int64)
        for binding in on:
            _, ranks = np.unique(rows.bindings[binding], return_inverse=True)
            width = int(ranks.max(initial=0)) + 1
            _, codes = np.unique(codes * width + ranks, return_inverse=True)
        _, first, places = np.unique(codes, return_index=True, return_inverse=True)
        self.distinct: Final = rows.only(on).take(first)
        self.places: Final[Numbers64] = places


def without_partner(rows: Rows, on: Sequence[int], inner: Callable[[Rows], Iterable[Rows]]) -> Rows:
    """The rows for whose bindings `on` the inner plan has no row. It is started once from all distinct ones."""
    if not rows.count:
        return rows
    tuples = Tuples(rows, on)
    partnered = np.zeros(tuples.distinct.count, np.bool_)
    for found in inner(tuples.distinct.binding(PLACE, np.arange(tuples.distinct.count, dtype=np.int64))):
        partnered[found.bindings[PLACE]] = True
        if partnered.all():
            break
    keep: Mask = ~partnered[tuples.places]
    return rows.keep(keep)


PLACE: Final = -1
"""A binding of no variable: which of the outer rows an inner row belongs to."""
