"""`spark.read.format("omnigraph")`, `df.write.format("omnigraph")` and views: one type of a graph -> a data frame, and back in one commit.

At `load`, Spark creates the data source in a separate Python process. That process opens the graph and pins the table version that all
tasks read; later commits do not affect the read. The data source is then pickled to the process that plans and to the executors.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.load.tabular import entity_named
from omnigraph.graph import Graph, open_
from omnigraph.ids import MAIN
from omnigraph.spark.columns import as_spark, spark_schema
from omnigraph.spark.filters import push_down
from omnigraph.spark.handles import tables_of
from omnigraph.spark.messages import Place
from omnigraph.spark.options import STORAGE, At, open_for_reading, read_options, without_traceback, write_options
from omnigraph.spark.writer import TypeWriter, writer_of
from omnigraph.store.checksums import FileSum
from omnigraph.store.deep import live_sums
from omnigraph.store.fragments import FragmentGroup, groups
from omnigraph.store.tables import Table, TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "omnigraph"
BATCH_ROWS: Final = 32_768
BLOB_BATCH_ROWS: Final = 64
"""Rows of a batch with blobs, which may be large."""


class PinnedTable(msgspec.Struct, frozen=True):
    """One table at one version, and its type at that version."""

    place: Place
    entity: EntityType
    ref: TableRef
    sums: Mapping[str, FileSum]
    """The recorded checksums of its files. Executors do not read the manifest."""

    def open(self) -> Table:
        return tables_of(self.place, self.sums).open(self.ref)


class FragmentPartition(InputPartition):
    """The fragments that one task reads."""

    def __init__(self, group: FragmentGroup) -> None:
        super().__init__(group.ids)
        self.group = group


class OmniGraphSource(DataSource):
    """One type of a graph, for sessions that do not push filters to Python sources. Spark evaluates all filters."""

    _pinned: PinnedTable | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Open the graph and pin the table version. Called once, by `load`."""
        with without_traceback():
            wanted = read_options(self.options)
            graph = open_(wanted.place.uri, mode="r", storage_options=wanted.place.storage_options)
            snapshot = graph.engine.snapshot(wanted.branch, wanted.at)
            entity = entity_named(wanted.type, graph.engine.catalog(snapshot))
            ref = snapshot.table_of(entity.id, name=entity.name).ref
            sums = live_sums(graph.engine.tables.open(ref))
            self._pinned = PinnedTable(Place(graph.uri, wanted.place.storage_options), entity, ref, sums)
            return spark_schema(entity, wanted.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TypeReader(self._require_pinned(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TypeWriter:  # noqa: FBT001 - Spark's signature
        with without_traceback():
            return writer_of(write_options(self.options, overwrite=overwrite), schema)

    def _require_pinned(self) -> PinnedTable:
        with without_traceback():
            if self._pinned is None:
                given = "a graph has its own schema: leave .schema(...) out, and name columns with .option('columns', 'a,b')"
                raise InvalidInput(Kind.INVALID_ARGUMENT, given)
            return self._pinned


class PushingSource(OmniGraphSource):
    """One type of a graph, for sessions that allow filter pushdown. Lance evaluates the filters that mean the same in both."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader(self._require_pinned(), schema)


class TypeReader(DataSourceReader):
    """Reads the pinned table, with one task for each group of fragments."""

    def __init__(self, pinned: PinnedTable, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema
        self._where: str | None = None

    def partitions(self) -> Sequence[InputPartition]:
        with without_traceback():
            return [FragmentPartition(group) for group in groups(self._pinned.open())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches of exactly the columns of `schema`. Runs on an executor."""
        assert isinstance(partition, FragmentPartition)
        pinned, names = self._pinned, self._schema.fieldNames()
        if not partition.group.ids:
            return
        table = pinned.open()
        heavy = set(names) & set(blob_properties(pinned.entity))
        schema = to_arrow_schema(self._schema, timezone="UTC")
        batch_rows = BLOB_BATCH_ROWS if heavy else BATCH_ROWS
        for batch in table.scan(names, where=self._where, batch_rows=batch_rows, fragments=partition.group.ids):
            yield as_spark(batch, schema)


class PushingReader(TypeReader):
    """A reader that pushes filters down to Lance."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        self._where, left = push_down(filters, self._pinned.entity)
        return left


# -- views


def register_views(
    spark: SparkSession,
    graph: str | os.PathLike[str] | Graph,
    *,
    branch: str = MAIN,
    at: At | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Create a view of every type. Returns the names of the views by type: `{"node:Person": "Person"}`.

    A node type and an edge type of the same name become `Likes_node` and `Likes_edge`. All views show one snapshot. Later commits are
    not visible until this is called again.
    """
    from_ = open_for_reading(graph, storage_options)
    snapshot = from_.engine.snapshot(branch, at)
    names = view_names(from_.engine.catalog(snapshot))
    for alias, name in names.items():
        reader = spark.read.format(NAME).option("graph", from_.uri).option("type", alias).option("at", snapshot.commit)
        for key, value in from_.engine.root.storage_options.items():
            reader = reader.option(f"{STORAGE}{key}", value)
        reader.load().createOrReplaceTempView(name)
    return names


def view_names(catalog: Catalog) -> dict[str, str]:
    """Return the name of the view of each type, by alias. Spark ignores case, so names must differ in more than case."""
    times = Counter(entity.name.lower() for entity in catalog.entities)
    names = {
        entity.alias: entity.name if times[entity.name.lower()] == 1 else f"{entity.name}_{entity.kind}" for entity in catalog.entities
    }
    folded = Counter(name.lower() for name in names.values())
    for alias, name in names.items():
        if folded[name.lower()] > 1:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"Spark cannot distinguish the view of {alias} from another one called {name}; read the types one by one",
            )
    return names
