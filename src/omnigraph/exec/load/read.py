"""Input of any kind -> batches of typed rows that know where they came from, and a report of what is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.catalog.tables import ID, table_schema
from omnigraph.exec.load.blocks import Block, blocks
from omnigraph.exec.load.ids import identify
from omnigraph.exec.load.ndjson import Reader
from omnigraph.exec.load.pieces import Piece
from omnigraph.exec.load.report import Report
from omnigraph.exec.load.sources import Records, Stream, open_stream, rereadable
from omnigraph.exec.problems import Code, Problem

__all__ = ["Batch", "Data", "Progress", "Report", "read_batches", "rereadable"]

Data: TypeAlias = Records
Progress: TypeAlias = Callable[[int, int | None, int], None]
"""Called with the bytes read so far, how many there are if that is known, and the rows so far."""

_WORKERS: Final = 2
_AHEAD: Final = 3
"""Blocks being parsed or waiting to be taken: what a load holds of its input at any time."""


class Batch(msgspec.Struct, frozen=True):
    """Rows of one type from one source, in the order of their records."""

    entity: EntityType
    rows: pa.Table
    """In the columns of `table_schema(entity)`, ids included."""
    lines: pa.Array
    """Where each row came from, from 1: its line, or its record if the source has no lines."""
    source: str
    minted: bool
    """Every id was made here, so that none can be in the graph already."""


class Found(Protocol):
    """What a check says of one row, by its number from 0."""

    @property
    def row(self) -> int | None: ...

    def problem(self, *, source: str | None = None, line: int | None = None, record: int | None = None) -> Problem: ...


class Findings(Protocol):
    """What a check found, and how many more it did not put into words."""

    @property
    def found(self) -> Sequence[Found]: ...

    @property
    def more(self) -> int: ...


Check: TypeAlias = Callable[[EntityType, pa.Table], Findings]


def read_batches(
    data: Data, catalog: Catalog, report: Report, *, check: Check | None = None, progress: Progress | None = None
) -> Iterator[Batch]:
    """The rows of `data` that can be read, batch by batch; what cannot goes to the report, and a full report ends the reading.

    `check` is asked about the values of every batch; rows that it refuses stay in the batch. Raises `NotFound` or
    `InvalidInput` for input that cannot be read at all.
    """
    stream = open_stream(data)
    rows = 0
    for batches, problems in _in_parallel(stream, catalog, report.limit, check):
        report.add(problems)
        rows += sum(batch.rows.num_rows for batch in batches)
        yield from batches
        if progress is not None:
            progress(stream.position, stream.total_bytes, rows)
        if report.full:
            return


_Result: TypeAlias = tuple[list[Batch], list[Problem]]


def _in_parallel(stream: Stream, catalog: Catalog, most: int, check: Check | None) -> Iterator[_Result]:
    """Blocks are parsed on a few threads and come out in their order; pyarrow leaves the interpreter while it works."""
    reader = Reader(catalog, most=most)

    def work(block: Block | Problem) -> _Result:
        if isinstance(block, Problem):
            return [], [_placed(block, stream)]
        parsed = reader.parse(block)
        batches, problems = [], [_placed(problem, stream) for problem in parsed.problems]
        for piece in parsed.pieces:
            batch, found = _batch(piece, stream, check)
            batches.append(batch)
            problems += found
        return batches, problems

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="omnigraph-read") as pool:
        waiting: deque[Future[_Result]] = deque()
        try:
            for block in blocks(stream.chunks()):
                waiting.append(pool.submit(work, block))
                if len(waiting) >= _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _batch(piece: Piece, stream: Stream, check: Check | None) -> tuple[Batch, list[Problem]]:
    entity = piece.entity
    given = _whole(piece.rows.column(ID))
    identified = identify(entity, given, piece.rows)
    rows = pa.Table.from_arrays([identified.ids, *piece.rows.columns[1:]], schema=table_schema(entity))
    problems = []
    for row in identified.wrong.to_pylist()[:1000]:
        message = f"{entity.kind} '{entity.name}' explicit id '{given[row]}' does not match its canonical @key id '{identified.ids[row]}'"
        problem = Problem(Code.ID, message, f"{entity.kind}:{entity.name}", ID, str(given[row]), line=int(piece.lines[row]))
        problems.append(_placed(problem, stream))
    if check is not None:
        findings = check(entity, rows)
        for found in findings.found:
            line = None if found.row is None else int(piece.lines[found.row])
            problems.append(_placed(found.problem(line=line), stream))
    return Batch(entity, rows, pa.array(piece.lines), stream.name, identified.minted), problems


def _placed(problem: Problem, stream: Stream) -> Problem:
    if stream.counts_records:
        return msgspec.structs.replace(problem, source=stream.name, record=problem.line, line=None, column=None)
    return msgspec.structs.replace(problem, source=stream.name)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
