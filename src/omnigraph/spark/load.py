"""Data frames, NDJSON files or tables, and a graph -> one commit by Spark, with the rules, receipts and errors of `Graph.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.load import Intake, OnProgress
from omnigraph.exec.problems import REPORTED
from omnigraph.graph import Graph, LoadReceipt, open_
from omnigraph.ids import MAIN
from omnigraph.spark.intake import FilesIntake, FramesIntake, TablesIntake
from omnigraph.spark.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class GraphLoad:
    """A load on Spark. Add a data frame or a table of each type, or NDJSON files, then call `commit`. Nothing is read before `commit`."""

    def __init__(
        self,
        spark: SparkSession,
        graph: str | os.PathLike[str] | Graph,
        *,
        branch: str = MAIN,
        from_branch: str | None = None,
        mode: str = "merge",
        actor: str | None = None,
        token: str | None = None,
        message: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._graph = graph if isinstance(graph, Graph) else open_(graph, actor=actor, storage_options=storage_options)
        self._branch = branch
        self._from_branch = from_branch
        self._mode = mode
        self._token = token
        self._message = message
        self._frames: dict[str, DataFrame] = {}
        self._files: list[str] = []
        self._tables: dict[str, str] = {}

    def nodes(self, type_: str, frame: DataFrame) -> Self:
        """Add rows of a node type: a column for each property, and optionally `id`."""
        return self._add(f"node:{type_}", frame)

    def edges(self, type_: str, frame: DataFrame) -> Self:
        """Add rows of an edge type: `from` and `to` (or `src` and `dst`), a column for each property, and optionally `id`."""
        return self._add(f"edge:{type_}", frame)

    def ndjson(self, *paths: str | os.PathLike[str]) -> Self:
        """Add NDJSON files, as for `Graph.load`. All executors must have access to these paths."""
        self._files += [os.fspath(path) for path in paths]
        return self

    def tables(self, tables: Mapping[str, str | os.PathLike[str]]) -> Self:
        """Add a `.parquet` or `.csv` file for each type, as `{"Person": "people.parquet"}`. All executors must have access to them."""
        for type_, path in tables.items():
            if not isinstance(path, str | os.PathLike):
                what = f"the table of {type_} is a {type(path).__name__}; give the path of a file, or a data frame to nodes or edges"
                raise InvalidInput(Kind.INVALID_ARGUMENT, what, type=type_)
            if type_ in self._tables:
                raise InvalidInput(Kind.INVALID_ARGUMENT, f"{type_} is named twice; a type has one table", type=type_)
            self._tables[type_] = os.fspath(path)
        return self

    def commit(self, *, report_errors: int = REPORTED, on_progress: OnProgress | None = None) -> LoadReceipt:
        """Read, check and write all rows, in one commit. If a check fails, nothing is committed."""
        return self._graph.load_intake(
            self._intake(),
            self._mode,
            branch=self._branch,
            from_branch=self._from_branch,
            token=self._token,
            message=self._message,
            report_errors=report_errors,
            on_progress=on_progress,
        )

    def _intake(self) -> Intake:
        if [bool(self._frames), bool(self._files), bool(self._tables)].count(True) != 1:
            one = "a Spark load takes data frames (nodes, edges), NDJSON files (ndjson) or tables: give exactly one of the three"
            raise InvalidInput(Kind.INVALID_ARGUMENT, one)
        runner, engine = Runner(self._spark), self._graph.engine
        if self._frames:
            return FramesIntake(runner, engine, self._frames)
        return FilesIntake(runner, engine, self._files) if self._files else TablesIntake(runner, engine, self._tables)

    def _add(self, name: str, frame: DataFrame) -> Self:
        if name in self._frames:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{name} is named twice; union the data frames first", type=name)
        self._frames[name] = frame
        return self
