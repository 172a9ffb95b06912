"""One edge table version and the ids of both ends -> an adjacency in both directions; from an older one, what changed.

An edge with an end that has no row is left out.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.build import Arcs, Shape, arcs, csr, grown, joined, merged
from omnigraph.exec.adjacency.ids import Ids, alive
from omnigraph.exec.adjacency.kernels import Csr, Ints, Marks
from omnigraph.exec.adjacency.numbering import Numbers
from omnigraph.store.fragments import Fragment, scan_fragments
from omnigraph.store.tables import ADDRESS, Table

SOURCE: Final = "src"
TARGET: Final = "dst"
WORTH_EXTENDING: Final = 4
"""An older adjacency is extended when at most one edge in so many must be read."""
BLOCK_ROWS: Final = 1 << 22
Moves: TypeAlias = Ints | None
"""For each number the one that the same row has in another version, -1 if it is gone; None when nothing has moved."""
_NONE: Final = Arcs(*(np.empty(0, np.int64),) * 3)


class Adjacency(msgspec.Struct, frozen=True):
    """`out` leads from source nodes to target nodes, `into` back. All integers are row numbers of the three tables."""

    out: Csr
    into: Csr
    edges: Numbers
    sources: Numbers
    targets: Numbers

    def __len__(self) -> int:
        return len(self.out.edges)


class Between(msgspec.Struct, frozen=True):
    """An edge table, and the nodes its edges run between."""

    table: Table
    numbers: Numbers
    sources: Ids
    targets: Ids
    square: bool

    @property
    def shape(self) -> Shape:
        return Shape(self.sources.numbers.size, self.targets.numbers.size, self.square)

    def adjacency(self, out: Csr, into: Csr) -> Adjacency:
        return Adjacency(out, into, self.numbers, self.sources.numbers, self.targets.numbers)


def build(between: Between) -> Adjacency:
    """Read every edge."""
    every = _read(between, between.numbers.fragments)
    return between.adjacency(csr(every, between.shape), csr(every.turned(), between.shape.turned()))


def extend(older: Adjacency, between: Between) -> Adjacency | None:
    """Read the edges that came since, and those whose ends have moved; None when everything must be read."""
    numbers = between.numbers
    added = tuple(part for part in numbers.fragments if older.edges.base(part) is None)
    if sum(part.rows for part in added) * WORTH_EXTENDING > len(older):
        return None
    here = sum(part.rows - (part.deletions[2] if part.deletions is not None else 0) for part in numbers.fragments if part not in added)
    if here == len(older) and _all_stand(older, between):
        fresh = _read(between, added)
        return between.adjacency(grown(older.out, fresh, between.shape), grown(older.into, fresh.turned(), between.shape.turned()))
    sources, targets = _rows_moved(older.sources, between.sources), _rows_moved(older.targets, between.targets)
    if not (_in_order(sources) and _in_order(targets)):
        return None
    edges = _edges_moved(older.edges, between)
    out = _moved(arcs(older.out), sources, targets, edges)
    into = _moved(arcs(older.into), targets, sources, edges)
    stale = out.edges[(out.edges >= 0) & ((out.near < 0) | (out.far < 0))]
    out, into = out.where(_whole(out)), into.where(_whole(into))
    if len(out) + len(stale) != here:
        return None  # edges that were left out, or deleted, may count again
    fresh = _read(between, added)
    if len(stale):
        fresh = joined([fresh, _taken(between, stale)])
    return between.adjacency(merged(out, fresh, between.shape), merged(into, fresh.turned(), between.shape.turned()))


def _all_stand(older: Adjacency, between: Between) -> bool:
    """Whether all that happened since is that rows came."""
    now = ((older.edges, between.numbers), (older.sources, between.sources.numbers), (older.targets, between.targets.numbers))
    return all(before.moved(after) is None and not before.changed(after) for before, after in now)


def _rows_moved(older: Numbers, now: Ids) -> Moves:
    """For each older number of a node the one it has now, or -1."""
    moves = older.moved(now.numbers)
    if moves is None and not older.changed(now.numbers):
        return None
    moves = np.arange(older.size) if moves is None else moves
    here: Marks = now.texts.is_valid().to_numpy(zero_copy_only=False)
    moves[moves >= 0] = np.where(here[moves[moves >= 0]], moves[moves >= 0], -1)
    return moves


def _edges_moved(older: Numbers, between: Between) -> Moves:
    moves, changed = older.moved(between.numbers), older.changed(between.numbers)
    if changed:
        moves = np.arange(older.size) if moves is None else moves
        gone = between.numbers.places(changed)[~alive(between.table, changed)]
        moves[np.isin(moves, gone, kind="table")] = -1
    return moves


def _in_order(moves: Moves) -> bool:
    """Whether what is sorted by the older numbers is sorted by the ones that it has now."""
    if moves is None:
        return True
    kept = moves[moves >= 0]
    return bool((kept[1:] > kept[:-1]).all())


def _moved(older: Arcs, near: Moves, far: Moves, edges: Moves) -> Arcs:
    columns = ((older.near, near), (older.far, far), (older.edges, edges))
    return Arcs(*(numbers if moves is None else moves[numbers] for numbers, moves in columns))


def _whole(moved: Arcs) -> Marks:
    return (moved.near >= 0) & (moved.far >= 0) & (moved.edges >= 0)


def _read(between: Between, parts: tuple[Fragment, ...]) -> Arcs:
    """The edges of some fragments. A block at a time: numbers take an eighth of the room that ids need."""
    found, held, count = [_NONE], list[pa.RecordBatch](), 0
    for batch in scan_fragments(between.table, parts, [SOURCE, TARGET]) if parts else ():
        held.append(batch)
        count += batch.num_rows
        if count >= BLOCK_ROWS:
            found.append(_resolved(between, pa.Table.from_batches(held)))
            held, count = [], 0
    if held:
        found.append(_resolved(between, pa.Table.from_batches(held)))
    return joined(found)


def _resolved(between: Between, rows: pa.Table) -> Arcs:
    """Edges that were read -> numbers, without those that lack an end."""
    found = Arcs(
        between.sources.find(rows.column(SOURCE)),
        between.targets.find(rows.column(TARGET)),
        between.numbers.from_addresses(rows.column(ADDRESS).to_numpy()),
    )
    ended = _whole(found)
    return found if ended.all() else found.where(ended)


def _taken(between: Between, edges: Ints) -> Arcs:
    addresses = between.numbers.to_addresses(edges)
    rows = between.table.take(addresses, [SOURCE, TARGET])
    return _resolved(between, rows.append_column(ADDRESS, pa.array(addresses)))
