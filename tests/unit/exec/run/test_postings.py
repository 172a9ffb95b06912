"""The counts of words that a full-text index tells by its lists, or gives away by its scores: exactly those of the texts, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.postings import MOST_COUNT, Postings
from omnigraph.exec.read.rows import BATCH
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store import word_lists
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
    asked = {word: spelled for spelled in (*WORDS, "nowhere") for word in words_of(spelled)}
    every = postings.of(asked)
    assert every is not None
    parts = list(entities.each(("text",), check=lambda: None, batch_rows=BATCH))
    numbers = np.concatenate([part for part, _ in parts])
    words = Words(pa.concat_arrays([batch.column(0) for _, batch in parts]))
    assert postings.totals == words.total
    for (word, spelled), hits in zip(asked.items(), every, strict=True):
        order = np.argsort(hits.numbers)
        at, counts = words.hits(word)
        assert hits.numbers[order].tolist() == numbers[at].tolist()
        assert hits.counts[order].tolist() == counts.tolist()
        assert hits.lengths[order].tolist() == words.lengths[at].tolist()
        again = postings.of({word: spelled})
        assert again is not None
        assert again[0] is hits, "kept"
    assert postings.searches(asked) == 0


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = graph_of(tmp_path, *records(texts(5_000, seed=1)), schema=SCHEMA)
    made.ensure_indices()
    return made


@pytest.fixture
def unknown_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the lists were of another version of Lance."""
    monkeypatch.setitem(word_lists._FORMAT, b"format_version", b"9")


def came_and_went(graph: Graph) -> None:
    """With full coverage, with rows outside of it, and with an index of several parts."""
    agree(graph)
    load(graph, *records(texts(100, seed=2), first=5_000))
    agree(graph)
    graph.ensure_indices()
    agree(graph)


def test_counts_are_those_of_the_texts(graph: Graph) -> None:
    """X-09: by the lists of the index, also after texts were deleted and changed."""
    came_and_went(graph)
    run(graph, "delete Doc where key < 40")
    agree(graph)
    run(graph, 'update Doc set { text: "tide universal tide" } where key in [50, 5050]')
    agree(graph)


@pytest.mark.usefixtures("unknown_format")
def test_counts_are_computed_from_scores_if_the_lists_are_of_an_unknown_format(graph: Graph) -> None:
    """X-09: each word is a search then, until it is in memory."""
    postings = postings_of(graph)
    assert postings is not None
    assert postings.searches({"tide": "tide", "sea": "sea"}) == 2
    came_and_went(graph)


@pytest.mark.usefixtures("unknown_format")
def test_scores_that_count_deleted_texts_say_nothing(graph: Graph) -> None:
    """They are those of a table that is no more."""
    run(graph, "delete Doc where key = 7")
    assert postings_of(graph) is None


def test_texts_outside_of_the_coverage_may_not_be_many(graph: Graph) -> None:
    load(graph, *records(texts(1_000, seed=2), first=5_000))
    assert postings_of(graph) is None


def frequent(tmp_path: Path) -> Postings:
    column = texts(5_000, seed=4)
    column[17] = "tide " * (MOST_COUNT + 1)
    column[18] = "sea " * (MOST_COUNT - 1)
    graph = graph_of(tmp_path, *records(column), schema=SCHEMA)
    graph.ensure_indices()
    postings = postings_of(graph)
    assert postings is not None
    return postings


@pytest.mark.usefixtures("unknown_format")
def test_a_word_that_is_too_frequent_in_a_text_is_not_told_by_scores(tmp_path: Path) -> None:
    """Scores of single precision do not tell so many occurrences apart."""
    postings = frequent(tmp_path)
    assert postings.of({"tide": "tide"}) is None
    hits = postings.of({"sea": "sea"})
    assert hits is not None
    assert hits[0].counts.max() >= MOST_COUNT - 1


def test_a_word_that_is_frequent_in_a_text_is_told_by_the_lists(tmp_path: Path) -> None:
    hits = frequent(tmp_path).of({"tide": "tide"})
    assert hits is not None
    assert hits[0].counts.max() == MOST_COUNT + 1


def test_lists_are_read_by_number_until_all_are_kept(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read by number costs about as much as all of them, at most; then no word needs another read."""
    monkeypatch.setattr(word_lists, "READ_BYTES", 4_000)
    taken: list[int] = []
    plain = LanceFileReader.take_rows

    def counted(reader: Any, rows: Any) -> Any:
        taken.append(len(rows))
        return plain(reader, rows)

    monkeypatch.setattr(LanceFileReader, "take_rows", counted)
    lists = entities_of(graph)._text_lengths("text", check=lambda: None)
    assert lists is not None
    assert lists.lists is not None
    size = lists.lists._parts[0]._nbytes
    for _ in range(2 * size // 4_000):
        first = lists.lists.of(["tide", "sea", "nowhere"])
        assert [len(each.texts) > 0 for each in first] == [True, True, False]
    assert taken == [2] * (size // 4_000)
    assert first[0].counts.tolist() == lists.lists.of(["tide"])[0].counts.tolist()


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
