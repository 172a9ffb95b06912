"""`omnigraph spark load`, and which engine `omnigraph load` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.cli import loading
from omnigraph.cli.main import run
from omnigraph.graph import Graph
from tests.loads import FIRST, SCHEMA, SECOND, ndjson, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    (tmp_path / "a.ndjson").write_bytes(ndjson(*FIRST))
    (tmp_path / "b.ndjson").write_bytes(ndjson(*SECOND))
    (tmp_path / "wrong.ndjson").write_bytes(b'{"type": "Nobody"}\n')
    return og.init(tmp_path / "g", schema=SCHEMA)


def test_files_are_loaded_by_spark(spark: SparkSession, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--data", str(tmp_path / "a.ndjson"), "--data", str(tmp_path / "b.ndjson")]
    assert run(["spark", "load", graph.uri, *files, "--mode", "append", "--branch", "new", "--from", "main", "--token", "t", "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["total_entities"], document["branch_created"], document["base_branch"]) == (7, True, "main")
    assert "engine: spark" in said.err
    assert len(shown(graph, "new")["node:Person"]) == 4
    assert run(["spark", "load", graph.uri, *files, "--mode", "append", "--branch", "new", "--token", "t"]) == 0
    assert len(shown(graph, "new")["node:Person"]) == 4


def test_what_is_wrong_goes_to_a_file(spark: SparkSession, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = str(tmp_path / "wrong.ndjson")
    arguments = ["--data", wrong, "--mode", "merge", "--errors", str(tmp_path / "errors.ndjson"), "--engine", "spark"]
    assert run(["load", graph.uri, *arguments]) == 1
    assert "line 1" in capsys.readouterr().err
    (problem,) = map(json.loads, (tmp_path / "errors.ndjson").read_text().splitlines())
    assert (problem["code"], problem["source"], problem["line"]) == ("unknown_type", wrong, 1)


def test_a_large_input_goes_to_spark(spark: SparkSession, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sparse file: some records, and then a gigabyte of zeros."""
    large = tmp_path / "large.ndjson"
    large.write_bytes(ndjson(*FIRST))
    with large.open("r+b") as file:
        file.truncate(loading.LOCAL_BYTES + 1)
    assert run(["load", graph.uri, "--data", str(large), "--mode", "append", "--report-errors", "1"]) == 1, "zeros are no lines of JSON"
    assert "engine: spark, because of 1.0 GB of input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data", "-", "--engine", "spark"],
        ["--data", "Person=x.csv", "--master", "local[1]"],
        ["--data", "a.ndjson", "--engine", "spark", "--dry-run"],
        ["--data", "a.ndjson", "--engine", "local", "--master", "local[1]"],
        ["--data", "a.ndjson", "--data", "b.ndjson"],
    ],
)
def test_what_does_not_go_together(graph: Graph, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", graph.uri, "--mode", "append", *arguments]) == 1
    assert "engine" in capsys.readouterr().err
    assert shown(graph)["node:Person"] == []
