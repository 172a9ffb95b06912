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

from omnigraph.catalog.keys import Column, Rows, spell_tuples
from omnigraph.catalog.model import EntityType
from omnigraph.exec.predicate import column as quoted
from omnigraph.exec.predicate import literal
from omnigraph.exec.validate.arrays import Numbers, distinct
from omnigraph.exec.validate.delta import Added, Committed
from omnigraph.store.arrays import whole
from omnigraph.store.tables import one_of

KEY: Final = "#key"
"""The column that `holding` adds: the spelling of the key. No property can have this name."""

PROBED_KEYS: Final = 8_192
"""How many keys one scan asks for (V-16)."""
ROWS_PER_PROBE: Final = 1_024
"""Asking an index for one more key costs as much as reading the key column of this many rows (docs/design/validation.md)."""
FEW_KEYS: Final = 16
"""So few keys are asked for however small the table is: reading is cheap then, and asking no dearer."""
GROUPED_ROWS: Final = 1 << 16
HASHED_BYTES: Final = 256
"""How much of a key decides its partition. Longer keys that differ only in their middle fall into one, and cost memory, not truth."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_LAST_FACTORS: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


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


def fingerprints(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each text, equal for equal texts: eight bytes at a time, all texts at once."""
    count = len(texts)
    _, ends, data = texts.buffers()
    bounds = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + count + 1].astype(np.int64)
    used = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] if data is not None else np.zeros(0, np.uint8)
    padded = np.concatenate([used, np.zeros(8, np.uint8)])
    words: npt.NDArray[np.uint64] = np.ndarray((len(used) + 1,), "<u8", buffer=padded, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    numbers = lengths.astype(np.uint64) * _FACTOR
    for at in range(0, min(int(lengths.max(initial=0)), HASHED_BYTES), 8):
        longer = np.flatnonzero(lengths > at)
        beyond = np.maximum(at + 8 - lengths[longer], 0).astype(np.uint64) * np.uint64(8)
        _mix(numbers, longer, words[starts[longer] + at] << beyond)
    cut = np.flatnonzero(lengths > HASHED_BYTES)
    _mix(numbers, cut, words[starts[cut] + lengths[cut] - 8])
    for factor in _LAST_FACTORS:  # the low bits, which choose the partition, must know of all others
        numbers = (numbers ^ (numbers >> np.uint64(33))) * factor
    return numbers ^ (numbers >> np.uint64(33))


def repeated(texts: Column) -> Numbers:
    """Where a text stands that stood before. Mostly none does, and that is soon known: their fingerprints all differ."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    slices = (chunk.slice(start, GROUPED_ROWS) for chunk in chunks for start in range(0, len(chunk), GROUPED_ROWS))  # what fits the cache
    numbers = np.sort(np.concatenate([np.zeros(0, np.uint64), *map(fingerprints, slices)]))
    if (numbers[1:] != numbers[:-1]).all():
        return np.zeros(0, np.int64)
    return distinct(whole(texts)).again()


def _mix(numbers: npt.NDArray[np.uint64], at: Numbers, words: npt.NDArray[np.uint64]) -> None:
    mixed = (numbers[at] ^ words) * _FACTOR
    numbers[at] = mixed ^ (mixed >> np.uint64(29))


# -- what is committed


def holding(committed: Committed, entity: EntityType, columns: Sequence[str], *, by: Sequence[str], wanted: Rows) -> Iterator[pa.Table]:
    """Committed rows whose values of `by` are one of the `wanted` tuples, with the spelling of the tuple as `KEY`.

    Few keys are asked of the indexes; many are looked for in one pass over the columns.
    """
    rows = committed.rows(entity)
    if not rows or not wanted.num_rows:
        return
    keys = whole(spell_tuples(by, wanted))
    few = len(keys) <= FEW_KEYS or len(keys) * ROWS_PER_PROBE <= rows
    for where in _probes(entity, by, wanted) if few else (None,):
        # A kernel builds its table of keys for each call, so a call gets at least as many rows as there are keys.
        for group in grouped(committed.scan(entity, columns, where=where), rows=max(GROUPED_ROWS, len(keys))):
            spelled = spell_tuples(by, group)
            yield group.append_column(KEY, spelled).filter(pc.is_in(spelled, value_set=keys))


def holding_texts(committed: Committed, entity: EntityType, columns: Sequence[str], *, by: str, keys: pa.Array) -> Iterator[pa.Table]:
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
