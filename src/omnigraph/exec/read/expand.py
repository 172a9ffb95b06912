"""Rows and a link -> the rows it leads to (`Expand`), or those it holds for (`Connect`).

Rows that stand at the same node share one walk. A link's predicates about its edge, and those about the node it leads to,
are applied to what the walk found; before, when the plan says so, by one pass over the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.rows import BATCH, Mask, Numbers64, Rows, distinct, spread
from omnigraph.exec.read.walk import Hops, Reach, Ways
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops

PART: Final = 16 * BATCH
"""Rows that fan out more than this are handed on in parts."""
SEARCHED: Final = 4_096
"""Rows whose searches of several hops run side by side: each of them remembers whom it has met."""


class Linked:
    """A link with what it is about: its edges, the nodes at both ends, and a way to walk it."""

    def __init__(self, link: ir.Link, edges: Entities, left: Entities, right: Entities, ways: Ways, *, watch: Watch) -> None:
        """`ways` applies the predicates about the edge."""
        self.link: Final = link
        self.edges: Final = edges
        self.left: Final = left
        self.right: Final = right
        self.ways: Final = ways
        self.watch: Final = watch

    def found(self, nodes: Numbers64, *, from_right: bool) -> Hops:
        """Whom these nodes are linked with, by origin; `edge` says by which edge if the link binds one, else nothing."""
        reach = Reach(self.link.direction, self.link.low, self.link.high, from_right)
        if self.link.edge_binding is None:
            pairs = self.ways.pairs(reach, nodes)
            return Hops(pairs.origin, pairs.reached, pairs.reached)
        return self.ways.hops(reach.walked, nodes)

    def counts(self, nodes: Numbers64, *, from_right: bool) -> Numbers64:
        """With how many others each of these nodes is linked, when the link binds no edge."""
        return self.ways.counts(Reach(self.link.direction, self.link.low, self.link.high, from_right), nodes)

    def bound_edges(self, rows: Rows, edge: Numbers64) -> Rows:
        """The rows with the edge they came by, and what is wanted of it."""
        binding = self.link.edge_binding
        if binding is None:
            return rows
        columns = self.edges.read(edge, self.link.columns, check=self.watch.check)
        return rows.binding(binding, edge).with_columns({(binding, name): column for name, column in columns.items()})


class Target:
    """The nodes an expansion may end at, and what is wanted of them."""

    def __init__(self, op: ops.Expand, entities: Entities, *, watch: Watch) -> None:
        self._op: Final = op
        self._entities: Final = entities
        self._watch: Final = watch
        self._allowed: Mask | None = None

    def admits(self, numbers: Numbers64) -> Mask | None:
        """Which of these nodes satisfy the target's predicates; None is all."""
        where = self._op.target.where
        if not where:
            return None
        if self._op.restrict is not ops.Restrict.BEFORE:
            return self._entities.satisfying(numbers, where, check=self._watch.check)
        if self._allowed is None:
            self._allowed = self._entities.mask(where, check=self._watch.check)
        return self._allowed[numbers]

    def bound(self, rows: Rows, numbers: Numbers64) -> Rows:
        binding = self._op.target.binding
        columns = self._entities.read(numbers, self._op.target.columns, check=self._watch.check)
        return rows.binding(binding, numbers).with_columns({(binding, name): column for name, column in columns.items()})


def expand(op: ops.Expand, linked: Linked, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    start = link.right if op.reverse else link.left
    near, far = (linked.right, linked.left) if op.reverse else (linked.left, linked.right)
    target = Target(op, far, watch=linked.watch)
    for rows in _side_by_side(batches, link):
        linked.watch.check()
        nodes, place = distinct(rows.bindings[start], size=near.size)
        found = linked.found(nodes, from_right=op.reverse)
        if (allowed := target.admits(found.reached)) is not None:
            found = found.keep(allowed)
        for part, at in _joined(rows, place, found, len(nodes)):
            yield linked.bound_edges(target.bound(part, found.reached[at]), found.edge[at])


def is_bare(op: ops.Expand) -> bool:
    """Whether nothing is said about the far end, nor about the edges."""
    return op.link.edge_binding is None and not op.target.where and not op.target.columns and not op.link.where


def fan_outs(op: ops.Expand, linked: Linked, batches: Iterator[Rows]) -> Iterator[tuple[Rows, Numbers64]]:
    """The rows that a bare expansion would lead anywhere, and to how many each."""
    start, near = (op.link.right, linked.right) if op.reverse else (op.link.left, linked.left)
    for rows in _side_by_side(batches, op.link):
        linked.watch.check()
        nodes, place = distinct(rows.bindings[start], size=near.size)
        counts = linked.counts(nodes, from_right=op.reverse)[place]
        yield rows.keep(counts > 0), counts[counts > 0]


def connect(op: ops.Connect, linked: Linked, batches: Iterator[Rows]) -> Iterator[Rows]:
    link = op.link
    width = max(linked.right.size, 1)
    for rows in _side_by_side(batches, link):
        linked.watch.check()
        lefts, rights = rows.bindings[link.left], rows.bindings[link.right]
        nodes, place = distinct(lefts, size=linked.left.size)
        found = linked.found(nodes, from_right=False)
        keys, wanted = found.origin * width + found.reached, place * width + rights
        if link.edge_binding is None:
            yield rows.keep(np.isin(wanted, keys))
            continue
        order = np.argsort(keys, kind="stable")
        ascending = keys[order]
        starts = np.searchsorted(ascending, wanted, side="left")
        counts = np.searchsorted(ascending, wanted, side="right") - starts
        owners, at = spread(starts, counts)
        yield linked.bound_edges(rows.take(owners), found.edge[order[at]])


def _side_by_side(batches: Iterator[Rows], link: ir.Link) -> Iterator[Rows]:
    """Batches as they are, or cut where each row is a search of its own."""
    for rows in batches:
        if link.high == 1 or rows.count <= SEARCHED:
            yield rows
            continue
        for start in range(0, rows.count, SEARCHED):
            yield rows.part(start, SEARCHED)


def _joined(rows: Rows, place: Numbers64, found: Hops, asked: int) -> Iterator[tuple[Rows, Numbers64]]:
    """Every row once for each pair of its node, in parts that are not too large, with the places of those pairs."""
    counts = np.bincount(found.origin, minlength=asked).astype(np.int64)
    starts = np.cumsum(counts) - counts
    sizes, firsts = counts[place], starts[place]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    cuts = [0, *np.searchsorted(ends, np.arange(PART, total, PART), side="left").tolist(), rows.count]
    for first, last in pairwise(cuts):
        if first < last:
            owners, at = spread(firsts[first:last], sizes[first:last])
            if len(owners):
                yield rows.take(owners + first), at
