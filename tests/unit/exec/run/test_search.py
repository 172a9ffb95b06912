"""Searches of random data: the same as numpy and as the formulas in plain Python give, over any number of rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.rank import cosine_distances
from omnigraph.exec.read.rows import BATCH
from omnigraph.graph import Graph
from tests.harness.brute.text import bm25, fused, text_matches
from tests.mutations import run
from tests.reads import ask, graph_of, load, text_of

SCHEMA = """
node Doc { key: I64 @key  text: String?  vec: Vector(4)?  even: Bool }
node Tag { name: String @key }
edge Of: Tag -> Doc
"""
QUERY = [0.25, -1.0, 2.0, 0.5]
VOCABULARY = ("river", "rivers", "stone", "the", "running", "runner", "sea", "sand", "of", "wave", "waves", "tide", "ebb")


class Doc(NamedTuple):
    key: int
    text: str | None
    vec: list[float] | None
    even: bool


def documents(count: int, *, seed: int = 0) -> list[Doc]:
    rng = random.Random(seed)
    return [
        Doc(
            at,
            None if rng.random() < 0.1 else " ".join(rng.choices(VOCABULARY, k=rng.randint(0, 8))),
            None if rng.random() < 0.1 else [float(rng.randint(-2, 2)) for _ in range(4)],
            at % 2 == 0,
        )
        for at in range(count)
    ]


def library(path: Path, docs: list[Doc]) -> Graph:
    return graph_of(path, *({"type": "Doc", "data": doc._asdict()} for doc in docs), schema=SCHEMA)


@pytest.fixture(params=["in memory", "too many for it"])
def _vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where vectors are: a column that is too large is read for every search."""
    if request.param == "too many for it":
        monkeypatch.setattr(Entities, "vectors", lambda *_, **__: None)


def expected_nearest(docs: list[Doc], query: list[float]) -> list[tuple[int, float]]:
    """By numpy: the keys and distances of the documents with a direction, best first, ties in the order of the ids."""
    found = [(doc.key, np.array(doc.vec)) for doc in docs if doc.vec is not None and any(doc.vec)]
    wanted = np.array(query)
    distances = [(float(1 - vector @ wanted / np.linalg.norm(vector) / np.linalg.norm(wanted)), key) for key, vector in found]
    return [(key, distance) for distance, key in sorted(distances, key=lambda pair: (round(pair[0], 9), str(pair[1])))]


@pytest.mark.usefixtures("_vectors")
@pytest.mark.parametrize("where", ["", "$d.even = true"])
def test_nearest_is_what_numpy_says(tmp_path: Path, where: str) -> None:
    """X-09, X-13: exact without an index, and a filter comes first."""
    docs = documents(300)
    kept = [doc for doc in docs if doc.even or not where]
    graph = library(tmp_path, docs)
    body = f"($v: Vector(4)) match {{ $d: Doc {where} }} return {{ $d.key as k, nearest($d.vec, $v) as s }} order {{ s }} limit 40"
    found = ask(graph, body, {"v": QUERY})
    wanted = expected_nearest(kept, QUERY)[:40]
    assert [key for key, _ in found] == [key for key, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-9)


@pytest.mark.usefixtures("_vectors")
def test_more_rows_than_one_batch_keep_their_order(tmp_path: Path) -> None:
    """X-13: A ranking is of the rows that a filter leaves, and more rows than one batch keep the global order."""
    count = BATCH + 4_000
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(count, 4)).astype(np.float32)
    graph = library(tmp_path, [Doc(at, None, vector, True) for at, vector in enumerate(vectors.tolist())])
    text = f"query q($v: Vector(4)) {{ match {{ $d: Doc }} return {{ $d.key as k }} order {{ nearest($d.vec, $v) }} limit {count - 10} }}"
    found = [key for (key,) in graph.query(text, params={"v": QUERY}).tuples()]
    wide = vectors.astype(np.float64)
    distances = 1 - wide @ np.array(QUERY) / np.linalg.norm(wide, axis=1) / np.linalg.norm(QUERY)
    assert found == np.argsort(distances, kind="stable")[: count - 10].tolist()


def test_vectors_in_memory_are_those_of_their_version(tmp_path: Path) -> None:
    """Rows that were deleted, changed, added and set to null since; with filters that leave many, few and no rows; more than there are."""
    docs = documents(6_000, seed=3)
    graph = library(tmp_path, docs)
    old = graph.snapshot().commit_id
    body = "($v: Vector(4)) match { $d: Doc WHERE } return { $d.key as k, nearest($d.vec, $v) as s } order { s } limit LIMIT"

    def compared(docs: list[Doc], at: str | None = None) -> None:
        for where, kept in (
            ("", docs),
            ("$d.even = true", [doc for doc in docs if doc.even]),
            ("$d.key < 100", [doc for doc in docs if doc.key < 100]),
            ("$d.key < 0", []),
        ):
            for limit in (1, 25, 10_000):
                text = text_of(body.replace("WHERE", where).replace("LIMIT", str(limit)))
                wanted = expected_nearest(kept, QUERY)[:limit]
                found = list(graph.query(text, params={"v": QUERY}, at=at).tuples())
                assert [key for key, _ in found] == [key for key, _ in wanted]

    compared(docs)
    run(graph, "delete Doc where key >= 1000 and key < 2000")
    run(graph, "($n: Vector(4)?) update Doc set { vec: $n } where key >= 10 and key < 20", {"n": None})
    run(graph, "update Doc set { vec: [0.25, -1, 2, 0.5] } where key = 5999")
    load(graph, {"type": "Doc", "data": Doc(9_000, None, [1.0, 2.0, 3.0, 4.0], True)._asdict()})
    now = [
        Doc(doc.key, doc.text, None if 10 <= doc.key < 20 else QUERY if doc.key == 5999 else doc.vec, doc.even)
        for doc in docs
        if not 1000 <= doc.key < 2000
    ]
    compared([*now, Doc(9_000, None, [1.0, 2.0, 3.0, 4.0], True)])
    compared(docs, at=old)


def test_equal_vectors_have_equal_distances_wherever_they_stand() -> None:
    rng = np.random.default_rng(2)
    row = rng.normal(size=37).astype(np.float32)
    matrix: npt.NDArray[np.float32] = np.repeat(row[None, :], 1_000, axis=0)
    query = rng.normal(size=37)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 37)
    assert len({*cosine_distances(vectors, query), *cosine_distances(vectors.slice(3), query), *cosine_distances(vectors[:1], query)}) == 1


@pytest.mark.usefixtures("_vectors")
def test_the_best_of_many_vectors_are_found_whatever_their_lengths(tmp_path: Path) -> None:
    """Most are left out by a comparison in single precision, which can neither hold all lengths nor tell all directions apart."""
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(5_000, 4)).astype(np.float32) * 10.0 ** rng.integers(-20, 21, (5_000, 1)).astype(np.float32)
    vectors[1_000:1_040] = vectors[0] * rng.uniform(0.5, 2, (40, 1)).astype(np.float32)
    docs = [Doc(at, None, vector, True) for at, vector in enumerate(vectors.tolist())]
    graph = library(tmp_path, docs)
    body = "($v: Vector(4)) match { $d: Doc } return { $d.key as k, nearest($d.vec, $v) as s } order { s } skip 3 limit 30"
    for query in (vectors[0], vectors[7], np.array(QUERY)):
        wanted = cosine_distances(pa.array(vectors.tolist(), pa.list_(pa.float32(), 4)), np.asarray(query, np.float32).astype(np.float64))
        order = sorted(range(5_000), key=lambda at, wanted=wanted: (wanted[at], str(at)))  # type: ignore[misc]
        assert ask(graph, body, {"v": query}) == [(at, wanted[at]) for at in order[3:33]]


@pytest.mark.parametrize("words", ["river", "runs the stones", "the", "sea sand wave tide ebb", "none of it"])
def test_bm25_is_the_formula(tmp_path: Path, words: str) -> None:
    docs = documents(200, seed=3)
    graph = library(tmp_path, docs)
    text = "query q($w: String) { match { $d: Doc } return { $d.id as i, bm25($d.text, $w) as s } order { bm25($d.text, $w) } }"
    found = list(graph.query(text, params={"w": words}).tuples())
    scores = bm25({str(doc.key): doc.text for doc in docs}, words, {str(doc.key) for doc in docs})
    wanted = sorted(scores, key=lambda id_: (-scores[id_], id_))
    assert [id_ for id_, _ in found] == wanted
    assert [score for _, score in found] == pytest.approx([scores[id_] for id_ in wanted], rel=1e-9)


@pytest.mark.parametrize("edits", [0, 1, 2])
def test_fuzzy_is_the_distance_of_words(tmp_path: Path, edits: int) -> None:
    docs = documents(200, seed=4)
    graph = library(tmp_path, docs)
    for words in ("rvier", "wav", "stoned tidal"):
        text = f"query q($w: String) {{ match {{ $d: Doc  fuzzy($d.text, $w, {edits}) }} return {{ $d.key as k }} }}"
        found = sorted(key for (key,) in graph.query(text, params={"w": words}).tuples())
        assert found == [doc.key for doc in docs if doc.text is not None and text_matches(str(doc.text), words, edits=edits)]


def test_a_fusion_looks_as_deep_as_its_limit(tmp_path: Path) -> None:
    """The ranks are those among the rows of the match, ties in the order of the ids."""
    docs = documents(120, seed=5)
    graph = library(tmp_path, docs)
    kept = [doc for doc in docs if doc.even]
    scores = bm25({str(doc.key): doc.text for doc in docs}, "sea river", {str(doc.key) for doc in kept})
    arms = [[str(key) for key, _ in expected_nearest(kept, QUERY)], sorted(scores, key=lambda id_: (-scores[id_], id_))]
    order = 'rrf(nearest($d.vec, $v), bm25($d.text, "sea river"), 3)'
    text = f"query q($v: Vector(4)) {{ match {{ $d: Doc {{ even: true }} }} return {{ $d.id as i }} order {{ {order} }} skip 2 limit 5 }}"
    total = fused([arm[:7] for arm in arms], 3)
    assert [id_ for (id_,) in graph.query(text, params={"v": QUERY}).tuples()] == sorted(total, key=lambda id_: (-total[id_], id_))[2:7]


@pytest.mark.usefixtures("_vectors")
def test_a_few_reached_rows_are_ranked_like_many(tmp_path: Path) -> None:
    """The vectors of a few rows are read by number, and those of many in one pass; the scores are the same."""
    docs = documents(6_000, seed=6)
    graph = library(tmp_path, docs)
    few = [7, 4_000, 5_999, 12]
    load(
        graph,
        *({"type": "Tag", "data": {"name": name}} for name in ("few", "all")),
        *({"edge": "Of", "from": "few", "to": str(key)} for key in few),
        *({"edge": "Of", "from": "all", "to": str(doc.key)} for doc in docs),
    )
    body = "($n: String, $v: Vector(4)) match { $t: Tag { name: $n }  $t of $d } return { $d.key as k, nearest($d.vec, $v) as s }"
    scores = dict(ask(graph, body, {"n": "all", "v": QUERY}))
    assert dict(ask(graph, body, {"n": "few", "v": QUERY})) == {key: scores[key] for key in few}
    assert len(scores) == len(docs)


def test_a_search_is_of_its_branch_and_its_time(tmp_path: Path) -> None:
    """T-01: how rare a word is, is measured in the texts of that snapshot."""
    graph = library(tmp_path, documents(50, seed=7))
    text = 'match { $d: Doc } return { $d.key as k, bm25($d.text, "river") as s } order { bm25($d.text, "river") } limit 20'
    before, commit = list(graph.query(text).tuples()), graph.snapshot().commit_id
    graph.branches.create("side")
    graph.mutate('query q() { update Doc set { text: "river river sea" } where even = true }', branch="side")
    graph.mutate("query q() { delete Doc where key < 10 }")
    assert list(graph.query(text, at=commit).tuples()) == before
    assert list(graph.query(text).tuples()) != before
    assert ask(graph, text, branch="side")[0][0] == 0


@pytest.mark.parametrize("vector", [[0, 0, 0, 0], [1, 2, 3], [1, float("nan"), 0, 0], [1e300, 0, 0, 0], None])
def test_a_vector_that_is_none_is_refused(tmp_path: Path, vector: list[float] | None) -> None:
    graph = library(tmp_path, documents(3))
    text = "query q($v: Vector(4)?) { match { $d: Doc } return { $d } order { nearest($d.vec, $v) } limit 1 }"
    with pytest.raises(InvalidInput) as refused:
        graph.query(text, params={"v": vector})
    assert refused.value.kind is Kind.INVALID_ARGUMENT
