"""Batches of a load -> the same batches, with the vectors of `@embed` properties that their records leave out."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.embed import Embedder
from omnigraph.exec.embedding import EmbedTarget, embed_targets, has_text, vector_array, vectors_of
from omnigraph.exec.load.batches import Batch
from omnigraph.exec.problems import Problem, ProblemCode, Report
from omnigraph.store.arrays import whole


class LoadEmbedding:
    """Fills the vectors of one load. Without `write` no text is sent to the provider: zeros stand for the vectors."""

    def __init__(self, catalog: Catalog, embedder: Embedder, *, write: bool) -> None:
        self._catalog: Final = catalog
        self._embedder: Final = embedder
        self._write: Final = write
        self.readable: Final = msgspec.structs.replace(catalog, nodes=tuple(map(_readable, catalog.nodes)))
        """The catalog to read the records by: a vector that is embedded later may be missing."""

    def filled(self, batch: Batch, report: Report) -> Batch:
        """The batch with all vectors, of the type in the catalog. A required vector without a text is a problem."""
        entity = self._catalog.by_id(batch.entity.id)
        assert entity is not None
        rows = batch.rows
        for target in embed_targets(entity):
            place = rows.schema.get_field_index(target.name)
            rows = rows.set_column(place, rows.schema.field(place), self._column(target, batch, rows, report))
        if report.problems:
            return batch
        return msgspec.structs.replace(batch, entity=entity, rows=rows.cast(table_schema(entity)))

    def _column(self, target: EmbedTarget, batch: Batch, rows: pa.Table, report: Report) -> pa.Array:
        given, texts = whole(rows.column(target.name)), whole(rows.column(target.source))
        missing = given.is_null().to_numpy(zero_copy_only=False)
        if not missing.any():
            return given
        wanted = missing & has_text(texts).to_numpy(zero_copy_only=False)
        if target.required and (missing & ~wanted).any():
            self._report(target, batch, np.flatnonzero(missing & ~wanted).tolist(), report)
        if report.problems or not wanted.any():
            return given
        target.check_model(self._embedder)
        places = np.arange(len(given))
        places[wanted] = np.arange(len(given), len(given) + int(wanted.sum()))
        made = self._vectors(target, texts.filter(pa.array(wanted)))
        return pa.concat_arrays([given, made.cast(given.type)]).take(pa.array(places))

    def _vectors(self, target: EmbedTarget, texts: pa.Array) -> pa.Array:
        if self._write:
            return vectors_of(self._embedder, texts, target.dimension)
        return vector_array(np.zeros((len(texts), target.dimension), np.float32), target.dimension)

    def _report(self, target: EmbedTarget, batch: Batch, rows: list[int], report: Report) -> None:
        message = f"non-nullable vector property '{target.name}' has no value, and its source '{target.source}' no text to embed"
        problem = Problem(ProblemCode.REQUIRED, message, batch.entity.alias, target.name)
        report.add([batch.with_place(problem, row) for row in rows[: report.limit]], more=max(len(rows) - report.limit, 0))


def _readable(node: NodeType) -> NodeType:
    properties = (each if each.embed is None else msgspec.structs.replace(each, nullable=True) for each in node.properties)
    return msgspec.structs.replace(node, properties=tuple(properties)) if embed_targets(node) else node
