"""A snapshot, with or without pending rows -> the tables that a query reads. They are opened on first use and kept between queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, TypeKind
from omnigraph.catalog.types import Plain, arrow_type
from omnigraph.exec.adjacency.column_cache import ColumnCache
from omnigraph.exec.adjacency.edges import Adjacency, AdjacencyInput, build
from omnigraph.exec.adjacency.node_ids import Ids, read_ids
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.entity_union import AnyEntities, EntityUnion
from omnigraph.exec.read.table_statistics import AdjacencyState, Facts, live_tables
from omnigraph.ids import TypeId
from omnigraph.lang.tree import Scalar
from omnigraph.lru import Lru
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.expr import ID, TypeRef
from omnigraph.plan.statistics import Availability
from omnigraph.plan.template import PlanTemplate
from omnigraph.store.tables import HANDLES, Table, TableRef, Tables

PLANS: Final = 256
"""The number of plans that are kept of one snapshot."""


class OpenTables:
    """Open tables by exact version, with their row numbers."""

    def __init__(self, tables: Tables, topology: Topology) -> None:
        self._tables: Final = tables
        self._topology: Final = topology
        self._known: Final = Lru[tuple[TableRef, str | None], Entities](HANDLES)

    def at(self, row: TableRow, *, key: str | None) -> Entities:
        """Return the rows of a table version. `key` is the column whose values are the ids."""
        if (known := self._known.get((row.ref, key))) is not None:
            return known
        table = self._tables.open(row.ref)
        found = Entities(table, cache=self._topology.columns, known=lambda: self._topology.known_ids(row), key=key)
        return self._known.put((row.ref, key), found)


class View:
    """The tables of one snapshot as queries see them. A snapshot never changes, so opened tables are kept."""

    def __init__(self, snapshot: BranchSnapshot, catalog: Catalog, open_tables: OpenTables, topology: Topology) -> None:
        self.snapshot: Final = snapshot
        self._catalog: Final = catalog
        self._open_tables: Final = open_tables
        self._topology: Final = topology
        self._entities: Final[dict[TypeId, Entities]] = {}
        self._interfaces: Final[dict[TypeId, EntityUnion]] = {}
        self._ends: Final[dict[TypeId, tuple[TableRow, TableRow, TableRow]]] = {}
        self.plans: Final = Lru[tuple[str, str | None, Facts], PlanTemplate](PLANS)
        """Plans by the text and the name of the query, and by the facts that they depend on. They are forgotten with the snapshot."""

    @cached_property
    def tables(self) -> Mapping[TypeId, TableRow]:
        """The table of each type in the snapshot."""
        return live_tables(self.snapshot.state)

    def rows(self, type_: TypeRef) -> AnyEntities:
        """Return the rows of a type, or those of all types that implement an interface, in the order of their names."""
        if type_.kind is not TypeKind.INTERFACE:
            return self.entities(type_)
        if (known := self._interfaces.get(type_.id)) is None:
            interface = self._catalog.interface(type_.name)
            assert interface is not None
            nodes = sorted(self._catalog.implementing(interface), key=lambda node: node.name)
            columns = {ID: pa.string()} | {property_.name: arrow_type(property_.type) for property_ in interface.properties}
            known = self._interfaces[type_.id] = EntityUnion([(node.name, self.entities(node)) for node in nodes], columns)
        return known

    def edges(self, types: Sequence[TypeRef]) -> AnyEntities:
        """Return the edges of a type, or those of several types."""
        if len(types) == 1:
            return self.entities(types[0])
        return EntityUnion([(type_.name, self.entities(type_)) for type_ in types], {ID: pa.string()})

    def ends(self, edge: TypeRef) -> tuple[Entities, Entities]:
        """Return the nodes at the source and at the target end of an edge type."""
        _, source, target = self._edge(edge.id)
        return self.entities(source), self.entities(target)

    def entities(self, type_: TypeRef | EntityType) -> Entities:
        """Return the rows of a node type or an edge type."""
        if (known := self._entities.get(type_.id)) is None:
            known = self._entities[type_.id] = self._open_tables.at(self._row(type_), key=self._key(type_.id))
        return known

    def _key(self, type_: TypeId) -> str | None:
        """Return the key column of a type if its values are the ids: the key is a single String property."""
        found = self._catalog.by_id(type_)
        if not isinstance(found, NodeType) or found.key is None or len(found.key.columns) != 1:
            return None
        (name,) = found.key.columns
        return name if any(property_.name == name and property_.type == Plain(Scalar.STRING) for property_ in found.properties) else None

    def adjacency(self, edge: TypeRef, *, back: bool = False) -> Adjacency:
        """Return all edges of a type as integers, from sources or `back` from targets: from memory, from a file, or built now."""
        return self._topology.adjacency(*self._between(edge.id), back=back)

    def end_ids(self, edge: TypeId) -> tuple[Ids, Ids]:
        """Return the ids of the nodes at both ends of an edge type: from memory, from a file, or read now."""
        _, source, target = self._between(edge)
        return self._topology.ids(source), self._topology.ids(target)

    def availability(self, edge: TypeId) -> Availability:
        """Return where the adjacency of an edge type is available."""
        return self._topology.availability(*self._between(edge))

    def adjacency_state(self, edge: TypeId) -> AdjacencyState:
        """Return what decides whether the adjacency of an edge type is worth using. Only what matters where it is available is asked."""
        place = self.availability(edge)
        spent_ms = 0.0 if place is Availability.MEMORY else self.spent_ms(edge)
        return AdjacencyState(place, spent_ms, self.known_edges(edge) if place is Availability.MISSING else 0)

    def spend(self, edge: TypeId, ms: float) -> None:
        """Record the time spent on following a link without its adjacency. The total decides when to build the adjacency."""
        self._topology.spend(self._between(edge)[0], ms)

    def spent_ms(self, edge: TypeId) -> float:
        return self._topology.spent_ms(self._between(edge)[0])

    def known_edges(self, edge: TypeId) -> int:
        """Return how many edges an older adjacency provides, so that they need not be read."""
        return self._topology.known_edges(*self._between(edge))

    def _between(self, edge: TypeId) -> tuple[TableRow, TableRow, TableRow]:
        """Return the tables of an edge type, of its source type and of its target type."""
        if (known := self._ends.get(edge)) is not None:
            return known
        found, source, target = self._edge(edge)
        ends = self._ends[edge] = self._row(found), self._row(source), self._row(target)
        return ends

    def _edge(self, edge: TypeId) -> tuple[EdgeType, NodeType, NodeType]:
        """Return an edge type, its source type and its target type."""
        found = self._catalog.by_id(edge)
        assert isinstance(found, EdgeType)
        source, target = self._catalog.node(found.source), self._catalog.node(found.target)
        assert source is not None
        assert target is not None
        return found, source, target

    def _row(self, type_: TypeRef | EntityType) -> TableRow:
        return self.snapshot.table_of(type_.id, name=type_.name)


class PendingView(View):
    """A view with the pending rows of a writer: the types that it changed are tables in memory. It lives as long as one query."""

    def __init__(self, base: View, held: Mapping[TypeId, Table]) -> None:
        super().__init__(base.snapshot, base._catalog, base._open_tables, base._topology)
        self._held: Final = held
        self._ids: Final[dict[TypeId, Ids]] = {}
        self._adjacencies: Final[dict[tuple[TypeId, bool], Adjacency]] = {}

    def entities(self, type_: TypeRef | EntityType) -> Entities:
        if type_.id in self._held and type_.id not in self._entities:
            self._entities[type_.id] = Entities(self._held[type_.id], key=self._key(type_.id))
        return super().entities(type_)

    def adjacency(self, edge: TypeRef, *, back: bool = False) -> Adjacency:
        if not self._differs(edge.id):
            return super().adjacency(edge, back=back)
        if (known := self._adjacencies.get((edge.id, back))) is None:
            known = self._adjacencies[edge.id, back] = self._build(edge, back=back)
        return known

    def _build(self, edge: TypeRef, *, back: bool) -> Adjacency:
        edges = self.entities(edge)
        found, _, _ = self._edge(edge.id)
        square = found.source == found.target
        return build(AdjacencyInput(edges.table, edges.numbers, *self.end_ids(edge.id), square, back=back))

    def end_ids(self, edge: TypeId) -> tuple[Ids, Ids]:
        _, source, target = self._edge(edge)
        return self._ids_of(source), self._ids_of(target)

    def _ids_of(self, node: NodeType) -> Ids:
        if node.id not in self._held:
            return self._topology.ids(self._row(node))
        if (known := self._ids.get(node.id)) is None:
            nodes = self.entities(node)
            known = self._ids[node.id] = read_ids(nodes.table, nodes.numbers, ColumnCache())
        return known

    def availability(self, edge: TypeId) -> Availability:
        if not self._differs(edge):
            return super().availability(edge)
        held = (edge, False) in self._adjacencies or (edge, True) in self._adjacencies
        return Availability.MEMORY if held else Availability.MISSING

    def spend(self, edge: TypeId, ms: float) -> None:
        if not self._differs(edge):
            super().spend(edge, ms)

    def known_edges(self, edge: TypeId) -> int:
        return 0 if self._differs(edge) else super().known_edges(edge)

    def _differs(self, edge: TypeId) -> bool:
        """Return whether the numbers of an edge type or of one of its ends are others than in the snapshot."""
        return not self._held.keys().isdisjoint({edge, *(node.id for node in self._edge(edge)[1:])})
