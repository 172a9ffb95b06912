"""Input of any kind -> batches of typed rows with their origins, and a report of problems."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.catalog.layout import ID, table_schema
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.exec.load.blocks import LineBlock, blocks
from omnigraph.exec.load.json_values import ReadExternal, no_external
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.ndjson import Reader
from omnigraph.exec.load.parts import existing_file
from omnigraph.exec.load.pieces import Piece, is_flag
from omnigraph.exec.load.row_ids import identify
from omnigraph.exec.load.sources import Records, Stream, open_stream, paths_of, refuse_tables, rereadable
from omnigraph.exec.load.tabular import TableInput, read_tables
from omnigraph.exec.problems import Problem, ProblemCode, Report
from omnigraph.store.arrays import whole

__all__ = ["Batch", "Data", "OnRead", "Report", "read_batches", "rereadable"]

Data: TypeAlias = Records | Mapping[str, TableInput]
"""Records in the order of a file, or tables by type name."""
OnRead: TypeAlias = Callable[[int, int | None, int], None]
"""Called with the bytes read so far, the total bytes if known, and the rows read so far. Bytes of tables are not counted."""

_WORKERS: Final = 2
_AHEAD: Final = 3
"""The number of blocks in memory: being parsed, or parsed and not consumed yet."""


class Unit(StrEnum):
    """The unit of positions in a source."""

    LINE = "line"
    RECORD = "record"


class Batch(msgspec.Struct, frozen=True):
    """Rows of one type from one source, in the order of their records."""

    entity: EntityType
    rows: pa.Table
    """The columns of `table_schema(entity)`, ids included. In a mode that keeps values also flags: see `pieces`."""
    lines: pa.Array
    """The line or record number of each row, from 1."""
    source: str
    fresh: int
    """How many ids were minted here. None of them can be in the graph already."""
    unit: Unit = Unit.LINE

    @property
    def minted(self) -> bool:
        """Every id was minted here."""
        return self.fresh == len(self.rows)

    def with_place(self, problem: Problem, row: int | None) -> Problem:
        """The problem of a row, given by its number from 0, with the row's source and line or record."""
        place = {} if row is None else {self.unit.value: self.lines[row].as_py()}
        return msgspec.structs.replace(problem, source=self.source, **place)


class RowProblem(Protocol):
    """A problem that a check found in one row, given by its number from 0."""

    @property
    def row(self) -> int | None: ...

    def problem(self) -> Problem: ...


class RowFindings(Protocol):
    """The problems that a check describes, and how many more it counted."""

    @property
    def found(self) -> Sequence[RowProblem]: ...

    @property
    def more(self) -> int: ...


class RowCheck(Protocol):
    """Checks the values of rows of one type. It describes the first `limit` problems and counts all."""

    def __call__(self, entity: EntityType, rows: pa.Table, /, *, limit: int) -> RowFindings: ...


class _Asked(NamedTuple):
    """The parameters of a read: schema, mode, how many problems to describe, the check of values, and the reader of external blobs."""

    catalog: Catalog
    mode: LoadMode
    most: int
    check: RowCheck | None
    external: ReadExternal


class _ReadResult(msgspec.Struct, frozen=True):
    """The result of reading one block or slice."""

    batches: list[Batch]
    problems: list[Problem]
    more: int = 0
    position: int = 0
    total_bytes: int | None = None


def read_batches(
    data: Data,
    catalog: Catalog,
    report: Report,
    *,
    mode: LoadMode = LoadMode.APPEND,
    check: RowCheck | None = None,
    progress: OnRead | None = None,
    external: ReadExternal = no_external,
) -> Iterator[Batch]:
    """The valid rows of `data`, batch by batch. Problems are added to the report; reading ends when the report is full.

    `check` checks the values of every batch. Rows that it refuses stay in the batch. `external` reads blobs outside the graph.
    Raises `NotFound` or `InvalidInput` for input that cannot be read at all.
    """
    asked = _Asked(catalog, mode, report.limit, check, external)
    rows = 0
    for part in _from_tables(data, asked) if isinstance(data, Mapping) else _from_records(data, asked):
        report.add(part.problems, more=part.more)
        rows += sum(batch.rows.num_rows for batch in part.batches)
        yield from part.batches
        if progress is not None:
            progress(part.position, part.total_bytes, rows)
        if report.full:
            return


def _from_tables(tables: Mapping[str, TableInput], asked: _Asked) -> Iterator[_ReadResult]:
    for part in read_tables(tables, asked.catalog, keeps=asked.mode.keeps, most=asked.most, external=asked.external):
        pieces = [] if part.piece is None else [part.piece]
        read = _make_batches(pieces, part.problems, part.source, Unit.RECORD, asked)
        yield msgspec.structs.replace(read, more=read.more + part.more)


def _from_records(data: Records, asked: _Asked) -> Iterator[_ReadResult]:
    """Read one stream, or several files one after the other. All of them are looked for before the first is read."""
    if (paths := paths_of(data)) is None:
        yield from _from_stream(open_stream(data), asked)
        return
    refuse_tables(paths, asked.catalog)
    found = [existing_file(path) for path in paths]
    total_bytes = sum(path.stat().st_size for path in found) if all(path.is_file() for path in found) else None
    before = 0
    for path in paths:
        stream = open_stream(path)
        for part in _from_stream(stream, asked):
            yield msgspec.structs.replace(part, position=before + part.position, total_bytes=total_bytes)
        before += stream.position


def _from_stream(stream: Stream, asked: _Asked) -> Iterator[_ReadResult]:
    """Parse blocks on a few threads and return them in order. pyarrow releases the GIL while it parses."""
    reader = Reader(asked.catalog, keeps=asked.mode.keeps, most=asked.most, external=asked.external)
    waiting: deque[Future[_ReadResult]] = deque()

    def next_result() -> _ReadResult:
        return msgspec.structs.replace(waiting.popleft().result(), position=stream.position, total_bytes=stream.total_bytes)

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="omnigraph-read") as pool:
        try:
            for block in blocks(stream.chunks(), first_line=stream.first_line, begins=stream.begins):
                waiting.append(pool.submit(_read_block, block, reader, stream, asked))
                if len(waiting) >= _AHEAD:
                    yield next_result()
            while waiting:
                yield next_result()
        finally:
            for future in waiting:
                future.cancel()


def _read_block(block: LineBlock | Problem, reader: Reader, stream: Stream, asked: _Asked) -> _ReadResult:
    unit = Unit.RECORD if stream.counts_records else Unit.LINE
    if isinstance(block, Problem):
        return _ReadResult([], [_with_source(block, stream.name, unit)])
    parsed = reader.parse(block)
    problems = [_with_source(problem, stream.name, unit) for problem in parsed.problems]
    return _make_batches(parsed.pieces, problems, stream.name, unit, asked)


def _with_source(problem: Problem, source: str, unit: Unit) -> Problem:
    """The problem with its source. For records, the line becomes a record number: the caller never saw the encoded lines."""
    if unit is Unit.RECORD:
        return msgspec.structs.replace(problem, source=source, record=problem.line, line=None, column=None)
    return msgspec.structs.replace(problem, source=source)


def _make_batches(pieces: list[Piece], problems: list[Problem], source: str, unit: Unit, asked: _Asked) -> _ReadResult:
    """Convert pieces to batches, and add the problems of ids and of the check."""
    batches, found, more, most = [], list(problems), 0, asked.most
    for piece in pieces:
        batch, wrong = _batch(piece, source, unit, asked.mode)
        batches.append(batch)
        found += [_wrong_id(batch, piece, row) for row in wrong.slice(0, most).to_pylist()]
        more += max(len(wrong) - most, 0)
        if asked.check is not None:
            findings = asked.check(batch.entity, batch.rows, limit=most)
            found += [batch.with_place(one.problem(), one.row) for one in findings.found]
            more += findings.more
    found.sort(key=lambda problem: problem.line or problem.record or 0)
    return _ReadResult(batches, found, more)


def _batch(piece: Piece, source: str, unit: Unit, mode: LoadMode) -> tuple[Batch, pa.Array]:
    """The batch of a piece, and the rows whose explicit id differs from the id of their key."""
    given = piece.rows.column(ID)
    identified = identify(piece.entity, whole(given), piece.rows, by_ends=mode.finds_by_ends(piece.entity))
    flags = (field for field in piece.rows.schema if is_flag(field.name))
    schema = pa.schema([*table_schema(piece.entity), *flags])
    rows = pa.Table.from_arrays([identified.ids, *piece.rows.columns[1:]], schema=schema)
    return Batch(piece.entity, rows, pa.array(piece.lines), source, identified.minted, unit), identified.wrong


def _wrong_id(batch: Batch, piece: Piece, row: int) -> Problem:
    entity, given, derived = batch.entity, piece.rows.column(ID)[row].as_py(), batch.rows.column(ID)[row].as_py()
    message = f"{entity.kind} '{entity.name}' explicit id '{given}' does not match its canonical @key id '{derived}'"
    return batch.with_place(Problem(ProblemCode.ID, message, entity.alias, ID, given), row)
