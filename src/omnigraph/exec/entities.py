"""One type's table at one version -> its rows by number: scanned under predicates, read where they stand, found by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.conditions import holding
from omnigraph.exec.numbering import Numbers
from omnigraph.exec.predicate import exact_sql
from omnigraph.exec.rows import BATCH, Column, Mask, Numbers64, distinct, joined
from omnigraph.exec.statistics import usable_columns
from omnigraph.plan import ir
from omnigraph.plan.expr import ID, Field
from omnigraph.store.index import existing
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import ADDRESS, Table, one_of

SPARSE: Final = 20
"""Rows are read one by one when at most one in this many is wanted: beyond that one pass over the column is cheaper."""
SMALL: Final = 4_096
"""A table of so few rows is always read in one pass."""

LOOKUP: Final = 200
"""One lookup in an index takes about as long as reading this many texts in a row: 46 us against 0.2."""

Check = Callable[[], None]
"""Asked between batches whether to go on."""


class Entities:
    """The rows of one type. `size` bounds their numbers; some numbers below it may belong to no row."""

    def __init__(self, table: Table) -> None:
        self.table: Final = table
        self.numbers: Final = Numbers.of(table)
        self.size: Final = self.numbers.size

    @cached_property
    def indexed(self) -> frozenset[str]:
        """The columns whose equality an index answers."""
        return usable_columns(existing(self.table))

    # -- by predicate

    def scan(
        self, columns: Sequence[str], where: Sequence[ir.Predicate], *, check: Check, limit: int | None = None
    ) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        """The rows for which every predicate holds, in the order of their numbers, with these columns of them."""
        pushed = [text for predicate in where if (text := exact_sql(predicate)) is not None]
        rest = [predicate for predicate in where if exact_sql(predicate) is None]
        read = list(dict.fromkeys((*columns, *(field.column for predicate in rest for field in ir.fields_of(predicate)))))
        reader = self.table.scan(
            read,
            where=" AND ".join(f"({text})" for text in pushed) or None,
            limit=None if rest else limit,
            addresses=True,
            batch_rows=BATCH,
        )
        left = limit
        for batch in reader:
            check()
            if rest:
                batch = batch.filter(pa.array(self._passing(batch, rest)))
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield self.numbers.from_addresses(batch.column(ADDRESS).to_numpy(zero_copy_only=False)), batch
            if left == 0:
                return

    def mask(self, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """For every number whether it is a row for which the predicates hold."""
        found = np.zeros(self.size, np.bool_)
        for numbers, _ in self.scan((), where, check=check):
            found[numbers] = True
        return found

    def _passing(self, batch: pa.RecordBatch, where: Sequence[ir.Predicate]) -> Mask:
        return holding(where, batch.num_rows, lambda field: batch.column(field.column))

    # -- by number

    def read(self, numbers: Numbers64, columns: Sequence[str], *, check: Check) -> dict[str, Column]:
        """These columns of the rows with these numbers, in that order; a number may stand there many times."""
        if not columns:
            return {}
        wanted, places = distinct(numbers, size=self.size)
        indices = pa.array(places)
        if self.size <= SMALL or len(wanted) * SPARSE > self.size:
            found = self._read_through(wanted, columns, check)
        else:
            found = self._read_at(wanted, columns, check)
        return {name: column.take(indices) for name, column in found.items()}

    def _read_at(self, wanted: Numbers64, columns: Sequence[str], check: Check) -> dict[str, Column]:
        parts = []
        for start in range(0, max(1, len(wanted)), BATCH):
            check()
            parts.append(self.table.take(self.numbers.to_addresses(wanted[start : start + BATCH]), columns))
        return {name: joined([part.column(name) for part in parts]) for name in columns}

    def _read_through(self, wanted: Numbers64, columns: Sequence[str], check: Check) -> dict[str, Column]:
        """A scan meets rows in the order of their numbers, and so leaves what is wanted in that order too."""
        flags = np.zeros(self.size, np.bool_)
        flags[wanted] = True
        everything = len(wanted) == self.size
        kept: list[pa.RecordBatch] = []
        for numbers, batch in self.scan(columns, (), check=check):
            kept.append(batch if everything else batch.filter(pa.array(flags[numbers])))
        schema = self.table.schema
        return {
            name: joined([batch.column(name) for batch in kept]) if kept else pa.chunked_array([], schema.field(name).type)
            for name in columns
        }

    def ids(self, numbers: Numbers64, *, check: Check) -> Column:
        return self.read(numbers, (ID,), check=check)[ID]

    def satisfying(self, numbers: Numbers64, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """For each of these rows whether the predicates hold."""
        wanted, places = distinct(numbers, size=self.size)
        if self.size <= SMALL or len(wanted) * SPARSE > self.size:
            return self.mask(where, check=check)[numbers]
        fields: dict[str, Field] = {field.column: field for predicate in where for field in ir.fields_of(predicate)}
        columns = self._read_at(wanted, tuple(fields), check)
        return holding(where, len(wanted), lambda field: columns[field.column])[places]

    # -- by text

    def having(
        self, column: str, texts: pa.Array, columns: Sequence[str], *, check: Check, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose `column` is one of these distinct texts, with more columns and addresses; `where` is SQL.

        An IN list can be answered by an index; a long one is asked in parts, or, when that would take longer, in one pass.
        """
        names = list(dict.fromkeys((column, *columns)))
        worth = len(texts) <= IN_LIST or (column in self.indexed and len(texts) * LOOKUP <= self.size)
        for part in [texts.slice(start, IN_LIST) for start in range(0, len(texts), IN_LIST)] if worth else [None]:
            conditions = [text for text in (one_of(column, part) if part is not None else None, where) if text is not None]
            wanted = " AND ".join(f"({text})" for text in conditions) or None
            for batch in self.table.scan(names, where=wanted, addresses=True, batch_rows=BATCH):
                check()
                yield batch if worth else batch.filter(pc.is_in(batch.column(column), value_set=texts))

    def find(self, ids: pa.Array, *, check: Check) -> Numbers64:
        """The number of each id, -1 where there is no such row."""
        known = ids.unique()
        places = pc.index_in(ids, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
        found = np.full(len(known) + 1, -1, np.int64)
        for batch in self.having(ID, known, (), check=check):
            at = pc.index_in(batch.column(ID), value_set=known).to_numpy(zero_copy_only=False)
            found[at] = self.numbers.from_addresses(batch.column(ADDRESS).to_numpy(zero_copy_only=False))
        numbers_of: Numbers64 = found[places]
        return numbers_of
