"""`spark.read.format("omnigraph")` and `df.write.format("omnigraph")`: one type of a graph as a data frame, and back in one commit.

Spark makes one of these objects in a Python process of its own when `load` is called; that process opens the graph and pins the version
that every task will read, whatever is committed meanwhile. It then travels, pickled, to the process that plans and to the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.load.tabular import entity_named
from omnigraph.graph import open_
from omnigraph.spark.columns import as_spark, spark_schema
from omnigraph.spark.filters import pushed
from omnigraph.spark.options import Place, read_options, write_options
from omnigraph.spark.parts import FragmentGroup, groups
from omnigraph.spark.plainly import plainly
from omnigraph.spark.work import tables_of
from omnigraph.spark.writer import TypeWriter, writer_of
from omnigraph.store.tables import TableRef

NAME: Final = "omnigraph"
BATCH_ROWS: Final = 32_768
BLOB_BATCH_ROWS: Final = 64
"""Rows of a batch: few when they carry blobs, which may be large."""


class Pinned(msgspec.Struct, frozen=True):
    """What is read: one table at one version, and the type that its columns had then."""

    place: Place
    entity: EntityType
    ref: TableRef


class Rows(InputPartition):
    """What one task reads."""

    def __init__(self, group: FragmentGroup) -> None:
        super().__init__(group.ids)
        self.group = group


class OmniGraphSource(DataSource):
    """One type of a graph. All filters are judged by Spark: it runs on sessions that do not push filters to Python sources."""

    _pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Opens the graph and pins what will be read: called once, by `load`."""
        with plainly():
            asked = read_options(self.options)
            graph = open_(asked.place.uri, mode="r", storage_options=asked.place.storage_options)
            snapshot = graph._snapshot(asked.branch, asked.at)
            entity = entity_named(asked.type, graph._catalog(snapshot))
            self._pinned = Pinned(Place(graph.uri, asked.place.storage_options), entity, snapshot.table_of(entity.id, name=entity.name).ref)
            return spark_schema(entity, asked.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TypeReader(self._what(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TypeWriter:  # noqa: FBT001 - Spark calls it
        with plainly():
            return writer_of(write_options(self.options, overwrite=overwrite), schema)

    def _what(self) -> Pinned:
        with plainly():
            if self._pinned is None:
                given = "a graph has its own schema: leave .schema(...) out, and name columns with .option('columns', 'a,b')"
                raise InvalidInput(Kind.INVALID_ARGUMENT, given)
            return self._pinned


class PushingSource(OmniGraphSource):
    """The same, with filters judged by Lance where both would judge alike. Spark wants it allowed by the session."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader(self._what(), schema)


class TypeReader(DataSourceReader):
    """Reads the pinned table, a group of fragments a task."""

    def __init__(self, pinned: Pinned, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema
        self._where: str | None = None

    def partitions(self) -> Sequence[InputPartition]:
        with plainly():
            place = self._pinned.place
            return [Rows(group) for group in groups(tables_of(place.uri, place.storage_options).open(self._pinned.ref))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: Arrow batches of exactly the columns that Spark was told of."""
        assert isinstance(partition, Rows)
        pinned, names = self._pinned, self._schema.fieldNames()
        if not partition.group.ids:
            return
        table = tables_of(pinned.place.uri, pinned.place.storage_options).open(pinned.ref)
        heavy = set(names) & set(blob_properties(pinned.entity))
        schema = to_arrow_schema(self._schema, timezone="UTC")
        batch_rows = BLOB_BATCH_ROWS if heavy else BATCH_ROWS
        for batch in table.scan(names, where=self._where, batch_rows=batch_rows, fragments=partition.group.ids):
            yield as_spark(batch, schema)


class PushingReader(TypeReader):
    """A reader that takes over what filters it can."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        self._where, left = pushed(filters, self._pinned.entity)
        return left
