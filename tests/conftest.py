"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Final

import pytest
from hypothesis import settings

from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE
from tests.s3 import CountingProxy, S3Server, start_server
from tests.samples import is_whole

LONGEST_PART: Final = 60

# A shell starts background processes with interrupts ignored, and every process that a test interrupts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# For every Java that a test starts, also in a process of its own; and nobody's own settings.
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark" / "conf")

# Nobody's own provider of embeddings.
for _name in [name for name in os.environ if name.startswith("OMNIGRAPH_EMBED")]:
    del os.environ[_name]

# The same examples in every run: what fails, fails for everybody. `./test --all` looks for new ones, and prints the seed of what fails.
# An example may take as long as it takes: on a busy machine, how long says nothing.
settings.register_profile("omnigraph", derandomize=not is_whole(), deadline=None)
settings.load_profile("omnigraph")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """A case is named by plain text that is the same in every process: bytes may hold a time of day, so they never name one.

    Pytest adds a number where two cases would have one name.
    """
    match val:
        case str() | int():
            plain = "".join(sign if " " <= sign <= "~" and sign != "\\" else "_" for sign in str(val))
            return plain if len(plain) <= LONGEST_PART else plain[:LONGEST_PART].rstrip() + "..."
        case bytes() | bytearray() | memoryview() | FunctionType(__name__="<lambda>"):
            return argname
        case _:
            return None


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Derived files go where they vanish with the session; child processes inherit the place."""
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ[CACHE]
    else:
        os.environ[CACHE] = before


@pytest.fixture(autouse=True)
def _no_java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tests marked `spark` find Java, so `./test --fast`, which leaves them out, needs none."""
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setenv("JAVA_HOME", os.devnull)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 server per session, and so per xdist worker: it starts in two seconds and 0.4 s of CPU, less than sharing would risk."""
    server = start_server()
    yield server
    server.stop()


@pytest.fixture
def s3_uri(s3_server: S3Server) -> str:
    """A prefix that no other test uses."""
    return s3_server.new_prefix()


@pytest.fixture(scope="session")
def _s3_proxy(s3_server: S3Server) -> Iterator[CountingProxy]:
    proxy = CountingProxy(s3_server.endpoint)
    yield proxy
    proxy.stop()


@pytest.fixture
def s3_proxy(_s3_proxy: CountingProxy) -> CountingProxy:
    """The counting proxy before the session's S3 server, at zero."""
    _s3_proxy.reset()
    return _s3_proxy
