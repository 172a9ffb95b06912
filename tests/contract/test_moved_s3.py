"""A graph with branches that was copied to another prefix by its objects is a graph there, and shares nothing with the original."""

from __future__ import annotations

from typing import Any, cast

import obstore
import pytest
from obstore.store import S3Store

import omnigraph as og
from omnigraph.graph import Graph
from tests.mutations import run
from tests.s3 import S3Server

pytestmark = pytest.mark.s3

SCHEMA = "node Person { name: String @key  born: I32? @index }\nedge Knows: Person -> Person"


def store_of(server: S3Server, uri: str) -> S3Store:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix=prefix, config=cast("Any", server.storage_options))


def objects(server: S3Server, uri: str) -> dict[str, bytes]:
    store = store_of(server, uri)
    found = [entry["path"] for chunk in obstore.list(store) for entry in chunk]
    return {path: bytes(obstore.get(store, path).bytes()) for path in found}


def copied(server: S3Server, uri: str, target: str) -> None:
    for path, body in objects(server, uri).items():
        obstore.put(store_of(server, target), path, body)


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


def branched(uri: str, options: dict[str, str]) -> Graph:
    graph = og.init(uri, schema=SCHEMA, storage_options=options)
    run(graph, 'insert Person { name: "a", born: 1 } insert Person { name: "b" } insert Knows { from: "a", to: "b" }')
    graph.ensure_indices()
    graph.branches.create("one")
    run(graph, 'insert Person { name: "c" } insert Knows { from: "c", to: "a" }', branch="one")
    graph.branches.create("two", from_="one")
    run(graph, 'delete Person where name = "b"', branch="two")
    graph.branches.create("three")
    return graph


def test_a_copy_under_another_prefix_is_a_graph_of_its_own(s3_server: S3Server, s3_uri: str) -> None:
    """B-40: also on S3, where a copy takes the leases of the original along.

    B-41: neither reads or changes an object of the other."""
    options = s3_server.storage_options
    before = shown(branched(s3_uri, options))
    there = f"{s3_uri}-copy"
    copied(s3_server, s3_uri, there)
    original = objects(s3_server, s3_uri)
    copy = og.open(there, storage_options=options)
    assert shown(copy) == before
    assert copy.verify(deep=True) == []
    for branch in copy.branches.list():
        run(copy, 'insert Person { name: "new" } insert Knows { from: "new", to: "a" }', branch=branch)
        copy.branches.create(f"of-{branch}", from_=branch)
        run(copy, 'delete Person where name = "a"', branch=f"of-{branch}")
    assert copy.verify(deep=True) == []
    assert objects(s3_server, s3_uri) == original
    after, kept = shown(copy), objects(s3_server, there)
    source = og.open(s3_uri, storage_options=options)
    assert shown(source) == before
    run(source, 'delete Person where name = "a"', branch="two")
    assert objects(s3_server, there) == kept
    store = store_of(s3_server, s3_uri)
    obstore.delete(store, list(objects(s3_server, s3_uri)))
    assert shown(og.open(there, storage_options=options)) == after


def test_a_moved_graph_is_read_with_credentials_that_may_not_write(s3_server: S3Server, s3_uri: str) -> None:
    """B-42: also on S3."""
    before = shown(branched(s3_uri, s3_server.storage_options))
    there = f"{s3_uri}-copy"
    copied(s3_server, s3_uri, there)
    obstore.delete(store_of(s3_server, s3_uri), list(objects(s3_server, s3_uri)))
    assert shown(og.open(there, mode="r", storage_options=s3_server.reader_options)) == before
