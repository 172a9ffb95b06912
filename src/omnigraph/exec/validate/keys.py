"""Keys of added rows, whole or one partition at a time, and the committed rows that hold given keys.

Keys that do not fit the budget are checked in several passes: each reads the key columns again and keeps the rows whose key
falls into one partition, so that equal keys always meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import Rows, spell_tuples
from omnigraph.catalog.model import EntityType
from omnigraph.exec.read.predicate import column as quoted
from omnigraph.exec.read.predicate import literal
from omnigraph.exec.validate.arrays import Numbers
from omnigraph.exec.validate.delta import Added, Committed
from omnigraph.store.arrays import Column, whole
from omnigraph.store.fingerprints import fingerprints
from omnigraph.store.membership import Members
from omnigraph.store.tables import one_of

PROBED_KEYS: Final = 8_192
"""How many keys one scan asks for (V-16)."""
ROWS_PER_PROBE: Final = 1_024
"""Asking an index for one more key costs as much as reading the key column of this many rows (docs/design/validation.md)."""
FEW_KEYS: Final = 16
"""So few keys are asked for however small the table is: reading is cheap then, and asking no dearer."""
GROUPED_ROWS: Final = 1 << 16


class Part(NamedTuple):
    """The keys that fall into partition `at` of `of`."""

    at: int
    of: int


class Picked(NamedTuple):
    """Columns of some added rows, and the number of each among all of its type; no numbers: they are all there."""

    table: pa.Table
    numbers: Numbers | None

    def rows(self, places: Numbers) -> Numbers:
        return places if self.numbers is None else self.numbers[places]


def parts(sizes: Iterable[tuple[Added | None, Sequence[str]]], *, budget_bytes: int) -> tuple[Part, ...]:
    """As many partitions as bring the key columns of all these rows, a partition at a time, under the budget."""
    total = sum(_bytes(added, columns) for added, columns in sizes if added is not None)
    of = max(1, -(-int(total) // budget_bytes))
    return tuple(Part(at, of) for at in range(of))


def _bytes(added: Added, columns: Sequence[str]) -> float:
    """By the first rows: the others are taken to be as long."""
    first = next(iter(added.read(columns)))
    return float(first.nbytes / max(1, first.num_rows) * added.rows)


def pick(added: Added, columns: Sequence[str], *, by: Sequence[str], part: Part) -> Picked:
    """Columns of the added rows whose key, the values of `by`, falls into the partition."""
    if part.of == 1:
        return Picked(pa.Table.from_batches(list(added.read(columns))), None)
    kept: list[pa.RecordBatch] = []
    numbers: list[Numbers] = []
    before = 0
    for batch in added.read(columns):
        mine = in_part(spell_tuples(by, batch), part)
        kept.append(batch.filter(pa.array(mine)))
        numbers.append(np.flatnonzero(mine) + before)
        before += batch.num_rows
    return Picked(pa.Table.from_batches(kept), np.concatenate(numbers))


def in_part(texts: Column, part: Part) -> npt.NDArray[np.bool_]:
    """Which texts fall into the partition; a null does not matter and falls somewhere."""
    mine: npt.NDArray[np.bool_] = fingerprints(whole(texts)) % np.uint64(part.of) == part.at
    return mine


# -- what is committed


class Holders(NamedTuple):
    """Committed rows, and for each the place of its key among those that were asked for."""

    rows: pa.Table
    places: Numbers


def holding(committed: Committed, entity: EntityType, columns: Sequence[str], *, by: Sequence[str], wanted: Rows) -> Iterator[Holders]:
    """Committed rows whose values of `by` are one of the `wanted` tuples.

    Few keys are asked of the indexes; many are looked for in one pass over the columns.
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


def _probes(entity: EntityType, by: Sequence[str], wanted: Rows) -> Iterator[str]:
    for start in range(0, wanted.num_rows, PROBED_KEYS):
        chunk = wanted.slice(start, PROBED_KEYS)
        yield " AND ".join(_one_of(entity, name, whole(pc.unique(chunk.column(name)))) for name in by)


def _one_of(entity: EntityType, name: str, values: pa.Array) -> str:
    """The column has one of these values, each spelled in the column's own type, so that an index can answer (V-06)."""
    if pa.types.is_string(values.type):
        return one_of(name, values)
    property_ = entity.property(name)
    assert property_ is not None
    if pa.types.is_floating(values.type) and pc.any(pc.equal(values, 0.0)).as_py():
        values = pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])  # one value to us, two to an index
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_date64(values.type):
        values = values.cast(pa.int64())
    return f"{quoted(name)} IN ({', '.join(literal(value, property_.type) for value in values.to_pylist())})"


def grouped(batches: Iterable[pa.RecordBatch], *, rows: int = GROUPED_ROWS) -> Iterator[pa.Table]:
    """The same rows in tables of at least so many, the last one aside."""
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
