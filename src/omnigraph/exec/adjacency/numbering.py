"""One table version -> a dense number for each row: the number of rows in earlier fragments, plus the offset in its own.

Deleted rows keep their number, which is not used. Numbers of different versions are not comparable.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.store.fragments import Fragment, fragments
from omnigraph.store.tables import Table

Numbers64: TypeAlias = npt.NDArray[np.int64]
Addresses: TypeAlias = npt.NDArray[np.uint64]

_OFFSET_BITS: Final = np.uint64(32)
_OFFSET: Final = np.uint64(0xFFFF_FFFF)


class Numbering:
    """Row number <-> row address (fragment id << 32 | offset), both as whole arrays."""

    __slots__ = ("_at", "_bases", "_ids", "_order", "_starts", "fragments", "size")

    def __init__(self, parts: tuple[Fragment, ...]) -> None:
        bases = list(accumulate((part.rows for part in parts), initial=0))
        self.fragments: Final = parts
        self.size: Final = bases[-1]
        """Numbers are at least 0 and below this."""
        self._bases: Final = np.array(bases[:-1], np.int64)
        self._at: Final = {_rows(part): base for part, base in zip(parts, bases, strict=False)}
        self._starts: Final = np.array([part.id for part in parts], np.uint64) << _OFFSET_BITS
        self._order: Final = np.argsort(self._starts)
        self._ids: Final = self._starts[self._order]

    @staticmethod
    def of(table: Table) -> Numbering:
        """Read only the metadata of the table."""
        return Numbering(fragments(table))

    def to_addresses(self, numbers: Numbers64) -> Addresses:
        if len(self._bases) == 1:
            only: Addresses = numbers.astype(np.uint64) | self._starts[0]
            return only
        at = np.searchsorted(self._bases, numbers, side="right") - 1
        return (numbers - self._bases[at]).astype(np.uint64) | self._starts[at]

    def from_addresses(self, addresses: Addresses) -> Numbers64:
        if len(self._bases) == 1:
            return (addresses & _OFFSET).astype(np.int64)
        at = self._order[np.searchsorted(self._ids, addresses, side="right") - 1]
        return self._bases[at] + (addresses & _OFFSET).astype(np.int64)

    def base(self, part: Fragment) -> int | None:
        """Return the number of the first row of a fragment with the same rows, deleted or not; None if there is no such fragment."""
        return self._at.get(_rows(part))

    def places(self, parts: Iterable[Fragment]) -> Numbers64:
        """Return the numbers of all rows of some fragments of this version, in the order of the fragments."""
        runs = [np.arange(base, base + part.rows) for part in parts if (base := self.base(part)) is not None]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)

    def changed(self, after: Numbering) -> tuple[Fragment, ...]:
        """Return the fragments of a later version that have the same rows as a fragment of this one, but different deletions."""
        mine = frozenset(self.fragments)
        return tuple(part for part in after.fragments if part not in mine and self.base(part) is not None)

    def rows_differing(self, after: Numbering) -> int:
        """Return the number of rows that are in only one of the two versions."""
        mine, others = {_rows(part): part for part in self.fragments}, {_rows(part): part for part in after.fragments}
        apart = sum(part.rows for one, other in ((mine, others), (others, mine)) for key, part in one.items() if key not in other)
        return apart + sum(abs(_deleted(part) - _deleted(others[key])) for key, part in mine.items() if key in others)

    def moved(self, after: Numbering) -> Numbers64 | None:
        """Return for each number the number of the same row in a later version, or -1 if it is gone. None if no number changed."""
        if all(after.base(part) == base for part, base in zip(self.fragments, self._bases.tolist(), strict=True)):
            return None
        moves = np.full(self.size, -1, np.int64)
        for part, base in zip(self.fragments, self._bases.tolist(), strict=True):
            if (now := after.base(part)) is not None:
                moves[base : base + part.rows] = np.arange(now, now + part.rows)
        return moves


def _rows(part: Fragment) -> tuple[int, tuple[str, ...]]:
    """Identify the rows of a fragment, regardless of deletions."""
    return part.id, part.files


def _deleted(part: Fragment) -> int:
    return 0 if part.deletions is None else part.deletions[2]
