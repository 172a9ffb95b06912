"""Rows of two plans -> their product, their pairs with equal fields, or the rows of one without a partner in the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.rows import BATCH, Rows, distinct, expand_ranges
from omnigraph.plan.expr import Field
from omnigraph.store.arrays import Column, Mask, whole
from omnigraph.store.membership import Members

FieldOf: TypeAlias = Callable[[Rows, Field], Column]
"""Rows and a field -> the column of the field."""

PART_ROWS: Final = 4 * BATCH


def product(lefts: Iterable[Rows], right: Rows) -> Iterator[Rows]:
    """Pair every left row with every right row."""
    if not right.count:
        return
    step = max(1, PART_ROWS // right.count)
    for left in lefts:
        for start in range(0, left.count, step):
            part = left.slice(start, step)
            owners = np.repeat(np.arange(part.count, dtype=np.int64), right.count)
            others = np.tile(np.arange(right.count, dtype=np.int64), part.count)
            yield part.take(owners).zip_with(right.take(others))


def equi_join(lefts: Iterable[Rows], right: Rows, on: Sequence[tuple[Field, Field]], field_of: FieldOf) -> Iterator[Rows]:
    """Yield pairs of rows whose fields are equal. Null equals nothing."""
    if not right.count:
        return
    codes = _Codes([whole(field_of(right, field)) for _, field in on])
    order = np.argsort(codes.own, kind="stable")
    held = np.bincount(codes.own + 1)  # codes are dense, so counting locates the rows of each code
    starts_of = np.cumsum(held) - held
    held[0] = 0  # code -1: no partner
    for left in lefts:
        wanted = codes.of([whole(field_of(left, field)) for field, _ in on])
        owners, at = expand_ranges(starts_of[wanted + 1], held[wanted + 1])
        if len(owners):
            yield left.take(owners).zip_with(right.take(order[at]))


class _Codes:
    """Integer codes of tuples: equal tuples have equal codes. A tuple with a null, or an unknown tuple, has -1."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: Final = [Members(column.unique().drop_null()) for column in columns]
        self._steps: list[Numbers64] = []
        self.own: Numbers64 = self._encode(columns, learn=True)

    def of(self, columns: Sequence[pa.Array]) -> Numbers64:
        return self._encode(columns, learn=False)

    def _encode(self, columns: Sequence[pa.Array], *, learn: bool) -> Numbers64:
        codes: Numbers64 | None = None
        for at, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            found = values.find(column)
            if codes is None:
                codes = found
                continue
            # Codes are made dense after every column, so that their products fit into an integer.
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


class DistinctTuples:
    """The distinct tuples of some bindings, and the position of each row's tuple among them."""

    def __init__(self, rows: Rows, on: Sequence[int]) -> None:
        codes = np.zeros(rows.count, np.int64)
        for binding in on:
            numbers = rows.bindings[binding]
            codes = codes * (int(numbers.max(initial=0)) + 1) + numbers
            found, codes = distinct(codes, size=int(codes.max(initial=0)) + 1)  # dense again, so that the next product fits
        if not len(on):
            found, codes = distinct(codes, size=1)
        first = np.empty(len(found), np.int64)
        first[codes[::-1]] = np.arange(rows.count - 1, -1, -1)  # of equal tuples, the first is written last
        self.distinct: Final = rows.select(on).take(first)
        self.places: Final[Numbers64] = codes


def anti_join(rows: Rows, on: Sequence[int], inner: Callable[[Rows], Iterable[Rows]]) -> Rows:
    """Return the rows for which the inner plan has no row with the same bindings `on`. The inner plan runs once for all tuples."""
    if not rows.count:
        return rows
    tuples = DistinctTuples(rows, on)
    partnered = np.zeros(tuples.distinct.count, np.bool_)
    for found in inner(tuples.distinct.binding(OUTER_ROW, np.arange(tuples.distinct.count, dtype=np.int64))):
        partnered[found.bindings[OUTER_ROW]] = True
        if partnered.all():
            break
    keep: Mask = ~partnered[tuples.places]
    return rows.keep(keep)


OUTER_ROW: Final = -1
"""A binding without a variable: the outer row to which an inner row belongs."""
