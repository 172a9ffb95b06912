"""A data frame -> its rows, while somebody is told how many tasks are done; stopped when the caller is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from omnigraph.ids import new_ulid
from omnigraph.spark.driver import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OnDone = Callable[[int], None]
"""Told how many tasks are done."""
_SECONDS_BETWEEN: Final = 0.2


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
        except BaseException as error:  # noqa: BLE001  # it is raised again where somebody waits for it
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
