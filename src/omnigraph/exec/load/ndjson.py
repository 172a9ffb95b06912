"""A block of NDJSON lines -> pieces of typed rows, parsed by pyarrow, all lines of a type at once.

The lines of a type are passed to pyarrow's parser as one text with the schema of the type. pyarrow accepts more than a load does:
several objects on a line, NaN and Infinity, invalid UTF-8 and a byte order mark; and it does not distinguish null from a missing
value. These cases are caught here, in `sorting` or in `columns`. Lines that may be invalid are split into parts until few are left,
which the exact parser reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property, is_key
from omnigraph.exec.load.blocks import LineBlock, long_lines
from omnigraph.exec.load.ends import FROM, TO, end_column, end_type, end_types
from omnigraph.exec.load.json_columns import Form, Forms, NeedsExactParser, column, read_type, temporal_properties
from omnigraph.exec.load.json_values import ReadExternal, no_external
from omnigraph.exec.load.pieces import Piece, joined, piece_schema, with_flags
from omnigraph.exec.load.sorting import Group, LineShape, Sorter
from omnigraph.exec.load.strict import forms_of, parse_exactly
from omnigraph.exec.problems import Problem
from omnigraph.ids import TypeId
from omnigraph.store.arrays import Places, whole

_EXACT_LINES: Final = 64
"""Up to this many lines are not split again: the exact parser is as fast."""
_PARTS: Final = 8
_COLUMNS: Final = {FROM: SOURCE, TO: TARGET}


class Parsed(msgspec.Struct, frozen=True):
    """The rows of a block, one piece per type, the problems of the other lines, and the number of lines the exact parser read."""

    pieces: list[Piece]
    problems: list[Problem]
    exact_lines: int


class Reader:
    """A parser of blocks. It learns from each block how lines of a type start and how dates are written. This affects only speed."""

    def __init__(self, catalog: Catalog, *, most: int, keeps: bool = False, external: ReadExternal = no_external) -> None:
        """`keeps`: rows have flags for the properties that their records leave out, which need not be all that are required."""
        self._catalog = catalog
        self._most = most
        self._keeps = keeps
        self._external = external
        self._sorter = Sorter(catalog)
        self._forms: dict[TypeId, Forms] = {}

    def parse(self, block: LineBlock) -> Parsed:
        """The rows of a block, and its problems in line order."""
        try:
            lines = self._sorter.sort(block)
        except NeedsExactParser:  # the block is not valid UTF-8
            return self._exactly(block, np.arange(len(block.ends)), [])
        pieces: list[Piece] = []
        unread = [lines.odd]
        for group in lines.groups:
            for first, count, rows in self._read(group):
                places = group.places[first : first + count]
                if rows is None:
                    unread.append(places)
                else:
                    pieces.append(Piece(group.entity, block.numbers[places], rows))
        return self._exactly(block, np.sort(np.concatenate(unread)), pieces)

    def _exactly(self, block: LineBlock, places: Places, pieces: list[Piece]) -> Parsed:
        numbered = ((int(block.numbers[place]), block.line(place)) for place in places)
        exact = parse_exactly(numbered, self._catalog, keeps=self._keeps, most=self._most, external=self._external)
        problems = sorted([*long_lines(block), *exact.problems], key=lambda problem: problem.line or 0)
        return Parsed(joined([*pieces, *exact.pieces]), problems, len(places))

    def _read(self, group: Group) -> Iterator[tuple[int, int, pa.Table | None]]:
        """Runs of lines (first, count) with their rows, or with None if the exact parser must read them."""
        todo = [(0, len(group.texts))]
        while todo:
            first, count = todo.pop()
            rows = self._attempt(group, group.texts.slice(first, count))
            if rows is not None or count <= _EXACT_LINES:
                yield first, count, rows
            else:
                size = -(-count // _PARTS)
                todo.extend((at, min(size, first + count - at)) for at in reversed(range(first, first + count, size)))

    def _attempt(self, group: Group, texts: pa.Array) -> pa.Table | None:
        """The rows of some lines of a group. Dates and ends are tried in the form seen last, then in the form of the first line."""
        entity = group.entity
        forms = self._forms.get(entity.id, {})
        if (rows := self._rows(group, texts, forms)) is not None or not (isinstance(entity, EdgeType) or temporal_properties(entity)):
            return rows
        other = forms_of(entity, texts[0].as_py(), enveloped=group.shape is not LineShape.DATA)
        if other == forms:
            return None
        self._forms[entity.id] = other
        return self._rows(group, texts, other)

    def _rows(self, group: Group, texts: pa.Array, forms: Forms) -> pa.Table | None:
        try:
            ends = end_types(group.entity, self._catalog) if isinstance(group.entity, EdgeType) else {}
            record = _parse(_text(texts), _schema(group.entity, group.shape, forms, ends))
            if record.num_rows != len(texts) or not self._is_of(group, record):
                return None
            fields = _fields(group, record, texts)
            flags = _left_out(group.entity, fields, texts) if self._keeps else {}
            properties = {item.name: column(_optional(item, flags), fields[item.name]) for item in group.entity.properties}
            columns = {**_identity(ends, record), ID: fields[ID], **properties}
        except NeedsExactParser:
            return None
        schema = piece_schema(group.entity)
        return with_flags(pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema), flags)

    def _is_of(self, group: Group, record: pa.Table) -> bool:
        """True if every line names the type of its group. Trimmed lines were matched by their type already."""
        if group.shape is not LineShape.WHOLE:
            return True
        edge = isinstance(group.entity, EdgeType)
        said = pc.unique(record.column("edge" if edge else "type")).to_pylist()
        named = self._catalog.edge if edge else self._catalog.node
        return all(name is not None and named(name) is group.entity for name in said)


def _schema(entity: EntityType, shape: LineShape, forms: Forms, ends: Mapping[str, NodeType]) -> pa.Schema:
    """The schema that each text must have. The parser fails on any other member."""
    data = [pa.field(ID, pa.string()), *(pa.field(item.name, read_type(item, forms)) for item in entity.properties)]
    if shape is LineShape.DATA:
        return pa.schema(data)
    kind = () if shape is LineShape.REST else (pa.field("edge" if ends else "type", pa.string()),)
    written = (pa.field(name, end_type(node, forms.get(name, Form.TEXT))) for name, node in ends.items())
    return pa.schema([*kind, *written, pa.field("data", pa.struct(data))])


def _parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Parse consecutive objects. An unknown member, a repeated member and a value of another type all fail."""
    read = pj.ReadOptions(use_threads=False, block_size=max(text.size, 1))
    parse = pj.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="error")
    try:
        return pj.read_json(pa.BufferReader(text), read_options=read, parse_options=parse)
    except pa.ArrowException as error:
        raise NeedsExactParser from error


def _identity(ends: Mapping[str, NodeType], record: pa.Table) -> dict[str, pa.Array]:
    found = {_COLUMNS[name]: end_column(node, whole(record.column(name))) for name, node in ends.items()}
    if any(ids.null_count for ids in found.values()):
        raise NeedsExactParser
    return found


def _fields(group: Group, record: pa.Table, texts: pa.Array) -> dict[str, pa.Array]:
    """The explicit ids and the properties, as they were parsed."""
    if group.shape is LineShape.DATA:
        return {name: whole(record.column(name)) for name in record.schema.names}
    data = whole(record.column("data"))
    # A missing `data` is valid, but `"data": null` is not. Only the latter line contains `null`, unless a string does.
    if data.null_count and pc.any(pc.match_substring(texts.filter(data.is_null()), "null")).as_py():
        raise NeedsExactParser
    return dict(zip((field.name for field in data.type), data.flatten(), strict=True))


def _left_out(entity: EntityType, fields: Mapping[str, pa.Array], texts: pa.Array) -> dict[str, pa.Array]:
    """For each property that is null somewhere: the rows that leave it out. The parser does not distinguish them from a written null.

    A written null stands behind the name of its property. The same text cannot be in a string, where quotes are escaped.
    """
    flags: dict[str, pa.Array] = {}
    may_write = pc.match_substring(texts, "null")
    for property_ in entity.properties:
        values = fields[property_.name]
        if not values.null_count or is_key(entity, property_.name):
            continue
        null = values.is_null()
        doubtful = np.flatnonzero(np.asarray(pc.and_(null, may_write)))
        if len(doubtful):
            some = texts.take(pa.array(doubtful))
            written = np.asarray(pc.match_substring_regex(some, f'"{property_.name}"\\s*:\\s*null'))
            if not property_.nullable and written.any():
                raise NeedsExactParser  # a problem
            if pc.any(pc.match_substring(some.filter(pa.array(~written)), "\\")).as_py():
                raise NeedsExactParser  # the name may be written with escapes
            mask = np.array(np.asarray(null))
            mask[doubtful[written]] = False
            null = pa.array(mask)
        flags[property_.name] = null
    return flags


def _optional(property_: Property, flags: Mapping[str, pa.Array]) -> Property:
    """The property as it is where it may be left out."""
    return property_ if property_.nullable or property_.name not in flags else msgspec.structs.replace(property_, nullable=True)


def _text(texts: pa.Array) -> pa.Buffer:
    """The bytes of contiguous texts, without a copy."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)
    start, stop = int(ends[texts.offset]), int(ends[texts.offset + len(texts)])
    return data.slice(start, stop - start)
