"""Words of texts: the same for a column as for each text by itself, and the same as an index has."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from lance.query import MatchQuery

from omnigraph.store.words import ANALYSER, Words, within_edits, words_of
from tests.harness.brute.text import distance

PIECES = ("run", "Running", "thief's", "naïve", "Ærø", "co-op", "x_1", "İstanbul", "ΣΑΣ", "ß", "日本語", "Ⓐ", "e\u0301", "the", "y" * 41)
GAPS = (" ", "  ", "\n", "\t", "\x0b", "\x1c", "\u00a0", "\u2003", "-", ", ")
TEXTS = st.lists(st.none() | st.lists(st.sampled_from((*PIECES, *GAPS)) | st.text(max_size=3), max_size=12).map("".join), max_size=8)
WORDS = st.text(alphabet="abcß日", max_size=6)


def test_a_text_is_split_folded_and_stemmed() -> None:
    assert words_of("The SPACES of thieves: naïve co-op!") == ["space", "thiev", "naiv", "co", "op"]


@given(TEXTS)
def test_a_column_has_the_words_of_its_texts(texts: list[str | None]) -> None:
    """A space ends a word, whatever stands around it: this is what splitting first relies on."""
    words = Words(pa.array(texts, pa.string()))
    alone = [words_of(text) if text is not None else [] for text in texts]
    assert words.lengths.tolist() == [len(found) for found in alone]
    assert set(words.vocabulary.to_pylist()) == {word for found in alone for word in found}
    for word in words.vocabulary.to_pylist():
        assert words.counts(words.among((word,))).tolist() == [found.count(word) for found in alone]


@given(st.lists(WORDS, max_size=12), WORDS, st.integers(0, 4))
def test_edits_are_counted_as_in_the_book(words: list[str], wanted: str, edits: int) -> None:
    found = within_edits(pa.array(words, pa.string()), wanted, edits)
    assert found.tolist() == [distance(word, wanted) <= edits for word in words]


def test_an_index_has_the_same_words(tmp_path: Path) -> None:
    """X-09: a scan and an index find the same texts for every word."""
    rng = np.random.default_rng(7)
    texts = ["".join(rng.choice((*PIECES, *GAPS), 9)) for _ in range(200)]
    table = lance.write_dataset(pa.table({"id": range(200), "text": texts}), str(tmp_path))
    table.create_scalar_index("text", "INVERTED", **ANALYSER)
    words = Words(pa.array(texts))
    for word in words.vocabulary.to_pylist():
        found = table.to_table(columns=["id", "_score"], full_text_query=MatchQuery(word, "text"), fast_search=True)
        if words_of(word) == [word]:  # a word that is one of its own forms
            assert sorted(found["id"].to_pylist()) == np.flatnonzero(words.counts(words.among((word,)))).tolist()


@given(TEXTS, st.sampled_from(("run", "thief", "naiv", "日本語", "no")))
def test_hits_are_the_counts_that_are_not_zero(texts: list[str | None], wanted: str) -> None:
    words = Words(pa.array(texts, pa.string()))
    found, counts = words.hits(wanted)
    everywhere = words.counts(words.among((wanted,)))
    assert found.tolist() == np.flatnonzero(everywhere).tolist()
    assert counts.tolist() == everywhere[found].tolist()
