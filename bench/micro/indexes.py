"""A million nodes and four million edges -> the time to build their indexes, and the cost of lookups without and with them."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from bench.report import Timing, save, show, timed
from omnigraph.catalog.layout import table_schema
from omnigraph.exec.engine import Engine
from omnigraph.exec.upkeep.indices import IndexProgress
from omnigraph.exec.write.protocol import Append, Prepared, Request, write
from omnigraph.graph import Graph
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.model import CommitKind
from omnigraph.store.index import IndexSpec, LanceIndexKind, write_index
from omnigraph.store.root import FSYNC_ENVIRONMENT, open_root
from omnigraph.store.tables import Table, one_of

SCHEMA = "node Person { name: String @key  born: I32? @index }\nedge Knows: Person -> Person"
NODES, EDGES = 1_000_000, 4_000_000
RUNS = 30


def main(arguments: Sequence[str] = ()) -> None:
    argparse.ArgumentParser(prog="python -m bench.micro indexes", description=__doc__).parse_args(arguments)
    os.environ[FSYNC_ENVIRONMENT] = "off"
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        graph = og.init(Path(folder) / "g", schema=SCHEMA)
        fill(graph)
        rows = [*lookups(graph, "no index"), *building(graph)]
        rows.append(once("ensure_indices: 7 indexes, one commit", lambda: graph.ensure_indices(on_progress=print_progress)))
        rows += lookups(graph, "indexed")
        rows.append(timed("ensure_indices, nothing to do", graph.ensure_indices, runs=RUNS))
        for n in range(40):
            graph.mutate(f'query q() {{ insert Person {{ name: "late{n}", born: {n} }} }}')
        rows += lookups(graph, "indexed, 40 small commits later")
    show(f"{NODES:,} nodes, {EDGES:,} edges", rows)
    save("micro-indexes", {"nodes": NODES, "edges": EDGES, "timings": [row._asdict() for row in rows]})


def once(name: str, work: Callable[[], object]) -> Timing:
    """Time one run."""
    began, used = time.perf_counter(), time.process_time()
    work()
    took_ms, used_ms = (time.perf_counter() - began) * 1e3, (time.process_time() - used) * 1e3
    return Timing(name, took_ms, took_ms, 1, used_ms)


def print_progress(progress: IndexProgress) -> None:
    print(f"  {progress.at} of {progress.of}: {progress.table}, {progress.rows:,} rows", flush=True)


def fill(graph: Graph) -> None:
    """Load unsorted names, and edges with random endpoints."""
    random = np.random.default_rng(7)
    node, edge = graph.catalog.node("Person"), graph.catalog.edge("Knows")
    assert node is not None
    assert edge is not None
    names = pa.array([f"person-{n:07d}" for n in random.permutation(NODES)])
    people = pa.table({"id": names, "born": random.integers(1900, 2020, NODES, dtype="int32"), "name": names}, schema=table_schema(node))
    ends = [names.take(pa.array(random.integers(0, NODES, EDGES))) for _ in range(2)]
    ids = pa.array([f"01K{n:023d}" for n in range(EDGES)])
    knows = pa.table({"id": ids, "src": ends[0], "dst": ends[1]}, schema=table_schema(edge))
    manifest = open_graph(open_root(graph.uri))
    rows = manifest.snapshot().state
    changes = {row.id: Append(people if row.alias == "node:Person" else knows) for row in rows.tables.values()}
    write(Engine(manifest), Request(CommitKind.LOAD), lambda _: Prepared(changes))


def opened(graph: Graph, alias: str) -> Table:
    row = graph.engine.manifest.snapshot().state.table(alias)
    assert row is not None
    return graph.engine.tables.open(row.ref)


def building(graph: Graph) -> list[Timing]:
    """Time the build of each index alone. Its files are not committed."""
    asked = [
        ("node:Person", "id", LanceIndexKind.BTREE),
        ("node:Person", "born", LanceIndexKind.BTREE),
        ("node:Person", "name", LanceIndexKind.INVERTED),
        *(("edge:Knows", column, LanceIndexKind.BTREE) for column in ("id", "src", "dst")),
    ]
    return [once(f"build {kind} on {alias}.{column}", partial(build, opened(graph, alias), column, kind)) for alias, column, kind in asked]


def build(table: Table, column: str, kind: LanceIndexKind) -> object:
    return write_index(table, IndexSpec(column, kind, "bench"))


def lookups(graph: Graph, when: str) -> list[Timing]:
    people, knows = opened(graph, "node:Person"), opened(graph, "edge:Knows")
    random = np.random.default_rng(1)

    def some(count: int) -> pa.Array:
        return pa.array([f"person-{n:07d}" for n in random.integers(0, NODES, count)])

    def asked(table: Table, column: str, count: int) -> Callable[[], object]:
        return lambda: table.scan(["id"], where=one_of(column, some(count))).read_all()

    return [
        timed(f"one node by id, {when}", asked(people, "id", 1), runs=RUNS),
        timed(f"100 nodes by id, {when}", asked(people, "id", 100), runs=RUNS),
        timed(f"edges of one node, {when}", asked(knows, "src", 1), runs=RUNS),
        timed(f"edges of 100 nodes, {when}", asked(knows, "src", 100), runs=RUNS),
        timed(f"born = 1950 (1 in 120), {when}", lambda: people.count("born = 1950"), runs=RUNS),
    ]


if __name__ == "__main__":
    main()
