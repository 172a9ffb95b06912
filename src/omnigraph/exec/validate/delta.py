"""What a write does to one type, and what is there without it: the two things that integrity is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.manifest.read import Snapshot
from omnigraph.store.arrays import Column
from omnigraph.store.tables import Tables


class Added(Protocol):
    """Rows that a write adds, in memory or in files: they can be read again and again, always in the same order."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class RowsInMemory(msgspec.Struct, frozen=True):
    """Added rows that are a table in memory."""

    table: pa.Table

    @property
    def rows(self) -> int:
        return len(self.table)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.table.select(list(columns)).to_batches())


class Delta(msgspec.Struct, frozen=True):
    """What a write does to one type."""

    entity: EntityType
    added: Added | None = None
    """Rows that come, each replacing the one that has its id, if any."""
    deleted: Column | None = None
    """Ids that go; none of them is added too."""
    minted: bool = False
    """The ids of all added rows are new by construction."""
    cascaded: bool = False
    """All edges of the deleted nodes go too, by construction: nobody needs to look for more."""
    whole: bool = False
    """Nothing of the type remains but what is added (overwrite)."""
    replaces: bool = True
    """Whether an added row may replace another; if not (append), an id that is there is a conflict."""


class Committed(Protocol):
    """The rows that are there without the write."""

    def rows(self, entity: EntityType) -> int:
        """How many; costs nothing."""
        ...

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows for which SQL text is true."""
        ...


class CommittedTables:
    """The rows of a snapshot."""

    def __init__(self, snapshot: Snapshot, tables: Tables) -> None:
        self._snapshot = snapshot
        self._tables = tables

    def rows(self, entity: EntityType) -> int:
        return self._snapshot.table_of(entity.id, name=entity.name).rows

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._tables.open(self._snapshot.table_of(entity.id, name=entity.name).ref).scan(columns, where=where)
