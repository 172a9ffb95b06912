"""Some fragments of a table -> NDJSON or Parquet files. One task of an export runs this."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType, NodeType
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.history.json_lines import json_lines
from omnigraph.ids import new_hex16
from omnigraph.spark.handles import catalog_of, tables_of
from omnigraph.spark.messages import Format, Unload, UnloadedPart, UnloadPart
from omnigraph.store.objects import open_objects

FILE_BYTES: Final = 64 << 20
"""A file is written when its rows have about this many bytes in memory."""
BATCH_ROWS: Final = 32_768
BLOB_BATCH_ROWS: Final = 64
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")


def unload_part(job: Unload, number: int) -> UnloadedPart:
    """Write one part. File names are unique to the attempt, so two attempts at one part do not collide."""
    part = job.parts[number]
    entity = catalog_of(job.catalog).by_id(part.type_id)
    assert entity is not None, "the driver had the same schema"
    kind = "nodes" if isinstance(entity, NodeType) else "edges"
    target = open_objects(job.target.uri, storage_options=job.target.storage_options)
    attempt, rows, files = new_hex16(), 0, []
    for at, table in enumerate(_tables(job, part, entity)):
        name = f"{kind}/{entity.name}/part-{number:05d}-{at:03d}-{attempt}.{job.format.value}"
        target.put(name, _encoded(entity, table, job.format))
        rows += table.num_rows
        files.append(name)
    return UnloadedPart(number, rows, tuple(files))


def _tables(job: Unload, part: UnloadPart, entity: EntityType) -> Iterator[pa.Table]:
    """Yield the rows of each file. Yields at least one table, so that an empty type has a file with its columns."""
    schema = table_schema(entity)
    waiting: list[pa.RecordBatch] = []
    held, put = 0, False
    table = tables_of(job.graph, job.sums).open(part.ref)
    batch_rows = BLOB_BATCH_ROWS if blob_properties(entity) else BATCH_ROWS
    for batch in table.scan(schema.names, batch_rows=batch_rows, fragments=part.fragments) if part.fragments else ():
        waiting.append(batch)
        held += batch.nbytes
        if held >= FILE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, held, put = [], 0, True
    if waiting or not put:
        yield pa.Table.from_batches(waiting, None if waiting else schema)


def _encoded(entity: EntityType, rows: pa.Table, format_: Format) -> bytes:
    match format_:
        case Format.NDJSON:
            lines = json_lines(entity, rows)
            text = pc.binary_join(pa.LargeListArray.from_arrays([0, len(lines)], lines), pa.scalar("\n", lines.type))
            return bytes(memoryview(text[0].as_buffer())) + b"\n" if len(lines) else b""
        case Format.PARQUET:
            out = io.BytesIO()
            pq.write_table(_portable(rows), out)
            return out.getvalue()
        case _:
            assert_never(format_)


def _portable(rows: pa.Table) -> pa.Table:
    """Cast `date64` to timestamps: Parquet would truncate it to the day."""
    fields = [field.with_type(_portable_type(field.type)).remove_metadata() for field in rows.schema]
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(rows.columns, fields, strict=True)], schema=pa.schema(fields)
    )


def _portable_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date64(type_):
        return _MILLISECONDS
    if pa.types.is_list(type_) and pa.types.is_date64(type_.value_type):
        return pa.list_(pa.field(type_.value_field.name, _MILLISECONDS, nullable=True))
    return type_
