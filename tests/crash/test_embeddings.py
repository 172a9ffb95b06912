"""Processes that die while they embed missing vectors: all are there afterwards, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.graph import Graph
from tests.embedding_server import answer, embedding_server
from tests.mutations import run, values

pytestmark = pytest.mark.crash

SCHEMA = "node Doc { slug: String @key  text: String?  vec: Vector(4)? @embed(text) }"


def world(folder: Path) -> Graph:
    graph = og.init(folder / "g", schema=SCHEMA)
    run(graph, 'insert Doc { slug: "a", text: "one" } insert Doc { slug: "b", text: "two" } insert Doc { slug: "c" }')
    return graph


def start(graph: Graph, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "omnigraph.cli.main", "ensure-embeddings", graph.uri]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def filled(graph: Graph) -> set[str]:
    return {slug for slug, vector in values(graph, "node:Doc", "vec").items() if vector is not None}


def files(graph: Graph) -> list[Path]:
    """Those of data, versions and intents; the proof that locks work may come at any time."""
    return sorted(path for path in Path(graph.uri).rglob("*") if "__locks" not in path.parts)


@pytest.mark.parametrize(
    ("point", "lands"),
    [(Fault.WRITE_PREPARED, False), (Fault.STAGE_BEFORE_COMMIT, False), (Fault.WRITE_COMMITTED, True), (Fault.PUBLISH_AFTER_COMMIT, True)],
)
def test_a_killed_process_leaves_all_vectors_or_none(tmp_path: Path, point: Fault, lands: bool) -> None:
    graph = world(tmp_path)
    with start(graph, OMNIGRAPH_EMBEDDINGS_MOCK="1", **{ENVIRONMENT: f"{point.value}=kill"}) as dying:
        dying.communicate()
    assert dying.returncode == -signal.SIGKILL
    healed = og.open(graph.uri, embedding=og.EmbeddingProvider(kind="mock"))
    assert filled(healed) == ({"a", "b"} if lands else set())
    assert healed.ensure_embeddings().embedded == (0 if lands else 2)
    assert filled(healed) == {"a", "b"}
    assert healed.verify() == []


def test_a_process_killed_while_the_provider_is_asked_leaves_nothing_at_all(tmp_path: Path) -> None:
    """No intent, no file of the graph, no temporary file."""
    graph = world(tmp_path)
    (temporary := tmp_path / "tmp").mkdir()
    before = files(graph)
    with embedding_server() as server:
        server.otherwise = lambda sent: answer(sent)._replace(delay_seconds=60)
        settings = {"OMNIGRAPH_EMBED_BASE_URL": server.url, "OMNIGRAPH_EMBED_MODEL": "m", "TMPDIR": str(temporary)}
        with start(graph, **settings) as dying:
            while not server.sent and dying.poll() is None:
                time.sleep(0.02)
            dying.kill()
            dying.communicate()
    assert dying.returncode == -signal.SIGKILL
    assert files(graph) == before
    assert list(temporary.iterdir()) == []
    assert og.open(graph.uri).recoveries() == []
