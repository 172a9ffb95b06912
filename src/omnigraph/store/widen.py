"""Rows with more columns than their table, and rows that go -> data files, and the transaction that follows the one that adds the columns.

Lance has no transaction that changes the columns and removes rows. So a table gets its columns by `alter`, and the rows change in a
second transaction. It is staged, with its files, on the version before both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.fragment import write_fragments

from omnigraph.store.alter import numbered
from omnigraph.store.blobs import blobs_last
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.refs import mapped, write_before_ref
from omnigraph.store.stage import Counts, Staged, conformed, fitted, hide_rows, new_files
from omnigraph.store.tables import Table


def write_wider(table: Table, schema: pa.Schema, rows: pa.Table, *, native: str | None = None) -> list[Any]:
    """Writes rows with these columns as data files, in the table's directory or in that of a native branch that does not exist yet.

    They are not visible to readers until `patch_wider` names them in a commit.
    """
    return _write(table, schema, conformed(table, rows, schema=schema), native) if len(rows) else []


def patch_wider(
    table: Table,
    schema: pa.Schema,
    removed: Any,
    *,
    rows: pa.Table | None = None,
    fragments: Sequence[Any] = (),
    uuid: str | None = None,
) -> Staged:
    """Stages, for the version after the one that gives the table these columns, the removal of the rows at these addresses and the addition
    of rows, or of data files that `write_wider` wrote earlier.
    """
    new = list(fragments) if rows is None else _write(table, schema, fitted(table, rows, schema=schema), None)
    touched, gone = hide_rows(table, removed)
    operation = LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=touched,
        new_fragments=new,
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=[field.id() for field in numbered(table, schema).fields()],
    )
    transaction = lance.Transaction(table.ref.version + 1, operation, uuid=uuid or str(uuid4()))
    counts = Counts(inserted=sum(fragment.physical_rows for fragment in new), deleted=len(removed))
    return Staged(table, transaction, counts, tuple(new_files(operation, table.ref)))


def _write(table: Table, schema: pa.Schema, rows: pa.Table, native: str | None) -> list[Any]:
    fields = numbered(table, schema)
    if native is not None:
        return write_before_ref(table, native, rows, fields=fields)
    ordered = blobs_last(rows)
    try:
        written = write_fragments(ordered, table.dataset, mode="overwrite")  # to append, Lance wants the columns of the table
    except raised_by_lance() as error:
        raise table.failed(error, doing="write to") from error
    return mapped(written, ordered.schema.names, fields)
