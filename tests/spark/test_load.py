"""Loads through Spark that are refused, fail, are stopped or run twice: typed errors, nothing visible, no files but unnamed ones."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, NotFound, OmniGraphError, StorageError
from omnigraph.exec.load.load import Progress
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.graph import Graph
from omnigraph.spark import GraphLoad
from tests.loads import FIRST, OVER, SCHEMA, SECOND, ndjson, shown
from tests.orphans import data_files, orphans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA)
    made.load(ndjson(*FIRST), mode="append")
    return made


@contextmanager
def unchanged(graph: Graph) -> Iterator[None]:
    """Commits, rows and files are what they were."""
    before = (graph.engine.manifest.snapshot().commit, shown(graph), data_files(graph))
    yield
    graph.refresh()
    assert (graph.engine.manifest.snapshot().commit, shown(graph), data_files(graph)) == before


def test_a_local_session_binds_to_this_machine_alone_and_has_its_memory(spark: SparkSession) -> None:
    """Settings with a misspelt name are ignored by Spark without a word, so they are read back under Spark's own names."""
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.driver.memory"] == "1g"
    assert "-XX:+UseParallelGC" in settings["spark.driver.extraJavaOptions"]


def written(folder: Path, name: str, body: bytes) -> str:
    path = folder / name
    path.write_bytes(body)
    return str(path)


def test_progress_goes_through_the_stages(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    told: list[Progress] = []
    path = written(tmp_path, "a", ndjson(*SECOND))
    receipt = GraphLoad(spark, graph, mode="append").ndjson(path).commit(on_progress=told.append)
    assert (receipt.nodes, receipt.edges) == ({"Person": 2}, {"Knows": 1})
    assert list(dict.fromkeys(progress.stage for progress in told)) == ["read", "check", "commit"]
    assert (told[-1].rows, told[-1].read_bytes, told[-1].total_bytes) == (3, os.path.getsize(path), os.path.getsize(path))


def test_a_second_run_with_the_token_is_told_the_first_receipt_and_reads_nothing(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """The file may even be gone."""
    path = written(tmp_path, "a", ndjson(*SECOND))
    first = GraphLoad(spark, graph, mode="append", token="once").ndjson(path).commit()
    Path(path).unlink()
    with unchanged(graph):
        assert GraphLoad(spark, graph, mode="append", token="once").ndjson(path).commit() == first


def test_several_files_are_one_commit_on_a_new_branch(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    paths = [written(tmp_path, "a", ndjson(*SECOND)), written(tmp_path, "b.gz", gzip.compress(ndjson(OVER[2])))]
    receipt = GraphLoad(spark, graph, mode="append", branch="new", from_branch="main", actor=None).ndjson(*paths).commit()
    assert receipt.nodes == {"Person": 3}
    assert [row["id"] for row in shown(graph, "new")["node:Person"]] == ["Ada", "Ben", "Cyd", "Dee", "Eve"]
    assert len(shown(graph)["node:Person"]) == 2
    wrong = written(tmp_path, "c", b"\n" + ndjson({"type": "Person", "data": {"name": "Cyd"}}))
    with pytest.raises(InvalidInput) as caught:
        GraphLoad(spark, graph).ndjson(paths[0], wrong).commit()
    assert (caught.value.facts["source"], caught.value.facts["line"]) == (wrong, 2)


@pytest.mark.parametrize("kind", ["nowhere", "folder", "pipe"])
def test_what_is_no_file_is_refused_before_any_task(spark: SparkSession, graph: Graph, tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    with unchanged(graph), pytest.raises(NotFound if kind == "nowhere" else InvalidInput, match=kind):
        GraphLoad(spark, graph).ndjson(path).commit()


DAMAGED = {"gzip": gzip.compress(ndjson(*SECOND))[:-9], "utf-16": ndjson(*SECOND).decode().encode("utf-16")}


@pytest.mark.parametrize("what", [*DAMAGED, "parquet"])
def test_files_that_are_something_else_are_refused_as_one_process_refuses_them(
    spark: SparkSession, graph: Graph, tmp_path: Path, what: str
) -> None:
    path = str(tmp_path / "data")
    if what == "parquet":
        pq.write_table(pa.table({"name": ["Q"]}), path)
    else:
        written(tmp_path, "data", DAMAGED[what])
    with unchanged(graph), pytest.raises(OmniGraphError) as one:
        graph.load(path)
    with unchanged(graph), pytest.raises(OmniGraphError) as many:
        GraphLoad(spark, graph).ndjson(path).commit()
    assert (type(many.value), many.value.kind, many.value.message) == (type(one.value), one.value.kind, one.value.message)
    assert many.value.facts == one.value.facts


def test_a_file_that_executors_do_not_see(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """What other tasks wrote is removed."""
    there, gone = written(tmp_path, "there", ndjson(*SECOND)), written(tmp_path, "gone", ndjson(*SECOND))

    def remove(_: Progress) -> None:
        Path(gone).unlink(missing_ok=True)

    with unchanged(graph), pytest.raises(NotFound, match="all executors must see the files under the same paths") as caught:
        GraphLoad(spark, graph).ndjson(there, gone).commit(on_progress=remove)
    assert caught.value.facts["path"] == gone


def test_records_that_are_refused_leave_no_files(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """Alone wrong in one file of two, and wrong among others."""
    fine, bad = written(tmp_path, "a", ndjson(*SECOND)), written(tmp_path, "b", b"{\n")
    with unchanged(graph), pytest.raises(InvalidInput):
        GraphLoad(spark, graph).ndjson(fine, bad).commit()
    with unchanged(graph), pytest.raises(InvalidInput):
        GraphLoad(spark, graph).ndjson(fine, fine).commit()


def test_a_frame_that_cannot_be_computed(spark: SparkSession, graph: Graph) -> None:
    frame = spark.createDataFrame([("Q", "1900"), ("R", "soon")], "name string, born string").selectExpr("name", "cast(born as int) born")
    before = (graph.engine.manifest.snapshot().commit, shown(graph), data_files(graph))
    with pytest.raises(InvalidInput, match="Spark cannot compute the rows") as caught:
        GraphLoad(spark, graph).nodes("Person", frame).commit()
    graph.refresh()
    assert (graph.engine.manifest.snapshot().commit, shown(graph), data_files(graph) - orphans(graph)) == before
    assert caught.value.facts["condition"] == "CAST_INVALID_INPUT"
    assert len(caught.value.message.splitlines()) == 1


# -- tables


def people_and_knows(folder: Path) -> dict[str, str]:
    """Three persons in three row groups, and who knows whom."""
    pq.write_table(pa.table({"name": ["Cyd", "Dee", "Eve"], "born": [1900, None, 1950]}), folder / "people.parquet", row_group_size=1)
    knows = written(folder, "knows.csv", b"from,to,since\nCyd,Dee,1990\nEve,Ada,\n")
    return {"Person": str(folder / "people.parquet"), "Knows": knows}


def test_tables_are_one_commit(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    told: list[Progress] = []
    tables = people_and_knows(tmp_path)
    load = (
        GraphLoad(spark, graph, mode="append", token="once").tables({"Person": Path(tables["Person"])}).tables({"Knows": tables["Knows"]})
    )
    receipt = load.commit(on_progress=told.append)
    assert (receipt.nodes, receipt.edges) == ({"Person": 3}, {"Knows": 2})
    assert [row["id"] for row in shown(graph)["node:Person"]] == ["Ada", "Ben", "Cyd", "Dee", "Eve"]
    total = sum(map(os.path.getsize, tables.values()))
    assert (told[-1].stage, told[-1].rows, told[-1].read_bytes, told[-1].total_bytes) == ("commit", 5, total, total)
    for path in tables.values():
        Path(path).unlink()
    with unchanged(graph):
        assert GraphLoad(spark, graph, mode="append", token="once").tables(tables).commit() == receipt


def test_tables_that_are_refused_leave_no_files(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """For a record, a column, a key, an endpoint: with the place, as in one process."""
    tables = people_and_knows(tmp_path)
    wrong = {
        "born": "name,born\nZed,soon\n",
        "nick": "name,nick\nZed,z\n",
        "already has this id": "name\nZed\nAda\n",
        "record 2: dst 'nobody' not found": "from,to\nAda,Ben\nBen,nobody\n",
    }
    for told, text in wrong.items():
        bad = {"Knows" if text.startswith("from") else "Person": written(tmp_path, "bad.csv", text.encode())}
        with unchanged(graph), pytest.raises(OmniGraphError, match=told) as one:
            graph.load({**tables, **bad}, mode="append")
        with unchanged(graph), pytest.raises(OmniGraphError, match=told) as many:
            GraphLoad(spark, graph, mode="append").tables({**tables, **bad}).commit()
        assert (type(many.value), many.value.message, many.value.facts) == (type(one.value), one.value.message, one.value.facts)


def test_a_table_that_executors_do_not_see(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """Or see another one under its name."""
    tables = people_and_knows(tmp_path)

    def remove(_: Progress) -> None:
        Path(tables["Knows"]).unlink(missing_ok=True)

    def replace(_: Progress) -> None:
        written(tmp_path, "knows.csv", b"from,to\n")

    for change, error in ((remove, NotFound), (replace, InvalidInput)):
        people_and_knows(tmp_path)
        with unchanged(graph), pytest.raises(error, match="all executors must see the files under the same paths") as caught:
            GraphLoad(spark, graph, mode="append").tables(tables).commit(on_progress=change)
        assert caught.value.facts["path"] == tables["Knows"]


MEANINGLESS: Mapping[str, Callable[[GraphLoad, DataFrame, str], object]] = {
    "nothing": lambda load, frame, path: load.commit(),
    "both": lambda load, frame, path: load.nodes("Person", frame).ndjson(path).commit(),
    "tables too": lambda load, frame, path: load.tables({"Person": path}).ndjson(path).commit(),
    "twice": lambda load, frame, path: load.nodes("Person", frame).nodes("Person", frame),
    "two tables": lambda load, frame, path: load.tables({"Person": path}).tables({"Person": path}),
    "no path": lambda load, frame, path: load.tables({"Person": pa.table({"name": ["Q"]})}),
    "unknown": lambda load, frame, path: load.edges("Person", frame).commit(),
}


@pytest.mark.parametrize("what", MEANINGLESS)
def test_calls_that_mean_nothing(spark: SparkSession, graph: Graph, tmp_path: Path, what: str) -> None:
    frame = spark.createDataFrame([("Q",)], "name string")
    with unchanged(graph), pytest.raises(InvalidInput):
        MEANINGLESS[what](GraphLoad(spark, graph), frame, written(tmp_path, "a", b""))


def test_an_interrupt_stops_the_tasks(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """Files of tasks that were done may be left, unnamed."""

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    before = graph.engine.manifest.snapshot().commit
    with pytest.raises(KeyboardInterrupt):
        GraphLoad(spark, graph).ndjson(written(tmp_path, "a", ndjson(*SECOND))).commit(on_progress=interrupt)
    assert graph.engine.manifest.snapshot().commit == before
    assert GraphLoad(spark, graph, mode="append").ndjson(tmp_path / "a").commit().total == 3


def test_a_task_that_dies_after_it_wrote_leaves_files_that_nobody_names(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """`local[2]` tries once: the job fails, the load with it; the same load again is exact."""
    path = written(tmp_path, "a", ndjson(*SECOND))
    before = (graph.engine.manifest.snapshot().commit, shown(graph))
    spark.sparkContext.environment[ENVIRONMENT] = f"{Fault.SPARK_TASK_WRITTEN}=raise"
    try:
        with pytest.raises(StorageError, match=r"Spark failed: .*spark\.task_written") as caught:
            GraphLoad(spark, graph, mode="append").ndjson(path).commit()
    finally:
        del spark.sparkContext.environment[ENVIRONMENT]
    assert len(caught.value.message.splitlines()) == 1
    assert (graph.engine.manifest.snapshot().commit, shown(graph)) == before
    left = orphans(graph)
    assert len(left) == 2, "one file of persons, one of who knows whom"
    assert GraphLoad(spark, graph, mode="append").ndjson(path).commit().total == 3
    assert len(shown(graph)["node:Person"]) == 4
    assert orphans(graph) == left
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []
