"""The `id` column of one node table version, by row number, and a sorted order over it: id -> number and number -> id.

A deleted row has no id. The order is kept in a few sorted runs, so that a change sorts what it added and not the whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.adjacency.build import narrowed
from omnigraph.exec.adjacency.columns import whole_column
from omnigraph.exec.adjacency.kernels import Ints, Marks, Narrow
from omnigraph.exec.adjacency.numbering import Numbers
from omnigraph.store.arrays import joined, whole
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.membership import Members
from omnigraph.store.tables import ADDRESS, KEY, Table

FEW: Final = 64
"""Up to so many ids are looked for one by one, about 15 µs each; a hash table over all ids costs 80 ns for each of those."""
RUNS: Final = 4


class Ids(msgspec.Struct, frozen=True, dict=True):
    """`texts` holds the id of each number; each of `runs` are numbers in the order of their ids, and every row is in one."""

    numbers: Numbers
    texts: pa.Array
    runs: tuple[Narrow, ...]

    def find(self, texts: pa.Array) -> Ints:
        """The number of each id, or -1 where no row has it."""
        if len(texts) <= FEW:
            return self.find_each(texts.to_pylist())
        return self._members.find(texts)

    @cached_property
    def _members(self) -> Members:
        return Members(self.texts, match_nulls=False)

    def find_each(self, texts: Iterable[str | None]) -> Ints:
        """The same, for a few."""
        at = self._bytes_at()
        # A lone surrogate is no text that a row could have; it is looked for, and not found.
        return np.array([-1 if text is None else self._number(text.encode("utf-8", "surrogatepass"), at) for text in texts], np.int64)

    def _number(self, text: bytes, at: Callable[[int], bytes]) -> int:
        for run in self.runs:  # in the order of the bytes
            place = bisect_left(run, text, key=at)
            if place < len(run) and at(run[place]) == text:
                return int(run[place])
        return -1

    def _bytes_at(self) -> Callable[[int], bytes]:
        """The text of a number, straight from memory: a scalar of Arrow takes ten times as long."""
        _, offsets, data = self.texts.buffers()
        if offsets is None or data is None:
            return lambda _: b""
        wide = np.int64 if pa.types.is_large_string(self.texts.type) else np.int32
        starts, whole = np.frombuffer(offsets, wide)[self.texts.offset :], memoryview(data)
        return lambda number: whole[starts[number] : starts[number + 1]].tobytes()

    def take(self, numbers: Ints) -> pa.Array:
        return self.texts.take(pa.array(numbers))


def ids_of(table: Table, numbers: Numbers, older: Ids | None = None) -> Ids:
    """Read the ids of a table: all, or those of the fragments that an older state of it did not have."""
    if older is None:
        texts = whole_column(table, numbers, numbers.fragments, KEY)
        return Ids(numbers, texts, (_sorted(texts, np.arange(len(texts))),))
    unread = tuple(part for part in numbers.fragments if older.numbers.base(part) is None)
    texts = _joined([*_pieces(table, numbers, unread, older)])
    valid: Marks = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    changed = older.numbers.changed(numbers)
    still = alive(table, changed)
    places = numbers.places(changed)
    if (still > valid[places]).any():  # rows that had gone are there again: a state from before the deletion
        return ids_of(table, numbers)
    valid[places] &= still
    texts = _only(texts, valid)
    return Ids(numbers, texts, _runs(texts, valid, numbers, numbers.places(unread), older))


def alive(table: Table, parts: tuple[Fragment, ...]) -> Marks:
    """Which rows of some fragments are there, by their numbers among these. Only what has deletions is read."""
    local, holed = Numbers(parts), tuple(part for part in parts if part.deletions is not None)
    marks = np.ones(local.size, np.bool_)
    marks[local.places(holed)] = False
    if holed:
        for batch in scan_fragments(table, holed, []):
            marks[local.from_addresses(batch.column(ADDRESS).to_numpy())] = True
    return marks


def _pieces(table: Table, numbers: Numbers, unread: tuple[Fragment, ...], older: Ids) -> Iterator[pa.Array]:
    read, local = whole_column(table, numbers, unread, KEY), Numbers(unread)
    for part in numbers.fragments:
        if (start := local.base(part)) is not None:
            yield read.slice(start, part.rows)
        else:
            yield older.texts.slice(older.numbers.base(part), part.rows)


def _joined(pieces: list[pa.Array]) -> pa.Array:
    """Those that were read before may have wide offsets."""
    wide = any(pa.types.is_large_string(piece.type) for piece in pieces)
    return whole(joined((piece.cast(pa.large_string()) if wide else piece for piece in pieces), pa.large_string() if wide else pa.string()))


def _only(texts: pa.Array, valid: Marks) -> pa.Array:
    """The same texts, those that are not valid made null."""
    _, offsets, data = texts.buffers()
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(texts.type, len(texts), [bitmap, offsets, data])


def _runs(texts: pa.Array, valid: Marks, numbers: Numbers, fresh: Ints, older: Ids) -> tuple[Narrow, ...]:
    """The older runs without what has gone, and one more of what is new; or all in one when there are too many."""
    if len(older.runs) >= RUNS or len(fresh) * RUNS > numbers.size:
        return (_sorted(texts, np.arange(len(texts))),)
    moves, kept = older.numbers.moved(numbers), []
    for run in older.runs:
        moved = run if moves is None else moves[run]
        here = moved >= 0
        here[here] = valid[moved[here]]
        kept.append(narrowed(moved[here]))
    return (*kept, _sorted(texts, fresh)) if len(fresh) else tuple(kept)


def _sorted(texts: pa.Array, numbers: Ints) -> Narrow:
    mine = texts if len(numbers) == len(texts) else texts.take(pa.array(numbers))
    if _ascend(mine):
        return narrowed(numbers)
    order = pc.array_sort_indices(mine, null_placement="at_end").to_numpy()
    return narrowed(numbers[order[: len(mine) - mine.null_count].astype(np.int64)])


def _ascend(texts: pa.Array) -> bool:
    """Whether there is nothing to sort: rows are often loaded in the order of their keys, and looking takes a tenth of a sort."""
    return not texts.null_count and bool(pc.all(pc.less_equal(texts[:-1], texts[1:]), min_count=0).as_py())
