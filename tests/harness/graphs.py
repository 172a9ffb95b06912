"""The engine of this package, as cases ask for one: every graph a real one, in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from omnigraph.catalog.model import TypeKind
from omnigraph.graph import Graph, init
from tests.harness.engine import Counts, Table


class RealEngine:
    """Makes graphs on the local disk, below `folder` or in the system's folder for passing things."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder: Final = folder

    def graph(self, schema: str, data: str) -> RealGraph:
        place = Path(tempfile.mkdtemp(prefix="omnigraph-case-", dir=self._folder))
        graph = RealGraph(init(place / "graph.omni", schema=schema), place)
        if data.strip():
            graph.load(data, mode="overwrite")
        return graph


class RealGraph:
    """One graph on disk; `close` removes it."""

    def __init__(self, graph: Graph, place: Path) -> None:
        self.graph: Final = graph
        self._place: Final = place

    def query(self, source: str, *, name: str | None, params: object) -> Table:
        result = self.graph.query(source, name, cast("Mapping[str, object] | None", params))
        return Table(result.columns, tuple(result.tuples()))

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts:
        receipt = self.graph.mutate(source, name, cast("Mapping[str, object] | None", params))
        return Counts(receipt.affected_nodes, receipt.affected_edges, receipt.commit is not None)

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        receipt = self.graph.load(lines.encode(), mode)
        nodes = {(TypeKind.NODE, name): count for name, count in receipt.nodes.items()}
        return nodes | {(TypeKind.EDGE, name): count for name, count in receipt.edges.items()}

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        return self.graph.export(types=types or None)

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        self.graph.apply_schema(source, allow_data_loss=allow_data_loss)

    def close(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
