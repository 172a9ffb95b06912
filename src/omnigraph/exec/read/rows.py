"""Rows of a running plan: for each binding the numbers of its entities, and the columns that are already read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.store.arrays import Column, joined

Numbers64: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
ColumnKey: TypeAlias = tuple[int, str]
"""A binding and a column name of its entity."""

BATCH: Final = 65_536
"""Rows per batch: enough to make the cost per batch negligible, few enough to react soon to a cancellation."""


class Rows(msgspec.Struct, frozen=True):
    """A batch of `count` rows. Every array has that length."""

    count: int
    bindings: Mapping[int, Numbers64]
    columns: Mapping[ColumnKey, Column] = {}

    def take(self, places: Numbers64) -> Rows:
        """Return the rows at these positions, in that order."""
        indices = pa.array(places)
        return Rows(
            len(places),
            {binding: numbers[places] for binding, numbers in self.bindings.items()},
            {key: column.take(indices) for key, column in self.columns.items()},
        )

    def keep(self, mask: Mask) -> Rows:
        """Return the rows for which the mask is true."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

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
            {binding: self.bindings[binding] for binding in bindings},
            {key: column for key, column in self.columns.items() if key[0] in bindings},
        )

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self.bindings.values(), *self.columns.values()))


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


def expand_ranges(starts: Numbers64, counts: Numbers64) -> tuple[Numbers64, Numbers64]:
    """Ranges -> for every element of every range, the position of its range and the element itself.

    `expand_ranges([5, 9], [2, 1])` is `([0, 0, 1], [5, 6, 9])`.
    """
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    ends = np.cumsum(counts)
    within = np.arange(len(owners), dtype=np.int64) - np.repeat(ends - counts, counts)
    return owners, starts[owners] + within


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
