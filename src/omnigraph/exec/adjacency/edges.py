"""One edge table version and the ids of both ends -> an adjacency in both directions, built anew or extended from an older one.

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
    """Edges in both directions: `out` from source to target, `into` back. All integers are row numbers of the three tables."""

    out: Csr
    into: Csr
    edges: Numbering
    sources: Numbering
    targets: Numbering

    def __len__(self) -> int:
        return len(self.out.edges)


class AdjacencyInput(msgspec.Struct, frozen=True):
    """The input of an adjacency: an edge table and the ids of the nodes at both ends."""

    table: Table
    numbers: Numbering
    sources: Ids
    targets: Ids
    square: bool

    @property
    def shape(self) -> Shape:
        return Shape(self.sources.numbers.size, self.targets.numbers.size, self.square)

    def adjacency(self, out: Csr, into: Csr) -> Adjacency:
        return Adjacency(out, into, self.numbers, self.sources.numbers, self.targets.numbers)


def build(input_: AdjacencyInput) -> Adjacency:
    """Build an adjacency by reading every edge."""
    every = _read(input_, input_.numbers.fragments, narrow=True)
    return input_.adjacency(csr(every, input_.shape), csr(every.turned(), input_.shape.turned()))


def extend(older: Adjacency, input_: AdjacencyInput) -> Adjacency | None:
    """Extend an older adjacency by the edges that were added and those whose ends moved. None if every edge must be read."""
    numbers = input_.numbers
    added = tuple(part for part in numbers.fragments if older.edges.base(part) is None)
    if sum(part.rows for part in added) * WORTH_EXTENDING > len(older):
        return None
    here = sum(part.rows - (part.deletions[2] if part.deletions is not None else 0) for part in numbers.fragments if part not in added)
    if here == len(older) and _only_rows_added(older, input_):
        fresh = _read(input_, added)
        return input_.adjacency(grow(older.out, fresh, input_.shape), grow(older.into, fresh.turned(), input_.shape.turned()))
    sources, targets = _node_moves(older.sources, input_.sources), _node_moves(older.targets, input_.targets)
    if not (_keeps_order(sources) and _keeps_order(targets)):
        return None
    edges = _edge_moves(older.edges, input_)
    out = _renumber(arcs(older.out), sources, targets, edges)
    into = _renumber(arcs(older.into), targets, sources, edges)
    stale = out.edges[(out.edges >= 0) & ((out.near < 0) | (out.far < 0))]
    out, into = out.where(_complete(out)), into.where(_complete(into))
    if len(out) + len(stale) != here:
        return None  # edges that were left out or deleted may have become valid again
    fresh = _read(input_, added)
    if len(stale):
        fresh = concat([fresh, _take(input_, stale)])
    return input_.adjacency(merge(out, fresh, input_.shape), merge(into, fresh.turned(), input_.shape.turned()))


def _only_rows_added(older: Adjacency, input_: AdjacencyInput) -> bool:
    """Return whether the only change since is that rows were added."""
    now = ((older.edges, input_.numbers), (older.sources, input_.sources.numbers), (older.targets, input_.targets.numbers))
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
    return found if ended.all() else found.where(ended)


def _take(input_: AdjacencyInput, edges: Ints) -> Arcs:
    addresses = input_.numbers.to_addresses(edges)
    rows = input_.table.take(addresses, [SOURCE, TARGET])
    return _resolve(input_, rows.column(SOURCE), rows.column(TARGET), addresses)
