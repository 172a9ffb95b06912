"""Tasks that fail, run twice or die with their executor, and drivers that are killed: every row once, or none."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.faults import Fault
from omnigraph.graph import Graph, LoadReceipt
from omnigraph.manifest import intents
from omnigraph.spark import GraphLoad
from tests.loads import FIRST, SCHEMA, ndjson, shown
from tests.orphans import data_files, orphans
from tests.spark_cluster.cluster import Cluster, command_line, connected, stopped, tasks, until

pytestmark = [pytest.mark.spark, pytest.mark.crash]

WRITTEN = Fault.SPARK_TASK_WRITTEN.value
FILES = 3
PEOPLE = 50


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA)
    made.load(ndjson(*FIRST), mode="append")
    return made


def files(folder: Path, count: int = FILES) -> list[str]:
    """Files of persons and of who knows whom: each is read by one task, which writes one file of each."""
    for at in range(count):
        people = [{"type": "Person", "data": {"name": f"p{at}-{n}"}} for n in range(PEOPLE)]
        edges = [{"edge": "Knows", "from": f"p{at}-{n}", "to": f"p{(at + 1) % count}-{n}"} for n in range(PEOPLE)]
        (folder / f"{at}.ndjson").write_bytes(ndjson(*people, *edges))
    return [str(folder / f"{at}.ndjson") for at in range(count)]


def check(graph: Graph, *, count: int, left: int) -> None:
    """Every row once; so many files besides that nobody names; nothing else."""
    graph.refresh()
    rows = shown(graph)
    names = [f"p{at}-{n}" for at in range(count) for n in range(PEOPLE)]
    assert sorted(row["id"] for row in rows["node:Person"]) == sorted(["Ada", "Ben", *names])
    assert sorted(row["src"] for row in rows["edge:Knows"]) == sorted(["Ada", *names])
    assert len(orphans(graph)) == left
    assert intents.pending(graph.engine.manifest.root.objects) == []
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


class Loading(threading.Thread):
    """A load under way."""

    def __init__(self, load: GraphLoad) -> None:
        super().__init__(daemon=True)
        self._load = load
        self._receipt: LoadReceipt | None = None

    def run(self) -> None:
        self._receipt = self._load.commit()

    def receipt(self) -> LoadReceipt:
        self.join(timeout=180)
        assert self._receipt is not None
        return self._receipt


def test_tasks_that_fail_after_they_wrote_are_tried_again(cluster: Cluster, graph: Graph, tmp_path: Path) -> None:
    with connected(cluster, fault=f"{WRITTEN}=raise") as spark:
        receipt = GraphLoad(spark, graph, mode="append").ndjson(*files(tmp_path)).commit()
        attempts = tasks(spark)
    assert sorted((task["attempt"], task["status"]) for task in attempts) == [(0, "FAILED")] * FILES + [(1, "SUCCESS")] * FILES
    assert receipt.total == 2 * FILES * PEOPLE
    check(graph, count=FILES, left=2 * FILES)


def importing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a first task of an executor takes seconds for on a busy machine: its twin could be done before it has written."""
    import omnigraph.spark.tasks  # noqa: F401

    yield from batches


def test_of_a_task_and_its_speculative_twin_one_counts(cluster: Cluster, graph: Graph, tmp_path: Path) -> None:
    """The first attempt sleeps when its files are written. Spark starts a twin on the other worker, and does not wait for the first."""
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.task.duration.threshold": "3s",
    }
    with connected(cluster, fault=f"{WRITTEN}=stop", settings=settings) as spark:
        spark.range(2).repartition(2).mapInArrow(importing, "id long", barrier=True).collect()
        GraphLoad(spark, graph, mode="append").ndjson(*files(tmp_path, 1)).commit()
        attempts = until(lambda: [task for task in tasks(spark) if task["speculative"]], "a speculative task")
    assert [task["status"] for task in attempts] == ["SUCCESS"]
    check(graph, count=1, left=2)


def test_a_task_whose_executor_is_killed_is_done_by_another(cluster: Cluster, graph: Graph, tmp_path: Path) -> None:
    with connected(cluster, fault=f"{WRITTEN}=stop") as spark:
        loading = Loading(GraphLoad(spark, graph, mode="append").ndjson(*files(tmp_path, 2)))
        loading.start()
        (doomed, executor), (spared, _) = until(lambda: found if len(found := list(stopped().items())) == 2 else None, "two sleepers")
        before = orphans(graph)
        assert len(before) == 4, "both have written"
        os.kill(executor, signal.SIGKILL)
        os.kill(spared, signal.SIGCONT)
        receipt = loading.receipt()
        attempts = tasks(spark)
        with suppress(ProcessLookupError):  # it sleeps on, if its end was not noticed
            os.kill(doomed, signal.SIGKILL)
    assert receipt.total == 4 * PEOPLE
    assert sorted(task["status"] for task in attempts) == ["FAILED", "SUCCESS", "SUCCESS"]
    assert before & data_files(graph) == before
    check(graph, count=2, left=2)


def test_another_process_that_writes_meanwhile_is_seen(cluster: Cluster, graph: Graph, tmp_path: Path) -> None:
    """The tasks have written when somebody else brings one of their keys and one more: the load replaces the one and keeps the other."""
    paths = files(tmp_path, 2)
    with connected(cluster, fault=f"{WRITTEN}=stop") as spark:
        loading = Loading(GraphLoad(spark, graph, mode="merge").ndjson(*paths))
        loading.start()
        asleep = until(lambda: found if len(found := list(stopped())) == 2 else None, "two sleepers")
        insert = 'query add() { insert Person { name: "p0-0" } insert Person { name: "meanwhile" } }'
        other = command_line("mutate", "-e", insert, "--store", graph.uri, fault="")
        assert other.returncode == 0, other.stderr
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        assert loading.receipt().total == 4 * PEOPLE
    graph.refresh()
    names = sorted(row["id"] for row in shown(graph)["node:Person"])
    assert names == sorted(["Ada", "Ben", "meanwhile", *(f"p{at}-{n}" for at in range(2) for n in range(PEOPLE))])
    assert orphans(graph) == set()
    assert [commit.kind.value for commit in graph.commits(limit=2)] == ["load", "mutate"]
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


@pytest.mark.parametrize("point", [Fault.WRITE_PREPARED, Fault.WRITE_ARMED, Fault.WRITE_COMMITTED])
def test_a_driver_that_is_killed(cluster: Cluster, graph: Graph, tmp_path: Path, point: Fault) -> None:
    """Nobody sees half of it; the next writer finishes or undoes it; the same load again, by whatever engine, brings every row once."""
    before, paths = shown(graph), files(tmp_path)
    data = [argument for path in paths for argument in ("--data", path)]
    command = ("spark", "load", graph.uri, *data, "--mode", "append", "--token", "the load", "--master", cluster.url)
    done = command_line(*command, fault=f"{point.value}=kill")
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert shown(og.open(graph.uri, mode="r")) == before
    graph.load(ndjson({"type": "Note", "data": {"id": "next", "text": "healed"}}), mode="append")
    landed = point is Fault.WRITE_COMMITTED
    assert len(shown(graph)["node:Person"]) == (2 + FILES * PEOPLE if landed else 2)
    receipt = graph.load(b"".join(Path(path).read_bytes() for path in paths), mode="append", token="the load")
    assert receipt.total == 2 * FILES * PEOPLE
    check(graph, count=FILES, left=0 if landed else 2 * FILES)
