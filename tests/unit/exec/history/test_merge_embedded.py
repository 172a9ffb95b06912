"""Merges by property of texts and the vectors that are embedded from them: no vector ends beside another text."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run

SCHEMA = """
node Doc {
  slug: String @key  text: String?  note: String?
  aaa: Vector(2)? @embed(text)  vec: Vector(2)? @embed(text)  free: Vector(2)?
}
"""
OLD, NEW, OTHER = {"old": [1.0, 0.0], "new": [0.0, 1.0], "other": [1.0, 1.0]}.items()
"""Each text with the vector of its own."""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    return og.init(tmp_path / "g", schema=SCHEMA)


def put(graph: Graph, branch: str, text: str | None, vec: list[float] | None, note: str = "") -> None:
    body = '($t: String?, $v: Vector(2)?, $n: String) insert Doc { slug: "a", text: $t, note: $n, vec: $v, aaa: $v }'
    run(graph, body, {"t": text, "v": vec, "n": note}, branch=branch)


def row(graph: Graph) -> tuple[object, object]:
    (found,) = graph.query("query q() { match { $d: Doc } return { $d.text as t, $d.vec as v, $d.aaa as a, $d.note as n } }").tuples()
    text, vec, twin, note = found
    assert vec == twin, "both vectors are of one text"
    assert note == "theirs", "what is no part of the pair is merged by itself"
    return text, vec


STATES = [OLD, ("old", None), NEW, ("new", None), OTHER, ("other", None)]


@pytest.mark.parametrize("base", STATES[:2], ids=["embedded", "not yet"])
def test_a_vector_stays_with_its_text(graph: Graph, base: tuple[str, list[float] | None]) -> None:
    """A text and the vectors embedded from it are merged as one: the side that changed the text has its vectors too."""
    for number, (theirs, ours) in enumerate(product(STATES, STATES)):
        branch = f"b{number}"
        put(graph, "main", *base)
        graph.branches.create(branch)
        put(graph, branch, *theirs, note="theirs")
        put(graph, "main", *ours)
        clash = theirs[0] != base[0] != ours[0] != theirs[0]
        way = ("fail", "ours", "theirs")[1 + number % 2 if clash else 0]
        if clash:
            assert graph.merge(branch, strategy="property", dry_run=True).conflicts[0].properties == ("text",), "the vectors follow it"
        graph.merge(branch, strategy="property", on_conflict=way)
        text, vec = row(graph)
        changed = [side for side in (theirs, ours) if side[0] != base[0]]
        if clash:
            assert (text, vec) == (theirs if way == "theirs" else ours)
        elif len(changed) == 1:
            assert (text, vec) == changed[0]
        elif len(changed) == 2:
            assert (text, vec) == (theirs[0], theirs[1] or ours[1]), "of one new text, the vector that is there"
        else:
            assert text == base[0]
            assert vec == (ours[1] if theirs[1] == base[1] else theirs[1])


def test_vectors_of_one_text_that_differ_are_a_conflict(graph: Graph) -> None:
    """Both sides embedded it, with different models: nobody can say which is right."""
    put(graph, "main", *OLD)
    graph.branches.create("side")
    put(graph, "side", "new", [0.0, 1.0])
    put(graph, "main", "new", [0.5, 0.5])
    with pytest.raises(MergeConflicts):
        graph.merge("side", strategy="property")
    (conflict,) = graph.merge("side", strategy="property", dry_run=True).conflicts
    assert conflict.properties == ("aaa", "vec")


def test_a_vector_without_embed_is_merged_by_itself(graph: Graph) -> None:
    put(graph, "main", *OLD)
    graph.branches.create("side")
    run(graph, 'update Doc set { text: "new", vec: [0, 1], aaa: [0, 1], note: "theirs" } where slug = "a"', branch="side")
    run(graph, 'update Doc set { free: [3, 4] } where slug = "a"')
    graph.merge("side", strategy="property")
    assert row(graph) == ("new", [0.0, 1.0])
    ((free,),) = graph.query("query q() { match { $d: Doc } return { $d.free as f } }").tuples()
    assert free == [3.0, 4.0]
