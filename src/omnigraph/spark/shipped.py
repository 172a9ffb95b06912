"""An encoded assignment -> a function that Spark pickles by value and runs on executors. It replies what is missing there.

This module imports nothing of the package at the top, so it also runs where the package is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

COLUMN = "reply"
SCHEMA = f"{COLUMN} string"
"""The schema of the replies: one JSON text each."""

Task = Callable[[Iterator[Any]], Iterator[Any]]


def for_parts(assignment: bytes, version: str) -> Task:
    """Return a task over numbers of parts. It calls `omnigraph.spark.tasks.run_part` for each."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _reply(version, partial(_run_part, assignment, number))

    return task


def _run_part(assignment: bytes, number: int, tasks: Any) -> str:
    reply: str = tasks.run_part(assignment, number)
    return reply


def for_rows(assignment: bytes, version: str) -> Task:
    """Return a task over the rows of one partition of a data frame."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield _reply(version, lambda tasks: tasks.run_rows(assignment, batches))

    return task


def _reply(version: str, work: Callable[[Any], str]) -> Any:
    """Return the reply of a task, or a reply that the package is missing or another release, which may misread messages.

    The last two are encoded by hand: without the package their encoder is missing (`messages.MissingModule`, `OtherRelease`).
    """
    import json

    import pyarrow as pa

    try:
        import omnigraph

        if omnigraph.__version__ == version:
            from omnigraph.spark import tasks

            reply = work(tasks)
        else:
            reply = json.dumps({"type": "OtherRelease", "release": omnigraph.__version__})
    except ImportError as missing:
        reply = json.dumps({"type": "MissingModule", "module": missing.name or str(missing)})
    return pa.RecordBatch.from_arrays([pa.array([reply], pa.string())], [COLUMN])
