"""The counts of words that a full-text index gives away: exactly those of the texts, or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.postings import MOST_COUNT, Postings
from omnigraph.exec.read.rows import BATCH
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store.words import Words, spelled_words, words_of
from tests.mutations import run
from tests.reads import graph_of, load

SCHEMA = "node Doc { key: I64 @key  text: String? @index }"
WORDS = ("universal", "universe", "running", "runs", "naïve", "Ebbing", "tide", "the", "sea", "日本語", "generously", "generalizations")


def texts(count: int, *, seed: int, longest: int = 40) -> list[str | None]:
    """Some are null, some have no word, and a few words are far more frequent than others."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(WORDS) + 1) ** 2
    return [
        None if rng.random() < 0.05 else " ".join(rng.choice(WORDS, rng.integers(0, longest), p=weights / weights.sum()))
        for _ in range(count)
    ]


def records(column: list[str | None], *, first: int = 0) -> list[dict[str, object]]:
    return [{"type": "Doc", "data": {"key": first + at, "text": text}} for at, text in enumerate(column)]


def entities_of(graph: Graph) -> Entities:
    snapshot = graph.engine.snapshot(BranchName("main"))
    doc = graph.engine.catalog(snapshot).node("Doc")
    assert doc is not None
    return graph.engine.view(snapshot).entities(doc)


def postings_of(graph: Graph) -> Postings | None:
    return entities_of(graph).postings("text", check=lambda: None)


def agree(graph: Graph) -> None:
    """What the index says of every word is what the texts say."""
    entities, postings = entities_of(graph), postings_of(graph)
    assert postings is not None
    parts = list(entities.each(("text",), check=lambda: None, batch_rows=BATCH))
    numbers = np.concatenate([part for part, _ in parts])
    words = Words(pa.concat_arrays([batch.column(0) for _, batch in parts]))
    assert postings.totals == words.total
    for spelled in (*WORDS, "nowhere"):
        for word in words_of(spelled):
            hits = postings.of(word, spelled)
            assert hits is not None
            order = np.argsort(hits.numbers)
            at, counts = words.hits(word)
            assert hits.numbers[order].tolist() == numbers[at].tolist()
            assert hits.counts[order].tolist() == counts.tolist()
            assert hits.lengths[order].tolist() == words.lengths[at].tolist()
            assert postings.of(word, spelled) is hits, "kept"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = graph_of(tmp_path, *records(texts(5_000, seed=1)), schema=SCHEMA)
    made.ensure_indices()
    return made


def test_counts_are_those_of_the_texts(graph: Graph) -> None:
    """X-09: with full coverage, with rows outside of it, and with an index of several parts."""
    agree(graph)
    load(graph, *records(texts(100, seed=2), first=5_000))
    agree(graph)
    graph.ensure_indices()
    agree(graph)


def test_an_index_that_counts_deleted_texts_says_nothing(graph: Graph) -> None:
    """Its scores are those of a table that is no more."""
    run(graph, "delete Doc where key = 7")
    assert postings_of(graph) is None


def test_texts_outside_of_the_coverage_may_not_be_many(graph: Graph) -> None:
    load(graph, *records(texts(1_000, seed=2), first=5_000))
    assert postings_of(graph) is None


def test_a_word_that_is_too_frequent_in_a_text_is_not_told(tmp_path: Path) -> None:
    """Scores of single precision do not tell so many occurrences apart."""
    column = texts(5_000, seed=4)
    column[17] = "tide " * (MOST_COUNT + 1)
    column[18] = "sea " * (MOST_COUNT - 1)
    graph = graph_of(tmp_path, *records(column), schema=SCHEMA)
    graph.ensure_indices()
    postings = postings_of(graph)
    assert postings is not None
    assert postings.of("tide", "tide") is None
    hits = postings.of("sea", "sea")
    assert hits is not None
    assert hits.counts.max() >= MOST_COUNT - 1


def test_a_word_is_asked_for_as_it_is_spelled() -> None:
    """A word without its ending may lose another one: only the spelling finds the texts that have it."""
    assert spelled_words("Generously, the GENERALIZATIONS generous naïve") == {
        "generous": "generously",
        "general": "generalizations",
        "naiv": "naive",
    }
    for text in WORDS:
        for word, spelled in spelled_words(text).items():
            assert words_of(spelled) == [word]
