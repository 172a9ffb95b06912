"""A block of lines -> the lines of each type, told apart by how they begin and without parsing them.

A line that begins as most do is cut down to what its type does not say already: a node to its data, an edge to what comes
after its name. The text of the rest is left alone, so that one that is not right stays wrong.
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
from omnigraph.exec.load.blocks import LINE_LIMIT_BYTES, Block, too_long
from omnigraph.exec.load.columns import Unsure
from omnigraph.exec.load.strict import STRUCTURE_LIMIT, structural

Places: TypeAlias = npt.NDArray[np.int64]
"""Numbers of lines in their block, from 0, ascending."""

Bytes: TypeAlias = npt.NDArray[np.uint8]

_PREFIX_BYTES: Final = 256  # of a line, in which its type is usually said
_HEAD: Final = r'^(?P<head>\{\s*(?:"type"\s*:\s*"(?P<node>[^"\\]*)"(?:\s*,\s*"data"\s*:\s*\{)?|"edge"\s*:\s*"(?P<edge>[^"\\]*)"(?:\s*,)?))'
_ANYWHERE: Final = r'(?P<head>"type"\s*:\s*"(?P<node>[^"\\]*)"|"edge"\s*:\s*"(?P<edge>[^"\\]*)")'
_MOST_HEADS: Final = 32  # beyond which trying one after the other is slower than the regular expression
_MOST_SPELLINGS: Final = 1024  # in one block: each costs a pass over its lines. Whoever writes more waits for the exact parser
_SAMPLE: Final = 64  # lines that stand for the others when new heads are learnt: the regular expression is slow for all of them
_UNKNOWN: Final = -1
_OPEN, _CLOSE, _RETURN, _SPACE = b"{}\r "


class Shape(StrEnum):
    """What of its line a group hands to the parser."""

    WHOLE = "whole"
    REST = "rest"
    """An edge without its name: `{"from": .., "to": .., "data": ..}`."""
    DATA = "data"
    """The data of a node."""


class Head(NamedTuple):
    """How lines of a type begin. The parser gets what follows, from the last character of the head on.

    The longest head comes first in what is known: a head without data is the beginning of one with it.
    """

    entity: EntityType
    shape: Shape
    size_bytes: int


class Group(NamedTuple):
    """Lines of one type, as far as one can tell without parsing, and their texts one after the other."""

    entity: EntityType
    shape: Shape
    places: Places
    texts: pa.Array


class Sorted(msgspec.Struct, frozen=True):
    """The groups of a block, and the lines nobody could place. Those that are too long are in neither."""

    groups: list[Group]
    odd: Places


class Sorter:
    """Knows the heads seen so far. Nothing but speed depends on them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._heads: Mapping[str, Head] = {}

    def sort(self, block: Block) -> Sorted:
        """Raises `Unsure` if the block is not UTF-8."""
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
            new, left = self._told(_spans(block.text, block.starts[left], block.ends[left]), _ANYWHERE, left)
            # It may be a property's value that looks like a type. Reading the lines will tell.
            found += [(Head(head.entity, Shape.WHOLE, 0), places) for _, head, places in new]
        return Sorted(_groups(block, last, found), np.concatenate((odd, left)))

    def _by_pattern(self, block: Block, places: Places) -> tuple[list[tuple[str, Head, Places]], Places]:
        starts = block.starts[places]
        return self._told(_spans(block.text, starts, np.minimum(starts + _PREFIX_BYTES, block.ends[places])), _HEAD, places)

    def _told(self, texts: pa.Array, pattern: str, places: Places) -> tuple[list[tuple[str, Head, Places]], Places]:
        """Lines by what the pattern finds in them, and the lines in which it finds no type of the catalog."""
        parts = pc.extract_regex(texts, pattern)
        said = pc.if_else(parts.is_valid(), parts.field("head"), None).dictionary_encode()
        codes = np.asarray(pc.fill_null(said.indices, _UNKNOWN))
        distinct, firsts = np.unique(codes, return_index=True)
        nodes, edges = (parts.field(name).take(pa.array(firsts)).to_pylist() for name in ("node", "edge"))
        found: list[tuple[str, Head, Places]] = []
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

    def _learn(self, found: list[tuple[str, Head, Places]]) -> None:
        heads = {**self._heads, **{text: head for text, head, _ in found}}
        # Replaced whole, since other threads read it.
        self._heads = dict(sorted(heads.items(), key=lambda item: -len(item[0])))


def _by_heads(lines: pa.Array, places: Places, heads: Mapping[str, Head]) -> tuple[list[tuple[Head, Places]], Places]:
    """Lines by how they begin, and those that begin in no way that is known."""
    found: list[tuple[Head, Places]] = []
    if not len(places) or len(heads) > _MOST_HEADS:
        return found, places
    first = lines[int(places[0])].as_py()
    # Lines of one kind mostly stand together, so the head of the first line is likely to be that of all.
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


def _head(entity: EntityType, text: str) -> Head:
    if isinstance(entity, EdgeType):
        shape = Shape.REST if text.endswith(",") else Shape.WHOLE
    else:
        shape = Shape.DATA if text.endswith("{") else Shape.WHOLE
    return Head(entity, shape, len(text.encode()))


def _lines(block: Block) -> pa.Array:
    """The lines as strings over the block's own bytes."""
    offsets = np.zeros(len(block.ends) + 1, np.int32)
    offsets[1:] = block.ends
    try:
        return pa.Array.from_buffers(pa.binary(), len(block.ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.text)]).cast(
            pa.string()
        )
    except pa.ArrowInvalid as error:
        raise Unsure from error


def _spans(text: bytes | Bytes, begins: Places, ends: Places) -> pa.Array:
    """Stretches of a text, in order and apart from each other, as strings one after the other.

    A stretch may be cut inside a character, so nothing checks them: they are compared and parsed, never handed out.
    """
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2], offsets[1::2] = begins, ends
    with_gaps = pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return with_gaps.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32)))


def _usual(block: Block, last: Places) -> tuple[Places, Places]:
    """The lines that go from `{` to `}`, and the others.

    Such lines end where their object ends, or pyarrow fails: after a `}` that closes less than the line, a `{` cannot follow.
    So when it finds as many objects as there are lines, each line is one object.
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
    """Where the last character of each line is, its end aside: before the newline, and before a return if there is one."""
    last = np.maximum(ends - 2, 0)
    returned = text[last] == _RETURN
    return np.maximum(last - returned, 0) if returned.any() else last


def _groups(block: Block, last: Places, found: list[tuple[Head, Places]]) -> list[Group]:
    """Cut the lines down to what the parser shall see. The characters that join the cut are changed in a copy of the block."""
    text = np.array(np.frombuffer(block.text, np.uint8))
    groups: list[Group] = []
    for head, places in found:
        kept = places
        if head.shape is Shape.DATA:
            # The data ends one brace before its line does; a line that ends otherwise is left whole.
            closed = text[last[places] - 1] == _CLOSE
            kept, others = places[closed], places[~closed]
            text[last[kept]] = _SPACE
            groups += _group(Head(head.entity, Shape.WHOLE, 0), others, text, block)
        elif head.shape is Shape.REST:
            text[block.starts[places] + head.size_bytes - 1] = _OPEN
        groups += _group(head, kept, text, block)
    return groups


def _group(head: Head, places: Places, text: Bytes, block: Block) -> list[Group]:
    if not len(places):
        return []
    skipped = 0 if head.shape is Shape.WHOLE else head.size_bytes - 1
    return [Group(head.entity, head.shape, places, _spans(text, block.starts[places] + skipped, block.ends[places]))]
