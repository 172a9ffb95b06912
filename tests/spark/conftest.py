"""One Spark session for all tests here: it takes eight seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, few shuffle partitions: what is tested is small."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.log.level": "ERROR"}
    made = session(master="local[2]", app="omnigraph-tests", memory="1g", settings=settings)
    yield made
    made.stop()
