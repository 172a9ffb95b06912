"""The engine of this package, as cases ask for one: every graph a real one, in a folder of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from omnigraph.catalog.model import TypeKind
from omnigraph.errors import Kind, Unsupported
from omnigraph.graph import Graph, init
from omnigraph.testing.engine import Counts, Table


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
        import pyarrow as pa
        from omnigraph.exec.load.read import Report, read_batches
        from omnigraph.exec.write import Append, Prepared, Request, write
        from omnigraph.exec.tables_of import table_of
        from omnigraph.manifest.model import CommitKind

        report = Report(limit=10)
        by: dict = {}
        for b in read_batches(lines.encode(), self.graph.catalog, report):
            by.setdefault(b.entity.id, (b.entity, []))[1].append(b.rows)
        snap = self.graph._manifest.snapshot()
        changes = {table_of(snap, e).id: Append(pa.concat_tables(r)) for e, r in by.values()}
        write(self.graph._manifest, self.graph._tables, Request(CommitKind.LOAD), lambda _: Prepared(changes))
        return {}

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        raise Unsupported(Kind.UNSUPPORTED, "there is no export yet")

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        raise Unsupported(Kind.UNSUPPORTED, "there is no schema apply yet")

    def close(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
