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
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.pieces import left_out
from omnigraph.exec.problems import EMBED_REMEDY, Problem, ProblemCode, Report
from omnigraph.store.arrays import Mask, whole


def load_embedding(catalog: Catalog, embedder: Embedder | None, mode: LoadMode, *, write: bool) -> LoadEmbedding | None:
    """What fills the vectors of a load; None if there is nothing to fill."""
    if not embeds(catalog) or (embedder is None and not mode.keeps):
        return None
    return LoadEmbedding(catalog, embedder, keeps=mode.keeps, write=write)


def embeds(catalog: Catalog) -> bool:
    """Whether any property is embedded from another."""
    return any(map(embed_targets, catalog.nodes))


def readable_catalog(catalog: Catalog) -> Catalog:
    """The catalog to read records by if there is an embedder: a vector that is embedded later may be missing."""
    return msgspec.structs.replace(catalog, nodes=tuple(map(_readable, catalog.nodes))) if embeds(catalog) else catalog


class LoadEmbedding:
    """Fills the vectors of one load. Without `write` no text is sent to the provider: zeros stand for the vectors.

    In a mode that keeps what a record leaves out, a vector is filled only if its text is given; else both are kept. Without an embedder
    a text that is given makes the vector null, since the old one may be that of another text.
    """

    def __init__(self, catalog: Catalog, embedder: Embedder | None, *, keeps: bool, write: bool) -> None:
        self._catalog: Final = catalog
        self._embedder: Final = embedder
        self._keeps: Final = keeps
        self._write: Final = write
        self.readable: Final = catalog if embedder is None else readable_catalog(catalog)
        """The catalog to read the records by."""

    def filled(self, batch: Batch, report: Report) -> Batch:
        """The batch with all vectors, of the type in the catalog. A required vector without a text is a problem.

        Once there is a problem, no text is sent to the provider.
        """
        entity = self._catalog.by_id(batch.entity.id)
        assert entity is not None
        rows = batch.rows
        for target in embed_targets(entity):
            rows = self._with_vectors(target, batch, rows, report)
        if report.problems:
            return batch
        schema = table_schema(entity)
        flags = [field for field in rows.schema if field.name not in schema.names]
        return msgspec.structs.replace(batch, entity=entity, rows=pa.Table.from_arrays(rows.columns, schema=pa.schema([*schema, *flags])))

    def _with_vectors(self, target: EmbedTarget, batch: Batch, rows: pa.Table, report: Report) -> pa.Table:
        vectors, texts = whole(rows.column(target.name)), whole(rows.column(target.source))
        skipped = _flag(rows, target.name)
        absent = skipped if self._keeps else vectors.is_null().to_numpy(zero_copy_only=False)
        missing = absent & ~_flag(rows, target.source)
        if not missing.any():
            return rows
        wanted = missing & has_text(texts).to_numpy(zero_copy_only=False)
        if target.required and (lost := missing if self._embedder is None else missing & ~wanted).any():
            self._report(target, batch, np.flatnonzero(lost).tolist(), report)
        if report.problems:
            return rows
        if wanted.any() and self._embedder is not None:
            target.check_model(self._embedder)
            places = np.arange(len(vectors))
            places[wanted] = np.arange(len(vectors), len(vectors) + int(wanted.sum()))
            made = self._vectors(self._embedder, target, texts.filter(pa.array(wanted)))
            rows = _with_column(rows, target.name, pa.concat_arrays([vectors, made.cast(vectors.type)]).take(pa.array(places)))
        return _with_column(rows, left_out(target.name), pa.array(skipped & ~missing)) if skipped.any() else rows

    def _vectors(self, embedder: Embedder, target: EmbedTarget, texts: pa.Array) -> pa.Array:
        if self._write:
            return vectors_of(embedder, texts, target.dimension)
        return vector_array(np.zeros((len(texts), target.dimension), np.float32), target.dimension)

    def _report(self, target: EmbedTarget, batch: Batch, rows: list[int], report: Report) -> None:
        why = EMBED_REMEDY if self._embedder is None else f"its source '{target.source}' has no text to embed"
        message = f"non-nullable vector property '{target.name}' has no value; {why}"
        problem = Problem(ProblemCode.REQUIRED, message, batch.entity.alias, target.name)
        report.add([batch.with_place(problem, row) for row in rows[: report.limit]], more=max(len(rows) - report.limit, 0))


def _readable(node: NodeType) -> NodeType:
    properties = (each if each.embed is None else msgspec.structs.replace(each, nullable=True) for each in node.properties)
    return msgspec.structs.replace(node, properties=tuple(properties)) if embed_targets(node) else node


def _flag(rows: pa.Table, name: str) -> Mask:
    """Which records leave a property out, in a mode that keeps it then."""
    if left_out(name) not in rows.schema.names:
        return np.zeros(len(rows), bool)
    flag: Mask = whole(rows.column(left_out(name))).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return flag


def _with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)
