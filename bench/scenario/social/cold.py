"""The first question of a new process: what the import costs, what the question costs, and what it costs when asked again."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench.child import cost_of

PROCESSES = 5


def cold(graph: Path, name: str) -> dict[str, float]:
    """Medians over a few processes. The adjacency is in the cache folder already."""
    runs = [cost_of("a new process", first_question, str(graph), name).result for _ in range(PROCESSES)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def first_question(graph: str, name: str) -> dict[str, float]:
    began = time.perf_counter()
    import lance  # noqa: F401  # what any user of the format pays

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
    return {"import_ms": (imported - began) * 1e3, "cold_ms": (answered - imported) * 1e3, "warm_ms": statistics.median(warm) * 1e3}
