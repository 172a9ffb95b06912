"""One snapshot -> its rows, by type and in the order of their ids, as Arrow tables or lines of NDJSON, in bounded memory.

Only the ids and addresses of one table are held completely, to be sorted. The rows are read in parts of some megabytes. While one
part is converted to text, the next is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, table_schema
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.history.json_lines import json_lines
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.tables import ADDRESS, Table, Tables
from omnigraph.store.take import blob_sizes, take

PART_BYTES: Final = 16 * 1024 * 1024
"""The approximate size of a part in memory. Its text is two to five times as large."""

FIRST_ROWS: Final = 1_024
MOST_ROWS: Final = 131_072
"""Rows of a part: few at first, until their size is known. Large parts are read faster: parts of 8,192 rows took four times as long."""

T = TypeVar("T")


class ExportRows(NamedTuple):
    """Some rows of one type, in the order of their ids, with the columns of the table."""

    entity: EntityType
    rows: pa.Table


def export_lines(
    tables: Tables,
    snapshot: BranchSnapshot,
    catalog: Catalog,
    *,
    types: Iterable[str] | None = None,
    kinds: Collection[str] | None = None,
) -> Iterator[str]:
    """Every row as a line of NDJSON, without the newline. `types` selects node and edge types by name, `kinds` nodes or edges."""
    # not in the generator, so that an unknown type is refused at once
    batches = export_batches(tables, snapshot, catalog, types=types, kinds=kinds)
    return (line for entity, rows in _prefetch(batches) for line in json_lines(entity, rows).to_pylist())


def export_batches(
    tables: Tables,
    snapshot: BranchSnapshot,
    catalog: Catalog,
    *,
    types: Iterable[str] | None = None,
    kinds: Collection[str] | None = None,
) -> Iterator[ExportRows]:
    """Every row as Arrow, blobs as bytes: all edge types, then all node types, each by name, rows by id."""
    chosen = chosen_types(snapshot, catalog, None if types is None else list(types))
    wanted = [(entity, row) for entity, row in chosen if kinds is None or entity.kind in kinds]
    return (ExportRows(entity, part) for entity, row in wanted for part in rows_in_order(tables.open(row.ref), entity))


def chosen_types(snapshot: BranchSnapshot, catalog: Catalog, types: list[str] | None) -> list[tuple[EntityType, TableRow]]:
    """The types to export with their tables: edges, then nodes, each by name."""
    names = {entity.name for entity in catalog.entities}
    for name in types or ():
        if name not in names:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"unknown export type '{name}'", type=name)
    chosen = [entity for entity in sorted(catalog.entities, key=lambda entity: entity.alias) if types is None or entity.name in types]
    return [(entity, snapshot.table_of(entity.id, name=entity.name)) for entity in chosen]


def rows_in_order(table: Table, entity: EntityType) -> Iterator[pa.Table]:
    """A table's rows by ascending id, compared as bytes."""
    columns = table_schema(entity).names
    keys = table.scan([ID], addresses=True).read_all()
    addresses = keys.column(ADDRESS).take(pc.sort_indices(keys.column(ID))).to_numpy()
    del keys
    blobs = blob_properties(entity)
    if not blobs and bool(np.all(addresses[1:] > addresses[:-1])):  # stored in this order already, as edges often are
        for batch in table.scan(columns):
            yield pa.Table.from_batches([batch])
        return
    heavy = np.cumsum(_blob_bytes(table, blobs, addresses)) if blobs else None
    at, count = 0, FIRST_ROWS
    while at < len(addresses):
        stop = min(at + count, len(addresses))
        if heavy is not None:
            before = heavy[at - 1] if at else 0
            stop = max(at + 1, min(stop, int(np.searchsorted(heavy, before + PART_BYTES, side="right"))))
        part = take(table, addresses[at:stop], columns)
        count = max(1, min(MOST_ROWS, PART_BYTES * len(part) // max(part.nbytes, 1)))
        at = stop
        yield part


def _blob_bytes(table: Table, blobs: list[str], addresses: Any) -> Any:
    """The size of the blobs of each row, from their descriptors."""
    sizes = blob_sizes(table, blobs)
    total = sum(pc.fill_null(sizes.column(name), 0).to_numpy() for name in blobs)
    scanned = sizes.column(ADDRESS).to_numpy()
    order = np.argsort(scanned)
    return total[order[np.searchsorted(scanned, addresses, sorter=order)]]


def _prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items. While the caller uses one, another thread produces the next."""
    with ThreadPoolExecutor(1, thread_name_prefix="omnigraph-export") as pool:
        upcoming = pool.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = pool.submit(next, items, None)
            yield item
