"""The first query of a new process -> the cost of the import, of the query, and of the same query again.

It is measured in Python, after the import of Lance, which every user of the format pays; and on the command line, from start to result.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.child import compiled, cost_of

PROCESSES = 9


def cold(graph: Path, name: str) -> dict[str, float]:
    """Return medians over a few processes. The cache directory has the adjacency."""
    runs = [_one(graph, name) for _ in range(PROCESSES)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _one(graph: Path, name: str) -> dict[str, float]:
    from bench.scenario.social.engines import TWO_HOPS

    asked = ("query", "-e", TWO_HOPS, "--params", json.dumps({"n": name}), "--store", str(graph), "--format", "jsonl")
    return {
        **cost_of("a new process", first_question, str(graph), name).result,
        "lance_alone_ms": _milliseconds(["-c", "import lance"]),
        "command_ms": _milliseconds(["-m", "omnigraph.cli.main", *asked]),
    }


def _milliseconds(arguments: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=compiled(), stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1e3


def first_question(graph: str, name: str) -> dict[str, float]:
    import lance  # noqa: F401  # every user of the format pays for it; `_milliseconds` measures it alone

    imported = time.perf_counter()
    import omnigraph as og
    from bench.scenario.social.engines import TWO_HOPS

    opened = og.open(graph, mode="r")
    opened.query(TWO_HOPS, params={"n": name}).to_arrow()
    answered = time.perf_counter()
    warm = []
    for _ in range(20):
        start = time.perf_counter()
        opened.query(TWO_HOPS, params={"n": name}).to_arrow()
        warm.append(time.perf_counter() - start)
    return {"cold_ms": (answered - imported) * 1e3, "warm_ms": statistics.median(warm) * 1e3}
