"""Cold starts of the command line: `--help`, and queries of a small graph, each in a new process. Wall time, and CPU time of the child.

`python -m bench.micro cli [--runs N]`. "Cold" is a new process; the files are in the page cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import omnigraph as og
from bench.report import save

SCHEMA = "node Person { name: String @key  born: I32? }\nedge Knows: Person -> Person\n"
QUERY = "match { $p: Person } return { $p.name, $p.born } order { $p.name } limit 10"
TARGETS_MS = {"--help": 150.0, "query": 600.0}


def commands(folder: Path) -> dict[str, list[str]]:
    """A graph of a hundred people, and the commands to measure by name."""
    graph = og.init(folder / "g.omni", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": f"p{n}", "born": n}} for n in range(100)], "append")
    graph.mutate('insert Person { name: "紫式部" }')
    ask = ["query", "--store", graph.uri, "-e"]
    return {
        "--help": ["--help"],
        "query": [*ask, QUERY],
        "query, CJK": [*ask, 'match { $p: Person { name: "紫式部" } } return { $p.name }'],
        "completion bash": ["completion", "bash"],
    }


def measured(arguments: list[str]) -> tuple[float, float]:
    """The wall and CPU milliseconds of one process."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "omnigraph.cli.main", *arguments], stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return wall * 1e3, cpu * 1e3


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro cli", description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args(arguments).runs
    with tempfile.TemporaryDirectory() as folder:
        asked = commands(Path(folder))
        for words in asked.values():
            measured(words)  # fills the page cache
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
        for _ in range(runs):
            for name, words in asked.items():
                found[name].append(measured(words))
    print(f"\ncold starts, {runs} runs in turn: median wall and CPU ms, then the wall ms of all runs")
    for name, times in found.items():
        target = f"  target {TARGETS_MS[name]:.0f}" if name in TARGETS_MS else ""
        every = " ".join(f"{wall:.0f}" for wall, _ in times)
        print(f"  {name:18s} {median(wall for wall, _ in times):6.0f} {median(cpu for _, cpu in times):6.0f}   {every}{target}")
    save("micro-cli", {"targets_ms": TARGETS_MS, "wall_and_cpu_ms": found})


if __name__ == "__main__":
    main(sys.argv[1:])
