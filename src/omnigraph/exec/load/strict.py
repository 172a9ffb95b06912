"""Lines of NDJSON, one by one -> typed rows, or the problems of each line with their columns.

The exact parser, for lines that the fast parser cannot decide. It loops over records, because it runs only for lines that are invalid
or written in an unusual way, and its messages are for people.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, is_key
from omnigraph.exec.load.blocks import WHITESPACE
from omnigraph.exec.load.ends import FROM, TO, end_forms, end_ids, end_types, end_value
from omnigraph.exec.load.json_columns import Form, Forms, temporal_properties
from omnigraph.exec.load.json_text import loads
from omnigraph.exec.load.json_values import InvalidValue, ReadExternal, Whole, no_external, plain_type, shown, stored
from omnigraph.exec.load.pieces import Piece, piece_schema, with_flags
from omnigraph.exec.problems import Problem, ProblemCode, with_hint

STRUCTURE_LIMIT: Final = 131_072
"""The maximum number of structural characters per line. Only a line longer than this can have more."""
_STRUCTURAL: Final = b"{}[],:"
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BOM: Final = "\ufeff"
_RESERVED: Final = frozenset({"_tombstone", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})
_COLUMNS: Final = {FROM: SOURCE, TO: TARGET}
_MEMBERS: Final = {"type": ("type", "data"), "edge": ("edge", "from", "to", "data")}


class ExactResult(msgspec.Struct, frozen=True):
    """The rows of the valid lines, by type, and the problems of the other lines in order."""

    pieces: tuple[Piece, ...]
    problems: tuple[Problem, ...]


class _Record(msgspec.Struct, frozen=True):
    line: int
    values: Mapping[str, object]
    """By column: `id` (None if the record has none), `src` and `dst` of an edge (ids, or the values of keys), and the properties."""
    left_out: frozenset[str] | None
    """The properties that the record leaves out, if the load keeps their values."""


def parse_exactly(
    lines: Iterable[tuple[int, bytes]], catalog: Catalog, *, most: int, keeps: bool = False, external: ReadExternal = no_external
) -> ExactResult:
    """Read numbered lines until `most` problems are found. `keeps`: records need not name every property that is required."""
    records: dict[str, tuple[EntityType, list[_Record]]] = {}
    problems: list[Problem] = []
    for line, raw in lines:
        if len(problems) >= most:
            break
        found = _parse_line(line, raw, catalog, keeps=keeps, external=external)
        if isinstance(found, list):
            problems += found
        else:
            entity, record = found
            records.setdefault(entity.id, (entity, []))[1].append(record)
    pieces = tuple(_piece(entity, rows, catalog) for entity, rows in records.values())
    return ExactResult(pieces, tuple(problems))


def forms_of(entity: EntityType, text: str, *, enveloped: bool) -> Forms:
    """How a record writes its dates and, for an edge, its ends. Other records of the file probably write them in the same way."""
    try:
        record = loads(text)
        data = record.get("data") if enveloped else record
        ends = end_forms(record) if isinstance(entity, EdgeType) else {}
    except (InvalidValue, ValueError, RecursionError, AttributeError):
        return {}
    members = data.items() if isinstance(data, dict) else ()
    numbers = {name for name, value in members if isinstance(value[0] if isinstance(value, list) and value else value, Whole)}
    return {**{name: Form.NUMBER for name in temporal_properties(entity) if name in numbers}, **ends}


def _parse_line(
    line: int, raw: bytes, catalog: Catalog, *, keeps: bool, external: ReadExternal
) -> tuple[EntityType, _Record] | list[Problem]:
    """One record, or its problems: the first problem of its envelope, or the problems of all its values."""
    try:
        text = _decoded(line, raw)
        record = _object(line, text)
        entity = _entity(record, catalog)
        data = record.get("data", {})
        if not isinstance(data, dict):
            raise InvalidValue(ProblemCode.ENVELOPE, f"field 'data' must be an object, got {shown(data)}")
        values: dict[str, object] = {}
        if isinstance(entity, EdgeType):
            values = {_COLUMNS[end]: end_value(node, end, record[end]) for end, node in end_types(entity, catalog).items()}
    except _TextProblem as error:
        return [error.problem]
    except InvalidValue as error:
        return [Problem(error.code, error.message, line=line)]
    left_out = frozenset(_may_leave_out(entity) - data.keys()) if keeps else None
    wrong = _convert(entity, data, values, left_out or frozenset(), external)
    problems = [_problem(entity, line, text, name, error) for name, error in wrong]
    return problems or (entity, _Record(line, values, left_out))


def _may_leave_out(entity: EntityType) -> set[str]:
    return {property_.name for property_ in entity.properties if not is_key(entity, property_.name)}


def _convert(
    entity: EntityType, data: dict[str, object], values: dict[str, object], left_out: frozenset[str], external: ReadExternal
) -> Iterable[tuple[str, InvalidValue]]:
    """Put the columns of a record into `values`. Yields problems, unknown members first, then by property."""
    for name in data:
        if name in _RESERVED:
            yield name, InvalidValue(ProblemCode.UNKNOWN_FIELD, f"field '{name}' is reserved physical state")
        elif isinstance(entity, EdgeType) and name in (SOURCE, TARGET):
            yield (
                name,
                InvalidValue(ProblemCode.UNKNOWN_FIELD, f"field '{name}' is reserved structural state; use 'from' and 'to' for an edge"),
            )
        elif name != ID and entity.property(name) is None:
            yield name, InvalidValue(ProblemCode.UNKNOWN_FIELD, unknown_field(entity, name))
    id_ = data.get(ID)
    if id_ is not None and type(id_) is not str:
        yield ID, InvalidValue(ProblemCode.ID, f"{entity.kind} '{entity.name}' field 'id' must be a string, got {shown(id_)}")
    values[ID] = id_
    for property_ in entity.properties:
        try:
            values[property_.name] = None if property_.name in left_out else stored(property_, data.get(property_.name), external)
        except InvalidValue as error:
            yield property_.name, error


def _piece(entity: EntityType, records: list[_Record], catalog: Catalog) -> Piece:
    schema = piece_schema(entity)
    ends = {_COLUMNS[end]: node for end, node in end_types(entity, catalog).items()} if isinstance(entity, EdgeType) else {}
    columns = []
    for field in schema:
        values: list[Any] = [record.values[field.name] for record in records]
        node = ends.get(field.name)
        columns.append(pa.array(values, plain_type(field.type)).cast(field.type) if node is None else end_ids(node, values))
    lines = np.fromiter((record.line for record in records), np.int64, len(records))
    kept = [record.left_out for record in records if record.left_out is not None]
    names = [property_.name for property_ in entity.properties if kept]
    flags = {name: pa.array([name in left_out for left_out in kept]) for name in names}
    return Piece(entity, lines, with_flags(pa.Table.from_arrays(columns, schema=schema), flags))


# -- the text


class _TextProblem(Exception):
    """A problem of the text itself, with a known column."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem: Final = problem


def _decoded(line: int, raw: bytes) -> str:
    if (count := structural(raw)) > STRUCTURE_LIMIT:
        raise InvalidValue(
            ProblemCode.LINE_LIMIT, f"line {line} has {count} structural JSON characters; at most {STRUCTURE_LIMIT} are allowed"
        )
    try:
        return raw.decode("utf-8").rstrip(WHITESPACE.decode())
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8", "replace")) + 1
        message = f"line {line} is not UTF-8: byte 0x{raw[error.start]:02x} at column {column}; save the data as UTF-8"
        raise _TextProblem(Problem(ProblemCode.ENCODING, message, line=line, column=column)) from error


def structural(raw: bytes) -> int:
    """The number of structural characters of a line. It is exact if it exceeds the limit."""
    count = _count(raw) if len(raw) > STRUCTURE_LIMIT else 0
    return _count(_STRING.sub(b"", raw)) if count > STRUCTURE_LIMIT else count


def _count(text: bytes) -> int:
    return len(text) - len(text.translate(None, delete=_STRUCTURAL))


def _object(line: int, text: str) -> dict[str, object]:
    if text.startswith(_BOM):  # Python's message would be misleading
        message = f"invalid strict JSON at line {line}: it begins with a byte order mark, which only a file may begin with; remove it"
        raise _TextProblem(Problem(ProblemCode.ENCODING, message, line=line, column=1))
    try:
        record = loads(text)
    except json.JSONDecodeError as error:
        message = f"invalid strict JSON at line {line}: {error.msg} at column {error.pos + 1}"
        raise _TextProblem(Problem(ProblemCode.JSON, message, line=line, column=error.pos + 1)) from error
    except RecursionError as error:
        raise InvalidValue(ProblemCode.JSON, f"invalid strict JSON at line {line}: it is nested too deeply") from error
    except InvalidValue as error:
        raise InvalidValue(error.code, f"invalid strict JSON at line {line}: {error.message}") from error
    if not isinstance(record, dict):
        raise InvalidValue(ProblemCode.ENVELOPE, f"a line must be a JSON object, got {shown(record)}")
    return record


# -- the envelope


def _entity(record: dict[str, object], catalog: Catalog) -> EntityType:
    """The type of a record. Raises `InvalidValue` for an invalid envelope."""
    kinds = [kind for kind in _MEMBERS if kind in record]
    if len(kinds) != 1:
        raise InvalidValue(ProblemCode.ENVELOPE, "a record must have exactly one of 'type' or 'edge'")
    kind = kinds[0]
    for name in record:
        if name in _RESERVED:
            raise InvalidValue(ProblemCode.ENVELOPE, f"field '{name}' is reserved physical state")
        if name not in _MEMBERS[kind]:
            *members, last = (f"'{member}'" for member in _MEMBERS[kind])
            has = f"a record with '{kind}' has {', '.join(members)} and {last}, which holds the properties"
            raise InvalidValue(ProblemCode.UNKNOWN_FIELD, f"unknown member '{name}': {has}")
    for name in () if kind == "type" else (FROM, TO):
        if name not in record:
            raise InvalidValue(ProblemCode.ENVELOPE, f"edge missing '{name}'")
    if type(record[kind]) is not str:
        raise InvalidValue(ProblemCode.ENVELOPE, f"field '{kind}' must be a string, got {shown(record[kind])}")
    written = str(record[kind])
    entity: NodeType | EdgeType | None = catalog.node(written) if kind == "type" else catalog.edge(written)
    if entity is None:
        noun, known = ("node", catalog.nodes) if kind == "type" else ("edge", catalog.edges)
        message = with_hint(f"unknown {noun} type '{written}'", written, (other.name for other in known))
        raise InvalidValue(ProblemCode.UNKNOWN_TYPE, message)
    return entity


def unknown_field(entity: EntityType, name: str) -> str:
    """The message for a member or column that a type does not have."""
    return with_hint(f"unknown input field '{name}' for '{entity.alias}'", name, (property_.name for property_ in entity.properties))


def _problem(entity: EntityType, line: int, text: str, name: str, error: InvalidValue) -> Problem:
    return Problem(error.code, error.message, type=entity.alias, property=name, line=line, column=_column_of(text, name))


def _column_of(text: str, name: str) -> int | None:
    """The column of a member in its line, or None unless its name occurs exactly once, unescaped and before a colon."""
    places = [found.start() for found in re.finditer(f"{re.escape(json.dumps(name, ensure_ascii=False))}\\s*:", text)]
    return places[0] + 1 if len(places) == 1 else None
