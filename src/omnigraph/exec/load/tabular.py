"""A table of one type, from Arrow, Parquet or CSV -> pieces of typed rows, or the problems of a column or a record.

A table has a column per property, `id` if rows have explicit ids, and `from` and `to` (or `src` and `dst`) for edges. Values keep
their type: numbers may change their width if nothing is lost. Only the text of CSV is parsed by the type of the property.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.catalog.types import Plain
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.cells import ConvertedColumn, expected, from_arrow, from_text, suits, texts
from omnigraph.exec.load.json_values import InvalidValue
from omnigraph.exec.load.pieces import Piece, piece_schema
from omnigraph.exec.load.tablefiles import SLICE_ROWS, OpenTable, TablePart, open_table
from omnigraph.exec.problems import EMBED_REMEDY, Problem, ProblemCode
from omnigraph.lang.tree import Scalar

TableInput: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | os.PathLike[str] | TablePart
"""The rows of one type: an Arrow table or stream, or the path of a `.parquet` or `.csv` file, or a part of such a file."""

_ENDS: Final = {"from": SOURCE, "to": TARGET}


class Slice(msgspec.Struct, frozen=True):
    """Some valid rows of a table, and the problems of the others."""

    source: str
    piece: Piece | None
    problems: list[Problem]
    more: int = 0
    """The number of problems that are counted but not described."""


def read_tables(tables: Mapping[str, TableInput], catalog: Catalog, *, most: int) -> Iterator[Slice]:
    """The tables in the order given, each in slices. A table without rows is one empty slice, which still names the type.

    All tables are opened before the first is read, so that a wrong path is reported at once.
    """
    for entity, opened in [(entity_named(name, catalog), _opened(name, table)) for name, table in tables.items()]:
        if problems := list(wrong_columns(entity, opened.schema, text=opened.text)):
            yield Slice(opened.source, None, [msgspec.structs.replace(problem, source=opened.source) for problem in problems])
            continue
        record = opened.first_record
        for batch in opened.batches:
            if batch.num_rows:
                yield _slice(entity, opened, batch, record, most=most)
                record += batch.num_rows
        if record == opened.first_record:
            yield Slice(opened.source, Piece(entity, np.zeros(0, np.int64), piece_schema(entity).empty_table()), [])


def entity_named(name: str, catalog: Catalog) -> EntityType:
    """The type with this name. The prefix `node:` or `edge:` distinguishes a node type and an edge type of the same name."""
    kind, _, bare = name.rpartition(":")
    node = catalog.node(bare) if kind in ("", "node") else None
    edge = catalog.edge(bare) if kind in ("", "edge") else None
    if node is not None and edge is not None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"'{name}' is a node type and an edge type; use 'node:{name}' or 'edge:{name}'", type=name
        )
    if (entity := node or edge) is None:
        raise InvalidInput(Kind.VALIDATION, f"unknown type '{name}': the schema has no node or edge type of that name", type=name)
    return entity


def _opened(name: str, table: object) -> OpenTable:
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return OpenTable(f"<{name}>", table.schema, iter(table.to_batches(max_chunksize=SLICE_ROWS)))
    if isinstance(table, pa.RecordBatchReader):
        return OpenTable(f"<{name}>", table.schema, iter(table))
    if isinstance(table, str | os.PathLike):
        return open_table(os.fspath(table))
    if isinstance(table, TablePart):
        return open_table(table)
    raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot load {name} from {type(table).__name__}; give an Arrow table or a path", type=name)


def _slice(entity: EntityType, opened: OpenTable, batch: pa.RecordBatch, record: int, *, most: int) -> Slice:
    columns = {_named(entity, name): batch.column(name) for name in batch.schema.names}
    alias = entity.alias
    schema = piece_schema(entity)
    convert = from_text if opened.text else from_arrow
    done: list[pa.Array] = []
    problems: list[Problem] = []
    more = 0
    good = np.ones(batch.num_rows, bool)
    for field in schema:
        values = columns.get(field.name, pa.nulls(batch.num_rows, pa.string() if opened.text else field.type))
        property_ = entity.property(field.name)
        converted = _identity(field.name, values) if property_ is None else convert(property_, values)
        done.append(converted.values)
        good[[row for row, _ in converted.refused]] = False
        problems += [
            Problem(error.code, error.message, alias, field.name, source=opened.source, record=record + row)
            for row, error in converted.refused[:most]
        ]
        more += max(len(converted.refused) - most, 0)
    rows = pa.Table.from_arrays(done, schema=schema)
    numbers = np.arange(record, record + batch.num_rows)
    if not good.all():
        rows, numbers = rows.filter(pa.array(good)), numbers[good]
    problems.sort(key=lambda problem: problem.record or 0)
    return Slice(opened.source, Piece(entity, numbers, rows), problems, more)


def _named(entity: EntityType, column: str) -> str:
    """The name of a column in the graph's table, where `from` and `to` of an edge are `src` and `dst`."""
    return _ENDS.get(column, column) if isinstance(entity, EdgeType) else column


def wrong_columns(entity: EntityType, schema: pa.Schema, *, text: bool) -> Iterator[Problem]:
    """Problems that make the whole table unusable: columns that are unknown, repeated, missing or of an unsuitable type."""
    alias = entity.alias
    ends = (SOURCE, TARGET) if isinstance(entity, EdgeType) else ()
    seen: set[str] = set()
    for field in schema:
        name = _named(entity, field.name)
        property_ = entity.property(name)
        if name in seen:
            yield Problem(ProblemCode.DUPLICATE_MEMBER, f"there are two columns for '{name}'", alias, name)
        elif property_ is None and name not in (ID, *ends):
            yield Problem(ProblemCode.UNKNOWN_FIELD, f"unknown input field '{name}' for '{alias}'", alias, name)
        elif property_ is None and not suits(Plain(Scalar.STRING), field.type):
            yield Problem(ProblemCode.ID, f"column '{field.name}' must hold strings, not {field.type}", alias, name)
        elif property_ is not None and not text and not suits(property_.type, field.type):
            message = f"strict property '{name}' expects {expected(property_.type)}, got a column of {field.type}"
            yield Problem(ProblemCode.TYPE, message, alias, name)
        seen.add(name)
    for name, end in zip(ends, _ENDS, strict=False):
        if name not in seen:
            yield Problem(ProblemCode.ENVELOPE, f"edge missing '{end}'", alias, name)
    for property_ in entity.properties:
        if not property_.nullable and property_.name not in seen:
            message = f"no column for the non-nullable property '{property_.name}'"
            remedy = "" if property_.embed is None else f"; {EMBED_REMEDY}"
            yield Problem(ProblemCode.REQUIRED, f"{message}{remedy}", alias, property_.name)


def _identity(name: str, values: pa.Array) -> ConvertedColumn:
    ids = texts(values)
    if name == ID or not ids.null_count:
        return ConvertedColumn(ids, [])
    refused = InvalidValue(ProblemCode.ENVELOPE, f"edge missing '{'from' if name == SOURCE else 'to'}'")
    return ConvertedColumn(ids, [(int(row), refused) for row in np.flatnonzero(np.asarray(ids.is_null()))])
