"""Adjacency and starting nodes, all as integers -> the nodes a search reaches. Arrays in, arrays out; loops over hops only.

Pairs (which start, which node) are packed into one integer: the start's position above the node's number. Few of them are
kept apart by sorting; many by a table of marks with one cell for each possible pair, a block of starts at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Narrow: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]

_NOTHING: Final = np.empty(0, np.int64)


class Budget(msgspec.Struct, frozen=True):
    """How much memory a search may use for itself, and when marks pay. Answers do not depend on it."""

    cells: int = 1 << 24
    """Marks for a block of starts: 16 MiB, and as much for the hop under way."""
    step: int = 1 << 17
    """How many neighbours are gathered at once: the temporaries stay in the processor's cache."""
    cells_per_sorted: int = 32
    """Keeping one more pair apart by sorting costs as much as clearing and reading this many marks."""


BUDGET: Final = Budget()


class Neighbours(msgspec.Struct, frozen=True):
    """The neighbours of node `n` are `targets[offsets[n]:offsets[n + 1]]`, ascending."""

    offsets: Ints
    targets: Narrow


class Csr(msgspec.Struct, frozen=True):
    """One direction of one edge type: stored edges by the node they leave, sorted by the node they reach.

    `edges` are the edges' numbers beside `stored.targets`; `near` is each neighbour once, the same arrays when no two edges
    are parallel. `square`: both ends are nodes of one type, so that a second hop can follow a first.
    """

    stored: Neighbours
    edges: Narrow
    near: Neighbours
    square: bool

    @property
    def size(self) -> int:
        """How many numbers the nodes have from which edges leave here."""
        return len(self.stored.offsets) - 1


def hop(csr: Csr, sources: Ints) -> tuple[Ints, Ints, Ints]:
    """(position in `sources`, node reached, edge): every stored edge of each source, in order of position."""
    origin, at = _slots(csr.stored.offsets, sources)
    return origin, csr.stored.targets[at].astype(np.int64, copy=False), csr.edges[at].astype(np.int64, copy=False)


def reach(
    csrs: tuple[Csr, ...], sources: Ints, *, low: int, high: int, reverse: bool = False, budget: Budget = BUDGET
) -> tuple[Ints, Ints]:
    """(position in `sources`, node): each node that a breadth-first search of `low` to `high` hops emits, once; by position.

    Neighbours are those of all the `csrs` together. A node is emitted when its distance lies within the bounds, or when it
    has an edge to itself and the search stands on it before a hop within bounds. With `reverse` the search is the other
    one: the nodes found are those that emit the source, and the `csrs` are the transposed ones.
    """
    high = _last_hop(csrs, high)
    if low > high or not len(sources):
        return _NOTHING, _NOTHING
    starts, copies = _distinct(sources)
    if high == 1:
        origin, reached = _one_hop(csrs, starts)
    else:
        origin, reached = _walk(_Search(csrs, low, high, reverse, budget), starts)
    if copies is None:
        return origin, reached
    position, at = _slots(_offsets(origin, len(starts)), copies)
    return position, reached[at]


def connected(csrs: tuple[Csr, ...], lefts: Ints, rights: Ints, *, low: int, high: int) -> Marks:
    """For each pair whether a search of `low` to `high` hops from the left node emits the right one."""
    high = _last_hop(csrs, high)
    if low <= high == 1:
        found = np.zeros(len(lefts), np.bool_)
        for csr in csrs:
            found |= _linked(csr.near, lefts, rights)
        return found
    starts, copies = _distinct(lefts)
    origin, reached = reach(csrs, starts, low=low, high=high)
    bits = _bits(csrs)
    wanted = ((np.arange(len(starts)) if copies is None else copies) << bits) | rights
    return _contains((origin << bits) | reached, wanted)


def _last_hop(csrs: tuple[Csr, ...], high: int) -> int:
    return high if all(csr.square for csr in csrs) else 1


# -- one hop


def _one_hop(csrs: tuple[Csr, ...], starts: Ints) -> tuple[Ints, Ints]:
    if len(csrs) == 1:
        near = csrs[0].near
        origin, at = _slots(near.offsets, starts)
        return origin, near.targets[at].astype(np.int64, copy=False)
    bits = _bits(csrs)
    keys = np.concatenate([_keys(csr.near, np.arange(len(starts)) << bits, starts) for csr in csrs])
    return _unpacked(_sorted_once(keys), bits)


def _linked(near: Neighbours, lefts: Ints, rights: Ints) -> Marks:
    """Whether each right node is among its left node's neighbours: all pairs halve their ranges together."""
    low, high = near.offsets[lefts], near.offsets[lefts + 1]
    end = high
    if not len(near.targets):
        return np.zeros(len(lefts), np.bool_)
    last = len(near.targets) - 1
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        below = (low < high) & (near.targets[np.minimum(middle, last)] < rights)
        low, high = np.where(below, middle + 1, low), np.where(below, high, np.minimum(middle, high))
    hit: Marks = (low < end) & (near.targets[np.minimum(low, last)] == rights)
    return hit


# -- many hops


class _Search(msgspec.Struct, frozen=True):
    """What stays the same through all hops and blocks of one call."""

    csrs: tuple[Csr, ...]
    low: int
    high: int
    reverse: bool
    budget: Budget

    @property
    def bits(self) -> int:
        return _bits(self.csrs)

    def on_themselves(self, starts: Ints, frontier: Ints) -> Ints:
        """The pairs of the frontier entering the first hop within bounds that an edge from a node to itself emits.

        Later ones are emitted by their distance. The edge is where the search ends: at the node found, or, walked in
        reverse, at the start. It stands in both directions, so one of them tells.
        """
        nodes = starts[frontier >> self.bits] if self.reverse else frontier & _mask(self.bits)
        return frontier[_linked(self.csrs[0].near, nodes, nodes)]


def _walk(search: _Search, starts: Ints) -> tuple[Ints, Ints]:
    """Sorted sets while few pairs are on the way, else blocks of starts with marks."""
    bits = search.bits
    frontier = (np.arange(len(starts)) << bits) | starts
    seen, emitted = np.sort(frontier), [_NOTHING]
    for number in range(1, search.high + 1):
        if number == search.low:
            emitted.append(search.on_themselves(starts, frontier))
        above, nodes = frontier & ~_mask(bits), frontier & _mask(bits)
        if _degrees(search.csrs, nodes) * search.budget.cells_per_sorted > len(starts) << bits:
            return _marked(search, starts)
        keys = _sorted_once(np.concatenate([_keys(csr.near, above, nodes) for csr in search.csrs]))
        frontier = keys[~_contains(seen, keys)]
        if not len(frontier):
            break
        if number >= search.low:
            emitted.append(frontier)
        seen = np.sort(np.concatenate([seen, frontier]))
    return _unpacked(np.sort(np.concatenate(emitted)), bits)


def _marked(search: _Search, starts: Ints) -> tuple[Ints, Ints]:
    bits = search.bits
    rows = max(1, search.budget.cells >> bits)
    origins, nodes = [], []
    for first in range(0, len(starts), rows):
        found = np.flatnonzero(_marks(search, starts[first : first + rows]))
        origins.append((found >> bits) + first)
        nodes.append(found & _mask(bits))
    return np.concatenate(origins), np.concatenate(nodes)


def _marks(search: _Search, starts: Ints) -> Marks:
    """One mark for each pair (start, node) that the search emits."""
    bits = search.bits
    frontier = (np.arange(len(starts)) << bits) | starts
    seen = np.zeros(len(starts) << bits, np.bool_)
    seen[frontier] = True
    fresh, early, themselves = np.zeros_like(seen), seen, _NOTHING
    for number in range(1, search.high + 1):
        if number == search.low:
            early, themselves = seen.copy(), search.on_themselves(starts, frontier)
        above, nodes = frontier & ~_mask(bits), frontier & _mask(bits)
        for csr in search.csrs:
            for part in _steps(csr.near.offsets, nodes, search.budget.step):
                fresh[_keys(csr.near, above[part], nodes[part])] = True
        np.greater(fresh, seen, out=fresh)
        np.logical_or(seen, fresh, out=seen)
        if number == search.high:
            break
        frontier = np.flatnonzero(fresh)
        if not len(frontier):
            break
        fresh[:] = False
    np.greater(seen, early, out=seen)
    seen[themselves] = True
    return seen


# -- pairs as one integer


def _bits(csrs: tuple[Csr, ...]) -> int:
    return max(1, (csrs[0].size - 1).bit_length())


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def _unpacked(keys: Ints, bits: int) -> tuple[Ints, Ints]:
    return keys >> bits, keys & _mask(bits)


def _keys(near: Neighbours, above: Ints, nodes: Ints) -> Ints:
    """The neighbours of `nodes`, each below the upper part of the pair it was reached from."""
    first = near.offsets[nodes]
    degrees = near.offsets[nodes + 1] - first
    ends = np.cumsum(degrees)
    at = np.repeat(first - ends + degrees, degrees)
    at += np.arange(len(at))
    keys = np.repeat(above, degrees)
    keys += near.targets[at]
    return keys


def _slots(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """(position in `rows`, slot): the slots of each row, one after the other."""
    if len(rows) == 1:
        at = np.arange(offsets[rows[0]], offsets[rows[0] + 1])
        return np.zeros(len(at), np.int64), at
    first = offsets[rows]
    degrees = offsets[rows + 1] - first
    ends = np.cumsum(degrees)
    at = np.repeat(first - ends + degrees, degrees)
    at += np.arange(len(at))
    return np.repeat(np.arange(len(rows)), degrees), at


def _steps(offsets: Ints, nodes: Ints, step: int) -> Iterator[slice]:
    """Runs of nodes with about `step` neighbours each."""
    ends = np.cumsum(offsets[nodes + 1] - offsets[nodes])
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(step, total, step), side="right")
    bounds = [0, *dict.fromkeys(cuts.tolist()), len(nodes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield slice(start, stop)


def _degrees(csrs: tuple[Csr, ...], nodes: Ints) -> int:
    return sum(int((csr.near.offsets[nodes + 1] - csr.near.offsets[nodes]).sum()) for csr in csrs)


def _offsets(origin: Ints, rows: int) -> Ints:
    counted: Ints = np.searchsorted(origin, np.arange(rows + 1))
    return counted


def _distinct(sources: Ints) -> tuple[Ints, Ints | None]:
    """Each source once, and for each position which of them; None when they are all different and stand as they are."""
    if len(sources) < 2:
        return sources, None
    order = np.argsort(sources, kind="stable")
    ascending = sources[order]
    first = np.empty(len(sources), np.bool_)
    first[0] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    if first.all():
        return sources, None
    copies = np.empty(len(sources), np.int64)
    copies[order] = np.cumsum(first) - 1
    return ascending[first], copies


def _sorted_once(keys: Ints) -> Ints:
    keys = np.sort(keys)
    if len(keys) < 2:
        return keys
    first = np.empty(len(keys), np.bool_)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]


def _contains(ascending: Ints, keys: Ints) -> Marks:
    """Which of the keys stand in the ascending ones."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(ascending, keys)
    hit: Marks = ascending[np.minimum(at, len(ascending) - 1)] == keys
    return hit
