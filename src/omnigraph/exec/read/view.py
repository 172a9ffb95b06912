"""A snapshot -> the tables that a query reads. They are opened on first use and kept between queries."""

from __future__ import annotations

from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.types import Plain
from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.exec.adjacency.ids import Ids
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.exec.read.entities import Entities
from omnigraph.ids import TypeId
from omnigraph.lang.tree import Scalar
from omnigraph.lru import Lru
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.plan.expr import TypeRef
from omnigraph.plan.statistics import Availability
from omnigraph.store.tables import HANDLES, TableRef, Tables


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

    def __init__(self, snapshot: Snapshot, catalog: Catalog, open_tables: OpenTables, topology: Topology) -> None:
        self.snapshot: Final = snapshot
        self._catalog: Final = catalog
        self._open_tables: Final = open_tables
        self._topology: Final = topology
        self._entities: Final[dict[TypeId, Entities]] = {}
        self._ends: Final[dict[TypeId, tuple[TableRow, TableRow, TableRow]]] = {}

    def entities(self, type_: TypeRef | EntityType) -> Entities:
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

    def ends(self, edge: TypeId) -> tuple[Ids, Ids]:
        """Return the ids of the nodes at both ends of an edge type: from memory, from a file, or read now."""
        _, source, target = self._between(edge)
        return self._topology.ids(source), self._topology.ids(target)

    def availability(self, edge: TypeId) -> Availability:
        """Return where the adjacency of an edge type is available."""
        return self._topology.availability(*self._between(edge))

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
        found = self._catalog.by_id(edge)
        assert isinstance(found, EdgeType)
        source, target = self._catalog.node(found.source), self._catalog.node(found.target)
        assert source is not None
        assert target is not None
        ends = self._ends[edge] = self._row(found), self._row(source), self._row(target)
        return ends

    def _row(self, type_: TypeRef | EntityType) -> TableRow:
        return self.snapshot.table_of(type_.id, name=type_.name)
