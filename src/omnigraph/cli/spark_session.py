"""Where Spark runs -> a session whose own words go to a file, not to the screen; the file stays, and is named, when Spark failed."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.cli import output
from omnigraph.errors import StorageError, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """With --verbose they go to the screen after all."""
    from omnigraph.spark import session

    if logging.getLogger().isEnabledFor(logging.DEBUG):
        yield session(master=master)
        return
    number, log = tempfile.mkstemp(prefix="omnigraph-spark-", suffix=".log")
    os.close(number)
    kept = False
    try:
        yield session(master=master, log_file=log)
    except (StorageError, Unsupported):  # what is wrong with records or arguments we have said ourselves
        kept = os.path.getsize(log) > 0
        raise
    finally:
        if kept:
            output.note(f"what Spark said is in {log}")
        else:
            os.unlink(log)
