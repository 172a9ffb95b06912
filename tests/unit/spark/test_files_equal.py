"""The tasks of a Spark load, run here one by one, and a load in one process: the same graph, or the same refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.load.parts import CHUNK_BYTES, blocks_of, count_lines, parts_of, read_part
from omnigraph.exec.problems import ProblemCode
from omnigraph.graph import Graph
from omnigraph.spark.intake import FilesIntake
from tests.loads import ndjson
from tests.samples import sample
from tests.unit.spark.here import Here, loaded
from tests.worlds import ALONE, AMONG, BASE, MODES, SCHEMA, Outcome, World, in_file, outcome, world

SEEDS = range(60)
PARTS = sample(150, whole=10**9)
"""How many parts a file may have. Some worlds cut at every byte: thousands of tasks that mostly read nothing."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = og.init(tmp_path_factory.mktemp("graph") / "g", schema=SCHEMA)
    made.load(ndjson(*BASE), mode="append")
    return made


def both(graph: Graph, name: str, path: str, given: World) -> tuple[Outcome, Outcome]:
    """Loaded in one process, and by tasks."""
    for branch in (f"{name}-one", f"{name}-many"):
        graph.branches.create(branch)
    one = outcome(graph, f"{name}-one", lambda: graph.load(path, given.mode, branch=f"{name}-one", report_errors=given.report_errors))
    part_bytes = max(given.part_bytes, len(given.data) // PARTS)
    intake = FilesIntake(Here(), graph.engine, [path], part_bytes=part_bytes)
    many = outcome(
        graph,
        f"{name}-many",
        lambda: loaded(graph, intake, given.mode, branch=f"{name}-many", report_errors=given.report_errors),
    )
    return one, many


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_and_one_process_do_the_same(graph: Graph, tmp_path: Path, seed: int) -> None:
    given = world(seed)
    one, many = both(graph, f"s{seed}", in_file(tmp_path, given.data), given)
    assert many == one
    assert not list(Path(graph.uri).rglob("*.patch")), "patches are removed when the load ends"


def test_the_seeds_meet_every_code_and_every_outcome() -> None:
    worlds = [world(seed) for seed in SEEDS]
    assert {code for given in worlds for code in given.codes} == {*ALONE, *AMONG} == set(ProblemCode)
    assert {given.mode for given in worlds if not given.codes} == set(MODES)


def test_a_report_that_is_full_in_a_later_block_counts_alike(graph: Graph, tmp_path: Path) -> None:
    """Three blocks of 16 MiB, bad lines in each, one of them across a border: the report is full in the second, and stops there."""
    line = b'{"type": "Note", "data": {"text": "' + b"x" * 4000 + b'"}}\n'
    bad = b'{"type": "Note", "data": {}}\n'
    body = bytearray(line * (40 * (1 << 20) // len(line)))
    for at in (5, 3000, 4190, 4191, 4192, 4193, 4194, 5000, 5001, 8000, 9000):
        begin = at * len(line)
        body[begin : begin + len(line)] = bad[:-1] + b" " * (len(line) - len(bad)) + b"\n"
    path = in_file(tmp_path, bytes(body))
    for report_errors in (1, 3, 6, 100):
        given = World(b"", "append", CHUNK_BYTES * 2, report_errors, ())
        one, many = both(graph, f"blocks{report_errors}", path, given)
        assert many == one
        assert one.error is not None


@pytest.mark.parametrize("part_bytes", [50, 1000])
def test_a_byte_order_mark_is_left_out_alike(graph: Graph, tmp_path: Path, part_bytes: int) -> None:
    """Also if the first line, which it begins, ends in a later part."""
    lines = b"".join(b'{"type": "Note", "data": {"text": "' + b"x" * 100 + b'"}}\n' for _ in range(20))
    path = in_file(tmp_path, b"\xef\xbb\xbf" + lines)
    one, many = both(graph, f"mark{part_bytes}", path, World(b"", "append", part_bytes, 5, ()))
    assert (many, one.error) == (one, None)


@pytest.mark.parametrize("part_bytes", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("text", [b"a\nbb\n\nccc\n", b"a\nbb\n\nccc", b"\n\n\n", b"one line without an end", b"x"])
def test_every_line_is_in_one_part(tmp_path: Path, text: bytes, part_bytes: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(text)
    parts = parts_of(str(path), part_bytes=part_bytes)
    assert b"".join(chunk for part in parts for chunk in read_part(part)) == text
    assert sum(map(count_lines, parts)) == text.count(b"\n")
    assert all(b"".join(read_part(part)).count(b"\n") == count_lines(part) for part in parts)
    assert {block for part in parts for block in blocks_of(part)} == set(parts_of(str(path)))
