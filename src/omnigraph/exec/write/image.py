"""The pending changes of one table: rows to write, in memory or, if they are many, in data files; and ids to delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID, table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.blobs import blob_properties, decode_blob, is_external
from omnigraph.exec.external_blobs import ExternalBlobs
from omnigraph.exec.problems import REPORTED
from omnigraph.exec.validate.findings import Findings, merge_in_order
from omnigraph.exec.validate.integrity import Added, Delta, RowsInMemory
from omnigraph.exec.validate.value_rules import check_values
from omnigraph.exec.write.protocol import Append, Change, DeleteKeys, Files, Upsert
from omnigraph.ids import new_ulid
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import Column, joined, whole
from omnigraph.store.data_files import Shelf
from omnigraph.store.membership import Members
from omnigraph.store.refs import fresh_ref
from omnigraph.store.tables import Overlay, Table

HELD_BYTES: Final = 64 << 20
"""How many bytes of the rows of one statement are held before they are written to a file."""


class _Written(msgspec.Struct, frozen=True):
    """The rows of one statement in files, and what is wrong with their values."""

    shelf: Shelf
    findings: Findings


class Image:
    """One table as the mutation leaves it: written rows and deleted ids. A mutation never has both (rule D2, W-15)."""

    def __init__(self, entity: EntityType, row: TableRow, table: Table, snapshot: BranchSnapshot) -> None:
        self.entity: Final = entity
        self.row: Final = row
        self.table: Final = table
        self.schema: Final[pa.Schema] = table_schema(entity)
        self.blobs: Final = blob_properties(entity)
        self._native: Final = fresh_ref(snapshot.branch.name) if row.owner != snapshot.branch.native else None
        self._layers: list[pa.Table | _Written] = []
        self._shelves: Final[list[Shelf]] = []
        self.deleted: pa.ChunkedArray = joined([], pa.string())
        self.all_new = True
        """Every pending row has an id minted here, so no committed row can have the same id."""
        self._external: Final[dict[bytes, str]] = {}
        """Blob URIs by ticket. The ticket stands for the URI in the rows until the last statement has run."""

    # -- changes

    def put(self, parts: Iterable[pa.Table], *, new: bool) -> int:
        """Add pending rows, with distinct ids, and return their number. Many rows are written to files as they come."""
        held: list[pa.Table] = []
        findings: list[Findings] = []
        shelf: Shelf | None = None
        count, held_bytes = 0, 0

        def spill() -> Shelf:
            rows = pa.concat_tables(held)
            findings.append(check_values(self.entity, rows))
            to = shelf or self._new_shelf()
            to.put(rows)
            return to

        for part in parts:
            held.append(part)
            held_bytes += part.nbytes
            count += len(part)
            if held_bytes > HELD_BYTES and not self._external:
                shelf = spill()
                held, held_bytes = [], 0
        if shelf is None:
            self._layers += held
        else:
            if held:
                spill()
            self._layers.append(_Written(shelf, merge_in_order(findings, limit=REPORTED)))
        self.all_new = self.all_new and (new or not count)
        return count

    def remove(self, ids: Column) -> int:
        """Add ids to delete, all of rows that exist, and return how many of them no earlier statement deleted (W-21)."""
        new = whole(ids) if not len(self.deleted) else whole(ids).filter(pa.array(~Members(self.deleted).has(ids)))
        self.deleted = joined([self.deleted, new], pa.string())
        return len(new)

    def blob(self, text: str) -> bytes:
        """The bytes that a text encodes, or, if the text is a URI, a ticket for it."""
        if not is_external(text):
            return decode_blob(text)
        ticket = new_ulid().encode()
        self._external[ticket] = text
        return ticket

    # -- the result

    @property
    def is_changed(self) -> bool:
        return bool(self._layers) or len(self.deleted) > 0

    @property
    def pending(self) -> pa.Table:
        """The pending rows; of several with the same id, the last (W-14). Layers are merged on read because inserts are frequent."""
        layers = [layer if isinstance(layer, pa.Table) else self._read_back(layer.shelf) for layer in self._layers]
        if len(layers) > 1:
            rows = pa.concat_tables(layers).combine_chunks()
            places = pa.table({ID: rows.column(ID), "place": pa.array(np.arange(len(rows)))})
            last = places.group_by(ID, use_threads=False).aggregate([("place", "max")])
            layers = [rows.take(last.column("place_max"))]
        self._layers = list(layers)
        return layers[0] if layers else self.schema.empty_table()

    @property
    def overlay(self) -> Overlay | None:
        """The pending changes, to be laid over the committed rows."""
        return None if not self.is_changed else Overlay(rows=self.pending, deleted=self.deleted)

    def findings(self) -> Findings:
        """What is wrong with the values of the pending rows."""
        match self._layers:
            case []:
                return Findings()
            case [_Written(findings=findings)]:
                return findings
            case _:
                return check_values(self.entity, self.pending)

    def delta(self) -> Delta:
        return Delta(self.entity, self._added(), self.deleted, minted=self.all_new, cascaded=True)

    def _added(self) -> Added:
        match self._layers:
            case [_Written(shelf)]:
                return shelf
            case _:
                return RowsInMemory(self.pending)

    def change(self, external: ExternalBlobs | None = None) -> Change | None:
        """The change of the table, with the bytes of external blobs; with empty blobs in place of those that are not read yet."""
        if len(self.deleted):
            return DeleteKeys(self.deleted)
        match self._layers:
            case [_Written(shelf)]:
                return Files(tuple(shelf.fragments), replaced=None if self.all_new else shelf, native=shelf.native)
            case _ if not len(rows := self.pending):
                return None
            case _:
                rows = self._with_external(rows, external)
                return Append(rows) if self.all_new else Upsert(rows)

    def discard(self) -> None:
        """Delete the written files: no commit will reference them."""
        for shelf in self._shelves:
            shelf.clear()

    # -- files

    def _new_shelf(self) -> Shelf:
        self._shelves.append(Shelf(self.table, native=self._native))
        return self._shelves[-1]

    def _read_back(self, shelf: Shelf) -> pa.Table:
        """Take rows that a later statement needs back into memory."""
        rows = pa.Table.from_batches(list(shelf.read(self.schema.names))).select(self.schema.names).cast(self.schema)
        shelf.clear()
        return rows

    def _with_external(self, rows: pa.Table, external: ExternalBlobs | None) -> pa.Table:
        """The final rows with bytes in place of tickets. A URI that a later statement replaced is neither checked nor read (W-39)."""
        if not self._external:
            return rows
        assert external is not None, "whoever assigns texts to blobs passes the reader of URIs"
        uris = list(self._external.values())
        tickets = Members(pa.array(self._external, pa.large_binary()), match_nulls=False)
        for name in self.blobs:
            column = whole(rows.column(name))
            places = tickets.find(column)
            cells = np.bincount(places[places >= 0], minlength=len(uris))
            read = [(external.of(uri, int(count)) or b"") if count else b"" for uri, count in zip(uris, cells, strict=True)]
            every = pa.concat_arrays([column, pa.array(read, pa.large_binary())])
            chosen = every.take(pa.array(np.where(places >= 0, len(column) + places, np.arange(len(column)))))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), chosen)
        return rows
