"""One cluster for all tests here: it takes twenty seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark_cluster.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
