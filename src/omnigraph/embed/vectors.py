"""An embedder and texts -> checked unit vectors; and the deterministic embedder for tests."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, Kind
from omnigraph.grid import counted

Vectors = npt.NDArray[np.float32]
"""One vector per row."""

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1


class Purpose(StrEnum):
    """What a text is embedded for. Some models embed a question and a document differently."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Turns texts into vectors. It is called from many threads."""

    @property
    def model(self) -> str:
        """The name that `@embed(..., model="m")` records."""
        ...

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> object:
        """Return one vector of `dimension` numbers per text, in the order of the texts. They need not be normalised."""
        ...


def embed_texts(embedder: Embedder, texts: Sequence[str], dimension: int, purpose: Purpose) -> Vectors:
    """Embed texts. Every vector is finite, has the right dimension and the length 1, or EmbeddingError is raised."""
    if not texts:
        return np.zeros((0, dimension), np.float32)
    given = embedder.embed(texts, dimension, purpose)
    try:
        wide = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise _invalid(embedder, "its vectors are not lists of numbers of one length") from None
    if wide.ndim != 2 or len(wide) != len(texts):
        raise _invalid(embedder, f"{counted(len(texts), 'text')} must become as many vectors, and the answer has the shape {wide.shape}")
    if wide.shape[1] != dimension:
        raise _invalid(embedder, f"a vector of {counted(dimension, 'number')} is needed, and it gives {wide.shape[1]}", dimension=dimension)
    if not np.isfinite(wide).all():
        raise _invalid(embedder, "a vector has a number that is not finite")
    scale = np.abs(wide).max(axis=1, keepdims=True)
    if not scale.all():
        raise _invalid(embedder, "a vector is all zeros")
    scaled = wide / scale  # first, because the squares of large or small numbers leave the range of doubles
    vectors: Vectors = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def _invalid(embedder: Embedder, message: str, **facts: object) -> EmbeddingError:
    return EmbeddingError(
        Kind.EMBEDDING_INVALID, f"the answer of embedding model '{embedder.model}' cannot be used: {message}", model=embedder.model, **facts
    )


class MockEmbedder:
    """Vectors from a hash of the text: equal texts have equal vectors, and nothing else is meant. For tests."""

    def __init__(self, model: str = "") -> None:
        self.model: Final = model

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> object:
        return [_mock_vector(text, dimension) for text in texts]


def _mock_vector(text: str, dimension: int) -> list[float]:
    """FNV-1a of the text, then one step of xorshift64 (13, 7, 17) for each number."""
    seed = _FNV_OFFSET
    for byte in text.encode():
        seed = (seed ^ byte) * _FNV_PRIME & _MASK
    numbers = []
    for _ in range(dimension):
        seed ^= seed << 13 & _MASK
        seed ^= seed >> 7
        seed ^= seed << 17 & _MASK
        numbers.append(float(np.float32(2 * (seed / _MASK) - 1)))
    return numbers
