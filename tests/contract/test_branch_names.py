"""Every name that is accepted for a branch works: it is made, written to, read, deleted; on a disk and on S3."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import InvalidInput
from omnigraph.manifest.registry import check_name, object_of
from omnigraph.store.refs import fresh_ref
from tests.s3 import S3Server
from tests.samples import sample

SCHEMA = "node P { name: String @key }"
CHILD = "child"
SIGNS = "abzABZ019_.@+:=-/"
INSERT = 'query q() { insert P { name: "%s" } }'
NAMES = {
    "two dots": "a..b",
    "many dots": "...a....b/..c...",
    "signs": "@" * 83,
    "lock": "x.lock",
    "hidden": ".a/-b",
    "colons": ":=+@",
    "long": "x" * 120,
    "long with dots": "x" * 39 + ".." + "y" * 79,
    "like a main": "MAIN",
}


@settings(max_examples=sample(300, whole=20_000), deadline=None)
@given(st.text(SIGNS, min_size=1, max_size=130))
def test_every_accepted_name_has_a_native_name_and_an_object_that_storage_takes(name: str) -> None:
    """Lance: letters, digits, dot, dash and underscore; never two dots in a row, `.lock` at the end, or `main`."""
    try:
        check_name(name)
    except InvalidInput:
        assume(False)
    native = fresh_ref(name)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,80}", native)
    assert ".." not in native
    assert not native.endswith(".lock")
    assert native != "main"
    assert all(len(part) <= 255 for part in object_of(check_name(name)).split("/"))


def lives(graph: og.Graph, name: str) -> None:
    graph.branches.create(name)
    graph.mutate(INSERT % "Ben", branch=name)
    graph.branches.create(CHILD, from_=name)
    people = "query q() { match { $p: P } return { $p.name as name } }"
    assert {row["name"] for row in graph.query(people, branch=name)} == {"Ada", "Ben"}
    assert name in graph.branches.list()
    graph.branches.delete(CHILD)
    graph.branches.delete(name)
    assert graph.branches.list() == ["main"]
    assert {row["name"] for row in graph.query(people)} == {"Ada"}
    assert graph.verify() == []


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_branch_of_an_odd_name_lives_on_a_disk(tmp_path: Path, name: str) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    graph.mutate(INSERT % "Ada")
    lives(graph, name)


@pytest.mark.s3
def test_branches_of_odd_names_live_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    graph = og.init(s3_uri, schema=SCHEMA, storage_options=s3_server.storage_options)
    graph.mutate(INSERT % "Ada")
    for name in ("a..b", "@" * 83, ":=+@/..x.lock"):
        lives(graph, name)
