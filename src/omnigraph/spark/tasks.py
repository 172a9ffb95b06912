"""A task's payload and number -> its answer as JSON text: what `shipped` calls on an executor. Refusals travel as answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import msgspec
import pyarrow as pa

from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.exec.load.parts import Part
from omnigraph.ids import TypeId
from omnigraph.spark.unload import Unload, Unloaded, unload_part
from omnigraph.spark.work import Answer, Job, lines_of, problems_of, stage_part, stage_rows


class Payload(msgspec.Struct, frozen=True):
    """What all tasks of one Spark job are told."""

    job: Job
    parts: tuple[Part, ...] = ()
    limit: int = 0
    type_id: TypeId | None = None


class Refused(msgspec.Struct, frozen=True):
    """An error that trying again would not mend."""

    kind: str
    message: str


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of these."""

    answer: Answer | None = None
    lines: tuple[int, ...] = ()
    refused: Refused | None = None
    unloaded: Unloaded | None = None
    missing: str | None = None
    """The module an executor does not have."""


def encode_payload(payload: Payload | Unload) -> bytes:
    return msgspec.msgpack.encode(payload)


def stage(payload: bytes, number: int) -> str:
    """Read, check and write one part."""
    told = _told(payload)
    return _reply(lambda: Reply(stage_part(told.job, number, told.parts[number])))


def problems(payload: bytes, number: int) -> str:
    """Say what is wrong with one part."""
    told = _told(payload)
    return _reply(lambda: Reply(problems_of(told.job, told.parts[number], limit=told.limit)))


def lines(payload: bytes, number: int) -> str:
    """Say in which lines of a part the rows of a type are."""
    told = _told(payload)
    assert told.type_id is not None
    type_id = told.type_id
    return _reply(lambda: Reply(lines=tuple(lines_of(told.job, told.parts[number], type_id))))


def rows(payload: bytes, type_name: str, batches: Iterator[pa.RecordBatch]) -> str:
    """Check and write the rows of one partition of a data frame."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark runs this"
    first = next(batches, None)
    number = context.partitionId()
    if first is None:
        return _reply(lambda: Reply(Answer(number, 0, {})))
    schema = first.schema
    return _reply(lambda: Reply(stage_rows(_told(payload).job, number, type_name, chain([first], batches), schema)))


def unload(payload: bytes, number: int) -> str:
    """Write one part of an export."""
    job = msgspec.msgpack.decode(payload, type=Unload)
    return _reply(lambda: Reply(unloaded=unload_part(job, number)))


def _told(payload: bytes) -> Payload:
    return msgspec.msgpack.decode(payload, type=Payload)


def _reply(work: Callable[[], Reply]) -> str:
    try:
        reply = work()
    except StorageError:
        raise  # Spark tries the task again, here or elsewhere
    except OmniGraphError as error:
        reply = Reply(refused=Refused(error.kind.value, error.message))
    return msgspec.json.encode(reply).decode()
