"""A table of one type, from Arrow, Parquet or CSV -> pieces of typed rows, or what is wrong with a column or a record.

A table has a column per property, `id` if rows bring ids, and `from` and `to` (or `src` and `dst`) of edges. Values keep what they
are: numbers may change their width when nothing is lost, and only CSV, which knows nothing but text, has its text read by type.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.catalog.tables import ID, SOURCE, TARGET
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.cells import Converted, expected, from_arrow, from_text, suits, texts
from omnigraph.exec.load.pieces import Piece, piece_schema
from omnigraph.exec.load.sources import existing_file
from omnigraph.exec.load.values import Refused
from omnigraph.exec.problems import Code, Problem

Table: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | str | os.PathLike[str]
"""The rows of one type: an Arrow table or stream, or the path of a `.parquet` or `.csv` file."""

_ENDS: Final = {"from": SOURCE, "to": TARGET}
_ROWS: Final = 1 << 18


class Slice(msgspec.Struct, frozen=True):
    """Some rows of a table that could be read, and what is wrong with the others."""

    source: str
    piece: Piece | None
    problems: list[Problem]


def read_tables(tables: Mapping[str, Table], catalog: Catalog, *, most: int) -> Iterator[Slice]:
    """The tables in the order given, each in slices."""
    for name, table in tables.items():
        entity = _entity(name, catalog)
        source, text, batches = _opened(name, table)
        record = 1
        for batch in batches:
            found = _slice(entity, source, batch, record, text=text, most=most)
            yield found
            record += batch.num_rows
            if found.piece is None:  # a column is wrong, and so it would be in every slice
                break


def _entity(name: str, catalog: Catalog) -> EntityType:
    """A table names its type as records do; `node:` or `edge:` before it tells two of one name apart."""
    kind, _, bare = name.rpartition(":")
    node = catalog.node(bare) if kind in ("", "node") else None
    edge = catalog.edge(bare) if kind in ("", "edge") else None
    if node is not None and edge is not None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"'{name}' is a node type and an edge type: write 'node:{name}' or 'edge:{name}'", type=name
        )
    if (entity := node or edge) is None:
        raise InvalidInput(Kind.VALIDATION, f"unknown type '{name}': the schema has no node or edge type of that name", type=name)
    return entity


def _opened(name: str, table: object) -> tuple[str, bool, Iterator[pa.RecordBatch]]:
    """What to call the source, whether its values are all text, and its rows."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return f"<{name}>", False, iter(table.to_batches(max_chunksize=_ROWS) or [pa.RecordBatch.from_pylist([], table.schema)])
    if isinstance(table, pa.RecordBatchReader):
        return f"<{name}>", False, iter(table)
    if isinstance(table, str | os.PathLike):
        path = os.fspath(table)
        file = existing_file(path)
        suffixes = {suffix.lower() for suffix in file.suffixes}
        try:
            if ".parquet" in suffixes:
                return path, False, _parquet(path)
            if ".csv" in suffixes:
                return path, True, _csv(path)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from error
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{path}' is no table that can be loaded: name a .parquet or .csv file", path=path)
    raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot load {name} from {type(table).__name__}; give an Arrow table or a path", type=name)


def _parquet(path: str) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(path)

    def batches() -> Iterator[pa.RecordBatch]:
        with file:
            yield pa.RecordBatch.from_pylist([], file.schema_arrow)  # so that a file without rows has its columns checked
            yield from _guarded(path, file.iter_batches(batch_size=_ROWS))

    return batches()


def _csv(path: str) -> Iterator[pa.RecordBatch]:
    header = pv.open_csv(path).schema.names
    # Quoted or not, nothing between two commas is null and not a text without characters.
    options = pv.ConvertOptions(column_types={name: pa.string() for name in header}, strings_can_be_null=True, null_values=[""])
    reader = pv.open_csv(path, parse_options=pv.ParseOptions(newlines_in_values=True), convert_options=options)
    return _guarded(path, iter(reader))


def _guarded(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> InvalidInput:
    return InvalidInput(Kind.VALIDATION, f"{path}: cannot be read: {error}; nothing was written", source=path)


def _slice(entity: EntityType, source: str, batch: pa.RecordBatch, record: int, *, text: bool, most: int) -> Slice:
    columns = {_ENDS.get(name, name) if isinstance(entity, EdgeType) else name: batch.column(name) for name in batch.schema.names}
    problems = [msgspec.structs.replace(problem, source=source) for problem in _wrong_columns(entity, batch.schema, columns, text=text)]
    if problems:
        return Slice(source, None, problems)
    label = f"{entity.kind}:{entity.name}"
    done, good = {}, np.ones(batch.num_rows, bool)
    for field in piece_schema(entity):
        values = columns.get(field.name, pa.nulls(batch.num_rows, pa.string() if text else field.type))
        property_ = entity.property(field.name)
        converted = _identity(field.name, values) if property_ is None else (from_text if text else from_arrow)(property_, values)
        done[field.name] = converted.values
        good[[row for row, _ in converted.refused]] = False
        problems += [
            Problem(error.code, error.message, label, field.name, source=source, record=record + row)
            for row, error in converted.refused[:most]
        ]
    rows = pa.Table.from_arrays(list(done.values()), schema=piece_schema(entity))
    numbers = np.arange(record, record + batch.num_rows)
    if not good.all():
        rows, numbers = rows.filter(pa.array(good)), numbers[good]
    problems.sort(key=lambda problem: problem.record or 0)
    return Slice(source, Piece(entity, numbers, rows), problems)


def _wrong_columns(entity: EntityType, schema: pa.Schema, columns: dict[str, pa.Array], *, text: bool) -> Iterator[Problem]:
    """What makes a whole table unusable: columns that are unknown, come twice, are missing or of a type that cannot be meant."""
    label = f"{entity.kind}:{entity.name}"
    if len(columns) < len(schema.names):
        twice, _ = Counter(_ENDS.get(name, name) for name in schema.names).most_common(1)[0]
        yield Problem(Code.DUPLICATE_MEMBER, f"two columns for '{twice}'", label, twice)
        return
    ends = (SOURCE, TARGET) if isinstance(entity, EdgeType) else ()
    for name, values in columns.items():
        property_ = entity.property(name)
        if property_ is None and name not in (ID, *ends):
            yield Problem(Code.UNKNOWN_FIELD, f"unknown input field '{name}' for '{label}'", label, name)
        elif property_ is None and texts(values[:0]) is None:
            yield Problem(Code.ID, f"column '{name}' must hold strings, not {values.type}", label, name)
        elif property_ is not None and not text and not suits(property_.type, values.type):
            message = f"strict property '{name}' expects {expected(property_.type)}, got a column of {values.type}"
            yield Problem(Code.TYPE, message, label, name)
    for name in ends:
        if name not in columns:
            yield Problem(Code.ENVELOPE, f"edge missing '{'from' if name == SOURCE else 'to'}'", label, name)
    for property_ in entity.properties:
        if not property_.nullable and property_.name not in columns:
            yield Problem(Code.REQUIRED, f"no column for the non-nullable property '{property_.name}'", label, property_.name)


def _identity(name: str, values: pa.Array) -> Converted:
    ids = texts(values)
    assert ids is not None, "columns are checked before their values"
    if name == ID or not ids.null_count:
        return Converted(ids, [])
    message = f"edge missing '{'from' if name == SOURCE else 'to'}'"
    return Converted(ids, [(int(row), Refused(Code.ENVELOPE, message)) for row in np.flatnonzero(np.asarray(ids.is_null()))])
