"""Adjacencies and start nodes, all as integers -> the nodes that a search reaches. Arrays in, arrays out; only hops are looped over.

A pair (position of the start, node) is packed into one integer, a key: the position in the high bits, the node number in the low
bits. A hop processes a few starts at a time. New keys are deduplicated by sorting, or, if there are many, by a mark per possible key.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Narrow: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
AnyInts: TypeAlias = npt.NDArray[Any]
"""Integers of either width."""
Marks: TypeAlias = npt.NDArray[np.bool_]

_NOTHING: Final = np.empty(0, np.int64)
_WIDE: Final = 1 << 31


class Budget(msgspec.Struct, frozen=True):
    """Tuning of a search. The result does not depend on it."""

    step: int = 1 << 16
    """The number of neighbours gathered at once. Temporary arrays then fit into the processor's cache."""
    cells_per_pair: int = 8
    """The cost of sorting one pair, in marks cleared and read."""


BUDGET: Final = Budget()


class Neighbours(msgspec.Struct, frozen=True):
    """The neighbours of node `n` are `targets[offsets[n]:offsets[n + 1]]`, ascending."""

    offsets: Ints
    targets: Narrow


class Csr(msgspec.Struct, frozen=True):
    """One direction of one edge type: edges grouped by the node they leave, sorted by the node they reach.

    `edges` are the edge numbers, parallel to `stored.targets`. `near` lists each neighbour once; it is `stored` itself if no two edges
    are parallel. `square`: both ends have the same node type, so that a second hop can follow the first.
    """

    stored: Neighbours
    edges: Narrow
    near: Neighbours
    square: bool

    @property
    def size(self) -> int:
        """The number of node numbers at the end where the edges start."""
        return len(self.stored.offsets) - 1


def hop(csr: Csr, sources: Ints) -> tuple[Ints, Ints, Ints]:
    """Return (position in `sources`, node reached, edge) for every stored edge of each source, in order of position."""
    origin, at = _slots(csr.stored.offsets, sources)
    return origin, csr.stored.targets[at].astype(np.int64, copy=False), csr.edges[at].astype(np.int64, copy=False)


def step(csr: Csr, sources: Ints) -> tuple[Ints, Ints]:
    """Return (position in `sources`, neighbour) for each neighbour of each source, once, in order of position."""
    origin, at = _slots(csr.near.offsets, sources)
    return origin, csr.near.targets[at].astype(np.int64, copy=False)


def reach(
    csrs: tuple[Csr, ...], sources: Ints, *, low: int, high: int, reverse: bool = False, budget: Budget = BUDGET
) -> tuple[Ints, Ints]:
    """Return (position in `sources`, node) for each node that a breadth-first search of `low` to `high` hops emits, once, by position.

    Neighbours are those of all `csrs` together. A node is emitted if its distance is within the bounds, or if it has an edge to
    itself and the search is at the node before a hop within the bounds. With `reverse` the search runs backwards: it finds the
    nodes that emit the source, and the `csrs` are the transposed ones.
    """
    high = _last_hop(csrs, high)
    if low > high or not len(sources):
        return _NOTHING, _NOTHING
    starts, copies = _distinct(sources)
    if high == 1 and _is_plain(csrs):
        origin, reached = _neighbours(csrs, starts)
    else:
        search = _Search(csrs, low, high, reverse, budget)
        origin, reached = _concat(_walk(search, starts), search.bits)
    if copies is None:
        return origin, reached
    position, at = _slots(_offsets(origin, len(starts)), copies)
    return position, reached[at]


def reach_counts(csrs: tuple[Csr, ...], sources: Ints, *, low: int, high: int, reverse: bool = False, budget: Budget = BUDGET) -> Ints:
    """Return the number of nodes that `reach` would emit for each source."""
    high = _last_hop(csrs, high)
    if low > high or not len(sources):
        return np.zeros(len(sources), np.int64)
    starts, copies = _distinct(sources)
    if high == 1 and len(csrs) == 1:
        counts = csrs[0].near.offsets[starts + 1] - csrs[0].near.offsets[starts]
    elif high == 1 and _is_plain(csrs):
        counts = np.bincount(_neighbours(csrs, starts)[0], minlength=len(starts)).astype(np.int64)
    else:
        search, counts = _Search(csrs, low, high, reverse, budget), np.zeros(len(starts), np.int64)
        for first, keys in _walk(search, starts):
            found = np.bincount(keys >> search.bits)
            counts[first : first + len(found)] += found
    return counts if copies is None else counts[copies]


def _last_hop(csrs: tuple[Csr, ...], high: int) -> int:
    return high if all(csr.square for csr in csrs) else 1


# -- one hop


def _is_plain(csrs: tuple[Csr, ...]) -> bool:
    """Return whether one hop needs no search: there is one list of neighbours, or the ends have different types and so other numbers."""
    return len(csrs) == 1 or not csrs[0].square


def _neighbours(csrs: tuple[Csr, ...], starts: Ints) -> tuple[Ints, Ints]:
    """Return (position in `starts`, neighbour) for each neighbour in any of `csrs`, once, in order of position."""
    first, *others = (step(csr, starts) for csr in csrs)
    if not others:
        return first
    origin, node = (np.concatenate(parts) for parts in zip(first, *others, strict=True))
    bits = int(node.max(initial=0)).bit_length()
    return _unpack(sorted_once((origin << bits) | node), bits)


def slots_of(near: Neighbours, lefts: Ints, rights: Ints) -> Ints:
    """Return the slot of each right node among its left node's neighbours, or its insertion point. All pairs are searched at once."""
    low, high = near.offsets[lefts], near.offsets[lefts + 1]
    last = len(near.targets) - 1
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        below = (low < high) & (near.targets[np.minimum(middle, last)] < rights)
        low, high = np.where(below, middle + 1, low), np.where(below, high, np.minimum(middle, high))
    return low


def linked(near: Neighbours, lefts: Ints, rights: Ints) -> Marks:
    """Return whether each right node is a neighbour of its left node."""
    if not len(near.targets):
        return np.zeros(len(lefts), np.bool_)
    at = slots_of(near, lefts, rights)
    hit: Marks = (at < near.offsets[lefts + 1]) & (near.targets[np.minimum(at, len(near.targets) - 1)] == rights)
    return hit


# -- many hops


class _Search(msgspec.Struct, frozen=True):
    """The parameters that are constant through all hops of one call."""

    csrs: tuple[Csr, ...]
    low: int
    high: int
    reverse: bool
    budget: Budget

    @property
    def bits(self) -> int:
        return _bits(self.csrs)

    def self_loops(self, starts: Ints, frontier: Ints) -> Marks:
        """Return which pairs of the frontier before the first hop within bounds are emitted by an edge from a node to itself.

        Later pairs are emitted by their distance. The edge is at the end of the search: at the node found, or, in reverse, at the
        start.
        """
        nodes = starts[frontier >> self.bits] if self.reverse else frontier & _mask(self.bits)
        loops = np.zeros(len(nodes), np.bool_)
        for csr in self.csrs:
            loops |= linked(csr.near, nodes, nodes)
        return loops


def _walk(search: _Search, starts: Ints) -> Iterator[tuple[int, AnyInts]]:
    """Yield (first start, keys relative to it) of the emitted pairs, a few starts at a time.

    `seen` are all keys found so far, `early` those below the lower bound, `kept` those to emit.
    """
    frontier = (np.arange(len(starts)) << search.bits) | starts
    seen, early, kept = frontier, _NOTHING, _NOTHING
    for number in range(1, search.high + 1):
        if number == search.low:
            themselves = search.self_loops(starts, frontier)
            kept, early = frontier[themselves], frontier[~themselves] if number == 1 else _difference(seen, frontier[themselves])
        if number == search.high:
            break
        origin, node = _concat(_hops(search, frontier, len(starts), keep=_NOTHING, drop=seen), search.bits)
        frontier = (origin << search.bits) | node
        if not len(frontier):
            yield 0, kept
            return
        if number >= search.low:
            kept = _merge(kept, frontier)
        seen = _merge(seen, frontier)
    yield from _hops(search, frontier, len(starts), keep=kept, drop=early)


def _hops(search: _Search, frontier: Ints, rows: int, *, keep: Ints, drop: Ints) -> Iterator[tuple[int, AnyInts]]:
    """Yield (first start, keys relative to it), a few starts at a time: the neighbours of the frontier and the keys to `keep`,
    without the keys to `drop`, ascending."""
    bits = search.bits
    firsts = _runs(search, frontier, rows)
    cuts = [np.searchsorted(keys, firsts << bits).tolist() for keys in (frontier, keep, drop)]
    for at, (first, last) in enumerate(pairwise(firsts.tolist())):
        mine, kept, dropped = (keys[cut[at] : cut[at + 1]] for keys, cut in zip((frontier, keep, drop), cuts, strict=True))
        yield first, _hop(search, mine, first, last - first, keep=kept, drop=dropped)


def _hop(search: _Search, frontier: Ints, first: int, rows: int, *, keep: Ints, drop: Ints) -> AnyInts:
    bits = search.bits
    narrow = np.int32 if rows << bits < _WIDE else np.int64
    lead = first << bits
    nodes, above = frontier & _mask(bits), ((frontier & ~_mask(bits)) - lead).astype(narrow)
    pairs = sum(int((csr.near.offsets[nodes + 1] - csr.near.offsets[nodes]).sum()) for csr in search.csrs)
    if pairs * search.budget.cells_per_pair < rows << bits:
        found = [_keys(csr.near, above, nodes) for csr in search.csrs]
        return _difference(sorted_once(np.concatenate([*found, (keep - lead).astype(narrow)])), drop - lead)
    marks = np.zeros(rows << bits, np.bool_)
    for csr in search.csrs:
        for part in _steps(csr.near.offsets, nodes, search.budget.step):
            marks[_keys(csr.near, above[part], nodes[part])] = True
    marks[keep - lead] = True
    marks[drop - lead] = False
    return np.flatnonzero(marks)


def _runs(search: _Search, frontier: Ints, rows: int) -> Ints:
    """Return cuts of the starts into runs with about one step of neighbours each. A single start is never cut."""
    nodes = frontier & _mask(search.bits)
    degrees = sum((csr.near.offsets[nodes + 1] - csr.near.offsets[nodes] for csr in search.csrs), np.zeros(len(nodes), np.int64))
    ends = np.cumsum(degrees)
    total = int(ends[-1]) if len(ends) else 0
    cuts = frontier[np.searchsorted(ends, np.arange(search.budget.step, total, search.budget.step))] >> search.bits
    return np.array(list(dict.fromkeys([0, *cuts.tolist(), rows])), np.int64)


# -- pairs as one integer


def _bits(csrs: tuple[Csr, ...]) -> int:
    return max(1, (csrs[0].size - 1).bit_length())


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def _unpack(keys: Ints, bits: int) -> tuple[Ints, Ints]:
    return keys >> bits, keys & _mask(bits)


def _concat(runs: Iterator[tuple[int, AnyInts]], bits: int) -> tuple[Ints, Ints]:
    """Convert runs of keys to (start, node)."""
    origins, nodes = [_NOTHING], [_NOTHING]
    for first, keys in runs:
        origin, node = _unpack(keys, bits)
        origins.append(np.add(origin, first, dtype=np.int64))
        nodes.append(node.astype(np.int64, copy=False))
    return np.concatenate(origins), np.concatenate(nodes)


def _keys(near: Neighbours, above: AnyInts, nodes: Ints) -> AnyInts:
    """Return the keys of the neighbours of `nodes`: the high bits of the pair that reached them, plus the neighbour."""
    first = near.offsets[nodes]
    degrees = near.offsets[nodes + 1] - first
    ends = np.cumsum(degrees)
    at = np.repeat(first - ends + degrees, degrees)
    at += np.arange(len(at))
    keys = np.repeat(above, degrees)
    keys += near.targets[at].astype(keys.dtype, copy=False)
    return keys


def _slots(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return (position in `rows`, slot) for all slots of each row, in order."""
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
    """Yield runs of nodes with about `step` neighbours each."""
    ends = np.cumsum(offsets[nodes + 1] - offsets[nodes])
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(step, total, step), side="right")
    bounds = [0, *dict.fromkeys(cuts.tolist()), len(nodes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield slice(start, stop)


def _offsets(origin: Ints, rows: int) -> Ints:
    counted: Ints = np.searchsorted(origin, np.arange(rows + 1))
    return counted


def _distinct(sources: Ints) -> tuple[Ints, Ints | None]:
    """Return the distinct sources and, for each position, the index of its source. The index is None if all sources are distinct."""
    if bool((sources[1:] > sources[:-1]).all()):  # the order of a scan
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


def sorted_once(keys: AnyInts) -> AnyInts:
    """Sort and remove duplicates, in a tenth of the time of `np.unique`."""
    keys = np.sort(keys)
    if len(keys) < 2:
        return keys
    first = np.empty(len(keys), np.bool_)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]


def _merge(ascending: Ints, others: Ints) -> Ints:
    """Merge two ascending arrays. A stable sort detects the two runs and merges them."""
    return np.sort(np.concatenate([ascending, others]), kind="stable")


def _difference(ascending: AnyInts, others: Ints) -> AnyInts:
    """Remove `others` from ascending keys. Each of them occurs at most once."""
    if not len(ascending) or not len(others):
        return ascending
    at = np.minimum(np.searchsorted(ascending, others.astype(ascending.dtype)), len(ascending) - 1)
    stays = np.ones(len(ascending), np.bool_)
    stays[at[ascending[at] == others]] = False
    return ascending[stays]
