"""The S3 server and the counting proxy that other tests lean on: that they tell the truth, and that they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.exceptions import NotModifiedError
from obstore.store import S3Store

from tests.s3 import CountingProxy, S3Server, request_kind

pytestmark = pytest.mark.s3

BODY = bytes(range(256)) * 1000


@pytest.fixture
def store(s3_server: S3Server, s3_proxy: CountingProxy) -> S3Store:
    return S3Store(s3_server.new_bucket(), config=cast("Any", s3_proxy.storage_options))


def test_ranges_and_conditions_pass_through_the_proxy(store: S3Store, s3_proxy: CountingProxy) -> None:
    tag = obstore.put(store, "x", BODY)["e_tag"]
    assert bytes(obstore.get_range(store, "x", start=1000, end=70_000)) == BODY[1000:70_000]
    assert bytes(obstore.get(store, "x", options={"if_match": tag}).bytes()) == BODY
    with pytest.raises(NotModifiedError):
        obstore.get(store, "x", options={"if_none_match": tag})
    assert obstore.head(store, "x")["size"] == len(BODY)
    assert [request.status for request in s3_proxy.requests] == [200, 206, 200, 304, 200]
    assert s3_proxy.counts == {"put": 1, "get": 3, "head": 1}


def test_uploads_in_parts_pass_through_the_proxy(store: S3Store, s3_proxy: CountingProxy) -> None:
    body = BODY * 48  # 12 MB: three parts
    obstore.put(store, "parts", body, chunk_size=5 * 1024 * 1024)
    assert bytes(obstore.get(store, "parts").bytes()) == body
    assert s3_proxy.counts == {"multipart": 5, "get": 1}


def test_chunked_bodies_pass_through_the_proxy(store: S3Store, s3_proxy: CountingProxy) -> None:
    url = urlsplit(obstore.sign(store, "PUT", "chunked", timedelta(minutes=1)))
    connection = HTTPConnection(url.netloc)
    for body in (BODY, b""):
        blocks = (body[at : at + 10_000] for at in range(0, len(body), 10_000))
        connection.request("PUT", f"{url.path}?{url.query}", body=blocks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert bytes(obstore.get(store, "chunked").bytes()) == body


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("GET", "/bucket?list-type=2&prefix=a%2F", "list"),
        ("GET", "/bucket/", "list"),
        ("GET", "/bucket?location", "other"),
        ("GET", "/bucket/key", "get"),
        ("HEAD", "/bucket/key", "head"),
        ("PUT", "/bucket", "other"),
        ("PUT", "/bucket/a/key", "put"),
        ("PUT", "/bucket/key?partNumber=1&uploadId=x", "multipart"),
        ("POST", "/bucket/key?uploads", "multipart"),
        ("POST", "/bucket?delete", "delete"),
        ("DELETE", "/bucket/key", "delete"),
    ],
)
def test_requests_are_told_apart(method: str, target: str, kind: str) -> None:
    assert request_kind(method, target, copies=False) == kind
    assert request_kind("PUT", "/bucket/key", copies=True) == "copy"


@pytest.mark.crash
def test_the_server_ends_with_the_process_that_started_it() -> None:
    """Killed outright, so that no fixture and no exit handler can run."""
    script = "from tests.s3 import S3Server; s = S3Server(); print(s.endpoint, s.folder, flush=True); input()"
    root = Path(__file__).parents[2]
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    endpoint, folder = owner.stdout.readline().split()
    assert _answers(endpoint)
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    deadline = time.monotonic() + 10
    while os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(folder)
    assert not _answers(endpoint)


def _answers(endpoint: str) -> bool:
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
