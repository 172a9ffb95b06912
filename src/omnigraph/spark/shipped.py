"""The functions that Spark pickles by value and sends to its executors: they import the package there, or reply what is missing.

This module imports nothing of the package at the top, so that it also runs where the package is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

COLUMN = "reply"
SCHEMA = f"{COLUMN} string"
"""The schema of what comes back: one JSON text a reply."""

Task = Callable[[Iterator[Any]], Iterator[Any]]


def for_parts(assignment: bytes, version: str) -> Task:
    """A task over numbers of parts: each is handed to `omnigraph.spark.tasks.run_part` with the assignment."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _reply(version, partial(_run_part, assignment, number))

    return task


def _run_part(assignment: bytes, number: int, tasks: Any) -> str:
    reply: str = tasks.run_part(assignment, number)
    return reply


def for_rows(assignment: bytes, version: str) -> Task:
    """A task over the rows of one partition of a data frame."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield _reply(version, lambda tasks: tasks.run_rows(assignment, batches))

    return task


def _reply(version: str, work: Callable[[Any], str]) -> Any:
    """The reply of a task; or that the package is missing here, or is another release, whose messages might be misread.

    The two replies are written out by hand: without the package there is no encoder for them (`messages.MissingModule`, `OtherRelease`).
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
