"""One type of a graph as a data frame: what is read, of which version, and what is told when it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.errors import InvalidInput, NotFound, OmniGraphError, StorageError, Unsupported
from omnigraph.graph import Graph, init
from omnigraph.spark import export, register
from omnigraph.spark.options import read_options, write_options
from omnigraph.spark.sessions import PUSHDOWN
from omnigraph.spark.source import OmniGraphSource
from omnigraph.store.fragments import groups
from tests.spark.world import link, make_world, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BLOBS = ("data",)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return make_world(tmp_path_factory.mktemp("world"))


def frame(spark: SparkSession, graph: Graph, type_: str, **options: str) -> DataFrame:
    return spark.read.format("omnigraph").options(graph=graph.uri, type=type_, **options).load()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: str(row["id"]))


def test_a_frame_has_every_row_and_value_of_its_type(spark: SparkSession, world: Graph) -> None:
    found = rows_of(frame(spark, world, "Every"))
    assert found == [{name: value for name, value in row.items() if name not in BLOBS} for row in stored(world, "node:Every")]
    assert len(found) == 59


def test_columns_are_those_named_in_that_order_and_only_so_are_blobs_read(spark: SparkSession, world: Graph) -> None:
    found = frame(spark, world, "Every", columns="data, at,id")
    assert found.columns == ["data", "at", "id"]
    expected = [{name: row[name] for name in ("data", "at", "id")} for row in stored(world, "node:Every")]
    assert [{**row, "data": bytes(row["data"]) if row["data"] is not None else None} for row in rows_of(found)] == expected


def test_types_and_nullability_are_those_of_the_schema(spark: SparkSession, world: Graph) -> None:
    types = {field.name: (field.dataType.simpleString(), field.nullable) for field in frame(spark, world, "Every").schema}
    assert types == {
        "id": ("string", False),
        "key": ("string", False),
        "text": ("string", True),
        "flag": ("boolean", True),
        "small": ("int", True),
        "wide": ("bigint", True),
        "count": ("bigint", True),
        "huge": ("decimal(20,0)", True),
        "half": ("float", True),
        "real": ("double", True),
        "day": ("date", True),
        "at": ("timestamp", True),
        "mood": ("string", True),
        "texts": ("array<string>", True),
        "numbers": ("array<decimal(20,0)>", True),
        "times": ("array<timestamp>", True),
        "vec": ("array<float>", True),
    }


def test_a_type_without_rows_is_an_empty_frame(spark: SparkSession, world: Graph) -> None:
    assert frame(spark, world, "Nobody").collect() == []


def test_a_frame_reads_the_version_it_was_made_at_whatever_is_committed_after(spark: SparkSession, tmp_path: Path) -> None:
    graph = make_world(tmp_path)
    before, commit, version = stored(graph, "edge:Link"), graph.commits(limit=1)[0], graph.snapshot().manifest_version
    made = frame(spark, graph, "Link")
    graph.load([link(1, 2)])
    graph.branches.create("review")
    graph.load([link(2, 3)], branch="review")
    assert rows_of(made) == before
    assert len(rows_of(frame(spark, graph, "Link"))) == len(before) + 1
    assert len(rows_of(frame(spark, graph, "edge:Link", branch="review"))) == len(before) + 2
    for at in (commit.id, str(version), commit.created_at.isoformat()):
        assert rows_of(frame(spark, graph, "Link", at=at)) == before
    on_review = graph.commits("review", limit=1)[0]
    assert len(rows_of(frame(spark, graph, "Link", at=on_review.id))) == len(before) + 2


def test_filters_that_lance_can_judge_leave_nothing_for_spark_to_do(spark: SparkSession, world: Graph) -> None:
    made = frame(spark, world, "Every")
    taken = made.where("small > 0 and text like 'a%' and day <= date'2024-02-29' and huge in (1, 18446744073709551615) and flag")
    left = made.where("small > 0 and real < 1.0")
    assert "Filter (" not in plan(taken)
    assert "Filter (" in plan(left)
    assert "small" not in plan(left).split("Filter (")[1].splitlines()[0]
    assert rows_of(left) == [row for row in rows_of(made) if (row["small"] or 0) > 0 and row["real"] is not None and row["real"] < 1.0]


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_a_session_that_pushes_no_filters_gives_the_same_rows(spark: SparkSession, world: Graph, caplog: pytest.LogCaptureFixture) -> None:
    spark.conf.set(PUSHDOWN, "false")
    try:
        register(spark)
        assert "evaluated after the rows are read" in caplog.text
        there = frame(spark, world, "Every", columns="id,small").where("small > 0")
        assert "Filter (" in plan(there)
        kept = [{"id": row["id"], "small": row["small"]} for row in stored(world, "node:Every") if (row["small"] or 0) > 0]
        assert rows_of(there) == kept
    finally:
        spark.conf.set(PUSHDOWN, "true")
        register(spark)


def test_a_second_session_of_an_application_is_told_to_use_the_first(spark: SparkSession) -> None:
    with pytest.raises(Unsupported, match="only one session"):
        register(spark.newSession())


def test_small_fragments_are_read_together(world: Graph) -> None:
    row = world.engine.manifest.snapshot().state.table("node:Every")
    assert row is not None
    table = world.engine.tables.open(row.ref)
    alone, together = groups(table, group_rows=1), groups(table)
    assert len(alone) > 2
    assert [part for group in alone for part in group.ids] == list(together[0].ids)
    assert sum(group.rows for group in alone) == together[0].rows == 59


# -- refusals


WRONG: tuple[tuple[dict[str, str], type[OmniGraphError], str], ...] = (
    ({"type": "Evry"}, InvalidInput, "unknown type 'Evry'"),
    ({"type": "Likes"}, InvalidInput, "use 'node:Likes' or 'edge:Likes'"),
    ({"type": "Every", "columns": "id,ky"}, InvalidInput, "node type 'Every' has no column 'ky'; it has id, "),
    ({"type": "Every", "columns": "id,id"}, InvalidInput, "'id' is named twice"),
    ({"type": "Every", "branch": "nope"}, NotFound, "there is no branch 'nope'"),
    ({"type": "Every", "colums": "id"}, InvalidInput, "unknown option 'colums': a read takes graph, type, branch, at, columns"),
    ({"type": "Every", "branch": "main", "at": "3"}, InvalidInput, "not both"),
    ({"type": "Every", "at": "yesterday"}, InvalidInput, "no commit id, manifest version or time"),
    ({"type": "Every", "at": "999"}, NotFound, "no manifest version 999"),
    ({"type": "Every", "at": "2026-01-01T00:00:00"}, InvalidInput, "no time zone"),
    ({"type": "Every", "at": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, NotFound, "no commit '01ARZ3NDEKTSV4RRFFQ69G5FAV'"),
    ({}, InvalidInput, "the option 'type' is missing"),
    ({"type": "Every", "graph": "/nowhere.omni"}, NotFound, "there is no graph at /nowhere.omni"),
    ({"type": "Every", "path": "/elsewhere.omni"}, InvalidInput, "the graph is named twice"),
)


@pytest.mark.parametrize(("options", "error", "told"), WRONG, ids=[told[:24] for _, _, told in WRONG])
def test_what_is_wrong_with_a_read_is_told_when_it_is_loaded(
    world: Graph, options: dict[str, str], error: type[OmniGraphError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # what Spark's own process would be told is undone here
    with pytest.raises(error) as caught:
        OmniGraphSource(options={"graph": world.uri, **options}).schema()
    assert told in caught.value.message


def test_spark_tells_what_is_wrong_in_our_words_without_a_traceback(spark: SparkSession, world: Graph) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        frame(spark, world, "Evry")
    assert "InvalidInput: unknown type 'Evry': the schema has no node or edge type of that name" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    with pytest.raises(AnalysisException, match=r"leave \.schema\(\.\.\.\) out"):
        spark.read.format("omnigraph").options(graph=world.uri, type="Every").schema("a int").load().collect()


def test_the_graph_may_be_told_as_a_path_and_storage_options_after_a_prefix() -> None:
    asked = read_options({"path": "s3://bucket/g", "type": "Every", "storage.aws_region": "x"})
    assert asked.place.uri == "s3://bucket/g"
    assert asked.place.storage_options == {"aws_region": "x"}
    assert "aws_region" not in repr(asked), "options may be secrets"


@pytest.mark.parametrize(
    ("overwrite", "mode"), [(True, "merge"), (True, "append"), (False, "overwrite"), (True, "upsert"), (False, "replace")]
)
def test_modes_that_contradict_each_other_are_refused(overwrite: bool, mode: str) -> None:
    with pytest.raises(InvalidInput, match=r"do not go together|none of"):
        write_options({"graph": "g", "type": "T", "mode": mode}, overwrite=overwrite)


def test_a_changed_byte_stops_the_task_that_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    """INV-13: executors get the checksums from the driver."""
    graph = init(tmp_path / "g", schema="node Doc { slug: String @key  text: String? }")
    graph.load([{"type": "Doc", "data": {"slug": f"d{n}", "text": f"some text {n}"}} for n in range(1_000)])
    (file,) = Path(graph.uri).glob("nodes/*/data/*.lance")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 0x10
    file.write_bytes(data)
    with pytest.raises(Exception, match="was recorded"):
        frame(spark, graph, "Doc").collect()
    with pytest.raises(StorageError, match="was recorded"):
        export(spark, graph.uri, tmp_path / "out", format="ndjson")
    assert not (tmp_path / "out").exists()
