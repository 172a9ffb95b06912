"""A one-row keyed upsert into a million rows with a B-tree on `id`: ours through the whole protocol, next to a bare Lance
`merge_insert` plus a bare publish, and to kuzu's and lancedb's upserts; at 10 and at 1,000 commits of history.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from bench.micro.publish import bare_swap
from bench.report import interleaved, save, show
from omnigraph.graph import Graph
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Publication, publish
from omnigraph.store import index, stage
from omnigraph.store.index import IndexSpec, LanceIndexKind
from omnigraph.store.tables import Tables

import lance  # isort: skip  (after omnigraph.store, which quiets its log)

ROWS = 1_000_000
HISTORY = (10, 1_000)
RUNS = 40
SCHEMA = "node Person { name: String @key  n: I64? }"
UPSERT = "query put($name: String, $n: I64) { insert Person { name: $name, n: $n } }"


def names() -> Iterator[str]:
    """Yield existing keys in an order that no cache can predict."""
    chance = random.Random(7)
    while True:
        yield f"person-{chance.randrange(ROWS):07d}"


def people(count: int = ROWS) -> pa.Table:
    ids = [f"person-{n:07d}" for n in range(count)]
    return pa.table({"id": ids, "n": pa.array(range(count), pa.int64()), "name": ids})


def ours(folder: Path, rows: pa.Table, *, history: int) -> Callable[[], object]:
    graph = og.init(folder / f"graph-{history}", schema=SCHEMA)
    fill(graph, rows)
    keys = names()

    def work() -> None:
        graph.mutate(UPSERT, params={"name": next(keys), "n": 1})

    for _ in range(history):
        work()
    return work


def fill(graph: Graph, rows: pa.Table) -> None:
    """Write rows and the index through the storage layer. The load is not measured."""
    manifest, tables = graph.engine.manifest, Tables(graph.engine.manifest.root)
    before = manifest.snapshot().state.table("node:Person")
    assert before is not None
    added = stage.append(tables.open(before.ref), rows)
    assert added is not None
    built = index.build(stage.commit(added), [IndexSpec("id", LanceIndexKind.BTREE, "id_btree")])
    assert built is not None
    after = msgspec.structs.replace(before, version=stage.commit(built).ref.version, rows=len(rows))
    publish(manifest, Publication(CommitKind.LOAD, tables=(after,)))


def bare_merge(folder: Path, rows: pa.Table, *, history: int) -> Callable[[], object]:
    held: list[Any] = [lance.write_dataset(rows, str(folder / f"bare-{history}"))]
    held[0].create_scalar_index("id", "BTREE")
    keys = names()

    def work() -> None:
        name = next(keys)
        row = pa.table({"id": [name], "n": pa.array([1], pa.int64()), "name": [name]})
        held[0].merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(row)

    for _ in range(history):
        work()
    return work


def kuzu_merge(folder: Path, rows: pa.Table) -> Callable[[], object]:
    import kuzu

    pq.write_table(rows, folder / "people.parquet")
    connection = kuzu.Connection(kuzu.Database(str(folder / "kuzu")))
    connection.execute("CREATE NODE TABLE Person(id STRING PRIMARY KEY, n INT64, name STRING)")
    connection.execute(f'COPY Person FROM "{folder / "people.parquet"}"')
    keys = names()

    def work() -> None:
        connection.execute("MERGE (p:Person {id: $id}) SET p.n = $n", {"id": next(keys), "n": 1})

    return work


def lancedb_merge(folder: Path, rows: pa.Table) -> Callable[[], object]:
    import lancedb

    table = lancedb.connect(folder / "lancedb").create_table("people", rows)
    table.create_scalar_index("id")
    keys = names()

    def work() -> None:
        name = next(keys)
        row = pa.table({"id": [name], "n": pa.array([1], pa.int64()), "name": [name]})
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(row)

    return work


def main(arguments: Sequence[str] = ()) -> None:
    argparse.ArgumentParser(prog="python -m bench.micro write", description=__doc__).parse_args(arguments)
    rows = people()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works: dict[str, Callable[[], object]] = {"bare publish (swap of 20 rows)": bare_swap(folder)}
        for history in HISTORY:
            works[f"bare merge_insert, {history} commits"] = bare_merge(folder, rows, history=history)
            works[f"ours, {history} commits"] = ours(folder, rows, history=history)
        works["kuzu MERGE"] = kuzu_merge(folder, rows)
        works["lancedb merge_insert"] = lancedb_merge(folder, rows)
        timings = interleaved(works, runs=RUNS)
    show(f"one-row keyed upsert into {ROWS:,} rows, median of interleaved runs", list(timings.values()))
    bare = timings[f"bare merge_insert, {HISTORY[0]} commits"].median_ms + timings["bare publish (swap of 20 rows)"].median_ms
    ratios = {f"ours, {history} commits": timings[f"ours, {history} commits"].median_ms / bare for history in HISTORY}
    for label, ratio in ratios.items():
        print(f"  {label:46s} {ratio:9.2f} times a bare merge_insert (at {HISTORY[0]} commits) + a bare publish   (target: at most 2)")
    save("micro-write", {"timings": [timing._asdict() for timing in timings.values()], "bare_ms": bare, "ratios": ratios})
