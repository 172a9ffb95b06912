"""A snapshot -> the tables a query reads, opened when first asked for and kept between queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.exec.entities import Entities
from omnigraph.ids import TypeId
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.plan.expr import TypeRef
from omnigraph.store.tables import HANDLES, TableRef, Tables


class Opened:
    """Tables by exact version, with the numbers of their rows. The least recently used are forgotten first."""

    def __init__(self, tables: Tables) -> None:
        self._tables: Final = tables
        self._known: OrderedDict[TableRef, Entities] = OrderedDict()
        self._mutex = threading.Lock()

    def at(self, ref: TableRef) -> Entities:
        with self._mutex:
            if (known := self._known.get(ref)) is not None:
                self._known.move_to_end(ref)
                return known
        found = Entities(self._tables.open(ref))
        with self._mutex:
            self._known[ref] = found
            while len(self._known) > HANDLES:
                self._known.popitem(last=False)
        return found


class View:
    """What one query sees."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog, opened: Opened, topology: Topology) -> None:
        self.snapshot: Final = snapshot
        self._catalog: Final = catalog
        self._opened: Final = opened
        self._topology: Final = topology

    def entities(self, type_: TypeRef | EntityType) -> Entities:
        return self._opened.at(self._row(type_).ref)

    def adjacency(self, edge: TypeRef) -> Adjacency:
        """All edges of a type as integers: from memory, from a file, or built now."""
        return self._topology.adjacency(*self._between(edge.id))

    def adjacency_ready(self, edge: TableRow) -> bool:
        """Whether it need not be built."""
        return self._topology.ready(*self._between(TypeId(edge.id.partition("-")[0])))

    def _between(self, edge: TypeId) -> tuple[TableRow, TableRow, TableRow]:
        """The tables of an edge type and of the nodes at its ends."""
        found = self._catalog.by_id(edge)
        assert isinstance(found, EdgeType)
        source, target = self._catalog.node(found.source), self._catalog.node(found.target)
        assert source is not None
        assert target is not None
        return self._row(found), self._row(source), self._row(target)

    def _row(self, type_: TypeRef | EntityType) -> TableRow:
        return self.snapshot.table_of(type_.id, name=type_.name)
