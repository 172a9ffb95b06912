"""Tokens: a retry of a write returns what the first call returned, and another write with the token is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Publication, publish
from tests.embedders import Recording
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


def test_upkeep(graph: Graph) -> None:
    """A retry does nothing, though there would be work again, and returns the commit of the first call."""
    indexed = graph.ensure_indices(token="index")
    assert indexed.commit is not None
    assert (indexed.commit.token, len(indexed.built)) == ("index", 3)
    for name in ("Di", "Eve"):
        graph.load([{"type": "Person", "data": {"name": name}}])
    tidied = graph.optimize(token="tidy")
    assert tidied.commit is not None
    graph.load([{"type": "Person", "data": {"name": f"p{n}"}} for n in range(5)])
    before = graph.snapshot()
    again = og.open(graph.uri)
    assert again.ensure_indices(token="index").commit == indexed.commit
    retried = again.optimize(token="tidy")
    assert retried.commit == tidied.commit
    assert [table.state for table in retried.tables] == [table.state for table in tidied.tables]
    assert graph.snapshot() == before
    for call in (graph.ensure_indices, graph.ensure_embeddings):
        with pytest.raises(InvalidInput, match="belongs to an optimize"):
            call(token="tidy")


def test_embeddings_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last part has the token, so that a call that failed on the way goes on with it."""
    monkeypatch.setattr("omnigraph.exec.upkeep.embeddings.PART_ROWS", 1)
    asked = Recording()
    schema = 'node Doc { name: String @key  text: String  vec: Vector(4)? @embed("text") }'
    plain = og.init(tmp_path / "g", schema=schema)
    plain.load([{"type": "Doc", "data": {"name": f"d{n}", "text": f"text {n}"}} for n in range(3)])
    graph = og.open(tmp_path / "g", embedding=asked)
    first = graph.ensure_embeddings(token="job")
    assert (first.embedded, first.commit) == (3, graph.commits()[0])
    assert first.commit is not None
    assert first.commit.token == "job"
    texts = len(asked.texts)
    retried = graph.ensure_embeddings(token="job")
    assert (retried.embedded, retried.commit, len(asked.texts)) == (0, first.commit, texts)
    assert graph.ensure_embeddings().commit is None


def test_a_repair(graph: Graph) -> None:
    place = f"{graph.uri}/{graph.snapshot().tables[0].path}"
    lance.dataset(place).delete("name = 'Ben'")
    done = og.open(graph.uri).repair(confirm=True, force=True, token="job")
    assert done.commit is not None
    lance.dataset(place).delete("name = 'Ada'")
    again = og.open(graph.uri).repair(confirm=True, force=True, token="job")
    assert again.commit == done.commit
    assert og.open(graph.uri).query("match { $p: Person } return { $p.name as name }").rows == [{"name": "Ada"}]


@pytest.mark.parametrize("write", ["mutate", "load", "ensure_indices", "optimize", "apply_schema"])
def test_an_empty_token_is_refused(graph: Graph, write: str) -> None:
    given: dict[str, list[Any]] = {"mutate": ['insert Person { name: "x" }'], "load": [[]], "apply_schema": [WIDER]}
    with pytest.raises(InvalidInput, match="the token is empty"):
        getattr(graph, write)(*given.get(write, []), token="")
