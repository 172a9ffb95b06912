"""REC-35: Opening for writing resolves the writes of dead processes and does not wait for live ones."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import Fault
from omnigraph.manifest.model import Resolution
from omnigraph.manifest.publish import LOCK_SECONDS
from tests.crasher import asleep
from tests.s3 import S3Server

pytestmark = pytest.mark.crash

SCHEMA = "node A { k: String @key }"
INSERT = 'query q() {{ insert A {{ k: "{}" }} }}'


def keys(graph: og.Graph, branch: str) -> int:
    return graph.snapshot(branch).tables[0].rows


def test_a_slow_writer_of_another_branch_holds_up_no_open(tmp_path: Path) -> None:
    uri = og.init(tmp_path / "g", schema=SCHEMA).uri
    og.open(uri).branches.create("b")
    with asleep(f"on b {INSERT.format('slow')}", uri, Fault.WRITE_ARMED):
        began = time.monotonic()
        graph = og.open(uri)
        graph.mutate(INSERT.format("quick"))
        assert time.monotonic() - began < LOCK_SECONDS / 2, "the slow one was waited for"
        assert graph.recoveries() == [], "it lives: its intent is its own"
    # It was killed in its sleep.
    again = og.open(uri)
    assert [(found.outcome, found.branch) for found in again.recoveries()] == [(Resolution.ROLLED_BACK, "b")]
    assert (keys(again, "main"), keys(again, "b")) == (1, 0)
    assert again.verify() == []


@pytest.mark.s3
def test_a_held_lease_holds_up_no_open(s3_server: S3Server, s3_uri: str) -> None:
    """Nor does one whose holder is dead: the next write of that branch outlives it."""
    options = s3_server.storage_options
    og.init(s3_uri, schema=SCHEMA, storage_options=options).branches.create("b")
    with asleep(f"on b {INSERT.format('slow')}", s3_uri, Fault.WRITE_ARMED, options=options):
        began = time.monotonic()
        graph = og.open(s3_uri, storage_options=options)
        graph.mutate(INSERT.format("quick"))
        assert time.monotonic() - began < LOCK_SECONDS / 2, "the slow one was waited for"
        assert graph.recoveries() == []
    graph.mutate(INSERT.format("next"), branch="b")
    assert [(found.outcome, found.branch) for found in graph.recoveries()] == [(Resolution.ROLLED_BACK, "b")]


def test_a_refresh_waits_for_who_lives(tmp_path: Path) -> None:
    """REC-12: Intents are read again under the lock: one whose live writer finished meanwhile is not resolved.

    Asked for, it says what became of every write.
    """
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.branches.create("b")
    with asleep(f"on b {INSERT.format('slow')}", graph.uri, Fault.WRITE_ARMED) as sleeper:
        waker = threading.Timer(0.5, sleeper.wake)
        waker.start()
        assert graph.refresh() == []
        waker.join()
    assert keys(graph, "b") == 1
