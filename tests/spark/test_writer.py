"""A data frame as one commit of one type: the modes, the refusals, and what is left behind when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, KeyConflict, Kind
from omnigraph.exec.problems import REPORTED
from omnigraph.graph import Graph
from omnigraph.spark import GraphLoad
from omnigraph.spark.messages import StageFrame, encode_reply
from omnigraph.spark.options import write_options
from omnigraph.spark.tasks import stage_rows
from omnigraph.spark.writer import TaskMessage, TypeWriter, writer_of
from tests.loads import SCHEMA, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "name string, born int, mood string"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": name, "email": f"{name}@x"}} for name in ("Ada", "Ben")])
    return graph


def write(frame: DataFrame, graph: Graph, type_: str, spark_mode: str = "append", **options: str) -> None:
    frame.write.format("omnigraph").options(graph=graph.uri, type=type_, **options).mode(spark_mode).save()


def people(graph: Graph, branch: str = "main") -> dict[str, Any]:
    return {row["name"]: (row["born"], row["email"]) for row in shown(graph, branch)["node:Person"]}


def data_files(graph: Graph) -> set[Path]:
    return {path for path in Path(graph.uri).rglob("*.lance") if path.parent.name == "data" and "__manifest" not in path.parts}


def patches(graph: Graph) -> list[Path]:
    return list(Path(graph.uri).rglob("*.patch"))


def test_each_write_is_one_commit_in_its_mode(spark: SparkSession, graph: Graph) -> None:
    rows = spark.createDataFrame([("Cyd", 1900, "glad"), ("Dee", None, None)], PEOPLE).repartition(2)
    write(rows, graph, "Person", actor="act-etl", message="two more", token="once")
    assert people(graph) == {"Ada": (None, "Ada@x"), "Ben": (None, "Ben@x"), "Cyd": (1900, None), "Dee": (None, None)}
    (last, *before) = graph.commits()
    assert (last.actor, last.message, len(before)) == ("act-etl", "two more", 2)

    files = data_files(graph)
    write(rows, graph, "Person", token="once")  # a retry of a write that had landed
    assert graph.commits()[0] == last
    assert data_files(graph) == files

    write(spark.createDataFrame([("Ada", 1815, "glad")], PEOPLE), graph, "Person", mode="merge")
    assert people(graph)["Ada"] == (1815, None), "the new row replaces the old one, whole"
    assert len(graph.commits()) == len(before) + 2

    write(spark.createDataFrame([("Ben", 1890), ("Eve", 1901)], "name string, born int").repartition(2), graph, "Person", mode="upsert")
    assert people(graph)["Ben"] == (1890, "Ben@x"), "what has no column is kept"
    assert people(graph)["Eve"] == (1901, None)
    assert patches(graph) == []

    write(spark.createDataFrame([("Ada", "Cyd")], "from string, to string"), graph, "Knows")
    write(spark.createDataFrame([("Ada", 1815, None), ("Cyd", 1901, None)], PEOPLE), graph, "Person", "overwrite")
    assert people(graph) == {"Ada": (1815, None), "Cyd": (1901, None)}
    assert len(shown(graph)["edge:Knows"]) == 1
    assert graph.verify() == []


def test_the_first_write_on_a_branch_forks_the_table(spark: SparkSession, graph: Graph) -> None:
    graph.branches.create("review")
    write(spark.createDataFrame([("Cyd", 1900, "glad")], PEOPLE), graph, "Person", branch="review")
    assert set(people(graph)) == {"Ada", "Ben"}
    assert set(people(graph, "review")) == {"Ada", "Ben", "Cyd"}
    assert graph.verify() == []


def test_a_frame_that_was_read_can_be_written_back(spark: SparkSession, tmp_path: Path) -> None:
    from tests.spark.world import make_world, stored

    world = make_world(tmp_path)
    before = stored(world, "node:Every")
    columns = ",".join(name for name in before[0])
    read = spark.read.format("omnigraph").options(graph=world.uri, type="Every", columns=columns).load()
    write(read, world, "Every", "overwrite")
    assert stored(world, "node:Every") == before


def test_rows_that_break_a_rule_are_named_and_nothing_lands(spark: SparkSession, graph: Graph) -> None:
    from pyspark.errors import PySparkException

    files, commits = data_files(graph), graph.commits()
    bad = spark.createDataFrame([("Cyd", 1900, "glad"), ("Dee", 1, "odd")], PEOPLE).coalesce(1)
    with pytest.raises(PySparkException) as caught:
        write(bad, graph, "Person")
    assert "<node:Person>, record 2" in str(caught.value)
    assert "nothing was written" in str(caught.value)
    with pytest.raises(PySparkException, match="KeyConflict"):
        write(spark.createDataFrame([("Ada", 1900, "glad")], PEOPLE), graph, "Person")
    assert data_files(graph) == files
    assert graph.commits() == commits


def test_columns_that_do_not_fit_are_refused_before_any_task_runs(spark: SparkSession, graph: Graph) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        write(spark.createDataFrame([("Cyd", "x")], "name string, nick string"), graph, "Person")
    assert "unknown input field 'nick' for 'node:Person'" in str(caught.value)
    assert "Traceback" not in str(caught.value)


# -- the parts of a write, one by one


def staged(graph: Graph, name: str = "Cyd", mode: str = "append") -> tuple[TypeWriter, TaskMessage]:
    """A writer and the answer of its one task, as they would be after the task ran."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField("name", StringType())])
    writer = writer_of(write_options({"graph": graph.uri, "type": "Person", "mode": mode}, overwrite=False), schema)
    batch = pa.record_batch({"name": [name]})
    answer = stage_rows(StageFrame(writer._job, "node:Person", REPORTED), 0, [batch])
    return writer, TaskMessage(encode_reply(answer))


def test_a_failed_task_takes_the_files_of_the_others_with_it(graph: Graph) -> None:
    files = data_files(graph)
    writer, told = staged(graph)
    assert len(data_files(graph)) == len(files) + 1
    writer.abort([told, None])
    assert data_files(graph) == files


def test_a_failed_task_takes_the_patches_of_the_others_with_it(graph: Graph) -> None:
    writer, told = staged(graph, "Ada", mode="upsert")
    assert len(patches(graph)) == 1
    writer.abort([told, None])
    assert patches(graph) == []


def test_an_upsert_that_was_overtaken_keeps_what_came_meanwhile(graph: Graph) -> None:
    writer, told = staged(graph, "Ada", mode="upsert")
    graph.load([{"type": "Person", "data": {"name": "Ada", "born": 1815, "email": "new@x"}}])
    writer.commit([told])
    assert people(graph)["Ada"] == (1815, "new@x")
    assert patches(graph) == []


def test_an_abort_after_a_commit_was_tried_removes_nothing(graph: Graph) -> None:
    """Spark aborts when the answer of a commit is lost, too, and then the rows may be in the graph."""
    writer, told = staged(graph)
    writer.commit([told])
    writer.abort([told])
    assert "Cyd" in people(graph)
    assert graph.verify() == []


def test_a_commit_that_was_overtaken_is_checked_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # what Spark's own process would be told is undone here
    (writer, told), (late, late_told) = staged(graph), staged(graph)
    writer.commit([told])
    with pytest.raises(KeyConflict):
        late.commit([late_told])
    other, other_told = staged(graph, "Dee")
    graph.load([{"type": "Note", "data": {"text": "meanwhile"}}])
    other.commit([other_told])
    assert set(people(graph)) == {"Ada", "Ben", "Cyd", "Dee"}


def test_a_schema_that_changed_meanwhile_refuses_the_commit(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    files = data_files(graph)
    writer, told = staged(graph)
    graph.apply_schema(SCHEMA + "node Later { name: String @key }\n")
    with pytest.raises(ConflictError) as caught:
        writer.commit([told])
    assert caught.value.kind is Kind.SCHEMA_CHANGED
    assert data_files(graph) == files


def test_vectors_and_blobs_that_rows_leave_out_come_from_the_settings_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a data source in a process of its own, and by frames: the provider embeds, and an allowed blob is copied."""
    (tmp_path / "reel").write_bytes(b"reel")
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key  text: String  vec: Vector(4) @embed(text)  body: Blob? }")
    rows = [("a", "one", str(tmp_path / "reel")), ("b", "two", None)]
    frame = spark.createDataFrame(rows, "slug string, text string, body string")
    with pytest.raises(Exception, match="configure an embedding provider, or give the vector"):
        write(frame, graph, "Doc")
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    monkeypatch.setenv("OMNIGRAPH_EXTERNAL_BLOBS", str(tmp_path))
    there = og.open(graph.uri)
    GraphLoad(spark, there, mode="append").nodes("Doc", frame).commit()
    here = og.init(tmp_path / "here", schema=graph.schema)
    here.load([{"type": "Doc", "data": {"slug": slug, "text": text, "body": body}} for slug, text, body in rows], "append")
    assert list(there.export()) == list(here.export())
    assert there.blob("node", "Doc", "a", "body").read() == b"reel"
