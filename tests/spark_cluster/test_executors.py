"""Executors whose Python is not ours: without our package, without what it needs."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Unsupported
from omnigraph.graph import Graph
from omnigraph.spark import GraphLoad
from tests.loads import FIRST, SCHEMA, ndjson, shown
from tests.orphans import data_files
from tests.spark_cluster.cluster import Cluster, connected

pytestmark = pytest.mark.spark


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    (tmp_path / "a.ndjson").write_bytes(ndjson(*FIRST))
    return og.init(tmp_path / "g", schema=SCHEMA)


def python(folder: Path, *, without: tuple[str, ...]) -> str:
    """An interpreter that has the packages of this one, but neither ours nor these."""
    packages = folder / "packages"
    packages.mkdir()
    for found in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not found.name.startswith(("omnigraph", *without)):
            (packages / found.name).symlink_to(found)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sysconfig.get_paths()["scripts"]}/python -S "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_our_package_is_sent_where_it_is_missing(cluster: Cluster, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", python(tmp_path, without=()))
    with connected(cluster) as spark:
        assert GraphLoad(spark, graph).ndjson(tmp_path / "a.ndjson").commit().total == len(FIRST)
        people = spark.createDataFrame([("Q",)], "name string")
        assert GraphLoad(spark, graph).nodes("Person", people).commit().total == 1
    graph.refresh()
    assert [row["id"] for row in shown(graph)["node:Person"]] == ["Ada", "Ben", "Q"]


@pytest.mark.parametrize("missing", ["lance", "pyarrow"])
def test_what_cannot_be_sent_is_named(
    cluster: Cluster, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", python(tmp_path, without=(missing,)))
    with connected(cluster) as spark, pytest.raises(Unsupported, match="install omnigraph") as caught:
        GraphLoad(spark, graph).ndjson(tmp_path / "a.ndjson").commit()
    assert caught.value.facts["module"] == missing
    assert data_files(graph) == set()
    assert os.path.exists(tmp_path / "a.ndjson")
