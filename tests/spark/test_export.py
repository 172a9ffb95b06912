"""Exports written by executors: whole or not there, and a graph loaded from one shows what the first one shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.graph import Graph
from omnigraph.spark import GraphLoad, export
from omnigraph.spark.exports import SUCCESS
from tests.spark.world import SCHEMA, make_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return make_world(tmp_path_factory.mktemp("world"))


def test_ndjson_has_the_lines_of_an_export_and_loads_back(spark: SparkSession, world: Graph, tmp_path: Path) -> None:
    done = export(spark, world, tmp_path / "out")
    files = [tmp_path / "out" / name for name in done.files]
    assert sorted(line for file in files for line in file.read_text("utf-8").split("\n") if line) == sorted(world.export())
    assert {file.parent.relative_to(tmp_path / "out").as_posix() for file in files} == {
        *("nodes/Every", "nodes/Likes", "nodes/Nobody", "edges/Likes", "edges/Link")
    }
    assert done.rows == {"node:Every": 59, "node:Likes": 1, "node:Nobody": 0, "edge:Likes": 1, "edge:Link": 3}
    marked = json.loads((tmp_path / "out" / SUCCESS).read_text())
    assert (marked["commit_id"], marked["files"]) == (world.commits(limit=1)[0].id, list(done.files))
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left beside it"

    again = og.init(tmp_path / "again.omni", schema=SCHEMA)
    GraphLoad(spark, again, mode="append").ndjson(*files).commit()
    assert list(again.export()) == list(world.export())


def test_parquet_loads_back(spark: SparkSession, world: Graph, tmp_path: Path) -> None:
    export(spark, world, tmp_path / "out", format="parquet", at=world.commits(limit=1)[0].id)
    again = og.init(tmp_path / "again.omni", schema=SCHEMA)
    load = GraphLoad(spark, again, mode="append")
    for folder in (tmp_path / "out" / "nodes").iterdir():
        load.nodes(folder.name, spark.read.parquet(str(folder)))
    for folder in (tmp_path / "out" / "edges").iterdir():
        load.edges(folder.name, spark.read.parquet(str(folder)))
    load.commit()
    assert list(again.export()) == list(world.export())


def test_only_the_types_named_are_written(spark: SparkSession, world: Graph, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()  # an empty folder is as good as none
    done = export(spark, world.uri, tmp_path / "out", types=["Link"])
    assert done.rows == {"edge:Link": 3}


def test_an_export_is_refused_before_anything_is_written(spark: SparkSession, world: Graph, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(InvalidInput) as caught:
        export(spark, world, tmp_path / "full")
    assert caught.value.kind is Kind.NOT_EMPTY
    with pytest.raises(InvalidInput, match="unknown export type 'Nope'"):
        export(spark, world, tmp_path / "out", types=["Nope"])
    with pytest.raises(InvalidInput, match="format 'csv' is none of ndjson, parquet"):
        export(spark, world, tmp_path / "out", format="csv")
    with pytest.raises(NotFound):
        export(spark, world, tmp_path / "out", branch="nope")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_an_export_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    graph = make_world(tmp_path / "graph")
    row = graph.engine.manifest.snapshot().state.table("node:Every")
    assert row is not None
    for file in (Path(graph.uri) / row.path / "data").glob("*.lance"):
        file.unlink()
    with pytest.raises(og.OmniGraphError):
        export(spark, graph, tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == ["graph"]


def test_the_command_line_exports(spark: SparkSession, world: Graph, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from omnigraph.cli.main import run

    assert run(["spark", "export", world.uri, "--output", str(tmp_path / "out"), "--type", "Link", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["rows"] == {"edge:Link": 3}
    assert run(["spark", "export", world.uri, "--output", str(tmp_path / "out")]) == 1
    assert "is not empty; an export needs a directory of its own" in capfd.readouterr().err
