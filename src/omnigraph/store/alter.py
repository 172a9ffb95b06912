"""A table and a target schema -> one staged transaction that renames, drops and adds columns, without or with a rewrite of the data.

A column is identified by its field metadata (`COLUMN_MARK`), or by its name if it has no mark (`id`, `src`, `dst`). A column that
stays keeps its field id, and with it its values and indexes. A new column gets a field id that was never used, so values in old
data files cannot appear in it. A column that is in no data file reads as null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import uuid4

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.fragment import write_fragments
from lance.schema import LanceSchema

from omnigraph.errors import InvalidInput, Kind
from omnigraph.store.blobs import stored, stored_schema
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.stage import Counts, Staged, new_data_files
from omnigraph.store.tables import Table, key_annotated

COLUMN_MARK: Final = b"omnigraph:property"
"""The field metadata key that holds the property id of a column. The catalog writes it."""


class _Column(NamedTuple):
    """A top-level Lance field and its pickled form: the field, then all its descendants, each with its id."""

    field: Any
    protos: tuple[bytes, ...]


def alter(table: Table, schema: pa.Schema, *, uuid: str | None = None) -> Staged | None:
    """Stages the change that gives the table exactly these columns, in this order. Returns None if it already has them.

    The operation is a `Merge` that keeps the existing fragments. Of the operations that carry a schema, only `Merge` conflicts with
    every other change from the same base, in both orders. (A `Project` and a delete do not conflict.)
    """
    if table.dataset.schema.equals(stored_schema(key_annotated(schema)), check_metadata=True):
        return None
    fragments = [fragment.metadata for fragment in table.dataset.get_fragments()]
    operation = LanceOperation.Merge(fragments, numbered(table, schema))
    return Staged(table, lance.Transaction(table.ref.version, operation, uuid=uuid or str(uuid4())), Counts(), ())


def rewrite(table: Table, schema: pa.Schema | None, *, uuid: str | None = None) -> Staged:
    """Stages the same change with all rows rewritten, or with no rows if `schema` is None. The new version needs no older file.

    Uses Lance's overwrite, which also drops the indexes: an index on a dropped column is a copy of its values.
    """
    rows = table.count()
    if schema is None:
        return _overwritten(table, table.dataset.schema, [], Counts(deleted=rows), uuid)
    wanted = key_annotated(schema)
    fragments = _laid_down(table, wanted) if rows else []
    return _overwritten(table, stored_schema(wanted), fragments, Counts(updated=rows), uuid)


def emptied(table: Table, schema: pa.Schema, *, uuid: str | None = None) -> Staged | None:
    """Stages the table with exactly these columns and no rows, for a caller that fills it next. Returns None if it has these columns.

    Unlike `alter`, it can give the name of one column to another, because no old column remains.
    """
    wanted = stored_schema(key_annotated(schema))
    if table.dataset.schema.equals(wanted, check_metadata=True):
        return None
    return _overwritten(table, wanted, [], Counts(deleted=table.count()), uuid)


def _overwritten(table: Table, schema: pa.Schema, fragments: list[Any], counts: Counts, uuid: str | None) -> Staged:
    operation = LanceOperation.Overwrite(stored_schema(schema), fragments)
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or str(uuid4()))
    return Staged(table, transaction, counts, tuple(new_data_files(table.ref.home, fragments)))


def _laid_down(table: Table, wanted: pa.Schema) -> list[Any]:
    """Writes the table's rows in the wanted columns to data files, batch by batch."""
    here = {_identity(field): field.name for field in table.schema}
    sources = [here.get(_identity(field)) for field in wanted]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.scan([name for name in sources if name is not None]):
            nothing = (pa.nulls(batch.num_rows, field.type) for field, name in zip(wanted, sources, strict=True) if name is None)
            columns = [batch.column(name) if name is not None else next(nothing) for name in sources]
            yield from stored(pa.Table.from_arrays(columns, schema=wanted)).to_batches()

    try:
        reader = pa.RecordBatchReader.from_batches(stored_schema(wanted), batches())
        written = write_fragments(reader, table.dataset, mode="overwrite")
    except raised_by_lance() as error:
        raise table.failed(error, doing="rewrite") from error
    return list(written)


def numbered(table: Table, schema: pa.Schema) -> Any:
    """The wanted columns as Lance stores them, with the table's field ids; those of new columns were never used.

    It is built from the pickled form of Lance schemas. A Lance schema made from an Arrow schema numbers its fields from zero, and a
    column would then silently show the values of another column.
    """
    wanted = stored_schema(key_annotated(schema))
    here = {_identity(column.field.to_arrow()): column for column in _columns(table.dataset.lance_schema)}
    _refuse_handed_on(table, wanted)
    fresh = table.dataset.max_field_id + 1
    protos: list[bytes] = []
    for field in wanted:
        known = here.get(_identity(field))
        if known is not None:
            protos += _kept(table, known, field)
        else:
            added = _placed(_nullable(table, field), number=fresh).protos
            fresh += len(added)
            protos += added
    build, (metadata, *_) = table.dataset.lance_schema.__reduce__()
    return build(metadata, *protos)


def _kept(table: Table, column: _Column, wanted: pa.Field) -> tuple[bytes, ...]:
    """The pickled form of a column that stays, possibly renamed."""
    now: pa.Field = column.field.to_arrow()
    if now.equals(wanted, check_metadata=True):
        return column.protos
    if (now.type, now.nullable) != (wanted.type, wanted.nullable):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"column {now.name!r} of {table.ref.path} has type {now.type}, which cannot be changed to {wanted.type}",
            column=now.name,
        )
    renamed = _placed(wanted, number=column.field.id())
    if list(_ids(renamed.field)) != list(_ids(column.field)):  # cannot happen: the fields of a column are numbered consecutively
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"column {now.name!r} of {table.ref.path} has field ids out of order", column=now.name)
    return renamed.protos


def _refuse_handed_on(table: Table, wanted: pa.Schema) -> None:
    """Refuses to give the name of one column to another: Lance would lose data. Schema plans never do this, because an exact name wins."""
    now = {field.name: _identity(field) for field in table.schema}
    for field in wanted:
        if now.get(field.name, _identity(field)) != _identity(field):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"the name {field.name!r} cannot move from one column of {table.ref.path} to another in one step; drop or rename first",
                column=field.name,
            )


def _nullable(table: Table, field: pa.Field) -> pa.Field:
    if not field.nullable:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"column {field.name!r} cannot be added to {table.ref.path}: existing rows have no value for it, and it does not allow nulls",
            column=field.name,
        )
    return field


def _placed(field: pa.Field, *, number: int) -> _Column:
    """A field with a given id. As many placeholder fields before it give it that id."""
    before = [pa.field(f"({at})", pa.int8()) for at in range(number)]
    *_, column = _columns(LanceSchema.from_pyarrow(pa.schema([*before, field])))
    return column


def _columns(schema: Any) -> Iterator[_Column]:
    """The top-level fields of a Lance schema."""
    _, (_, *protos) = schema.__reduce__()
    left = iter(protos)
    for field in schema.fields():
        yield _Column(field, tuple(next(left) for _ in _ids(field)))


def _ids(field: Any) -> Iterator[int]:
    yield field.id()
    for child in field.children():
        yield from _ids(child)


def _identity(field: pa.Field) -> tuple[str, str]:
    mark = (field.metadata or {}).get(COLUMN_MARK)
    return ("mark", mark.decode()) if mark is not None else ("name", field.name)
