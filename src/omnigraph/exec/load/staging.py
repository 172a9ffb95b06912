"""Batches of a load -> data files beside their tables, written as the batches arrive, and the key columns for the checks.

The files are not visible to readers. Memory is bounded: rows wait in small buffers until they are written, and key columns stay in
memory up to a budget. Beyond it they are read back from the files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.exec.load.batches import Batch, Unit
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.patches import PATCH_BYTES, PatchFiles, PatchStore, TemporaryFiles
from omnigraph.exec.load.pieces import together
from omnigraph.ids import TypeId
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.data_files import PATCHES, Shelf
from omnigraph.store.refs import fresh_ref
from omnigraph.store.tables import Tables

FLUSH_BYTES: Final = 64 << 20
"""How many bytes of one type are buffered before they are written as one file."""
HELD_BYTES: Final = 192 << 20
"""How many bytes of all types are buffered at once."""
KEY_BYTES: Final = 512 << 20
"""How many bytes of key columns stay in memory. Beyond it they are read back from the files."""


class Origin(NamedTuple):
    """The source of one row, and its line or its record number, from 1. One of the two is known."""

    source: str
    line: int | None
    record: int | None


class RowOrigins(Protocol):
    """The origins of the rows of one type."""

    def of(self, rows: Sequence[int]) -> list[Origin]:
        """The origins of some rows, by their numbers from 0."""
        ...


class BatchPlaces:
    """The origins of rows that came in batches. For each batch it keeps the source and the lines, as a range if they are contiguous."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._parts: list[tuple[str, Unit, int | pa.Array]] = []
        self._rows = 0

    def add(self, batch: Batch) -> None:
        numbers = batch.lines.to_numpy(zero_copy_only=False)
        straight = len(numbers) > 0 and numbers[-1] - numbers[0] == len(numbers) - 1
        self._starts.append(self._rows)
        self._parts.append((batch.source, batch.unit, int(numbers[0]) if straight else batch.lines))
        self._rows += len(numbers)

    def of(self, rows: Sequence[int]) -> list[Origin]:
        return [self._of(row) for row in rows]

    def _of(self, row: int) -> Origin:
        at = bisect_right(self._starts, row) - 1
        source, unit, lines = self._parts[at]
        offset = row - self._starts[at]
        number = lines + offset if isinstance(lines, int) else int(lines[offset].as_py())
        return Origin(source, number, None) if unit is Unit.LINE else Origin(source, None, number)


class StagingTarget(msgspec.Struct, frozen=True):
    """The location of the files of one type: beside the table's own files, or in `native`, a native branch to be created for them."""

    row: TableRow
    native: str | None = None

    def same_place(self, other: StagingTarget) -> bool:
        """True if a commit to this target finds files written for the other. Names of native branches to be created do not matter."""
        mine, theirs = self.row, other.row
        return (mine.id, mine.native, mine.owner) == (theirs.id, theirs.native, theirs.owner) and bool(self.native) == bool(other.native)


def target_of(snapshot: BranchSnapshot, entity: EntityType) -> StagingTarget:
    """The target for the rows of a type on this snapshot's branch. A table that another branch owns is forked first."""
    row = snapshot.table_of(entity.id, name=entity.name)
    return StagingTarget(row, fresh_ref(snapshot.branch.name) if row.owner != snapshot.branch.native else None)


class StagedType:
    """All rows of one type so far. `shelf` has the written files, or is None if nothing is written; `keys` has the key columns.

    Rows that depend on a snapshot are in `patches`, and neither in the shelf nor in the keys.
    """

    def __init__(self, entity: EntityType, target: StagingTarget, shelf: Shelf | None, patches: PatchFiles | None = None) -> None:
        self.entity: Final = entity
        self.target = target
        self.shelf = shelf
        self.patches: Final = patches
        self.places: RowOrigins = BatchPlaces()
        self.rows = 0
        self.fresh = 0
        self.waiting: list[pa.Table] = []
        self.waiting_bytes = 0
        self.keys: list[pa.Table] | None = [] if patches is None else None
        self.key_columns: Final = _key_columns(entity)

    def add(self, batch: Batch) -> None:
        assert isinstance(self.places, BatchPlaces), "rows come in batches, or all at once from elsewhere"
        self.places.add(batch)
        self.put(batch.rows, fresh=batch.fresh)

    def put(self, rows: pa.Table, *, fresh: int) -> None:
        """Add rows, of which `fresh` have an id that was minted for them."""
        self.rows += len(rows)
        self.fresh += fresh
        if self.keys is not None:
            # A minted id cannot conflict. It is needed only to name a row, and can be read from the file then.
            kept = [name for name in self.key_columns if name != ID or fresh < len(rows) or self.shelf is None]
            self.keys.append(rows.select(kept))
        if self.shelf is not None or self.patches is not None:
            self.waiting.append(rows)
            self.waiting_bytes += rows.nbytes

    @property
    def minted(self) -> bool:
        """Every id was minted here."""
        return self.fresh == self.rows

    def flush(self) -> None:
        to = self.shelf if self.patches is None else self.patches
        if self.waiting and to is not None:
            to.put(together(self.waiting))
            self.waiting, self.waiting_bytes = [], 0

    @property
    def flush_bytes(self) -> int:
        return FLUSH_BYTES if self.patches is None else PATCH_BYTES

    @property
    def key_bytes(self) -> int:
        return sum(part.nbytes for part in self.keys) if self.keys is not None else 0

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the rows, in record order, from memory or from the written files."""
        if self.keys is not None and all(set(columns) <= set(part.schema.names) for part in self.keys):
            for part in self.keys:
                yield from part.select(list(columns)).to_batches()
        elif self.patches is not None:
            yield from self.patches.read(columns)
        elif self.shelf is not None:
            yield from self.shelf.read(columns)


class Staging:
    """The rows of one load, by type."""

    def __init__(
        self,
        tables: Tables,
        target: Callable[[EntityType], StagingTarget],
        *,
        write: bool,
        mode: LoadMode,
        key_bytes: int = KEY_BYTES,
        patch_store: PatchStore | None = None,
    ) -> None:
        """`patch_store` is where patches are written, if not to temporary files of this process."""
        self._tables = tables
        self.mode: Final = mode
        self._patch_store = patch_store
        self._target_for = target
        self._targets: dict[TypeId, StagingTarget] = {}
        self._write = write
        self._key_bytes = key_bytes
        self._temporary: TemporaryFiles | None = None
        self.types: Final[dict[TypeId, StagedType]] = {}

    def add(self, batch: Batch) -> None:
        staged = self.of(batch.entity)
        staged.add(batch)
        self._relieve(staged)

    def put(self, entity: EntityType, rows: pa.Table, *, fresh: int) -> None:
        """Add rows that come in no batch."""
        staged = self.of(entity)
        staged.put(rows, fresh=fresh)
        self._relieve(staged)

    def _relieve(self, staged: StagedType) -> None:
        if staged.waiting_bytes > staged.flush_bytes:
            staged.flush()
        elif sum(held.waiting_bytes for held in self.types.values()) > HELD_BYTES:
            max(self.types.values(), key=lambda held: held.waiting_bytes).flush()
        if self._write:
            self._release_keys()

    def of(self, entity: EntityType) -> StagedType:
        """The staged rows of a type. Creates an empty entry for a new type."""
        if entity.id not in self.types:
            target = self.target_of(entity)
            patches = self._patch_files(target) if self.mode.patches(entity) else None
            shelf = self._shelf(target) if self._write and patches is None else None
            self.types[entity.id] = StagedType(entity, target, shelf, patches)
        return self.types[entity.id]

    def target_of(self, entity: EntityType) -> StagingTarget:
        """The target of a type's files. It is chosen once."""
        return self._targets.setdefault(entity.id, self._target_for(entity))

    def aim(self, entity: EntityType, target: StagingTarget) -> StagedType:
        """The staged rows of a type whose files were written for a target chosen earlier."""
        self._targets[entity.id] = target
        return self.of(entity)

    def forget(self, staged: StagedType) -> None:
        """Drop the rows of a type and delete its files."""
        _discard(staged)
        del self.types[staged.entity.id]
        self._targets.pop(staged.entity.id, None)

    def finish(self) -> None:
        """Write all buffered rows."""
        for staged in self.types.values():
            staged.flush()

    def move(self, staged: StagedType, target: StagingTarget) -> None:
        """Move the files to another target: another writer forked the table for this branch before us."""
        if staged.shelf is not None:
            new = self._shelf(target)
            new.take_over(staged.shelf)
            staged.shelf = new
        staged.target = target

    def discard(self) -> None:
        """Delete every file: the load was refused."""
        for staged in self.types.values():
            _discard(staged)
        self.close()

    def close(self) -> None:
        """Delete what no commit references: the patches."""
        for staged in self.types.values():
            if staged.patches is not None:
                staged.patches.clear()
        if self._temporary is not None:
            self._temporary.close()

    def _patch_files(self, target: StagingTarget) -> PatchFiles:
        if self._patch_store is None:
            self._temporary = self._temporary or TemporaryFiles()
            return PatchFiles(self._temporary, "")
        return PatchFiles(self._patch_store, f"{target.row.ref.home}/{PATCHES}/")

    def _shelf(self, target: StagingTarget) -> Shelf:
        return Shelf(self._tables.open(target.row.ref), native=target.native)

    def _release_keys(self) -> None:
        while sum(staged.key_bytes for staged in self.types.values()) > self._key_bytes:
            largest = max(self.types.values(), key=lambda staged: staged.key_bytes)
            largest.flush()
            largest.keys = None


def _discard(staged: StagedType) -> None:
    staged.waiting, staged.waiting_bytes = [], 0
    if staged.shelf is not None:
        staged.shelf.clear()
    if staged.patches is not None:
        staged.patches.clear()


def _key_columns(entity: EntityType) -> list[str]:
    """The columns that the checks of identity, uniqueness, endpoints and cardinality read."""
    wanted = {ID}
    match entity:
        case EdgeType():
            wanted |= {SOURCE, TARGET}
        case NodeType(key=key):
            wanted |= set(key.columns) if key is not None else set()
    wanted |= {column for unique in entity.uniques for column in unique.columns}
    names = [ID, *([SOURCE, TARGET] if isinstance(entity, EdgeType) else []), *(property_.name for property_ in entity.properties)]
    return [name for name in names if name in wanted]
