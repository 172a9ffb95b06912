"""A seed -> a small graph with a past and a branch: its schema, and its rows at every commit."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.model import EdgeType, EntityType, NodeType, TypeKind
from omnigraph.lang import parse_schema
from omnigraph.plan.expr import Value
from tests.harness.brute.data import Data, Row, id_of, no_data
from tests.harness.random.schemas import NODES, random_schema
from tests.harness.random.values import random_pool

LARGE: Final = 20
"""One seed in so many has a type with thousands of rows, which an engine may read in other ways than a few."""
MANY: Final = (8_000, 9_000)
"""Of which some have the same key, and so are one."""

_Table = tuple[TypeKind, str]


class Edit(msgspec.Struct, frozen=True):
    """One commit: rows to put in place of those with their ids or to add, and ids to remove, by kind and name of type."""

    puts: dict[_Table, list[Row]]
    removes: dict[_Table, list[str]]


class RandomGraph(msgspec.Struct, frozen=True):
    """`first` is loaded; `edits` follow on main; the branch starts at the end of them and has `branch_edits` of its own."""

    seed: int
    schema: str
    catalog: Catalog
    first: Data
    edits: tuple[Edit, ...]
    branch_edits: tuple[Edit, ...]

    @property
    def now(self) -> Data:
        """Main's rows after its edits."""
        return edited(self.first, self.edits)

    @property
    def branch(self) -> Data:
        """The branch's rows."""
        return edited(self.now, self.branch_edits)


def random_graph(seed: int) -> RandomGraph:
    rng = Random(f"graph {seed}")
    large = seed % LARGE == LARGE - 1
    close = rng.random() < 0.2
    schema = random_schema(rng, large=large, close=close)
    numbers = iter(range(10_000))
    catalog = build_catalog(parse_schema(schema), mint=lambda: f"{next(numbers):016x}")
    source = _Source(rng, catalog, large=large, close=close)
    first = source.first()
    edits = tuple(_history(source, first, rng.randint(1, 2)))
    branch_edits = tuple(_history(source, edited(first, edits), 1))
    return RandomGraph(seed, schema, catalog, first, edits, branch_edits)


def _history(source: _Source, data: Data, length: int) -> Iterator[Edit]:
    for _ in range(length):
        edit = source.edit(data)
        data = edited(data, (edit,))
        yield edit


def edited(data: Data, edits: tuple[Edit, ...]) -> Data:
    """The rows after some commits. Rows that are replaced or added stand last, as the order of rows means nothing."""
    for edit in edits:
        data = Data(
            {name: _edited(rows, edit, (TypeKind.NODE, name)) for name, rows in data.nodes.items()},
            {name: _edited(rows, edit, (TypeKind.EDGE, name)) for name, rows in data.edges.items()},
        )
    return data


def _edited(rows: list[Row], edit: Edit, table: _Table) -> list[Row]:
    puts = edit.puts.get(table, [])
    gone = {row["id"] for row in puts} | set(edit.removes.get(table, []))
    return [*(row for row in rows if row["id"] not in gone), *puts]


class _Source:
    """Makes rows of one graph: each property has its pool, so that values meet again."""

    def __init__(self, rng: Random, catalog: Catalog, *, large: bool, close: bool) -> None:
        self._rng = rng
        self._large = large
        self._catalog = catalog
        self._pools: dict[tuple[_Table, str], list[Value]] = {}
        self._nulls = rng.choice((0.1, 0.25, 0.5))
        self._dense = 0.5 if large else rng.choice((0.6, 1.2, 2.5))
        self._size = rng.choice(((3, 8), (5, 20), (10, 40)))
        self._close = close
        self._dangling = rng.choice((0.0, 0.0, 0.0, 0.0, 0.08))
        """A few graphs have edges whose ends are missing; no writer makes such, and a reader must not stumble over them."""
        self._edges_made = 0

    def first(self) -> Data:
        data = no_data(self._catalog)
        for node in self._catalog.nodes:
            taken: set[str] = set()
            for _ in range(self._rng.randint(*(MANY if self._large and node.name == NODES[0] else self._size))):
                row = self._node(node, taken)
                if row is not None:
                    data.nodes[node.name].append(row)
                    taken.add(str(row["id"]))
        for edge in self._catalog.edges:
            data.edges[edge.name].extend(self._edges(edge, data, dense=self._dense))
            if edge.source == edge.target and self._rng.random() < 0.5:
                data.edges[edge.name].extend(self._ladder(edge, data))
        return data

    def _node(self, node: NodeType, taken: set[str]) -> Row | None:
        """A new node, or nothing when its key is taken."""
        values = self._values(node)
        if node.key is None:
            # Short ids on purpose: nodes of different types then share them.
            id_ = str(len(taken)) if self._rng.random() < 0.7 else f"n{len(taken)}"
        else:
            for name in node.key.columns:
                values[name] = self._key_part(node, name)
            id_ = id_of(node, values)
        return None if id_ in taken else {"id": id_, **values}

    def _key_part(self, node: NodeType, name: str) -> Value:
        """Keys are drawn from few values too, but from enough to make many nodes."""
        property_ = node.property(name)
        assert property_ is not None
        number = self._rng.randint(0, 100_000 if self._large else 30)
        match random_pool(self._rng, property_.type)[0]:
            case bool() as truth:
                return truth
            case str() as word:
                return word if self._rng.random() < 0.4 else str(number)
            case float():
                return number / 2
            case _:
                return number

    def _values(self, entity: EntityType) -> Row:
        return {property_.name: self._value(entity, property_.name) for property_ in entity.properties}

    def _value(self, entity: EntityType, name: str) -> Value:
        property_ = entity.property(name)
        assert property_ is not None
        if property_.nullable and self._rng.random() < self._nulls:
            return None
        pool = self._pools.get(((entity.kind, entity.name), name))
        if pool is None:
            pool = self._pools[(entity.kind, entity.name), name] = random_pool(self._rng, property_.type, close=self._close)
        return self._rng.choice(pool)

    def _edges(self, edge: EdgeType, data: Data, *, dense: float) -> Iterator[Row]:
        """Edges between random nodes, some of them popular; one in six beside the last one, some from a node to itself."""
        sources = [str(row["id"]) for row in data.nodes[edge.source]]
        targets = [str(row["id"]) for row in data.nodes[edge.target]]
        last: tuple[str, str] | None = None
        for _ in range(int(len(sources) * dense) if sources and targets else 0):
            ends = (self._popular(sources), self._popular(targets))
            if edge.source == edge.target and self._rng.random() < 0.1:
                ends = (ends[0], ends[0])
            if last is not None and self._rng.random() < 0.16:
                ends = last if self._rng.random() < 0.7 or edge.source != edge.target else (last[1], last[0])
            last = ends
            if self._rng.random() < self._dangling:
                ends = (ends[0], "nowhere") if self._rng.random() < 0.5 else ("nowhere", ends[1])
            yield self._edge(edge, *ends)

    def _ladder(self, edge: EdgeType, data: Data) -> Iterator[Row]:
        """Pairs of nodes, both linked with both of the next pair: there are many shortest paths, and one of them is the smallest."""
        ids = [str(row["id"]) for row in data.nodes[edge.source]]
        chosen = self._rng.sample(ids, min(len(ids), 8))
        for at in range(0, len(chosen) - 3, 2):
            for source in chosen[at : at + 2]:
                for target in chosen[at + 2 : at + 4]:
                    yield self._edge(edge, source, target)

    def _popular(self, ids: list[str]) -> str:
        return ids[int(len(ids) * self._rng.random() ** 1.7)]

    def _edge(self, edge: EdgeType, source: str, target: str) -> Row:
        self._edges_made += 1
        # Ids that do not grow in the order of making: ties must be broken by the id, not by the place in the table.
        return {"id": f"{(self._edges_made * 7919) % 1_000_003:06d}", "src": source, "dst": target, **self._values(edge)}

    def edit(self, data: Data) -> Edit:
        """Some rows of every kind changed, added and removed; edges go with their ends."""
        puts: dict[_Table, list[Row]] = {}
        removes: dict[_Table, list[str]] = {}
        for node in self._catalog.nodes:
            table = (node.kind, node.name)
            rows = data.nodes[node.name]
            removes[table] = [str(row["id"]) for row in rows if self._rng.random() < 0.1]
            kept = [row for row in rows if row["id"] not in removes[table]]
            puts[table] = [self._changed(node, row) for row in kept if self._rng.random() < 0.15]
            added = self._node(node, {str(row["id"]) for row in rows})
            puts[table].extend([added] if added is not None else [])
        after = edited(data, (Edit(puts, removes),))
        for edge in self._catalog.edges:
            table = (edge.kind, edge.name)
            alive = [{row["id"] for row in after.nodes[end]} for end in (edge.source, edge.target)]
            rows = data.edges[edge.name]
            removes[table] = [
                str(row["id"]) for row in rows if row["src"] not in alive[0] or row["dst"] not in alive[1] or self._rng.random() < 0.1
            ]
            kept = [row for row in rows if row["id"] not in removes[table]]
            puts[table] = [self._changed(edge, row) for row in kept if edge.properties and self._rng.random() < 0.1]
            puts[table].extend(self._edges(edge, after, dense=0.2))
        return Edit(puts, removes)

    def _changed(self, entity: EntityType, row: Row) -> Row:
        """The row with a property or two drawn again, never one of its key."""
        key = entity.key.columns if isinstance(entity, NodeType) and entity.key is not None else ()
        free = [property_.name for property_ in entity.properties if property_.name not in key]
        names = self._rng.sample(free, min(len(free), self._rng.randint(1, 2)))
        return {**row, **{name: self._value(entity, name) for name in names}}
