"""Rows of a running plan: for each binding the numbers of its entities, and the columns that are already read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.store.arrays import Column, Mask, joined

ColumnKey: TypeAlias = tuple[int, str]
"""A binding and a column name of its entity."""

BATCH: Final = 65_536
"""Rows per batch: enough to make the cost per batch negligible, few enough to react soon to a cancellation."""

NULL_ENTITY: Final = -1
"""The number of a binding without an entity: an optional block had no row. Every column of it is null."""


class RowBatch(Protocol):
    """What rows of the match and rows of the result have in common."""

    @property
    def count(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def take(self, places: Numbers64) -> Self:
        """Return the rows at these positions, in that order."""
        ...

    def slice(self, start: int, count: int) -> Self: ...


B = TypeVar("B", bound=RowBatch)


class Rows(msgspec.Struct, frozen=True):
    """A batch of `count` rows. Every array has that length. A path has no entity: it is bound by its columns alone."""

    count: int
    bindings: Mapping[int, Numbers64]
    columns: Mapping[ColumnKey, Column] = {}

    def take(self, places: Numbers64) -> Rows:
        bindings = {binding: numbers[places] for binding, numbers in self.bindings.items()}
        if not self.columns:
            return Rows(len(places), bindings)
        indices = pa.array(places)
        return Rows(len(places), bindings, {key: column.take(indices) for key, column in self.columns.items()})

    def keep(self, mask: Mask) -> Rows:
        """Return the rows for which the mask is true."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def bound(self, *bindings: int) -> Rows:
        """Return the rows in which none of these bindings is null."""
        rows = self
        for binding in bindings:
            rows = rows.keep(rows.bindings[binding] != NULL_ENTITY)
        return rows

    def slice(self, start: int, count: int) -> Rows:
        return Rows(
            max(0, min(count, self.count - start)),
            {binding: numbers[start : start + count] for binding, numbers in self.bindings.items()},
            {key: column.slice(start, count) for key, column in self.columns.items()},
        )

    def zip_with(self, other: Rows) -> Rows:
        """Combine each row with the row of `other` at the same position. Bindings and columns in both are equal."""
        assert self.count == other.count
        return Rows(self.count, {**self.bindings, **other.bindings}, {**self.columns, **other.columns})

    def binding(self, binding: int, numbers: Numbers64) -> Rows:
        return Rows(self.count, {**self.bindings, binding: numbers}, self.columns)

    def with_columns(self, columns: Mapping[ColumnKey, Column]) -> Rows:
        return Rows(self.count, self.bindings, {**self.columns, **columns}) if columns else self

    def select(self, bindings: Sequence[int]) -> Rows:
        """Return the rows with these bindings and their columns only."""
        return Rows(
            self.count,
            {binding: self.bindings[binding] for binding in bindings if binding in self.bindings},
            {key: column for key, column in self.columns.items() if key[0] in bindings},
        )

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self.bindings.values(), *self.columns.values()))


class Cells(msgspec.Struct, frozen=True):
    """A batch of `count` rows of a result: one column for each output."""

    count: int
    columns: Sequence[Column]

    def take(self, places: Numbers64) -> Cells:
        indices = pa.array(places)
        return Cells(len(places), [column.take(indices) for column in self.columns])

    def slice(self, start: int, count: int) -> Cells:
        return Cells(max(0, min(count, self.count - start)), [column.slice(start, count) for column in self.columns])

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


def concat(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, in order. There is at least one part, and all have the same bindings and columns."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Rows(
        sum(part.count for part in parts),
        {binding: np.concatenate([part.bindings[binding] for part in parts]) for binding in first.bindings},
        {key: joined((part.columns[key] for part in parts), column.type) for key, column in first.columns.items()},
    )


def concat_cells(parts: Sequence[Cells]) -> Cells:
    """Return the rows of all parts, in order. There is at least one part."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.columns for part in parts), strict=True)
    return Cells(sum(part.count for part in parts), [joined(column, column[0].type) for column in columns])


def rebatch(parts: Iterable[Rows], *, rows: int) -> Iterator[Rows]:
    """Yield the same rows in fewer parts of at least `rows` rows. Empty parts are dropped."""
    held: list[Rows] = []
    count = 0
    for part in parts:
        if not part.count:
            continue
        held.append(part)
        count += part.count
        if count >= rows:
            yield concat(held)
            held, count = [], 0
    if held:
        yield concat(held)


def window(batches: Iterable[B], *, skip: int, count: int | None) -> Iterator[B]:
    """Yield the rows after the first `skip`, at most `count` of them. The input is not read further than needed."""
    if count == 0:
        return
    for batch in batches:
        passed = min(skip, batch.count)
        skip -= passed
        wanted = batch.count - passed if count is None else min(count, batch.count - passed)
        if wanted:
            yield batch if wanted == batch.count else batch.slice(passed, wanted)
        if count is not None:
            count -= wanted
            if not count:
                return


def expand_ranges(starts: Numbers64, counts: Numbers64) -> tuple[Numbers64, Numbers64]:
    """Ranges -> for every element of every range, the position of its range and the element itself.

    `expand_ranges([5, 9], [2, 1])` is `([0, 0, 1], [5, 6, 9])`.
    """
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    ends = np.cumsum(counts)
    within = np.arange(len(owners), dtype=np.int64) - np.repeat(ends - counts, counts)
    return owners, starts[owners] + within


def cut_ranges(counts: Numbers64, *, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last position (exclusive) of consecutive ranges with about `rows` elements together."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    cuts = [0, *np.searchsorted(ends, np.arange(rows, total, rows), side="left").tolist(), len(counts)]
    return ((first, last) for first, last in pairwise(cuts) if first < last)


def distinct(numbers: Numbers64, *, size: int) -> tuple[Numbers64, Numbers64]:
    """Return the distinct numbers, ascending, and the position of every number among them. All numbers are below `size`.

    Numbers that ascend already are returned themselves, not as a copy.
    """
    if bool((numbers[1:] > numbers[:-1]).all()):  # already in the order of a scan
        return numbers, np.arange(len(numbers), dtype=np.int64)
    if size > 16 * len(numbers):
        found, places = np.unique(numbers, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    seen = np.zeros(size, np.bool_)
    seen[numbers] = True
    ranks = np.cumsum(seen, dtype=np.int64) - 1
    return np.flatnonzero(seen), ranks[numbers]


def spread(column: Column, mask: Mask) -> Column:
    """Return the values of the column at the positions where the mask is true, and null elsewhere."""
    return column.take(pa.array(np.cumsum(mask, dtype=np.int64) - 1, pa.int64(), mask=~mask))
