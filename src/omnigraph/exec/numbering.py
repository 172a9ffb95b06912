"""One table version -> a dense number for each of its rows: the rows before its fragment, plus its offset inside.

Deleted rows keep their number, and nobody asks for it. Numbers of one version mean nothing in another.
"""

from __future__ import annotations

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


class Numbers:
    """Row number <-> row address (fragment id << 32 | offset), both as whole arrays."""

    __slots__ = ("_bases", "_ids", "_order", "_starts", "fragments", "size")

    def __init__(self, parts: tuple[Fragment, ...]) -> None:
        bases = list(accumulate((part.rows for part in parts), initial=0))
        self.fragments: Final = parts
        self.size: Final = bases[-1]
        """Numbers run from 0 up to, not including, this."""
        self._bases: Final = np.array(bases[:-1], np.int64)
        self._starts: Final = np.array([part.id for part in parts], np.uint64) << _OFFSET_BITS
        self._order: Final = np.argsort(self._starts)
        self._ids: Final = self._starts[self._order]

    @staticmethod
    def of(table: Table) -> Numbers:
        """From the table's metadata only."""
        return Numbers(fragments(table))

    def to_addresses(self, numbers: Numbers64) -> Addresses:
        if len(self._bases) == 1:
            return np.bitwise_or(numbers.astype(np.uint64), self._starts[0])
        at = np.searchsorted(self._bases, numbers, side="right") - 1
        return (numbers - self._bases[at]).astype(np.uint64) | self._starts[at]

    def from_addresses(self, addresses: Addresses) -> Numbers64:
        if len(self._bases) == 1:
            return (addresses & _OFFSET).astype(np.int64)
        at = self._order[np.searchsorted(self._ids, addresses, side="right") - 1]
        return self._bases[at] + (addresses & _OFFSET).astype(np.int64)
