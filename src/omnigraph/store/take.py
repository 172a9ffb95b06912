"""A table and row addresses -> the rows in that order, and the sizes and bytes of single blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Kind, OmniGraphError, StorageError
from omnigraph.store.blobs import blob_names
from omnigraph.store.checked import blob_name
from omnigraph.store.durable import NewFile
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.intact import Access, by_index
from omnigraph.store.membership import is_in
from omnigraph.store.tables import ADDRESS, Table, Where

_APART: Final = (1, 2)
"""The kinds of blobs outside their data file: several in one file, or one in its own. (0 is inside, 3 is a reference.)"""


def take(table: Table, addresses: Any, columns: Sequence[str]) -> pa.Table:
    """Reads the rows at these addresses, in this order, with whole blobs."""
    blobs = blob_names(table.schema)
    table.checks.rows(columns, addresses)
    try:
        # Our tables have no stable row ids, so the id of a row is its address.
        rows = table.dataset._take_rows(pa.array(addresses, pa.uint64()), columns=[name for name in columns if name not in blobs])
    except raised_by_lance() as error:
        raise table.failed(error, doing="read rows of") from error
    for name in columns:
        if name in blobs:
            rows = rows.append_column(table.schema.field(name), _whole_blobs(table, name, addresses))
    return rows.select(list(columns))


def blob_sizes(table: Table, columns: Sequence[str], *, where: Where | None = None) -> pa.Table:
    """The address of each row and, for each column, the size of its blob in bytes, or null. Reads no blob (W-37)."""

    def ask(access: Access) -> pa.Table:
        indexed, described = access is Access.BY_INDEX, "blobs_descriptions"
        table.check_filter(where, access)
        return table.dataset.scanner(
            columns=list(columns), filter=where, with_row_address=True, blob_handling=described, use_scalar_index=indexed
        ).to_table()

    try:
        described = by_index(table, ask, on=where)
    except raised_by_lance() as error:
        raise table.failed(error, doing="read blob sizes of") from error
    table.checks.rows(columns, described.column(ADDRESS).to_numpy())
    sizes = {name: pc.struct_field(described.column(name), "size") for name in columns}
    return pa.table({ADDRESS: described.column(ADDRESS), **sizes})


def carried_bytes(table: Table, addresses: Any, columns: Sequence[str]) -> Any:
    """The bytes of the blobs of each row at these addresses, in this order, as numpy int64. Reads no blob."""
    table.checks.rows(columns, addresses)
    try:
        described = table.dataset._take_rows(pa.array(addresses, pa.uint64()), columns=list(columns))
    except raised_by_lance() as error:
        raise table.failed(error, doing="read blob sizes of") from error
    sizes = [pc.fill_null(pc.struct_field(described.column(name), "size"), 0) for name in columns]
    return np.sum([size.to_numpy().astype(np.int64) for size in sizes], axis=0)


def blob_file(table: Table, column: str, address: int) -> str:
    """The name of the data file that owns a row's blob. With the row's offset in that file, it identifies the blob."""
    fragment = table.dataset.get_fragment(address >> 32)
    field = next(field.id() for field in table.dataset.lance_schema.fields() if field.name() == column)
    return str(next(file.path for file in fragment.metadata.files if field in file.fields))


def blob_files(table: Table, fragments: Iterable[int]) -> Iterator[NewFile]:
    """The separate files of the larger blobs of some fragments, with the sizes that the rows record.

    Includes those of deleted rows: a blob of one may be the last in its file, and another version may show it.
    """
    names = blob_names(table.schema)
    fields = {field.name(): field.id() for field in table.dataset.lance_schema.fields()}
    for fragment in map(table.dataset.get_fragment, fragments):
        table.checks.columns(names, fragments=[fragment.fragment_id])
        try:
            described = table.dataset.scanner(
                columns=names,
                fragments=[fragment],
                blob_handling="blobs_descriptions",
                include_deleted_rows=True,
                with_row_id=True,  # without it Lance refuses to include them
            ).to_table()
        except raised_by_lance() as error:
            raise table.failed(error, doing="read blob sizes of") from error
        for name in names:
            owner = next((file for file in fragment.metadata.files if fields[name] in file.fields), None)
            if owner is not None and owner.base_id is None:
                directory = f"{table.ref.home}/data/{owner.path.removesuffix('.lance')}"
                for number, size in _own_files(described.column(name)):
                    yield NewFile(f"{directory}/{blob_name(number)}", size)


def _own_files(described: pa.ChunkedArray) -> list[tuple[int, int]]:
    """The number of each file that the blob descriptors name, and the end of the last blob in it."""
    parts = {name: pc.struct_field(described, name) for name in ("kind", "blob_id", "position", "size")}
    ends = pa.table({"number": parts["blob_id"], "end": pc.add(parts["position"], parts["size"])})
    apart = ends.filter(pa.array(is_in(parts["kind"], pa.array(_APART, pa.uint8()))))
    longest = apart.group_by("number").aggregate([("end", "max")])
    return list(zip(longest.column("number").to_pylist(), longest.column("end_max").to_pylist(), strict=True))


def read_blob(table: Table, column: str, address: int, *, start: int, length: int) -> bytes:
    """Reads a part of one blob, and no other bytes of it."""
    if not length:
        return b""
    place = np.array([address], np.uint64)
    table.checks.rows([column], place)
    table.checks.blobs(column, place, part=(start, start + length))
    try:
        ((_, _, data),) = table.dataset.read_blob_ranges(column, [(address, start, length)], selector="addresses")
    except raised_by_lance() as error:
        raise table.failed(error, doing="read a blob of") from error
    if data is None or len(data) != length:
        raise StorageError(
            Kind.BLOB_INTEGRITY,
            f"a blob of {table.ref.path} is shorter than its row records; restore the table from a backup",
            table=table.ref.path,
        )
    return bytes(data)


def _whole_blobs(table: Table, column: str, addresses: Any) -> pa.Array:
    table.checks.blobs(column, np.asarray(addresses, np.uint64))
    try:
        found = table.dataset.read_blobs(column, addresses=pa.array(addresses, pa.uint64()), preserve_order=True)
    except raised_by_lance() as error:
        raise table.failed(error, doing="read blobs of") from error
    if not np.array_equal([address for address, _ in found], addresses):
        raise OmniGraphError(Kind.BLOB_INTEGRITY, f"Lance returned blobs of {table.ref.path} in the wrong order", table=table.ref.path)
    return pa.array([data for _, data in found], pa.large_binary())
