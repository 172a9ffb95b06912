"""Cleanup on S3: the same as on a disk, beside processes that were paused past their lease."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound, StorageError
from omnigraph.exec.history.squash import Fork
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import fact_rows, state_rows
from omnigraph.manifest.read import PATH
from omnigraph.manifest.registry import all_branches
from omnigraph.store.durable import version_file
from omnigraph.store.floor import raise_floor, read_floor
from omnigraph.store.ledger import SwapLost
from omnigraph.store.reclaim import existing_versions
from tests.crasher import TTL_SECONDS, asleep, crash
from tests.s3 import S3Server

pytestmark = pytest.mark.s3

NAMES = "match { $p: Person } return { $p.name as name } order { name }"


@pytest.fixture
def graph(s3_server: S3Server, s3_uri: str) -> Iterator[Graph]:
    """A graph with five commits, and short leases."""
    made = og.init(s3_uri, schema="node Person { name: String @key  age: I32? }", storage_options=s3_server.storage_options)
    locks = Locks.of(made.engine.root.objects, ttl_seconds=TTL_SECONDS)
    for name in "abcd":
        add(made, name)
    yield made
    del locks


def add(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(insert(name), branch=branch)


def insert(name: str) -> str:
    return f'query q() {{ insert Person {{ name: "{name}" }} }}'


def names(graph: Graph, branch: str = "main", at: str | None = None) -> str:
    return "".join(row["name"] for row in graph.query(NAMES, branch=branch, at=at).rows)


def versions(graph: Graph) -> list[int]:
    row = graph.engine.snapshot().state.table("node:Person")
    assert row is not None
    return existing_versions(graph.engine.root, row.path, branch=None)


def test_it_keeps_and_removes_what_it_does_on_a_disk(graph: Graph) -> None:
    commits = graph.commits()[::-1]
    graph.tags.create("first", at=commits[1].id)
    graph.branches.create("lazy", at=commits[2].id)
    graph.branches.create("gone")
    add(graph, "g", "gone")
    with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no store today")):
        graph.branches.delete("gone")
    told = graph.cleanup(keep=1, dry_run=True)
    done = graph.cleanup(keep=1)
    assert (told.tables, told.forks) == (done.tables, done.forks)
    assert len(done.forks) == 2
    assert versions(graph) == [2, 3, 5]
    assert (names(graph), names(graph, "lazy"), names(graph, at="first")) == ("abcd", "ab", "a")
    with pytest.raises(NotFound) as gone:
        names(graph, at=commits[3].id)
    assert gone.value.kind is Kind.VERSION_RECLAIMED
    assert graph.verify(deep=True) == []
    assert graph.cleanup(keep=1).versions == 0
    add(graph, "e")
    add(graph, "x", "lazy")
    assert (names(graph), names(graph, "lazy")) == ("abcde", "abx")


@pytest.mark.parametrize(("point", "landed"), [(Fault.PUBLISH_BEFORE_COMMIT, "late"), (Fault.STAGE_BEFORE_COMMIT, "")], ids=str)
def test_a_publisher_that_slept_through_commits_and_a_cleanup_publishes_nothing(graph: Graph, point: Fault, landed: str) -> None:
    """G-06: Old manifest versions are removed behind a durable floor, and a publish that was begun before fails, whatever was removed.

    The next writer has finished or undone the write of the sleeping one.
    """
    with asleep(f"mutate {insert('late')}", graph.uri, point, options=graph.engine.root.storage_options) as sleeper:
        for name in "efg":
            add(graph, name)
        graph.cleanup(keep=1)
        before = graph.commits()
        said = sleeper.wake()
    assert (said == "done") is bool(landed)
    assert names(graph) == names(og.open(graph.uri, storage_options=graph.engine.root.storage_options)) == f"abcdefg{landed}"
    assert graph.commits() == before
    add(graph, "h")
    assert names(graph) == f"abcdefgh{landed}"
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


def test_a_version_whose_number_was_removed_is_not_acknowledged(graph: Graph) -> None:
    """A request that was sent before and arrives after a cleanup creates a version that no reader sees (G-06)."""
    _, ledger, state = graph.engine.manifest.look(MAIN)
    objects, number = graph.engine.root.objects, ledger.version + 1
    raise_floor(objects, PATH, branch=None, version=number + 3)
    raise_floor(objects, PATH, branch=None, version=number)
    assert read_floor(objects, PATH, branch=None) == number + 3, "a floor never falls"
    with pytest.raises(SwapLost):
        ledger.swap(state_rows(state, born=number), fact_rows(None, [], born=number), uuid=str(uuid4()))
    assert not objects.exists(f"{PATH}/{version_file(number)}")


def test_the_transaction_of_a_dead_process_goes_and_that_of_a_living_one_stays(graph: Graph) -> None:
    """The lease of its owner is watched for as long as it lasts."""
    living = Fork(graph.engine, MAIN)
    statements = json.dumps(['insert Person { name: "t" }'])
    died = crash(f"transact main {statements}", graph.uri, Fault.WRITE_PUBLISHED, options=graph.engine.root.storage_options)
    assert died.returncode == -signal.SIGKILL, died.said
    graph.refresh()
    objects = graph.engine.root.objects
    assert len(all_branches(objects)) == 2
    done = graph.cleanup(keep=100)
    assert len(done.transactions) == 1
    assert list(map(str, all_branches(objects))) == [living.name]
    add(graph, "l", living.name)
    living.drop()
    assert all_branches(objects) == []
    assert objects.sizes("__owners") == {}
    assert graph.cleanup(keep=100).forks == ()
    assert graph.verify() == []
