"""Tokens: a retry of a write returns what the first call returned, and another write with the token is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Publication, publish
from tests.mutations import manifest_of

SCHEMA = "node Person { name: String @key  born: I32? }"
WIDER = "node Person { name: String @key  born: I32?  email: String? }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA)
    made.load([{"type": "Person", "data": {"name": name}} for name in ("Ada", "Ben")])
    made.branches.create("work")
    made.mutate('insert Person { name: "Cy" }', branch="work")
    return made


def refused(call: Callable[[], Any], kind: str) -> None:
    with pytest.raises(InvalidInput, match=f"belongs to another {kind}, commit") as caught:
        call()
    assert caught.value.kind is Kind.TOKEN_REUSED


@pytest.mark.parametrize("ahead", [False, True])
def test_a_merge(graph: Graph, ahead: bool) -> None:
    """A retry after the source was deleted, and after the target went on."""
    if ahead:
        graph.mutate('insert Person { name: "Di" }')
    first = graph.merge("work", token="job", delete_source=True)
    assert first.outcome == ("merged" if ahead else "fast_forward")
    graph.mutate('insert Person { name: "Eve" }')
    before = graph.snapshot()
    assert og.open(graph.uri).merge("work", token="job", delete_source=True) == first
    refused(lambda: graph.merge("work", token="job", strategy="property"), "merge")
    refused(lambda: graph.branches.merge("other", token="job"), "merge")
    assert graph.snapshot() == before
    with pytest.raises(InvalidInput, match="belongs to a merge"):
        graph.mutate('insert Person { name: "Eve" }', token="job")


def test_the_choices_of_a_merge_are_compared_in_any_order(graph: Graph) -> None:
    graph.mutate('update Person set { born: 1 } where name = "Ada" or name = "Ben"')
    graph.mutate('update Person set { born: 2 } where name = "Ada" or name = "Ben"', branch="work")
    choices = {("Person", "Ada"): "ours", ("Person", "Ben"): "theirs"}
    first = graph.merge("work", resolve=choices, token="job")
    assert graph.merge("work", resolve=dict(reversed(choices.items())), token="job") == first
    refused(lambda: graph.merge("work", resolve={**choices, ("Person", "Ben"): "ours"}, token="job"), "merge")


def test_a_revert(graph: Graph) -> None:
    one, two = graph.mutate('insert Person { name: "Di" }'), graph.mutate('insert Person { name: "Eve" }')
    assert one.commit is not None
    assert two.commit is not None
    first = graph.revert(one.commit.id, token="job")
    assert (first.deleted, graph.revert(one.commit.id, token="job")) == (1, first)
    refused(lambda: graph.revert(two.commit.id, token="job"), "revert")  # type: ignore[union-attr]
    assert len(graph.query("match { $p: Person } return { $p }")) == 3


def test_a_schema(graph: Graph) -> None:
    first = graph.apply_schema(WIDER, token="job")
    assert first.applied
    assert [type(step).__name__ for step in first.steps] == ["AddProperty"]
    assert og.open(graph.uri).apply_schema(WIDER, token="job") == first
    refused(lambda: graph.apply_schema(SCHEMA, token="job"), "schema")
    refused(lambda: graph.apply_schema(WIDER, token="job", allow_data_loss=True), "schema")
    assert graph.schema == WIDER


def test_a_commit_of_a_release_without_digests_answers_as_before(graph: Graph) -> None:
    made = publish(manifest_of(graph), Publication(CommitKind.MUTATE, token="old", counts={"affected_nodes": 3, "affected_edges": 0}))
    assert made.commit.digest is None
    again = graph.mutate('insert Person { name: "Zed" }', token="old")
    assert (again.commit, again.affected_nodes) == (made.commit, 3)
    assert len(graph.query("match { $p: Person } return { $p }")) == 2


def test_every_commit_with_a_token_keeps_a_digest_of_64_characters(graph: Graph) -> None:
    graph.merge("work", token="t")
    assert [len(commit.digest or "") for commit in graph.commits()[:2]] == [64, 0]
