"""The model that runs in this process, where its package is installed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from omnigraph.embed import EmbeddingProvider, Purpose, Vectors, embed_texts, embedder_of
from omnigraph.errors import EmbeddingError, InvalidInput, Kind

INSTALLED = find_spec("wordllama") is not None
needs_model = pytest.mark.skipif(not INSTALLED, reason="the extra `local` is not installed")


def embed(texts: list[str], dimension: int) -> Vectors:
    return embed_texts(embedder_of(EmbeddingProvider(kind="local"), {}), texts, dimension, Purpose.DOCUMENT)


@pytest.mark.skipif(INSTALLED, reason="the extra `local` is installed")
def test_without_its_package_the_message_says_how_to_get_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        embed(["a"], 64)
    assert caught.value.kind is Kind.EMBEDDING_CONFIGURATION
    assert "pip install 'omnigraph[local]'" in caught.value.message


@needs_model
@pytest.mark.parametrize("dimension", [64, 128, 256])
def test_texts_of_one_meaning_are_near(dimension: int) -> None:
    pairs = ["a man is eating food", "someone has a meal", "the stock market fell", "shares dropped on Wall Street"]
    near = embed(pairs, dimension)
    likeness = near @ near.T
    assert likeness[0, 1] > likeness[0, 2:].max()
    assert likeness[2, 3] > likeness[2, :2].max()


@needs_model
def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    texts = ["short", "a much longer text " * 500, "日本語", "🙂", "\x00"]
    np.testing.assert_array_equal(embed(texts, 256), np.concatenate([embed([text], 256) for text in texts]))


@needs_model
def test_vectors_are_not_made_longer() -> None:
    with pytest.raises(EmbeddingError) as caught:
        embed(["a"], 257)
    assert caught.value.kind is Kind.EMBEDDING_INVALID
    assert "at most 256" in caught.value.message
