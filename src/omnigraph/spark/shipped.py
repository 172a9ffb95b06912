"""The functions that Spark carries to its executors, whole: they find the rest of us there, or say what is missing.

This module is pickled by value. It imports nothing of ours at the top, so that an executor without the package can still tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

ANSWER = "answer string"
"""The schema of what comes back: one JSON text an answer."""

Task = Callable[[Iterator[Any]], Iterator[Any]]


def for_parts(doing: str, payload: bytes) -> Task:
    """A task over numbers of parts: each is handed to `doing`, a function of `omnigraph.spark.tasks`, with the job's payload."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    from omnigraph.spark import tasks

                    said = getattr(tasks, doing)(payload, number)
                except ImportError as missing:
                    said = json.dumps({"missing": missing.name or str(missing)})
                yield pa.RecordBatch.from_arrays([pa.array([said], pa.string())], ["answer"])

    return task


def for_rows(payload: bytes, type_name: str) -> Task:
    """A task over the rows of one partition of a data frame."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow as pa

        try:
            from omnigraph.spark import tasks

            said = tasks.rows(payload, type_name, batches)
        except ImportError as missing:
            said = json.dumps({"missing": missing.name or str(missing)})
        yield pa.RecordBatch.from_arrays([pa.array([said], pa.string())], ["answer"])

    return task
