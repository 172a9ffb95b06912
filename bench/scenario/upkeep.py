"""Thousands of small commits, with upkeep and without -> reads, latency and bytes, beside the same data loaded at once.

Targets: with upkeep, storage reads per write and per warm read after all commits at most those after 50, plus 4; latency and bytes at most
1.5 times those of the data loaded at once. Bytes are those of the tables: old versions stay until a cleanup, so the bytes that the newest
version needs are printed too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
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
BASE = 200
SCHEMA = "node Person { name: String @key  age: I32? @index }\nedge Knows: Person -> Person"
QUERIES = {
    "by key": 'query q() { match { $p: Person { name: "base7" } } return { $p.age } }',
    "by value": "query q() { match { $p: Person { age: 7 } } return { $p.name } }",
    "by link": 'query q() { match { $p: Person { name: "p7" } $p knows $x } return { $x.name } }',
}


def begun(place: Path, *, auto_upkeep: bool) -> og.Graph:
    graph = og.init(place, schema=SCHEMA, auto_upkeep=auto_upkeep)
    graph.load({"Person": pa.table({"name": [f"base{n}" for n in range(BASE)], "age": pa.array(range(BASE), pa.int32())})}, mode="append")
    graph.ensure_indices()
    return graph


def commit(graph: og.Graph, at: int) -> None:
    body = f'insert Person {{ name: "p{at}", age: {at % 100} }} insert Knows {{ from: "p{at}", to: "base{at % BASE}" }}'
    graph.mutate(f"query q() {{ {body} }}")


def at_once(place: Path, commits: int) -> og.Graph:
    """The graph of all commits, loaded as one."""
    graph = begun(place, auto_upkeep=False)
    names = [f"p{at}" for at in range(commits)]
    people = pa.table({"name": names, "age": pa.array([at % 100 for at in range(commits)], pa.int32())})
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


def measured(graph: og.Graph, first: int) -> dict[str, Any]:
    """The reads and the median latency of writes, and of reads that have run before."""
    writes: list[tuple[int, float]] = []
    upkeep: list[tuple[int, float]] = []
    asked: dict[str, list[tuple[int, float]]] = {name: [] for name in QUERIES}
    for at in range(first, first + LOOKS):
        spent = reads_of(graph, partial(commit, graph, at))
        (upkeep if graph.commits(limit=1)[0].kind == "optimize" else writes).append(spent)
        for name, query in QUERIES.items():
            for _ in range(2):  # the adjacency may be built by the second run
                graph.query(query)
            asked[name].append(reads_of(graph, partial(graph.query, query)))
    rows = {"write": writes, **asked, **({"write with upkeep": upkeep} if upkeep else {})}
    return {
        name: {"most reads": max(reads for reads, _ in each), "median ms": statistics.median(ms for _, ms in each)}
        for name, each in rows.items()
    }


def sizes(graph: og.Graph) -> dict[str, float]:
    """The megabytes of the tables on disk, and of the files that the newest version of each names."""
    root = Path(graph.uri)
    every = sum(path.stat().st_size for kind in ("nodes", "edges") for path in (root / kind).rglob("*") if path.is_file())
    newest = 0
    for row in graph.engine.manifest.snapshot().state.tables.values():
        table = graph.engine.tables.open(row.ref)
        names = {file.path for fragment in table.dataset.get_fragments() for file in fragment.metadata.files}
        newest += sum((root / row.ref.home / "data" / name).stat().st_size for name in names)
        newest += sum(index.size_bytes or 0 for index in table.indexes)
    return {"MB on disk": every / 1e6, "MB of the newest versions": newest / 1e6}


def lived(place: Path, commits: int, *, auto_upkeep: bool) -> dict[str, Any]:
    graph = begun(place, auto_upkeep=auto_upkeep)
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(EARLY - LOOKS):
        commit(graph, at)
    early = measured(graph, EARLY - LOOKS)
    for at in range(EARLY, commits - LOOKS):
        commit(graph, at)
    late = measured(graph, commits - LOOKS)
    spent = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - cpu}
    kinds = [found.kind for found in graph.commits()]
    found = {"after 50": early, f"after {commits}": late, **spent, "upkeep commits": kinds.count(CommitKind.OPTIMIZE), **sizes(graph)}
    tidied = time.perf_counter()
    graph.optimize()
    return {**found, "optimize seconds": time.perf_counter() - tidied, "after optimize": {**measured(graph, commits), **sizes(graph)}}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario upkeep", description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    options = parser.parse_args(arguments)
    runs: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, on in (("upkeep on", True), ("upkeep off", False)):
            runs[name] = lived(Path(folder) / name.replace(" ", "-"), options.commits, auto_upkeep=on)
        whole = at_once(Path(folder) / "whole", options.commits)
        runs["loaded at once"] = {"MB": sizes(whole), "queries": measured(whole, options.commits)}
    for name, run in runs.items():
        print(name)
        for what, value in run.items():
            print(f"  {what:20} {_shown(value)}")
    loaded, target = runs["loaded at once"], runs["upkeep on"][f"after {options.commits}"]
    for query in QUERIES:
        ratio = target[query]["median ms"] / loaded["queries"][query]["median ms"]
        print(f"{query}: {ratio:.2f} times the latency of the data loaded at once (target 1.5)")
    needed = runs["upkeep on"]["MB of the newest versions"] / loaded["MB"]["MB of the newest versions"]
    print(f"bytes of the newest versions: {needed:.2f} times (target 1.5); on disk, without a cleanup: "
          f"{runs['upkeep on']['MB on disk'] / loaded['MB']['MB on disk']:.1f} times")  # fmt: skip
    save("upkeep", {"commits": options.commits, "fsync": os.environ.get("OMNIGRAPH_FSYNC", "on"), "runs": runs})


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)
