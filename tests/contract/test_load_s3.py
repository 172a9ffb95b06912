"""Loads on a real S3 server: killed in mid-load, the graph is before or after, and the next load goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.load.mode import LoadMode
from omnigraph.faults import Fault
from omnigraph.ids import MAIN
from omnigraph.manifest.locks import Locks
from tests.crash.matrix import WORK, points
from tests.crash.test_load import NEXT, Row, expected
from tests.crasher import TTL_SECONDS, crash
from tests.loads import FIRST, OVER, SCHEMA, ndjson, shown
from tests.s3 import S3Server

pytestmark = pytest.mark.s3

KILLS = [
    (Row(LoadMode.APPEND, MAIN), Fault.WRITE_PREPARED),
    (Row(LoadMode.APPEND, MAIN), Fault.WRITE_BETWEEN_TABLES),
    (Row(LoadMode.MERGE, WORK), Fault.WRITE_AFTER_REF),
    (Row(LoadMode.MERGE, MAIN), Fault.WRITE_COMMITTED),
    (Row(LoadMode.OVERWRITE, WORK), Fault.WRITE_BETWEEN_TABLES),
    (Row(LoadMode.OVERWRITE, MAIN), Fault.PUBLISH_AFTER_COMMIT),
]


@pytest.mark.parametrize(("row", "fault"), KILLS, ids=lambda value: getattr(value, "mode", str(value)))
def test_a_load_killed_on_s3_is_undone_or_finished_by_the_next(
    s3_server: S3Server, s3_uri: str, tmp_path: Path, row: Row, fault: Fault
) -> None:
    """F-07: On S3 the next writer waits for the lease of a killed one to end, then resolves its write.

    Also W-27.
    """
    options = s3_server.storage_options
    graph = og.init(s3_uri, schema=SCHEMA, storage_options=options)
    locks = Locks.of(graph.engine.manifest.root.objects, ttl_seconds=TTL_SECONDS)
    graph.load(ndjson(*FIRST), mode="append")
    graph.branches.create(WORK)
    (tmp_path / "data.ndjson").write_bytes(row.data)
    job = json.dumps({"data": str(tmp_path / "data.ndjson"), "mode": row.mode, "branch": row.branch})
    done = crash(f"load {job}", s3_uri, fault, options=options)
    assert done.returncode == -signal.SIGKILL, done.said
    point = next(point for point in points(row.writer) if point.fault is fault)
    graph.load(NEXT, mode="append", branch=row.branch)
    for branch in (MAIN, WORK):
        assert shown(graph, branch) == expected(row, lands=point.lands)[branch]
    assert len(graph.recoveries()) == (1 if point.resolved else 0)
    del locks  # kept until here: a graph whose locks nobody holds forgets their ttl


def test_a_refused_load_leaves_no_object_behind(s3_server: S3Server, s3_uri: str) -> None:
    graph = og.init(s3_uri, schema=SCHEMA, storage_options=s3_server.storage_options)
    graph.load(ndjson(*FIRST), mode="append")
    objects = graph.engine.manifest.root.objects

    def data_files() -> set[str]:
        return {path for row in graph.snapshot().tables for path in objects.list(f"{row.path}/data")}

    before = data_files()
    with pytest.raises(og.InvalidInput, match="not found in Person"):
        graph.load(ndjson(*OVER, {"edge": "Knows", "from": "Eve", "to": "Zed"}), mode="merge")
    assert data_files() == before
    assert graph.load(ndjson(*OVER), mode="merge").total == 4
