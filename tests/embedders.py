"""An embedder for tests: vectors by the letters of a text, and a record of what was asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from omnigraph.embed import Purpose


class Recording:
    """Remembers every text, and calls `before` before each answer."""

    def __init__(self, model: str = "m", before: Callable[[], object] = lambda: None) -> None:
        self.model = model
        self.before = before
        self.calls: list[tuple[list[str], int, Purpose]] = []

    @property
    def texts(self) -> list[str]:
        return sorted(text for texts, _, _ in self.calls for text in texts)

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> object:
        self.calls.append((list(texts), dimension, purpose))
        self.before()
        return [raw(text, dimension) for text in texts]


def raw(text: str, dimension: int) -> list[float]:
    return [float(number) for number in np.random.default_rng(zlib.crc32(text.encode())).normal(size=dimension)]


def unit(text: str | None, dimension: int) -> list[float] | None:
    """The vector that the graph stores for a text."""
    if text is None:
        return None
    given = np.array(raw(text, dimension))
    return [float(number) for number in (given / np.linalg.norm(given)).astype(np.float32)]
