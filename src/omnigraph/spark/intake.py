"""NDJSON files, tables (Parquet, CSV) and data frames -> the rows of a load, read by executors, with one task for each part.

The checks that need all rows are those of every load. They run on the driver, on the key columns of the files that the tasks wrote.
Problems are reported as by a load in one process: in the same order, with the same positions and counts.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.catalog import Catalog, encode
from omnigraph.catalog.model import EntityType
from omnigraph.embed import EmbeddingProvider, portable_provider
from omnigraph.exec.engine import Engine
from omnigraph.exec.load.batches import read_batches
from omnigraph.exec.load.embedded import embeds
from omnigraph.exec.load.load import Advance
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.parts import PART_BYTES, FilePart, blocks_of, parts_of, pieces_of
from omnigraph.exec.load.sources import refuse_tables
from omnigraph.exec.load.staging import Origin, Staging
from omnigraph.exec.load.tablefiles import SLICE_ROWS, TablePart, open_table, table_parts
from omnigraph.exec.load.tabular import entity_named, wrong_columns
from omnigraph.exec.problems import Problem, Report, shifted
from omnigraph.ids import TypeId
from omnigraph.spark.handles import readable_by
from omnigraph.spark.messages import (
    CountLines,
    FindLines,
    FindProblems,
    Job,
    LineNumbers,
    Place,
    Reply,
    SliceProblems,
    StagedPart,
    StageFrame,
    StageLines,
    StageTables,
    TypePart,
    results,
)
from omnigraph.spark.runner import PartRunner, Runner
from omnigraph.store.data_files import fragments_from_text
from omnigraph.store.root import Root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BLOCKS_AT_ONCE: Final = 16
"""The number of blocks with problems that one job reads. The first block usually fills the report."""


class FilesIntake:
    """The intake of NDJSON files, which are split into parts."""

    def __init__(self, runner: PartRunner, engine: Engine, paths: Sequence[str], *, part_bytes: int = PART_BYTES) -> None:
        self._runner = runner
        self._engine = engine
        self._root = engine.root
        self.rereadable = True
        self._paths = tuple(paths)
        self._part_bytes = part_bytes

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        refuse_tables(self._paths, catalog)
        parts = [part for path in self._paths for part in parts_of(path, part_bytes=self._part_bytes)]
        total = sum(part.size for part in parts if part.start == 0)
        advance(0, total, 0)
        job = job_of(self._engine, staging, catalog)
        self.rereadable = may_read_again(job)

        def on_done(tasks: int) -> None:
            advance(total * tasks // len(parts), total, 0)

        replies = self._runner.on_parts(StageLines(job, tuple(parts)), on_done=on_done)
        staged_parts = take_parts(replies, staging, catalog, self._root)
        lines = FirstLines(self._runner, parts)
        for staged in staging.types.values():
            staged.places = LinePlaces(self._runner, job, lines, staged_parts, staged.entity.id)
        advance(total, total, sum(staged.rows for staged in staging.types.values()))
        self._report(job, lines, [parts[done.part] for done in staged_parts if done.refused], report)

    def _report(self, job: Job, lines: FirstLines, refused: Sequence[FilePart], report: Report) -> None:
        """Read the blocks with problems again, in order, now with their line numbers."""
        blocks = list(dict.fromkeys(block for part in refused for block in blocks_of(part)))
        for at in range(0, len(blocks), _BLOCKS_AT_ONCE):
            some = tuple(map(lines.numbered, blocks[at : at + _BLOCKS_AT_ONCE]))
            for found in results(self._runner.on_parts(FindProblems(job, some, report.limit)), StagedPart):
                report.add(found.problems, more=found.more)
                if report.full:
                    return


class FramesIntake:
    """The intake of data frames, one for each type."""

    def __init__(self, runner: Runner, engine: Engine, frames: Mapping[str, DataFrame]) -> None:
        self._runner = runner
        self._engine = engine
        self._root = engine.root
        self.rereadable = True
        self._frames = frames

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        for name, frame in self._frames.items():
            entity = entity_named(name, catalog)
            job = job_of(self._engine, staging, catalog)
            self.rereadable = may_read_again(job)
            if self._columns_match(name, frame, readable_by(job), report, staging.mode):
                # After the first problem the load is refused: the rest is read only for its problems.
                job = msgspec.structs.replace(job, writes=not report.problems)
                replies = self._runner.on_rows(StageFrame(job, name, report.limit), frame)
                take_frame(staging, catalog, entity, replies, report, self._root)
            advance(0, None, sum(staged.rows for staged in staging.types.values()))
            if report.full:
                return

    def _columns_match(self, name: str, frame: DataFrame, catalog: Catalog, report: Report, mode: LoadMode) -> bool:
        """Check the columns on the driver, so that a wrong column is reported once and not by every task."""
        before = len(report.problems)
        for _ in read_batches({name: frame.limit(0).toArrow()}, catalog, report, mode=mode):
            pass
        return len(report.problems) == before


class FirstLines:
    """The numbers of the first lines of parts. One job for each file counts them, at the first request."""

    def __init__(self, runner: PartRunner, parts: Sequence[FilePart]) -> None:
        self._runner = runner
        self.parts = tuple(parts)
        self._firsts: dict[str, dict[int, int]] = {}

    def numbered(self, part: FilePart) -> FilePart:
        """Return the part with the number of its first line. It must start where a part or a block starts."""
        if part.start == 0:
            return part
        if part.path not in self._firsts:
            self._firsts[part.path] = self._count(part.path)
        return msgspec.structs.replace(part, first_line=self._firsts[part.path][part.start])

    def _count(self, path: str) -> dict[int, int]:
        parts = tuple(part for part in self.parts if part.path == path)
        replies = results(self._runner.on_parts(CountLines(parts)), LineNumbers)
        firsts, line = {}, 1
        for part, reply in zip(parts, replies, strict=True):
            for piece, lines in zip(pieces_of(part), reply.lines, strict=True):
                firsts[piece.start] = line
                line += lines
        return firsts


class LinePlaces:
    """The lines of rows that tasks wrote. Only a refusal needs them. The parts that hold the rows are then read again."""

    def __init__(self, runner: PartRunner, job: Job, lines: FirstLines, parts: Sequence[StagedPart], type_id: TypeId) -> None:
        self._runner = runner
        self._job = job
        self._lines = lines
        self._type_id = type_id
        rows = [dict(part.types)[type_id].rows if type_id in dict(part.types) else 0 for part in parts]
        self._firsts = [0, *accumulate(rows)]

    def of(self, rows: Sequence[int]) -> list[Origin]:
        asked: dict[int, list[int]] = {}
        for row in sorted(rows):
            number = bisect_right(self._firsts, row) - 1
            asked.setdefault(number, []).append(row - self._firsts[number])
        parts = tuple(self._lines.numbered(self._lines.parts[number]) for number in asked)
        task = FindLines(self._job, parts, self._type_id, tuple(map(tuple, asked.values())))
        replies = results(self._runner.on_parts(task), LineNumbers)
        found = {
            self._firsts[number] + row: Origin(part.name, line, None)
            for (number, of_part), part, reply in zip(asked.items(), parts, replies, strict=True)
            for row, line in zip(of_part, reply.lines, strict=True)
        }
        return [found[row] for row in rows]


class FramePlaces(msgspec.Struct, frozen=True):
    """The positions of rows of a data frame. Records are numbered in the order of the partitions."""

    source: str

    def of(self, rows: Sequence[int]) -> list[Origin]:
        return [Origin(self.source, None, row + 1) for row in rows]


def job_of(engine: Engine, staging: Staging, catalog: Catalog) -> Job:
    targets = {entity.id: staging.target_of(entity) for entity in catalog.entities}
    place = Place(engine.root.uri, engine.root.storage_options)
    return Job(place, encode(catalog), targets, staging.mode, engine.external_blobs.bases, provider_of(engine, catalog))


def provider_of(engine: Engine, catalog: Catalog) -> EmbeddingProvider | None:
    """Return the provider that tasks ask for vectors; None if there is none, or if there is nothing to embed."""
    return portable_provider(engine.embedding, os.environ) if embeds(catalog) else None


def may_read_again(job: Job) -> bool:
    """Return whether a load may be read again, perhaps under a lock: not if the tasks asked others, who may take long."""
    return not job.external_blobs and job.embedding is None


def take_parts(replies: Sequence[Reply], staging: Staging, catalog: Catalog, root: Root) -> list[StagedPart]:
    """Record the files that tasks wrote, in the order of their parts, which is that of the records. Then raise the first failure."""
    record_files(replies, staging, catalog, root)
    return sorted(results(replies, StagedPart), key=lambda part: part.part)


def record_files(replies: Sequence[Reply], staging: Staging, catalog: Catalog, root: Root) -> None:
    """Record the files that tasks wrote in `staging`. From now on the load removes them if it is refused."""
    for part in sorted((reply for reply in replies if isinstance(reply, StagedPart)), key=lambda part: part.part):
        for type_id, wrote in part.types:
            entity = catalog.by_id(type_id)
            assert entity is not None, "the tasks had the same schema"
            staged = staging.of(entity)
            if staged.patches is not None:
                staged.patches.adopt(root.objects, wrote.patches)
            else:
                assert staged.shelf is not None, "a Spark load writes"
                staged.shelf.fragments += fragments_from_text(wrote.fragments)
            staged.rows += wrote.rows
            staged.fresh += wrote.fresh
            staged.keys = None


def take_frame(staging: Staging, catalog: Catalog, entity: EntityType, replies: Sequence[Reply], report: Report, root: Root) -> None:
    """Record the files of one data frame, and report its problems. Records are numbered in the order of the partitions."""
    before = 0
    for part in take_parts(replies, staging, catalog, root):
        report.add(shifted(part.problems, by=before), more=part.more)
        before += part.records
    staging.of(entity).places = FramePlaces(f"<{entity.alias}>")  # also for a frame without rows


# -- Parquet and CSV: a task reads whole slices, and problems are reported in the order of the slices


class _Table(msgspec.Struct, frozen=True):
    """One file: its type, and its parts or the problems of its columns."""

    entity: EntityType
    name: str
    size: int
    parts: tuple[TablePart, ...]
    column_problems: tuple[Problem, ...]


class TablesIntake:
    """The intake of tables, which are split into parts where the format allows it."""

    def __init__(
        self,
        runner: PartRunner,
        engine: Engine,
        tables: Mapping[str, str],
        *,
        part_bytes: int = PART_BYTES,
        slice_rows: int = SLICE_ROWS,
    ) -> None:
        self._runner = runner
        self._engine = engine
        self._root = engine.root
        self.rereadable = True
        self._tables = dict(tables)
        self._part_bytes = part_bytes
        self._slice_rows = slice_rows

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        job = job_of(self._engine, staging, catalog)
        self.rereadable = may_read_again(job)
        tables = [self._open(name, path, readable_by(job), staging.mode) for name, path in self._tables.items()]
        total = sum(table.size for table in tables)
        advance(0, total, 0)
        parts = tuple(TypePart(table.entity.alias, part) for table in tables for part in table.parts)

        def on_done(tasks: int) -> None:
            advance(total * tasks // len(parts), total, 0)

        # After the first problem the load is refused: the rest is read only for its problems.
        job = msgspec.structs.replace(job, writes=not any(table.column_problems for table in tables))
        replies = self._runner.on_parts(StageTables(job, parts, report.limit), on_done=on_done)
        record_files(replies, staging, catalog, self._root)
        advance(total, total, sum(staged.rows for staged in staging.types.values()))
        _report_tables(tables, replies, report)
        for staged in staging.types.values():
            staged.places = TablePlaces(_sources(staged.entity, tables, replies))

    def _open(self, name: str, path: str, catalog: Catalog, mode: LoadMode) -> _Table:
        """Check the columns on the driver, so that a wrong column is reported once and not by every task."""
        entity = entity_named(name, catalog)
        parts = table_parts(path, part_bytes=self._part_bytes, slice_rows=self._slice_rows)
        opened = open_table(parts[0])
        problems = wrong_columns(entity, catalog, opened.schema, text=opened.text, keeps=mode.keeps)
        wrong = tuple(msgspec.structs.replace(problem, source=opened.source) for problem in problems)
        return _Table(entity, path, parts[0].size or 0, () if wrong else tuple(parts), wrong)


class TablePlaces:
    """The positions of rows of tables. Rows are numbered across the tables of their type, usually one."""

    def __init__(self, tables: Sequence[tuple[str, int]]) -> None:
        self._names = [name for name, _ in tables]
        self._firsts = [0, *accumulate(rows for _, rows in tables)]

    def of(self, rows: Sequence[int]) -> list[Origin]:
        return [self._of(row) for row in rows]

    def _of(self, row: int) -> Origin:
        number = bisect_right(self._firsts, row) - 1
        return Origin(self._names[number], None, row - self._firsts[number] + 1)


def _report_tables(tables: Sequence[_Table], replies: Sequence[Reply], report: Report) -> None:
    """Report problems in the order of the tables until the report is full. A failed task is raised at its position in that order."""
    for found in _slices(tables, replies):
        report.add(found.problems, more=found.more)
        if report.full:
            return


def _slices(tables: Sequence[_Table], replies: Sequence[Reply]) -> Iterator[SliceProblems]:
    for table, of_table in _by_table(tables, replies):
        if table.column_problems:
            yield SliceProblems(table.column_problems, 0)
        for reply in of_table:
            for part in results([reply], StagedPart):
                yield from part.slices


def _sources(entity: EntityType, tables: Sequence[_Table], replies: Sequence[Reply]) -> list[tuple[str, int]]:
    """Return the tables of a type with their row counts."""
    return [
        (table.name, sum(wrote.rows for reply in of_table if isinstance(reply, StagedPart) for _, wrote in reply.types))
        for table, of_table in _by_table(tables, replies)
        if table.entity.id == entity.id
    ]


def _by_table(tables: Sequence[_Table], replies: Sequence[Reply]) -> Iterator[tuple[_Table, Sequence[Reply]]]:
    """Yield each table with the replies of its tasks. Replies are in the order of the parts."""
    at = 0
    for table in tables:
        yield table, replies[at : at + len(table.parts)]
        at += len(table.parts)
