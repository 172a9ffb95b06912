"""Messages between the driver and the tasks of a Spark job: a task -> bytes, and a reply -> JSON text, and back.

Both directions are closed, tagged unions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from omnigraph import errors
from omnigraph.embed import EmbeddingProvider
from omnigraph.errors import Kind, OmniGraphError, Outcome, RecoveryRequired, StorageError
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.parts import FilePart
from omnigraph.exec.load.staging import StagingTarget
from omnigraph.exec.load.tablefiles import TablePart
from omnigraph.exec.problems import Problem
from omnigraph.ids import TypeId
from omnigraph.store.checksums import FileSum
from omnigraph.store.tables import TableRef


class Place(msgspec.Struct, frozen=True):
    """The location of a graph or an export, and the options of its storage."""

    uri: str
    storage_options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Place({self.uri!r})"  # the options may hold secrets, and a repr may be logged


class Job(msgspec.Struct, frozen=True):
    """The common part of all tasks of a load: the graph, its schema, the target of the files of each type, the mode, and whether to write
    files. Blobs may be copied from below `external_blobs`, with the storage options of the graph. `embedding` is the provider of vectors
    that rows leave out, if the schema has any.
    """

    place: Place
    catalog: bytes
    targets: Mapping[TypeId, StagingTarget]
    mode: LoadMode
    external_blobs: tuple[str, ...]
    embedding: EmbeddingProvider | None
    writes: bool = True


# -- tasks: one message for each job. Each Spark task gets the number of its part.


class StageLines(msgspec.Struct, frozen=True, tag=True):
    """Read, check and write each part of NDJSON files."""

    job: Job
    parts: tuple[FilePart, ...]


class CountLines(msgspec.Struct, frozen=True, tag=True):
    """Count the lines in each block of the parts."""

    parts: tuple[FilePart, ...]


class FindProblems(msgspec.Struct, frozen=True, tag=True):
    """Report at most `limit` problems of each block."""

    job: Job
    parts: tuple[FilePart, ...]
    limit: int


class FindLines(msgspec.Struct, frozen=True, tag=True):
    """Report the lines of some rows of one type. `rows` holds their numbers, part by part."""

    job: Job
    parts: tuple[FilePart, ...]
    type_id: TypeId
    rows: tuple[tuple[int, ...], ...]


class TypePart(msgspec.Struct, frozen=True):
    """A part of the table of one type."""

    type_: str
    part: TablePart


class StageTables(msgspec.Struct, frozen=True, tag=True):
    """Read, check and write each part of Parquet and CSV files."""

    job: Job
    parts: tuple[TypePart, ...]
    limit: int


class StageFrame(msgspec.Struct, frozen=True, tag=True):
    """Check and write the rows of a data frame, with one task for each partition."""

    job: Job
    type_name: str
    limit: int


class Format(StrEnum):
    """The file format of an export."""

    NDJSON = "ndjson"
    PARQUET = "parquet"


class UnloadPart(msgspec.Struct, frozen=True):
    """Some fragments of the table of one type."""

    type_id: TypeId
    ref: TableRef
    fragments: tuple[int, ...]


class Unload(msgspec.Struct, frozen=True, tag=True):
    """Write each part of a snapshot to files."""

    graph: Place
    catalog: bytes
    target: Place
    format: Format
    parts: tuple[UnloadPart, ...]
    sums: Mapping[str, FileSum] = {}
    """The recorded checksums of the files of these tables. Tasks do not read the manifest."""


PartTask = StageLines | CountLines | FindProblems | FindLines | StageTables | Unload
Task = PartTask | StageFrame


class TaskAssignment(msgspec.Struct, frozen=True):
    """A task, and the maximum number of attempts of Spark, if it is known."""

    task: Task
    attempts: int | None = None


def encode_assignment(assignment: TaskAssignment) -> bytes:
    return msgspec.msgpack.encode(assignment)


def decode_assignment(data: bytes) -> TaskAssignment:
    return msgspec.msgpack.decode(data, type=TaskAssignment)


# -- replies


class TypeRows(msgspec.Struct, frozen=True):
    """The rows of one type that a task wrote, how many of them got a new id, and their files: of whole rows, or of patches."""

    rows: int
    fresh: int
    fragments: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()


class SliceProblems(msgspec.Struct, frozen=True):
    """The problems of the records in one slice of a table, and the number of further problems."""

    problems: tuple[Problem, ...]
    more: int


class StagedPart(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The files that a task wrote, by type, in the order in which the types first appear. No files if records are `refused`."""

    part: int
    types: tuple[tuple[TypeId, TypeRows], ...] = ()
    refused: bool = False
    records: int = 0
    problems: tuple[Problem, ...] = ()
    more: int = 0
    slices: tuple[SliceProblems, ...] = ()


class LineNumbers(msgspec.Struct, frozen=True, tag=True):
    """Counts of lines, or the lines of rows."""

    lines: tuple[int, ...]


class UnloadedPart(msgspec.Struct, frozen=True, tag=True):
    """The rows that a task of an export wrote, and the names of its files."""

    part: int
    rows: int
    files: tuple[str, ...]


class MissingModule(msgspec.Struct, frozen=True, tag=True):
    """An executor cannot import a module."""

    module: str


class OtherRelease(msgspec.Struct, frozen=True, tag=True):
    """An executor has another release of this package."""

    release: str


class Failure(msgspec.Struct, frozen=True, tag=True):
    """A typed error of an executor."""

    error: str
    kind: str
    message: str
    facts: dict[str, str | int | float | bool | None]

    @classmethod
    def of(cls, error: OmniGraphError) -> Failure:
        facts = {name: fact for name, fact in error.facts.items() if fact is None or isinstance(fact, str | int | float | bool)}
        return cls(type(error).__name__, error.kind.value, error.message, facts)

    def to_error(self) -> OmniGraphError:
        """Return the same error on the driver."""
        class_: type[OmniGraphError] = getattr(errors, self.error)
        kind, facts = Kind(self.kind), dict(self.facts)
        if issubclass(class_, StorageError | RecoveryRequired):
            return class_(kind, self.message, outcome=Outcome(str(facts.pop("outcome"))), **facts)
        return class_(kind, self.message, **facts)


Result = StagedPart | LineNumbers | UnloadedPart
Reply = Result | Failure | MissingModule | OtherRelease
R = TypeVar("R", StagedPart, LineNumbers, UnloadedPart)


def encode_reply(reply: Reply) -> str:
    return msgspec.json.encode(reply).decode()


def decode_reply(text: str) -> Reply:
    reply: Reply = msgspec.json.decode(text, type=Reply)  # a union is not a class, so msgspec types the result as Any
    return reply


def results(replies: Iterable[Reply], kind: type[R]) -> list[R]:
    """Return the replies as results of one kind. Raises the first failure. The caller removes the files of the other tasks."""
    found: list[R] = []
    for reply in replies:
        if isinstance(reply, Failure):
            raise reply.to_error()
        assert isinstance(reply, kind), f"a task replied {type(reply).__name__} instead of {kind.__name__}"
        found.append(reply)
    return found
