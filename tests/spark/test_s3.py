"""A graph in S3 under Spark: loaded, read, written and exported with options that reach the executors and show nowhere."""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.errors import InvalidInput, KeyConflict, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.spark import GraphLoad, export, register_views
from omnigraph.spark.exports import SUCCESS
from omnigraph.spark.options import STORAGE, read_options, write_options
from omnigraph.store.objects import open_objects
from tests.loads import FIRST, OVER, SCHEMA, SECOND, ndjson, shown
from tests.s3 import SECRET_KEY, S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.s3]

PEOPLE = "name string, born int"


@pytest.fixture
def graph(s3_server: S3Server, s3_uri: str) -> Graph:
    made = og.init(s3_uri, schema=SCHEMA, storage_options=s3_server.storage_options)
    made.load(ndjson(*FIRST), mode="append")
    return made


def options(graph: Graph, type_: str, **more: str) -> dict[str, str]:
    storage = {f"{STORAGE}{name}": value for name, value in graph.engine.manifest.root.storage_options.items()}
    return {"graph": graph.uri, "type": type_, **storage, **more}


def frame(spark: SparkSession, graph: Graph, type_: str, **more: str) -> DataFrame:
    return spark.read.format("omnigraph").options(**options(graph, type_, **more)).load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=str)


def names(graph: Graph, branch: str = "main") -> list[str]:
    return [row["name"] for row in shown(graph, branch)["node:Person"]]


def data_files(graph: Graph) -> set[str]:
    """Every object under the data folders of tables and of their native branches."""
    objects = graph.engine.manifest.root.objects
    found, folders = set(), [row.path for row in graph.snapshot().tables]
    while folders:
        for entry in objects.list(folders.pop()):
            if entry.endswith("/"):
                folders.append(entry.rstrip("/"))
            elif "/data/" in entry:
                found.add(entry)
    return found


@contextmanager
def unchanged(graph: Graph) -> Iterator[None]:
    """Commits, rows and objects are what they were."""
    before = (graph.commits(limit=1), shown(graph), data_files(graph))
    yield
    graph.refresh()
    assert (graph.commits(limit=1), shown(graph), data_files(graph)) == before


def written(folder: Path, name: str, body: bytes) -> str:
    (folder / name).write_bytes(body)
    return str(folder / name)


# -- loads


def test_records_frames_and_tables_are_loaded(spark: SparkSession, graph: Graph, s3_server: S3Server, tmp_path: Path) -> None:
    """Also on a branch, which has no tables of its own before."""

    def load(branch: str = "main") -> GraphLoad:
        return GraphLoad(spark, graph.uri, mode="append", branch=branch, storage_options=s3_server.storage_options)

    paths = [written(tmp_path, "a", ndjson(*SECOND)), written(tmp_path, "b", ndjson(OVER[2]))]
    assert load().ndjson(*paths).commit().total == 4
    people = spark.createDataFrame([("Fay", 1950), ("Gus", None)], PEOPLE).repartition(2)
    knows = spark.createDataFrame([("Fay", "Ada")], "from string, to string")
    assert load().nodes("Person", people).edges("Knows", knows).commit().total == 3
    graph.branches.create("work")
    pq.write_table(pa.table({"name": ["Hal", "Ida"]}), tmp_path / "people.parquet", row_group_size=1)
    tables: dict[str, str | PathLike[str]] = {
        "Person": tmp_path / "people.parquet",
        "Knows": written(tmp_path, "knows.csv", b"from,to\nHal,Ida\n"),
    }
    assert load("work").tables(tables).commit().total == 3
    graph.refresh()
    assert names(graph) == ["Ada", "Ben", "Cyd", "Dee", "Eve", "Fay", "Gus"]
    assert names(graph, "work") == [*names(graph), "Hal", "Ida"]
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


def test_what_is_refused_leaves_no_objects(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    """For a record in one of two files, for a key, for an endpoint; on a branch too, which would have needed tables of its own."""
    fine, bad = written(tmp_path, "a", ndjson(*SECOND)), written(tmp_path, "b", b"{\n")
    with unchanged(graph), pytest.raises(InvalidInput):
        GraphLoad(spark, graph).ndjson(fine, bad).commit()
    with unchanged(graph), pytest.raises(KeyConflict):
        GraphLoad(spark, graph, mode="append").nodes("Person", spark.createDataFrame([("Zed", 1900), ("Ada", 1900)], PEOPLE)).commit()
    graph.branches.create("work")
    knows = {"Knows": written(tmp_path, "knows.csv", b"from,to\nAda,nobody\n")}
    with unchanged(graph), pytest.raises(InvalidInput, match="record 1: dst 'nobody' not found"):
        GraphLoad(spark, graph, branch="work").tables(knows).commit()


# -- the data source


def test_a_type_is_read_by_columns_filter_branch_and_commit(spark: SparkSession, graph: Graph) -> None:
    first = graph.commits(limit=1)[0].id
    graph.branches.create("work")
    graph.load(ndjson(*SECOND), mode="append", branch="work")
    old = frame(spark, graph, "Person", columns="name,born", branch="work").where("born < 1900")
    assert rows(old) == [{"name": "Ada", "born": 1815}]
    assert len(rows(frame(spark, graph, "Knows", at=graph.commits("work", limit=1)[0].id))) == 2
    assert len(rows(frame(spark, graph, "Knows", at=first))) == 1
    register_views(spark, graph, branch="work")
    assert spark.sql("SELECT count(*) FROM Knows JOIN Person ON src = Person.id").collect()[0][0] == 2


def test_a_type_is_written(spark: SparkSession, graph: Graph) -> None:
    from pyspark.errors import PySparkException

    def write(people: DataFrame, **more: str) -> None:
        people.write.format("omnigraph").options(**options(graph, "Person", **more)).mode("append").save()

    write(spark.createDataFrame([("Cyd", 1900), ("Dee", None)], PEOPLE).repartition(2), actor="act-etl", token="once")
    graph.refresh()
    assert names(graph) == ["Ada", "Ben", "Cyd", "Dee"]
    with unchanged(graph):
        write(spark.createDataFrame([("Cyd", 1900)], PEOPLE), token="once")
    with unchanged(graph), pytest.raises(PySparkException, match=r"record 1.*nothing was written"):
        write(spark.createDataFrame([("Eve", 1)], PEOPLE))
    with unchanged(graph), pytest.raises(PySparkException, match="KeyConflict"):
        write(spark.createDataFrame([("Eve", 1900), ("Ada", 1900)], PEOPLE))


# -- exports


def test_an_export_goes_to_a_disk_and_to_s3(
    spark: SparkSession, graph: Graph, s3_server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    storage = s3_server.storage_options
    done = export(spark, graph, tmp_path / "disk")
    lines = [line for name in done.files for line in (tmp_path / "disk" / name).read_text("utf-8").splitlines()]
    assert sorted(lines) == sorted(graph.export())

    folder = s3_server.new_prefix()
    there = export(spark, graph.uri, folder, format="parquet", types=["Person"], storage_options=storage)
    objects = open_objects(folder, storage_options=storage)
    assert json.loads(objects.get(SUCCESS))["files"] == list(there.files)
    read = pa.concat_tables(pq.read_table(io.BytesIO(objects.get(name))) for name in there.files)
    assert sorted(read.column("name").to_pylist()) == ["Ada", "Ben"]
    with pytest.raises(InvalidInput, match="is not empty"):
        export(spark, graph, folder, storage_options=storage)

    given = [argument for name, value in storage.items() for argument in ("--storage-option", f"{name}={value}")]
    another = s3_server.new_prefix()
    assert run([*given, "spark", "export", graph.uri, "--output", another, "--type", "Knows", "--json"]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["rows"] == {"edge:Knows": 1}
    assert SECRET_KEY not in said.out + said.err


# -- secrets


def test_the_options_show_in_no_error(spark: SparkSession, graph: Graph, s3_server: S3Server, tmp_path: Path) -> None:
    """With the key of somebody who may read and not write, tasks fail; with a wrong secret nothing can be read."""
    from pyspark.errors import PySparkException

    reader, path = s3_server.reader_options, written(tmp_path, "c", ndjson(*OVER))
    with unchanged(graph), pytest.raises(OmniGraphError) as denied:
        GraphLoad(spark, graph.uri, storage_options=reader).ndjson(path).commit()
    wrong = {**s3_server.storage_options, "aws_secret_access_key": f"{SECRET_KEY}-another"}
    with pytest.raises(OmniGraphError) as unknown:
        GraphLoad(spark, graph.uri, storage_options=wrong)
    with pytest.raises(PySparkException) as unread:
        frame(spark, graph, "Person", **{f"{STORAGE}aws_secret_access_key": f"{SECRET_KEY}-another"})
    as_reader = options(graph, "Person", **{f"{STORAGE}aws_access_key_id": reader["aws_access_key_id"]})
    write = spark.createDataFrame([("Zed", 1900)], PEOPLE).write.format("omnigraph").options(**as_reader).mode("append")
    with unchanged(graph), pytest.raises(PySparkException) as unwritten:
        write.save()
    with pytest.raises(OmniGraphError) as unexported:
        export(spark, graph, s3_server.new_prefix(), storage_options=reader)
    for caught in (denied, unknown, unread, unwritten, unexported):
        said = "".join(traceback.format_exception(caught.value)) + repr(getattr(caught.value, "facts", ""))
        assert SECRET_KEY not in said


def test_the_options_show_in_no_plan_and_no_repr(spark: SparkSession, graph: Graph) -> None:
    """Also not in the plans that Spark remembers, of which its UI and its event log are made."""
    asked = read_options(options(graph, "Person"))
    wanted = write_options(options(graph, "Person"), overwrite=False)
    made = frame(spark, graph, "Person").where("born < 1900")
    with redirect_stdout(io.StringIO()) as plan:
        for mode in ("extended", "codegen", "cost", "formatted"):
            made.explain(mode=mode)
    people = spark.createDataFrame([("Zed", 1900)], PEOPLE)
    people.write.format("omnigraph").options(**options(graph, "Person")).mode("append").save()
    GraphLoad(spark, graph, mode="merge").nodes("Person", people).commit()
    remembered = _remembered(spark)
    assert "AppendData omnigraph" in remembered
    assert "MapInArrow" in remembered
    reprs = [repr(one) for one in (asked, wanted, asked.place, GraphLoad(spark, graph), graph, graph.engine.manifest.root, made)]
    assert SECRET_KEY not in "\n".join([plan.getvalue(), remembered, *reprs])


def _remembered(spark: SparkSession) -> str:
    """The plans of everything that the session ran."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList().iterator()
    found = []
    while executions.hasNext():
        found.append(executions.next().physicalPlanDescription())
    return "\n".join(found)
