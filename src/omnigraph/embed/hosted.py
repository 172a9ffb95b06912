"""Texts -> vectors of a provider behind HTTP; each kind of provider has its own requests and answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from omnigraph.embed.vectors import Purpose
from omnigraph.embed.wire import JsonRequest, Limits, post
from omnigraph.errors import EmbeddingError, Kind
from omnigraph.grid import counted

BATCH_TEXTS: Final = 128
BATCH_BYTES: Final = 256 << 10
"""How many bytes of text one request carries, about 64,000 tokens: providers limit both."""
PARALLEL: Final = 4
"""How many requests of one call are under way at once."""
_NUMBER_BYTES: Final = 40
"""More than any spelling of a number takes in an answer."""
_ANSWER_BYTES: Final = 1 << 20


class _Api(Protocol):
    """The requests and answers of one kind of provider."""

    @property
    def batch_texts(self) -> int:
        """How many texts one request may carry."""
        ...

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> JsonRequest: ...

    def vectors(self, body: bytes, count: int) -> list[list[float]]:
        """The vectors in the order of the texts. Raises msgspec.DecodeError or ValueError if the answer is not one."""
        ...


class HostedEmbedder:
    """A provider behind HTTP. Many texts are sent in several requests, a few at a time."""

    def __init__(self, api: _Api, model: str, limits: Limits) -> None:
        self.model: Final = model
        self._api: Final = api
        self._limits: Final = limits

    def embed(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> object:
        stop = threading.Event()

        def send(part: Sequence[str]) -> list[list[float]]:
            request = self._api.request(part, dimension, purpose)
            body = post(request, self._limits, stop=stop)
            try:
                return self._api.vectors(body, len(part))
            except (msgspec.DecodeError, ValueError):
                message = f"the answer of embedding model '{self.model}' is not one: it has no list of {counted(len(part), 'vector')}"
                raise EmbeddingError(Kind.EMBEDDING_INVALID, message, model=self.model) from None

        parts = list(_parts(texts, self._api.batch_texts))
        if len(parts) == 1:
            return send(parts[0])
        return [vector for vectors in _in_parallel(send, parts, stop) for vector in vectors]


def _parts(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """The texts in requests of limited size. A text that is too long alone is sent alone: only the provider can count its tokens."""
    start, size = 0, 0
    for at, text in enumerate(texts):
        length = len(text.encode())
        if at > start and (at - start >= most or size + length > BATCH_BYTES):
            yield texts[start:at]
            start, size = at, 0
        size += length
    yield texts[start:]


def _in_parallel(
    send: Callable[[Sequence[str]], list[list[float]]], parts: Sequence[Sequence[str]], stop: threading.Event
) -> list[list[list[float]]]:
    """The answers in order. After the first error nothing more is sent, and those under way are not awaited."""
    pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="omnigraph-embed")
    try:
        return list(pool.map(send, parts))
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)


class _OpenAiItem(msgspec.Struct, frozen=True):
    embedding: list[float]
    index: int = 0


class _OpenAiAnswer(msgspec.Struct, frozen=True):
    data: list[_OpenAiItem]


class OpenAi:
    """`POST {base}/embeddings`."""

    batch_texts: Final = BATCH_TEXTS

    def __init__(self, base_url: str, model: str, key: str | None) -> None:
        self._url: Final = f"{base_url}/embeddings"
        self._model: Final = model
        self._key: Final = key

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> JsonRequest:
        body = msgspec.json.encode({"model": self._model, "input": list(texts), "dimensions": dimension})
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        return JsonRequest(self._url, headers, body, _most_bytes(len(texts), dimension), self._key)

    def vectors(self, body: bytes, count: int) -> list[list[float]]:
        answer = msgspec.json.decode(body, type=_OpenAiAnswer)
        by_index = {item.index: item.embedding for item in answer.data}
        if len(answer.data) != count or by_index.keys() != set(range(count)):
            raise ValueError(count)
        return [by_index[place] for place in range(count)]


class _GeminiVector(msgspec.Struct, frozen=True):
    values: list[float]


class _GeminiAnswer(msgspec.Struct, frozen=True):
    embedding: _GeminiVector


class Gemini:
    """`POST {base}/models/{model}:embedContent`, one text a request."""

    batch_texts: Final = 1
    _TASKS: Final = {Purpose.QUERY: "RETRIEVAL_QUERY", Purpose.DOCUMENT: "RETRIEVAL_DOCUMENT"}

    def __init__(self, base_url: str, model: str, key: str | None) -> None:
        self._url: Final = f"{base_url}/models/{quote(model)}:embedContent"
        self._model: Final = model
        self._key: Final = key

    def request(self, texts: Sequence[str], dimension: int, purpose: Purpose) -> JsonRequest:
        (text,) = texts
        body = {
            "model": f"models/{self._model}",
            "content": {"parts": [{"text": text}]},
            "taskType": self._TASKS[purpose],
            "outputDimensionality": dimension,
        }
        headers = {} if self._key is None else {"x-goog-api-key": self._key}
        return JsonRequest(self._url, headers, msgspec.json.encode(body), _most_bytes(1, dimension), self._key)

    def vectors(self, body: bytes, count: int) -> list[list[float]]:
        return [msgspec.json.decode(body, type=_GeminiAnswer).embedding.values]


def _most_bytes(count: int, dimension: int) -> int:
    return _ANSWER_BYTES + count * dimension * _NUMBER_BYTES
