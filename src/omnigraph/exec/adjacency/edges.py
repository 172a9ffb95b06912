"""One edge table version and the ids of both ends -> an adjacency in one direction: built anew, extended from an older one, or turned.

Edges with a missing end are left out.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
import numpy as np

from omnigraph.exec.adjacency.build import WIDE, Arcs, Shape, arcs, concat, csr, grow, merge, room_for
from omnigraph.exec.adjacency.kernels import Csr, Ints, Marks
from omnigraph.exec.adjacency.node_ids import Ids, alive
from omnigraph.exec.adjacency.numbering import Addresses, Numbering
from omnigraph.store.arrays import Column
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.tables import ADDRESS, Table

SOURCE: Final = "src"
TARGET: Final = "dst"
WORTH_EXTENDING: Final = 4
"""An older adjacency is extended if at most one edge in this many must be read."""
Moves: TypeAlias = Ints | None
"""For each row number, the number of the same row in another version, or -1 if it is gone. None if no number changed."""


class Adjacency(msgspec.Struct, frozen=True):
    """Edges in one direction: from their sources, or back from their targets. All integers are row numbers of the three tables."""

    csr: Csr
    edges: Numbering
    near: Numbering
    far: Numbering

    def __len__(self) -> int:
        return len(self.csr.edges)


class AdjacencyInput(msgspec.Struct, frozen=True):
    """The input of an adjacency: an edge table and the ids of the nodes at both ends. `back`: from targets to sources."""

    table: Table
    numbers: Numbering
    sources: Ids
    targets: Ids
    square: bool
    back: bool

    @property
    def near(self) -> Ids:
        return self.targets if self.back else self.sources

    @property
    def far(self) -> Ids:
        return self.sources if self.back else self.targets

    @property
    def shape(self) -> Shape:
        return Shape(self.near.numbers.size, self.far.numbers.size, self.square)

    def adjacency(self, csr: Csr) -> Adjacency:
        return Adjacency(csr, self.numbers, self.near.numbers, self.far.numbers)


def build(input_: AdjacencyInput) -> Adjacency:
    """Build an adjacency by reading every edge."""
    return input_.adjacency(csr(_read(input_, input_.numbers.fragments, narrow=True), input_.shape))


def turn(other: Adjacency, *, square: bool) -> Adjacency:
    """Return the same edges in the other direction. No edge is read."""
    shape = Shape(other.far.size, other.near.size, square)
    return Adjacency(csr(arcs(other.csr).turned(), shape), other.edges, other.far, other.near)


def extend(older: Adjacency, input_: AdjacencyInput) -> Adjacency | None:
    """Extend an older adjacency by the edges that were added and those whose ends moved. None if every edge must be read."""
    numbers = input_.numbers
    added = tuple(part for part in numbers.fragments if older.edges.base(part) is None)
    if sum(part.rows for part in added) * WORTH_EXTENDING > len(older):
        return None
    here = sum(part.rows - (part.deletions[2] if part.deletions is not None else 0) for part in numbers.fragments if part not in added)
    if here == len(older) and _only_rows_added(older, input_):
        return input_.adjacency(grow(older.csr, _read(input_, added), input_.shape))
    near, far = _node_moves(older.near, input_.near), _node_moves(older.far, input_.far)
    if not (_keeps_order(near) and _keeps_order(far)):
        return None
    kept = _renumber(arcs(older.csr), near, far, _edge_moves(older.edges, input_))
    stale = kept.edges[(kept.edges >= 0) & ((kept.near < 0) | (kept.far < 0))]
    kept = kept.where(_complete(kept))
    if len(kept) + len(stale) != here:
        return None  # edges that were left out or deleted may have become valid again
    fresh = _read(input_, added)
    if len(stale):
        fresh = concat([fresh, _take(input_, stale)])
    return input_.adjacency(merge(kept, fresh, input_.shape))


def _only_rows_added(older: Adjacency, input_: AdjacencyInput) -> bool:
    """Return whether the only change since is that rows were added."""
    now = ((older.edges, input_.numbers), (older.near, input_.near.numbers), (older.far, input_.far.numbers))
    return all(before.moved(after) is None and not before.changed(after) for before, after in now)


def _node_moves(older: Numbering, now: Ids) -> Moves:
    """Return for each older node number the current number, or -1."""
    moves = older.moved(now.numbers)
    if moves is None and not older.changed(now.numbers):
        return None
    moves = np.arange(older.size) if moves is None else moves
    here: Marks = now.texts.is_valid().to_numpy(zero_copy_only=False)
    moves[moves >= 0] = np.where(here[moves[moves >= 0]], moves[moves >= 0], -1)
    return moves


def _edge_moves(older: Numbering, input_: AdjacencyInput) -> Moves:
    moves, changed = older.moved(input_.numbers), older.changed(input_.numbers)
    if changed:
        moves = np.arange(older.size) if moves is None else moves
        gone = input_.numbers.places(changed)[~alive(input_.table, changed)]
        moves[np.isin(moves, gone, kind="table")] = -1
    return moves


def _keeps_order(moves: Moves) -> bool:
    """Return whether rows sorted by the older numbers are also sorted by the current ones."""
    if moves is None:
        return True
    kept = moves[moves >= 0]
    return bool((kept[1:] > kept[:-1]).all())


def _renumber(older: Arcs, near: Moves, far: Moves, edges: Moves) -> Arcs:
    columns = ((older.near, near), (older.far, far), (older.edges, edges))
    return Arcs(*(numbers if moves is None else moves[numbers] for numbers, moves in columns))


def _complete(moved: Arcs) -> Marks:
    return (moved.near >= 0) & (moved.far >= 0) & (moved.edges >= 0)


def _read(input_: AdjacencyInput, parts: tuple[Fragment, ...], *, narrow: bool = False) -> Arcs:
    """Read the edges of some fragments. Each batch becomes numbers at once, which take an eighth of the memory of ids.

    With `narrow` the numbers have 32 bits if they fit. They are then to be sorted, and not to be calculated with.
    """
    sizes, rows = (input_.shape.rows, input_.shape.columns, input_.numbers.size), sum(part.rows for part in parts)
    found = Arcs(*(room_for(rows, size if narrow else WIDE + 1) for size in sizes))
    count = 0
    for batch in scan_fragments(input_.table, parts, [SOURCE, TARGET]) if parts else ():
        some = _resolve(input_, batch.column(SOURCE), batch.column(TARGET), batch.column(ADDRESS).to_numpy())
        for column, numbers in ((found.near, some.near), (found.far, some.far), (found.edges, some.edges)):
            column[count : count + len(some)] = numbers
        count += len(some)
    return found.where(slice(count))


def _resolve(input_: AdjacencyInput, sources: Column, targets: Column, addresses: Addresses) -> Arcs:
    """Return edges as numbers, without those with a missing end."""
    found = Arcs(input_.sources.find(sources), input_.targets.find(targets), input_.numbers.from_addresses(addresses))
    ended = _complete(found)
    found = found if ended.all() else found.where(ended)
    return found.turned() if input_.back else found


def _take(input_: AdjacencyInput, edges: Ints) -> Arcs:
    addresses = input_.numbers.to_addresses(edges)
    rows = input_.table.take(addresses, [SOURCE, TARGET])
    return _resolve(input_, rows.column(SOURCE), rows.column(TARGET), addresses)
