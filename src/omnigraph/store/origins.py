"""A rewritten fragment -> a record of the rows that it holds: those of older fragments, in their order, without the deleted ones. Two
versions of a table and such records -> which rows they share although they are in other files. Nothing is read.

Files never change and their names are never reused, so a record is true for good, in every version and on every native branch. Each row
has a place where it was first stored, as far as records reach. Two rows with the same place are the same row.
"""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.store.fragments import Fragment

MOST_BYTES: Final = 65_536
"""A larger record is not kept: it would slow down every reader of the history. Rows without one are compared by their values."""

Offsets = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.uint64]


class OldFragment(msgspec.Struct, frozen=True, array_like=True):
    """A fragment that was rewritten, and which of its rows were deleted then: compressed bits, one for each row. Empty if none was."""

    files: tuple[str, ...]
    rows: int
    deleted: str = ""


class RowOrigin(msgspec.Struct, frozen=True):
    """The rows of a new fragment with one data file: `rows` of those of the old ones, joined without the deleted ones, from `start` on."""

    file: str
    rows: int
    start: int
    old: tuple[OldFragment, ...]


Origins = Mapping[str, RowOrigin]
"""The data file of a fragment -> its origin."""


def old_fragment(part: Fragment, deleted: Offsets) -> OldFragment:
    if not len(deleted):
        return OldFragment(part.files, part.rows)
    bits = np.zeros(part.rows, np.bool_)
    bits[deleted] = True
    return OldFragment(part.files, part.rows, b85encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode())


def origins_of(old: Sequence[OldFragment], new: Iterable[Any]) -> tuple[RowOrigin, ...]:
    """The origins of the fragments (their metadata) that hold the rows of these, in order. Leaves out those with too large a record."""
    found: list[RowOrigin] = []
    ends = np.cumsum([part.rows - len(_deleted(part)) for part in old])
    start = 0
    for fragment in new:
        rows = int(fragment.physical_rows)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, start + rows, side="left")) + 1
        before = int(ends[first - 1]) if first else 0
        origin = RowOrigin(str(fragment.files[0].path), rows, start - before, tuple(old[first:last]))
        start += rows
        if len(fragment.files) == 1 and sum(len(part.deleted) + sum(map(len, part.files)) for part in origin.old) <= MOST_BYTES:
            found.append(origin)
    return tuple(found)


class Runs(NamedTuple):
    """Ranges of numbers, ascending and apart, each mapped to a range of others: `at + n` is `to + n`, for n below `length`."""

    at: Numbers
    length: Numbers
    to: Numbers

    @staticmethod
    def of(*runs: tuple[int, int, int]) -> Runs:
        return Runs(*np.array(runs, np.uint64).reshape(-1, 3).T)

    def cut(self, starts: Numbers, ends: Numbers, *, inside: bool = True) -> Runs:
        """The parts of the ranges that lie in one of these ascending ranges, or in none of them."""
        cuts = np.unique(np.concatenate([self.at, self.at + self.length, starts, ends]))
        left, right = cuts[:-1], cuts[1:]
        run = np.searchsorted(self.at, left, side="right") - 1
        other = np.searchsorted(starts, left, side="right") - 1
        kept = _is_in(run, left, self.at + self.length) & (_is_in(other, left, ends) == inside)
        left, right, run = left[kept], right[kept], run[kept]
        return Runs(left, right - left, self.to[run] + (left - self.at[run]))

    def turned(self) -> Runs:
        """The same pairs of numbers, from the others."""
        order = np.argsort(self.to)
        return Runs(self.to[order], self.length[order], self.at[order])

    def moved(self, numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """What some numbers are mapped to, and which of them are mapped."""
        run = np.searchsorted(self.at, numbers, side="right") - 1
        there = _is_in(run, numbers, self.at + self.length)
        found = np.zeros(len(numbers), np.uint64)
        found[there] = self.to[run[there]] + (numbers[there] - self.at[run[there]])
        return found, there

    def numbers(self) -> Numbers:
        """Every number that is mapped, ascending."""
        if not len(self.at):
            return np.empty(0, np.uint64)
        within = np.arange(int(self.length.sum()), dtype=np.uint64) - np.repeat(
            np.cumsum(self.length) - self.length, self.length.astype(np.int64)
        )
        return np.repeat(self.at, self.length.astype(np.int64)) + within


def joined(runs: Sequence[Runs]) -> Runs:
    """Runs that follow each other."""
    return Runs(*(np.concatenate([np.empty(0, np.uint64), *columns]) for columns in zip(*runs, strict=True))) if runs else Runs.of()


def live_ranges(rows: int, deleted: Offsets) -> tuple[Numbers, Numbers]:
    """The ranges of rows of a fragment that are not deleted: their starts and their ends."""
    gone = np.sort(deleted).astype(np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), gone + np.uint64(1)])
    ends = np.concatenate([gone, np.array([rows], np.uint64)])
    return starts[starts < ends], ends[starts < ends]


class Places:
    """Where rows were first stored, as numbers. Equal numbers are the same row."""

    def __init__(self, origins: Origins) -> None:
        self._origins: Final = origins
        self._known: Final[dict[tuple[tuple[str, ...], int], Runs]] = {}

    def of(self, files: tuple[str, ...], rows: int) -> Runs:
        """The offsets of the rows of a fragment, deleted or not -> their places."""
        if (known := self._known.get((files, rows))) is None:
            known = self._traced(files, rows)
            if known is None:
                known = Runs.of((0, rows, (len(self._known) + 1) << 32)) if rows else Runs.of()
            self._known[files, rows] = known
        return known

    def _traced(self, files: tuple[str, ...], rows: int) -> Runs | None:
        origin = self._origins.get(files[0]) if len(files) == 1 else None
        if origin is None or origin.rows != rows:
            return None
        found: list[Runs] = []
        count = 0
        for part in origin.old:
            live = self.of(part.files, part.rows).cut(*live_ranges(part.rows, _deleted(part)))
            ends = np.cumsum(live.length, dtype=np.uint64)
            found.append(Runs(ends - live.length + np.uint64(count), live.length, live.to))
            count += int(ends[-1]) if len(ends) else 0
        start, end = np.uint64(origin.start), np.uint64(origin.start + rows)
        if count < end:  # not a record of this release
            return None
        cut = joined(found).cut(np.array([start]), np.array([end]))
        return Runs(cut.at - start, cut.length, cut.to)


def _deleted(part: OldFragment) -> Offsets:
    if not part.deleted:
        return np.empty(0, np.uint32)
    bits = np.unpackbits(np.frombuffer(zlib.decompress(b85decode(part.deleted)), np.uint8), count=part.rows)
    return np.flatnonzero(bits).astype(np.uint32)


def _is_in(run: npt.NDArray[np.int64], numbers: Numbers, ends: Numbers) -> npt.NDArray[np.bool_]:
    """Whether each number is in the range with this index. -1 is none."""
    if not len(ends):
        return np.zeros(len(numbers), np.bool_)
    return (run >= 0) & (numbers < ends[np.maximum(run, 0)])
