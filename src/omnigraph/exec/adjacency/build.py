"""Ends of edges as node numbers -> one direction of an adjacency: sorted anew, or merged into one that is sorted already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from omnigraph.exec.adjacency.kernels import Csr, Ints, Marks, Narrow, Neighbours, linked, slots_of

_WIDE: Final = 1 << 31
_ROOM: Final = 63


class Arcs(msgspec.Struct, frozen=True):
    """Edges as three columns of numbers: the node one stands at, the node one reaches, the edge."""

    near: Ints
    far: Ints
    edges: Ints

    def __len__(self) -> int:
        return len(self.edges)

    def where(self, which: Marks | Ints) -> Arcs:
        return Arcs(self.near[which], self.far[which], self.edges[which])

    def turned(self) -> Arcs:
        return Arcs(self.far, self.near, self.edges)


class Shape(msgspec.Struct, frozen=True):
    """How many numbers the nodes have at either end; `square` when both are of one type."""

    rows: int
    columns: int
    square: bool

    def turned(self) -> Shape:
        return Shape(self.columns, self.rows, self.square)


def csr(arcs: Arcs, shape: Shape) -> Csr:
    """Edges in any order."""
    return _csr(ascending(arcs, shape), shape)


def ascending(arcs: Arcs, shape: Shape, *, room: int = _ROOM) -> Arcs:
    """The edges sorted by both ends. `room`: how many bits of an integer a sort may use."""
    near_at, far_at = shape.columns.bit_length() + len(arcs).bit_length(), len(arcs).bit_length()
    if shape.rows.bit_length() + near_at > room:
        order = _grouped(arcs.far, shape.columns, room)
        return arcs.where(order[_grouped(arcs.near[order], shape.rows, room)])
    # Both ends and the position as one integer are sorted once. The ends are then read from it, and need no gather.
    packed = np.sort((arcs.near << near_at) | (arcs.far << far_at) | np.arange(len(arcs)))
    far = (packed >> far_at) & ((1 << (near_at - far_at)) - 1)
    return Arcs(packed >> near_at, far, arcs.edges[packed & ((1 << far_at) - 1)])


def merged(held: Arcs, more: Arcs, shape: Shape) -> Csr:
    """Many edges that are sorted by both ends, and a few more in any order."""
    if not len(more):
        return _csr(held, shape)
    if shape.rows.bit_length() + shape.columns.bit_length() > _ROOM:
        return csr(joined([held, more]), shape)
    keys, others = held.near * shape.columns + held.far, more.near * shape.columns + more.far
    order = np.argsort(others, kind="stable")
    at = np.searchsorted(keys, others[order], side="right")
    near = np.insert(held.near, at, more.near[order])
    far = np.insert(held.far, at, more.far[order])
    return _csr(Arcs(near, far, np.insert(held.edges, at, more.edges[order])), shape)


def grown(of: Csr, more: Arcs, shape: Shape) -> Csr:
    """An adjacency all of whose numbers stand, with a few more edges, and perhaps more nodes."""
    if shape.columns >= _WIDE:
        return merged(arcs(of), more, shape)
    more = more.where(np.lexsort((more.far, more.near)))
    stored, near = _stretched(of.stored, shape.rows), _stretched(of.near, shape.rows)
    at = slots_of(stored, more.near, more.far)
    added = _inserted(stored, more, at)
    wide = len(more) and int(more.edges.max()) >= _WIDE
    edges: Narrow = _with(of.edges.astype(np.int64) if wide else of.edges, at, more.edges)
    new = ~linked(near, more.near, more.far)
    new[1:] &= (more.near[1:] != more.near[:-1]) | (more.far[1:] != more.far[:-1])
    if of.near is of.stored and new.all():
        return Csr(added, edges, added, shape.square)
    fresh = more.where(new)
    return Csr(added, edges, _inserted(near, fresh, slots_of(near, fresh.near, fresh.far)), shape.square)


def _stretched(of: Neighbours, rows: int) -> Neighbours:
    """The same neighbours among more nodes."""
    longer = np.full(rows + 1 - len(of.offsets), of.offsets[-1], np.int64)
    return Neighbours(np.concatenate([of.offsets, longer]), of.targets) if len(longer) else of


def _inserted(of: Neighbours, more: Arcs, at: Ints) -> Neighbours:
    return Neighbours(of.offsets + _offsets(more.near, len(of.offsets) - 1), _with(of.targets, at, more.far))


def _with(numbers: Narrow, at: Ints, more: Ints) -> Narrow:
    found: Narrow = np.insert(numbers, at, more.astype(numbers.dtype))  # type: ignore[assignment]  # of the type it was given
    return found


def joined(parts: Sequence[Arcs]) -> Arcs:
    columns = zip(*((part.near, part.far, part.edges) for part in parts), strict=True)
    return Arcs(*map(np.concatenate, columns)) if len(parts) > 1 else parts[0]


def arcs(of: Csr) -> Arcs:
    """The edges of an adjacency, sorted by both ends."""
    near = np.repeat(np.arange(of.size), np.diff(of.stored.offsets))
    return Arcs(near, of.stored.targets.astype(np.int64), of.edges.astype(np.int64))


def narrowed(numbers: Narrow) -> Narrow:
    """Half the bytes where the numbers allow it."""
    fits = not len(numbers) or int(numbers.max()) < _WIDE
    return numbers.astype(np.int32) if fits else numbers


def _csr(held: Arcs, shape: Shape) -> Csr:
    near, far = held.near, held.far
    stored = Neighbours(_offsets(near, shape.rows), narrowed(far))
    first = np.ones(len(near), np.bool_)
    np.logical_or(near[1:] != near[:-1], far[1:] != far[:-1], out=first[1:])
    once = stored if first.all() else Neighbours(_offsets(near[first], shape.rows), narrowed(far[first]))
    return Csr(stored, narrowed(held.edges), once, shape.square)


def _grouped(keys: Ints, size: int, room: int) -> Ints:
    """A stable order by small keys. Sorted with its position as one integer a key takes a fifth of what argsort needs."""
    bits = len(keys).bit_length()
    if size.bit_length() + bits > room:
        return np.argsort(keys, kind="stable")
    packed = np.sort((keys << bits) | np.arange(len(keys)))
    return packed & ((1 << bits) - 1)


def _offsets(near: Ints, rows: int) -> Ints:
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=rows), out=offsets[1:])
    return offsets
