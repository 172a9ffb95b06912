"""A snapshot -> the tables a query reads, opened when first asked for and kept between queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.errors import Kind, NotFound
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

    def __init__(self, snapshot: Snapshot, opened: Opened) -> None:
        self.snapshot: Final = snapshot
        self._opened: Final = opened
        self._rows: Final[dict[TypeId, TableRow]] = {
            TypeId(row.id.partition("-")[0]): row for row in snapshot.state.tables.values() if not row.dropped
        }

    def row(self, type_: TypeRef) -> TableRow:
        """The live table of a type, by its identity: names change, ids do not (T-05)."""
        if (row := self._rows.get(type_.id)) is None:
            raise NotFound(Kind.TABLE_NOT_FOUND, f"branch {self.snapshot.branch.name!r} has no table for {type_.name}", type=type_.name)
        return row

    def entities(self, type_: TypeRef) -> Entities:
        return self._opened.at(self.row(type_).ref)
