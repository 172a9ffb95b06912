"""A table of one type, from Arrow, a frame, Parquet or CSV -> pieces of typed rows, or the problems of a column or a record.

A table has a column per property, `id` if rows have explicit ids, and `from` and `to` (or `src` and `dst`) for edges. Values keep
their type: numbers may change their width if nothing is lost. Only the text of CSV is parsed by the type of the property.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, is_key
from omnigraph.catalog.types import INTEGERS, Plain
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.cells import ConvertedColumn, expected, from_arrow, from_text, remedy, suits, texts
from omnigraph.exec.load.ends import FROM, TO, end_types, from_end, suits_end
from omnigraph.exec.load.json_values import ReadExternal, no_external
from omnigraph.exec.load.pieces import Piece, piece_schema, with_flags
from omnigraph.exec.load.sources import STREAM
from omnigraph.exec.load.strict import unknown_field
from omnigraph.exec.load.tablefiles import SLICE_ROWS, OpenTable, TablePart, open_table
from omnigraph.exec.problems import EMBED_REMEDY, Problem, ProblemCode, with_hint
from omnigraph.lang.tree import Scalar


class ArrowStream(Protocol):
    """A table of another library that can be read as Arrow batches: of pandas, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


TableInput: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream | str | os.PathLike[str] | TablePart
"""The rows of one type: an Arrow table or stream, a frame, or the path of a `.parquet` or `.csv` file, or a part of such a file."""

_RECORD: Final = frozenset({"type", "edge", "data"})
"""The members of a record, none of which can be the name of a type."""
_ENDS: Final = {FROM: SOURCE, TO: TARGET}
_NodesAtEnds: TypeAlias = Mapping[str, NodeType]
_PANDAS: Final = b"pandas"
_TEXT: Final = Plain(Scalar.STRING)
_FAILED: Final = re.compile(r"Conversion failed for column (.+) with type ")
_INDEX: Final = re.compile(r"__index_level_[0-9]+__")


@runtime_checkable
class _Columns(Protocol):
    """A frame of pandas: its columns by their names."""

    def __getitem__(self, name: str, /) -> Iterable[object]: ...
    def __contains__(self, name: object, /) -> bool: ...


class Slice(msgspec.Struct, frozen=True):
    """Some valid rows of a table, and the problems of the others."""

    source: str
    piece: Piece | None
    problems: list[Problem]
    more: int = 0
    """The number of problems that are counted but not described."""


def read_tables(
    tables: Mapping[str, TableInput], catalog: Catalog, *, most: int, keeps: bool = False, external: ReadExternal = no_external
) -> Iterator[Slice]:
    """The tables in the order given, each in slices. A table without rows is one empty slice, which still names the type.

    `keeps`: rows have flags for the properties without a column, which need not be all that are required.

    All tables are opened before the first is read, so that a wrong path is reported at once.
    """
    for entity, opened in _open_all(tables, catalog):
        ends = end_types(entity, catalog) if isinstance(entity, EdgeType) else {}
        if problems := list(wrong_columns(entity, catalog, opened.schema, text=opened.text, keeps=keeps)):
            yield Slice(opened.source, None, [msgspec.structs.replace(problem, source=opened.source) for problem in problems])
            continue
        record = opened.first_record
        for batch in opened.batches:
            if batch.num_rows:
                yield _slice(entity, ends, opened, batch, record, most=most, keeps=keeps, external=external)
                record += batch.num_rows
        if record == opened.first_record:
            yield Slice(opened.source, Piece(entity, np.zeros(0, np.int64), piece_schema(entity).empty_table()), [])


def _open_all(tables: Mapping[str, TableInput], catalog: Catalog) -> list[tuple[EntityType, OpenTable]]:
    if not _RECORD.isdisjoint(tables):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "this is a record, not a mapping of types to tables; put records into a list: [{...}]")
    named = [(entity_named(name, catalog), name, table) for name, table in tables.items()]
    return [(entity, _opened(entity, name, table)) for entity, name, table in named]


def entity_named(name: str, catalog: Catalog) -> EntityType:
    """The type with this name. The prefix `node:` or `edge:` distinguishes a node type and an edge type of the same name."""
    if not isinstance(name, str):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"a table is loaded under the name of its type, not under {name!r}")
    kind, _, bare = name.rpartition(":")
    node = catalog.node(bare) if kind in ("", "node") else None
    edge = catalog.edge(bare) if kind in ("", "edge") else None
    if node is not None and edge is not None:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"'{name}' is a node type and an edge type; use 'node:{name}' or 'edge:{name}'", type=name
        )
    if (entity := node or edge) is None:
        known = [other.name for other in catalog.entities]
        message = with_hint(f"unknown type '{name}': the schema has no node or edge type of that name", bare, known)
        raise InvalidInput(Kind.VALIDATION, message, type=name)
    return entity


def _opened(entity: EntityType, name: str, table: object) -> OpenTable:
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
    if hasattr(table, STREAM):
        return _open_frame(entity, name, table)
    message = f"cannot load {name} from {type(table).__name__}; give a table, a frame or a path{_instead(name, table)}"
    raise InvalidInput(Kind.INVALID_ARGUMENT, message, type=name)


def _instead(name: str, table: object) -> str:
    """Return what to do with a value that is nearly a table."""
    if isinstance(table, list | tuple):
        return f"; records name their type themselves: [{{'type': '{name}', 'data': {{...}}}}]"
    return "; `collect()` it first" if hasattr(table, "collect") else ""


def _open_frame(entity: EntityType, name: str, frame: object) -> OpenTable:
    """Open a table of another library. An unnamed index of pandas is no column, and its integers with gaps are not floats.

    The types of columns of pandas without rows say nothing: they are float64 or object, whatever was meant.
    """
    source = f"<{name}>"
    try:
        reader = pa.RecordBatchReader.from_stream(frame)
    except Exception as error:  # any error of the other library, which computes the rows now
        raise _unconverted(source, frame, error) or _unreadable(source, error) from error
    schema = reader.schema
    if _PANDAS in (schema.metadata or {}):
        schema = pa.schema([_as_meant(entity, field) for field in schema if _INDEX.fullmatch(field.name) is None])
        if isinstance(frame, Sized) and len(frame) == 0:
            return OpenTable(source, pa.schema([field.with_type(pa.null()) for field in schema]), iter(()))
    return OpenTable(source, schema, _frame_batches(source, reader, schema))


def _unconverted(source: str, frame: object, error: Exception) -> InvalidInput | None:
    """Return the error for a column of pandas with values that no type of Arrow holds, such as numbers among texts."""
    failed = _FAILED.match(str(error.args[-1])) if isinstance(error, pa.ArrowException) and len(error.args) > 1 else None
    if failed is None:
        return None
    column = failed.group(1)
    record = _odd_one(frame[column]) if isinstance(frame, _Columns) and column in frame else None
    place = source if record is None else f"{source}, record {record}"
    message = f"{place}: column '{column}' cannot be read: {error.args[0]}; nothing was written"
    return InvalidInput(Kind.VALIDATION, message, source=source, property=column, **({} if record is None else {"record": record}))


def _odd_one(values: Iterable[object]) -> int | None:
    """Return the number of the first value whose type is not that of the first one. Nulls have none."""
    first: type | None = None
    for number, value in enumerate(values, 1):
        if value is None or (isinstance(value, float) and value != value):
            continue
        first = first or type(value)
        if type(value) is not first:
            return number
    return None


def _as_meant(entity: EntityType, field: pa.Field) -> pa.Field:
    """A column of pandas. One of integers with missing values has the type float64 there, unless it has been converted."""
    property_ = entity.property(field.name)
    whole = property_ is not None and isinstance(property_.type, Plain) and property_.type.scalar in INTEGERS
    return field.with_type(pa.int64()) if whole and pa.types.is_float64(field.type) else field


def _frame_batches(source: str, reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    before = 0
    try:
        for batch in reader:
            _refuse_fractions(source, batch, schema, before)
            rows = batch.select(schema.names).cast(schema)
            yield from (rows.slice(start, SLICE_ROWS) for start in range(0, rows.num_rows, SLICE_ROWS))
            before += batch.num_rows
    except InvalidInput:
        raise
    except Exception as error:  # any error of the other library, which may compute rows only now
        raise _unreadable(source, error) from error


def _refuse_fractions(source: str, batch: pa.RecordBatch, schema: pa.Schema, before: int) -> None:
    """Refuse a column of floats that are meant as integers, and of which one is none."""
    for field in schema:
        values = batch.column(field.name)
        if not (pa.types.is_integer(field.type) and pa.types.is_floating(values.type)):
            continue
        kept = values.cast(field.type, safe=False).cast(values.type)
        wrong = np.flatnonzero(pc.fill_null(pc.not_equal(kept, values), fill_value=False))
        if wrong.size:
            value, record = values[int(wrong[0])].as_py(), before + int(wrong[0]) + 1
            message = (
                f"{source}, record {record}: property '{field.name}' value {value} is not a whole number of 64 bits; nothing was written"
            )
            raise InvalidInput(Kind.VALIDATION, message, source=source, record=record, property=field.name)


def _unreadable(source: str, error: Exception) -> InvalidInput:
    return InvalidInput(Kind.VALIDATION, f"{source}: cannot be read: {error}; nothing was written", source=source)


def _slice(
    entity: EntityType,
    ends: _NodesAtEnds,
    opened: OpenTable,
    batch: pa.RecordBatch,
    record: int,
    *,
    most: int,
    keeps: bool,
    external: ReadExternal,
) -> Slice:
    columns = {_named(entity, name): batch.column(name) for name in batch.schema.names}
    alias = entity.alias
    schema = piece_schema(entity)
    convert = from_text if opened.text else from_arrow
    done: list[pa.Array] = []
    problems: list[Problem] = []
    more = 0
    good = np.ones(batch.num_rows, bool)
    left_out: dict[str, pa.Array] = {}
    for field in schema:
        if keeps and field.name not in columns and entity.property(field.name) is not None:
            left_out[field.name] = pa.repeat(pa.scalar(value=True), batch.num_rows)
            done.append(pa.nulls(batch.num_rows, field.type))
            continue
        values = columns.get(field.name, pa.nulls(batch.num_rows, pa.string() if opened.text else field.type))
        property_ = entity.property(field.name)
        if opened.text and (property_ is None or property_.type != _TEXT):
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)  # only a String can be an empty text
        converted = _identity(ends, field.name, values) if property_ is None else convert(property_, values, external)
        done.append(converted.values)
        good[[row for row, _ in converted.refused]] = False
        problems += [
            Problem(error.code, error.message, alias, field.name, source=opened.source, record=record + row)
            for row, error in converted.refused[:most]
        ]
        more += max(len(converted.refused) - most, 0)
    rows = with_flags(pa.Table.from_arrays(done, schema=schema), left_out)
    numbers = np.arange(record, record + batch.num_rows)
    if not good.all():
        rows, numbers = rows.filter(pa.array(good)), numbers[good]
    problems.sort(key=lambda problem: problem.record or 0)
    return Slice(opened.source, Piece(entity, numbers, rows), problems, more)


def _named(entity: EntityType, column: str) -> str:
    """The name of a column in the graph's table, where `from` and `to` of an edge are `src` and `dst`."""
    return _ENDS.get(column, column) if isinstance(entity, EdgeType) else column


def wrong_columns(entity: EntityType, catalog: Catalog, schema: pa.Schema, *, text: bool, keeps: bool) -> Iterator[Problem]:
    """Problems that make the whole table unusable: columns that are unknown, repeated, missing or of an unsuitable type."""
    alias = entity.alias
    ends = {_ENDS[end]: node for end, node in end_types(entity, catalog).items()} if isinstance(entity, EdgeType) else {}
    seen: set[str] = set()
    for field in schema:
        name = _named(entity, field.name)
        property_ = entity.property(name)
        if name in seen:
            yield Problem(ProblemCode.DUPLICATE_MEMBER, f"there are two columns for '{name}'", alias, name)
        elif property_ is None and name not in (ID, *ends):
            yield Problem(ProblemCode.UNKNOWN_FIELD, unknown_field(entity, name), alias, name)
        elif name in ends and not suits_end(ends[name], field.type):
            wanted = f"ids of {ends[name].name}, or its keys"
            yield Problem(ProblemCode.ID, f"column '{field.name}' must hold {wanted}, not {field.type}", alias, name)
        elif name == ID and not suits(Plain(Scalar.STRING), field.type):
            yield Problem(ProblemCode.ID, f"column '{field.name}' must hold strings, not {field.type}", alias, name)
        elif property_ is not None and not text and not suits(property_.type, field.type):
            message = f"strict property '{name}' expects {expected(property_.type)}, got a column of {field.type}"
            yield Problem(ProblemCode.TYPE, f"{message}{remedy(property_.type, field.type)}", alias, name)
        seen.add(name)
    for name, end in zip(ends, _ENDS, strict=False):
        if name not in seen:
            yield Problem(ProblemCode.ENVELOPE, f"edge missing '{end}'", alias, name)
    for property_ in entity.properties:
        required = not property_.nullable and not (keeps and not is_key(entity, property_.name))
        if required and property_.name not in seen:
            message = f"no column for the non-nullable property '{property_.name}'"
            or_embed = "" if property_.embed is None else f"; {EMBED_REMEDY}"
            yield Problem(ProblemCode.REQUIRED, f"{message}{or_embed}", alias, property_.name)


def _identity(ends: _NodesAtEnds, name: str, values: pa.Array) -> ConvertedColumn:
    if name == ID:
        return ConvertedColumn(texts(values), [])
    end = FROM if name == SOURCE else TO
    return from_end(ends[end], end, values)
