"""A graph through Spark Connect: no JVM in the client's process, so no context and no RDD."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.loads import FIRST, SCHEMA, SECOND, ndjson, shown
from tests.spark_cluster.cluster import ROOT

pytestmark = pytest.mark.spark

CLIENT = """
import json
import sys
from pyspark.sql import SparkSession
from omnigraph.spark import GraphLoad, export, register_views
from omnigraph.spark.runner import is_connect
from omnigraph.spark.sessions import register

spark = SparkSession.builder.remote("local[2]").config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
assert is_connect(spark)
uri, folder, table, *paths = sys.argv[1:]
said = {}
GraphLoad(spark, uri, mode="append").ndjson(*paths).commit(on_progress=lambda _: None)
people = spark.createDataFrame([("Eve", 1950), ("Fay", None)], "name string, born int")
receipt = GraphLoad(spark, uri, mode="append").nodes("Person", people).commit()
said["frames"] = receipt.total
said["tables"] = GraphLoad(spark, uri, mode="append").tables({"Person": table}).commit().total

register(spark)


def read(**options):
    return spark.read.format("omnigraph").options(graph=uri, **options).load()


def names(frame):
    return sorted(row.name for row in frame.collect())


said["all"] = names(read(type="Person"))
said["filtered"] = names(read(type="Person", columns="name,born").where("born > 1850 and name like '%e'"))
spark.createDataFrame([("Gus",)], "name string").write.format("omnigraph").options(graph=uri, type="Person").mode("append").save()
said["written"] = names(read(type="Person").where("name = 'Gus'"))
said["before"] = names(read(type="Person", at=receipt.commit.id))
try:
    read(type="Persn").columns  # on Connect a load waits until somebody wants to know
except Exception as error:
    said["refused"] = str(error)
said["views"] = register_views(spark, uri)
said["joined"] = spark.sql("SELECT count(*) FROM Knows JOIN Person ON src = Person.id").collect()[0][0]
said["exported"] = export(spark, uri, folder, types=["Knows"]).rows
spark.stop()
print(json.dumps(said))
"""


def test_loads_reads_writes_and_exports_through_connect(tmp_path: Path) -> None:
    """In a process of its own: one that has a classic session cannot have one of Connect too."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, records in zip(paths, (FIRST, SECOND), strict=True):
        path.write_bytes(ndjson(*records))
    (tmp_path / "people.csv").write_text("name,born\nZoe,1901\n")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", CLIENT, graph.uri, str(tmp_path / "out"), str(tmp_path / "people.csv"), *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert "unknown type 'Persn'" in said.pop("refused")
    everybody = ["Ada", "Ben", "Cyd", "Dee", "Eve", "Fay", "Zoe"]
    assert said == {
        "frames": 2,
        "tables": 1,
        "all": everybody,
        "filtered": ["Eve", "Zoe"],
        "written": ["Gus"],
        "before": everybody[:-1],
        "views": {"node:Person": "Person", "node:Note": "Note", "edge:Knows": "Knows", "edge:Wrote": "Wrote"},
        "joined": 2,
        "exported": {"edge:Knows": 2},
    }
    graph.refresh()
    assert [row["id"] for row in shown(graph)["node:Person"]] == sorted([*everybody, "Gus"])
