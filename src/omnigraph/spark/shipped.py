"""The functions that Spark carries to its executors, whole: they find the rest of us there, or say what is missing.

This module is pickled by value. It imports nothing of ours at the top, so that an executor without the package can still tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

ANSWER = "answer string"
"""The schema of what comes back: one JSON text an answer."""

Task = Callable[[Iterator[Any]], Iterator[Any]]


def for_parts(doing: str, payload: bytes, version: str) -> Task:
    """A task over numbers of parts: each is handed to `doing`, a function of `omnigraph.spark.tasks`, with the job's payload."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _said(version, partial(_do, doing, payload, number))

    return task


def _do(doing: str, payload: bytes, number: int, tasks: Any) -> str:
    said: str = getattr(tasks, doing)(payload, number)
    return said


def for_rows(payload: bytes, type_name: str, version: str) -> Task:
    """A task over the rows of one partition of a data frame."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield _said(version, lambda tasks: tasks.rows(payload, type_name, batches))

    return task


def _said(version: str, work: Callable[[Any], str]) -> Any:
    """What the tasks say; or that they are not there, or are those of another release, whose words we might misread."""
    import json

    import pyarrow as pa

    try:
        import omnigraph

        if omnigraph.__version__ == version:
            from omnigraph.spark import tasks

            said = work(tasks)
        else:
            said = json.dumps({"release": omnigraph.__version__})
    except ImportError as missing:
        said = json.dumps({"missing": missing.name or str(missing)})
    return pa.RecordBatch.from_arrays([pa.array([said], pa.string())], ["answer"])
