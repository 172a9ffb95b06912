"""A task's payload and number -> its answer as JSON text: what `shipped` calls on an executor.

Refusals travel as answers, and so does the failure of a last attempt: a Spark job that fails tells nobody which files its other tasks
wrote, so ours end well whenever they can, and the driver removes the files and raises.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from omnigraph import errors
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, Outcome, RecoveryRequired, StorageError
from omnigraph.exec.load.parts import Part, count_lines, pieces_of
from omnigraph.exec.load.tablefiles import TablePart
from omnigraph.faults import Fault, reach
from omnigraph.ids import TypeId
from omnigraph.spark.unload import Unload, Unloaded, unload_part
from omnigraph.spark.work import Answer, Job, lines_of, problems_of, stage_part, stage_rows, stage_table


class Payload(msgspec.Struct, frozen=True):
    """What all tasks of one Spark job are told. `attempts` is how often Spark tries a task, if that is known."""

    job: Job
    parts: tuple[Part, ...] = ()
    limit: int = 0
    attempts: int | None = None
    type_id: TypeId | None = None
    rows: tuple[tuple[int, ...], ...] = ()
    """Of each part those that are asked about."""


class TypePart(msgspec.Struct, frozen=True):
    """A part of the table of one type."""

    type_: str
    part: TablePart


class TablePayload(msgspec.Struct, frozen=True):
    """What all tasks of a job over tables are told."""

    job: Job
    parts: tuple[TypePart, ...]
    limit: int
    attempts: int | None = None


class Failure(msgspec.Struct, frozen=True):
    """An error of ours on its way from an executor to the driver."""

    error: str
    kind: str
    message: str
    facts: dict[str, str | int | float | bool | None]

    def raised(self) -> OmniGraphError:
        """The same error here."""
        class_: type[OmniGraphError] = getattr(errors, self.error)
        kind, facts = Kind(self.kind), dict(self.facts)
        if issubclass(class_, StorageError | RecoveryRequired):
            return class_(kind, self.message, outcome=Outcome(str(facts.pop("outcome"))), **facts)
        return class_(kind, self.message, **facts)


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of these."""

    answer: Answer | None = None
    lines: tuple[int, ...] = ()
    unloaded: Unloaded | None = None
    failure: Failure | None = None
    missing: str | None = None
    """The module an executor does not have."""
    release: str | None = None
    """The other release of ours that an executor has."""


def encode_payload(payload: Payload | TablePayload | Unload) -> bytes:
    return msgspec.msgpack.encode(payload)


def stage(payload: bytes, number: int) -> str:
    """Read, check and write one part."""
    told = _told(payload)
    return _reply(told.attempts, lambda: Reply(_written(stage_part(told.job, number, told.parts[number]))))


def table(payload: bytes, number: int) -> str:
    """Read, check and write one part of a table."""
    told = msgspec.msgpack.decode(payload, type=TablePayload)
    type_, part = told.parts[number].type_, told.parts[number].part
    return _reply(told.attempts, lambda: Reply(_written(stage_table(told.job, number, type_, part, limit=told.limit))))


def count(payload: bytes, number: int) -> str:
    """Count the lines of each block of a part."""
    told = _told(payload)
    return _reply(told.attempts, lambda: Reply(lines=tuple(map(count_lines, pieces_of(told.parts[number])))))


def problems(payload: bytes, number: int) -> str:
    """Say what is wrong with one block."""
    told = _told(payload)
    return _reply(told.attempts, lambda: Reply(problems_of(told.job, told.parts[number], limit=told.limit)))


def lines(payload: bytes, number: int) -> str:
    """Say in which lines of a part some rows of a type are."""
    told = _told(payload)
    assert told.type_id is not None
    type_id = told.type_id
    return _reply(told.attempts, lambda: Reply(lines=tuple(lines_of(told.job, told.parts[number], type_id, told.rows[number]))))


def rows(payload: bytes, type_name: str, batches: Iterator[pa.RecordBatch]) -> str:
    """Check and write the rows of one partition of a data frame."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark runs this"
    number = context.partitionId()
    told = _told(payload)
    return _reply(told.attempts, lambda: Reply(_written(stage_rows(told.job, number, type_name, batches, limit=told.limit))))


def unload(payload: bytes, number: int) -> str:
    """Write one part of an export. Its driver clears the whole folder if it fails, so an attempt may fail like any task."""
    job = msgspec.msgpack.decode(payload, type=Unload)
    return _reply(None, lambda: Reply(unloaded=unload_part(job, number)))


def _told(payload: bytes) -> Payload:
    return msgspec.msgpack.decode(payload, type=Payload)


def _written(answer: Answer) -> Answer:
    if not _attempt():  # another attempt of the same task, in a process where the point is armed again, must be able to pass
        reach(Fault.SPARK_TASK_WRITTEN)
    return answer


def _reply(attempts: int | None, work: Callable[[], Reply]) -> str:
    last = attempts is not None and _attempt() + 1 >= attempts
    try:
        reply = work()
    except StorageError as error:
        if not last:
            raise  # Spark tries the task again, here or elsewhere
        reply = Reply(failure=_failure(error))
    except OmniGraphError as error:  # trying again would not mend it
        reply = Reply(failure=_failure(_of_executor(error)))
    except Exception as error:
        if not last:
            raise
        reply = Reply(failure=_failure(StorageError(Kind.STORAGE, f"a task failed: {type(error).__name__}: {error}")))
    return msgspec.json.encode(reply).decode()


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0


def _of_executor(error: OmniGraphError) -> OmniGraphError:
    """The driver could read the file, or there would be no task."""
    if isinstance(error, NotFound | InvalidInput) and "path" in error.facts:
        where = f"{error.message} on {socket.gethostname()}: all executors must see the files under the same paths"
        return type(error)(error.kind, f"{where}; nothing was written", **error.facts)
    return error


def _failure(error: OmniGraphError) -> Failure:
    facts = {name: fact for name, fact in error.facts.items() if fact is None or isinstance(fact, str | int | float | bool)}
    return Failure(type(error).__name__, error.kind.value, error.message, facts)
