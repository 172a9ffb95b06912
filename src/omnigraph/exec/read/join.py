"""Rows of two plans -> their product, their pairs with equal fields, or the rows of one with or without a partner in the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.rows import BATCH, NULL_ENTITY, ColumnKey, Rows, cut_ranges, distinct, expand_ranges
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


InnerPlan: TypeAlias = Callable[[Rows], Iterable[Rows]]
"""Starts the inner plan of a block from the given rows, and yields its rows."""

OUTER_ROW: Final = -1
"""A binding without a variable: the outer row to which an inner row belongs."""


NO_BINDINGS: Final = Rows(1, {OUTER_ROW: np.zeros(1, np.int64)})
"""One row without a variable. A match that begins with an optional block begins with it, and so does a block without an outer variable."""


class DistinctTuples:
    """The distinct tuples of some bindings, and the position of each row's tuple among them."""

    def __init__(self, rows: Rows, on: Sequence[int]) -> None:
        codes = np.zeros(rows.count, np.int64)
        for binding in on:
            if (numbers := rows.bindings.get(binding)) is None:  # a path: every row has its own
                codes = np.arange(rows.count, dtype=np.int64)
                break
            above = numbers - NULL_ENTITY  # 0 is null
            codes = codes * (int(above.max(initial=0)) + 1) + above
            _, codes = distinct(codes, size=int(codes.max(initial=0)) + 1)  # dense again, so that the next product fits
        first = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
        first[codes[::-1]] = np.arange(rows.count - 1, -1, -1)  # of equal tuples, the first is written last
        self.distinct: Final = rows.select(on).take(first).binding(OUTER_ROW, np.arange(len(first), dtype=np.int64))
        """Each tuple once, as an outer row of the inner plan."""
        self.places: Final[Numbers64] = codes


def partnered(rows: Rows, on: Sequence[int], inner: InnerPlan) -> Mask:
    """Return for each row whether the inner plan has a row with the same bindings `on`. The inner plan runs once for all tuples."""
    tuples = DistinctTuples(rows, on)
    found = np.zeros(tuples.distinct.count, np.bool_)
    for part in inner(tuples.distinct):
        found[part.bindings[OUTER_ROW]] = True
        if found.all():
            break
    mask: Mask = found[tuples.places]
    return mask


def semi_join(rows: Rows, inners: Sequence[tuple[Sequence[int], InnerPlan]], *, wanted: bool) -> Rows:
    """Return the rows for which at least one inner plan has a row, or, if not `wanted`, for which none has.

    Each inner plan comes with the bindings it starts from. It starts only from the rows for which those before it had none.
    """
    found = np.zeros(rows.count, np.bool_)
    for on, inner in inners:
        undecided = np.flatnonzero(~found)
        if len(undecided):
            found[undecided] = partnered(rows.select(on).take(undecided), on, inner)
    return rows.keep(found if wanted else ~found)


class BlockColumns(NamedTuple):
    """What the inner plan of an optional block adds to a row: the numbers of entities, and columns with their types."""

    bindings: Sequence[int]
    columns: Mapping[ColumnKey, pa.DataType]

    def of(self, rows: Rows) -> Rows:
        """Return the rows of the inner plan without what belongs to the outer row."""
        return Rows(rows.count, {at: rows.bindings[at] for at in self.bindings}, {key: rows.columns[key] for key in self.columns})

    def nulls(self, count: int) -> Rows:
        numbers = np.full(count, NULL_ENTITY, np.int64)
        return Rows(count, dict.fromkeys(self.bindings, numbers), {key: pa.nulls(count, type_) for key, type_ in self.columns.items()})


def left_join(rows: Rows, on: Sequence[int], inner: InnerPlan, added: BlockColumns) -> Iterator[Rows]:
    """Yield every row with each row of the inner plan that has the same bindings `on`, or with nulls if there is none.

    The inner plan runs once for all tuples, and its rows are not kept.
    """
    tuples = DistinctTuples(rows, on)
    counts = np.bincount(tuples.places, minlength=tuples.distinct.count).astype(np.int64)
    starts, order = np.cumsum(counts) - counts, np.argsort(tuples.places, kind="stable")
    found = np.zeros(tuples.distinct.count, np.bool_)
    for part in inner(tuples.distinct):
        owner, inside = part.bindings[OUTER_ROW], added.of(part)
        found[owner] = True
        for first, last in cut_ranges(counts[owner], rows=PART_ROWS):
            at, places = expand_ranges(starts[owner[first:last]], counts[owner[first:last]])
            yield rows.take(order[places]).zip_with(inside.take(at + first))
    alone = rows.keep(~found[tuples.places])
    if alone.count:
        yield alone.zip_with(added.nulls(alone.count))
