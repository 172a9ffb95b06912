"""A session and tasks -> their replies, in order; what went wrong on the way as an error of ours."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import omnigraph
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError, Unsupported
from omnigraph.spark import shipped
from omnigraph.spark.tasks import Payload, Reply, encode_payload
from omnigraph.spark.unload import Unload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Runner:
    """Runs tasks on one session. The package is shipped to executors that turn out not to have it."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(shipped)  # type: ignore[no-untyped-call]  # pyspark types nothing here
        self._spark = spark
        self._shipped = False

    def on_parts(self, doing: str, payload: Payload | Unload, numbers: Sequence[int]) -> list[Reply]:
        """One task a part."""
        if not numbers:
            return []
        frame = self._spark.createDataFrame([(number,) for number in numbers], "part long").repartitionByRange(len(numbers), "part")
        return self._replies(frame, shipped.for_parts(doing, encode_payload(payload)))

    def on_rows(self, payload: Payload, type_name: str, frame: DataFrame) -> list[Reply]:
        """One task a partition of the frame."""
        return self._replies(frame, shipped.for_rows(encode_payload(payload), type_name))

    def _replies(self, frame: DataFrame, task: shipped.Task) -> list[Reply]:
        replies = self._run(frame, task)
        if any(reply.missing == "omnigraph" for reply in replies) and not self._shipped:
            self._ship()
            replies = self._run(frame, task)
        for reply in replies:
            if reply.missing is not None:
                raise Unsupported(
                    Kind.UNSUPPORTED,
                    f"the executors have no module {reply.missing!r}; install omnigraph[spark] in the Python they run (PYSPARK_PYTHON)",
                    module=reply.missing,
                )
            if reply.refused is not None:
                raise InvalidInput(Kind(reply.refused.kind), reply.refused.message)
        return replies

    def _run(self, frame: DataFrame, task: shipped.Task) -> list[Reply]:
        try:
            rows: list[Any] = frame.mapInArrow(task, shipped.ANSWER).collect()
        except OmniGraphError:
            raise
        except Exception as error:  # whatever Spark, Java or a socket says: it becomes one error of ours
            raise StorageError(Kind.STORAGE, f"Spark gave up: {_first_line(error)}; nothing was written to the graph") from error
        return [msgspec.json.decode(row.answer, type=Reply) for row in rows]

    def _ship(self) -> None:
        """Send our own source after the tasks. What it needs besides must be there: those are compiled packages."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(omnigraph.__file__).parent
            archive = shutil.make_archive(f"{folder}/omnigraph", "zip", root_dir=package.parent, base_dir=package.name)
            self._spark.addArtifacts(archive, pyfile=True)
        self._shipped = True


def _first_line(error: Exception) -> str:
    """The last line of a Python traceback from an executor is what happened; of anything else the first is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("omnigraph.errors.")]
    return (told or lines or [type(error).__name__])[0]
