"""Added rows -> their keys, all at once or by partition; and keys -> the committed rows that have them.

Keys that do not fit the budget are checked in several passes. Each pass reads the key columns again and keeps the rows whose key
is in one partition, so that equal keys are always compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import KeyRows, spell_tuples
from omnigraph.catalog.model import EntityType
from omnigraph.exec.read.predicate import column as quoted
from omnigraph.exec.read.predicate import literal
from omnigraph.exec.validate.delta import Added, Committed
from omnigraph.store.arrays import Column, Places, whole
from omnigraph.store.fingerprints import fingerprints
from omnigraph.store.membership import Members
from omnigraph.store.tables import one_of

PROBED_KEYS: Final = 8_192
"""How many keys one scan looks up (V-16)."""
ROWS_PER_PROBE: Final = 1_024
"""Looking up one more key in an index costs as much as reading the key column of this many rows (docs/design/validation.md)."""
FEW_KEYS: Final = 16
"""Up to this many keys are always looked up: in a small table a lookup costs no more than a scan."""
GROUPED_ROWS: Final = 1 << 16


class KeyPartition(NamedTuple):
    """Partition number `at` of `of`."""

    at: int
    of: int


class Selection(NamedTuple):
    """Columns of some added rows, and the number of each row among all of its type. `numbers` is None if these are all rows."""

    table: pa.Table
    numbers: Places | None

    def rows(self, places: Places) -> Places:
        return places if self.numbers is None else self.numbers[places]


def parts(sizes: Iterable[tuple[Added | None, Sequence[str]]], *, budget_bytes: int) -> tuple[KeyPartition, ...]:
    """The partitions that are needed so that the key columns of one partition fit the budget."""
    total = sum(_bytes(added, columns) for added, columns in sizes if added is not None)
    of = max(1, -(-int(total) // budget_bytes))
    return tuple(KeyPartition(at, of) for at in range(of))


def _bytes(added: Added, columns: Sequence[str]) -> float:
    """Estimated from the first batch."""
    first = next(iter(added.read(columns)))
    return float(first.nbytes / max(1, first.num_rows) * added.rows)


def pick(added: Added, columns: Sequence[str], *, by: Sequence[str], part: KeyPartition) -> Selection:
    """Columns of the added rows whose key, the values of `by`, is in the partition."""
    if part.of == 1:
        return Selection(pa.Table.from_batches(list(added.read(columns))), None)
    kept: list[pa.RecordBatch] = []
    numbers: list[Places] = []
    before = 0
    for batch in added.read(columns):
        mine = in_part(spell_tuples(by, batch), part)
        kept.append(batch.filter(pa.array(mine)))
        numbers.append(np.flatnonzero(mine) + before)
        before += batch.num_rows
    return Selection(pa.Table.from_batches(kept), np.concatenate(numbers))


def in_part(texts: Column, part: KeyPartition) -> npt.NDArray[np.bool_]:
    """Which texts are in the partition. A null is in an arbitrary one."""
    mine: npt.NDArray[np.bool_] = fingerprints(whole(texts)) % np.uint64(part.of) == part.at
    return mine


# -- committed rows


class Holders(NamedTuple):
    """Committed rows, and for each the position of its key among the wanted keys."""

    rows: pa.Table
    places: Places


def holding(committed: Committed, entity: EntityType, columns: Sequence[str], *, by: Sequence[str], wanted: KeyRows) -> Iterator[Holders]:
    """Committed rows whose values of `by` are one of the `wanted` tuples.

    Few keys are looked up in the indexes. Many keys are found by one scan of the columns.
    """
    rows = committed.rows(entity)
    if not rows or not wanted.num_rows:
        return
    keys = whole(spell_tuples(by, wanted))
    few = len(keys) <= FEW_KEYS or len(keys) * ROWS_PER_PROBE <= rows
    known = Members(keys)
    for where in _probes(entity, by, wanted) if few else (None,):
        for group in grouped(committed.scan(entity, columns, where=where)):
            places = known.find(spell_tuples(by, group))
            met = np.flatnonzero(places >= 0)
            yield Holders(group.take(pa.array(met)), places[met])


def holding_texts(committed: Committed, entity: EntityType, columns: Sequence[str], *, by: str, keys: Column) -> Iterator[Holders]:
    """Committed rows that have one of these texts in the column `by`."""
    return holding(committed, entity, columns, by=(by,), wanted=pa.table({by: keys}))


def _probes(entity: EntityType, by: Sequence[str], wanted: KeyRows) -> Iterator[str]:
    for start in range(0, wanted.num_rows, PROBED_KEYS):
        chunk = wanted.slice(start, PROBED_KEYS)
        yield " AND ".join(_one_of(entity, name, whole(pc.unique(chunk.column(name)))) for name in by)


def _one_of(entity: EntityType, name: str, values: pa.Array) -> str:
    """SQL: the column has one of these values. Literals have the column's type, so that an index can be used (V-06)."""
    if pa.types.is_string(values.type):
        return one_of(name, values)
    property_ = entity.property(name)
    assert property_ is not None
    if pa.types.is_floating(values.type) and pc.any(pc.equal(values, 0.0)).as_py():
        values = pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])  # equal values here, but two keys in an index
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_date64(values.type):
        values = values.cast(pa.int64())
    return f"{quoted(name)} IN ({', '.join(literal(value, property_.type) for value in values.to_pylist())})"


def grouped(batches: Iterable[pa.RecordBatch], *, rows: int = GROUPED_ROWS) -> Iterator[pa.Table]:
    """The same rows in tables of at least `rows` rows; the last one may be smaller."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)
