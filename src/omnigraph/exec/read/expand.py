"""Rows and a link -> the rows that the link leads to (`Expand`), or the rows for which it exists (`Connect`).

Rows with the same start node share one walk. Predicates on the edge and on the target node are applied to the result of the walk.
If the plan says so, predicates on the target are evaluated before the walk, in one pass over the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.rows import BATCH, Mask, Numbers64, Rows, distinct, expand_ranges
from omnigraph.exec.read.walk import EdgeFinder, Hops, Reach
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops

PART_ROWS: Final = 16 * BATCH
"""Output above this many rows is returned in parts."""
SEARCH_ROWS: Final = 4_096
"""The number of rows whose multi-hop searches run together. Each search keeps the set of nodes it has visited."""


class LinkAccess:
    """A link with its edges, the nodes at both ends, and the finder that follows it."""

    def __init__(self, link: ir.Link, edges: Entities, left: Entities, right: Entities, finder: EdgeFinder, *, watch: Watch) -> None:
        """`finder` applies the predicates on the edge."""
        self.link: Final = link
        self.edges: Final = edges
        self.left: Final = left
        self.right: Final = right
        self.finder: Final = finder
        self.watch: Final = watch

    def find(self, nodes: Numbers64, *, from_right: bool) -> Hops:
        """Return the nodes linked with the given nodes, by origin. `edge` is meaningful only if the link binds an edge."""
        reach = Reach(self.link.direction, self.link.low, self.link.high, from_right)
        if self.link.edge_binding is None:
            pairs = self.finder.pairs(reach, nodes)
            return Hops(pairs.origin, pairs.reached, pairs.reached)
        return self.finder.hops(reach.walked, nodes)

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


class Target:
    """The nodes at which an expansion may end, and the columns that are read of them."""

    def __init__(self, op: ops.Expand, entities: Entities, *, watch: Watch) -> None:
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
        if self._allowed is None:
            self._allowed = self._entities.mask(where, check=self._watch.check)
        return self._allowed[numbers]

    def bind(self, rows: Rows, numbers: Numbers64) -> Rows:
        binding = self._op.target.binding
        columns = self._entities.read(numbers, self._op.target.columns, check=self._watch.check)
        return rows.binding(binding, numbers).with_columns({(binding, name): column for name, column in columns.items()})


def expand(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    start = link.right if op.reverse else link.left
    near, far = (access.right, access.left) if op.reverse else (access.left, access.right)
    target = Target(op, far, watch=access.watch)
    for rows in _cut(batches, link):
        access.watch.check()
        nodes, place = distinct(rows.bindings[start], size=near.size)
        found = access.find(nodes, from_right=op.reverse)
        if (allowed := target.mask(found.reached)) is not None:
            found = found.keep(allowed)
        in_order = nodes is rows.bindings[start]  # each row has a node of its own, and pairs come in the order of the rows
        for part, at in _parts(rows, found) if in_order else _join(rows, place, found, len(nodes)):
            yield access.bind_edges(target.bind(part, found.reached[at]), found.edge[at])


def fan_outs(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[tuple[Rows, Numbers64]]:
    """Yield the rows that a bare expansion would keep, with the number of nodes each leads to."""
    start, near = (op.link.right, access.right) if op.reverse else (op.link.left, access.left)
    for rows in _cut(batches, op.link):
        access.watch.check()
        nodes, place = distinct(rows.bindings[start], size=near.size)
        counts = access.counts(nodes, from_right=op.reverse)[place]
        yield rows.keep(counts > 0), counts[counts > 0]


def linked_rows(op: ops.Expand, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the rows for which a bare expansion has at least one row."""
    start, near = (op.link.right, access.right) if op.reverse else (op.link.left, access.left)
    for rows in _cut(batches, op.link):
        access.watch.check()
        nodes, place = distinct(rows.bindings[start], size=near.size)
        yield rows.keep(access.linked(nodes, from_right=op.reverse)[place])


def connect(op: ops.Connect, access: LinkAccess, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    width = max(access.right.size, 1)
    for rows in _cut(batches, link):
        access.watch.check()
        lefts, rights = rows.bindings[link.left], rows.bindings[link.right]
        nodes, place = distinct(lefts, size=access.left.size)
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


def _cut(batches: Iterator[Rows], link: ir.Link) -> Iterator[Rows]:
    """Yield batches unchanged, or in smaller parts if each row needs a search of its own."""
    for rows in batches:
        if link.high == 1 or rows.count <= SEARCH_ROWS:
            yield rows
            continue
        for start in range(0, rows.count, SEARCH_ROWS):
            yield rows.slice(start, SEARCH_ROWS)


def _parts(rows: Rows, found: Hops) -> Iterator[tuple[Rows, slice]]:
    """Yield the row of every pair, with the positions of the pairs, in parts of bounded size."""
    for start in range(0, len(found.origin), PART_ROWS):
        at = slice(start, start + PART_ROWS)
        yield rows.take(found.origin[at]), at


def _join(rows: Rows, place: Numbers64, found: Hops, node_count: int) -> Iterator[tuple[Rows, Numbers64]]:
    """Yield every row once for each pair of its node, with the positions of the pairs, in parts of bounded size."""
    counts = np.bincount(found.origin, minlength=node_count).astype(np.int64)
    starts = np.cumsum(counts) - counts
    sizes, firsts = counts[place], starts[place]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    cuts = [0, *np.searchsorted(ends, np.arange(PART_ROWS, total, PART_ROWS), side="left").tolist(), rows.count]
    for first, last in pairwise(cuts):
        if first < last:
            owners, at = expand_ranges(firsts[first:last], sizes[first:last])
            if len(owners):
                yield rows.take(owners + first), at
