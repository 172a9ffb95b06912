"""A real HTTP server that speaks the wire of embedding providers, and misbehaves on request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Sent(NamedTuple):
    """One request as the server got it."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"]) if "input" in self.body else [self.body["content"]["parts"][0]["text"]]


class Reply(NamedTuple):
    """One answer: `body` is JSON, or bytes that are sent as they are, `drip_seconds` apart if that is given."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    delay_seconds: float = 0.0
    drip_seconds: float = 0.0


Behaviour = Callable[[Sent], Reply]


class EmbeddingServer:
    """Answers each request by the next of `script`, and by `otherwise` when that is empty."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.script: list[Behaviour] = []
        self.otherwise: Behaviour = answer
        self.sent: list[Sent] = []
        self._lock = threading.Lock()

    @property
    def texts(self) -> list[str]:
        return [text for sent in self.sent for text in sent.texts]

    def reply(self, sent: Sent) -> Reply:
        with self._lock:
            self.sent.append(sent)
            behaviour = self.script.pop(0) if self.script else self.otherwise
        return behaviour(sent)


def vector(text: str, dimension: int) -> list[float]:
    """Not a unit vector, and another one for each text."""
    return [float(number) for number in np.random.default_rng(list(text.encode())).normal(size=dimension) * 3]


def answer(sent: Sent) -> Reply:
    """A good answer. The items of OpenAI's come in reverse, since the index counts."""
    if sent.path.endswith(":embedContent"):
        return Reply(body={"embedding": {"values": vector(sent.texts[0], sent.body["outputDimensionality"])}})
    dimension = sent.body["dimensions"]
    items = [{"index": place, "embedding": vector(text, dimension)} for place, text in enumerate(sent.texts)]
    return Reply(body={"object": "list", "data": items[::-1], "model": sent.body["model"]})


def failing(status: int, message: str = "out of order", **headers: str) -> Behaviour:
    return lambda _: Reply(status, {"error": {"message": message}}, headers)


def saying(body: Any) -> Behaviour:
    return lambda _: Reply(body=body)


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the library's name
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.reply(Sent(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            time.sleep(reply.delay_seconds)
            payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(payload)), "Connection": "close", **reply.headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if not reply.drip_seconds:
                    self.wfile.write(payload)
                    return
                for byte in payload:
                    self.wfile.write(bytes([byte]))
                    time.sleep(reply.drip_seconds)
            except OSError:
                return  # the client is gone
            finally:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        server = EmbeddingServer(f"http://127.0.0.1:{listener.server_port}/v1")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
