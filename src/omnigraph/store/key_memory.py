"""Files that never change -> the keys read from them, kept in memory up to a limit."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa

from omnigraph.lru import Lru

LIMIT_BYTES: Final = 32 << 20
LOOKUPS: Final = 64
"""How many lists of page ranges stay in memory. A B-tree over a million keys has 245 pages."""


class KeyBlock(NamedTuple):
    """Keys that lie together in a file, and the place of each row (numpy uint64): its offset in a fragment, or its address."""

    keys: pa.Array
    places: Any


class KeyMemory:
    """The keys of small fragments, by the names of their files, and of B-tree pages, by index uuid and page number.

    A file is never rewritten and its name is never used again, so an entry can be evicted but never be out of date.
    """

    def __init__(self) -> None:
        self.blocks: Final = Lru[tuple[str | int, ...], KeyBlock](LIMIT_BYTES, weigh=lambda block: block.keys.nbytes + block.places.nbytes)
        self.first_keys: Final = Lru[str, list[str]](LOOKUPS)
        """The first key of each page of a B-tree, in ascending order, by index uuid."""
