"""Files and data frames -> the rows of a load, read by executors: what a load in one process does in a loop is one task a part here.

The checks that need all rows at once are the load's own and run on the driver, on the key columns of the files that the tasks wrote.
What is wrong is told exactly as a load in one process tells it: in its order, with its places and its counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.catalog import Catalog, encode
from omnigraph.catalog.model import EntityType
from omnigraph.exec.load.load import Advance
from omnigraph.exec.load.parts import PART_BYTES, Part, blocks_of, parts_of
from omnigraph.exec.load.read import Report, read_batches
from omnigraph.exec.load.staging import Origin, Staging, Target
from omnigraph.exec.load.tabular import entity_named
from omnigraph.ids import TypeId
from omnigraph.spark.lines import Lines
from omnigraph.spark.runner import PartTasks, Runner, refuse
from omnigraph.spark.tasks import Payload, Reply
from omnigraph.spark.work import Answer, Job
from omnigraph.store.files import fragments_from_text
from omnigraph.store.root import Root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BLOCKS_AT_ONCE: Final = 16
"""How many blocks with something wrong are asked about together. Mostly the first has more to tell than anybody wants to hear."""


class FilesIntake:
    """NDJSON files, cut into parts."""

    def __init__(self, runner: PartTasks, root: Root, paths: Sequence[str], *, part_bytes: int = PART_BYTES) -> None:
        self._runner = runner
        self._root = root
        self._paths = tuple(paths)
        self._part_bytes = part_bytes

    @property
    def rereadable(self) -> bool:
        return True

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        parts = [part for path in self._paths for part in parts_of(path, part_bytes=self._part_bytes)]
        total = sum(part.size for part in parts if part.start == 0)
        advance(0, total, 0)
        job = job_of(self._root, staging, catalog)

        def on_done(tasks: int) -> None:
            advance(total * tasks // len(parts), total, 0)

        answers = taken(self._runner.on_parts("stage", Payload(job, tuple(parts)), on_done=on_done), staging, catalog)
        lines = Lines(self._runner, job, parts)
        for staged in staging.types.values():
            staged.places = PartPlaces(self._runner, job, lines, answers, staged.entity.id)
        advance(total, total, sum(staged.rows for staged in staging.types.values()))
        self._report(job, lines, [parts[answer.part] for answer in answers if answer.wrong], report)

    def _report(self, job: Job, lines: Lines, wrong: Sequence[Part], report: Report) -> None:
        """Ask again about the blocks that have problems, the first ones first, now that somebody must know their lines."""
        blocks = list(dict.fromkeys(block for part in wrong for block in blocks_of(part)))
        for at in range(0, len(blocks), _BLOCKS_AT_ONCE):
            some = tuple(map(lines.numbered, blocks[at : at + _BLOCKS_AT_ONCE]))
            replies = self._runner.on_parts("problems", Payload(job, some, limit=report.limit))
            refuse(replies)
            for reply in replies:
                assert reply.answer is not None
                report.add(reply.answer.problems)
                report.more += reply.answer.more
                if report.full:
                    return


class FramesIntake:
    """Data frames, one a type."""

    def __init__(self, runner: Runner, root: Root, frames: Mapping[str, DataFrame]) -> None:
        self._runner = runner
        self._root = root
        self._frames = frames

    @property
    def rereadable(self) -> bool:
        return True

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        for name, frame in self._frames.items():
            entity = entity_named(name, catalog)
            if self._suits(name, frame, catalog, report):
                # Once anything is wrong nothing will land: the rest is read for its problems alone.
                job = msgspec.structs.replace(job_of(self._root, staging, catalog), writes=not report.problems)
                replies = self._runner.on_rows(Payload(job, limit=report.limit), name, frame)
                take_frame(staging, catalog, entity, replies, report)
            advance(0, None, sum(staged.rows for staged in staging.types.values()))
            if report.full:
                return

    def _suits(self, name: str, frame: DataFrame, catalog: Catalog, report: Report) -> bool:
        """Whether the columns are those of the type: what is wrong with them is told once, and not by every task."""
        before = len(report.problems)
        for _ in read_batches({name: frame.limit(0).toArrow()}, catalog, report):
            pass
        return len(report.problems) == before


class PartPlaces:
    """The lines of rows that tasks wrote: asked of the parts that have the rows, which are read once more. Only refusals ask."""

    def __init__(self, runner: PartTasks, job: Job, lines: Lines, answers: Sequence[Answer], type_id: TypeId) -> None:
        self._runner = runner
        self._job = job
        self._lines = lines
        self._type_id = type_id
        rows = [dict(answer.types)[type_id].rows if type_id in dict(answer.types) else 0 for answer in answers]
        self._firsts = [0, *accumulate(rows)]

    def of(self, rows: Sequence[int]) -> list[Origin]:
        asked: dict[int, list[int]] = {}
        for row in sorted(rows):
            number = bisect_right(self._firsts, row) - 1
            asked.setdefault(number, []).append(row - self._firsts[number])
        parts = tuple(self._lines.numbered(self._lines.parts[number]) for number in asked)
        payload = Payload(self._job, parts, type_id=self._type_id, rows=tuple(map(tuple, asked.values())))
        replies = self._runner.on_parts("lines", payload)
        refuse(replies)
        found = {
            self._firsts[number] + row: Origin(part.name, line, None)
            for (number, of_part), part, reply in zip(asked.items(), parts, replies, strict=True)
            for row, line in zip(of_part, reply.lines, strict=True)
        }
        return [found[row] for row in rows]


class FramePlaces(msgspec.Struct, frozen=True):
    """The records of a data frame are numbered in the order of its partitions."""

    source: str

    def of(self, rows: Sequence[int]) -> list[Origin]:
        return [Origin(self.source, None, row + 1) for row in rows]


def job_of(root: Root, staging: Staging, catalog: Catalog) -> Job:
    targets: dict[TypeId, Target] = {entity.id: staging.target_of(entity) for entity in _entities(catalog)}
    return Job(root.uri, root.storage_options, encode(catalog), targets)


def taken(replies: Sequence[Reply], staging: Staging, catalog: Catalog) -> list[Answer]:
    """Name the files that tasks wrote, in the order of their parts, which is that of the records; then raise what any of them failed of."""
    answers = named(replies, staging, catalog)
    refuse(replies)
    return answers


def named(replies: Sequence[Reply], staging: Staging, catalog: Catalog) -> list[Answer]:
    """Name the files that tasks wrote: they are the load's now, which removes them when it is refused."""
    answers = sorted((reply.answer for reply in replies if reply.answer is not None), key=lambda answer: answer.part)
    for answer in answers:
        for type_id, wrote in answer.types:
            entity = catalog.by_id(type_id)
            assert entity is not None, "the tasks had the same schema"
            staged = staging.of(entity)
            assert staged.shelf is not None, "a Spark load writes"
            staged.shelf.fragments += fragments_from_text(wrote.fragments)
            staged.rows += wrote.rows
            staged.minted = staged.minted and wrote.minted
            staged.keys = None
    return answers


def take_frame(staging: Staging, catalog: Catalog, entity: EntityType, replies: Sequence[Reply], report: Report) -> None:
    """What tasks wrote of one data frame, and what is wrong with its records, numbered in the order of its partitions."""
    before = 0
    for answer in taken(replies, staging, catalog):
        report.add(
            msgspec.structs.replace(problem, record=problem.record + before) if problem.record is not None else problem
            for problem in answer.problems
        )
        report.more += answer.more
        before += answer.records
    staging.of(entity).places = FramePlaces(f"<{entity.kind}:{entity.name}>")  # a frame without rows names its type all the same


def _entities(catalog: Catalog) -> tuple[EntityType, ...]:
    return (*catalog.nodes, *catalog.edges)
