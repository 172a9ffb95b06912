"""Streams to lines: cut anywhere, the same lines come out; a line over its limits is one problem and takes no memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.load.blocks import LINE_LIMIT_BYTES, LineBlock, blocks
from omnigraph.exec.load.strict import STRUCTURE_LIMIT
from omnigraph.exec.problems import Problem, ProblemCode
from tests.unit.exec.load.reading import all_types, cinema, read, rows

GOOD = b'{"type":"Person","data":{"name":"Ada"}}\n'


@given(st.lists(st.binary(max_size=6).map(lambda data: data.replace(b"\xff", b"\n").replace(b"\x00", b"x").replace(b"\x01", b" "))))
def test_lines_are_the_same_wherever_a_stream_is_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    if whole[:2] in (b"\xfe\xff", b"\xff\xfe"):
        return
    found: list[tuple[int, bytes]] = []
    for block in blocks(chunk for chunk in chunks if chunk):
        assert isinstance(block, LineBlock)
        assert len(block.ends)
        found += [(int(block.numbers[place]), block.line(place)) for place in range(len(block.ends))]
    lines = enumerate(whole.split(b"\n"), start=1)
    assert found == [(number, line + b"\n") for number, line in lines if line.strip(b" \t\r\n")]


def long_stream(size: int, *, ended: bool) -> Iterator[bytes]:
    """A good line, a line of `size` bytes and a good line, in chunks of a mebibyte."""
    yield GOOD
    yield from (b"x" * (1 << 20) for _ in range(size >> 20))
    if ended:
        yield b"\n" + GOOD


def test_a_line_over_the_limit_is_a_problem_and_the_others_are_read() -> None:
    for ended, lines in ((True, [1, 3]), (False, [1])):
        batches, problems = read(long_stream(48 << 20, ended=ended), cinema())
        assert [(problem.code, problem.line) for problem in problems] == [(ProblemCode.LINE_LIMIT, 2)]
        assert str(48 << 20) in problems[0].message
        assert [line for batch in batches for line in batch.lines.to_pylist()] == lines


def test_a_line_over_the_limit_is_not_held() -> None:
    tracemalloc.start()
    found = list(blocks(long_stream(200 << 20, ended=True)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [type(block) for block in found] == [LineBlock, Problem, LineBlock]
    assert peak < 2 * LINE_LIMIT_BYTES


def test_a_line_just_over_the_limit_is_refused_too() -> None:
    """Its end comes with the chunk in which it passes the limit."""
    record = b'{"type":"Person","data":{"name":"' + b"x" * LINE_LIMIT_BYTES + b'"}}\n'
    batches, problems = read(GOOD + record + GOOD, cinema())
    assert [(problem.code, problem.line) for problem in problems] == [(ProblemCode.LINE_LIMIT, 2)]
    assert sum(len(batch.lines) for batch in batches) == 2


def test_a_line_has_a_limit_of_structure() -> None:
    def line(items: int) -> bytes:
        return b'{"type":"Every","data":{"key":"k","smalls":[' + b"1," * (items - 1) + b"1]}}\n"

    most = STRUCTURE_LIMIT - sum(map(line(1).count, b"{}[]:,")) + 1
    assert len(rows(line(most), all_types())["Every"][0]["smalls"]) == most
    _, problems = read(line(most + 1), all_types())
    assert [problem.code for problem in problems] == [ProblemCode.LINE_LIMIT]


def test_structure_inside_strings_does_not_count() -> None:
    name = "{[,:" * STRUCTURE_LIMIT
    assert rows(f'{{"type":"Person","data":{{"name":"{name}"}}}}\n'.encode(), cinema())["Person"][0]["name"] == name


def test_deep_nesting_is_a_problem_and_no_crash() -> None:
    for value in (b"[" * 100_000, b'{"a":' * 20_000, b"[" * 60_000 + b"]" * 60_000):
        _, problems = read(b'{"type":"Person","data":{"name":' + value + b"}}\n", cinema())
        assert [(problem.code, problem.line) for problem in problems] == [(ProblemCode.JSON, 1)]


def test_many_short_lines_fit_in_a_block() -> None:
    batches, problems = read(b"{}\n" * 200_000, cinema(), limit=3)
    assert (len(problems), batches) == (3, [])
    lines = np.concatenate([batch.lines.to_numpy() for batch in read(GOOD * 200_000, cinema())[0]])
    assert np.array_equal(lines, np.arange(1, 200_001))
