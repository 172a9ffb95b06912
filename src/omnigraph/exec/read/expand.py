"""Rows and a link -> the rows that the link leads to (`Expand`), the rows for which it exists (`Connect`), or its paths (`Paths`).

Rows with the same start node share one walk. Predicates on the edge and on the target node are applied to the result of the walk.
If the plan says so, predicates on the target are evaluated before the walk, in one pass over the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.entity_union import AnyEntities, EntityUnion
from omnigraph.exec.read.paths import ENDS_OF_START, NodeLists, PathSearch, smallest_edges
from omnigraph.exec.read.rows import BATCH, Rows, cut_ranges, distinct, expand_ranges
from omnigraph.exec.read.walk import EdgeFinder, FoundEdges, Reach
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.store.arrays import Column, Mask, joined, whole

PART_ROWS: Final = 16 * BATCH
"""Output above this many rows is returned in parts."""
SEARCH_ROWS: Final = 4_096
"""The number of rows whose multi-hop searches run together. Each search keeps the set of nodes it has visited."""
SEARCHED_STARTS: Final = 16
"""From up to this many nodes a few known others are searched for. Above that, a walk from the others costs less."""


class End(NamedTuple):
    """One end of a link: the entities of its variable, and which of them are of the type that the edges have at this end.

    The nodes of that type have the numbers `base` to `base + size`. The finder of the link knows them without `base`.
    """

    entities: AnyEntities
    base: int
    size: int

    @property
    def is_whole(self) -> bool:
        return self.size == self.entities.size

    def holds(self, numbers: Numbers64) -> Mask:
        return (numbers >= self.base) & (numbers < self.base + self.size)


def end_of(entities: AnyEntities, nodes: Entities) -> End:
    """Return the end of a link at `nodes`, for a variable with these entities."""
    return End(entities, entities.base(nodes) if isinstance(entities, EntityUnion) else 0, nodes.size)


class LinkAccess:
    """A link with its edges, both of its ends, and the finder that follows it."""

    def __init__(self, link: ir.Link, edges: AnyEntities, left: End, right: End, finder: EdgeFinder, *, watch: Watch) -> None:
        """`finder` applies the predicates on the edge."""
        self.link: Final = link
        self.edges: Final = edges
        self.left: Final = left
        self.right: Final = right
        self.finder: Final = finder
        self.watch: Final = watch

    def find(self, nodes: Numbers64, *, from_right: bool) -> FoundEdges:
        """Return the nodes linked with the given nodes, by origin. `edge` is meaningful only if the link binds an edge."""
        reach = Reach(self.link.direction, self.link.low, self.link.high, from_right)
        if self.link.edge_binding is None:
            pairs = self.finder.pairs(reach, nodes)
            return FoundEdges(pairs.origin, pairs.reached, pairs.reached)
        return self.finder.hops(reach.walked, nodes)

    def find_among(self, nodes: Numbers64, others: Numbers64, *, from_right: bool) -> FoundEdges:
        """Like `find`, but only the given other nodes, which are few. The nodes ascend. The link binds no edge and has several hops."""
        if len(nodes) > SEARCHED_STARTS:  # the walk starts at the few instead
            back = self.find(others, from_right=not from_right)
            origin = np.minimum(np.searchsorted(nodes, back.reached), len(nodes) - 1)
            wanted = np.flatnonzero(nodes[origin] == back.reached)
            wanted = wanted[np.argsort(origin[wanted], kind="stable")]
            reached = others[back.origin[wanted]]
            return FoundEdges(origin[wanted], reached, reached)
        origin = np.repeat(np.arange(len(nodes), dtype=np.int64), len(others))
        here, there = nodes[origin], np.tile(others, len(nodes))
        linked = self.path_search().linked(*((there, here) if from_right else (here, there)))
        return FoundEdges(origin[linked], there[linked], there[linked])

    def counts(self, nodes: Numbers64, *, from_right: bool) -> Numbers64:
        """Return the number of linked nodes for each of the given nodes. The link binds no edge."""
        return self.finder.counts(Reach(self.link.direction, self.link.low, self.link.high, from_right), nodes)

    def linked(self, nodes: Numbers64, *, from_right: bool) -> Mask:
        """Return for each of the given nodes whether it is linked with any node. The link binds no edge."""
        return self.finder.linked(Reach(self.link.direction, self.link.low, self.link.high, from_right), nodes)

    def bind_edges(self, rows: Rows, edge: Numbers64) -> Rows:
        """Add to the rows the edge that led to them, and the edge columns that the link reads."""
        binding = self.link.edge_binding
        if binding is None:
            return rows
        columns = self.edges.read(edge, self.link.columns, check=self.watch.check)
        return rows.binding(binding, edge).with_columns({(binding, name): column for name, column in columns.items()})

    def pairs(self, rows: Rows) -> tuple[Numbers64, Numbers64]:
        """Return the nodes at both ends, as the finder knows them. Every row has both, and they are of the right type."""
        return rows.bindings[self.link.left] - self.left.base, rows.bindings[self.link.right] - self.right.base

    def path_search(self) -> PathSearch:
        """Return a search between pairs. If it has more than one hop, both ends have the same type."""
        link, check = self.link, self.watch.check
        return PathSearch(self.finder, link.direction, (link.low, link.high), size=self.left.size, ids_of=self._left_ids, check=check)

    def _left_ids(self, nodes: Numbers64) -> Column:
        return self.left.entities.ids(nodes + self.left.base, check=self.watch.check)

    def node_ids(self, paths: NodeLists) -> pa.Array:
        """Return the ids of the nodes of paths. The last node of each is at the right end, which may have another type."""
        ends = np.cumsum(paths.lengths + 1) - 1
        is_last = np.zeros(len(paths.nodes), np.bool_)
        is_last[ends] = True
        lasts = self.right.entities.ids(paths.nodes[ends] + self.right.base, check=self.watch.check)
        others = self._left_ids(paths.nodes[~is_last])
        order = np.empty(len(paths.nodes), np.int64)
        order[~is_last] = np.arange(len(others))
        order[is_last] = len(others) + np.arange(len(lasts))
        return whole(joined((others, lasts), others.type).take(pa.array(order)))

    def edge_ids(self, edges: Numbers64) -> Column:
        return self.edges.ids(edges, check=self.watch.check)


class Target:
    """The nodes at which an expansion may end, and the columns that are read of them."""

    def __init__(self, op: ops.Expand, entities: AnyEntities, *, watch: Watch) -> None:
        self._op: Final = op
        self._entities: Final = entities
        self._watch: Final = watch
        self._allowed: Mask | None = None

    def mask(self, numbers: Numbers64) -> Mask | None:
        """Return a mask of the nodes that satisfy the target's predicates; None means all of them."""
        where = self._op.target.where
        if not where:
            return None
        if self._op.restrict is not ops.Restrict.BEFORE:
            return self._entities.satisfying(numbers, where, check=self._watch.check)
        return self._mask_before()[numbers]

    def _mask_before(self) -> Mask:
        if self._allowed is None:
            self._allowed = self._entities.mask(self._op.target.where, check=self._watch.check)
        return self._allowed

    def few(self) -> Numbers64 | None:
        """Return the nodes at which the expansion may end, if they are known before the walk and so few that each can be searched for."""
        if not self._op.target.where or self._op.restrict is not ops.Restrict.BEFORE:
            return None
        allowed = np.flatnonzero(self._mask_before())
        return allowed if len(allowed) <= ENDS_OF_START else None

    def bind(self, rows: Rows, numbers: Numbers64) -> Rows:
        binding = self._op.target.binding
        columns = self._entities.read(numbers, self._op.target.columns, check=self._watch.check)
        return rows.binding(binding, numbers).with_columns({(binding, name): column for name, column in columns.items()})


def expand(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    start = link.right if op.reverse else link.left
    near, far = (access.right, access.left) if op.reverse else (access.left, access.right)
    target = Target(op, far.entities, watch=access.watch)
    few = target.few() if link.edge_binding is None and link.high > 1 else None
    for rows in _cut(batches, link, [(start, near)]):
        access.watch.check()
        starts = rows.bindings[start] - near.base if near.base else rows.bindings[start]
        nodes, place = distinct(starts, size=near.size)
        if few is not None:
            found = access.find_among(nodes, few[far.holds(few)] - far.base, from_right=op.reverse)
        else:
            found = access.find(nodes, from_right=op.reverse)
        found = found._replace(reached=found.reached + far.base)
        if few is None and (allowed := target.mask(found.reached)) is not None:
            found = found.keep(allowed)
        in_order = nodes is starts  # each row has a node of its own, and pairs come in the order of the rows
        for part, at in _parts(rows, found) if in_order else _join(rows, place, found, len(nodes)):
            yield access.bind_edges(target.bind(part, found.reached[at]), found.edge[at])


def fan_outs(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[tuple[Rows, Numbers64]]:
    """Yield the rows that a bare expansion would keep, with the number of nodes each leads to."""
    start, near = (op.link.right, access.right) if op.reverse else (op.link.left, access.left)
    for rows in _cut(batches, op.link, [(start, near)]):
        access.watch.check()
        nodes, place = distinct(rows.bindings[start] - near.base, size=near.size)
        counts = access.counts(nodes, from_right=op.reverse)[place]
        yield rows.keep(counts > 0), counts[counts > 0]


def linked_rows(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the rows for which a bare expansion has at least one row."""
    start, near = (op.link.right, access.right) if op.reverse else (op.link.left, access.left)
    for rows in _cut(batches, op.link, [(start, near)]):
        access.watch.check()
        nodes, place = distinct(rows.bindings[start] - near.base, size=near.size)
        yield rows.keep(access.linked(nodes, from_right=op.reverse)[place])


def connect(op: ops.Connect, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    width = max(access.right.size, 1)
    for rows in _cut(batches, link, [(link.left, access.left), (link.right, access.right)]):
        access.watch.check()
        lefts, rights = access.pairs(rows)
        nodes, place = distinct(lefts, size=access.left.size)
        if link.edge_binding is None and link.high > 1 and rows.count <= len(nodes) * ENDS_OF_START:
            yield rows.keep(access.path_search().linked(lefts, rights))
            continue
        found = access.find(nodes, from_right=False)
        keys, wanted = found.origin * width + found.reached, place * width + rights
        if link.edge_binding is None:
            yield rows.keep(np.isin(wanted, keys))
            continue
        order = np.argsort(keys, kind="stable")
        ascending = keys[order]
        starts = np.searchsorted(ascending, wanted, side="left")
        counts = np.searchsorted(ascending, wanted, side="right") - starts
        owners, at = expand_ranges(starts, counts)
        yield access.bind_edges(rows.take(owners), found.edge[order[at]])


def paths(op: ops.Paths, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the rows with the wanted columns of a path between their ends, which the link connects."""
    link, width = op.link, max(access.right.size, 1)
    assert link.path is not None
    for rows in batches:
        access.watch.check()
        lefts, rights = access.pairs(rows)
        pairs, places = np.unique(lefts * width + rights, return_inverse=True)
        columns = _path_columns(op, access, pairs // width, pairs % width)
        at = pa.array(places)
        yield rows.with_columns({(link.path, name): column.take(at) for name, column in columns.items()})


def _path_columns(op: ops.Paths, access: LinkAccess, lefts: Numbers64, rights: Numbers64) -> dict[str, Column]:
    found = access.path_search().shortest(lefts, rights)
    columns: dict[str, Column] = {}
    for name in op.columns:
        match name:
            case "length":
                columns[name] = pa.array(found.lengths)
            case "nodes":
                columns[name] = _lists(access.node_ids(found), found.lengths + 1)
            case "edges":
                width = max(access.right.size, 1)
                ids = smallest_edges(access.finder, op.link.direction, found, size=width, ids_of=access.edge_ids)
                columns[name] = _lists(ids, found.lengths)
            case _:
                raise AssertionError(f"a path has no column {name}")
    return columns


def _lists(items: pa.Array, sizes: Numbers64) -> pa.Array:
    """Return the items as lists of the given sizes."""
    type_ = pa.list_(pa.field("item", pa.string(), nullable=True))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items.cast(pa.string()), type=type_)


def _cut(batches: Iterator[Rows], link: ir.Link, ends: Sequence[tuple[int, End]]) -> Iterator[Rows]:
    """Yield the rows whose ends are not null and of the right type, in smaller parts if each row needs a search of its own.

    One variable may stand at both ends, and then has to be of both types.
    """
    for batch in batches:
        rows = batch.bound(*(binding for binding, _ in ends))
        for binding, end in ends:
            if not end.is_whole:
                rows = rows.keep(end.holds(rows.bindings[binding]))
        if link.high == 1 or rows.count <= SEARCH_ROWS:
            yield rows
            continue
        for start in range(0, rows.count, SEARCH_ROWS):
            yield rows.slice(start, SEARCH_ROWS)


def _parts(rows: Rows, found: FoundEdges) -> Iterator[tuple[Rows, slice]]:
    """Yield the row of every pair, with the positions of the pairs, in parts of bounded size."""
    for start in range(0, len(found.origin), PART_ROWS):
        at = slice(start, start + PART_ROWS)
        yield rows.take(found.origin[at]), at


def _join(rows: Rows, place: Numbers64, found: FoundEdges, node_count: int) -> Iterator[tuple[Rows, Numbers64]]:
    """Yield every row once for each pair of its node, with the positions of the pairs, in parts of bounded size."""
    counts = np.bincount(found.origin, minlength=node_count).astype(np.int64)
    starts = np.cumsum(counts) - counts
    sizes, firsts = counts[place], starts[place]
    for first, last in cut_ranges(sizes, rows=PART_ROWS):
        owners, at = expand_ranges(firsts[first:last], sizes[first:last])
        if len(owners):
            yield rows.take(owners + first), at
