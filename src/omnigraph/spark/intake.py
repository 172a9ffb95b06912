"""Files and data frames -> the rows of a load, read by executors: what a load in one process does in a loop is one task a part here.

The checks that need all rows at once are the load's own and run on the driver, on the key columns of the files that the tasks wrote.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from omnigraph.catalog import Catalog, encode
from omnigraph.catalog.model import EntityType
from omnigraph.exec.load.load import Advance
from omnigraph.exec.load.parts import PART_BYTES, Part, parts_of
from omnigraph.exec.load.read import Report
from omnigraph.exec.load.sources import existing_file
from omnigraph.exec.load.staging import Origin, Staging, Target
from omnigraph.exec.load.tabular import entity_named
from omnigraph.ids import TypeId
from omnigraph.spark.runner import Runner
from omnigraph.spark.tasks import Payload
from omnigraph.spark.work import Answer, Job
from omnigraph.store.files import fragments_from_text
from omnigraph.store.root import Root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FilesIntake:
    """NDJSON files, cut into parts."""

    def __init__(self, runner: Runner, root: Root, paths: Sequence[str], *, part_bytes: int = PART_BYTES) -> None:
        self._runner = runner
        self._root = root
        self._paths = [str(existing_file(path)) for path in paths]
        self._part_bytes = part_bytes

    @property
    def rereadable(self) -> bool:
        return True

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        parts = [part for path in self._paths for part in parts_of(path, part_bytes=self._part_bytes)]
        total = sum(part.end - part.start for part in parts)
        advance(0, total, 0)
        job = job_of(self._root, staging, catalog)
        replies = self._runner.on_parts("stage", Payload(job, tuple(parts)), range(len(parts)))
        answers = in_order(reply.answer for reply in replies if reply.answer is not None)
        counted = _numbered(parts, answers)
        take_over(staging, catalog, answers)
        for staged in staging.types.values():
            staged.places = PartPlaces(self._runner, job, counted, answers, staged.entity.id)
        advance(total, total, sum(staged.rows for staged in staging.types.values()))
        wrong = [answer.part for answer in answers if answer.problems]
        if wrong:
            self._report(job, counted, wrong, report)

    def _report(self, job: Job, parts: Sequence[Part], wrong: Sequence[int], report: Report) -> None:
        """Ask again about the parts that have problems, the first ones first, now that their lines have numbers."""
        for number in wrong:
            if report.full:
                return
            (reply,) = self._runner.on_parts("problems", Payload(job, tuple(parts), limit=report.limit), [number])
            assert reply.answer is not None
            report.add(reply.answer.problems)
            report.more += reply.answer.more


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
        job = job_of(self._root, staging, catalog)
        for name, frame in self._frames.items():
            entity = entity_named(name, catalog)
            replies = self._runner.on_rows(Payload(job), name, frame)
            answers = in_order(reply.answer for reply in replies if reply.answer is not None)
            take_frame(staging, catalog, entity, answers, report)
            advance(0, None, sum(staged.rows for staged in staging.types.values()))
            if report.full:
                return


def take_frame(staging: Staging, catalog: Catalog, entity: EntityType, answers: Sequence[Answer], report: Report) -> None:
    """What tasks wrote of one data frame, and what is wrong with its records, numbered in the order of its partitions."""
    firsts = [0, *accumulate(answer.lines for answer in answers)]
    for first, answer in zip(firsts, answers, strict=False):
        report.add(
            msgspec.structs.replace(problem, record=problem.record + first) if problem.record is not None else problem
            for problem in answer.problems
        )
        report.more += answer.more
    staging.of(entity)  # a frame without rows names its type all the same
    take_over(staging, catalog, answers)
    staging.of(entity).places = FramePlaces(f"<{entity.kind}:{entity.name}>")


class PartPlaces:
    """The lines of rows that tasks wrote: asked of the part that has the row, which is read once more. Only refusals ask."""

    def __init__(self, runner: Runner, job: Job, parts: Sequence[Part], answers: Sequence[Answer], type_id: TypeId) -> None:
        self._runner = runner
        self._job = job
        self._parts = tuple(parts)
        self._type_id = type_id
        rows = [answer.types[type_id].rows if type_id in answer.types else 0 for answer in answers]
        self._firsts = [0, *accumulate(rows)]
        self._lines: dict[int, tuple[int, ...]] = {}

    def of(self, row: int) -> Origin:
        number = bisect_right(self._firsts, row) - 1
        if number not in self._lines:
            (reply,) = self._runner.on_parts("lines", Payload(self._job, self._parts, type_id=self._type_id), [number])
            self._lines[number] = reply.lines
        return Origin(self._parts[number].path, self._lines[number][row - self._firsts[number]], None)


class FramePlaces(msgspec.Struct, frozen=True):
    """The records of a data frame are numbered in the order of its partitions."""

    source: str

    def of(self, row: int) -> Origin:
        return Origin(self.source, None, row + 1)


def job_of(root: Root, staging: Staging, catalog: Catalog) -> Job:
    targets: dict[TypeId, Target] = {entity.id: staging.target_of(entity) for entity in _entities(catalog)}
    return Job(root.uri, root.storage_options, encode(catalog), targets)


def take_over(staging: Staging, catalog: Catalog, answers: Sequence[Answer]) -> None:
    """Name the files that tasks wrote, in the order of their parts: that is the order of the records."""
    for answer in answers:
        for type_id, wrote in answer.types.items():
            entity = catalog.by_id(type_id)
            assert entity is not None, "the tasks had the same schema"
            staged = staging.of(entity)
            assert staged.shelf is not None, "a Spark load writes"
            staged.shelf.fragments += fragments_from_text(wrote.fragments)
            staged.rows += wrote.rows
            staged.minted = staged.minted and wrote.minted
            staged.keys = None


def in_order(answers: object) -> list[Answer]:
    return sorted(answers, key=lambda answer: answer.part)  # type: ignore[call-overload, no-any-return]


def _numbered(parts: Sequence[Part], answers: Sequence[Answer]) -> list[Part]:
    """The parts with the numbers of their first lines."""
    numbered: list[Part] = []
    for part, answer in zip(parts, answers, strict=True):
        same = numbered and numbered[-1].path == part.path
        first = numbered[-1].first_line + answers[len(numbered) - 1].lines if same else 1
        numbered.append(msgspec.structs.replace(part, first_line=first))
        assert answer.part == len(numbered) - 1, "one answer a part"
    return numbered


def _entities(catalog: Catalog) -> tuple[EntityType, ...]:
    return (*catalog.nodes, *catalog.edges)
