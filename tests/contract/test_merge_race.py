"""Merges and transactions beside writers, in real processes: every acknowledged row is there, and no merge loses one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.manifest.registry import all_branches
from tests.contract.merge_child import start
from tests.s3 import S3Server
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Counter { name: String @key  n: I32 }"


def names(graph: Graph, branch: str) -> set[str]:
    return {row["name"] for row in graph.query("match { $p: Person } return { $p.name as name }", branch=branch)}


def race(uri: str, *, writes: int, merges: int, options: Mapping[str, str] | None = None) -> None:
    graph = og.init(uri, schema=SCHEMA, storage_options=options)
    graph.branches.create("work")
    doings = [("write main ours", writes), ("write work theirs", writes), ("merge work main", merges), ("merge main work", merges)]
    running = [start(uri, doing, count, options=options) for doing, count in doings]
    outputs = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * 4, [errors for _, errors in outputs]
    ours, theirs = (set(outputs[at][0].split()) for at in (0, 1))
    assert {len(ours), len(theirs)} == {writes}
    found = og.open(uri, storage_options=options)
    assert ours <= names(found, "main")
    assert theirs <= names(found, "work")
    found.merge("work")
    found.merge("main", "work")
    for branch in ("main", "work"):
        assert names(found, branch) == ours | theirs
        last = found.query("match { $c: Counter } return { $c.name as name, $c.n as n } order { name }", branch=branch).rows
        assert last == [{"name": "ours", "n": writes - 1}, {"name": "theirs", "n": writes - 1}]
    assert list(found.diff("main", "work")) == []
    assert found.verify() == []


def test_merges_in_both_directions_beside_writers(tmp_path: Path) -> None:
    """M-28: A merge and the writers of its target wait for each other; nobody's write is lost."""
    race(str(tmp_path / "g"), writes=sample(15, whole=100), merges=sample(8, whole=60))


@pytest.mark.s3
def test_merges_beside_writers_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    race(s3_uri, writes=4, merges=2, options=s3_server.storage_options)


def test_properties_that_both_sides_added_beside_a_writer(tmp_path: Path) -> None:
    """The target moves while its tables get the columns of three branches, one after another."""
    uri = str(tmp_path / "g")
    graph = og.init(uri, schema=SCHEMA)
    graph.mutate('query q() { insert Person { name: "seed" } }')
    branches = ("a", "b", "c")
    for branch in branches:
        graph.branches.create(branch)
        graph.apply_schema(SCHEMA.replace("age: I32?", f"age: I32?  {branch}: I32?"), branch)
        graph.mutate(f'query q() {{ insert Person {{ name: "{branch}", {branch}: 1 }} }}', branch=branch)
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  note: String?"))
    running = start(uri, "write main ours", 15)
    for branch in branches:
        assert graph.merge(branch).inserted == 1
    written, errors = running.communicate(timeout=240)
    assert running.returncode == 0, errors
    found = og.open(uri)
    assert names(found, "main") == {"seed", *branches, *written.split()}
    counted = ", ".join(f"count($p.{branch}) as {branch}" for branch in branches)
    assert found.query(f"match {{ $p: Person }} return {{ {counted} }}").rows == [{"a": 1, "b": 1, "c": 1}]
    assert found.verify() == []


def transactions(uri: str, *, count: int, options: Mapping[str, str] | None = None) -> None:
    graph = og.init(uri, schema=f"{SCHEMA}\nnode Note {{ name: String @key  text: String }}", storage_options=options)
    graph.mutate('query q() { insert Person { name: "seed" } }')
    doings = ["transact main a", "transact main b", "write main c"]
    running = [start(uri, doing, count, options=options) for doing in doings]
    outputs = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * 3, [errors for _, errors in outputs]
    found = og.open(uri, storage_options=options)
    done = [set(output.split()) for output, _ in outputs]
    assert names(found, "main") == set().union(*done)
    commits = [commit for commit in found.commits() if commit.kind == "transaction"]
    assert len(commits) == 2 * count
    changed = [[change.id for change in found.commit_changes(commit.id, types=["Person"], ops=["insert"])] for commit in commits]
    assert sorted(changed) == sorted([name] for name in done[0] | done[1]), "each transaction is one commit, whole"
    last = found.query('match { $n: Note { name: "last" } } return { $n.text as text }').rows
    assert [[row["text"]] for row in last] == changed[:1], "the note is that of the newest transaction"
    assert all_branches(found.engine.root.objects) == []
    assert found.verify() == []


def test_transactions_beside_each_other_and_a_writer(tmp_path: Path) -> None:
    transactions(str(tmp_path / "g"), count=sample(4, whole=25))


@pytest.mark.s3
def test_transactions_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    transactions(s3_uri, count=2, options=s3_server.storage_options)


def increments(uri: str, *, count: int, options: Mapping[str, str] | None = None) -> None:
    graph = og.init(uri, schema=SCHEMA, storage_options=options)
    graph.mutate('query q() { insert Counter { name: "all", n: 0 } }')
    running = [start(uri, f"raise main {name}", count, options=options) for name in "abc"]
    outputs = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * 3, [errors for _, errors in outputs]
    assert graph.query("match { $c: Counter } return { $c.n as n }").rows == [{"n": 3 * count}]
    assert graph.verify() == []


def test_no_increment_is_lost(tmp_path: Path) -> None:
    """Transactions that read the same number and raise it make equal changes. One of them lands, the others run again."""
    increments(str(tmp_path / "g"), count=sample(5, whole=40))


@pytest.mark.s3
def test_no_increment_is_lost_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    increments(s3_uri, count=2, options=s3_server.storage_options)
