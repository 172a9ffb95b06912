"""A set of values and columns to look up -> for each row, the position of its value in the set. Built once, probed by batch.

`pc.is_in` and `pc.index_in` build a hash table in each call, so called for each batch they cost batches times values. `Members` holds
one hash table in memory. `KeySet` takes values from a stream, and spills to temporary files if they exceed a memory limit. Both find
what the kernels find: the first of equal values, floats by their bits, and a null if null is among the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrays import Column, Mask, Places, chunks_of, joined, whole
from omnigraph.store.fingerprints import BLOCK_ROWS, EqualWidth, Hashes, can_fingerprint, fingerprints, is_short
from omnigraph.store.foreign import wrap_os_error

AnyPlaces: TypeAlias = npt.NDArray[np.int32] | Places
"""Positions of either width."""

FEW: Final = 1_024
"""Up to this many values, the kernel's hash table, built for each batch, costs less than ours."""
LIMIT_BYTES: Final = 256 << 20
"""How many bytes of values a `KeySet` holds in memory. Its hash table takes about as much again."""
PARTITION_BITS: Final = 5
PARTITIONS: Final = 1 << PARTITION_BITS
LEVELS: Final = 4
"""How often a partition that is too large is partitioned again. If it is still too large, it holds one value many times."""

_NO_SLOT: Final = -1
_NOWHERE: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_VALUE: Final = "value"
_PLACE: Final = "place"
_SPILL: Final = "spill keys to the temporary directory"


class _Slots(NamedTuple):
    """A hash table: fingerprints in ascending order, each at its slot or at the next free one. An empty slot holds the maximum."""

    tags: Hashes
    places: AnyPlaces
    shift: np.uint64

    def find(self, wanted: Hashes) -> Places:
        """The position of each fingerprint, or -1 if it is missing."""
        slots = (wanted >> self.shift).view(np.int64)
        tags = self.tags[slots]
        further = np.flatnonzero(tags < wanted)
        if len(further):
            later = slots[further]
            while True:
                later += 1
                met = self.tags[later]
                slots[further], tags[further] = later, met
                passed = met < wanted[further]
                if not passed.any():
                    break
                further, later = further[passed], later[passed]
        places = self.places[slots].astype(np.int64)
        places[tags != wanted] = -1
        return places


class Fingerprinted(NamedTuple):
    """The places of the values that are not null, in the order of their fingerprints."""

    tags: Hashes
    """The fingerprints, ascending."""
    places: AnyPlaces

    @staticmethod
    def of(values: pa.Array) -> Fingerprinted:
        numbers = fingerprints(values)
        if not values.null_count:
            return Fingerprinted(*in_order(numbers))
        valid = np.flatnonzero(np.asarray(values.is_valid()))
        tags, order = in_order(numbers[valid])
        return Fingerprinted(tags, valid[order])


class Members:
    """A set of values in memory. Finds the position of the first occurrence of a value."""

    def __init__(self, values: Column, *, match_nulls: bool = True, few: int = FEW, known: Fingerprinted | None = None) -> None:
        """`match_nulls`: a null matches a null among the values. `known` are the fingerprints of the values, if the caller has them."""
        self._values: Final = _plain(whole(values))
        self._match_nulls: Final = match_nulls
        self._null: Final = _first_null(self._values) if match_nulls else -1
        hashed = len(self._values) > few and can_fingerprint(self._values.type)
        self._slots: Final = _slots(self._values, known or Fingerprinted.of(self._values)) if hashed else None
        self._equal_width: Final = EqualWidth.of(self._values) if self._slots is not None else None

    def __len__(self) -> int:
        return len(self._values)

    def find(self, column: Column) -> Places:
        """For each row, the position of its value, or -1 if it is missing."""
        found = [self._find(_plain(chunk)) for chunk in chunks_of(column)]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])

    def has(self, column: Column) -> Mask:
        """For each row, whether its value is in the set."""
        return self.find(column) >= 0

    def locate(self, batches: Iterable[pa.RecordBatch], *, on: str) -> Iterator[Located]:
        """The rows, with the positions of their values in the column `on`."""
        return (Located(batch, self.find(batch.column(on))) for batch in batches)

    def _find(self, column: pa.Array) -> Places:
        if self._slots is None:
            found = pc.index_in(column, value_set=self._values, skip_nulls=not self._match_nulls)
            kernel: Places = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            return kernel
        if _family(column.type) != _family(self._values.type):
            raise pa.ArrowTypeError(f"cannot look up values of type {column.type} among values of type {self._values.type}")
        places = np.empty(len(column), np.int64)
        for start in range(0, len(column), BLOCK_ROWS):
            part = column.slice(start, BLOCK_ROWS)
            places[start : start + BLOCK_ROWS] = self._true(part, self._slots.find(fingerprints(part)))
        if column.null_count:
            places[np.asarray(column.is_null())] = self._null
        return places

    def _true(self, column: pa.Array, places: Places) -> Places:
        """Replaces by -1 the positions at which only the fingerprint is equal, and not the value."""
        if is_short(column.type):
            return places
        if self._equal_width is not None and (others := EqualWidth.of(column)) is not None and others.width == self._equal_width.width:
            places[~self._equal_width.same(places, others)] = -1  # -1 stands for the last value, and stays -1
            return places
        met = np.flatnonzero(places >= 0)
        ours = self._values.take(pa.array(places[met])).cast(column.type)
        theirs = column if len(met) == len(column) else column.take(pa.array(met))
        equal = pc.fill_null(pc.equal(ours, theirs), fill_value=False)
        places[met[~np.asarray(equal)]] = -1
        return places


class Located(NamedTuple):
    """Rows, and the position of the value of each, or -1 if it is missing."""

    rows: pa.RecordBatch
    places: Places


class KeySet:
    """A set of values from a stream. Past a memory limit, it is in temporary files, partitioned by fingerprint."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES, few: int = FEW, level: int = 0) -> None:
        self._limit_bytes: Final = limit_bytes
        self._few: Final = few
        self._level: Final = level
        self._held: list[pa.Array] = []
        self._held_bytes = 0
        self._count = 0
        self._members: Members | None = None
        self._spilled: _Partitions | None = None

    @classmethod
    def of(cls, columns: Iterable[Column], *, limit_bytes: int = LIMIT_BYTES, few: int = FEW) -> KeySet:
        keys = cls(limit_bytes=limit_bytes, few=few)
        for column in columns:
            keys.add(column)
        return keys

    def __len__(self) -> int:
        return self._count

    @property
    def is_spilled(self) -> bool:
        return self._spilled is not None

    def add(self, column: Column) -> None:
        """Appends values. Must not be called after `locate`."""
        assert self._members is None, "add must not be called after locate"
        for chunk in chunks_of(column):
            if not len(chunk):
                continue
            self._held.append(_plain(chunk))
            self._held_bytes += chunk.nbytes
            self._count += len(chunk)
        spills = self._held_bytes > self._limit_bytes and self._level < LEVELS
        if self._spilled is not None or (spills and can_fingerprint(self._held[0].type)):
            self._spill()

    def locate(self, batches: Iterable[pa.RecordBatch], *, on: str) -> Iterator[Located]:
        """The rows, with the positions of their values in the column `on`. Keeps the order of the rows, unless the values are in files."""
        if self._spilled is not None:
            return self._locate_by_partition(self._spilled, batches, on)
        if not self._count:
            return (Located(batch, np.full(batch.num_rows, -1, np.int64)) for batch in batches)
        if self._members is None:
            self._members, self._held = Members(joined(self._held, self._held[0].type), few=self._few), []
        return self._members.locate(batches, on=on)

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = _Partitions(self._level)
        place = self._count - sum(map(len, self._held))
        for values in self._held:
            numbers = pa.array(np.arange(place, place + len(values)))
            self._spilled.add(pa.RecordBatch.from_arrays([values, numbers], names=[_VALUE, _PLACE]), on=_VALUE)
            place += len(values)
        self._held, self._held_bytes = [], 0

    def _locate_by_partition(self, spilled: _Partitions, batches: Iterable[pa.RecordBatch], on: str) -> Iterator[Located]:
        probes = _Partitions(self._level)
        for batch in batches:
            probes.add(batch, on=on)
        for part in range(PARTITIONS):
            keys = KeySet(limit_bytes=self._limit_bytes, few=self._few, level=self._level + 1)
            numbers = [np.empty(0, np.int64)]
            for batch in spilled.read(part):
                keys.add(batch.column(_VALUE))
                numbers.append(batch.column(_PLACE).to_numpy())
            places = np.concatenate([*numbers, np.full(1, -1, np.int64)])  # index -1 selects the last entry, so a missing value stays -1
            for rows, found in keys.locate(probes.read(part), on=on):
                yield Located(rows, places[found])


class _Partitions:
    """Rows in temporary files, one for each partition of the values of a column. The files are removed with the object."""

    def __init__(self, level: int) -> None:
        self._shift = np.uint64(level * PARTITION_BITS)
        try:
            self._directory = Path(mkdtemp(prefix="omnigraph-keys-"))
        except OSError as error:
            raise wrap_os_error(error, doing=_SPILL, path=gettempdir()) from error
        finalize(self, rmtree, self._directory, ignore_errors=True)
        self._writers: dict[int, Any] = {}

    def add(self, batch: pa.RecordBatch, *, on: str) -> None:
        values = _plain(batch.column(on))
        if not len(values):
            return
        parts = ((fingerprints(values) >> self._shift) & np.uint64(PARTITIONS - 1)).astype(np.int64)
        if values.null_count:
            parts[np.asarray(values.is_null())] = 0
        order = np.argsort(parts, kind="stable")
        ends = np.cumsum(np.bincount(parts, minlength=PARTITIONS))
        ordered = batch.take(pa.array(order))
        try:
            for part, (start, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
                if start < end:
                    self._writer(part, batch.schema).write_batch(ordered.slice(start, end - start))
        except OSError as error:
            raise wrap_os_error(error, doing=_SPILL, path=str(self._directory)) from error

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in the order in which they were added."""
        if (writer := self._writers.get(part)) is None:
            return
        try:
            writer.close()
            with pa.OSFile(str(self._path(part))) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        except OSError as error:
            raise wrap_os_error(error, doing=_SPILL, path=str(self._directory)) from error

    def _writer(self, part: int, schema: pa.Schema) -> Any:
        if part not in self._writers:
            self._writers[part] = pa.ipc.new_stream(str(self._path(part)), schema)
        return self._writers[part]

    def _path(self, part: int) -> Path:
        return self._directory / f"{part}.arrow"


def is_in(column: Column, values: Column) -> Mask:
    """For each row, whether its value is in `values`. For many batches, build `Members` once instead."""
    return Members(values).has(column)


def repeated(values: Column) -> Places:
    """The positions of repeated values, without their first occurrences. If all fingerprints differ, there are none."""
    numbers = np.sort(np.concatenate([np.empty(0, np.uint64), *map(fingerprints, chunks_of(values))]))
    if (numbers[1:] != numbers[:-1]).all():
        return np.empty(0, np.int64)
    return np.flatnonzero(Members(values).find(values) != np.arange(len(values)))


def matching(keys: Members | KeySet, batches: Iterable[pa.RecordBatch], *, on: str) -> Iterator[pa.RecordBatch]:
    """The rows whose value in the column `on` is a key."""
    return (_filtered(rows, places >= 0) for rows, places in keys.locate(batches, on=on))


def others(keys: Members | KeySet, batches: Iterable[pa.RecordBatch], *, on: str) -> Iterator[pa.RecordBatch]:
    """The rows whose value in the column `on` is not a key."""
    return (_filtered(rows, places < 0) for rows, places in keys.locate(batches, on=on))


def _filtered(rows: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return rows if mask.all() else rows.filter(pa.array(mask))


def _slots(values: pa.Array, known: Fingerprinted) -> _Slots | None:
    """The hash table of the values that are not null. Returns None if two different values have the same fingerprint."""
    tags, places = known
    again = np.flatnonzero(tags[1:] == tags[:-1]) + 1
    if len(again):
        if not is_short(values.type) and not _equal(values, places[again], places[again - 1]):
            return None
        firsts = np.concatenate([[0], np.flatnonzero(tags[1:] != tags[:-1]) + 1])
        tags, places = tags[firsts], np.minimum.reduceat(places, firsts)
    return placed(tags, places)


def in_order(numbers: Hashes) -> tuple[Hashes, Places]:
    """The fingerprints in ascending order, and the position of each. `argsort` alone takes five times as long.

    They are sorted with their positions in place of their low bits.
    """
    low = np.uint64((1 << len(numbers).bit_length()) - 1)
    packed = numbers & ~low
    packed |= np.arange(len(numbers), dtype=np.uint64)
    packed.sort()
    packed &= low
    order = packed.view(np.int64)
    tags = numbers[order]
    if not (tags[1:] >= tags[:-1]).all():  # the low bits decide between a few
        order = np.argsort(numbers)
        tags = numbers[order]
    return tags, order


def placed(tags: Hashes, places: AnyPlaces) -> _Slots:
    """Builds the hash table from distinct fingerprints in ascending order. A block is placed at a time, with temporary arrays that stay
    in the processor's cache."""
    bits = max(1, (3 * len(tags) // 2).bit_length())
    shift = np.uint64(64 - bits)
    blocks = [slice(start, min(start + BLOCK_ROWS, len(tags))) for start in range(0, len(tags), BLOCK_ROWS)]
    last = _NO_SLOT
    for block in blocks:
        last = int(_slots_after(last, tags[block], shift)[-1])
    size = max(1 << bits, last + 1) + 1
    held_tags = np.full(size, _NOWHERE)
    held_places: Any = np.full(size, -1, np.int32 if places.max(initial=0) < 1 << 31 else np.int64)
    last = _NO_SLOT
    for block in blocks:
        slots = _slots_after(last, tags[block], shift)
        held_tags[slots], held_places[slots], last = tags[block], places[block], int(slots[-1])
    return _Slots(held_tags, held_places, shift)


def _slots_after(last: int, tags: Hashes, shift: np.uint64) -> Places:
    """The slots of fingerprints if `last` is taken. Each is at the slot that its high bits select or later, and after the one before."""
    count = np.arange(1, len(tags) + 1)
    free = (tags >> shift).view(np.int64) - count
    free[0] = max(free[0], last)
    return np.maximum.accumulate(free) + count


def _equal(values: pa.Array, some: AnyPlaces, beside: AnyPlaces) -> bool:
    return all(
        pc.all(pc.equal(values.take(pa.array(some[at : at + BLOCK_ROWS])), values.take(pa.array(beside[at : at + BLOCK_ROWS])))).as_py()
        for at in range(0, len(some), BLOCK_ROWS)
    )


def _first_null(values: pa.Array) -> int:
    return int(np.argmax(np.asarray(values.is_null()))) if values.null_count else -1


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _family(type_: pa.DataType) -> pa.DataType:
    """The type, with 32-bit offsets for text and binary."""
    if pa.types.is_large_string(type_):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(type_) else type_
