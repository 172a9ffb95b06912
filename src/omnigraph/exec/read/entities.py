"""The table of one type at one version -> its rows by number: scanned with predicates, read by number, or found by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.column_cache import ColumnCache, VectorMatrix
from omnigraph.exec.adjacency.node_ids import FEW_IDS, Ids, alive
from omnigraph.exec.adjacency.numbering import Numbering, Numbers64
from omnigraph.exec.read.conditions import RowFilter, filter_mask
from omnigraph.exec.read.postings import Covered, Lengths, Listed, Postings, Scored, Totals
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.exec.read.rows import BATCH, distinct
from omnigraph.exec.read.table_statistics import usable_columns
from omnigraph.lang.query import Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import ID, Constant, Field
from omnigraph.plan.typed import TextMode
from omnigraph.store.arrays import Column, Mask, joined, whole
from omnigraph.store.index import existing
from omnigraph.store.intact import passed_by
from omnigraph.store.membership import Members
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import ADDRESS, Table, one_of
from omnigraph.store.word_lists import WordLists
from omnigraph.store.words import Words

SPARSE: Final = 20
"""Rows are read by address if at most one row in this many is wanted. Above that, one pass over the column is cheaper."""
SMALL_TABLE_ROWS: Final = 4_096
"""A table of up to this many rows is always read in one pass."""

MOST_WORD_BYTES: Final = 128 << 20
"""The words of a column are kept in memory if they take less than this."""
LOOKUP_ROWS: Final = 200
"""The assumed cost of one index lookup, in texts read sequentially. It is an estimate derived from the planner's costs."""

KnownIds = Callable[[], Ids | None]
"""Returns the ids of a table if they are available without reading the table, otherwise None."""
Check = Callable[[], None]
"""Called between batches. Raises if the query must stop."""


class _TextLengths(NamedTuple):
    """The number of words of every text by its number, from a full-text index, and the words of the texts that it does not cover."""

    lengths: Lengths
    texts: int
    words: int
    """Of the texts that it covers."""
    deleted: bool
    """Whether the index has texts of rows that were deleted since."""
    numbers: Numbers64 | Lengths
    """The row number of each text in the order of the index; -1 for one that is gone. Narrow where all numbers are small."""
    lists: WordLists | None
    """The lists of its words, if their format is known."""
    rest: Numbers64
    rest_words: Words


class Entities:
    """The rows of one type. Row numbers are below `size`; a number below it may belong to no row."""

    def __init__(self, table: Table, *, cache: ColumnCache | None = None, known: KnownIds = lambda: None, key: str | None = None) -> None:
        """`key` is the column with the same values as `id`, if there is one. `known` returns the ids if they are available."""
        self.table: Final = table
        self.numbers: Final = Numbering.of(table)
        self.size: Final = self.numbers.size
        self._cache: Final = cache
        self._known: Final = known
        self._names: Final = frozenset((ID,) if key is None else (ID, key))
        self._lengths: Final[dict[str, _TextLengths]] = {}
        self._postings: Final[dict[str, Postings]] = {}

    @cached_property
    def indexed(self) -> frozenset[str]:
        """The columns with an index that answers equality."""
        return frozenset() if passed_by(self.table.root, self.table.indexes) else usable_columns(existing(self.table))

    @property
    def is_remote(self) -> bool:
        """Whether a read waits for a network."""
        return not self.table.root.is_local

    @cached_property
    def alive(self) -> Mask:
        """A mask of the numbers that belong to a row."""
        return alive(self.table, self.numbers.fragments)

    def column_type(self, name: str) -> pa.DataType:
        return self.table.schema.field(name).type

    # -- in memory

    def _in_memory(self, columns: Iterable[str], *, rows: int) -> dict[str, pa.Array] | None:
        """Return whole columns if all of them are in memory, or if reading `rows` rows makes it worth loading them; otherwise None."""
        found = {name: self._whole(name, rows) for name in columns}
        return None if any(column is None for column in found.values()) else found

    def _whole(self, name: str, rows: int) -> pa.Array | None:
        """Return one whole column. A column with the same values as the ids is not read besides them."""
        if name in self._names:
            if (ids := self._known()) is not None and ids.texts.type == pa.string():
                return ids.texts
            name = ID
        return None if self._cache is None else self._cache.get(self.table, self.numbers, name, rows=rows)

    def _matching(self, where: Sequence[ir.Predicate]) -> Numbers64 | None:
        """Return the matching row numbers, ascending, or None if finding them needs a storage call."""
        if (named := self._rows_by_id(where)) is not None:
            numbers, rest = named
            return numbers[self.satisfying(numbers, rest, check=_no_check)] if rest and len(numbers) else numbers
        if (found := self._matching_words(where)) is not None:
            return found
        if self._cache is None or any(self._may_use_index(predicate) for predicate in where):  # an index reads less than a whole column
            return None
        fields = {field.column for predicate in where for field in ir.fields_of(predicate)}
        if (held := self._in_memory(fields, rows=self.size)) is None:
            return None
        return np.flatnonzero(filter_mask(where, self.size, lambda field: held[field.column]) & self.alive)

    def vectors(self, column: str, *, rows: int) -> VectorMatrix | None:
        """Return all vectors of a column if they are in memory, or if reading `rows` of them makes it worth loading; otherwise None."""
        return None if self._cache is None else self._cache.vectors(self.table, self.numbers, column, rows=rows)

    # -- by words

    def words(self, column: str, *, check: Check) -> Iterator[tuple[Numbers64, Words]]:
        """Yield the words of all texts of a column. They are kept in memory for the next call if they are not too large."""
        if self.held_words(column):
            assert self._cache is not None
            yield from self._cache.words(self.table, column) or ()
            return
        kept: list[tuple[Numbers64, Words]] = []
        left = 0 if self._cache is None else MOST_WORD_BYTES
        for numbers, batch in self.each((column,), check=check, batch_rows=BATCH):
            words = Words(batch.column(0))
            left -= words.nbytes
            if left > 0:
                kept.append((numbers, words))
            else:
                kept.clear()
            yield numbers, words
        if self._cache is not None and left > 0:
            self._cache.keep_words(self.table, column, tuple(kept))

    def held_words(self, column: str) -> bool:
        """Return whether the words of a column are in memory."""
        return self._cache is not None and self._cache.words(self.table, column) is not None

    def spend_words(self, column: str, *, rows: int, calls: int = 1) -> bool:
        """Count searches by an index that read `rows` texts. Return whether it is time to find the words of all of them."""
        return self._cache is not None and self._cache.spend_words(self.table, column, rows=rows, calls=calls, size=self.size)

    def with_words(self, column: str, query: str) -> Numbers64 | None:
        """Return the rows, ascending, that may have a word of the query: those that the full-text index names, and those it does not cover.

        None if the index cannot be used, or if there are so many that one pass over all texts costs less.
        """
        if self.size <= SMALL_TABLE_ROWS or (found := self.table.having_words(column, query)) is None:
            return None
        numbers = np.concatenate([self.numbers.from_addresses(found.addresses), self._uncovered(found.covered)])
        return np.sort(numbers) if len(numbers) * SPARSE <= self.size else None

    def text_totals(self, column: str, *, check: Check) -> Totals | None:
        """Return how many texts with words there are, and how many words, from the full-text index and the rows it does not cover."""
        if (found := self._text_lengths(column, check=check)) is None:
            return None
        return Totals(int(np.count_nonzero(found.lengths)), int(found.lengths.sum()))

    def postings(self, column: str, *, check: Check) -> Postings | None:
        """Return the texts of a column by their words, from the full-text index. None if the index cannot tell: it leaves out too many,
        or its lists cannot be read and its scores count texts that were deleted since.
        """
        if (known := self._postings.get(column)) is not None:
            return known
        if self.size <= SMALL_TABLE_ROWS or (found := self._text_lengths(column, check=check)) is None:
            return None
        if (found.deleted and found.lists is None) or len(found.rest) * SPARSE > self.size:
            return None
        covered: Covered
        if found.lists is not None:
            covered = Listed(self.table, column, found.lists, found.numbers)
        else:
            covered = Scored(self.table, self.numbers, column, found.lengths, Totals(found.texts, found.words))
        return self._postings.setdefault(column, Postings(covered, found.lengths, rest=found.rest, rest_words=found.rest_words))

    def _text_lengths(self, column: str, *, check: Check) -> _TextLengths | None:
        if (known := self._lengths.get(column)) is not None:
            return known
        if (found := self.table.word_counts(column)) is None:
            return None
        parts = [part.id for part in self.numbers.fragments if part.id in found.covered]
        present = np.isin(found.addresses >> np.uint64(32), np.array(parts, np.uint64))
        present[present] = self.alive[self.numbers.from_addresses(found.addresses[present])]
        numbers: Numbers64 | Lengths = np.full(len(present), -1, np.int64)
        if self.size <= np.iinfo(np.int32).max:
            numbers = numbers.astype(np.int32)
        numbers[present] = self.numbers.from_addresses(found.addresses[present])
        rest = self._uncovered(found.covered)
        lengths = np.zeros(self.size, np.int32)
        lengths[numbers[present]] = found.counts[present]
        covered = int(np.count_nonzero(lengths)), int(lengths.sum())
        words = Words(whole(self.read(rest, (column,), check=check)[column]) if len(rest) else pa.array([], pa.string()))
        lengths[rest] = words.lengths
        known = _TextLengths(lengths, *covered, not present.all(), numbers, found.lists, rest, words)
        return self._lengths.setdefault(column, known)

    def _uncovered(self, covered: frozenset[int]) -> Numbers64:
        rest = self.numbers.places(part for part in self.numbers.fragments if part.id not in covered)
        return rest[self.alive[rest]]

    def _matching_words(self, where: Sequence[ir.Predicate]) -> Numbers64 | None:
        """Return the matching row numbers if the full-text index leaves few candidates; they are then compared with all predicates."""
        for predicate in where:
            if isinstance(predicate, ir.Matches) and predicate.wanted and predicate.text.mode is not TextMode.FUZZY:
                numbers = self.with_words(predicate.text.field.column, predicate.text.query)
                if numbers is not None:
                    return numbers[self.satisfying(numbers, where, check=_no_check)] if len(numbers) else numbers
        return None

    def _may_use_index(self, predicate: ir.Predicate) -> bool:
        return self._has_index(predicate) and exact_sql(predicate) is not None

    def _has_index(self, predicate: ir.Predicate) -> bool:
        """Return whether the columns of a predicate have an index. Of `or` every term needs one, otherwise all rows are read."""
        if isinstance(predicate, ir.AnyOf):
            return all(self._has_index(term) for term in predicate.terms)
        return any(field.column in self.indexed for field in ir.fields_of(predicate))

    def _rows_by_id(self, where: Sequence[ir.Predicate]) -> tuple[Numbers64, list[ir.Predicate]] | None:
        """Return the rows that a predicate selects by id, and the other predicates. None if there is no such predicate or no known ids."""
        for at, predicate in enumerate(where):
            match predicate:
                case ir.Compare(Field(column=column), Comparison.EQ, Constant(value=str(text))) if column in self._names:
                    wanted: tuple[str | None, ...] = (text,)
                case ir.OneOf(Field(column=column), values) if column in self._names:
                    wanted = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
                case _:
                    continue
            if (ids := self._known()) is None:
                return None
            numbers = ids.find_each(wanted) if len(wanted) <= FEW_IDS else ids.find(pa.array(wanted, pa.string()))
            return np.sort(numbers[numbers >= 0]), [other for n, other in enumerate(where) if n != at]
        return None

    # -- by predicate

    def scan(
        self, columns: Sequence[str], where: Sequence[ir.Predicate], *, check: Check, limit: int | None = None
    ) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        """Yield the rows for which every predicate holds, in the order of their numbers, with the given columns."""
        if (numbers := self._matching(where)) is None:
            yield from self._scan(columns, where, check=check, limit=limit)
            return
        for start in range(0, len(numbers[:limit]), BATCH):
            part = numbers[:limit][start : start + BATCH]
            read = self.read(part, columns, check=check)
            yield part, pa.RecordBatch.from_arrays([whole(read[name]) for name in columns], names=list(columns))

    def each(self, columns: Sequence[str], *, check: Check, batch_rows: int) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        """Yield some columns of all rows, in the order of their numbers. They are not kept in memory."""
        return self._scan(columns, (), check=check, batch_rows=batch_rows)

    def _scan(
        self, columns: Sequence[str], where: Sequence[ir.Predicate], *, check: Check, limit: int | None = None, batch_rows: int = BATCH
    ) -> Iterator[tuple[Numbers64, pa.RecordBatch]]:
        texts = [exact_sql(predicate) for predicate in where]
        pushed = [text for text in texts if text is not None]
        rest = [predicate for predicate, text in zip(where, texts, strict=True) if text is None]
        unpushed = RowFilter(rest)
        read = list(dict.fromkeys((*columns, *(field.column for predicate in rest for field in ir.fields_of(predicate)))))
        reader = self.table.scan(
            read,
            where=" AND ".join(f"({text})" for text in pushed) or None,
            limit=None if rest else limit,
            addresses=True,
            batch_rows=batch_rows,
        )
        left = limit
        for batch in reader:
            check()
            if rest:
                batch = batch.filter(pa.array(unpushed.mask(batch.num_rows, partial(_column, batch))))
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield self.numbers.from_addresses(batch.column(ADDRESS).to_numpy(zero_copy_only=False)), batch
            if left == 0:
                return

    def nearest(
        self, column: str, query: Sequence[float], count: int, where: Sequence[ir.Predicate], *, probes: int, refine: int
    ) -> tuple[Numbers64, pa.Array] | None:
        """Return about the `count` rows nearest to a vector, of those for which every predicate holds, and their vectors, by an index.

        None if the index cannot be used, if a predicate cannot be pushed into it, or if it found fewer rows.
        """
        texts = [exact_sql(predicate) for predicate in where]
        pushed = [text for text in texts if text is not None]
        if len(pushed) < len(texts):
            return None
        sql = " AND ".join(f"({text})" for text in pushed) or None
        found = self.table.nearest(column, query, count, where=sql, probes=probes, refine=refine)
        if found is None or len(found) < count:
            return None
        return self.numbers.from_addresses(found.column(ADDRESS).to_numpy()), whole(found.column(column))

    def batches(self, columns: Sequence[str], *, check: Check) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows. They are not kept in memory."""
        for batch in self.table.scan(columns, batch_rows=BATCH):
            check()
            yield batch

    def mask(self, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """Return for every number whether it is a row for which the predicates hold."""
        found = np.zeros(self.size, np.bool_)
        for numbers, _ in self.scan((), where, check=check):
            found[numbers] = True
        return found

    # -- by number

    def read(self, numbers: Numbers64, columns: Sequence[str], *, check: Check) -> dict[str, Column]:
        """Return the given columns of the given rows, in the order of `numbers`, which may contain duplicates."""
        if not columns:
            return {}
        if (held := self._in_memory(columns, rows=len(numbers))) is not None:
            at = pa.array(numbers)
            return {name: column.take(at) for name, column in held.items()}
        wanted, places = distinct(numbers, size=self.size)
        indices = pa.array(places)
        if self.size <= SMALL_TABLE_ROWS or len(wanted) * SPARSE > self.size:
            found = self._read_by_scan(wanted, columns, check)
        else:
            found = self._read_by_address(wanted, columns, check)
        return {name: column.take(indices) for name, column in found.items()}

    def _read_by_address(self, wanted: Numbers64, columns: Sequence[str], check: Check) -> dict[str, Column]:
        parts = []
        for start in range(0, max(1, len(wanted)), BATCH):
            check()
            parts.append(self.table.take(self.numbers.to_addresses(wanted[start : start + BATCH]), columns))
        return {name: joined((part.column(name) for part in parts), parts[0].schema.field(name).type) for name in columns}

    def _read_by_scan(self, wanted: Numbers64, columns: Sequence[str], check: Check) -> dict[str, Column]:
        """Read by a scan. A scan returns rows in the order of their numbers, so the result has that order too."""
        flags = np.zeros(self.size, np.bool_)
        flags[wanted] = True
        everything = len(wanted) == self.size
        kept: list[pa.RecordBatch] = []
        for numbers, batch in self._scan(columns, (), check=check):
            kept.append(batch if everything else batch.filter(pa.array(flags[numbers])))
        schema = self.table.schema
        return {name: joined((batch.column(name) for batch in kept), schema.field(name).type) for name in columns}

    def ids(self, numbers: Numbers64, *, check: Check) -> Column:
        return self.read(numbers, (ID,), check=check)[ID]

    def satisfying(self, numbers: Numbers64, where: Sequence[ir.Predicate], *, check: Check) -> Mask:
        """Return for each of the given rows whether the predicates hold."""
        fields: dict[str, Field] = {field.column: field for predicate in where for field in ir.fields_of(predicate)}
        if (held := self._in_memory(fields, rows=len(numbers))) is not None:
            at = pa.array(numbers)
            return filter_mask(where, len(numbers), lambda field: held[field.column].take(at))
        wanted, places = distinct(numbers, size=self.size)
        dense = self.size <= SMALL_TABLE_ROWS or len(wanted) * SPARSE > self.size
        if dense and not any(ir.computes(predicate) for predicate in where):
            return self.mask(where, check=check)[numbers]
        # Rows that are not asked for are not evaluated: an overflow there is no error.
        columns = (self._read_by_scan if dense else self._read_by_address)(wanted, tuple(fields), check)
        return filter_mask(where, len(wanted), lambda field: columns[field.column])[places]

    # -- by text

    def having(
        self,
        column: str,
        texts: pa.Array,
        columns: Sequence[str],
        *,
        check: Check,
        where: str | None = None,
        known: Members | None = None,
        whole: bool | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose `column` is one of these distinct texts, with `columns` and the row addresses; `where` is SQL.

        An index can answer an IN list. A long list is split into parts, or, if that costs more, replaced by one pass over the table.
        `whole` overrides this choice. `known` are the texts as members, if the caller has built them already.
        """
        names = list(dict.fromkeys((column, *columns)))
        if whole is None:
            whole = len(texts) > IN_LIST and not (column in self.indexed and len(texts) * LOOKUP_ROWS <= self.size)
        among = None if not whole else Members(texts) if known is None else known
        for part in [texts.slice(start, IN_LIST) for start in range(0, len(texts), IN_LIST)] if not whole else [None]:
            conditions = [text for text in (one_of(column, part) if part is not None else None, where) if text is not None]
            wanted = " AND ".join(f"({text})" for text in conditions) or None
            for batch in self.table.scan(names, where=wanted, addresses=True, batch_rows=BATCH):
                check()
                yield batch if among is None else batch.filter(pa.array(among.has(batch.column(column))))

    def find(self, ids: pa.Array, *, check: Check) -> Numbers64:
        """Return the number of each id, or -1 if there is no such row."""
        if (at_hand := self._known()) is not None:
            return at_hand.find(ids)
        encoded = ids.dictionary_encode()
        known, places = Members(encoded.dictionary), encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        found = np.full(len(known) + 1, -1, np.int64)  # the last slot belongs to null
        for batch in self.having(ID, encoded.dictionary, (), check=check, known=known):
            numbers = self.numbers.from_addresses(batch.column(ADDRESS).to_numpy(zero_copy_only=False))
            found[known.find(batch.column(ID))] = numbers
        numbers_of: Numbers64 = found[places]
        return numbers_of


def _column(batch: pa.RecordBatch, field: Field) -> pa.Array:
    return batch.column(field.column)


def _no_check() -> None:
    """Do not check: a few rows are read in one call, without batches."""
