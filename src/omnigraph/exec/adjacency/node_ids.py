"""The `id` column of one node table version -> ids by row number, and an order by fingerprint that finds the number of an id.

A deleted row has no id. The order consists of a few runs, so that a change sorts only the added rows. Integers are sorted in a twentieth
of the time of texts, and the fingerprints of all ids are also what a hash table of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.adjacency.build import narrow
from omnigraph.exec.adjacency.column_cache import ColumnCache, whole_column
from omnigraph.exec.adjacency.kernels import Ints, Marks, Narrow
from omnigraph.exec.adjacency.numbering import Numbering
from omnigraph.store.arrays import joined, whole
from omnigraph.store.fingerprints import Hashes, fingerprint
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.membership import Fingerprinted, Members, in_order
from omnigraph.store.tables import ADDRESS, KEY, Table

FEW_IDS: Final = 64
"""Up to this many ids are found by binary search, one by one. A hash table costs 30 ns for each id of the table."""
RUNS: Final = 4


class Run(msgspec.Struct, frozen=True):
    """Some rows in the order of the fingerprints of their ids."""

    tags: Hashes
    """The fingerprints, ascending."""
    numbers: Narrow


class Ids(msgspec.Struct, frozen=True, dict=True):
    """`texts` is the id of each number. Every row is in exactly one run."""

    numbers: Numbering
    texts: pa.Array
    runs: tuple[Run, ...]

    def find(self, texts: pa.Array) -> Ints:
        """Return the number of each id, or -1 if no row has it."""
        if len(texts) <= FEW_IDS:
            return self.find_each(texts.to_pylist())
        return self._members.find(texts)

    @cached_property
    def _members(self) -> Members:
        tags, numbers = self.runs[0].tags, self.runs[0].numbers
        if len(self.runs) > 1:
            tags, order = in_order(np.concatenate([run.tags for run in self.runs]))
            numbers = np.concatenate([run.numbers for run in self.runs])[order]
        return Members(self.texts, match_nulls=False, known=Fingerprinted(tags, numbers))

    def find_each(self, texts: Iterable[str | None]) -> Ints:
        """Like `find`, but faster for a few ids."""
        at = self._bytes_at
        # A row cannot contain a lone surrogate; such an id is looked up like any other and not found.
        return np.array([-1 if text is None else self._number(text.encode("utf-8", "surrogatepass"), at) for text in texts], np.int64)

    def _number(self, text: bytes, at: Callable[[int], bytes]) -> int:
        tag = np.uint64(fingerprint(text))
        for run in self.runs:
            for place in range(int(run.tags.searchsorted(tag)), len(run.tags)):
                if run.tags[place] != tag:
                    break
                if at(number := int(run.numbers[place])) == text:
                    return number
        return -1

    @cached_property
    def _bytes_at(self) -> Callable[[int], bytes]:
        """A function that reads the id of a number from the Arrow buffers. An Arrow scalar takes ten times as long."""
        _, offsets, data = self.texts.buffers()
        if offsets is None or data is None:
            return lambda _: b""
        wide = np.int64 if pa.types.is_large_string(self.texts.type) else np.int32
        starts, whole = np.frombuffer(offsets, wide)[self.texts.offset :], memoryview(data)
        return lambda number: whole[starts[number] : starts[number + 1]].tobytes()

    def take(self, numbers: Ints) -> pa.Array:
        return self.texts.take(pa.array(numbers))


def read_ids(table: Table, numbers: Numbering, columns: ColumnCache, older: Ids | None = None) -> Ids:
    """Read the ids of a table: all of them, unless they are in memory, or only those of the fragments that an older state lacks."""
    if older is None:
        held = columns.held(table, KEY)
        texts = whole_column(table, numbers, numbers.fragments, KEY) if held is None else held
        return Ids(numbers, texts, (_sorted(texts, np.arange(len(texts))),))
    unread = tuple(part for part in numbers.fragments if older.numbers.base(part) is None)
    texts = _concat([*_pieces(table, numbers, unread, older)])
    valid: Marks = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    changed = older.numbers.changed(numbers)
    still = alive(table, changed)
    places = numbers.places(changed)
    if (still > valid[places]).any():  # deleted rows are back: the version is older than the deletion
        return read_ids(table, numbers, columns)
    valid[places] &= still
    texts = _set_nulls(texts, valid)
    return Ids(numbers, texts, _runs(texts, valid, numbers, numbers.places(unread), older))


def alive(table: Table, parts: tuple[Fragment, ...]) -> Marks:
    """Return which rows of some fragments exist, by number among them. Only fragments with deletions are read."""
    local, holed = Numbering(parts), tuple(part for part in parts if part.deletions is not None)
    marks = np.ones(local.size, np.bool_)
    marks[local.places(holed)] = False
    if holed:
        for batch in scan_fragments(table, holed, []):
            marks[local.from_addresses(batch.column(ADDRESS).to_numpy())] = True
    return marks


def _pieces(table: Table, numbers: Numbering, unread: tuple[Fragment, ...], older: Ids) -> Iterator[pa.Array]:
    read, local = whole_column(table, numbers, unread, KEY), Numbering(unread)
    for part in numbers.fragments:
        if (start := local.base(part)) is not None:
            yield read.slice(start, part.rows)
        else:
            yield older.texts.slice(older.numbers.base(part), part.rows)


def _concat(pieces: list[pa.Array]) -> pa.Array:
    """Concatenate. Pieces that were read earlier may have 64-bit offsets."""
    wide = any(pa.types.is_large_string(piece.type) for piece in pieces)
    return whole(joined((piece.cast(pa.large_string()) if wide else piece for piece in pieces), pa.large_string() if wide else pa.string()))


def _set_nulls(texts: pa.Array, valid: Marks) -> pa.Array:
    """Return the same texts with null in place of those that are not valid."""
    _, offsets, data = texts.buffers()
    bitmap = np.packbits(np.concatenate([np.zeros(texts.offset, np.bool_), valid]), bitorder="little")
    return pa.Array.from_buffers(texts.type, len(texts), [pa.py_buffer(bitmap), offsets, data], offset=texts.offset)


def _runs(texts: pa.Array, valid: Marks, numbers: Numbering, fresh: Ints, older: Ids) -> tuple[Run, ...]:
    """Return the older runs without removed rows plus one run of new rows, or a single run if there are too many."""
    if len(older.runs) >= RUNS or len(fresh) * RUNS > numbers.size:
        return (_sorted(texts, np.arange(len(texts))),)
    moves, kept = older.numbers.moved(numbers), []
    for run in older.runs:
        moved = run.numbers if moves is None else moves[run.numbers]
        here = moved >= 0
        here[here] = valid[moved[here]]
        kept.append(Run(run.tags[here], narrow(moved[here])))
    return (*kept, _sorted(texts, fresh)) if len(fresh) else tuple(kept)


def _sorted(texts: pa.Array, numbers: Ints) -> Run:
    mine = texts if len(numbers) == len(texts) else texts.take(pa.array(numbers))
    tags, places = Fingerprinted.of(mine)
    return Run(tags, narrow(numbers[places]))
