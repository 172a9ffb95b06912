"""Rows, vectors and NDJSON -> one validated commit through Spark, beside Parquet files that Spark writes without checks.

Each case runs in a process of its own on two cores. CPU time is that of the process tree (this Python, the JVM, Python workers), and the
median of three runs on a session that has already run a twentieth of the work. Targets: rows at most 1.3 times the CPU of Parquet, vectors
below it, NDJSON not above the reader of Spark.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.child import Cost, cost_of, tree_cpu_seconds
from bench.report import save
from bench.scenario import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
VECTORS = 1_000_000
DIMENSION = 64
TIMES = 3
ITEMS = "node Item { name: String @key  amount: I64  price: F64  kind: String  day: Date }"
DOCUMENTS = f"node Document {{ name: String @key  embedding: Vector({DIMENSION}) }}"
PERSON = ("name", "age", "status", "score", "city")
JSON_SCHEMA = (
    "type string, edge string, `from` string, `to` string, data struct<name: string, age: int, status: string, score: double, "
    "city: string, since: int, weight: double>"
)


class Case(NamedTuple):
    """One measured function with its arguments, the case it is compared with, and the maximum ratio of CPU times."""

    name: str
    function: Callable[..., dict[str, float]]
    arguments: tuple[str, ...]
    against: str | None = None
    target: float | None = None


def items(spark: SparkSession, rows: str) -> DataFrame:
    return spark.range(int(rows)).selectExpr(
        "concat('item-', lpad(CAST(id AS STRING), 10, '0')) AS name",
        "id * 7919 % 100003 AS amount",
        "rand(7) * 1000 AS price",
        "concat('kind-', id % 17) AS kind",
        "date_add(DATE'2020-01-01', CAST(id % 2000 AS INT)) AS day",
    )


def documents(spark: SparkSession, rows: str) -> DataFrame:
    vector = f"transform(sequence(1, {DIMENSION}), i -> CAST((id * 31 + i * 17) % 1009 / 1009 AS FLOAT)) AS embedding"
    return spark.range(int(rows)).selectExpr("concat('doc-', lpad(CAST(id AS STRING), 10, '0')) AS name", vector)


FRAMES = {"Item": (ITEMS, items), "Document": (DOCUMENTS, documents)}


def frame_to_parquet(folder: str, type_: str, rows: str) -> dict[str, float]:
    _, frame = FRAMES[type_]
    return on_spark(lambda spark, name, rows: frame(spark, rows).write.parquet(f"{folder}/{name}"), _few(rows), rows)


def frame_to_graph(folder: str, type_: str, rows: str) -> dict[str, float]:
    import omnigraph as og
    from omnigraph.spark import GraphLoad

    schema, frame = FRAMES[type_]

    def work(spark: SparkSession, name: str, rows: str) -> None:
        graph = og.init(f"{folder}/{name}", schema=schema)
        GraphLoad(spark, graph, mode="append").nodes(type_, frame(spark, rows)).commit()

    return on_spark(work, _few(rows), rows)


def ndjson_to_parquet(folder: str, file: str) -> dict[str, float]:
    """Read with a given schema, so that Spark reads the text once for each type. Keys, endpoints and ranges are not checked."""

    def work(spark: SparkSession, name: str, file: str) -> None:
        records = spark.read.schema(JSON_SCHEMA).json(file)
        people = records.where("type = 'Person'")
        people.selectExpr("data.name AS id", *(f"data.{column}" for column in PERSON)).write.parquet(f"{folder}/{name}/people")
        knows = records.where("edge = 'Knows'").selectExpr("uuid() AS id", "`from` AS src", "`to` AS dst", "data.since", "data.weight")
        knows.write.parquet(f"{folder}/{name}/knows")

    return on_spark(work, _head(folder, file), file)


def ndjson_to_graph(folder: str, file: str) -> dict[str, float]:
    import omnigraph as og
    from omnigraph.spark import GraphLoad

    def work(spark: SparkSession, name: str, file: str) -> None:
        graph = og.init(f"{folder}/{name}", schema=load.SCHEMA)
        GraphLoad(spark, graph, mode="append").ndjson(file).commit()

    return on_spark(work, _head(folder, file), file)


def ndjson_in_process(folder: str, file: str) -> dict[str, float]:
    import omnigraph as og

    graph = og.init(f"{folder}/graph", schema=load.SCHEMA)
    return _measured(lambda: graph.load(file, mode="append"))


def on_spark(work: Callable[[SparkSession, str, str], object], little: str, whole: str) -> dict[str, float]:
    """Measure the work on a session that has run a little of it. Returns the median of a few runs, because the time that Java spends
    on compilation varies.
    """
    from omnigraph.spark import session

    with tempfile.NamedTemporaryFile() as log:
        spark = session(master="local[2]", log_file=log.name)
    try:
        work(spark, "little", little)
        runs = [_measured(partial(work, spark, f"whole-{at}", whole)) for at in range(TIMES)]
        return sorted(runs, key=lambda run: run["cpu_seconds"])[TIMES // 2]
    finally:
        spark.stop()


def _few(rows: str) -> str:
    return str(int(rows) // 20)


def _head(folder: str, file: str) -> str:
    """Write the first twentieth of a file, which has only nodes, to a file."""
    with open(file, "rb") as whole, open(f"{folder}/little.ndjson", "wb") as little:
        text = whole.read(os.path.getsize(file) // 20)
        little.write(text[: text.rindex(b"\n") + 1])
    return little.name


def _measured(work: Callable[[], object]) -> dict[str, float]:
    began, cpu = time.monotonic(), tree_cpu_seconds()
    work()
    return {"wall_seconds": time.monotonic() - began, "cpu_seconds": tree_cpu_seconds() - cpu}


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--vectors", type=int, default=VECTORS)
    parser.add_argument("--file", type=Path, help="an NDJSON file of bench.scenario.load; written if not given")
    parser.add_argument("--only", choices=("rows", "vectors", "ndjson"))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        file = chosen.file
        if file is None and chosen.only in (None, "ndjson"):
            file = Path(name) / "people.ndjson"
            load.write_file(file, nodes=load.NODES, edges=load.EDGES)
        cases = [case for case in cases_of(chosen.rows, chosen.vectors, file) if chosen.only is None or case.name.startswith(chosen.only)]
        busy = os.getloadavg()[0]
        results = [_run(case, Path(name)) for case in cases]
    facts = _shown(cases, results)
    save("scenario-spark", {"rows": chosen.rows, "vectors": chosen.vectors, "load_average": busy, "cases": facts})


def cases_of(rows: int, vectors: int, file: Path) -> list[Case]:
    return [
        Case("rows: Spark -> Parquet", frame_to_parquet, ("Item", str(rows))),
        Case("rows: Spark -> omnigraph", frame_to_graph, ("Item", str(rows)), "rows: Spark -> Parquet", 1.3),
        Case("vectors: Spark -> Parquet", frame_to_parquet, ("Document", str(vectors))),
        Case("vectors: Spark -> omnigraph", frame_to_graph, ("Document", str(vectors)), "vectors: Spark -> Parquet", 1.0),
        Case("ndjson: spark.read.json -> Parquet", ndjson_to_parquet, (str(file),)),
        Case("ndjson: Spark -> omnigraph", ndjson_to_graph, (str(file),), "ndjson: spark.read.json -> Parquet", 1.0),
        Case("ndjson: omnigraph in one process", ndjson_in_process, (str(file),), "ndjson: spark.read.json -> Parquet"),
    ]


def _run(case: Case, folder: Path) -> Cost:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return cost_of(case.name, case.function, place, *case.arguments)


def _shown(cases: Sequence[Case], costs: Sequence[Cost]) -> list[dict[str, object]]:
    by_name = {cost.name: cost.result for cost in costs}
    facts: list[dict[str, object]] = []
    for case in cases:
        mine = by_name[case.name]
        fact: dict[str, object] = {"name": case.name, **mine}
        line = f"  {case.name:36s} wall {mine['wall_seconds']:7.2f} s   CPU {mine['cpu_seconds']:7.2f} s"
        if case.against is not None:
            ratio = mine["cpu_seconds"] / by_name[case.against]["cpu_seconds"]
            fact |= {"against": case.against, "cpu_ratio": ratio, "target": case.target}
            line += f"   {ratio:.2f} times the CPU of Parquet" + (f" (target: at most {case.target:g})" if case.target is not None else "")
        print(line)
        facts.append(fact)
    return facts
