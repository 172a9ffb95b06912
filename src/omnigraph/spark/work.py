"""What one task of a load is told, what it does, and what it answers. Runs on executors: plain data in, plain data out.

A task reads its part of the input with the reader of every load, checks each row with the validation of every load, and writes data files
that nobody names. Only the answer of the attempt that Spark counts reaches the driver, so files of other attempts stay unnamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache

import msgspec
import pyarrow as pa

from omnigraph.catalog import Catalog, decode
from omnigraph.catalog.model import EntityType
from omnigraph.errors import OmniGraphError
from omnigraph.exec.load.parts import Part
from omnigraph.exec.load.read import Batch, Report, read_batches
from omnigraph.exec.load.staging import Staging, Target
from omnigraph.exec.load.tablefiles import TablePart
from omnigraph.exec.problems import Problem
from omnigraph.exec.validate.values import check_values
from omnigraph.ids import TypeId
from omnigraph.store.files import Shelf, fragments_from_text, fragments_to_text
from omnigraph.store.root import open_root
from omnigraph.store.tables import Tables


class Job(msgspec.Struct, frozen=True):
    """What every task of a load knows: the graph, its schema, where the files of each type go, and whether any are wanted."""

    uri: str
    storage_options: Mapping[str, str]
    catalog: bytes
    targets: Mapping[TypeId, Target]
    writes: bool = True

    def __repr__(self) -> str:
        return f"Job({self.uri!r})"  # the options may hold secrets, and a repr may end in a log


class TypeRows(msgspec.Struct, frozen=True):
    """What a task wrote of one type."""

    rows: int
    minted: bool
    fragments: tuple[str, ...]


class Wrong(msgspec.Struct, frozen=True):
    """What is wrong with the records of one slice of a table, and how much more."""

    problems: tuple[Problem, ...]
    more: int


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task did: the rows it wrote by type, in the order in which they came first; or nothing, since something is `wrong`."""

    part: int
    types: tuple[tuple[TypeId, TypeRows], ...] = ()
    wrong: bool = False
    records: int = 0
    problems: tuple[Problem, ...] = ()
    more: int = 0
    slices: tuple[Wrong, ...] = ()


def stage_part(job: Job, number: int, part: Part) -> Answer:
    """Read, check and write one part of a file. The first problem ends it: which ones there are is asked when lines have numbers."""
    report = Report(1)
    staging = _staging(job)
    with _tidied(staging):
        for batch in read_batches(part, catalog_of(job.catalog), report, check=check_values):
            if not report.problems:
                staging.add(batch)
        if report.problems:
            staging.discard()
            return Answer(number, wrong=True)
        staging.finish()
    return Answer(number, _written(staging))


def stage_table(job: Job, number: int, type_: str, part: TablePart, *, limit: int) -> Answer:
    """Check and write one part of a table. It is told of each slice what is wrong with it, so that somebody who puts the parts together
    can stop at the slice where a reader of the whole table would.
    """
    report, slices = Report(limit), list[Wrong]()
    staging = _staging(job)
    with _tidied(staging):
        for batch in read_batches({type_: part}, catalog_of(job.catalog), report, check=check_values):
            if report.problems:
                slices.append(_since(report, slices))
            elif job.writes:
                staging.add(batch)
        if report.problems:
            staging.discard()
            slices.append(_since(report, slices))  # columns that do not suit have no batch
            return Answer(number, wrong=True, slices=tuple(slices))
        staging.finish()
    return Answer(number, _written(staging))


def stage_rows(job: Job, number: int, type_: str, batches: Iterable[pa.RecordBatch], *, limit: int) -> Answer:
    """Check and write the rows that one partition of a data frame has. All are read, and all problems counted."""
    catalog, whole = catalog_of(job.catalog), Report(limit)
    staging, records = _staging(job), 0
    with _tidied(staging):
        for rows in batches:
            report = Report(limit)
            for batch in read_batches({type_: rows}, catalog, report, check=check_values):
                if job.writes and not report.problems and not whole.problems:
                    staging.add(batch)
            whole.add(_moved(report.problems, by=records))
            whole.more += report.more
            records += rows.num_rows
        if whole.problems:
            staging.discard()
            return Answer(number, (), wrong=True, records=records, problems=tuple(whole.problems), more=whole.more)
        staging.finish()
    return Answer(number, _written(staging), records=records)


def problems_of(job: Job, block: Part, *, limit: int) -> Answer:
    """What is wrong with the records of a block, now that the number of its first line is known."""
    report = Report(limit)
    for _ in read_batches(block, catalog_of(job.catalog), report, check=check_values):
        pass
    return Answer(0, wrong=bool(report.problems), problems=tuple(report.problems), more=report.more)


def lines_of(job: Job, part: Part, type_id: TypeId, rows: Sequence[int]) -> list[int]:
    """The lines of some rows of one type, by their numbers in the part from 0, in ascending order."""
    found: list[int] = []
    before = 0
    for batch in read_batches(part, catalog_of(job.catalog), Report()):
        if batch.entity.id == type_id:
            found += _lines(batch, [row - before for row in rows[len(found) :] if row - before < len(batch.lines)])
            before += len(batch.lines)
    return found


def discard(job: Job, answers: Iterable[Answer]) -> None:
    """Remove what tasks wrote: no commit will name it."""
    for answer in answers:
        for type_id, wrote in answer.types:
            target = job.targets[type_id]
            shelf = Shelf(tables_of(job.uri, job.storage_options).open(target.row.ref), native=target.native)
            shelf.fragments += fragments_from_text(wrote.fragments)
            shelf.clear()


def tables_of(uri: str, storage_options: Mapping[str, str]) -> Tables:
    """The tables of a graph, whose handles stay open from task to task of one process."""
    return _tables(uri, tuple(sorted(storage_options.items())))


def _lines(batch: Batch, rows: Sequence[int]) -> list[int]:
    lines: list[int] = batch.lines.take(pa.array(rows, pa.int64())).to_pylist()
    return lines


def _since(report: Report, slices: Sequence[Wrong]) -> Wrong:
    """What a report has beyond what was wrong with the slices before."""
    told, more = sum(len(wrong.problems) for wrong in slices), sum(wrong.more for wrong in slices)
    return Wrong(tuple(report.problems[told:]), report.more - more)


def _moved(problems: Iterable[Problem], *, by: int) -> list[Problem]:
    """The same problems, their records so many later."""
    return [problem if problem.record is None else msgspec.structs.replace(problem, record=problem.record + by) for problem in problems]


@contextmanager
def _tidied(staging: Staging) -> Iterator[None]:
    """Remove what was written when the work in here fails. What a killed task wrote stays: nobody names it."""
    try:
        yield
    except Exception:
        with suppress(OmniGraphError):  # the storage that failed may fail again; the first failure is the one to tell
            staging.discard()
        raise


def _staging(job: Job) -> Staging:
    def target(entity: EntityType) -> Target:
        return job.targets[entity.id]

    return Staging(tables_of(job.uri, job.storage_options), target, write=True, key_bytes=0)


def _written(staging: Staging) -> tuple[tuple[TypeId, TypeRows], ...]:
    return tuple(
        (staged.entity.id, TypeRows(staged.rows, staged.minted, tuple(fragments_to_text(staged.shelf.fragments))))
        for staged in staging.types.values()
        if staged.shelf is not None
    )


@lru_cache(maxsize=4)
def catalog_of(stored: bytes) -> Catalog:
    """The schema that a job carries, decoded once a process."""
    return decode(stored)


@lru_cache(maxsize=4)
def _tables(uri: str, options: tuple[tuple[str, str], ...]) -> Tables:
    return Tables(open_root(uri, storage_options=dict(options)))
