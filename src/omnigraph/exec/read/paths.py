"""Pairs of nodes and the bounds of a traversal -> whether the traversal links them, and one shortest path for each linked pair.

A path has a length within the bounds: the distance of its ends, or one more than that if an edge of a node to itself makes the
traversal emit a pair that is too close. Of several paths of that length it is the one whose list of node ids is smallest. For a few
pairs the search runs from both ends until it meets. For many ends of one start it runs from the start only.

A key is a number for a search and a node: the position of the search times the number of nodes, plus the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.adjacency.kernels import sorted_once
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.walk import EdgeFinder, Steps, opposite
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import Column, Mask, whole

CELLS: Final = 1 << 25
"""The number of keys of the searches that run together: a byte for each and each end, of which only those reached are touched."""
ENDS_OF_START: Final = 16
"""A start with more ends than this is searched once for all of them."""

Distances: TypeAlias = npt.NDArray[Any]
"""For each key one more than the distance, and 0 for a node that was not reached."""
IdsOf = Callable[[Numbers64], Column]
"""Node numbers -> their ids."""


class NodeLists(NamedTuple):
    """The nodes of some paths: `nodes` are those of the first path, then those of the second. A path has one node more than `lengths`."""

    lengths: Numbers64
    nodes: Numbers64


class PathSearch:
    """Searches between pairs of nodes of one type, over the edges of a link. Pairs are searched a few at a time."""

    def __init__(
        self,
        finder: EdgeFinder,
        direction: Direction,
        bounds: tuple[int, int],
        *,
        size: int,
        ids_of: IdsOf,
        check: Callable[[], None],
        cells: int = CELLS,
        ends_of_start: int = ENDS_OF_START,
    ) -> None:
        """`size` is the number of node numbers, `direction` that from the left node of a pair to the right one."""
        self._finder: Final = finder
        self._direction: Final = direction
        self._low, self._high = bounds
        self._size: Final = max(size, 1)
        self._ids_of: Final = ids_of
        self._check: Final = check
        self._searches: Final = max(1, cells // self._size)
        """The number of searches that run together."""
        self._ends_of_start: Final = ends_of_start
        # No distance exceeds the number of nodes.
        self._type: Final[type] = np.int8 if min(self._high, self._size) < np.iinfo(np.int8).max else np.int32

    # -- whether they are linked

    def linked(self, lefts: Numbers64, rights: Numbers64) -> Mask:
        """Return for each pair whether the traversal emits it."""
        found = np.zeros(len(lefts), np.bool_)
        for part in self._parts(len(lefts)):
            distances = self._meet(lefts[part], rights[part]).distances
            near = np.flatnonzero(distances == self._low - 1)
            emitted = distances >= self._low
            emitted[near] = self._loops(rights[part][near])
            found[part] = emitted
        return found

    def _loops(self, nodes: Numbers64) -> Mask:
        """Return which nodes have an edge to themselves."""
        found = np.zeros(len(nodes), np.bool_)
        if len(nodes):
            at, other = self._step(nodes)
            found[at[other == nodes[at]]] = True
        return found

    def _step(self, nodes: Numbers64, *, back: bool = False) -> Steps:
        self._check()
        return self._finder.steps(opposite(self._direction) if back else self._direction, nodes)

    def _parts(self, count: int) -> Iterator[slice]:
        return (slice(start, start + self._searches) for start in range(0, count, self._searches))

    # -- by nodes

    def shortest(self, lefts: Numbers64, rights: Numbers64) -> NodeLists:
        """Return the nodes of one shortest path for each pair. The traversal emits every pair."""
        if self._high == 1:
            return NodeLists(np.ones(len(lefts), np.int64), np.stack([lefts, rights], axis=1).reshape(-1))
        table = _PathTable(len(lefts))
        starts, owners, ends = np.unique(lefts, return_inverse=True, return_counts=True)
        crowded = ends[owners] > self._ends_of_start
        few = np.flatnonzero(~crowded)
        for part in self._parts(len(few)):
            at = few[part]
            crowded[at] = ~self._from_both(at, lefts[at], rights[at], table)
        # What is left: starts with many ends, and pairs that are closer than the lower bound.
        waiting, places = np.unique(owners[crowded], return_inverse=True)
        pairs = np.flatnonzero(crowded)
        for part in self._parts(len(waiting)):
            mine = pairs[(places >= part.start) & (places < part.stop)]
            self._from_starts(mine, starts[waiting[part]], owners[mine], waiting[part], rights[mine], table)
        return table.lists()

    # -- from both ends

    def _from_both(self, at: Numbers64, lefts: Numbers64, rights: Numbers64, table: _PathTable) -> Mask:
        """Find the paths of the pairs at the positions `at`, and return for which pairs there is one as long as their distance."""
        met = self._meet(lefts, rights)
        self._complete(met)
        lengths = met.distances
        done = lengths >= self._low
        table.put(at[done], 0, lefts[done])
        searches, nodes = np.flatnonzero(done), lefts[done]
        for position in range(1, int(lengths.max(initial=0)) + 1):
            going = lengths[searches] >= position
            searches, nodes = searches[going], nodes[going]
            origin, reached = self._step(nodes)
            owners = searches[origin]
            closer = met.to_right[owners * self._size + reached] == lengths[owners] - position + 1
            searches, nodes = self._smallest(owners[closer], reached[closer])
            table.put(at[searches], position, nodes)
        return done

    def _meet(self, lefts: Numbers64, rights: Numbers64) -> _Meeting:
        """Search from both ends of each pair, hop by hop at the end with fewer nodes, until the two searches meet."""
        count, size = len(lefts), self._size
        searches = np.arange(count, dtype=np.int64)
        distances = np.where(lefts == rights, 0, -1)
        ends = [_SearchEnd(count, size, searches * size + nodes, self._type) for nodes in (lefts, rights)]
        meetings = [ends[0].keys[:0]]
        while True:
            sizes = [np.bincount(end.keys // size, minlength=count) for end in ends]
            depth = ends[0].depths + ends[1].depths
            going = (distances < 0) & (depth < self._high) & (sizes[0] > 0) & (sizes[1] > 0)
            if not going.any():
                break
            for end in ends:
                end.keys = end.keys[going[end.keys // size]]
            from_left = sizes[0] <= sizes[1]
            for number, (end, other) in enumerate((ends, ends[::-1])):
                chosen = going & (from_left if not number else ~from_left)
                if not chosen.any():
                    continue
                new = self._grow(end, chosen, back=bool(number))
                common = new[other.distances[new] > 0]
                met = common // size
                distances[met] = (ends[0].depths + ends[1].depths)[met]
                meetings.append(common)
        return _Meeting(distances, ends[0].distances, ends[1].distances, np.concatenate(meetings))

    def _grow(self, end: _SearchEnd, chosen: Mask, *, back: bool) -> Numbers64:
        """Follow one hop from one end of the chosen searches. Return the keys reached by it; they are the new frontier."""
        size = self._size
        owners = end.keys // size
        mine = chosen[owners]
        owners, keys = owners[mine], end.keys[mine]
        origin, reached = self._step(keys - owners * size, back=back)
        found = owners[origin] * size + reached
        new = sorted_once(found[end.distances[found] == 0])
        end.depths[chosen] += 1
        end.distances[new] = end.depths[new // size] + 1
        end.keys = np.concatenate([end.keys[~mine], new])
        return new

    def _complete(self, met: _Meeting) -> None:
        """Note the distance to the right for the nodes of shortest paths that only the search from the left has reached."""
        size, keys = self._size, met.keys
        while len(keys):
            owners = keys // size
            origin, reached = self._step(keys - owners * size, back=True)
            found = owners[origin] * size + reached
            before = met.from_left[found] == met.from_left[keys[origin]] - 1
            before &= met.from_left[found] > 0
            found, parents = found[before], keys[origin[before]]
            met.to_right[found] = met.to_right[parents] + 1
            keys = sorted_once(found)

    def _smallest(self, owners: Numbers64, nodes: Numbers64) -> tuple[Numbers64, Numbers64]:
        """Return each owner once, ascending, with the node of the smallest id among its nodes."""
        keys = sorted_once(owners * self._size + nodes)
        owners, nodes = keys // self._size, keys % self._size
        first = _firsts(owners)
        if not first.all():
            several = ~(first & np.append(first[1:], True))
            order = np.arange(len(nodes))
            order[several] = np.flatnonzero(several)[np.lexsort((self._ranks(nodes[several]), owners[several]))]
            nodes = nodes[order]
        return owners[first], nodes[first]

    def _ranks(self, nodes: Numbers64) -> Numbers64:
        """Return the place of each node in the order of their ids."""
        distinct, places = np.unique(nodes, return_inverse=True)
        return ranked(self._ids_of(distinct))[places]

    # -- from the start

    def _from_starts(
        self, at: Numbers64, starts: Numbers64, owners: Numbers64, groups: Numbers64, rights: Numbers64, table: _PathTable
    ) -> None:
        """Find the paths of the pairs at the positions `at`, by one search for each start. `owners` are their starts among `groups`."""
        targets = np.searchsorted(groups, owners) * self._size + rights
        distances = self._distances(starts, targets)
        lengths = distances[targets].astype(np.int64) - 1
        too_close = lengths < self._low
        first = np.arange(len(starts)) * self._size + starts
        for slack in (0, 1):
            mine = too_close if slack else ~too_close
            if mine.any():
                wanted = np.where(too_close, self._low, lengths)[mine]
                self._trace(at[mine], first, targets[mine], wanted, distances, slack, table)

    def _distances(self, starts: Numbers64, targets: Numbers64) -> Distances:
        """Return the distances from the starts, as far as the targets are."""
        end = _SearchEnd(len(starts), self._size, np.arange(len(starts), dtype=np.int64) * self._size + starts, self._type)
        while len(end.keys) and not end.distances[targets].all():
            missing = np.zeros(len(starts), np.bool_)
            missing[targets[end.distances[targets] == 0] // self._size] = True
            end.keys = end.keys[missing[end.keys // self._size]]
            self._grow(end, missing, back=False)
        return end.distances

    def _trace(
        self, at: Numbers64, first: Numbers64, targets: Numbers64, lengths: Numbers64, distances: Distances, slack: int, table: _PathTable
    ) -> None:
        """Write the paths of the given lengths from the keys `first` to the targets. A path has `slack` hops more than its distance."""
        layers = self._layers(targets, lengths, distances, slack)
        keys = first[np.isin(first, layers[0])]
        ranks, trail = np.arange(len(keys)), [_Layer(keys, keys)]
        for layer in layers[1:]:
            origin, reached = self._step(keys % self._size)
            found = keys[origin] // self._size * self._size + reached
            place = np.minimum(np.searchsorted(layer, found), len(layer) - 1)
            inside = layer[place] == found
            origin, place = origin[inside], place[inside]
            # The smallest path to a node goes through the neighbour with the smallest path.
            order = np.lexsort((ranks[origin], place))
            best = order[_firsts(place[order])]
            keys, parents = layer[place[best]], origin[best]
            trail.append(_Layer(keys, parents))
            order = np.lexsort((self._ranks(keys % self._size), ranks[parents]))
            ranks = np.empty(len(keys), np.int64)
            ranks[order] = np.arange(len(keys))
        for length in sorted_once(lengths).tolist():
            mine = lengths == length
            places = np.searchsorted(trail[length].keys, targets[mine])
            for position in range(length, -1, -1):
                table.put(at[mine], position, trail[position].keys[places] % self._size)
                places = trail[position].parents[places]

    def _layers(self, targets: Numbers64, lengths: Numbers64, distances: Distances, slack: int) -> list[Numbers64]:
        """Return for each position the keys, ascending, from which a target is at the right distance."""
        found: list[Numbers64] = []
        before = targets[:0]
        for position in range(int(lengths.max()), 0, -1):
            layer = sorted_once(np.concatenate([before, targets[lengths == position]]))
            found.append(layer)
            origin, reached = self._step(layer % self._size, back=True)
            keys = layer[origin] // self._size * self._size + reached
            away = distances[keys].astype(np.int64) - 1
            before = keys[(away >= max(position - 1 - slack, 0)) & (away < position)]
        return [sorted_once(before), *found[::-1]]


class _SearchEnd:
    """One end of some searches: the distances found so far, the frontier, and the number of hops of each search."""

    def __init__(self, count: int, size: int, keys: Numbers64, type_: type) -> None:
        self.distances: Final[Distances] = np.zeros(count * size, type_)
        self.distances[keys] = 1
        self.keys = keys
        self.depths: Final = np.zeros(count, np.int64)


class _Meeting(NamedTuple):
    """Searches that met: `keys` are the nodes where they did. The distance of a pair is -1 if there is none within the bounds."""

    distances: Numbers64
    from_left: Distances
    to_right: Distances
    keys: Numbers64


class _Layer(NamedTuple):
    """The nodes of paths at one position, ascending, and for each the place of the node before it in the layer before."""

    keys: Numbers64
    parents: Numbers64


class _PathTable:
    """Nodes by path and position, in the order in which they are found."""

    def __init__(self, count: int) -> None:
        self._count: Final = count
        self._cells: Final[list[tuple[Numbers64, int, Numbers64]]] = []

    def put(self, paths: Numbers64, position: int, nodes: Numbers64) -> None:
        if len(paths):
            self._cells.append((paths, position, nodes))

    def lists(self) -> NodeLists:
        sizes = np.zeros(self._count, np.int64)
        for paths, _, _ in self._cells:
            sizes[paths] += 1
        starts = np.cumsum(sizes) - sizes
        nodes = np.empty(int(sizes.sum()), np.int64)
        for paths, position, found in self._cells:
            nodes[starts[paths] + position] = found
        return NodeLists(sizes - 1, nodes)


def ranked(ids: Column) -> Numbers64:
    """Return the place of each id in their order, which is that of UTF-8 bytes. Equal ids have the same place."""
    ranks: Numbers64 = pc.rank(whole(ids), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _firsts(ascending: Numbers64) -> Mask:
    """Return which elements differ from the one before."""
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first


# -- edges


def smallest_edges(finder: EdgeFinder, direction: Direction, paths: NodeLists, *, size: int, ids_of: IdsOf) -> pa.Array:
    """Return the ids of the edges of all paths, one path after the other. Between two nodes it is the smallest id of an edge."""
    ends = np.cumsum(paths.lengths + 1)
    is_left, is_right = (np.ones(len(paths.nodes), np.bool_) for _ in range(2))
    is_left[ends - 1] = False
    is_right[ends - paths.lengths - 1] = False
    hops, places = np.unique(paths.nodes[is_left] * size + paths.nodes[is_right], return_inverse=True)
    lefts = sorted_once(hops // size)
    found = finder.hops(direction, lefts)
    keys = lefts[found.origin] * size + found.reached
    at = np.minimum(np.searchsorted(hops, keys), len(hops) - 1)
    used = hops[at] == keys
    ids = whole(ids_of(found.edge[used]))
    order = np.lexsort((ranked(ids), at[used]))
    best = order[_firsts(at[used][order])]
    return ids.take(pa.array(best[places]))
