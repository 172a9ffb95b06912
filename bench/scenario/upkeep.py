"""Thousands of small commits, with upkeep and without -> reads, latency and bytes, beside the same data loaded at once.

Targets: with upkeep, storage reads per write and per warm read after all commits at most those after 50, plus 4; latency and bytes at most
1.5 times those of the data loaded at once. Bytes are those of all files, by kind: before and after an `optimize` and a `cleanup` that keeps
one commit. The history itself stays.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from bench.report import save
from omnigraph.manifest.model import CommitKind

COMMITS = 5_000
EARLY = 50
LOOKS = 20
"""How many writes and reads are measured at each point."""
RUNS = 3
"""How often each query runs on a commit. The adjacency may be built by the second run."""
BASE = 200
SCHEMA = "node Person { name: String @key  age: I32? @index  about: String? }\nedge Knows: Person -> Person"
KINDS = {"data": "data", "_deletions": "deletions", "_indices": "indexes", "_versions": "versions", "_transactions": "transactions"}
QUERIES = {
    "by key": 'query q() { match { $p: Person { name: "base7" } } return { $p.age } }',
    "by value": "query q() { match { $p: Person { age: 7 } } return { $p.name } }",
    "by link": 'query q() { match { $p: Person { name: "p7" } $p knows $x } return { $x.name } }',
}


def about(at: int, text_bytes: int) -> str | None:
    """A text that hardly compresses."""
    return random.Random(at).randbytes(text_bytes * 3 // 4).hex()[:text_bytes] if text_bytes else None


def begun(place: Path, *, auto_upkeep: bool) -> og.Graph:
    graph = og.init(place, schema=SCHEMA, auto_upkeep=auto_upkeep)
    graph.load({"Person": pa.table({"name": [f"base{n}" for n in range(BASE)], "age": pa.array(range(BASE), pa.int32())})}, mode="append")
    graph.ensure_indices()
    return graph


def commit(graph: og.Graph, at: int, text_bytes: int = 0) -> None:
    text = f', about: "{about(at, text_bytes)}"' if text_bytes else ""
    body = f'insert Person {{ name: "p{at}", age: {at % 100}{text} }} insert Knows {{ from: "p{at}", to: "base{at % BASE}" }}'
    graph.mutate(f"query q() {{ {body} }}")


def at_once(place: Path, commits: int, text_bytes: int) -> og.Graph:
    """The graph of all commits, loaded as one."""
    graph = begun(place, auto_upkeep=False)
    names = [f"p{at}" for at in range(commits)]
    ages, texts = pa.array([at % 100 for at in range(commits)], pa.int32()), pa.array([about(at, text_bytes) for at in range(commits)])
    people = pa.table({"name": names, "age": ages, "about": texts.cast(pa.string())})
    graph.load({"Person": people, "Knows": pa.table({"from": names, "to": [f"base{at % BASE}" for at in range(commits)]})}, mode="append")
    graph.optimize()
    return graph


def reads_of(graph: og.Graph, act: Callable[[], object]) -> tuple[int, float]:
    """The storage reads of a call, and its milliseconds."""
    dataset = graph.engine.manifest.look()[1].as_table().dataset
    dataset.io_stats_incremental()
    began = time.perf_counter()
    act()
    spent = (time.perf_counter() - began) * 1000
    return int(dataset.io_stats_incremental().read_iops), spent


def measured(graph: og.Graph, first: int, text_bytes: int) -> dict[str, Any]:
    """The most reads and the median latency of writes, and of reads after a write and when they have run on the same commit before."""
    writes: list[tuple[int, float]] = []
    upkeep: list[tuple[int, float]] = []
    asked: dict[str, list[tuple[int, float]]] = {name: [] for each in QUERIES for name in (each, f"{each}, after a write")}
    for query in [*QUERIES.values()] * RUNS:
        graph.query(query)
    for at in range(first, first + LOOKS):
        spent = reads_of(graph, partial(commit, graph, at, text_bytes))
        (upkeep if graph.commits(limit=1)[0].kind == "optimize" else writes).append(spent)
        for name, query in QUERIES.items():
            runs = [reads_of(graph, partial(graph.query, query)) for _ in range(RUNS)]
            asked[f"{name}, after a write"].append(runs[0])
            asked[name].append((max(reads for reads, _ in runs[1:]), runs[-1][1]))
    rows = {"write": writes, **asked, **({"write with upkeep": upkeep} if upkeep else {})}
    return {
        name: {"most reads": max(reads for reads, _ in each), "median ms": statistics.median(ms for _, ms in each)}
        for name, each in rows.items()
    }


def sizes(graph: og.Graph) -> dict[str, int]:
    """The bytes of all files of the tables and of `__manifest`, by kind, and in sum."""
    root, found = Path(graph.uri), Counter[str]()
    for path in root.rglob("*"):
        if path.is_file():
            top, *parts = path.relative_to(root).parts
            kind = next((KINDS[part] for part in parts if part in KINDS), "other")
            found[f"{'history' if top == '__manifest' else 'tables'}: {kind}"] += path.stat().st_size
    return {**dict(sorted(found.items())), "sum": found.total()}


def tidied(graph: og.Graph) -> dict[str, int]:
    graph.optimize()
    graph.cleanup(keep=1)
    return sizes(graph)


def lived(place: Path, commits: int, text_bytes: int, *, auto_upkeep: bool) -> dict[str, Any]:
    graph = begun(place, auto_upkeep=auto_upkeep)
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(EARLY - LOOKS):
        commit(graph, at, text_bytes)
    early = measured(graph, EARLY - LOOKS, text_bytes)
    for at in range(EARLY, commits - LOOKS):
        commit(graph, at, text_bytes)
    late = measured(graph, commits - LOOKS, text_bytes)
    spent = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - cpu}
    kinds = [found.kind for found in graph.commits()]
    found = {"after 50": early, f"after {commits}": late, **spent, "upkeep commits": kinds.count(CommitKind.OPTIMIZE)}
    return {**found, "bytes": sizes(graph), "bytes, tidied": tidied(graph), "after optimize": measured(graph, commits, text_bytes)}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario upkeep", description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--text-bytes", type=int, default=0, help="the size of a text in each node")
    options = parser.parse_args(arguments)
    runs: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, on in (("upkeep on", True), ("upkeep off", False)):
            runs[name] = lived(Path(folder) / name.replace(" ", "-"), options.commits, options.text_bytes, auto_upkeep=on)
        whole = at_once(Path(folder) / "whole", options.commits, options.text_bytes)
        runs["loaded at once"] = {"bytes, tidied": tidied(whole), "queries": measured(whole, options.commits, options.text_bytes)}
    for name, run in runs.items():
        print(name)
        for what, value in run.items():
            print(f"  {what:20} {_shown(value)}")
    loaded, target = runs["loaded at once"], runs["upkeep on"][f"after {options.commits}"]
    for query in QUERIES:
        ratio = target[query]["median ms"] / loaded["queries"][query]["median ms"]
        print(f"{query}: {ratio:.2f} times the latency of the data loaded at once (target 1.5)")
    needed = runs["upkeep on"]["bytes, tidied"]["sum"] / loaded["bytes, tidied"]["sum"]
    print(f"bytes after optimize and cleanup: {needed:.2f} times those of the data loaded at once (target 1.5)")
    save(
        "upkeep",
        {"commits": options.commits, "text bytes": options.text_bytes, "fsync": os.environ.get("OMNIGRAPH_FSYNC", "on"), "runs": runs},
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)
