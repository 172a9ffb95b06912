"""What one task of a load is told, what it does, and what it answers. Runs on executors: plain data in, plain data out.

A task reads its part of the input with the reader of every load, checks each row with the validation of every load, and writes data files
that nobody names. Only the answer of the attempt that Spark counts reaches the driver, so files of other attempts stay unnamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec
import pyarrow as pa

from omnigraph.catalog import Catalog, decode
from omnigraph.catalog.model import EntityType
from omnigraph.exec.load.parts import Part, read_part
from omnigraph.exec.load.read import Batch, Data, Report, read_batches
from omnigraph.exec.load.staging import Staging, Target
from omnigraph.exec.problems import REPORTED, Problem
from omnigraph.exec.validate.values import check_values
from omnigraph.ids import TypeId
from omnigraph.store.files import Shelf, fragments_from_text, fragments_to_text
from omnigraph.store.root import open_root
from omnigraph.store.tables import Tables


class Job(msgspec.Struct, frozen=True):
    """What every task of a load knows: the graph, its schema, and where the files of each type go."""

    uri: str
    storage_options: Mapping[str, str]
    catalog: bytes
    targets: Mapping[TypeId, Target]


class TypeRows(msgspec.Struct, frozen=True):
    """What a task wrote of one type."""

    rows: int
    minted: bool
    fragments: tuple[str, ...]


class Answer(msgspec.Struct, frozen=True):
    """What a task did with its part: the lines it has, the rows it wrote by type; with any problem it wrote for nothing."""

    part: int
    lines: int
    types: Mapping[TypeId, TypeRows]
    problems: tuple[Problem, ...] = ()
    more: int = 0


def stage_part(job: Job, number: int, part: Part) -> Answer:
    """Read, check and write one part of a file."""
    lines = 0

    def counted() -> Iterator[bytes]:
        nonlocal lines
        for chunk in read_part(part):
            lines += chunk.count(b"\n")
            yield chunk

    staging, report = _stage(job, counted())
    return _answer(number, lines, staging, report)


def stage_rows(job: Job, number: int, type_: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Answer:
    """Check and write the rows that one partition of a data frame has."""
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield batch

    staging, report = _stage(job, {type_: pa.RecordBatchReader.from_batches(schema, counted())})
    return _answer(number, rows, staging, report)


def problems_of(job: Job, part: Part, *, limit: int) -> Answer:
    """What is wrong with the records of a part, now that the number of its first line is known."""
    report = Report(limit)
    for _ in read_batches(part, catalog_of(job.catalog), report, check=check_values):
        pass
    return Answer(0, 0, {}, tuple(report.problems), report.more)


def lines_of(job: Job, part: Part, type_id: TypeId) -> list[int]:
    """The lines of the rows of one type, in their order."""
    batches = read_batches(part, catalog_of(job.catalog), Report())
    return [line for batch in batches if batch.entity.id == type_id for line in batch.lines.to_pylist()]


def discard(job: Job, answers: Iterable[Answer]) -> None:
    """Remove what tasks wrote: no commit will name it."""
    for answer in answers:
        for type_id, wrote in answer.types.items():
            target = job.targets[type_id]
            shelf = Shelf(tables_of(job.uri, job.storage_options).open(target.row.ref), native=target.native)
            shelf.fragments += fragments_from_text(wrote.fragments)
            shelf.clear()


def tables_of(uri: str, storage_options: Mapping[str, str]) -> Tables:
    """The tables of a graph, whose handles stay open from task to task of one process."""
    return _tables(uri, tuple(sorted(storage_options.items())))


def _stage(job: Job, data: Data) -> tuple[Staging, Report]:
    def target(entity: EntityType) -> Target:
        return job.targets[entity.id]

    staging, report = Staging(tables_of(job.uri, job.storage_options), target, write=True, key_bytes=0), Report(REPORTED)
    for batch in read_batches(data, catalog_of(job.catalog), report, check=check_values):
        if not report.problems:
            _add(staging, batch)
    if report.problems:
        staging.discard()
    else:
        staging.finish()
    return staging, report


def _add(staging: Staging, batch: Batch) -> None:
    staging.add(batch)


def _answer(number: int, lines: int, staging: Staging, report: Report) -> Answer:
    types = {
        staged.entity.id: TypeRows(staged.rows, staged.minted, tuple(fragments_to_text(staged.shelf.fragments)))
        for staged in staging.types.values()
        if staged.shelf is not None
    }
    return Answer(number, lines, types, tuple(report.problems), report.more)


@lru_cache(maxsize=4)
def catalog_of(stored: bytes) -> Catalog:
    """The schema that a job carries, decoded once a process."""
    return decode(stored)


@lru_cache(maxsize=4)
def _tables(uri: str, options: tuple[tuple[str, str], ...]) -> Tables:
    return Tables(open_root(uri, storage_options=dict(options)))
