"""An engine that only reads: lines of data in memory, asked by brute force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.model import TypeKind
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_schema
from tests.harness.brute.answer import answer
from tests.harness.brute.data import Data, read_lines
from tests.harness.engine import Counts, SpecGraph, Table


class BruteEngine:
    """Makes graphs in memory."""

    def graph(self, schema: str, data: str) -> SpecGraph:
        catalog = build_catalog(parse_schema(schema), mint=new_hex16)
        return BruteGraph(catalog, read_lines(data, catalog))


class BruteGraph:
    """A graph that can only be read."""

    def __init__(self, catalog: Catalog, data: Data) -> None:
        self._catalog = catalog
        self._data = data

    def query(self, source: str, *, name: str | None, params: object) -> Table:
        found = answer(source, params, name=name, catalog=self._catalog, data=self._data)
        return Table(found.columns, found.rows)

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts:
        self._refuse()

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        self._refuse()

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        self._refuse()

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        self._refuse()

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise NotImplementedError("brute force only reads")
