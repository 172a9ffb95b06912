"""Tables loaded by the tasks of a Spark load, run here one by one, and in one process: the same graph, or the same refusal."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.exec.load.tablefiles import SLICE_ROWS, TablePart, open_table, table_parts
from omnigraph.exec.problems import ProblemCode
from omnigraph.graph import Graph
from omnigraph.spark.intake import TablesIntake
from tests.loads import ndjson
from tests.table_worlds import TableWorld, table_world
from tests.unit.spark.here import Here, loaded
from tests.worlds import BASE, SCHEMA, Outcome, outcome

SEEDS = range(45)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = og.init(tmp_path_factory.mktemp("graph") / "g", schema=SCHEMA)
    made.load(ndjson(*BASE), mode="append")
    return made


def both(graph: Graph, name: str, given: TableWorld) -> tuple[Outcome, Outcome]:
    """Loaded in one process, and by tasks."""
    for branch in (f"{name}-one", f"{name}-many"):
        graph.branches.create(branch)
    whole = {type_: TablePart(path, path, slice_rows=given.slice_rows) for type_, path in given.tables.items()}
    intake = TablesIntake(Here(), graph.engine, given.tables, part_bytes=given.part_bytes, slice_rows=given.slice_rows)
    return (
        outcome(graph, f"{name}-one", lambda: graph.load(whole, given.mode, branch=f"{name}-one", report_errors=given.report_errors)),
        outcome(
            graph,
            f"{name}-many",
            lambda: loaded(graph, intake, given.mode, branch=f"{name}-many", report_errors=given.report_errors),
        ),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_and_one_process_do_the_same(graph: Graph, tmp_path: Path, seed: int) -> None:
    one, many = both(graph, f"s{seed}", table_world(seed, tmp_path))
    assert many == one
    assert seed % 5 not in (0, 3) or one.error is None, "right rows are loaded"
    assert seed % 5 not in (2, 4) or one.error is not None, "wrong rows are refused"


def test_a_report_that_is_full_in_a_later_slice_counts_alike(graph: Graph, tmp_path: Path) -> None:
    """Bad rows in slices of two rows, in parts of one and of several slices: the report is full somewhere, and the count stops there."""
    texts = [None if row % 3 == 1 else f"t{row}" for row in range(40)]
    path = str(tmp_path / "notes.parquet")
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, row_group_size=2)
    counts = set()
    for report_errors in (1, 2, 3, 5, 8, 13):
        for part_bytes in (1, 1 << 10, 1 << 20):
            given = TableWorld({"Note": path}, "append", part_bytes, 4, report_errors)
            one, many = both(graph, f"full-{report_errors}-{part_bytes}", given)
            assert many == one
            counts.add(str(one.error))
    assert len(counts) == 6


def test_a_csv_of_several_blocks_counts_alike(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("text,weight\n" + "".join(f'"long {"x" * 1000}\n{row}",{"soon" if row % 700 == 5 else 1}\n' for row in range(3000)))
    for report_errors in (1, 2, 100):
        given = TableWorld({"Note": str(path)}, "append", 1, SLICE_ROWS, report_errors)
        one, many = both(graph, f"blocks-{report_errors}", given)
        assert many == one
        assert one.error is not None


def test_a_report_that_is_full_hides_what_comes_later(graph: Graph, tmp_path: Path) -> None:
    """As in one process: a reader that has stopped does not meet the damaged row group, nor the columns of the next table."""
    path, next_ = tmp_path / "notes.parquet", tmp_path / "people.csv"
    table = pa.table({"text": pa.array([None, *(f"{'x' * 500}{row}" for row in range(40))], pa.string())})
    pq.write_table(table, path, row_group_size=5, compression="none", use_dictionary=False)
    body = bytearray(path.read_bytes())
    body[len(body) // 2 : len(body) // 2 + 600] = b"\xff" * 600
    path.write_bytes(body)
    next_.write_text("nope\n1\n")
    kinds = []
    for report_errors in (1, 100):
        given = TableWorld({"Note": str(path), "Person": str(next_)}, "append", 1, 5, report_errors)
        one, many = both(graph, f"hidden-{report_errors}", given)
        assert many == one
        assert one.error is not None
        kinds.append("cannot be read" in one.error[2])
    assert kinds == [False, True]


# -- files that are no tables

PEOPLE = pa.table({"name": ["Ada", "Ben"], "born": [1815, 1900]})


def _nowhere(path: Path) -> None:
    """Nothing is there."""


def _damaged(path: Path) -> None:
    pq.write_table(PEOPLE, path)
    path.write_bytes(path.read_bytes()[:-20])


NO_TABLES: Mapping[str, Callable[[Path], object]] = {
    "nowhere.parquet": _nowhere,
    "folder.csv": Path.mkdir,
    "people.json": lambda path: path.write_text("{}"),
    "damaged.parquet": _damaged,
    "empty.parquet": Path.touch,
    "empty.csv": Path.touch,
    "ragged.csv": lambda path: path.write_text("name,born\nAda\n"),
    "latin.csv": lambda path: path.write_bytes("name\nZoë\n".encode("latin-1")),
    "no.csv.zst": lambda path: path.write_bytes(b"what is this?"),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_is_refused_alike_wherever_it_is_named(graph: Graph, tmp_path: Path, name: str) -> None:
    """Also behind a table whose rows are wrong: all files are opened before any is read."""
    NO_TABLES[name](tmp_path / name)
    (tmp_path / "notes.csv").write_text("text\n\n,\n")
    pq.write_table(pa.table({"text": pa.array([None], pa.string())}), tmp_path / "notes.parquet")
    wrong = {"Note": str(tmp_path / "notes.parquet"), "Person": str(tmp_path / name)}
    for number, tables in enumerate(({"Person": wrong["Person"]}, wrong)):
        one, many = both(graph, f"{name}{number}".replace(".", "-"), TableWorld(tables, "merge", 1, SLICE_ROWS, 1))
        assert many == one
        assert one.error is not None
        assert name in one.error[2]


def test_names_that_are_no_types_are_refused_alike(graph: Graph, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    for number, name in enumerate(("Persn", "edge:Person", "node:knows", "")):
        one, many = both(graph, f"named{number}", TableWorld({name: str(tmp_path / "people.parquet")}, "merge", 1, SLICE_ROWS, 1))
        assert many == one
        assert one.error is not None


def test_a_file_that_is_another_when_a_task_reads_it_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(PEOPLE, path)
    (part,) = table_parts(str(path))
    pq.write_table(pa.concat_tables([PEOPLE] * 3), path, row_group_size=1)
    with pytest.raises(OmniGraphError, match="was changed after the load began"):
        open_table(part)


# -- slices


@pytest.mark.parametrize("seed", range(20))
def test_the_slices_of_the_parts_are_the_slices_of_the_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    groups = [chance.choice((1, 1, 2, 3, 7, 20)) for _ in range(chance.randrange(0, 12))]
    path, rows = str(tmp_path / "t.parquet"), iter(range(1000))
    schema = pa.schema({"n": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for size in groups:
            writer.write_table(pa.table({"n": [next(rows) for _ in range(size)]}, schema=schema), row_group_size=size)
    for slice_rows in (1, 2, 5, 8, 100):
        whole = [batch.column(0).to_pylist() for batch in open_table(TablePart(path, path, slice_rows=slice_rows)).batches]
        assert [number for slice_ in whole for number in slice_] == list(range(sum(groups)))
        assert all(len(slice_) <= slice_rows for slice_ in whole)
        for part_bytes in (1, 400, 1 << 20):
            opened = [open_table(part) for part in table_parts(path, part_bytes=part_bytes, slice_rows=slice_rows)]
            read = [[batch.column(0).to_pylist() for batch in part.batches] for part in opened]
            assert [slice_ for part in read for slice_ in part] == whole
            assert all(part[0][0] + 1 == one.first_record for one, part in zip(opened, read, strict=True) if part)
    assert len(table_parts(path, part_bytes=1, slice_rows=1)) == max(len(groups), 1)


def test_the_seeds_meet_the_codes_that_tables_can_have(graph: Graph, tmp_path: Path) -> None:
    """All but those of JSON, of its lines, and of types, which tables name outside of their rows."""
    met: set[ProblemCode] = set()
    for seed in SEEDS:
        given = table_world(seed, tmp_path)
        try:
            graph.load(given.tables, given.mode, dry_run=True)
        except OmniGraphError as refused:
            problems: Any = refused.facts["problems"]
            met |= {problem.code for problem in problems}
    assert set(ProblemCode) - met == {ProblemCode.ENCODING, ProblemCode.JSON, ProblemCode.LINE_LIMIT, ProblemCode.UNKNOWN_TYPE}
