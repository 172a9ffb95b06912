"""`omnigraph spark load`, and which engine `omnigraph load` takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli import load as loading
from omnigraph.cli.main import run
from omnigraph.graph import Graph
from tests.loads import FIRST, SCHEMA, SECOND, ndjson, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, which has no session yet."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "omnigraph.cli.main", "spark", "load", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_what_spark_says_is_not_on_the_screen(graph: Graph, tmp_path: Path) -> None:
    done = alone(tmp_path, graph.uri, "--data", str(tmp_path / "a.ndjson"), "--mode", "append", "--master", "local[1]")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["engine: spark, as requested", f"omnigraph spark load → {graph.uri} (direct, local)"]
    assert list(tmp_path.glob("omnigraph-spark-*")) == []


def test_a_session_that_does_not_start_says_why(graph: Graph, tmp_path: Path) -> None:
    done = alone(tmp_path, graph.uri, "--data", str(tmp_path / "a.ndjson"), "--mode", "append", "--master", "local[x")
    assert done.returncode == 1
    assert "Error: Spark did not start with master 'local[x': Could not parse Master URL" in done.stderr
    assert "\tat " not in done.stderr, "no page of Java's words"
    (log,) = tmp_path.glob("omnigraph-spark-*")
    assert f"the log of Spark is in {log}" in done.stderr
    assert "SparkException" in log.read_text()


def test_a_file_that_is_not_there_is_told_before_spark_starts(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spark", "load", graph.uri, "--data", "Person=nowhere.csv", "--mode", "append"]) == 1
    said = capsys.readouterr().err
    assert "there is no file 'nowhere.csv'" in said
    assert "engine: spark" not in said


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


def test_tables_are_loaded_by_spark(spark: SparkSession, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As often as there are types; a kind before the name says which of two types is meant."""
    pq.write_table(pa.table({"name": ["Ada", "Ben", "Cyd"], "born": [1815, 1900, None]}), tmp_path / "people.parquet", row_group_size=1)
    (tmp_path / "knows.csv").write_text("from,to,since\nAda,Ben,1990\n")
    files = ["--data", f"node:Person={tmp_path / 'people.parquet'}", "--data", f"Knows={tmp_path / 'knows.csv'}"]
    assert run(["spark", "load", graph.uri, *files, "--mode", "append", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["total_entities"] == 4
    assert "engine: spark" in said.err
    assert [row["id"] for row in shown(graph)["node:Person"]] == ["Ada", "Ben", "Cyd"]
    (tmp_path / "knows.csv").write_text("from,to,since\nAda,Ben,soon\nAda,,1990\n")
    arguments = ["--mode", "merge", "--engine", "spark", "--errors", str(tmp_path / "errors.ndjson")]
    assert run(["load", graph.uri, *files, *arguments]) == 1
    problems = [json.loads(line) for line in (tmp_path / "errors.ndjson").read_text().splitlines()]
    assert [(problem["code"], problem["source"], problem["record"]) for problem in problems] == [
        ("type", str(tmp_path / "knows.csv"), 1),
        ("envelope", str(tmp_path / "knows.csv"), 2),
    ]


def test_large_tables_go_to_spark(spark: SparkSession, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sparse files of half a gigabyte and a little more: together they are too much for one process."""
    for name in ("Person", "Knows"):
        with (tmp_path / f"{name}.parquet").open("wb") as file:
            file.truncate(loading.LOCAL_BYTES // 2 + 1)
    files = ["--data", f"Person={tmp_path / 'Person.parquet'}", "--data", f"Knows={tmp_path / 'Knows.parquet'}"]
    assert run(["load", graph.uri, *files, "--mode", "append"]) == 1, "zeros are no Parquet"
    said = capsys.readouterr().err
    assert "engine: spark, because of 1.0 GB of input" in said
    assert f"{tmp_path / 'Person.parquet'}: cannot be read" in said


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["--data", "-", "--engine", "spark"], "use --engine local for stdin", 1),
        (["--data", "Person=x.csv", "--data", "a.ndjson", "--master", "local[1]"], "not both", 1),
        (["--data", "Person=x.csv", "--data", "Person=y.csv", "--engine", "spark"], "no type twice", 1),
        (["--data", "Person=x.csv", "--data", "Person=y.csv"], "no type twice", 1),
        (["--data", "a.ndjson", "--engine", "spark", "--dry-run"], "leave out --engine spark", 1),
        (["--data", "a.ndjson", "--engine", "local", "--master", "local[1]"], "--engine local does not use it", 2),
        (["--data", "a.ndjson", "--data", "-"], "stdin (-) cannot be loaded together with files", 1),
    ],
)
def test_what_does_not_go_together(graph: Graph, arguments: list[str], told: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["load", graph.uri, "--mode", "append", *arguments]) == code
    assert told in capsys.readouterr().err
    assert shown(graph)["node:Person"] == []
