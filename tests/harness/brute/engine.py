"""An engine in memory: lines of data and queries, read, changed and loaded by brute force."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NoReturn

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.model import TypeKind
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_schema
from omnigraph.lang.schema import Key, NodeType, Schema
from tests.harness.brute.answer import answer
from tests.harness.brute.changes import change
from tests.harness.brute.data import Data, no_data
from tests.harness.brute.loads import load
from tests.harness.engine import Counts, SpecGraph, Table


class BruteEngine:
    """Makes graphs in memory."""

    def graph(self, schema: str, data: str) -> SpecGraph:
        tree = parse_schema(schema)
        catalog = build_catalog(tree, mint=new_hex16)
        graph = BruteGraph(catalog, no_data(catalog), _keys(tree, catalog))
        graph.load(data, mode="overwrite")
        return graph


def _keys(tree: Schema, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The columns of every key in the order in which they are declared; the catalog sorts them."""
    keys = {node.name: node.key.columns for node in catalog.nodes if node.key is not None}
    for declared in tree.declarations:
        for constraint in declared.constraints if isinstance(declared, NodeType) else ():
            if isinstance(constraint, Key):
                keys[declared.name.text] = tuple(column.text for column in constraint.columns)
    return keys


class BruteGraph:
    """A graph that can be read, changed and loaded into."""

    def __init__(self, catalog: Catalog, data: Data, keys: Mapping[str, tuple[str, ...]]) -> None:
        self._catalog = catalog
        self._data = data
        self._keys = keys

    def query(self, source: str, *, name: str | None, params: object) -> Table:
        found = answer(source, params, name=name, catalog=self._catalog, data=self._data, now_ms=time.time_ns() // 1_000_000)
        return Table(found.columns, found.rows)

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts:
        changed = change(source, params, name=name, catalog=self._catalog, data=self._data, now_ms=time.time_ns() // 1_000_000)
        self._data = changed.data
        return Counts(changed.nodes, changed.edges, changed.committed)

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        self._data, counts = load(lines, mode, catalog=self._catalog, data=self._data, keys=self._keys)
        return counts

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        self._refuse()

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        self._refuse()

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise NotImplementedError("brute force neither exports nor changes schemas")
