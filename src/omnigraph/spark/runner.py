"""A Spark session and a task -> the replies of all parts; failures of Spark itself as typed errors. Stops the tasks at an interrupt."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import omnigraph
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError, Unsupported
from omnigraph.ids import new_ulid
from omnigraph.spark import shipped
from omnigraph.spark.messages import (
    Assignment,
    MissingModule,
    OtherRelease,
    PartTask,
    Reply,
    StageFrame,
    Task,
    Unload,
    decode_reply,
    encode_assignment,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEDY: Final = "install omnigraph[spark] in the Python that they run (PYSPARK_PYTHON)"
_ATTEMPTS: Final = "4"
"""Spark's own default."""
_SECONDS_BETWEEN: Final = 0.2
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


OnDone = Callable[[int], None]
"""Called with the number of tasks that are done."""


class PartRunner(Protocol):
    """Runs a task over its parts."""

    def on_parts(self, task: PartTask, *, on_done: OnDone | None = None) -> list[Reply]:
        """One reply a part, in the order of the parts. A reply may be a `Failure`: see `messages.results`."""
        ...


class Runner:
    """Runs tasks on one session. The package is shipped to executors that turn out not to have it."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]  # pyspark types nothing here
        self._spark = spark
        self._attempts: Final = attempts_of(spark)
        self._shipped = False

    def on_parts(self, task: PartTask, *, on_done: OnDone | None = None) -> list[Reply]:
        """See `PartRunner`."""
        count = len(task.parts)
        if not count:
            return []
        # A range is cut evenly: each number is a partition of its own, and nothing is shuffled.
        frame = self._spark.range(0, count, 1, count)
        return self._replies(frame, shipped.for_parts(self._encoded(task), omnigraph.__version__), on_done)

    def on_rows(self, task: StageFrame, frame: DataFrame) -> list[Reply]:
        """One reply a partition of the frame."""
        return self._replies(frame, shipped.for_rows(self._encoded(task), omnigraph.__version__), None)

    def _encoded(self, task: Task) -> bytes:
        # A failed export removes its whole folder, so its tasks may raise at every attempt.
        return encode_assignment(Assignment(task, None if isinstance(task, Unload) else self._attempts))

    def _replies(self, frame: DataFrame, task: shipped.Task, on_done: OnDone | None) -> list[Reply]:
        replies = self._run(frame, task, on_done)
        if not self._shipped and MissingModule("omnigraph") in replies:
            self._ship()
            replies = self._run(frame, task, on_done)
        for reply in replies:
            if isinstance(reply, MissingModule):
                raise Unsupported(Kind.UNSUPPORTED, f"the executors have no module {reply.module!r}; {_REMEDY}", module=reply.module)
            if isinstance(reply, OtherRelease):
                others = f"the executors have omnigraph {reply.release}, this is {omnigraph.__version__}; {_REMEDY}"
                raise Unsupported(Kind.UNSUPPORTED, others, release=reply.release)
        return replies

    def _run(self, frame: DataFrame, task: shipped.Task, on_done: OnDone | None) -> list[Reply]:
        try:
            rows = collected(self._spark, frame.mapInArrow(task, shipped.SCHEMA), on_done)
        except OmniGraphError:
            raise
        except Exception as error:  # whatever Spark, Java or a socket raises becomes one typed error
            raise _error(error) from error
        return [decode_reply(row[shipped.COLUMN]) for row in rows]

    def _ship(self) -> None:
        """Send our own source after the tasks. What it needs besides must be there: those are compiled packages."""
        self._spark.addArtifacts(_archive(), pyfile=True)
        self._shipped = True


@functools.cache
def _archive() -> str:
    """Our source as one file. It stays until this process ends: Spark's driver hands it out whenever an executor asks for it."""
    folder = tempfile.mkdtemp(prefix="omnigraph-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(omnigraph.__file__).parent
    return shutil.make_archive(f"{folder}/omnigraph", "zip", root_dir=package.parent, base_dir=package.name)


def _error(error: Exception) -> OmniGraphError:
    """Spark's words as ours: a data frame that cannot be computed is the caller's to mend, all else is not."""
    from pyspark.errors import PySparkException, PythonException

    text = str(error)
    if missing := re.search(r"No module named '([\w.]+)'", text):
        return Unsupported(Kind.UNSUPPORTED, f"the executors have no module {missing[1]!r}; {_REMEDY}", module=missing[1])
    if isinstance(error, PythonException):
        return StorageError(Kind.STORAGE, f"Spark gave up: {_raised(text)}; nothing was written")
    said = _JAVA_CLASS.sub("", next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__))
    if isinstance(error, PySparkException) and (condition := error.getCondition()) is not None:
        return InvalidInput(Kind.VALIDATION, f"Spark cannot compute the rows: {said}; nothing was written", condition=condition)
    return StorageError(Kind.STORAGE, f"Spark gave up: {said}; nothing was written")


def _raised(text: str) -> str:
    """What was raised on an executor: the line that ends a Python traceback, before the way through Java begins."""
    _, _, trace = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in trace.partition("SQLSTATE")[0].splitlines() if line and not line[0].isspace()]
    return lines[-1] if lines else text.partition("\n")[0]


def attempts_of(spark: SparkSession) -> int:
    """How often Spark tries a task: `local[n]` once, `local[n,f]` f times, a cluster as often as it is told."""
    master = spark.conf.get("spark.master", "") or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        told = re.fullmatch(r"local\[[^,]+,\s*(\d+)\]", master)
        return int(told[1]) if told is not None else 1
    return int(spark.conf.get("spark.task.maxFailures", _ATTEMPTS) or _ATTEMPTS)


def is_connect(spark: SparkSession) -> bool:
    """A session of Spark Connect has no JVM here: no context, no status tracker."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def collected(spark: SparkSession, frame: DataFrame, on_done: OnDone | None) -> list[Any]:
    """The rows of a frame. The work runs on a thread of its own, so that this one can count tasks, and stop them at an interrupt."""
    from pyspark import InheritableThread

    tag, rows, failed = f"omnigraph-{new_ulid()}", [], []

    def work() -> None:
        spark.addTag(tag)
        try:
            if not is_connect(spark):
                spark.sparkContext.setJobGroup(tag, "omnigraph")
            rows.extend(frame.collect())
        except BaseException as error:  # noqa: BLE001  # it is raised again in the thread that waits
            failed.append(error)

    thread = InheritableThread(target=work, session=spark)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SECONDS_BETWEEN)
            if on_done is not None and not is_connect(spark):
                on_done(_done(spark, tag))
    except BaseException:
        spark.interruptTag(tag)
        raise
    if failed:
        raise failed[0]
    return rows


def _done(spark: SparkSession, group: str) -> int:
    """How many tasks of the last stages are done, as far as Spark remembers."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(max(job.stageIds)) for job in jobs if job is not None and job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
