"""A load through Spark Connect: no JVM in the client's process, so no context and no RDD."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import omnigraph as og
from tests.loads import FIRST, SCHEMA, SECOND, ndjson, shown
from tests.spark_cluster.cluster import ROOT

CLIENT = """
import sys
from pyspark.sql import SparkSession
from omnigraph.spark import GraphLoad
from omnigraph.spark.driver import is_connect

spark = SparkSession.builder.remote("local[2]").config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
assert is_connect(spark)
uri, *paths = sys.argv[1:]
GraphLoad(spark, uri, mode="append").ndjson(*paths).commit(on_progress=lambda _: None)
people = spark.createDataFrame([("Eve",), ("Fay",)], "name string")
print(GraphLoad(spark, uri, mode="append").nodes("Person", people).commit().total)
spark.stop()
"""


def test_a_load_through_connect(tmp_path: Path) -> None:
    """In a process of its own: one that has a classic session cannot have one of Connect too."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, records in zip(paths, (FIRST, SECOND), strict=True):
        path.write_bytes(ndjson(*records))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", CLIENT, graph.uri, *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.stdout.split()[-1:] == ["2"], done.stderr[-3000:]
    graph.refresh()
    assert len(shown(graph)["node:Person"]) == 6
