"""Edge ends as node numbers -> one direction of an adjacency: sorted from scratch, or merged into an existing one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from omnigraph.exec.adjacency.kernels import AnyInts, Csr, Ints, Marks, Narrow, Neighbours, linked, slots_of

WIDE: Final = 1 << 31
_ROOM: Final = 63
PART_ROWS: Final = 1 << 15
"""The number of edges that are unpacked together."""


class Arcs(msgspec.Struct, frozen=True):
    """Edges as three columns of numbers: the node an edge leaves, the node it reaches, and the edge itself.

    Their numbers have 64 bits, unless they are only to be sorted.
    """

    near: AnyInts
    far: AnyInts
    edges: AnyInts

    def __len__(self) -> int:
        return len(self.edges)

    def where(self, which: Marks | Ints | slice) -> Arcs:
        return Arcs(self.near[which], self.far[which], self.edges[which])

    def turned(self) -> Arcs:
        return Arcs(self.far, self.near, self.edges)


class Shape(msgspec.Struct, frozen=True):
    """The number of node numbers at each end; `square` if both ends have the same type."""

    rows: int
    columns: int
    square: bool

    def turned(self) -> Shape:
        return Shape(self.columns, self.rows, self.square)


def csr(arcs: Arcs, shape: Shape, *, room: int = _ROOM) -> Csr:
    """Build from edges in any order. `room` is the number of bits of an integer that a sort may use."""
    far_at = len(arcs).bit_length()
    near_at = far_at + shape.columns.bit_length()
    if shape.rows.bit_length() + near_at > room:
        order = _stable_order(arcs.far, shape.columns, room)
        return _csr(arcs.where(order[_stable_order(arcs.near[order], shape.rows, room)]), shape)
    # Both ends and the position are packed into one integer and sorted once. The ends are unpacked from it, which needs no gather.
    packed = np.empty(len(arcs), np.int64)
    for part in _parts(len(packed)):
        near, far = arcs.near[part].astype(np.int64), arcs.far[part].astype(np.int64)
        packed[part] = (near << near_at) | (far << far_at) | np.arange(part.start, part.stop)
    packed.sort()
    return _unpacked(packed, arcs.edges, shape, near_at=near_at, far_at=far_at)


def _unpacked(packed: Ints, edges: AnyInts, shape: Shape, *, near_at: int, far_at: int) -> Csr:
    """Return the adjacency of sorted edges, each one integer: its near end, its far end and its position in `edges`.

    A part is unpacked at a time, so that temporary arrays stay in the processor's cache. Memory that is touched for the first time
    costs more than the work on it.
    """
    far, at = (1 << (near_at - far_at)) - 1, (1 << far_at) - 1
    targets, numbers = room_for(len(packed), shape.columns), room_for(len(packed), int(edges.max(initial=0)) + 1)
    first = np.ones(len(packed), np.bool_)
    offsets = np.zeros(shape.rows + 1, np.int64)
    every = _is_gapless(edges)
    for part in _parts(len(packed)):
        some = packed[part]
        targets[part] = (some >> far_at) & far
        numbers[part] = (some & at) + edges[0] if every else edges[some & at]
        near = some >> near_at
        offsets[near[0] + 1 : near[-1] + 2] += np.bincount(near - near[0])
        pairs = packed[max(part.start - 1, 0) : part.stop] >> far_at
        first[max(part.start, 1) : part.stop] = pairs[1:] != pairs[:-1]
    np.cumsum(offsets, out=offsets)
    stored = Neighbours(offsets, targets)
    if first.all():
        return Csr(stored, numbers, stored, shape.square)
    return Csr(stored, numbers, Neighbours(_counted(first)[offsets], targets[first]), shape.square)


def _is_gapless(numbers: AnyInts) -> bool:
    """Return whether each number is one more than the number before it, as in a scan without deletions. They then need no gather."""
    return all(bool((numbers[part] - numbers[0] == np.arange(part.start, part.stop)).all()) for part in _parts(len(numbers)))


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(start + PART_ROWS, count)) for start in range(0, count, PART_ROWS))


def room_for(count: int, size: int) -> Narrow:
    """Return an array for numbers below `size`, of the narrowest type."""
    return np.empty(count, np.int32) if size <= WIDE else np.empty(count, np.int64)


def _counted(marks: Marks) -> Ints:
    """Return the number of marks before each position, and at the end that of all."""
    counts = np.zeros(len(marks) + 1, np.int64)
    np.cumsum(marks, out=counts[1:])
    return counts


def merge(held: Arcs, more: Arcs, shape: Shape) -> Csr:
    """Merge a few edges in any order into many edges that are sorted by both ends."""
    if not len(more):
        return _csr(held, shape)
    if shape.rows.bit_length() + shape.columns.bit_length() > _ROOM:
        return csr(concat([held, more]), shape)
    keys, others = held.near * shape.columns + held.far, more.near * shape.columns + more.far
    order = np.argsort(others, kind="stable")
    at = np.searchsorted(keys, others[order], side="right")
    near = np.insert(held.near, at, more.near[order])
    far = np.insert(held.far, at, more.far[order])
    return _csr(Arcs(near, far, np.insert(held.edges, at, more.edges[order])), shape)


def grow(of: Csr, more: Arcs, shape: Shape) -> Csr:
    """Add a few edges, and possibly nodes, to an adjacency whose numbers are unchanged."""
    if shape.columns >= WIDE:
        return merge(arcs(of), more, shape)
    more = more.where(np.lexsort((more.far, more.near)))
    stored, near = _extend_nodes(of.stored, shape.rows), _extend_nodes(of.near, shape.rows)
    at = slots_of(stored, more.near, more.far)
    added = _insert(stored, more, at)
    wide = len(more) and int(more.edges.max()) >= WIDE
    edges: Narrow = _insert_numbers(of.edges.astype(np.int64) if wide else of.edges, at, more.edges)
    new = ~linked(near, more.near, more.far)
    new[1:] &= (more.near[1:] != more.near[:-1]) | (more.far[1:] != more.far[:-1])
    if of.near is of.stored and new.all():
        return Csr(added, edges, added, shape.square)
    fresh = more.where(new)
    return Csr(added, edges, _insert(near, fresh, slots_of(near, fresh.near, fresh.far)), shape.square)


def _extend_nodes(of: Neighbours, rows: int) -> Neighbours:
    """Return the same neighbours for a larger number of nodes."""
    longer = np.full(rows + 1 - len(of.offsets), of.offsets[-1], np.int64)
    return Neighbours(np.concatenate([of.offsets, longer]), of.targets) if len(longer) else of


def _insert(of: Neighbours, more: Arcs, at: Ints) -> Neighbours:
    return Neighbours(of.offsets + _offsets(more.near, len(of.offsets) - 1), _insert_numbers(of.targets, at, more.far))


def _insert_numbers(numbers: Narrow, at: Ints, more: Ints) -> Narrow:
    found: Narrow = np.insert(numbers, at, more.astype(numbers.dtype))  # type: ignore[assignment]  # np.insert keeps the dtype
    return found


def concat(parts: Sequence[Arcs]) -> Arcs:
    columns = zip(*((part.near, part.far, part.edges) for part in parts), strict=True)
    return Arcs(*map(np.concatenate, columns)) if len(parts) > 1 else parts[0]


def arcs(of: Csr) -> Arcs:
    """Return the edges of an adjacency, sorted by both ends."""
    near = np.repeat(np.arange(of.size), np.diff(of.stored.offsets))
    return Arcs(near, of.stored.targets.astype(np.int64), of.edges.astype(np.int64))


def narrow(numbers: Narrow) -> Narrow:
    """Return the numbers as 32-bit integers if they fit, which halves their size."""
    fits = not len(numbers) or int(numbers.max()) < WIDE
    return numbers.astype(np.int32) if fits else numbers


def _csr(held: Arcs, shape: Shape) -> Csr:
    near, far = held.near, held.far
    stored = Neighbours(_offsets(near, shape.rows), narrow(far))
    first = np.ones(len(near), np.bool_)
    np.logical_or(near[1:] != near[:-1], far[1:] != far[:-1], out=first[1:])
    once = stored if first.all() else Neighbours(_offsets(near[first], shape.rows), narrow(far[first]))
    return Csr(stored, narrow(held.edges), once, shape.square)


def _stable_order(keys: Ints, size: int, room: int) -> Ints:
    """Return a stable order by small keys. Sorting key and position packed into one integer takes a fifth of the time of argsort."""
    bits = len(keys).bit_length()
    if size.bit_length() + bits > room:
        return np.argsort(keys, kind="stable")
    packed = np.sort((keys << bits) | np.arange(len(keys)))
    return packed & ((1 << bits) - 1)


def _offsets(near: Ints, rows: int) -> Ints:
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=rows), out=offsets[1:])
    return offsets
