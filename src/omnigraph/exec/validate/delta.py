"""The change of one type and its committed rows: the two inputs of the integrity checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import Column
from omnigraph.store.tables import Tables


class Added(Protocol):
    """Rows that a write adds, in memory or in files. They can be read repeatedly, always in the same order."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class RowsInMemory(msgspec.Struct, frozen=True):
    """Added rows in a table in memory."""

    table: pa.Table

    @property
    def rows(self) -> int:
        return len(self.table)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.table.select(list(columns)).to_batches())


class Delta(msgspec.Struct, frozen=True):
    """The change that a write makes to one type."""

    entity: EntityType
    added: Added | None = None
    """Added rows. Each replaces the committed row with the same id, if any."""
    deleted: Column | None = None
    """Deleted ids. None of them is also added."""
    minted: bool = False
    """The ids of all added rows are new by construction."""
    cascaded: bool = False
    """All edges of the deleted nodes are deleted too, by construction. No check looks for others."""
    whole: bool = False
    """The added rows replace all rows of the type (overwrite)."""
    replaces: bool = True
    """Whether an added row may replace a committed one. If not (append), an existing id is a conflict."""


class Committed(Protocol):
    """The committed rows, before the write."""

    def rows(self, entity: EntityType) -> int:
        """The number of rows of a type. Reads no data."""
        ...

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows for which the SQL condition `where` is true."""
        ...


class CommittedTables:
    """The committed rows of a snapshot."""

    def __init__(self, snapshot: BranchSnapshot, tables: Tables) -> None:
        self._snapshot = snapshot
        self._tables = tables

    def rows(self, entity: EntityType) -> int:
        return self._snapshot.table_of(entity.id, name=entity.name).rows

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._tables.open(self._snapshot.table_of(entity.id, name=entity.name).ref).scan(columns, where=where)
