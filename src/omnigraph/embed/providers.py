"""Settings, from arguments or the environment -> an embedder: one of the providers.

Each provider is imported when it is asked for: an HTTP client takes longer to import than most queries run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

import msgspec

from omnigraph.embed.vectors import Embedder, MockEmbedder
from omnigraph.errors import InvalidInput, Kind, redacted

log = logging.getLogger(__name__)

PROVIDER: Final = "OMNIGRAPH_EMBED_PROVIDER"
BASE_URL: Final = "OMNIGRAPH_EMBED_BASE_URL"
MODEL: Final = "OMNIGRAPH_EMBED_MODEL"
MOCK: Final = "OMNIGRAPH_EMBEDDINGS_MOCK"
TIMEOUT: Final = "OMNIGRAPH_EMBED_TIMEOUT_MS"
DEADLINE: Final = "OMNIGRAPH_EMBED_DEADLINE_MS"
ATTEMPTS: Final = "OMNIGRAPH_EMBED_RETRY_ATTEMPTS"
BACKOFF: Final = "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS"

_PRINTABLE: Final = re.compile(r"[!-~]+", re.ASCII)
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


class ProviderKind(StrEnum):
    """The providers."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    LOCAL = "local"
    MOCK = "mock"


class _Defaults(NamedTuple):
    """What a provider uses if nothing else is said: its address, its model, and the variables that may hold its key."""

    base_url: str
    model: str
    keys: tuple[str, ...]


_DEFAULTS: Final = {
    ProviderKind.OPENAI_COMPATIBLE: _Defaults(
        "https://openrouter.ai/api/v1", "openai/text-embedding-3-large", ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
    ),
    ProviderKind.OPENAI: _Defaults("https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)),
    ProviderKind.GEMINI: _Defaults("https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", ("GEMINI_API_KEY",)),
}


class EmbeddingProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a provider. What is None has the default of its kind; a key is then read from the environment."""

    kind: str = ProviderKind.OPENAI_COMPATIBLE
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None
    timeout_seconds: float = 30.0
    """The limit of one attempt of a request."""
    deadline_seconds: float | None = 60.0
    """The limit of a request with all its attempts. None is no limit."""
    attempts: int = 4
    backoff_seconds: float = 0.2
    """The wait before the second attempt. It doubles each time."""

    def __repr__(self) -> str:
        url = None if self.base_url is None else redacted(self.base_url)
        return f"EmbeddingProvider(kind={self.kind!r}, base_url={url!r}, model={self.model!r})"


def provider_from_environment(environment: Mapping[str, str]) -> EmbeddingProvider | None:
    """The provider that the environment asks for, or None. A key alone asks for none: data is sent only where someone said so."""
    kind, base_url, model = (environment.get(name) or None for name in (PROVIDER, BASE_URL, MODEL))
    if environment.get(MOCK, "").strip().lower() not in _FALSE:
        if (kind or base_url) and kind != ProviderKind.MOCK:
            log.warning("%s is set, so texts are embedded by `mock`, not by the provider that is configured", MOCK)
        return EmbeddingProvider(kind=ProviderKind.MOCK, model=model)
    if kind is None and base_url is None and model is None:
        return None
    return EmbeddingProvider(
        kind=kind or ProviderKind.OPENAI_COMPATIBLE,
        base_url=base_url,
        model=model,
        timeout_seconds=_number(environment, TIMEOUT, 30_000, least=1) / 1000,
        deadline_seconds=_number(environment, DEADLINE, 60_000, least=0) / 1000 or None,
        attempts=_number(environment, ATTEMPTS, 4, least=1),
        backoff_seconds=_number(environment, BACKOFF, 200, least=0) / 1000,
    )


def embedder_of(provider: EmbeddingProvider, environment: Mapping[str, str]) -> Embedder:
    """The embedder with these settings. Nothing is sent yet."""
    try:
        kind = ProviderKind(provider.kind)
    except ValueError:
        known = ", ".join(ProviderKind)
        raise _configuration(f"unknown embedding provider '{provider.kind}'; the providers are {known}", provider=provider.kind) from None
    match kind:
        case ProviderKind.MOCK:
            return MockEmbedder(provider.model or environment.get(MODEL, ""))
        case ProviderKind.LOCAL:
            from omnigraph.embed.local import LocalEmbedder

            return LocalEmbedder()
        case ProviderKind.OPENAI | ProviderKind.OPENAI_COMPATIBLE | ProviderKind.GEMINI:
            return _hosted(kind, provider, environment)
        case _:
            assert_never(kind)


def _hosted(kind: ProviderKind, provider: EmbeddingProvider, environment: Mapping[str, str]) -> Embedder:
    from omnigraph.embed.hosted import Gemini, HostedEmbedder, OpenAi
    from omnigraph.embed.wire import Limits

    defaults = _DEFAULTS[kind]
    model = provider.model if provider.model is not None else defaults.model
    base_url = _checked_url(provider.base_url if provider.base_url is not None else defaults.base_url)
    key = _checked_key(provider.api_key, kind, environment, needed=kind is not ProviderKind.OPENAI_COMPATIBLE or provider.base_url is None)
    limits = Limits(provider.timeout_seconds, provider.deadline_seconds, provider.attempts, provider.backoff_seconds)
    api = Gemini(base_url, model, key) if kind is ProviderKind.GEMINI else OpenAi(base_url, model, key)
    return HostedEmbedder(api, model, limits)


def portable_provider(choice: Embedder | EmbeddingProvider | None, environment: Mapping[str, str]) -> EmbeddingProvider | None:
    """The settings of the embedder that `resolve_embedder` gives, complete, so that they mean the same in another environment.

    None without a provider, and for an embedder that is an object of this process.
    """
    provider = provider_from_environment(environment) if choice is None else choice
    if not isinstance(provider, EmbeddingProvider):
        return None
    embedder = embedder_of(provider, environment)  # refuses wrong settings
    names = _DEFAULTS[ProviderKind(provider.kind)].keys if ProviderKind(provider.kind) in _DEFAULTS else ()
    key = provider.api_key if provider.api_key is not None else next((environment[name] for name in names if environment.get(name)), None)
    return msgspec.structs.replace(provider, model=embedder.model, api_key=key)


def resolve_embedder(choice: Embedder | EmbeddingProvider | None, environment: Mapping[str, str]) -> Embedder | None:
    """The embedder of an open graph: its own, one with given settings, or the one that the environment asks for, if any."""
    if choice is not None and not isinstance(choice, EmbeddingProvider):
        return choice
    provider = choice if choice is not None else provider_from_environment(environment)
    return None if provider is None else embedder_of(provider, environment)


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > len(str(2**53)) or int(text) < least:
        raise _configuration(f"{name} must be a whole number, {least} or more, not '{text[:40]}'", variable=name)
    return int(text)


def _checked_url(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or _PRINTABLE.fullmatch(url) is None:
        raise _configuration(f"the base URL of an embedding provider must begin with http:// or https://, not '{redacted(url)}'")
    return url.rstrip("/")


def _checked_key(given: str | None, kind: ProviderKind, environment: Mapping[str, str], *, needed: bool) -> str | None:
    """The key of a provider. Messages name the variable, never the key."""
    names = _DEFAULTS[kind].keys
    name, key = next(((name, environment[name]) for name in names if environment.get(name)), ("api_key", None))
    if given is not None:
        name, key = "api_key", given
    if key is None:
        if not needed:  # a server in one's own network may need none
            return None
        raise _configuration(f"the embedding provider '{kind}' needs a key; set {' or '.join(names)}", provider=kind.value)
    if _PRINTABLE.fullmatch(key.strip()) is None:
        raise _configuration(f"the key of the embedding provider '{kind}' ({name}) has characters that no key has", provider=kind.value)
    return key.strip()


def _configuration(message: str, **facts: object) -> InvalidInput:
    return InvalidInput(Kind.EMBEDDING_CONFIGURATION, message, **facts)
