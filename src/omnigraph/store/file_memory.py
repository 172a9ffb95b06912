"""Files that never change -> what was read from them or written to them, kept in memory up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from omnigraph.lru import Lru

DELETED_BYTES: Final = 8 << 20
KEYS_BYTES: Final = 32 << 20
ROWS_BYTES: Final = 8 << 20
ENTRY_BYTES: Final = 1 << 10
TABLE_BYTES: Final = 4 << 10
"""What an entry takes besides its values. Of many small commits, that is nearly all."""
LOOKUPS: Final = 64
"""How many lists of page ranges stay in memory. A B-tree over a million keys has 245 pages."""


class KeyBlock(NamedTuple):
    """Keys that lie together in a file, and the place of each row (numpy uint64): its offset in a fragment, or its address."""

    keys: pa.Array
    places: Any


class FileMemory:
    """Keys, rows and deleted rows of files. A fragment is identified by the names of its files, a page of a B-tree by index uuid and
    page number, and a deletion file by its path in the graph.

    A file is never rewritten and its name is never used again, so an entry can be evicted but never be out of date.
    """

    def __init__(self) -> None:
        self.keys: Final = Lru[tuple[str | int, ...], KeyBlock](KEYS_BYTES, weigh=_weight_of_keys)
        self.deleted: Final = Lru[str, Any](DELETED_BYTES, weigh=lambda offsets: int(offsets.nbytes) + ENTRY_BYTES)
        """The offsets of the rows that a deletion file lists (numpy uint32), ascending."""
        self.first_keys: Final = Lru[str, list[str]](LOOKUPS)
        """The first key of each page of a B-tree, in ascending order, by index uuid."""
        self._rows: Final = Lru[tuple[tuple[str, ...], tuple[int, ...]], pa.Table](ROWS_BYTES, weigh=lambda rows: rows.nbytes + TABLE_BYTES)

    def keep_rows(self, fragment: Any, rows: pa.Table, *, fields: Sequence[int]) -> None:
        """Keeps the rows that were just written to a new fragment (its metadata). `fields` are the ids of the columns."""
        if fragment.physical_rows == len(rows):
            self._rows.put((files_of(fragment), tuple(fields)), rows)

    def rows(self, fragment: Any, *, fields: Sequence[int]) -> pa.Table | None:
        """The rows of a fragment (its metadata), if they were kept with these columns and none is deleted. A column that was dropped
        and added again has another id.
        """
        if fragment.deletion_file is not None or fragment.overlays:
            return None
        return self._rows.get((files_of(fragment), tuple(fields)))


def _weight_of_keys(block: KeyBlock) -> int:
    return int(block.keys.nbytes) + int(block.places.nbytes) + ENTRY_BYTES


def files_of(fragment: Any) -> tuple[str, ...]:
    """The names of the data files of a fragment (its metadata)."""
    # Not `file.path`: it creates a class at every access, which takes longer than the rest of a lookup of one key.
    return tuple(file._path for file in fragment.files)
