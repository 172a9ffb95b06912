"""The rows of several types -> one range of numbers: those of the first type, then those of the second, and so on.

A binding on an interface uses it for the node types of the interface, a link over several edge types for their edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.entities import Check, Entities
from omnigraph.plan import ir
from omnigraph.plan.expr import ID, TYPE
from omnigraph.store.arrays import Column, Mask, joined
from omnigraph.store.words import Words

Piece = TypeVar("Piece")


class EntityUnion:
    """The rows of some types, with the columns that all of them have."""

    def __init__(self, parts: Sequence[tuple[str, Entities]], columns: Mapping[str, pa.DataType]) -> None:
        """`parts` are the names of the types and their rows."""
        self._parts: Final = [entities for _, entities in parts]
        self._names: Final = pa.array([name for name, _ in parts], pa.string())
        self._bases: Final = np.array([*accumulate((entities.size for entities in self._parts), initial=0)], np.int64)
        self._columns: Final = {TYPE: pa.string(), **columns}
        self.size: Final = int(self._bases[-1])

    def base(self, part: Entities) -> int:
        """Return the number of the first row of a type of the union."""
        return int(self._bases[next(at for at, known in enumerate(self._parts) if known is part)])

    def column_type(self, name: str) -> pa.DataType:
        return self._columns[name]

    def scan(
        self, columns: Sequence[str], where: Sequence[ir.Predicate], *, check: Check, limit: int | None = None
    ) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        """Yield the rows for which every predicate holds, in the order of their numbers, with the given columns."""
        left = limit
        for part, base in zip(self._parts, self._bases.tolist(), strict=False):
            for numbers, batch in part.scan(columns, where, check=check, limit=left):
                yield numbers + base, pa.RecordBatch.from_arrays([self._cast(batch.column(name), name) for name in columns], list(columns))
                if left is not None:
                    left -= len(numbers)
            if left == 0:
                return

    def each(self, columns: Sequence[str], *, check: Check, batch_rows: int) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        """Yield some columns of all rows, in the order of their numbers. They are not kept in memory."""
        for part, base in zip(self._parts, self._bases.tolist(), strict=False):
            for numbers, batch in part.each(columns, check=check, batch_rows=batch_rows):
                yield numbers + base, pa.RecordBatch.from_arrays([self._cast(batch.column(name), name) for name in columns], list(columns))

    def words(self, column: str, *, check: Check) -> Iterator[tuple[Numbers64, Words]]:
        """Yield the words of all texts of a column."""
        for part, base in zip(self._parts, self._bases.tolist(), strict=False):
            yield from ((numbers + base, words) for numbers, words in part.words(column, check=check))

    def mask(self, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """Return for every number whether it is a row for which the predicates hold."""
        return np.concatenate([np.zeros(0, np.bool_), *(part.mask(where, check=check) for part in self._parts)])

    def read(self, numbers: Numbers64, columns: Sequence[str], *, check: Check) -> dict[str, Column]:
        """Return the given columns of the given rows, in the order of `numbers`, which may contain duplicates."""
        if not columns:
            return {}
        stored = [name for name in columns if name != TYPE]
        owners = self._owners(numbers)
        types = {TYPE: self._names.take(pa.array(owners))} if TYPE in columns else {}
        if not stored:
            return types
        order, pieces = self._apart(numbers, owners, lambda part, mine: part.read(mine, stored, check=check))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        places = pa.array(back)
        return types | {name: self._joined([piece[name] for piece in pieces], name).take(places) for name in stored}

    def _joined(self, pieces: Sequence[Column], name: str) -> pa.ChunkedArray:
        return joined((self._cast(piece, name) for piece in pieces), self._columns[name])

    def _cast(self, column: pa.Array, name: str) -> pa.Array:
        return column if column.type == self._columns[name] else column.cast(self._columns[name])

    def ids(self, numbers: Numbers64, *, check: Check) -> Column:
        return self.read(numbers, (ID,), check=check)[ID]

    def satisfying(self, numbers: Numbers64, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """Return for each of the given rows whether the predicates hold."""
        order, pieces = self._apart(numbers, self._owners(numbers), lambda part, mine: part.satisfying(mine, where, check=check))
        found = np.zeros(len(numbers), np.bool_)
        if pieces:
            found[order] = np.concatenate(pieces)
        return found

    def _owners(self, numbers: Numbers64) -> Numbers64:
        """Return for each number the position of its type."""
        return np.searchsorted(self._bases, numbers, side="right") - 1

    def _apart(self, numbers: Numbers64, owners: Numbers64, read: Callable[[Entities, Numbers64], Piece]) -> tuple[Numbers64, list[Piece]]:
        """Return the positions of the numbers, type by type, and what `read` gives for the numbers of each type."""
        order = np.argsort(owners, kind="stable")
        cuts = np.searchsorted(owners[order], np.arange(len(self._parts) + 1)).tolist()
        pieces = []
        for at, part in enumerate(self._parts):
            if cuts[at] < cuts[at + 1]:
                pieces.append(read(part, numbers[order[cuts[at] : cuts[at + 1]]] - self._bases[at]))
        return order, pieces


AnyEntities: TypeAlias = Entities | EntityUnion
"""The rows behind a binding or a link."""
