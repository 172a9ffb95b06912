"""A Spark cluster of one machine: a master and two workers on addresses of their own, real processes that can be killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyspark

from omnigraph.faults import ENVIRONMENT
from omnigraph.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parent.parent.parent
WORKERS: Final = ("127.0.0.2", "127.0.0.3")
_SECONDS: Final = 120
T = TypeVar("T")


class Cluster:
    """One running cluster, each worker with one core."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url: Final = f"spark://127.0.0.1:{port}"
        options = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        self._processes = [self._start("master", "org.apache.spark.deploy.master.Master", "127.0.0.1", *options)]
        for host in WORKERS:
            self._start_worker(host)
        until(lambda: all(f"Registering worker {host}" in self._log("master") for host in WORKERS), "two workers", self._logs)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)

    def _start_worker(self, host: str) -> None:
        work = self._folder / f"work-{host}"
        options = ("--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(work), self.url)
        self._processes.append(self._start(host, "org.apache.spark.deploy.worker.Worker", host, *options))

    def _start(self, name: str, class_: str, host: str, *options: str) -> subprocess.Popen[bytes]:
        home = str(Path(pyspark.__file__).parent)
        quick = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        environment = {**os.environ, **quick, "SPARK_HOME": home, "SPARK_LOCAL_IP": host}
        environment.pop(ENVIRONMENT, None)
        with open(self._folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [f"{home}/bin/spark-class", class_, *options], env=environment, stdout=log, stderr=log, preexec_fn=_die_with_parent
            )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in self._folder.glob("*.log"))


@contextmanager
def connected(cluster: Cluster, *, fault: str = "", settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session on the cluster whose executors have this fault armed; with the REST API of its UI."""
    made = session(
        master=cluster.url,
        app="omnigraph-cluster-tests",
        memory="512m",
        settings={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.executor.memory": "512m",
            "spark.log.level": "OFF",
            f"spark.executorEnv.{ENVIRONMENT}": fault,
            "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            **(settings or {}),
        },
    )
    try:
        until(lambda: len(_executors(made)) == len(WORKERS), "two executors")
        yield made
    finally:
        made.stop()


def _executors(spark: SparkSession) -> list[Any]:
    return [one for one in asked(spark, "executors") if one["id"] != "driver"]


def asked(spark: SparkSession, what: str) -> Any:
    """What Spark's REST API says about the application."""
    context = spark.sparkContext
    with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}", timeout=30) as answer:
        return json.load(answer)


def tasks(spark: SparkSession) -> list[Any]:
    """Every attempt at every task, as Spark saw it."""
    stages = [(stage["stageId"], stage["attemptId"]) for stage in asked(spark, "stages")]
    return [task for id_, attempt in stages for task in asked(spark, f"stages/{id_}/{attempt}/taskList?length=1000")]


def until(found: Callable[[], T | None], what: str, say: Callable[[], str] = lambda: "") -> T:
    """What `found` finds, as soon as it finds something."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {what}\n{say()}")


def stopped() -> dict[int, int]:
    """The Python workers of clusters of this process that sleep at a fault, each with the executor that it works for."""
    asleep = [pid for pid in _processes() if _state(pid) == "T" and _is_armed(pid)]
    return {pid: executor for pid in asleep if (executor := _executor_of(pid)) is not None}


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _is_armed(pid: int) -> bool:
    try:
        return f"{ENVIRONMENT}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _executor_of(pid: int) -> int | None:
    """None for a process of somebody else, and for one whose executor is gone."""
    executor = None
    while pid not in (0, os.getpid()):
        if b"CoarseGrainedExecutorBackend" in _command(pid):
            executor = pid
        pid = int(_stat(pid)[1])
    return executor if pid else None


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    """The state and the parent of a process, and more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["", "0"]


def _die_with_parent() -> None:
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def command_line(*arguments: str, fault: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own that dies where the fault says."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", ENVIRONMENT: fault}
    command = [sys.executable, "-m", "omnigraph.cli.main", *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
