"""A session and tasks -> their replies; what went wrong on the way as an error of ours."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

import omnigraph
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError, Unsupported
from omnigraph.spark import shipped
from omnigraph.spark.driver import attempts_of
from omnigraph.spark.tasks import Payload, Reply, TablePayload, encode_payload
from omnigraph.spark.unload import Unload
from omnigraph.spark.watched import OnDone, collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEDY: Final = "install omnigraph[spark] in the Python that they run (PYSPARK_PYTHON)"
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


class PartTasks(Protocol):
    """Somebody who runs tasks over parts of files."""

    def on_parts(self, doing: str, payload: Payload | TablePayload, *, on_done: OnDone | None = None) -> list[Reply]:
        """One task a part, their replies in the order of the parts. A reply may be a failure: see `refuse`."""
        ...


class Runner:
    """Runs tasks on one session. The package is shipped to executors that turn out not to have it."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]  # pyspark types nothing here
        self._spark = spark
        self._attempts: Final = attempts_of(spark)
        self._shipped = False

    def on_parts(self, doing: str, payload: Payload | TablePayload | Unload, *, on_done: OnDone | None = None) -> list[Reply]:
        """See `PartTasks`."""
        count = len(payload.parts)
        if not count:
            return []
        # A range is cut evenly: each number is a partition of its own, and nothing is shuffled.
        frame = self._spark.range(0, count, 1, count)
        return self._replies(frame, shipped.for_parts(doing, self._encoded(payload), omnigraph.__version__), on_done)

    def on_rows(self, payload: Payload, type_name: str, frame: DataFrame) -> list[Reply]:
        """One task a partition of the frame. A reply may be a failure: see `refuse`."""
        return self._replies(frame, shipped.for_rows(self._encoded(payload), type_name, omnigraph.__version__), None)

    def _encoded(self, payload: Payload | TablePayload | Unload) -> bytes:
        return encode_payload(payload if isinstance(payload, Unload) else msgspec.structs.replace(payload, attempts=self._attempts))

    def _replies(self, frame: DataFrame, task: shipped.Task, on_done: OnDone | None) -> list[Reply]:
        replies = self._run(frame, task, on_done)
        if any(reply.missing == "omnigraph" for reply in replies) and not self._shipped:
            self._ship()
            replies = self._run(frame, task, on_done)
        for reply in replies:
            if reply.missing is not None:
                raise Unsupported(Kind.UNSUPPORTED, f"the executors have no module {reply.missing!r}; {_REMEDY}", module=reply.missing)
            if reply.release is not None:
                others = f"the executors have omnigraph {reply.release}, this is {omnigraph.__version__}; {_REMEDY}"
                raise Unsupported(Kind.UNSUPPORTED, others, release=reply.release)
        return replies

    def _run(self, frame: DataFrame, task: shipped.Task, on_done: OnDone | None) -> list[Reply]:
        try:
            rows = collected(self._spark, frame.mapInArrow(task, shipped.ANSWER), on_done)
        except OmniGraphError:
            raise
        except Exception as error:  # whatever Spark, Java or a socket says: it becomes one error of ours
            raise _error(error) from error
        return [msgspec.json.decode(row.answer, type=Reply) for row in rows]

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


def refuse(replies: Sequence[Reply]) -> None:
    """Raise the first failure among the replies. Whoever calls this has taken over the files of the others, and removes them."""
    for reply in replies:
        if reply.failure is not None:
            raise reply.failure.raised()


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
