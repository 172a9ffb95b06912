"""Credentials in endpoints and URIs show in no error: not in its message, its facts, nor in the errors it was raised from."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError, Unsupported
from omnigraph.store.root import open_root

SECRET = "hunter2"
OPTIONS = {
    "aws_access_key_id": "AKIA",
    "aws_secret_access_key": SECRET,
    "aws_region": "us-east-1",
    "allow_http": "true",
    "client_max_retries": "0",
    "client_retry_timeout": "1",
}


@pytest.fixture
def closed() -> Iterator[str]:
    """An address that refuses connections as long as the test runs: it is bound, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def refusal(uri: str, **options: str) -> OmniGraphError:
    with pytest.raises(OmniGraphError) as caught:
        og.open(uri, storage_options={**OPTIONS, **options})
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.facts)
    assert SECRET not in shown
    return caught.value


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("password", [SECRET, f"a@{SECRET}", f"{SECRET}:b"], ids=["plain", "with an at sign", "with a colon"])
def test_a_refused_connection_does_not_show_the_password_of_its_endpoint(closed: str, scheme: str, password: str) -> None:
    error = refusal("s3://bucket/graph", aws_endpoint=f"{scheme}://user:{password}@{closed}")
    assert error.kind is Kind.STORAGE_UNAVAILABLE
    assert f"{scheme}://***@{closed}" in error.message


def test_a_request_of_our_own_objects_does_not_show_it_either(closed: str) -> None:
    root = open_root("s3://bucket/graph", storage_options={**OPTIONS, "aws_endpoint": f"http://user:{SECRET}@{closed}"})
    for attempt in (lambda: root.objects.get("a"), lambda: root.objects.put("a", b""), lambda: list(root.objects.list("a"))):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("aws_endpoint", f"user:{SECRET}@host"),
        ("aws_endpoint", f"http://user:{SECRET}@ho st"),
        ("aws_endpoint", f"http://user:{SECRET}@host:port"),
        ("endpoint_url", f"http://user:{SECRET}@"),
        ("aws_endpoint", f"http://host/?token={SECRET}"),
        ("aws_endpoint", f"http://host/#{SECRET}"),
        ("aws_access_key_id", f"{SECRET}\n"),
        ("aws_session_token", f"{SECRET}\0"),
    ],
    ids=["no scheme", "space", "port", "no host", "query", "fragment", "newline", "nul"],
)
def test_a_setting_that_no_request_can_carry_is_refused_by_its_name(option: str, value: str) -> None:
    error = refusal("s3://bucket/graph", **{option: value})
    assert error.kind is Kind.STORAGE_CONFIGURATION
    assert repr(option) in error.message


def test_credentials_do_not_belong_in_the_uri_of_a_graph() -> None:
    for uri in (f"s3://user:{SECRET}@bucket/graph", f"s3://user:{SECRET}@bucket/graph#"):
        error = refusal(uri)
        assert isinstance(error, InvalidInput)
        assert "storage_options" in error.message
    assert isinstance(refusal(f"https://user:{SECRET}@host/graph"), Unsupported)


def test_the_command_line_does_not_show_it(closed: str) -> None:
    surroundings = {**os.environ, **{name.upper(): value for name, value in OPTIONS.items() if name.startswith("aws")}}
    surroundings |= {"AWS_ENDPOINT": f"http://user:{SECRET}@{closed}", "AWS_ALLOW_HTTP": "true"}
    command = [sys.executable, "-m", "omnigraph.cli.main", "--verbose", "--storage-option", "client_max_retries=0"]
    command += ["snapshot", "s3://bucket/graph"]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"http://***@{closed}" in done.stderr
    assert SECRET not in done.stdout + done.stderr
