"""A table with pending changes and a condition, ids or combinations of a match -> the rows that a change is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from omnigraph.catalog.layout import ID
from omnigraph.catalog.types import FLOATS, scalar_of
from omnigraph.exec.blobs import charge_carried
from omnigraph.exec.read.conditions import filter_mask
from omnigraph.exec.read.join import equi_join, product
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.exec.read.rows import Rows
from omnigraph.exec.validate.keys import ROWS_PER_PROBE
from omnigraph.exec.write.assignment import Driving
from omnigraph.exec.write.image import Image
from omnigraph.lang.query import Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import Field
from omnigraph.plan.typed import ROW
from omnigraph.store.arrays import Column, joined, whole
from omnigraph.store.membership import Members
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import one_of

_OWN: Final = frozenset((ROW,))


def own(batch: pa.RecordBatch, field: Field) -> pa.Array:
    """A property of the changed row itself."""
    return batch.column(field.column)


def row_fields(expr: ir.Expr) -> list[Field]:
    """The fields of the changed row itself that an expression reads."""
    return [field for field in ir.expr_fields(expr) if field.binding == ROW]


def matching_rows(image: Image, columns: Sequence[str], where: ir.Predicate, *, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Committed and pending rows for which a condition about the row itself is true, with at least these columns.

    `carried` are the blobs among the columns.
    """
    terms = _terms(where)
    pushed = [text for term in terms if (text := exact_sql(term)) is not None]
    rest = [term for term in terms if exact_sql(term) is None]
    sql = " AND ".join(f"({text})" for text in pushed) or None
    if rest and carried:  # blobs are read only of the rows that are kept
        ids = whole(joined((batch.column(ID) for batch in matching_rows(image, [ID], where)), pa.string()))
        yield from having_ids(image, ids, columns, carried=carried)
        return
    charge_carried(image.table, carried, [sql])
    names = list(dict.fromkeys((*columns, *(field.column for term in rest for field in ir.fields_of(term)))))
    for batch in image.table.scan(names, where=sql, overlay=image.overlay):
        if rest:
            batch = batch.filter(pa.array(filter_mask(rest, batch.num_rows, partial(own, batch))))
        if batch.num_rows:
            yield batch


def having_ids(image: Image, ids: pa.Array, columns: Sequence[str], *, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Committed and pending rows with one of these distinct ids, with these columns.

    Few ids are looked up in an index. Many are found by one pass over the table.
    """
    if not len(ids):
        return
    lists = [one_of(ID, ids.slice(start, IN_LIST)) for start in range(0, len(ids), IN_LIST)]
    charge_carried(image.table, carried, lists)
    names = list(dict.fromkeys((ID, *columns)))
    if len(ids) <= IN_LIST or len(ids) * ROWS_PER_PROBE <= image.row.rows:
        for where in lists:
            yield from image.table.scan(names, where=where, overlay=image.overlay)
        return
    known = Members(ids)
    for batch in image.table.scan(names, overlay=image.overlay):
        mine = batch.filter(pa.array(known.has(batch.column(ID))))
        if mine.num_rows:
            yield mine


def matching_pairs(image: Image, columns: Sequence[str], where: ir.Predicate, driving: Driving) -> Iterator[Rows]:
    """Rows of the table and combinations of a match for which the condition is true: `columns` of the row, and those of the match."""
    terms = _terms(where)
    own = tuple(term for term in terms if ir.reads_bindings(term) <= _OWN)
    on = [pair for term in terms if (pair := _equality(term)) is not None]
    rest = [term for term in terms if term not in own and _equality(term) is None]
    read = (*(near for near, _ in on), *(field for term in rest for field in ir.fields_of(term) if field.binding == ROW))
    names = list(dict.fromkeys((*columns, *(field.column for field in read))))
    right = Rows(driving.count, {}, driving.columns)
    lefts = (
        Rows(batch.num_rows, {}, {(ROW, name): batch.column(name) for name in names})
        for batch in matching_rows(image, names, ir.AllOf(own) if own else ir.Known(truth=True))
    )
    for pairs in equi_join(lefts, right, on, _column) if on else product(lefts, right):
        kept = pairs.keep(filter_mask(rest, pairs.count, partial(_column, pairs))) if rest else pairs
        if kept.count:
            yield kept


def _terms(where: ir.Predicate) -> tuple[ir.Predicate, ...]:
    return where.terms if isinstance(where, ir.AllOf) else (where,)


def _equality(term: ir.Predicate) -> tuple[Field, Field] | None:
    """The two fields of `row.a = $v.b`, if equal values have equal bits."""
    match term:
        case ir.Compare(Field() as one, Comparison.EQ, Field() as other) if ROW in (one.binding, other.binding):
            near, far = (one, other) if one.binding == ROW else (other, one)
            scalar = scalar_of(near.type)
            joins = far.binding != ROW and scalar is not None and scalar is scalar_of(far.type) and scalar not in FLOATS
            return (near, far) if joins else None
        case _:
            return None


def _column(rows: Rows, field: Field) -> Column:
    return rows.columns[field.binding, field.column]
