"""An assignment (bytes) and the number of a part -> a reply (text). `shipped` calls this on an executor.

A task reads and checks its part with the reader and the validation of every load, and writes data files that no commit refers to yet.
Only the reply of the successful attempt reaches the driver, so no commit refers to the files of other attempts.

Spark retries a failed task. A task therefore raises an error that a retry may fix while attempts are left. Otherwise it replies with the
failure, so that the driver can raise the same error.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import assert_never

import pyarrow as pa

from omnigraph.catalog.model import EntityType
from omnigraph.embed import embedder_of
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, StorageError
from omnigraph.exec.external_blobs import BlobPolicy, ExternalBlobs
from omnigraph.exec.load.batches import Batch, Data, read_batches
from omnigraph.exec.load.embedded import LoadEmbedding, load_embedding
from omnigraph.exec.load.load import row_check
from omnigraph.exec.load.parts import FilePart, count_lines, pieces_of
from omnigraph.exec.load.staging import Staging, StagingTarget
from omnigraph.exec.problems import Report, shifted
from omnigraph.faults import Fault, reach
from omnigraph.ids import TypeId
from omnigraph.spark.handles import catalog_of, readable_by, root_of, tables_of
from omnigraph.spark.messages import (
    CountLines,
    Failure,
    FindLines,
    FindProblems,
    Job,
    LineNumbers,
    PartTask,
    Reply,
    Result,
    SliceProblems,
    StagedPart,
    StageFrame,
    StageLines,
    StageTables,
    TypePart,
    TypeRows,
    Unload,
    decode_assignment,
    encode_reply,
)
from omnigraph.spark.unload import unload_part
from omnigraph.store.data_files import Shelf, fragments_from_text, fragments_to_text


def run_part(assignment: bytes, number: int) -> str:
    """Run a task over one part and return the reply."""
    assigned = decode_assignment(assignment)
    task = assigned.task
    assert not isinstance(task, StageFrame), "a data frame has partitions, not parts"
    return _reply(assigned.attempts, lambda: _run(task, number))


def run_rows(assignment: bytes, batches: Iterator[pa.RecordBatch]) -> str:
    """Run a task over the rows of one partition of a data frame and return the reply."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark runs this"
    number = context.partitionId()
    assigned = decode_assignment(assignment)
    task = assigned.task
    assert isinstance(task, StageFrame), "only a data frame has rows"
    return _reply(assigned.attempts, lambda: _after_write(stage_rows(task, number, batches)))


def _run(task: PartTask, number: int) -> Result:
    match task:
        case StageLines(job, parts):
            return _after_write(stage_lines(job, number, parts[number]))
        case StageTables(job, parts, limit):
            return _after_write(stage_table(job, number, parts[number], limit=limit))
        case CountLines(parts):
            return LineNumbers(tuple(map(count_lines, pieces_of(parts[number]))))
        case FindProblems(job, parts, limit):
            return problems_of(job, parts[number], limit=limit)
        case FindLines(job, parts, type_id, rows):
            return LineNumbers(tuple(lines_of(job, parts[number], type_id, rows[number])))
        case Unload():
            return unload_part(task, number)
        case _:
            assert_never(task)


# -- loads


def stage_lines(job: Job, number: int, part: FilePart) -> StagedPart:
    """Read, check and write one part of a file. Stops at the first problem: the driver requests all of them once it has line numbers."""
    report = Report(1)
    staging = _staging(job)
    with _discard_on_failure(staging):
        for batch in _read(job, part, report, _embedding(job, write=True)):
            if not report.problems:
                staging.add(batch)
        if report.problems:
            staging.discard()
            return StagedPart(number, refused=True)
        staging.finish()
    return StagedPart(number, _type_rows(staging))


def stage_table(job: Job, number: int, what: TypePart, *, limit: int) -> StagedPart:
    """Check and write one part of a table. Problems are reported slice by slice, so that the driver can stop at the same slice as a
    reader of the whole table.
    """
    report, slices = Report(limit), list[SliceProblems]()
    staging = _staging(job)
    with _discard_on_failure(staging):
        for batch in _read(job, {what.type_: what.part}, report, _embedding(job, write=job.writes)):
            if report.problems:
                slices.append(_since(report, slices))
            elif job.writes:
                staging.add(batch)
        if report.problems:
            staging.discard()
            slices.append(_since(report, slices))  # problems of columns come without a batch
            return StagedPart(number, refused=True, slices=tuple(slices))
        staging.finish()
    return StagedPart(number, _type_rows(staging))


def stage_rows(task: StageFrame, number: int, batches: Iterable[pa.RecordBatch]) -> StagedPart:
    """Check and write the rows of one partition of a data frame. All rows are read and all problems counted."""
    job, whole = task.job, Report(task.limit)
    staging, external, records = _staging(job), _external(job), 0
    embedding = _embedding(job, write=job.writes)
    with _discard_on_failure(staging):
        for rows in batches:
            report = Report(task.limit)
            for batch in _read(job, {task.type_name: rows}, report, embedding, external):
                if job.writes and not report.problems and not whole.problems:
                    staging.add(batch)
            if report.problems and not whole.problems:  # the rest is read only for its problems
                embedding = _embedding(job, write=False)
            whole.add(shifted(report.problems, by=records), more=report.more)
            records += rows.num_rows
        if whole.problems:
            staging.discard()
            return StagedPart(number, refused=True, records=records, problems=tuple(whole.problems), more=whole.more)
        staging.finish()
    return StagedPart(number, _type_rows(staging), records=records)


def problems_of(job: Job, block: FilePart, *, limit: int) -> StagedPart:
    """Return the problems of the records in a block, with their line numbers. No text is embedded."""
    report = Report(limit)
    for _ in _read(job, block, report, _embedding(job, write=False)):
        pass
    return StagedPart(0, refused=bool(report.problems), problems=tuple(report.problems), more=report.more)


def lines_of(job: Job, part: FilePart, type_id: TypeId, rows: Sequence[int]) -> list[int]:
    """Return the lines of some rows of one type. `rows` are their numbers in the part, from 0, ascending."""
    found: list[int] = []
    before = 0
    for batch in read_batches(part, readable_by(job), Report(), mode=job.mode, external=lambda _: b""):  # only lines are counted
        if batch.entity.id == type_id:
            found += _lines(batch, [row - before for row in rows[len(found) :] if row - before < len(batch.lines)])
            before += len(batch.lines)
    return found


def _read(job: Job, data: Data, report: Report, embedding: LoadEmbedding | None, external: ExternalBlobs | None = None) -> Iterator[Batch]:
    """Yield the rows of a part, checked, with the vectors that they leave out."""
    blobs = _external(job) if external is None else external
    for batch in read_batches(data, readable_by(job), report, mode=job.mode, check=row_check(job.mode), external=blobs.read):
        yield batch if embedding is None else embedding.filled(batch, report)


def _embedding(job: Job, *, write: bool) -> LoadEmbedding | None:
    embedder = None if job.embedding is None else embedder_of(job.embedding, {})  # its settings are complete
    return load_embedding(catalog_of(job.catalog), embedder, job.mode, write=write)


def discard(job: Job, parts: Iterable[StagedPart]) -> None:
    """Remove the files that tasks wrote. No commit refers to them."""
    for part in parts:
        for type_id, wrote in part.types:
            target = job.targets[type_id]
            shelf = Shelf(tables_of(job.place).open(target.row.ref), native=target.native)
            shelf.fragments += fragments_from_text(wrote.fragments)
            shelf.clear()
            for name in wrote.patches:
                shelf.table.root.objects.delete(name)


def _lines(batch: Batch, rows: Sequence[int]) -> list[int]:
    lines: list[int] = batch.lines.take(pa.array(rows, pa.int64())).to_pylist()
    return lines


def _since(report: Report, slices: Sequence[SliceProblems]) -> SliceProblems:
    """Return the problems of the report that the earlier slices do not have."""
    reported, more = sum(len(before.problems) for before in slices), sum(before.more for before in slices)
    return SliceProblems(tuple(report.problems[reported:]), report.more - more)


@contextmanager
def _discard_on_failure(staging: Staging) -> Iterator[None]:
    """Remove the written files if the block fails. The files of a killed task remain until cleanup. No commit refers to them."""
    try:
        yield
    except Exception:
        with suppress(OmniGraphError):  # the storage may fail again; the first failure is reported
            staging.discard()
        raise


def _staging(job: Job) -> Staging:
    def target(entity: EntityType) -> StagingTarget:
        return job.targets[entity.id]

    objects = root_of(job.place).objects
    return Staging(tables_of(job.place), target, write=True, mode=job.mode, key_bytes=0, patch_store=objects)


def _external(job: Job) -> ExternalBlobs:
    return ExternalBlobs(lambda: BlobPolicy(job.external_blobs, job.place.storage_options))


def _type_rows(staging: Staging) -> tuple[tuple[TypeId, TypeRows], ...]:
    return tuple(
        (
            staged.entity.id,
            TypeRows(
                staged.rows,
                staged.fresh,
                fragments=() if staged.shelf is None else tuple(fragments_to_text(staged.shelf.fragments)),
                patches=() if staged.patches is None else staged.patches.names,
            ),
        )
        for staged in staging.types.values()
    )


# -- replies


def _after_write(part: StagedPart) -> StagedPart:
    if not _attempt():  # a retry, in a process where the fault point is armed again, must pass
        reach(Fault.SPARK_TASK_WRITTEN)
    return part


def _reply(attempts: int | None, work: Callable[[], Result]) -> str:
    last = attempts is not None and _attempt() + 1 >= attempts
    try:
        reply: Reply = work()
    except StorageError as error:
        if not last:
            raise  # Spark retries the task
        reply = Failure.of(error)
    except OmniGraphError as error:  # a retry would not help
        reply = Failure.of(_on_executor(error))
    except Exception as error:
        if not last:
            raise
        reply = Failure.of(StorageError(Kind.STORAGE, f"a task failed: {type(error).__name__}: {error}"))
    return encode_reply(reply)


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0


def _on_executor(error: OmniGraphError) -> OmniGraphError:
    """Name the host in the message of a missing file. The driver could read the file, so this executor lacks access."""
    if isinstance(error, NotFound | InvalidInput) and "path" in error.facts:
        where = f"{error.message} on {socket.gethostname()}: all executors must see the files under the same paths"
        return type(error)(error.kind, f"{where}; nothing was written", **error.facts)
    return error
