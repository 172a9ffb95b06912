"""A data frame of one type -> data files written by tasks, and one commit that refers to them.

The work runs in three kinds of processes. The first chooses the targets of the files. Tasks check and write their rows, and reply with
the names of the files. The last passes these to the `Load` of every load, which checks keys and endpoints and runs the write protocol.
If the branch has moved, it checks again without rewriting the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.catalog import Catalog, encode
from omnigraph.catalog.model import EntityType
from omnigraph.errors import ConflictError, Kind
from omnigraph.exec.load.load import Advance
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.staging import Staging, target_of
from omnigraph.exec.load.tabular import entity_named, wrong_columns
from omnigraph.exec.problems import REPORTED, Report
from omnigraph.exec.validate.findings import error
from omnigraph.graph import open_
from omnigraph.spark.handles import readable_by
from omnigraph.spark.intake import provider_of, take_frame
from omnigraph.spark.messages import Job, Place, Reply, StagedPart, StageFrame, TaskAssignment, decode_reply, encode_assignment
from omnigraph.spark.options import WriteOptions, without_traceback
from omnigraph.spark.tasks import discard, run_rows
from omnigraph.store.root import Root


class TaskMessage(WriterCommitMessage):
    """The reply of one task, as JSON text."""

    def __init__(self, reply: str) -> None:
        self.reply = reply


class StagedIntake:
    """The intake of rows that tasks have written. `job` has the targets of the files."""

    rereadable = False

    def __init__(self, job: Job, entity: EntityType, replies: Sequence[Reply], root: Root) -> None:
        self._job = job
        self._root = root
        self._entity = entity
        self._replies = replies
        self.taken = False
        """Whether a load owns the files and removes them if it is refused."""

    def fill(self, staging: Staging, catalog: Catalog, report: Report, advance: Advance) -> None:
        if encode(catalog) != self._job.catalog:
            changed = "the schema changed during the write; nothing was committed, try again"
            raise ConflictError(Kind.SCHEMA_CHANGED, changed, type=self._entity.name)
        self.taken = True
        staging.aim(self._entity, self._job.targets[self._entity.id])
        take_frame(staging, catalog, self._entity, self._replies, report, self._root)
        advance(0, None, staging.of(self._entity).rows)


class TypeWriter(DataSourceArrowWriter):
    """Writes one type. Created on the driver, and pickled to every task and to the process that commits."""

    def __init__(self, options: WriteOptions, job: Job, entity: EntityType) -> None:
        self._options = options
        self._job = job
        self._entity = entity

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Check and write the rows of one partition, on an executor. The reply has the problems, so that all are reported together."""
        task = StageFrame(self._job, self._entity.alias, REPORTED)
        return TaskMessage(run_rows(encode_assignment(TaskAssignment(task)), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of all tasks, atomically. Runs on the driver after every task has replied."""
        with without_traceback():
            replies = _replies(messages)
            options, intake = self._options, None
            try:
                graph = open_(options.place.uri, actor=options.actor, storage_options=options.place.storage_options)
                intake = StagedIntake(self._job, self._entity, replies, graph.engine.root)
                graph.load_intake(
                    intake,
                    options.mode,
                    branch=options.branch,
                    from_branch=None,
                    token=options.token,
                    message=options.message,
                    report_errors=REPORTED,
                    on_progress=None,
                )
            finally:
                if intake is None or not intake.taken:  # an earlier load has the token, or the schema changed
                    self._discard(replies)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of the tasks if a task failed. If all tasks replied, a commit was attempted. It has removed its files
        or the graph refers to them, and Spark does not say which, so they are left alone.
        """
        if None in messages:
            self._discard(_replies(messages))

    def _discard(self, replies: Sequence[Reply]) -> None:
        discard(self._job, [reply for reply in replies if isinstance(reply, StagedPart)])


def writer_of(options: WriteOptions, schema: StructType) -> TypeWriter:
    """Return a writer for rows of this schema. Raises an error for wrong columns before any task runs."""
    graph = open_(options.place.uri, actor=options.actor, storage_options=options.place.storage_options)
    snapshot = graph.engine.snapshot(options.branch)
    catalog = graph.engine.catalog(snapshot)
    entity, mode = entity_named(options.type, catalog), LoadMode(options.mode)
    place, target = Place(graph.uri, options.place.storage_options), target_of(snapshot, entity)
    provider = provider_of(graph.engine, catalog)
    job = Job(place, encode(catalog), {entity.id: target}, mode, graph.engine.external_blobs.bases, provider)
    readable = readable_by(job)
    columns = to_arrow_schema(schema, timezone="UTC")
    if problems := list(wrong_columns(entity_named(options.type, readable), readable, columns, text=False, keeps=mode.keeps)):
        raise error(problems)
    return TypeWriter(options, job, entity)


def _replies(messages: Sequence[WriterCommitMessage | None]) -> list[Reply]:
    return [decode_reply(message.reply) for message in messages if isinstance(message, TaskMessage)]
