"""A block of lines -> the lines of each type, grouped by how they start, without parsing them.

A line with a usual start is trimmed: a node to its data, an edge to the text after its type name. The remaining text is not changed,
so that an invalid line stays invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.exec.load.blocks import LINE_LIMIT_BYTES, LineBlock, too_long
from omnigraph.exec.load.json_columns import NeedsExactParser
from omnigraph.exec.load.strict import STRUCTURE_LIMIT, structural
from omnigraph.store.arrays import Places

Bytes: TypeAlias = npt.NDArray[np.uint8]

_PREFIX_BYTES: Final = 256  # of a line; the type is usually named in them
_HEAD: Final = r'^(?P<head>\{\s*(?:"type"\s*:\s*"(?P<node>[^"\\]*)"(?:\s*,\s*"data"\s*:\s*\{)?|"edge"\s*:\s*"(?P<edge>[^"\\]*)"(?:\s*,)?))'
_ANYWHERE: Final = r'(?P<head>"type"\s*:\s*"(?P<node>[^"\\]*)"|"edge"\s*:\s*"(?P<edge>[^"\\]*)")'
_MOST_HEADS: Final = 32  # beyond this, trying each head is slower than the regular expression
_MOST_SPELLINGS: Final = 1024  # per block: each costs a pass over its lines. Lines beyond this go to the exact parser
_SAMPLE: Final = 64  # lines from which new heads are learnt: the regular expression is too slow for all lines
_UNKNOWN: Final = -1
_OPEN, _CLOSE, _RETURN, _SPACE = b"{}\r "


class LineShape(StrEnum):
    """The part of a line that is passed to the parser."""

    WHOLE = "whole"
    REST = "rest"
    """An edge without its type name: `{"from": .., "to": .., "data": ..}`."""
    DATA = "data"
    """The data of a node."""


class LineHead(NamedTuple):
    """The start of lines of a type. The parser gets the text from the last character of the head on.

    Known heads are ordered by length, longest first, because a head without data is a prefix of one with data.
    """

    entity: EntityType
    shape: LineShape
    size_bytes: int


class Group(NamedTuple):
    """Lines that appear to be of one type, and their contiguous texts. Parsing confirms the type."""

    entity: EntityType
    shape: LineShape
    places: Places
    texts: pa.Array


class SortedLines(msgspec.Struct, frozen=True):
    """The groups of a block, and the lines without a group. Lines that are too long are in neither."""

    groups: list[Group]
    odd: Places


class Sorter:
    """Groups lines by type. It learns heads from the lines it sees, which affects only speed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._heads: Mapping[str, LineHead] = {}

    def sort(self, block: LineBlock) -> SortedLines:
        """Group the lines of a block. Raises `NeedsExactParser` if the block is not UTF-8."""
        lines = _lines(block)
        last = _last(np.frombuffer(block.text, np.uint8), block.ends)
        usual, odd = _usual(block, last)
        found, left = _by_heads(lines, usual, self._heads)
        if len(left) > _SAMPLE:
            known = self._heads
            self._learn(self._by_pattern(block, left[:: len(left) // _SAMPLE])[0])
            more, left = _by_heads(lines, left, {text: head for text, head in self._heads.items() if text not in known})
            found += more
        if len(left):
            new, left = self._by_pattern(block, left)
            self._learn(new)
            found += [(head, places) for _, head, places in new]
        if len(left):
            new, left = self._match(_spans(block.text, block.starts[left], block.ends[left]), _ANYWHERE, left)
            # The match may be inside a property's value. Parsing the whole line decides.
            found += [(LineHead(head.entity, LineShape.WHOLE, 0), places) for _, head, places in new]
        return SortedLines(_groups(block, last, found), np.concatenate((odd, left)))

    def _by_pattern(self, block: LineBlock, places: Places) -> tuple[list[tuple[str, LineHead, Places]], Places]:
        starts = block.starts[places]
        return self._match(_spans(block.text, starts, np.minimum(starts + _PREFIX_BYTES, block.ends[places])), _HEAD, places)

    def _match(self, texts: pa.Array, pattern: str, places: Places) -> tuple[list[tuple[str, LineHead, Places]], Places]:
        """Lines by the head that the pattern finds, and the lines without a type of the catalog."""
        parts = pc.extract_regex(texts, pattern)
        said = pc.if_else(parts.is_valid(), parts.field("head"), None).dictionary_encode()
        codes = np.asarray(pc.fill_null(said.indices, _UNKNOWN))
        distinct, firsts = np.unique(codes, return_index=True)
        nodes, edges = (parts.field(name).take(pa.array(firsts)).to_pylist() for name in ("node", "edge"))
        found: list[tuple[str, LineHead, Places]] = []
        sorted_ = np.zeros(len(places), bool)
        for code, node, edge in zip(distinct.tolist(), nodes, edges, strict=True):
            entity = None if code == _UNKNOWN else self._named(node, edge)
            if entity is not None and len(found) < _MOST_SPELLINGS:
                members = codes == code
                sorted_ |= members
                text = said.dictionary[code].as_py()
                found.append((text, _head(entity, text), places[members]))
        return found, places[~sorted_]

    def _named(self, node: str, edge: str) -> EntityType | None:
        return self._catalog.node(node) if node else self._catalog.edge(edge)

    def _learn(self, found: list[tuple[str, LineHead, Places]]) -> None:
        heads = {**self._heads, **{text: head for text, head, _ in found}}
        # Replaced as a whole, because other threads read it.
        self._heads = dict(sorted(heads.items(), key=lambda item: -len(item[0])))


def _by_heads(lines: pa.Array, places: Places, heads: Mapping[str, LineHead]) -> tuple[list[tuple[LineHead, Places]], Places]:
    """Lines by known head, and the lines without a known head."""
    found: list[tuple[LineHead, Places]] = []
    if not len(places) or len(heads) > _MOST_HEADS:
        return found, places
    first = lines[int(places[0])].as_py()
    # Lines of one type are usually contiguous, so the head of the first line is tried first.
    for text in sorted(heads, key=lambda text: not first.startswith(text)):
        matched = np.asarray(pc.starts_with(lines, text))
        if len(places) < len(lines):
            matched = matched[places]
        if matched.all():
            return [*found, (heads[text], places)], places[:0]
        if matched.any():
            found.append((heads[text], places[matched]))
            places = places[~matched]
    return found, places


def _head(entity: EntityType, text: str) -> LineHead:
    if isinstance(entity, EdgeType):
        shape = LineShape.REST if text.endswith(",") else LineShape.WHOLE
    else:
        shape = LineShape.DATA if text.endswith("{") else LineShape.WHOLE
    return LineHead(entity, shape, len(text.encode()))


def _lines(block: LineBlock) -> pa.Array:
    """The lines as strings that share the bytes of the block."""
    offsets = np.zeros(len(block.ends) + 1, np.int32)
    offsets[1:] = block.ends
    try:
        return pa.Array.from_buffers(pa.binary(), len(block.ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]).cast(
            pa.string()
        )
    except pa.ArrowInvalid as error:
        raise NeedsExactParser from error


def _spans(text: bytes | Bytes, begins: Places, ends: Places) -> pa.Array:
    """Disjoint, ordered ranges of a text as contiguous strings.

    A range may be cut inside a character, so the strings are not validated. They are only compared and parsed here, never returned.
    """
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2], offsets[1::2] = begins, ends
    with_gaps = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return with_gaps.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def _usual(block: LineBlock, last: Places) -> tuple[Places, Places]:
    """The lines that start with `{` and end with `}`, and the others.

    Such a line ends where its object ends, or pyarrow fails: after a `}` that closes only an inner object, no `{` can follow.
    So if pyarrow finds as many objects as there are lines, each line is one object.
    """
    text = np.frombuffer(block.text, np.uint8)
    whole = (text[block.starts] == _OPEN) & (text[last] == _CLOSE)
    sizes = block.ends - block.starts
    for place in np.flatnonzero(sizes > STRUCTURE_LIMIT).tolist() if sizes.max() > STRUCTURE_LIMIT else ():
        whole[place] &= sizes[place] <= LINE_LIMIT_BYTES and structural(block.line(place)) <= STRUCTURE_LIMIT
    if whole.all():
        return np.arange(len(whole)), np.zeros(0, np.int64)
    return np.flatnonzero(whole), np.flatnonzero(~whole & ~too_long(block))


def _last(text: Bytes, ends: Places) -> Places:
    """The position of the last character of each line, before the newline and an optional carriage return."""
    last = np.maximum(ends - 2, 0)
    returned = text[last] == _RETURN
    return np.maximum(last - returned, 0) if returned.any() else last


def _groups(block: LineBlock, last: Places, found: list[tuple[LineHead, Places]]) -> list[Group]:
    """Trim the lines to the text for the parser. Characters at the cuts are changed in a copy of the block."""
    text = np.array(np.frombuffer(block.text, np.uint8))
    groups: list[Group] = []
    for head, places in found:
        kept = places
        if head.shape is LineShape.DATA:
            # The data ends one brace before the line does. A line that ends otherwise is not trimmed.
            closed = text[last[places] - 1] == _CLOSE
            kept, others = places[closed], places[~closed]
            text[last[kept]] = _SPACE
            groups += _group(LineHead(head.entity, LineShape.WHOLE, 0), others, text, block)
        elif head.shape is LineShape.REST:
            text[block.starts[places] + head.size_bytes - 1] = _OPEN
        groups += _group(head, kept, text, block)
    return groups


def _group(head: LineHead, places: Places, text: Bytes, block: LineBlock) -> list[Group]:
    if not len(places):
        return []
    skipped = 0 if head.shape is LineShape.WHOLE else head.size_bytes - 1
    return [Group(head.entity, head.shape, places, _spans(text, block.starts[places] + skipped, block.ends[places]))]
