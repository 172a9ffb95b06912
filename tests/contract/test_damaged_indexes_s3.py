"""Index objects that go from a bucket: reads and writes do without them, on main and on branches."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store.objects import open_objects
from tests.s3 import CountingProxy

pytestmark = pytest.mark.s3

SCHEMA = "node P { k: String @key  n: I32? @index }\n"
KEYED = 'query q() { match { $p: P { k: "p7" } } return { $p.n } }'


def folders(graph: Graph, branch: str) -> dict[str, str]:
    (row,) = graph.engine.manifest.snapshot(BranchName(branch)).state.tables.values()
    return {index.name: index.directory for index in graph.engine.tables.open(row.ref).indexes}


def test_indexes_that_go_from_a_bucket(s3_proxy: CountingProxy, s3_uri: str) -> None:
    """X-15: inherited ones too, of a branch of a branch; and what looking at them costs."""
    options = s3_proxy.storage_options
    graph = og.init(s3_uri, schema=SCHEMA, storage_options=options)
    graph.load([{"type": "P", "data": {"k": f"p{n}", "n": n}} for n in range(50)])
    graph.ensure_indices()
    graph.branches.create("one")
    graph.mutate('query q() { insert P { k: "one", n: 1 } }', branch="one")
    graph.branches.create("two", from_="one")
    graph.mutate('query q() { insert P { k: "two", n: 2 } }', branch="two")
    assert folders(graph, "main") == folders(graph, "one") == folders(graph, "two")
    assert graph.verify(deep=True) == graph.verify() == []

    reader = og.open(s3_uri, mode="r", storage_options=options)
    for _ in range(2):  # the second time it reads the ids of so few rows, instead of one more lookup
        assert reader.query(KEYED, branch="two").rows == [{"p.n": 7}]
    s3_proxy.reset()
    assert reader.query(KEYED, branch="two").rows == [{"p.n": 7}]
    warm = sum(s3_proxy.counts.values())
    assert warm <= 3

    objects = open_objects(s3_uri, storage_options=options)
    for folder in folders(graph, "main").values():
        objects.delete_prefix(folder)
    for branch in ("main", "one", "two"):
        fresh = og.open(s3_uri, storage_options=options)
        assert fresh.query(KEYED, branch=branch).rows == [{"p.n": 7}]
        fresh.mutate('query q() { update P set { n: 8 } where k = "p7" }', branch=branch)
        assert fresh.query(KEYED, branch=branch).rows == [{"p.n": 8}]
        assert {finding.where for finding in fresh.verify()} >= {f"{branch}:node:P"}
        assert fresh.ensure_indices(branch).commit is not None
    # Earlier commits still show the indexes that were built anew since: reads of them scan.
    left = og.open(s3_uri, storage_options=options).verify(deep=True)
    assert {(finding.severity, finding.code, finding.branches) for finding in left} == {("warning", "damaged_index", ())}
