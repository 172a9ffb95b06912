"""A load through Spark and the same load in one process: equal graphs, equal counts, equal refusals.

tests/unit/spark has the same for more files, with the tasks run in one process.
"""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.exec.load.tablefiles import TablePart
from omnigraph.graph import Graph, LoadReceipt
from omnigraph.spark import GraphLoad
from omnigraph.spark.intake import FilesIntake, TablesIntake
from omnigraph.spark.runner import Runner
from tests.loads import ndjson
from tests.table_worlds import table_world
from tests.unit.spark.here import loaded
from tests.worlds import BASE, SCHEMA, Outcome, in_file, outcome, world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SEEDS = range(100, 150)
TABLE_SEEDS = range(100, 115)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = og.init(tmp_path_factory.mktemp("graph") / "g", schema=SCHEMA)
    made.load(ndjson(*BASE), mode="append")
    return made


@pytest.fixture(scope="module")
def runner(spark: SparkSession) -> Runner:
    return Runner(spark)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file(graph: Graph, runner: Runner, tmp_path: Path, seed: int) -> None:
    given = world(seed)
    path = in_file(tmp_path, given.data)
    one, many = f"file{seed}-one", f"file{seed}-many"
    for branch in (one, many):
        graph.branches.create(branch)
    part_bytes = max(given.part_bytes, len(given.data) // 12)  # a task a part: more of them only take longer
    expected = outcome(graph, one, lambda: graph.load(path, given.mode, branch=one, report_errors=given.report_errors))
    intake = FilesIntake(runner, graph.engine, [path], part_bytes=part_bytes)
    assert expected == outcome(graph, many, lambda: loaded(graph, intake, given.mode, branch=many, report_errors=given.report_errors))


# -- tables


@pytest.mark.parametrize("seed", TABLE_SEEDS)
def test_tables(graph: Graph, runner: Runner, tmp_path: Path, seed: int) -> None:
    given = table_world(seed, tmp_path)
    one, many = f"tables{seed}-one", f"tables{seed}-many"
    for branch in (one, many):
        graph.branches.create(branch)
    whole = {type_: TablePart(path, path, slice_rows=given.slice_rows) for type_, path in given.tables.items()}
    intake = TablesIntake(runner, graph.engine, given.tables, part_bytes=given.part_bytes, slice_rows=given.slice_rows)
    expected = outcome(graph, one, lambda: graph.load(whole, given.mode, branch=one, report_errors=given.report_errors))
    assert expected == outcome(graph, many, lambda: loaded(graph, intake, given.mode, branch=many, report_errors=given.report_errors))


# -- data frames

PEOPLE = "name string, born int, email string, mood string, tags array<string>, seen timestamp, day date, near array<float>"
NOTES = "id string, text string, weight double, blob binary"
KNOWS = "`from` string, `to` string, since bigint"


def people(chance: random.Random, *, wrong: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [(f"p{n}", 1900 + n, f"p{n}@x", "glad", ["a"], None, None, [0.5, float(n)]) for n in range(12)]
    faults: list[tuple[Any, ...]] = [
        ("early", 1, None, None, None, None, None, None),
        ("bored", None, None, "bored", None, None, None, None),
        ("mail", None, "nobody", None, None, None, None, None),
        ("short", None, None, None, None, None, None, [1.0]),
        ("hole", None, None, None, ["a", None], None, None, None),
        (None, 1900, None, None, None, None, None, None),
    ]
    for fault in chance.choices(faults, k=wrong):
        rows.insert(chance.randrange(len(rows) + 1), fault)
    return rows


def frames(spark: SparkSession, seed: int) -> dict[str, DataFrame]:
    """Frames of a few partitions; in two of three something is wrong with a row, in one of nine among the rows."""
    chance = random.Random(seed)
    rows = people(chance, wrong=(0, 2, 7)[seed % 3])
    notes = [(f"n{n}" if n % 2 else None, f"text {n}", 0.5, b"bytes") for n in range(5)]
    pairs: list[tuple[Any, ...]] = [("p0", "p1", 1990), ("p2", "p3", 2**31 if seed % 6 == 1 else 5)]
    if seed % 9 == 0:
        pairs += [("p4", "nobody", None), ("p0", "p1", None)]
    sizes = {"node:Person": (rows, PEOPLE), "node:Note": (notes, NOTES), "edge:Knows": (pairs, KNOWS)}
    return {name: _in_partitions(spark, found, schema, chance.choice((1, 2, 4))) for name, (found, schema) in sizes.items()}


def _in_partitions(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, count: int) -> DataFrame:
    """The rows in this order, in so many partitions, some of which may have none."""
    size = -(-len(rows) // count)
    parts = [spark.createDataFrame(rows[at : at + size], schema).coalesce(1) for at in range(0, len(rows), size)]
    return reduce(lambda left, right: left.union(right), parts)


def frames_loaded(
    spark: SparkSession, graph: Graph, given: dict[str, DataFrame], mode: str, branch: str, report_errors: int
) -> LoadReceipt:
    load = GraphLoad(spark, graph, mode=mode, branch=branch)
    for name, frame in given.items():
        kind, _, type_ = name.partition(":")
        load = load.nodes(type_, frame) if kind == "node" else load.edges(type_, frame)
    return load.commit(report_errors=report_errors)


def both(
    spark: SparkSession, graph: Graph, name: str, given: dict[str, DataFrame], mode: str, report_errors: int
) -> tuple[Outcome, Outcome]:
    one, many = f"{name}-one", f"{name}-many"
    for branch in (one, many):
        graph.branches.create(branch)
    # In one piece: a load in one process stops after the piece of a table in which its report is full.
    tables: dict[str, pa.Table] = {type_: frame.toArrow().combine_chunks() for type_, frame in given.items()}
    return (
        outcome(graph, one, lambda: graph.load(tables, mode, branch=one, report_errors=report_errors)),
        outcome(graph, many, lambda: frames_loaded(spark, graph, given, mode, many, report_errors)),
    )


@pytest.mark.parametrize("seed", range(12))
def test_data_frames(spark: SparkSession, graph: Graph, seed: int) -> None:
    mode = ("append", "merge", "upsert", "upsert")[seed % 4]
    one, many = both(spark, graph, f"frames{seed}", frames(spark, seed), mode, (1, 3, 100)[seed % 3])
    assert many == one
    assert (many.error is None) == (seed % 3 == 0 and seed % 9 != 0)


WRONG_COLUMNS = {
    "unknown": "name string, nope int",
    "missing": "born int",
    "of another type": "name string, born array<int>",
    "several": "name int, nope int, mood array<string>",
    "decimal": "name string, born decimal(10,2)",
}


@pytest.mark.parametrize("what", WRONG_COLUMNS)
def test_columns_that_do_not_suit_are_told_once(spark: SparkSession, graph: Graph, what: str) -> None:
    empty = spark.createDataFrame([], WRONG_COLUMNS[what]).repartition(3)
    notes = spark.createDataFrame([("a", "fine", 0.5, None)], NOTES)
    one, many = both(spark, graph, f"columns-{what.replace(' ', '-')}", {"node:Person": empty, "node:Note": notes}, "merge", 100)
    assert many == one
    assert one.error is not None


def test_a_frame_without_rows_names_its_type(spark: SparkSession, graph: Graph) -> None:
    """Overwritten with nothing, a type has nothing."""
    given = {"edge:Knows": spark.createDataFrame([], KNOWS)}
    one, many = both(spark, graph, "empty", given, "overwrite", 100)
    assert many == one
    assert one.counts == ({}, {"Knows": 0}, 0)
