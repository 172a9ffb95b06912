"""Parquet and CSV files, one a type -> the rows of a load, read by executors with the reader of every load.

Rows and problems come out as in one process: a task reads whole slices and tells of each what is wrong with it, and what is told of the
slices is put together in their order until the report is full.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EntityType
from omnigraph.exec.load.load import Advance
from omnigraph.exec.load.parts import PART_BYTES
from omnigraph.exec.load.read import Report
from omnigraph.exec.load.staging import Origin, Staging
from omnigraph.exec.load.tablefiles import SLICE_ROWS, TablePart, open_table, table_parts
from omnigraph.exec.load.tabular import entity_named, wrong_columns
from omnigraph.exec.problems import Problem
from omnigraph.exec.validate.findings import label
from omnigraph.spark.intake import job_of, named
from omnigraph.spark.runner import PartTasks, refuse
from omnigraph.spark.tasks import Reply, TablePayload, TypePart
from omnigraph.spark.work import Wrong
from omnigraph.store.root import Root


class _Table(msgspec.Struct, frozen=True):
    """One file: its type, and its parts, or why its columns do not suit the type."""

    entity: EntityType
    name: str
    size: int
    parts: tuple[TablePart, ...]
    wrong: tuple[Problem, ...]


class TablesIntake:
    """Tables, cut into parts where they can be."""

    def __init__(
        self,
        runner: PartTasks,
        root: Root,
        tables: Mapping[str, str],
        *,
        part_bytes: int = PART_BYTES,
        slice_rows: int = SLICE_ROWS,
    ) -> None:
        self._runner = runner
        self._root = root
        self._tables = dict(tables)
        self._part_bytes = part_bytes
        self._slice_rows = slice_rows

    @property
    def rereadable(self) -> bool:
        return True

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        tables = [self._opened(name, path, catalog) for name, path in self._tables.items()]
        total = sum(table.size for table in tables)
        advance(0, total, 0)
        parts = tuple(TypePart(label(table.entity), part) for table in tables for part in table.parts)

        def on_done(tasks: int) -> None:
            advance(total * tasks // len(parts), total, 0)

        # Once anything is wrong nothing will land: the rest is read for its problems alone.
        job = msgspec.structs.replace(job_of(self._root, staging, catalog), writes=not any(table.wrong for table in tables))
        replies = self._runner.on_parts("table", TablePayload(job, parts, report.limit), on_done=on_done)
        named(replies, staging, catalog)
        advance(total, total, sum(staged.rows for staged in staging.types.values()))
        _report(tables, replies, report)
        for staged in staging.types.values():
            staged.places = TablePlaces(_sources(staged.entity, tables, replies))

    def _opened(self, name: str, path: str, catalog: Catalog) -> _Table:
        """What is wrong with its columns is told once, and not by every task."""
        entity = entity_named(name, catalog)
        parts = table_parts(path, part_bytes=self._part_bytes, slice_rows=self._slice_rows)
        opened = open_table(parts[0])
        problems = wrong_columns(entity, opened.schema, text=opened.text)
        wrong = tuple(msgspec.structs.replace(problem, source=opened.source) for problem in problems)
        return _Table(entity, path, parts[0].size or 0, () if wrong else tuple(parts), wrong)


class TablePlaces:
    """Rows are numbered through the tables of their type, mostly one. In a load that is not refused none is passed over."""

    def __init__(self, tables: Sequence[tuple[str, int]]) -> None:
        self._names = [name for name, _ in tables]
        self._firsts = [0, *accumulate(rows for _, rows in tables)]

    def of(self, rows: Sequence[int]) -> list[Origin]:
        return [self._of(row) for row in rows]

    def _of(self, row: int) -> Origin:
        number = bisect_right(self._firsts, row) - 1
        return Origin(self._names[number], None, row - self._firsts[number] + 1)


def _report(tables: Sequence[_Table], replies: Sequence[Reply], report: Report) -> None:
    """What is wrong in the order of the tables, up to where a report is full. What a task failed of has its place in that order too."""
    for found in _found(tables, replies):
        report.add(found.problems)
        report.more += found.more
        if report.full:
            return


def _found(tables: Sequence[_Table], replies: Sequence[Reply]) -> Iterator[Wrong]:
    for table, of_table in _by_table(tables, replies):
        if table.wrong:
            yield Wrong(table.wrong, 0)
        for reply in of_table:
            refuse([reply])
            assert reply.answer is not None
            yield from reply.answer.slices


def _sources(entity: EntityType, tables: Sequence[_Table], replies: Sequence[Reply]) -> list[tuple[str, int]]:
    """The tables of a type, and how many rows each has."""
    return [
        (table.name, sum(wrote.rows for reply in of_table if reply.answer is not None for _, wrote in reply.answer.types))
        for table, of_table in _by_table(tables, replies)
        if table.entity.id == entity.id
    ]


def _by_table(tables: Sequence[_Table], replies: Sequence[Reply]) -> Iterator[tuple[_Table, Sequence[Reply]]]:
    """Each table with what its tasks replied: replies come in the order of the parts."""
    at = 0
    for table in tables:
        yield table, replies[at : at + len(table.parts)]
        at += len(table.parts)
