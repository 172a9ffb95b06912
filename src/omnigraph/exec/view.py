"""A snapshot -> the tables a query reads, opened when first asked for and kept between queries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.exec.entities import Entities
from omnigraph.exec.tables_of import table_of
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

    def entities(self, type_: TypeRef) -> Entities:
        return self._opened.at(table_of(self.snapshot, type_).ref)
