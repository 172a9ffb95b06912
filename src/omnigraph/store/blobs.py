"""`large_binary` columns, as the rest of the system sees them <-> Lance's blob columns, as they are stored.

Above the storage layer, a blob is plain bytes or null. In storage, it is a blob column: small blobs are in the data file, apart from
the rows, and larger blobs are in separate files. A scan that does not select a blob column reads no blob.
"""

from __future__ import annotations

from typing import Final

import lance
import pyarrow as pa
import pyarrow.compute as pc

EXTENSION: Final = "lance.blob.v2"

_PARTS: Final = tuple(lance.blob_field("blob").type.storage_type)
"""The stored form of a blob: its bytes, or a reference (uri, position, size). This release never writes references."""


def is_stored_blob(field: pa.Field) -> bool:
    """Whether a stored column is a blob column."""
    return isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == EXTENSION


def is_plain_blob(field: pa.Field) -> bool:
    """Whether a column is stored as a blob column. Every `large_binary` column is: no other property type uses it."""
    return bool(pa.types.is_large_binary(field.type))


def blob_names(schema: pa.Schema) -> list[str]:
    """The blob columns of a schema, in either form."""
    return [field.name for field in schema if is_stored_blob(field) or is_plain_blob(field)]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with `large_binary` columns as blob columns. Keeps field metadata."""
    return pa.schema([_stored_field(field) if is_plain_blob(field) else field for field in schema], metadata=schema.metadata)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with blob columns as `large_binary`."""
    fields = [field.with_type(pa.large_binary()) if is_stored_blob(field) else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def stored(rows: pa.Table) -> pa.Table:
    """The rows as they are stored. Copies no bytes."""
    for at, field in enumerate(rows.schema):
        if is_plain_blob(field):
            column = [_stored_array(chunk) for chunk in rows.column(at).chunks]
            rows = rows.set_column(at, _stored_field(field), pa.chunked_array(column, _stored_field(field).type))
    return rows


def blobs_last(rows: pa.Table) -> pa.Table:
    """The same columns with blob columns last. Lance's file reader miscounts the columns after a blob column."""
    blobs = blob_names(rows.schema)
    return rows.select([*(name for name in rows.schema.names if name not in blobs), *blobs]) if blobs else rows


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch under the schema that callers know. Lance leaves blob metadata on columns that it reads as bytes."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _stored_field(field: pa.Field) -> pa.Field:
    made = lance.blob_field(field.name, nullable=field.nullable)
    return made.with_metadata({**(field.metadata or {}), **(made.metadata or {})})


def _stored_array(values: pa.Array) -> pa.Array:
    nothing = [pa.nulls(len(values), part.type) for part in _PARTS[1:]]
    parts = pa.StructArray.from_arrays([values, *nothing], fields=list(_PARTS), mask=pc.is_null(values))
    return pa.ExtensionArray.from_storage(lance.blob_field("blob").type, parts)
