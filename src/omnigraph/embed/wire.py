"""A JSON request and its limits -> the bytes of the answer, after retries; or an error without any secret.

The standard library's client is enough: a request carries a hundred texts and takes a good part of a second, so that a connection of
its own costs little. Redirects are not followed: the client would send the key along.
"""

from __future__ import annotations

import email.utils
import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Final

import msgspec

from omnigraph.errors import EmbeddingError, Kind, redacted

_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_READ_BYTES: Final = 1 << 16
_SHOWN: Final = 300
"""Characters of a provider's own message that an error repeats."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of one request: of each attempt, of all attempts together (None: no limit), their number, and the first wait between
    two, which doubles each time.
    """

    timeout_seconds: float
    deadline_seconds: float | None
    attempts: int
    backoff_seconds: float


class JsonRequest(msgspec.Struct, frozen=True):
    """A POST. `secret` is never shown: it is removed from every message."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    answer_bytes: int
    """A longer answer is refused."""
    secret: str | None = None

    def __repr__(self) -> str:
        return f"JsonRequest({redacted(self.url)!r})"


class _Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed, and whether another may succeed."""

    message: str
    again: bool
    status: int | None = None
    wait_seconds: float = 0.0
    """How long the provider asks to wait."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def post(request: JsonRequest, limits: Limits, *, stop: threading.Event) -> bytes:
    """Send a request until it succeeds, fails for good or reaches its limits. A set `stop` ends the waiting."""
    ends = None if limits.deadline_seconds is None else time.monotonic() + limits.deadline_seconds
    backoff = limits.backoff_seconds
    for attempt in range(1, limits.attempts + 1):
        left = limits.timeout_seconds if ends is None else min(limits.timeout_seconds, ends - time.monotonic())
        result = _attempt(request, left)
        if isinstance(result, bytes):
            return result
        wait = max(backoff, result.wait_seconds)
        late = ends is not None and time.monotonic() + wait >= ends
        if not result.again or attempt == limits.attempts or late or stop.wait(wait):
            raise _error(request, result, attempt)
        backoff *= 2
    raise AssertionError("the last attempt returns or raises")


def _attempt(request: JsonRequest, timeout_seconds: float) -> bytes | _Failure:
    ends = time.monotonic() + timeout_seconds
    opener = urllib.request.build_opener(_NoRedirects)
    sent = urllib.request.Request(request.url, request.body, {"Content-Type": "application/json", **request.headers}, method="POST")
    try:
        with opener.open(sent, timeout=max(timeout_seconds, 0.001)) as answer:
            return _read(answer, request.answer_bytes, ends)
    except urllib.error.HTTPError as error:
        with error:
            return _refused(request, error)
    except TimeoutError:
        return _Failure(f"no answer within {timeout_seconds:.3g} s", again=True)
    except urllib.error.URLError as error:
        timed_out = isinstance(error.reason, TimeoutError)
        return _Failure(f"no answer within {timeout_seconds:.3g} s" if timed_out else f"no connection: {error.reason}", again=True)
    except (OSError, http.client.HTTPException) as error:
        return _Failure(f"the connection broke: {type(error).__name__}", again=True)


def _read(answer: IO[bytes], most: int, ends: float) -> bytes | _Failure:
    """The body, part by part: the timeout of a socket is about each part only."""
    parts, size = [], 0
    while part := answer.read1(_READ_BYTES):  # type: ignore[attr-defined]  # of HTTPResponse
        parts.append(part)
        size += len(part)
        if size > most:
            return _Failure(f"the answer is longer than {most:,} bytes", again=False)
        if time.monotonic() > ends:
            raise TimeoutError
    expected = getattr(answer, "length", 0)  # what HTTPResponse still waits for
    return _Failure("the answer is cut off", again=True) if expected else b"".join(parts)


def _refused(request: JsonRequest, error: urllib.error.HTTPError) -> _Failure:
    said = "" if error.code in (401, 403) else _said(request, error)  # providers repeat parts of a wrong key
    message = f"status {error.code}{f': {said}' if said else ''}"
    again = error.code == _TOO_MANY or error.code >= _SERVER_ERROR
    return _Failure(message, again, error.code, _retry_after(error.headers.get("Retry-After")))


def _said(request: JsonRequest, error: urllib.error.HTTPError) -> str:
    """The provider's own message, without the key."""
    try:
        body = error.read(1 << 14)
    except (OSError, http.client.HTTPException):
        return ""
    try:
        match msgspec.json.decode(body):
            case {"error": {"message": str(said)}} | {"error": str(said)} | {"message": str(said)} | {"detail": str(said)}:
                text = said
            case _:
                return ""
    except msgspec.DecodeError:
        return ""
    clean = text if request.secret is None else text.replace(request.secret, "***")
    return redacted(" ".join(clean.split()))[:_SHOWN]


def _retry_after(text: str | None) -> float:
    """Seconds, from a number or a date. What is neither is no request to wait."""
    if text is None:
        return 0.0
    try:
        return (
            max(float(text), 0.0) if text.strip().isdigit() else max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
        )
    except ValueError:
        return 0.0


def _error(request: JsonRequest, failure: _Failure, attempts: int) -> EmbeddingError:
    tried = "" if attempts == 1 else f" ({attempts} attempts)"
    url = redacted(request.url.partition("?")[0])
    kind = Kind.EMBEDDING_UNAVAILABLE if failure.again else Kind.EMBEDDING_REFUSED
    status = {} if failure.status is None else {"status": failure.status}
    return EmbeddingError(kind, f"the embedding provider at {url} failed: {failure.message}{tried}", url=url, attempts=attempts, **status)
