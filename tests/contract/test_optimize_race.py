"""`optimize` beside writers and beside itself, in real processes: every acknowledged row is there, with its last value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store.index import existing
from tests.contract.merge_child import start
from tests.mutations import table
from tests.s3 import S3Server
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32? @index }\nnode Counter { name: String @key  n: I32 }"


def race(uri: str, *, writes: int, runs: int, options: Mapping[str, str] | None = None) -> og.Graph:
    graph = og.init(uri, schema=SCHEMA, storage_options=options)
    graph.mutate('query q() { insert Person { name: "seed", age: 1 } }')
    doings = [("write main a", writes), ("write main b", writes), ("optimize main x", runs), ("optimize main y", runs)]
    running = [start(uri, doing, count, options=options) for doing, count in doings]
    outputs = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * 4, [errors for _, errors in outputs]
    found = og.open(uri, storage_options=options)
    written = {name for output, _ in outputs[:2] for name in output.split()}
    assert len(written) == 2 * writes
    people = {row["name"]: row["age"] for row in found.query("match { $p: Person } return { $p.name as name, $p.age as age }")}
    assert people == {"seed": 1, **{name: int(name.partition("-")[2]) for name in written}}
    last = found.query("match { $c: Counter } return { $c.name as name, $c.n as n } order { name }").rows
    assert last == [{"name": "a", "n": writes - 1}, {"name": "b", "n": writes - 1}]
    assert {change.id for commit in found.commits() if commit.kind == "optimize" for change in found.commit_changes(commit.id)} == set()
    found.optimize()
    assert found.verify() == []
    return found


def test_writers_and_optimizers_beside_each_other(tmp_path: Path) -> None:
    """O-09: nothing that a writer was acknowledged is lost, however often the tables are rewritten meanwhile.

    Also O-10.
    """
    graph = race(str(tmp_path / "g"), writes=sample(20, whole=150), runs=sample(8, whole=60))
    assert sum(commit.kind == "optimize" for commit in graph.commits()) >= 2
    for alias in ("node:Person", "node:Counter"):
        stored = table(graph, alias)
        assert {index.uncovered_rows for index in existing(stored)} == {0}
        assert all(stored.count(f"id = '{id_}'") == 1 for id_ in stored.scan(["id"]).read_all()["id"].to_pylist())


@pytest.mark.s3
def test_writers_and_optimizers_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    """O-09: on an object store."""
    race(s3_uri, writes=3, runs=2, options=s3_server.storage_options)
