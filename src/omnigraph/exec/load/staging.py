"""Batches of a load -> data files beside the tables they are meant for, written as they come, and the columns that the checks will ask for.

Nothing here is visible to anybody. What is held in memory is bounded: rows wait in small buffers until they are written, and the key
columns stay in memory up to a budget; past it they are read back from the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.catalog.tables import ID, SOURCE, TARGET
from omnigraph.exec.load.read import Batch
from omnigraph.ids import TypeId
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.store.files import Shelf
from omnigraph.store.refs import fresh_ref
from omnigraph.store.tables import Tables

FLUSH_BYTES: Final = 64 << 20
"""How many bytes of one type wait until they are written as one file."""
HELD_BYTES: Final = 192 << 20
"""How many bytes of all types wait at once."""
KEY_BYTES: Final = 512 << 20
"""How many bytes of key columns stay in memory; past it they are read back."""


class Place:
    """Where the rows of one type came from: for each batch its source, and its lines as a range when they are one."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._parts: list[tuple[str, int | pa.Array]] = []
        self._rows = 0

    def add(self, source: str, lines: pa.Array) -> None:
        numbers = lines.to_numpy(zero_copy_only=False)
        straight = len(numbers) > 0 and numbers[-1] - numbers[0] == len(numbers) - 1
        self._starts.append(self._rows)
        self._parts.append((source, int(numbers[0]) if straight else pa.array(numbers)))
        self._rows += len(numbers)

    def of(self, row: int) -> tuple[str, int]:
        """The source and line of one row."""
        at = int(np.searchsorted(self._starts, row, side="right")) - 1
        source, lines = self._parts[at]
        offset = row - self._starts[at]
        return source, lines + offset if isinstance(lines, int) else lines[offset].as_py()


class StagedType:
    """All rows of one type so far: `shelf` holds what is written, `keys` what the checks will read. None: nothing is to be written."""

    def __init__(self, entity: EntityType, row: TableRow, shelf: Shelf | None) -> None:
        self.entity: Final = entity
        self.row = row
        self.shelf = shelf
        self.place: Final = Place()
        self.rows = 0
        self.minted = True
        self.waiting: list[pa.Table] = []
        self.waiting_bytes = 0
        self.keys: list[pa.Table] | None = []
        self.key_columns: Final = _key_columns(entity)

    def add(self, batch: Batch) -> None:
        self.rows += len(batch.rows)
        self.minted = self.minted and batch.minted
        self.place.add(batch.source, batch.lines)
        if self.keys is not None:
            # An id minted here collides with none, so it is only ever asked for to name a row: from the file, then.
            kept = [name for name in self.key_columns if name != ID or not batch.minted or self.shelf is None]
            self.keys.append(batch.rows.select(kept))
        if self.shelf is not None:
            self.waiting.append(batch.rows)
            self.waiting_bytes += batch.rows.nbytes

    def flush(self) -> None:
        if self.waiting and self.shelf is not None:
            self.shelf.put(pa.concat_tables(self.waiting))
            self.waiting, self.waiting_bytes = [], 0

    @property
    def key_bytes(self) -> int:
        return sum(part.nbytes for part in self.keys) if self.keys is not None else 0

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of this load in record order, of these columns only: from memory, or from what was written."""
        if self.keys is not None and all(set(columns) <= set(part.schema.names) for part in self.keys):
            for part in self.keys:
                yield from part.select(list(columns)).to_batches()
        elif self.shelf is not None:
            yield from self.shelf.read(columns)


class Staging:
    """One load's rows, by type, for one snapshot of one branch."""

    def __init__(self, tables: Tables, *, write: bool, key_bytes: int = KEY_BYTES) -> None:
        self._tables = tables
        self._write = write
        self._key_bytes = key_bytes
        self.types: Final[dict[TypeId, StagedType]] = {}

    def add(self, batch: Batch, row: TableRow, snapshot: Snapshot) -> None:
        staged = self.types.get(batch.entity.id)
        if staged is None:
            staged = StagedType(batch.entity, row, self._shelf(row, snapshot) if self._write else None)
            self.types[batch.entity.id] = staged
        staged.add(batch)
        if staged.waiting_bytes > FLUSH_BYTES:
            staged.flush()
        elif sum(held.waiting_bytes for held in self.types.values()) > HELD_BYTES:
            max(self.types.values(), key=lambda held: held.waiting_bytes).flush()
        if self._write:
            self._forget_keys()

    def finish(self) -> None:
        """Write what still waits."""
        for staged in self.types.values():
            staged.flush()

    def fits(self, staged: StagedType, row: TableRow, snapshot: Snapshot) -> bool:
        """Do the files lie where a commit on this snapshot wants them?"""
        if staged.shelf is None:
            return True
        first_touch = row.owner != snapshot.branch.native
        same_place = (row.id, row.native, row.owner) == (staged.row.id, staged.row.native, staged.row.owner)
        return same_place and first_touch == (staged.shelf.native is not None)

    def move(self, staged: StagedType, row: TableRow, snapshot: Snapshot) -> None:
        """Put the same rows in another place: somebody made the branch's own copy of the table before us."""
        assert staged.shelf is not None, "a dry run writes nothing that could lie in the wrong place"
        old, new = staged.shelf, self._shelf(row, snapshot)
        for rows in _gathered(old.read(old.table.schema.names)):
            new.put(rows)
        staged.row, staged.shelf = row, new
        old.clear()

    def discard(self) -> None:
        """Remove every file: the load was refused."""
        for staged in self.types.values():
            staged.waiting, staged.waiting_bytes = [], 0
            if staged.shelf is not None:
                staged.shelf.clear()

    def _shelf(self, row: TableRow, snapshot: Snapshot) -> Shelf:
        native = fresh_ref(snapshot.branch.name) if row.owner != snapshot.branch.native else None
        return Shelf(self._tables.open(row.ref), native=native)

    def _forget_keys(self) -> None:
        while sum(staged.key_bytes for staged in self.types.values()) > self._key_bytes:
            largest = max(self.types.values(), key=lambda staged: staged.key_bytes)
            largest.flush()
            largest.keys = None


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches as tables of the size of a file."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.nbytes for part in waiting) > FLUSH_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _key_columns(entity: EntityType) -> list[str]:
    """The columns that identity, uniqueness, endpoints and cardinality look at."""
    wanted = {ID}
    match entity:
        case EdgeType():
            wanted |= {SOURCE, TARGET}
        case NodeType(key=key):
            wanted |= set(key.columns) if key is not None else set()
    wanted |= {column for unique in entity.uniques for column in unique.columns}
    names = [ID, *([SOURCE, TARGET] if isinstance(entity, EdgeType) else []), *(property_.name for property_ in entity.properties)]
    return [name for name in names if name in wanted]
