"""A Spark session and a task -> the replies of all parts, or a failure of Spark as a typed error. An interrupt cancels the tasks."""

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
    MissingModule,
    OtherRelease,
    PartTask,
    Reply,
    StageFrame,
    Task,
    TaskAssignment,
    Unload,
    decode_reply,
    encode_assignment,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEDY: Final = "install omnigraph[spark] in the Python that they run (PYSPARK_PYTHON)"
_ATTEMPTS: Final = "4"
"""The default of Spark."""
_SECONDS_BETWEEN: Final = 0.2
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


OnDone = Callable[[int], None]
"""Called with the number of completed tasks."""


class PartRunner(Protocol):
    """Runs a task over its parts."""

    def on_parts(self, task: PartTask, *, on_done: OnDone | None = None) -> list[Reply]:
        """Return one reply for each part, in the order of the parts. A reply may be a `Failure`: see `messages.results`."""
        ...


class Runner:
    """Runs tasks on one session. Sends the package to executors that lack it."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]  # pyspark has no types here
        self._spark = spark
        self._attempts: Final = attempts_of(spark)
        self._shipped = False

    def on_parts(self, task: PartTask, *, on_done: OnDone | None = None) -> list[Reply]:
        """See `PartRunner`."""
        count = len(task.parts)
        if not count:
            return []
        # A range is split evenly: each number is a partition of its own, without a shuffle.
        frame = self._spark.range(0, count, 1, count)
        return self._replies(frame, shipped.for_parts(self._encoded(task), omnigraph.__version__), on_done)

    def on_rows(self, task: StageFrame, frame: DataFrame) -> list[Reply]:
        """Return one reply for each partition of the frame."""
        return self._replies(frame, shipped.for_rows(self._encoded(task), omnigraph.__version__), None)

    def _encoded(self, task: Task) -> bytes:
        # A failed export removes its whole directory, so its tasks may raise at every attempt.
        return encode_assignment(TaskAssignment(task, None if isinstance(task, Unload) else self._attempts))

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
            rows = collect_rows(self._spark, frame.mapInArrow(task, shipped.SCHEMA), on_done)
        except OmniGraphError:
            raise
        except Exception as error:  # any error of Spark, Java or a socket becomes one typed error
            raise _typed_error(error) from error
        return [decode_reply(row[shipped.COLUMN]) for row in rows]

    def _ship(self) -> None:
        """Send our source to the executors. They must have its dependencies, which are compiled packages."""
        self._spark.addArtifacts(_archive(), pyfile=True)
        self._shipped = True


@functools.cache
def _archive() -> str:
    """Return our source as one zip file. It is kept until this process ends: an executor may request it at any time."""
    directory = tempfile.mkdtemp(prefix="omnigraph-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    package = Path(omnigraph.__file__).parent
    return shutil.make_archive(f"{directory}/omnigraph", "zip", root_dir=package.parent, base_dir=package.name)


def _typed_error(error: Exception) -> OmniGraphError:
    """Convert an error of Spark. A data frame that cannot be computed is an input error. All others are storage errors."""
    from pyspark.errors import PySparkException, PythonException

    text = str(error)
    if missing := re.search(r"No module named '([\w.]+)'", text):
        return Unsupported(Kind.UNSUPPORTED, f"the executors have no module {missing[1]!r}; {_REMEDY}", module=missing[1])
    if isinstance(error, PythonException):
        return StorageError(Kind.STORAGE, f"Spark failed: {_exception_line(text)}; nothing was written")
    first = _JAVA_CLASS.sub("", next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__))
    if isinstance(error, PySparkException) and (condition := error.getCondition()) is not None:
        return InvalidInput(Kind.VALIDATION, f"Spark cannot compute the rows: {first}; nothing was written", condition=condition)
    return StorageError(Kind.STORAGE, f"Spark failed: {first}; nothing was written")


def _exception_line(text: str) -> str:
    """Return the last line of the Python traceback of an executor, without the Java traceback that follows."""
    _, _, trace = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in trace.partition("SQLSTATE")[0].splitlines() if line and not line[0].isspace()]
    return lines[-1] if lines else text.partition("\n")[0]


def attempts_of(spark: SparkSession) -> int:
    """Return the maximum number of attempts: 1 for `local[n]`, f for `local[n,f]`, and `spark.task.maxFailures` on a cluster."""
    master = spark.conf.get("spark.master", "") or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        match = re.fullmatch(r"local\[[^,]+,\s*(\d+)\]", master)
        return int(match[1]) if match is not None else 1
    return int(spark.conf.get("spark.task.maxFailures", _ATTEMPTS) or _ATTEMPTS)


def is_connect(spark: SparkSession) -> bool:
    """Return whether this is a session of Spark Connect, which has neither a context nor a status tracker."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def collect_rows(spark: SparkSession, frame: DataFrame, on_done: OnDone | None) -> list[Any]:
    """Collect the rows of a frame on another thread, so that this thread can count tasks and cancel them at an interrupt."""
    from pyspark import InheritableThread

    tag, rows, failed = f"omnigraph-{new_ulid()}", [], []

    def work() -> None:
        spark.addTag(tag)
        try:
            if not is_connect(spark):
                spark.sparkContext.setJobGroup(tag, "omnigraph")
            rows.extend(frame.collect())
        except BaseException as error:  # noqa: BLE001  # raised again in the waiting thread
            failed.append(error)

    thread = InheritableThread(target=work, session=spark)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SECONDS_BETWEEN)
            if on_done is not None and not is_connect(spark):
                on_done(_completed_tasks(spark, tag))
    except BaseException:
        spark.interruptTag(tag)
        raise
    if failed:
        raise failed[0]
    return rows


def _completed_tasks(spark: SparkSession, group: str) -> int:
    """Return the number of completed tasks of the last stages that Spark remembers."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(max(job.stageIds)) for job in jobs if job is not None and job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
