"""Reads on a real S3 server: the same answers, by either route."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.plan.ops import Route
from tests.reads import SOCIETY, acted, ask, film, knows, load, person, routed
from tests.s3 import S3Server

pytestmark = pytest.mark.s3


def test_a_graph_on_s3_answers_by_either_route(s3_server: S3Server, s3_uri: str) -> None:
    graph = og.init(s3_uri, schema=SOCIETY, storage_options=s3_server.storage_options)
    load(graph, person("a", born=1), person("b"), film("f", year=1979), knows("a", "b"), knows("b", "a"), acted("b", "f"))
    reader = og.open(s3_uri, mode="r", storage_options=s3_server.storage_options)
    assert ask(reader, "match { $p: Person { born: 1 } } return { $p.name }") == [("a",)]
    body = "match { $p: Person  $p knows $q  $q actedIn $f } return { $p, $f.year as y }"
    assert routed(reader, body, Route.INDEX) == routed(reader, body, Route.ADJACENCY) == [("a", 1979)]
    old = reader.snapshot().manifest_version
    graph.mutate('query d() { delete Person where name = "b" }')
    assert ask(reader, body) == []
    assert ask(reader, body, at=old) == [("a", 1979)]
