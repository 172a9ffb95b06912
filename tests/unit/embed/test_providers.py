"""Providers of vectors, against a real server: requests as they are sent, answers as they are checked, failures as they are told."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator

import numpy as np
import pytest

from omnigraph.embed import EmbeddingProvider, Purpose, Vectors, embed_texts, embedder_of, provider_from_environment
from omnigraph.embed.hosted import BATCH_BYTES, BATCH_TEXTS
from omnigraph.errors import EmbeddingError, InvalidInput, Kind, OmniGraphError
from tests.embedding_server import EmbeddingServer, Reply, answer, embedding_server, failing, saying, vector

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as made:
        yield made


def provider(server: EmbeddingServer, **more: object) -> EmbeddingProvider:
    settings: dict[str, object] = {"kind": "openai-compatible", "model": "m", "api_key": KEY, "backoff_seconds": 0.01, **more}
    return EmbeddingProvider(base_url=server.url, **settings)  # type: ignore[arg-type]  # names and types are those of the struct


def embed(made: EmbeddingProvider, texts: list[str], dimension: int = 3, purpose: Purpose = Purpose.DOCUMENT) -> Vectors:
    return embed_texts(embedder_of(made, {}), texts, dimension, purpose)


def failure(made: EmbeddingProvider, texts: list[str] | None = None) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        embed(made, texts or ["a"])
    assert KEY not in "".join([str(caught.value), repr(caught.value.facts), repr(caught.value.__context__), repr(made)])
    return caught.value


def unit(text: str) -> list[float]:
    raw = vector(text, 3)
    return [number / math.hypot(*raw) for number in raw]


# -- the wire


def test_openai_style_sends_texts_with_a_bearer_key_and_reads_vectors_by_index(server: EmbeddingServer) -> None:
    got = embed(provider(server), ["one", "two"])
    (sent,) = server.sent
    assert (sent.path, sent.headers["authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert sent.body == {"model": "m", "input": ["one", "two"], "dimensions": 3}
    np.testing.assert_allclose(got, [unit("one"), unit("two")], rtol=1e-6)
    assert got.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(("purpose", "task"), [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")])
def test_gemini_sends_one_text_a_request_and_says_what_it_is_for(server: EmbeddingServer, purpose: Purpose, task: str) -> None:
    got = embed(provider(server, kind="gemini", model="gemini-embedding-2"), ["one", "two"], purpose=purpose)
    np.testing.assert_allclose(got, [unit("one"), unit("two")], rtol=1e-6)
    assert sorted(server.texts) == ["one", "two"]
    for sent in server.sent:
        assert (sent.path, sent.headers["x-goog-api-key"]) == ("/v1/models/gemini-embedding-2:embedContent", KEY)
        assert "authorization" not in sent.headers
        assert (sent.body["model"], sent.body["taskType"], sent.body["outputDimensionality"]) == ("models/gemini-embedding-2", task, 3)


def test_many_texts_are_sent_in_requests_of_limited_size_and_come_back_in_order(server: EmbeddingServer) -> None:
    texts = [f"text {number}" for number in range(2 * BATCH_TEXTS + 5)]
    got = embed(provider(server), texts)
    assert sorted(len(sent.texts) for sent in server.sent) == [5, BATCH_TEXTS, BATCH_TEXTS]
    np.testing.assert_allclose(got, [unit(text) for text in texts], rtol=1e-5)


def test_long_texts_share_no_request(server: EmbeddingServer) -> None:
    texts = ["a" * (BATCH_BYTES // 2 + 1), "b" * (BATCH_BYTES // 2 + 1), "c" * 2 * BATCH_BYTES, "d"]
    assert len(embed(provider(server), texts)) == 4
    assert sorted(len(sent.texts) for sent in server.sent) == [1, 1, 1, 1]


def test_no_text_sends_nothing(server: EmbeddingServer) -> None:
    assert embed(provider(server), []).shape == (0, 3)
    assert server.sent == []


def test_a_server_of_ones_own_needs_no_key(server: EmbeddingServer) -> None:
    embed(provider(server, api_key=None), ["a"])
    assert "authorization" not in server.sent[0].headers


# -- failures


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_provider_is_asked_again(server: EmbeddingServer, status: int) -> None:
    server.script = [failing(status), failing(status)]
    np.testing.assert_allclose(embed(provider(server), ["a"]), [unit("a")], rtol=1e-6)
    assert len(server.sent) == 3


def test_a_provider_that_stays_busy_is_given_up(server: EmbeddingServer) -> None:
    server.otherwise = failing(503, "come back later")
    error = failure(provider(server, attempts=3))
    assert (error.kind, error.facts["status"], error.facts["attempts"], len(server.sent)) == (Kind.EMBEDDING_UNAVAILABLE, 503, 3, 3)
    assert "status 503: come back later (3 attempts)" in error.message


def test_the_wait_that_a_provider_asks_for_is_kept(server: EmbeddingServer) -> None:
    server.script = [failing(429, Retry_After="1")]
    began = time.monotonic()
    embed(provider(server), ["a"])
    assert time.monotonic() - began >= 1


def test_a_wait_beyond_the_deadline_is_not_begun(server: EmbeddingServer) -> None:
    server.otherwise = failing(429, Retry_After="3600")
    began = time.monotonic()
    error = failure(provider(server, deadline_seconds=5.0))
    assert (error.kind, error.facts["attempts"]) == (Kind.EMBEDDING_UNAVAILABLE, 1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refused_request_is_not_repeated(server: EmbeddingServer, status: int) -> None:
    server.otherwise = failing(status, f"the key {KEY} may not do this")
    error = failure(provider(server))
    assert (error.kind, error.facts["status"], len(server.sent)) == (Kind.EMBEDDING_REFUSED, status, 1)


def test_a_redirect_is_not_followed(server: EmbeddingServer) -> None:
    """The key would go with it."""
    with embedding_server() as other:
        server.otherwise = lambda _: Reply(307, {}, {"Location": f"{other.url}/embeddings"})
        assert failure(provider(server)).facts["status"] == 307
        assert other.sent == []


def test_a_slow_answer_is_given_up(server: EmbeddingServer) -> None:
    server.otherwise = lambda sent: answer(sent)._replace(delay_seconds=3)
    began = time.monotonic()
    error = failure(provider(server, timeout_seconds=0.2, attempts=2))
    assert (error.kind, error.facts["attempts"]) == (Kind.EMBEDDING_UNAVAILABLE, 2)
    assert time.monotonic() - began < 3


def test_an_answer_that_trickles_is_given_up(server: EmbeddingServer) -> None:
    server.otherwise = lambda sent: answer(sent)._replace(drip_seconds=0.05)
    error = failure(provider(server, timeout_seconds=0.3, attempts=1))
    assert error.kind is Kind.EMBEDDING_UNAVAILABLE


def test_an_answer_that_is_cut_off_is_asked_for_again(server: EmbeddingServer) -> None:
    server.script = [lambda sent: answer(sent)._replace(headers={"Content-Length": "100000"})]
    embed(provider(server), ["a"])
    assert len(server.sent) == 2


def test_no_connection_is_told(server: EmbeddingServer) -> None:
    error = failure(EmbeddingProvider(base_url="http://127.0.0.1:9/v1", model="m", api_key=KEY, attempts=2, backoff_seconds=0.01))
    assert (error.kind, error.facts["attempts"]) == (Kind.EMBEDDING_UNAVAILABLE, 2)


def test_one_failing_request_of_many_ends_the_call(server: EmbeddingServer) -> None:
    server.otherwise = lambda sent: failing(400)(sent) if "text 0" in sent.texts else answer(sent)
    texts = [f"text {number}" for number in range(40 * BATCH_TEXTS)]
    assert failure(provider(server), texts).kind is Kind.EMBEDDING_REFUSED
    assert len(server.sent) < 40


# -- answers that cannot be used


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"index": 0, "embedding": [1, 2]}]},
        {"data": [{"index": 0, "embedding": [1, 2, 3, 4]}]},
        {"data": [{"index": 0, "embedding": [0, 0, 0]}]},
        {"data": [{"index": 0, "embedding": [float("nan"), 0, 0]}]},
        {"data": [{"index": 0, "embedding": [1e999, 0, 0]}]},
        {"data": [{"index": 0, "embedding": ["1", "2", "3"]}]},
        {"data": [{"index": 0, "embedding": None}]},
        {"data": [{"index": 1, "embedding": [1, 2, 3]}]},
        {"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]},
        {"data": []},
        {"error": "none"},
        [1, 2, 3],
        b"",
        b"<html>not this one</html>",
        b"\xff\xfe",
    ],
)
def test_an_answer_that_is_not_the_vectors_is_refused_and_not_asked_for_again(server: EmbeddingServer, body: object) -> None:
    server.otherwise = saying(body)
    assert failure(provider(server)).kind is Kind.EMBEDDING_INVALID
    assert len(server.sent) == 1


def test_an_endless_answer_is_refused(server: EmbeddingServer) -> None:
    server.otherwise = saying(b" " * (4 << 20))
    assert failure(provider(server)).kind is Kind.EMBEDDING_REFUSED


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_vectors_of_any_length_are_normalised(server: EmbeddingServer, scale: float) -> None:
    server.otherwise = saying({"data": [{"index": 0, "embedding": [3 * scale, 4 * scale, 0]}]})
    np.testing.assert_allclose(embed(provider(server), ["a"]), [[0.6, 0.8, 0]], rtol=1e-6)


# -- settings


def test_mock_follows_the_published_algorithm() -> None:
    """FNV-1a, xorshift64 and normalisation, computed here by numpy's own integers."""
    seed = np.uint64(0xCBF29CE484222325)
    with np.errstate(over="ignore"):
        for byte in "naïve".encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        numbers = []
        for _ in range(4):
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            numbers.append(np.float32(2 * (int(seed) / (2**64 - 1)) - 1))
    expected = np.array(numbers, np.float64)
    got = embed_texts(embedder_of(EmbeddingProvider(kind="mock"), {}), ["naïve", "naïve", "other"], 4, Purpose.QUERY)
    np.testing.assert_allclose(got[0], expected / np.linalg.norm(expected), rtol=1e-6)
    assert (got[0] == got[1]).all()
    assert (got[0] != got[2]).any()


def test_the_environment_names_the_provider() -> None:
    assert provider_from_environment({"OPENAI_API_KEY": KEY}) is None  # a key alone sends nothing anywhere
    made = provider_from_environment(
        {
            "OMNIGRAPH_EMBED_PROVIDER": "openai",
            "OMNIGRAPH_EMBED_BASE_URL": "http://here/v1/",
            "OMNIGRAPH_EMBED_MODEL": "small",
            "OMNIGRAPH_EMBED_TIMEOUT_MS": "1500",
            "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "2",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "10",
        }
    )
    assert made == EmbeddingProvider(
        kind="openai",
        base_url="http://here/v1/",
        model="small",
        timeout_seconds=1.5,
        deadline_seconds=None,
        attempts=2,
        backoff_seconds=0.01,
    )


@pytest.mark.parametrize(
    ("kind", "model", "variable"),
    [
        ("openai-compatible", "openai/text-embedding-3-large", "OPENROUTER_API_KEY"),
        ("openai-compatible", "openai/text-embedding-3-large", "OPENAI_API_KEY"),
        ("openai", "text-embedding-3-large", "OPENAI_API_KEY"),
        ("gemini", "gemini-embedding-2", "GEMINI_API_KEY"),
    ],
)
def test_each_provider_has_its_model_and_its_key(kind: str, model: str, variable: str) -> None:
    made = provider_from_environment({"OMNIGRAPH_EMBED_PROVIDER": kind})
    assert made is not None
    assert embedder_of(made, {variable: KEY}).model == model
    with pytest.raises(InvalidInput) as caught:
        embedder_of(made, {})
    assert caught.value.kind is Kind.EMBEDDING_CONFIGURATION
    assert variable in caught.value.message


def test_mock_can_be_forced_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = provider_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_MODEL": "m"})
        assert made == EmbeddingProvider(kind="mock", model="m")
        assert not caplog.records
        forced = provider_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "true", "OMNIGRAPH_EMBED_PROVIDER": "openai"})
    assert forced == EmbeddingProvider(kind="mock")
    assert "mock" in caplog.text
    assert provider_from_environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "0"}) is None


@pytest.mark.parametrize(
    ("environment", "part"),
    [
        ({"OMNIGRAPH_EMBED_PROVIDER": "cohere"}, "the providers are openai-compatible, openai, gemini, local, mock"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "ftp://here"}, "http:// or https://"),
        ({"OMNIGRAPH_EMBED_BASE_URL": f"ftp://user:{KEY}@here"}, "***@here"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://here:port"}, "http:// or https://"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://here/ünï"}, "http:// or https://"),
        ({"OMNIGRAPH_EMBED_BASE_URL": "http://here/v1\n"}, "http:// or https://"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENAI_API_KEY": f"{KEY}\nX-Other: 1"}, "OPENAI_API_KEY"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENAI_API_KEY": f"{KEY}ü"}, "OPENAI_API_KEY"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_TIMEOUT_MS": "soon"}, "OMNIGRAPH_EMBED_TIMEOUT_MS"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_TIMEOUT_MS": "0"}, "1 or more"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "-1"}, "1 or more"),
    ],
)
def test_a_wrong_setting_is_refused_without_its_secret(environment: dict[str, str], part: str) -> None:
    def used() -> None:
        made = provider_from_environment(environment)
        assert made is not None
        embedder_of(made, environment)

    with pytest.raises(OmniGraphError) as caught:
        used()
    assert caught.value.kind is Kind.EMBEDDING_CONFIGURATION
    assert part in caught.value.message
    assert KEY not in caught.value.message + repr(caught.value.facts)
