"""A block of NDJSON lines -> pieces of typed rows, read by pyarrow whole types at a time.

Lines are sorted to their types by how they begin, without parsing; the lines of a type are then one text for pyarrow's parser
with that type's schema. pyarrow is laxer than the language in places, all of which are closed here or in `columns`:
it takes several objects on a line, NaN and Infinity, invalid UTF-8 and a byte order mark, and it cannot tell a null from
nothing. What is not plainly right is halved until the lines that are to blame are few; the exact parser reads those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.catalog.tables import ID
from omnigraph.exec.load.blocks import Block, long_line, too_long
from omnigraph.exec.load.columns import Form, Forms, Unsure, column, read_type, temporal_properties
from omnigraph.exec.load.pieces import Piece, joined, piece_schema
from omnigraph.exec.load.strict import STRUCTURE_LIMIT, WHITESPACE, parse_exactly, structural, written_as_numbers
from omnigraph.exec.problems import Problem
from omnigraph.ids import TypeId

_EXACT_LINES: Final = 64
"""So few lines are not halved again: the exact parser is as quick with them."""
_PARTS: Final = 8
_PREFIX_BYTES: Final = 256  # of a line, in which its type is usually said
_HEAD: Final = r'^(?P<head>\{\s*"(?P<kind>type|edge)"\s*:\s*"(?P<name>[^"\\]*)")'
_ANYWHERE: Final = r'"(?P<kind>type|edge)"\s*:\s*"(?P<name>[^"\\]*)"'
_MOST_HEADS: Final = 32
_UNKNOWN: Final = -1
_BRACE_OPEN, _BRACE_CLOSE, _RETURN = b"{}\r"


class Parsed(msgspec.Struct, frozen=True):
    """The rows of a block, one piece per type, what is wrong with the other lines, and how many were read exactly."""

    pieces: list[Piece]
    problems: list[Problem]
    exact_lines: int


class Reader:
    """What is learnt from block to block: how lines of a type begin, and how its dates are written. Only speed depends on it."""

    def __init__(self, catalog: Catalog, *, most: int) -> None:
        self._catalog = catalog
        self._most = most
        self._heads: dict[str, EntityType] = {}
        self._forms: dict[TypeId, Forms] = {}

    def parse(self, block: Block) -> Parsed:
        """The rows of a block, and its problems in the order of the lines."""
        try:
            lines = _lines(block)
        except pa.ArrowInvalid:  # somewhere it is not UTF-8
            return self._exactly(block, np.arange(len(block.ends)), [], [])
        groups, odd = self._sort(block, lines)
        pieces: list[Piece] = []
        unread = [odd]
        for entity, members in groups:
            part = lines if len(members) == len(lines) else lines.take(pa.array(members))
            for first, count, rows in self._read(entity, part):
                places = members[first : first + count]
                if rows is None:
                    unread.append(places)
                else:
                    pieces.append(Piece(entity, places + block.first_line, rows))
        return self._exactly(block, np.sort(np.concatenate(unread)), pieces, long_lines(block))

    def _exactly(self, block: Block, places: npt.NDArray[np.int64], pieces: list[Piece], problems: list[Problem]) -> Parsed:
        numbered = ((int(place) + block.first_line, block.line(place)) for place in places)
        exact = parse_exactly(numbered, self._catalog, most=self._most)
        found = sorted([*problems, *exact.problems], key=lambda problem: problem.line or 0)
        return Parsed(joined([*pieces, *exact.pieces]), found, len(places))

    # -- lines to types

    def _sort(self, block: Block, lines: pa.Array) -> tuple[list[tuple[EntityType, npt.NDArray[np.int64]]], npt.NDArray[np.int64]]:
        """The lines of each type, as far as one can tell without parsing, and those to be read exactly. Blank ones are neither."""
        usual, odd = _shapes(block)
        groups: dict[TypeId, tuple[EntityType, list[npt.NDArray[np.int64]]]] = {}
        left = usual
        prefixes = _prefixes(lines, left)
        heads = dict(self._heads)
        for head, entity in heads.items() if len(heads) <= _MOST_HEADS else ():
            if not len(left):
                break
            matched = np.asarray(pc.starts_with(prefixes, head))
            if matched.any():
                groups.setdefault(entity.id, (entity, []))[1].append(left[matched])
                left = left[~matched]
                prefixes = prefixes.filter(pa.array(~matched)) if len(left) else prefixes
        if len(left):
            left = self._learn(prefixes, left, groups)
        if len(left):
            left = self._search(lines.take(pa.array(left)), left, groups)
        sorted_ = [(entity, np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]) for entity, parts in groups.values()]
        return sorted_, np.concatenate((odd, left))

    def _learn(self, prefixes: pa.Array, places: npt.NDArray[np.int64], groups: _Groups) -> npt.NDArray[np.int64]:
        """Sort lines that begin with their type in a way not seen before, and remember it."""
        found = pc.extract_regex(prefixes, _HEAD)
        return self._gather(found, places, groups, heads=found.field("head"))

    def _search(self, lines: pa.Array, places: npt.NDArray[np.int64], groups: _Groups) -> npt.NDArray[np.int64]:
        """Sort lines that say their type somewhere. It may be a property's value that looks like it: reading them will tell."""
        return self._gather(pc.extract_regex(lines, _ANYWHERE), places, groups, heads=None)

    def _gather(self, found: pa.Array, places: npt.NDArray[np.int64], groups: _Groups, *, heads: pa.Array | None) -> npt.NDArray[np.int64]:
        kinds, names = found.field("kind"), found.field("name")
        said = pc.binary_join_element_wise(kinds, names, " ") if heads is None else heads
        said = pc.if_else(found.is_valid(), said, None).dictionary_encode()
        codes = np.asarray(pc.fill_null(said.indices, _UNKNOWN))
        left = [places[codes == _UNKNOWN]]
        firsts = np.unique(codes, return_index=True)
        for code, first in zip(*(part.tolist() for part in firsts), strict=True):
            if code == _UNKNOWN:
                continue
            entity = _named(self._catalog, kinds[first].as_py(), names[first].as_py())
            members = places[codes == code]
            if entity is None:
                left.append(members)
                continue
            groups.setdefault(entity.id, (entity, []))[1].append(members)
            if heads is not None:
                self._heads[heads[first].as_py()] = entity
        return np.concatenate(left)

    # -- lines of one type to rows

    def _read(self, entity: EntityType, lines: pa.Array) -> Iterator[tuple[int, int, pa.Table | None]]:
        """Runs of lines (first, how many) in order, with their rows, or with None where the exact parser must look."""
        todo = [(0, len(lines))]
        while todo:
            first, count = todo.pop()
            rows = self._attempt(entity, lines.slice(first, count))
            if rows is not None or count <= _EXACT_LINES:
                yield first, count, rows
            else:
                size = -(-count // _PARTS)
                todo.extend((at, min(size, first + count - at)) for at in reversed(range(first, first + count, size)))

    def _attempt(self, entity: EntityType, lines: pa.Array) -> pa.Table | None:
        forms = self._forms.get(entity.id, {})
        try:
            return _rows(entity, lines, forms, self._catalog)
        except Unsure:
            pass
        names = temporal_properties(entity)
        if not names:
            return None
        numbers = written_as_numbers(lines[0].as_py())
        other = {name: Form.NUMBER for name in names if name in numbers}
        if other == forms:
            return None
        self._forms[entity.id] = other
        try:
            return _rows(entity, lines, other, self._catalog)
        except Unsure:
            return None


_Groups = dict[TypeId, tuple[EntityType, list[npt.NDArray[np.int64]]]]


def _lines(block: Block) -> pa.Array:
    """The lines as strings over the block's own bytes. Raises ArrowInvalid if they are not UTF-8."""
    offsets = np.concatenate((np.zeros(1, np.int32), block.ends.astype(np.int32)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]
    return pa.Array.from_buffers(pa.binary(), len(block.ends), buffers).cast(pa.string())


def _shapes(block: Block) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The lines that go from `{` to `}`, and the others that are not blank.

    Such lines end where their object ends, or pyarrow fails: after a `}` that closes less than the line, a `{` cannot follow.
    So when it finds as many objects as there are lines, each line is one object.
    """
    text = np.frombuffer(block.text, np.uint8)
    starts, ends = block.starts, block.ends
    last = text[np.maximum(ends - 2, starts)]
    returned = last == _RETURN
    if returned.any():
        last = np.where(returned, text[np.maximum(ends - 3, starts)], last)
    whole = (text[starts] == _BRACE_OPEN) & (last == _BRACE_CLOSE)
    sizes = ends - starts
    for place in np.flatnonzero(sizes > STRUCTURE_LIMIT).tolist():
        whole[place] &= structural(block.line(place)) <= STRUCTURE_LIMIT
    over = too_long(block)
    others = [place for place in np.flatnonzero(~whole & ~over).tolist() if block.line(place).strip(WHITESPACE)]
    return np.flatnonzero(whole & ~over), np.array(others, np.int64)


def long_lines(block: Block) -> list[Problem]:
    sizes = np.diff(block.ends, prepend=0) - 1
    return [long_line(block.first_line + place, int(sizes[place])) for place in np.flatnonzero(too_long(block)).tolist()]


def _prefixes(lines: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    prefixes = pc.binary_slice(lines.view(pa.binary()), 0, _PREFIX_BYTES)
    kept = prefixes if len(places) == len(lines) else prefixes.take(pa.array(places))
    # A cut may fall inside a character. Only the beginning is looked at, and nobody reads these as text.
    return pa.Array.from_buffers(pa.string(), len(kept), kept.buffers())


def _named(catalog: Catalog, kind: str, name: str) -> EntityType | None:
    return catalog.node(name) if kind == "type" else catalog.edge(name)


def _rows(entity: EntityType, lines: pa.Array, forms: Forms, catalog: Catalog) -> pa.Table:
    """The lines, all of which should be of this type, as rows. Raises `Unsure`."""
    record = _parse(_text(lines), _envelope(entity, forms))
    if record.num_rows != len(lines):
        raise Unsure
    kind = "edge" if isinstance(entity, EdgeType) else "type"
    said = pc.unique(record.column(kind)).to_pylist()
    if not all(name is not None and _named(catalog, kind, name) is entity for name in said):
        raise Unsure
    data = _whole(record.column("data"))
    # Without data there is no `null` in the line, unless in a string; with `null` for data there is.
    if data.null_count and pc.any(pc.match_substring(lines.filter(data.is_null()), "null")).as_py():
        raise Unsure
    fields = dict(zip((field.name for field in data.type), data.flatten(), strict=True))
    columns = {ID: fields[ID]}
    if isinstance(entity, EdgeType):
        columns |= {"src": _whole(record.column("from")), "dst": _whole(record.column("to"))}
        if columns["src"].null_count or columns["dst"].null_count:
            raise Unsure
    columns |= {property_.name: column(property_, fields[property_.name]) for property_ in entity.properties}
    schema = piece_schema(entity)
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def _envelope(entity: EntityType, forms: Forms) -> pa.Schema:
    data = pa.struct([pa.field(ID, pa.string()), *(pa.field(item.name, read_type(item, forms)) for item in entity.properties)])
    names = ("edge", "from", "to") if isinstance(entity, EdgeType) else ("type",)
    return pa.schema([*(pa.field(name, pa.string()) for name in names), pa.field("data", data)])


def _parse(text: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """One object after another. A name that the schema lacks, a name that comes twice and a value of another kind all fail."""
    read = pj.ReadOptions(use_threads=False, block_size=max(text.size, 1))
    parse = pj.ParseOptions(explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="error")
    try:
        return pj.read_json(pa.BufferReader(text), read_options=read, parse_options=parse)
    except pa.ArrowException as error:
        raise Unsure from error


def _text(lines: pa.Array) -> pa.Buffer:
    """The bytes of consecutive lines, not copied."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)
    start, stop = int(ends[lines.offset]), int(ends[lines.offset + len(lines)])
    return data.slice(start, stop - start)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
