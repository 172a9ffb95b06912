"""More than 2 GiB of ids -> one merge in bounded memory; and the cost of merges and deletes beside an append of the same rows.

Targets: a merge of 1M rows into 1M at most 3 times the CPU of their append; deleting half of 1M nodes with 4M edges at most 2 times
that of loading them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from bench.child import Cost, cost_of
from bench.report import save

ID_BYTES = 200
ROWS = 12_000_000
HELD = 100_000
CHUNK = 100_000
NODES = 1_000_000
SCHEMA = "node Item { key: String @key\n note: I64 }\nedge Next: Item -> Item { weight: I32? }"


def batches(first: int, rows: int, *, note: int, width: int = ID_BYTES) -> pa.RecordBatchReader:
    """Return a reader that generates items with ids of one width."""

    def parts() -> Iterator[pa.RecordBatch]:
        for start in range(first, first + rows, CHUNK):
            count = min(CHUNK, first + rows - start)
            yield pa.RecordBatch.from_arrays([texts(np.arange(start, start + count), width), pa.array(np.full(count, note))], schema=schema)

    schema = pa.schema([("key", pa.string()), ("note", pa.int64())])
    return pa.RecordBatchReader.from_batches(schema, parts())


def texts(numbers: object, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def merge_long_ids(place: str, rows: str) -> dict[str, int]:
    """Load some items, then merge these and many more. Returns the row counts."""
    graph, count = og.init(place, schema=SCHEMA), int(rows)
    held = min(HELD, count // 2)
    graph.load({"Item": batches(0, held, note=1)}, mode="append")
    graph.load({"Item": batches(0, count, note=2)}, mode="merge")
    asked = "query q() { match { $i: Item { note: %d } } return { count($i) as n } }"
    return {"held": held, "rows": count, "old": graph.query(asked % 1).rows[0]["n"], "new": graph.query(asked % 2).rows[0]["n"]}


def compare(place: str, nodes: str) -> dict[str, float]:
    """Return the CPU seconds of loads, merges and deletes of the same rows."""
    count, spent = int(nodes), {}

    def timed(name: str, work: Callable[[], object]) -> None:
        began = time.process_time()
        work()
        spent[name] = time.process_time() - began

    graph = og.init(f"{place}/merged", schema=SCHEMA)
    timed("append", lambda: graph.load({"Item": batches(0, count, note=1, width=26)}, mode="append"))
    timed("merge of existing rows", lambda: graph.load({"Item": batches(0, count, note=2, width=26)}, mode="merge"))
    timed("merge of new rows", lambda: graph.load({"Item": batches(count, count, note=3, width=26)}, mode="merge"))
    linked = og.init(f"{place}/deleted", schema=SCHEMA)
    ends = np.arange(4 * count)
    edges = {
        "id": texts(ends, 26),
        "from": texts(ends // 4, 26),
        "to": texts((ends * 7919 + 31) % count, 26),
        "weight": pa.array((ends % 100).astype(np.int32)),
    }
    data = {"Item": batches(0, count, note=1, width=26).read_all(), "Next": pa.table(edges)}
    timed("load with edges", lambda: linked.load(data, mode="append"))
    half = f"{count // 2:026d}"
    timed("delete half of the nodes", lambda: linked.mutate(f'query q() {{ delete Item where key < "{half}" }}'))
    return spent


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario upserts", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="ids in the large merge, each of 200 bytes")
    parser.add_argument("--nodes", type=int, default=NODES)
    options = parser.parse_args(arguments)
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        costs.append(cost_of(f"merge of {options.rows:,} ids of {ID_BYTES} bytes", merge_long_ids, f"{folder}/long", str(options.rows)))
    with tempfile.TemporaryDirectory() as folder:
        costs.append(cost_of(f"{options.nodes:,} nodes", compare, folder, str(options.nodes)))
    for cost in costs:
        print(f"{cost.name:45} {cost.wall_seconds:7.1f} s  {cost.cpu_seconds:7.1f} CPU s  {cost.peak_mb:7.0f} MB")
    spent = costs[1].result
    for name, seconds in spent.items():
        print(f"  {name:43} {seconds:7.2f} CPU s")
    for name in ("merge of existing rows", "merge of new rows"):
        print(f"  {name} / append: {spent[name] / spent['append']:.2f} (target 3)")
    print(f"  delete / load with edges: {spent['delete half of the nodes'] / spent['load with edges']:.2f} (target 2)")
    save("upserts", {"runs": [cost._asdict() for cost in costs]})
