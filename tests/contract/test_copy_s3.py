"""Blobs, exports and copies on a real S3 server: into a bucket, within it, and back to a disk."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.store.objects import open_objects
from tests.mutations import run
from tests.s3 import S3Server

pytestmark = pytest.mark.s3

DATA = os.urandom(200_000)


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


def test_a_graph_goes_into_a_bucket_and_back_with_branches_and_blobs(s3_server: S3Server, s3_uri: str, tmp_path: Path) -> None:
    options = s3_server.storage_options
    here = og.init(tmp_path / "here", schema="node Script { code: String @key  body: Blob?  n: I32? }")
    body = "base64:" + base64.b64encode(DATA).decode()
    run(here, '($b: Blob) insert Script { code: "a", body: $b } insert Script { code: "b" }', {"b": body})
    here.branches.create("side")
    run(here, 'update Script set { n: 1 } where code = "a"', branch="side")
    there = here.copy_to(f"{s3_uri}/there", storage_options=options)
    assert shown(there) == shown(here)
    assert there.verify() == []
    assert there.blob("node", "Script", "a", "body", branch="side").read(1000, 1010) == DATA[1000:1010]
    run(there, '($b: Blob) update Script set { body: $b } where code = "b"', {"b": "base64:"}, branch="side")
    back = og.open(f"{s3_uri}/there", mode="r", storage_options=options).copy_to(tmp_path / "back")
    assert shown(back) == shown(there) != shown(here)
    assert back.verify() == []


def test_a_copy_that_fails_leaves_no_graph_in_the_bucket(s3_server: S3Server, s3_uri: str, tmp_path: Path) -> None:
    options = s3_server.storage_options
    here = og.init(tmp_path / "here", schema="node A { n: I32? }")
    here.branches.create("side")
    failure = og.StorageError(Kind.STORAGE_UNAVAILABLE, "gone")
    with armed(Fault.BRANCH_AFTER_CREATE, failure=failure), pytest.raises(og.StorageError):
        here.copy_to(f"{s3_uri}/there", storage_options=options)
    with pytest.raises(og.NotFound):
        og.open(f"{s3_uri}/there", storage_options=options)
    # At another prefix: this server goes on listing folders whose last object was deleted.
    copy = here.copy_to(f"{s3_uri}/other", storage_options=options)
    assert copy.verify() == []
    with pytest.raises(og.ConflictError):
        here.copy_to(f"{s3_uri}/other", storage_options=options)
    with pytest.raises(InvalidInput, match="is inside the graph to copy"):
        copy.copy_to(f"{s3_uri}/other/inside", storage_options=options)


def test_blobs_are_copied_from_an_allowed_prefix_of_a_bucket(s3_server: S3Server, s3_uri: str) -> None:
    """An allowed object of a bucket is copied by loads and mutations; others are refused, and a missing one is told."""
    options = s3_server.storage_options
    reels = open_objects(f"{s3_uri}/assets/reels", storage_options=options)
    reels.put("one reel.bin", DATA)
    open_objects(f"{s3_uri}/assets", storage_options=options).put("secret", b"secret")
    graph = og.init(
        f"{s3_uri}/g",
        schema="node Script { code: String @key  body: Blob? }",
        storage_options=options,
        external_blobs=[f"{s3_uri}/assets/reels/"],
    )
    graph.load([{"type": "Script", "data": {"code": "a", "body": f"{s3_uri}/assets/reels/one%20reel.bin"}}])
    run(graph, '($b: Blob) insert Script { code: "b", body: $b }', {"b": f"{s3_uri}/assets/reels/one reel.bin"})
    reels.delete("one reel.bin")
    assert graph.blob("node", "Script", "a", "body").read(1000, 1010) == DATA[1000:1010]
    assert graph.blob("node", "Script", "b", "body").read() == DATA
    for uri, kind in ((f"{s3_uri}/assets/secret", Kind.BLOB_POLICY), (f"{s3_uri}/assets/reels/one reel.bin", Kind.BLOB_SOURCE)):
        with pytest.raises(InvalidInput) as caught:
            run(graph, '($b: Blob) insert Script { code: "c", body: $b }', {"b": uri})
        assert caught.value.kind is kind
