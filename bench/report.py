"""Functions -> their timings, as a table on stdout and one JSON file under bench/results."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"


class Timing(NamedTuple):
    """The milliseconds of repeated runs of one function. `cpu_ms` is the median of the CPU time of all threads of the process."""

    name: str
    median_ms: float
    p90_ms: float
    runs: int
    cpu_ms: float


def timed(name: str, work: Callable[[], object], *, runs: int, warm: int = 5) -> Timing:
    return interleaved({name: work}, runs=runs, warm=warm)[name]


def interleaved(works: dict[str, Callable[[], object]], *, runs: int, warm: int = 5, at_once: int = 1) -> dict[str, Timing]:
    """Time several functions in turn, so that other load on the machine affects all of them equally.

    Each runs `at_once` times before the next. Otherwise functions of a millisecond would find the CPU caches filled by the others.
    """
    for work in works.values():
        for _ in range(warm):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    cpu: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs // at_once):
        for name, work in works.items():
            for _ in range(at_once):
                began, used = time.perf_counter(), time.process_time()
                work()
                cpu[name].append((time.process_time() - used) * 1e3)
                times[name].append((time.perf_counter() - began) * 1e3)
    return {name: _timing(name, times[name], cpu[name]) for name in works}


def _timing(name: str, wall: list[float], cpu: list[float]) -> Timing:
    return Timing(name, statistics.median(wall), statistics.quantiles(wall, n=10)[8], len(wall), statistics.median(cpu))


def show(title: str, rows: list[Timing]) -> None:
    print(f"\n{title}")
    for row in rows:
        print(f"  {row.name:46s} {row.median_ms:9.2f} ms   p90 {row.p90_ms:9.2f}   CPU {row.cpu_ms:9.2f}   ({row.runs} runs)")


def save(name: str, facts: dict[str, object], *, quiet: bool = False) -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, **facts}, indent=2) + "\n")
    if not quiet:
        print(f"\nwritten to {path.relative_to(RESULTS.parent.parent)}")
