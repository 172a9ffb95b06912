"""A table and the columns it shall have -> one staged transaction: renamed, dropped and added, with no data rewritten, or all of it.

A column is told by the identity in its field metadata (`COLUMN_MARK`), or by its name when it has none (`id`, `src`, `dst`).
What is kept keeps its field id, and with it its values and its indexes; what is new takes an id that was never used, so that
nothing an old data file holds can show through it; a column that no data file knows reads as null.
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
"""Field metadata: which property a column holds. The catalog writes it."""


class _Column(NamedTuple):
    """A top-level field of Lance's, and what it pickles to: the field itself, then all below it, each with its id."""

    field: Any
    protos: tuple[bytes, ...]


def alter(table: Table, schema: pa.Schema, *, uuid: str | None = None) -> Staged | None:
    """Stage the change that gives the table exactly these columns, in this order. None when it has them already.

    A `Merge` that names the fragments there are: of the operations that carry a schema it is the one that collides with
    every other change from the same base, in both orders. (A `Project` and a delete pass each other by.)
    """
    wanted = stored_schema(key_annotated(schema))
    if table.dataset.schema.equals(wanted, check_metadata=True):
        return None
    fragments = [fragment.metadata for fragment in table.dataset.get_fragments()]
    operation = LanceOperation.Merge(fragments, _numbered(table, wanted))
    return Staged(table, lance.Transaction(table.ref.version, operation, uuid=uuid or str(uuid4())), Counts(), ())


def rewrite(table: Table, schema: pa.Schema | None, *, uuid: str | None = None) -> Staged:
    """Stage the same with every row laid down anew, or, without a schema, with none: the new version needs nothing of the old ones.

    Lance's own overwrite, which forgets the indexes as well: an index of a dropped column is a copy of its values.
    """
    rows = table.count()
    if schema is None:
        return _overwritten(table, table.dataset.schema, [], Counts(deleted=rows), uuid)
    wanted = key_annotated(schema)
    fragments = _laid_down(table, wanted) if rows else []
    return _overwritten(table, stored_schema(wanted), fragments, Counts(updated=rows), uuid)


def emptied(table: Table, schema: pa.Schema, *, uuid: str | None = None) -> Staged | None:
    """Stage the table with exactly these columns and no rows, for a caller that fills it next. None when it has these columns already.

    Unlike `alter` it can hand a name from one column to another: nothing of the old columns stays.
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
    """The table's rows in the wanted columns, written as data files, a batch at a time."""
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


def _numbered(table: Table, wanted: pa.Schema) -> Any:
    """The wanted schema with the table's own field ids.

    Built from what Lance schemas pickle to: made from an Arrow schema they count from zero, and then a column shows what
    another one held, without any error.
    """
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
    """A column that stays, under its new name if it has one."""
    now: pa.Field = column.field.to_arrow()
    if now.equals(wanted, check_metadata=True):
        return column.protos
    if (now.type, now.nullable) != (wanted.type, wanted.nullable):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"column {now.name!r} of {table.ref.path} holds {now.type}, and values are not converted to {wanted.type}",
            column=now.name,
        )
    renamed = _placed(wanted, number=column.field.id())
    if list(_ids(renamed.field)) != list(_ids(column.field)):  # a column is numbered in one run when it is made, so this cannot happen
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"column {now.name!r} of {table.ref.path} has field ids out of order", column=now.name)
    return renamed.protos


def _refuse_handed_on(table: Table, wanted: pa.Schema) -> None:
    """Lance takes a name that goes from one column to another for lost data. Schema plans never ask for it: an exact name wins."""
    now = {field.name: _identity(field) for field in table.schema}
    for field in wanted:
        if now.get(field.name, _identity(field)) != _identity(field):
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"the name {field.name!r} cannot go from one column of {table.ref.path} to another in one step; drop or rename first",
                column=field.name,
            )


def _nullable(table: Table, field: pa.Field) -> pa.Field:
    if not field.nullable:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT,
            f"column {field.name!r} cannot be added to {table.ref.path}: its rows have no value for it, and it allows no null",
            column=field.name,
        )
    return field


def _placed(field: pa.Field, *, number: int) -> _Column:
    """A field with a given id: it has it because as many others stand before it."""
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
