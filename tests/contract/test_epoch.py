"""C-30: The fencing epoch belongs to the graph: a graph that is moved, or has lost its lease objects, can still be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import obstore
import pytest
from obstore.store import S3Store

import omnigraph as og
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.claims import Lease
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.publish import hold
from omnigraph.manifest.read import Manifest
from tests.contract.fencing_child import TTL_SECONDS
from tests.forks import Forked
from tests.graphs import add, ids_in, make, note, reopen
from tests.s3 import S3Server

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = BranchName("work")
PERSON = "node Person { name: String @key }"
INSERT = "query q($name: String) { insert Person { name: $name } }"

pytestmark = pytest.mark.s3


def lease_of(branch: str) -> str:
    return f"__lease/{branch}.json"


def store_of(server: S3Server, uri: str) -> S3Store:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix=prefix, config=cast("Any", server.storage_options))


def copied(server: S3Server, uri: str, folder: Path) -> Path:
    """Every object as a file, as a tool that knows nothing of graphs copies them."""
    store = store_of(server, uri)
    for chunk in obstore.list(store):
        for entry in chunk:
            file = folder / entry["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(obstore.get(store, entry["path"]).bytes()))
    return folder


def overtake(manifest: Manifest, branch: BranchName = MAIN, *, times: int = 1) -> None:
    """A holder dies and is replaced; several times, so that no counter that begins anew can reach the graph's by luck."""
    for _ in range(times):
        with hold(manifest, branch) as grant:
            epoch = grant.epoch
        dead = Lease(holder="dead", epoch=epoch, ttl_seconds=0.05)
        manifest.root.objects.put(lease_of(branch), dead.to_bytes())
        with hold(manifest, branch) as grant:
            assert grant.took_over
    assert manifest.look(branch)[2].head.epoch >= times


def test_a_graph_copied_from_s3_to_a_disk_can_be_written(s3_server: S3Server, s3_uri: str, tmp_path: Path) -> None:
    options = s3_server.storage_options
    graph = og.init(s3_uri, schema=PERSON, storage_options=options)
    graph.mutate(INSERT, params={"name": "a"})
    overtake(graph.engine.manifest, times=3)
    here = og.open(copied(s3_server, s3_uri, tmp_path / "g"))
    here.mutate(INSERT, params={"name": "b"})
    here.branches.create("work")
    here.mutate(INSERT, params={"name": "c"}, branch="work")
    assert [here.snapshot(branch).tables[0].rows for branch in ("main", "work")] == [2, 3]
    assert here.verify() == []


def test_a_graph_whose_lease_was_removed_can_be_written_on_every_branch(s3_server: S3Server, s3_uri: str) -> None:
    manifest = make(s3_uri, storage_options=s3_server.storage_options)
    create_branch(manifest, WORK)
    for branch in (MAIN, WORK):
        overtake(manifest, branch, times=3)
        before = manifest.look(branch)[2].head.epoch
        manifest.root.objects.delete(lease_of(branch))
        anew = reopen(s3_uri, storage_options=s3_server.storage_options)
        with hold(anew, branch) as grant:
            assert grant.took_over
            assert grant.epoch > before
        assert anew.look(branch)[2].head.epoch == grant.epoch
        with hold(anew, branch) as later:
            assert (later.epoch, later.took_over) == (grant.epoch, False)
    add(anew, "a")
    assert ids_in(anew) == {"a"}


def test_a_graph_whose_lease_is_older_than_the_graph_can_be_written(s3_server: S3Server, s3_uri: str) -> None:
    """Copied while others wrote, or restored from a backup: the lease is there, and behind."""
    manifest = make(s3_uri, storage_options=s3_server.storage_options)
    add(manifest, "first")
    old = manifest.root.objects.get(lease_of("main"))
    overtake(manifest, times=3)
    manifest.root.objects.put(lease_of("main"), old)
    anew = reopen(s3_uri, storage_options=s3_server.storage_options)
    add(anew, "a")
    assert ids_in(anew) == {"first", "a"}


@pytest.mark.parametrize("takeovers", [0, 2])
def test_a_holder_whose_lease_was_removed_cannot_publish_once_it_was_replaced(s3_server: S3Server, s3_uri: str, takeovers: int) -> None:
    """Its successor cannot know its epoch from the lease; from head it knows one that is greater."""
    options = s3_server.storage_options
    manifest = make(s3_uri, storage_options=options)
    locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
    overtake(manifest, times=takeovers)
    with Forked("tests.contract.fencing_child", s3_uri, json.dumps(options)) as holder:
        assert holder.stdout.readline() == "holding\n"
        manifest.root.objects.delete(lease_of("main"))
        with hold(manifest):
            note(manifest, "the successor")
        said, _ = holder.communicate("\n", timeout=60)
    assert said == "fenced\n"
    assert manifest.commits()[0].message == "the successor"
    del locks


def test_the_lease_of_a_branch_made_again_is_not_forgotten_with_the_old_one(s3_server: S3Server, s3_uri: str) -> None:
    """A deleter that slept finds a live lease under the name it deleted, and leaves it."""
    manifest = make(s3_uri, storage_options=s3_server.storage_options)
    locks = Locks.of(manifest.root.objects)
    create_branch(manifest, WORK)
    delete_branch(manifest, WORK)
    create_branch(manifest, WORK)
    with hold(manifest, WORK) as grant:
        locks._process_locks.forget(WORK)
        grant.check()
        note(manifest, "still mine", branch=WORK)
        assert b'"released":false' in manifest.root.objects.get(lease_of("work"))
