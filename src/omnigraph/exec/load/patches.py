"""Rows that depend on a snapshot -> files of patches; and the patches with a table -> whole rows, in the order of the records.

A patch is a row with flags for the properties that its record leaves out. It is laid over the row that it replaces, which is found by id
or, for an edge without one, by its ends. Memory holds the address of each row to be replaced, and a batch of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Final, NamedTuple, Protocol
from weakref import finalize

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import spell_tuples
from omnigraph.catalog.layout import ID, SOURCE, TARGET, table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.load.pieces import is_flag, left_out
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.findings import Findings, merge_by_row, rule_findings
from omnigraph.exec.validate.keys import ROWS_PER_PROBE
from omnigraph.exec.write.ulids import mint
from omnigraph.ids import new_ulid
from omnigraph.store.arrays import Mask, joined, whole
from omnigraph.store.blobs import blob_names
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.membership import KeySet, Members
from omnigraph.store.stage import BATCH_ROWS, IN_LIST
from omnigraph.store.tables import ADDRESS, Table, one_of
from omnigraph.store.take import carried_bytes, take

PATCH_BYTES: Final = 16 << 20
"""How many bytes of patches are in one file. They are read back a file at a time."""
BLOB_BYTES: Final = 64 << 20
"""How many bytes of blobs are carried over at once."""
_ROWS: Final = 1 << 15
_KEY: Final = "key"
_ENDS: Final = (SOURCE, TARGET)
_NOWHERE: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_SPILL: Final = "write patches to the temporary directory"

Addresses = npt.NDArray[np.uint64]
"""The addresses of the rows to be replaced, one for each patch, or `_NOWHERE` for a new row."""


# -- files


class PatchStore(Protocol):
    """A place for files of patches."""

    def put(self, path: str, data: bytes, /) -> object: ...

    def get(self, path: str, /) -> bytes: ...

    def delete(self, path: str, /) -> None: ...


class TemporaryFiles:
    """Files in a temporary directory, which is removed by `close`, or with the object."""

    def __init__(self) -> None:
        self._made: Path | None = None
        self._remove: Callable[[], object] | None = None

    def put(self, path: str, data: bytes, /) -> None:
        try:
            if self._made is None:
                self._made = Path(mkdtemp(prefix="omnigraph-patches-"))
                self._remove = finalize(self, rmtree, self._made, ignore_errors=True)
            self._path(path).write_bytes(data)
        except OSError as error:
            raise wrap_os_error(error, doing=_SPILL, path=str(self._made or gettempdir())) from error

    def get(self, path: str, /) -> bytes:
        try:
            return self._path(path).read_bytes()
        except OSError as error:
            raise wrap_os_error(error, doing="read patches from the temporary directory", path=str(self._made)) from error

    def delete(self, path: str, /) -> None:
        with suppress(OSError):  # the directory will be removed as a whole
            self._path(path).unlink()

    def close(self) -> None:
        if self._remove is not None:
            self._remove()

    def _path(self, path: str) -> Path:
        assert self._made is not None, "only what was put can be read"
        return self._made / path


class PatchFiles:
    """The patches of one type, in files, in the order of their records."""

    def __init__(self, store: PatchStore, prefix: str) -> None:
        self._store: Final = store
        self._prefix: Final = prefix
        self._parts: list[tuple[PatchStore, str]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self._parts)

    def put(self, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=_ROWS)
        name = f"{self._prefix}{new_ulid()}.patch"
        self._store.put(name, sink.getvalue().to_pybytes())
        self._parts.append((self._store, name))

    def adopt(self, store: PatchStore, names: Iterable[str]) -> None:
        """Add files that another process wrote."""
        self._parts += ((store, name) for name in names)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        for store, name in self._parts:
            with pa.ipc.open_stream(pa.py_buffer(store.get(name))) as reader:
                yield from reader if columns is None else (batch.select(list(columns)) for batch in reader)

    def clear(self) -> None:
        for store, name in self._parts:
            store.delete(name)
        self._parts.clear()


# -- whole rows


class WholeRows(NamedTuple):
    """Some rows as the load leaves them, or what is wrong with them; then there are no rows."""

    rows: pa.Table | None
    findings: Findings


class Patched(msgspec.Struct, frozen=True):
    """The patches of one type and the table that they are laid over."""

    entity: EntityType
    patches: PatchFiles
    count: int
    table: Table
    table_rows: int
    by_id: bool
    """Patches with an id have to find the row that they replace."""
    by_ends: bool
    """Patches without an id replace the edge with the same ends."""
    limit_bytes: int
    """How many bytes of keys are held in memory."""

    def whole_rows(self, *, limit: int) -> Iterator[WholeRows]:
        """The rows in the order of the records. Up to `limit` findings of a batch are described."""
        at = self._addresses()
        start = 0
        for batch in self.patches.read():
            for part in self._cut(batch, at[start : start + batch.num_rows]):
                yield self._whole(part, at[start : start + part.num_rows], start, limit)
                start += part.num_rows

    # -- the rows to be replaced

    def _addresses(self) -> Addresses:
        found = np.full(self.count, _NOWHERE)
        if self.table_rows and self.by_id:
            self._locate(found, (ID,))
        if self.table_rows and self.by_ends:
            self._locate(found, _ENDS)
        return found

    def _locate(self, found: Addresses, by: tuple[str, ...]) -> None:
        """Few rows are looked up in an index. Many are found by one pass over the columns, with the keys in temporary files if need be."""
        few = self.count <= IN_LIST or self.count * ROWS_PER_PROBE <= self.table_rows
        if few:
            start = 0
            for batch in self._keys(by):
                for first in range(0, batch.num_rows, IN_LIST):
                    self._look_up(found[start : start + IN_LIST], batch.slice(first, IN_LIST), by)
                    start += min(IN_LIST, batch.num_rows - first)
            return
        keys = KeySet.of((_spelled(batch, by) for batch in self._keys(by)), limit_bytes=self.limit_bytes)
        rows = self.table.scan(by, addresses=True, batch_rows=BATCH_ROWS)
        scanned = (pa.record_batch([_spelled(batch, by), batch.column(ADDRESS)], names=[_KEY, ADDRESS]) for batch in rows)
        for batch, places in keys.locate(scanned, on=_KEY):
            met = places >= 0
            found[places[met]] = batch.column(ADDRESS).to_numpy()[met]

    def _keys(self, by: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The columns by which rows are found; null where a patch is found in another way."""
        if by == (ID,):
            yield from self.patches.read([ID])
            return
        for batch in self.patches.read([ID, *by]):
            open_ = batch.column(ID).is_null()
            yield pa.record_batch([pc.if_else(open_, batch.column(name), None) for name in by], names=list(by))

    def _look_up(self, found: Addresses, wanted: pa.RecordBatch, by: tuple[str, ...]) -> None:
        valid = [pc.unique(wanted.column(name).drop_null()) for name in by]
        if not all(map(len, valid)):
            return
        where = " AND ".join(one_of(name, values) for name, values in zip(by, valid, strict=True))
        known = Members(_spelled(wanted, by), match_nulls=False)
        for batch in self.table.scan(by, where=where, addresses=True):
            places = known.find(_spelled(batch, by))
            met = places >= 0
            found[places[met]] = batch.column(ADDRESS).to_numpy()[met]

    # -- one batch

    def _cut(self, batch: pa.RecordBatch, at: Addresses) -> Iterator[pa.RecordBatch]:
        """The batch, in parts if the blobs that it keeps are large."""
        blobs = [name for name in blob_names(self.table.schema) if left_out(name) in batch.schema.names]
        rows = np.flatnonzero(at != _NOWHERE)
        if not blobs or not len(rows):
            yield batch
            return
        sizes = np.zeros(batch.num_rows, np.int64)
        sizes[rows] = carried_bytes(self.table, at[rows], blobs)
        first, held = 0, 0
        for row, size in enumerate(sizes.tolist()):
            if held + size > BLOB_BYTES and row > first:
                yield batch.slice(first, row - first)
                first, held = row, 0
            held += size
        yield batch.slice(first)

    def _whole(self, batch: pa.RecordBatch, at: Addresses, start: int, limit: int) -> WholeRows:
        there = at != _NOWHERE
        flags = {field.name: _flag(batch.column(field.name)) for field in batch.schema if is_flag(field.name)}
        findings = self._missing(batch, flags, ~there, start, limit)
        if findings:
            return WholeRows(None, findings)
        open_ = np.asarray(batch.column(ID).is_null())
        schema = table_schema(self.entity)
        kept = {name: flags[left_out(name)] & there for name in schema.names if left_out(name) in flags}
        wanted = [name for name, mask in kept.items() if mask.any()]
        if (open_ & there).any():
            kept[ID] = open_ & there
            wanted.append(ID)
        old = self._old(at, np.logical_or.reduce([kept[name] for name in wanted]), wanted) if wanted else None
        columns = []
        for field in schema:
            column = batch.column(field.name)
            if old is not None and field.name in wanted:
                column = old.put(field, column, kept[field.name])
            columns.append(column)
        rows = pa.Table.from_arrays(columns, schema=schema)
        return WholeRows(_with_ids(rows), findings)

    def _old(self, at: Addresses, rows: Mask, names: Sequence[str]) -> _ReplacedRows:
        places = np.flatnonzero(rows)
        order = np.argsort(at[places])  # neighbours are read together
        position = np.zeros(len(rows), np.int64)
        position[places[order]] = np.arange(len(places))
        return _ReplacedRows(take(self.table, at[places][order], names), position)

    def _missing(self, batch: pa.RecordBatch, flags: dict[str, Mask], new: Mask, start: int, limit: int) -> Findings:
        """New rows without a required property."""
        found = []
        for property_ in self.entity.properties:
            flag = None if property_.nullable else flags.get(left_out(property_.name))
            rows = np.flatnonzero(flag & new) if flag is not None else np.empty(0, np.int64)
            if len(rows):
                first = rows[:limit]
                message = f"non-nullable property '{property_.name}' is left out, and there is no {self.entity.kind} that has it"
                ids = batch.column(ID).take(pa.array(first)).to_pylist()
                numbers = (first + start).tolist()
                messages = [message] * len(first)
                found.append(
                    rule_findings(ProblemCode.REQUIRED, self.entity, numbers, messages, ids, total=len(rows), property_=property_.name)
                )
        return merge_by_row(found, limit=limit)


class _ReplacedRows(NamedTuple):
    """Rows to be replaced, and for each patch the position of its row among them."""

    rows: pa.Table
    position: npt.NDArray[np.int64]

    def put(self, field: pa.Field, column: pa.Array, kept: Mask) -> pa.Array:
        """The column with the old values where they are kept."""
        old = whole(self.rows.column(field.name)).cast(field.type)
        places = np.where(kept, len(column) + self.position, np.arange(len(column)))
        return pa.concat_arrays([column.cast(field.type), old]).take(pa.array(places))


def _with_ids(rows: pa.Table) -> pa.Table:
    """The rows with new ids where they still have none."""
    ids = whole(rows.column(ID))
    if not ids.null_count:
        return rows
    missing = np.asarray(ids.is_null())
    places = np.where(missing, len(ids) + np.cumsum(missing) - 1, np.arange(len(ids)))
    every = pa.concat_arrays([ids, mint(ids.null_count)])
    return rows.set_column(rows.schema.get_field_index(ID), rows.schema.field(ID), every.take(pa.array(places)))


def _spelled(batch: pa.RecordBatch, by: Sequence[str]) -> pa.Array:
    return whole(joined([spell_tuples(by, batch)], pa.string()))


def _flag(column: pa.Array) -> Mask:
    mask: Mask = np.asarray(pc.fill_null(column, fill_value=False))
    return mask
