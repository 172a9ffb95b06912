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
    """The milliseconds of repeated runs of one function."""

    name: str
    median_ms: float
    p90_ms: float
    runs: int


def timed(name: str, work: Callable[[], object], *, runs: int, warm: int = 5) -> Timing:
    for _ in range(warm):
        work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    return Timing(name, statistics.median(times), statistics.quantiles(times, n=10)[8], runs)


def interleaved(works: dict[str, Callable[[], object]], *, runs: int, warm: int = 5, at_once: int = 1) -> dict[str, Timing]:
    """Time several functions in turn, so that other load on the machine affects all of them equally.

    Each runs `at_once` times before the next. Otherwise functions of a millisecond would find the CPU caches filled by the others.
    """
    for work in works.values():
        for _ in range(warm):
            work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs // at_once):
        for name, work in works.items():
            for _ in range(at_once):
                began = time.perf_counter()
                work()
                times[name].append((time.perf_counter() - began) * 1e3)
    return {name: Timing(name, statistics.median(row), statistics.quantiles(row, n=10)[8], len(row)) for name, row in times.items()}


def show(title: str, rows: list[Timing]) -> None:
    print(f"\n{title}")
    for row in rows:
        print(f"  {row.name:46s} {row.median_ms:9.2f} ms   p90 {row.p90_ms:9.2f}   ({row.runs} runs)")


def save(name: str, facts: dict[str, object], *, quiet: bool = False) -> None:
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, **facts}, indent=2) + "\n")
    if not quiet:
        print(f"\nwritten to {path.relative_to(RESULTS.parent.parent)}")
