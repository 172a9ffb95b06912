"""Input of any kind -> batches of typed rows that know where they came from, and a report of what is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.catalog.tables import ID, table_schema
from omnigraph.exec.load.blocks import Block, blocks
from omnigraph.exec.load.ids import identify
from omnigraph.exec.load.ndjson import Reader
from omnigraph.exec.load.pieces import Piece
from omnigraph.exec.load.sources import Records, Stream, open_stream, rereadable
from omnigraph.exec.load.tabular import Table, read_tables
from omnigraph.exec.problems import Code, Problem, Report
from omnigraph.store.arrays import whole

__all__ = ["Batch", "Data", "Progress", "Report", "read_batches", "rereadable"]

Data: TypeAlias = Records | Mapping[str, Table]
"""Records in the order of a file, or tables by the names of their types."""
Progress: TypeAlias = Callable[[int, int | None, int], None]
"""Called with the bytes read so far, how many there are if that is known, and the rows so far. Tables have no count of bytes."""

_WORKERS: Final = 2
_AHEAD: Final = 3
"""Blocks being parsed or waiting to be taken: what a load holds of its input at any time."""


class Unit(StrEnum):
    """What the places of a source are called."""

    LINE = "line"
    RECORD = "record"


class Batch(msgspec.Struct, frozen=True):
    """Rows of one type from one source, in the order of their records."""

    entity: EntityType
    rows: pa.Table
    """In the columns of `table_schema(entity)`, ids included."""
    lines: pa.Array
    """Where each row came from, from 1."""
    source: str
    minted: bool
    """Every id was made here, so that none can be in the graph already."""
    unit: Unit = Unit.LINE

    def placed(self, problem: Problem, row: int | None) -> Problem:
        """A problem of one of these rows, by its number from 0, with the place that the row came from."""
        place = {} if row is None else {self.unit.value: self.lines[row].as_py()}
        return msgspec.structs.replace(problem, source=self.source, **place)


class Found(Protocol):
    """What a check says of one row, by its number from 0."""

    @property
    def row(self) -> int | None: ...

    def problem(self) -> Problem: ...


class Findings(Protocol):
    """What a check found, and how many more it did not put into words."""

    @property
    def found(self) -> Sequence[Found]: ...

    @property
    def more(self) -> int: ...


class Check(Protocol):
    """Asked about the values of rows of one type; it puts the first `limit` problems in words and counts all."""

    def __call__(self, entity: EntityType, rows: pa.Table, /, *, limit: int) -> Findings: ...


class _Read(msgspec.Struct, frozen=True):
    """What came of one block or slice."""

    batches: list[Batch]
    problems: list[Problem]
    more: int = 0
    position: int = 0
    total_bytes: int | None = None


def read_batches(
    data: Data, catalog: Catalog, report: Report, *, check: Check | None = None, progress: Progress | None = None
) -> Iterator[Batch]:
    """The rows of `data` that can be read, batch by batch; what cannot goes to the report, and a full report ends the reading.

    `check` is asked about the values of every batch; rows that it refuses stay in the batch. Raises `NotFound` or
    `InvalidInput` for input that cannot be read at all.
    """
    read = _from_tables if isinstance(data, Mapping) else _from_stream
    rows = 0
    for part in read(data, catalog, report.limit, check):  # type: ignore[arg-type]  # each takes the kind it was chosen for
        report.add(part.problems)
        report.more += part.more
        rows += sum(batch.rows.num_rows for batch in part.batches)
        yield from part.batches
        if progress is not None:
            progress(part.position, part.total_bytes, rows)
        if report.full:
            return


def _from_tables(tables: Mapping[str, Table], catalog: Catalog, most: int, check: Check | None) -> Iterator[_Read]:
    for part in read_tables(tables, catalog, most=most):
        pieces = [] if part.piece is None else [part.piece]
        read = _finished(pieces, part.problems, part.source, Unit.RECORD, check, most)
        yield msgspec.structs.replace(read, more=read.more + part.more)


def _from_stream(data: Records, catalog: Catalog, most: int, check: Check | None) -> Iterator[_Read]:
    """Blocks are parsed on a few threads and come out in their order; pyarrow leaves the interpreter while it works."""
    stream = open_stream(data)
    reader = Reader(catalog, most=most)
    waiting: deque[Future[_Read]] = deque()

    def taken() -> _Read:
        return msgspec.structs.replace(waiting.popleft().result(), position=stream.position, total_bytes=stream.total_bytes)

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="omnigraph-read") as pool:
        try:
            for block in blocks(stream.chunks(), first_line=stream.first_line, begins=stream.begins):
                waiting.append(pool.submit(_read_block, block, reader, stream, check, most))
                if len(waiting) >= _AHEAD:
                    yield taken()
            while waiting:
                yield taken()
        finally:
            for future in waiting:
                future.cancel()


def _read_block(block: Block | Problem, reader: Reader, stream: Stream, check: Check | None, most: int) -> _Read:
    unit = Unit.RECORD if stream.counts_records else Unit.LINE
    if isinstance(block, Problem):
        return _Read([], [_named(block, stream.name, unit)])
    parsed = reader.parse(block)
    return _finished(parsed.pieces, [_named(problem, stream.name, unit) for problem in parsed.problems], stream.name, unit, check, most)


def _named(problem: Problem, source: str, unit: Unit) -> Problem:
    """A problem of a line as the caller knows the place: who gave records never saw the lines they were made into."""
    if unit is Unit.RECORD:
        return msgspec.structs.replace(problem, source=source, record=problem.line, line=None, column=None)
    return msgspec.structs.replace(problem, source=source)


def _finished(pieces: list[Piece], problems: list[Problem], source: str, unit: Unit, check: Check | None, most: int) -> _Read:
    """Pieces as batches, with the problems that show only now: ids, and what the check finds."""
    batches, found, more = [], list(problems), 0
    for piece in pieces:
        batch, wrong = _batch(piece, source, unit)
        batches.append(batch)
        found += [_wrong_id(batch, piece, row) for row in wrong.slice(0, most).to_pylist()]
        more += max(len(wrong) - most, 0)
        if check is not None:
            findings = check(batch.entity, batch.rows, limit=most)
            found += [batch.placed(one.problem(), one.row) for one in findings.found]
            more += findings.more
    found.sort(key=lambda problem: problem.line or problem.record or 0)
    return _Read(batches, found, more)


def _batch(piece: Piece, source: str, unit: Unit) -> tuple[Batch, pa.Array]:
    """The batch of a piece, and the rows whose record said another id than its key does."""
    given = piece.rows.column(ID)
    identified = identify(piece.entity, whole(given), piece.rows)
    rows = pa.Table.from_arrays([identified.ids, *piece.rows.columns[1:]], schema=table_schema(piece.entity))
    return Batch(piece.entity, rows, pa.array(piece.lines), source, identified.minted, unit), identified.wrong


def _wrong_id(batch: Batch, piece: Piece, row: int) -> Problem:
    entity, given, derived = batch.entity, piece.rows.column(ID)[row].as_py(), batch.rows.column(ID)[row].as_py()
    message = f"{entity.kind} '{entity.name}' explicit id '{given}' does not match its canonical @key id '{derived}'"
    return batch.placed(Problem(Code.ID, message, f"{entity.kind}:{entity.name}", ID, given), row)
