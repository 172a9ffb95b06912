"""A million nodes and four million edges of NDJSON -> one validated commit in one process; beside duckdb, which reads the same file and
writes the same rows as Lance datasets without checks. Targets: at most 2.5 times the CPU of duckdb, less than 2 GB of memory.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.child import Cost, cost_of
from bench.report import save

NODES = 1_000_000
EDGES = 4_000_000
CHUNK = 250_000
SCHEMA = """
node Person {
  name: String @key
  age: I32
  status: enum(active, idle, banned)
  score: F64?
  city: String?
  @range(age, 0..130)
}
edge Knows: Person -> Person {
  since: I32?
  weight: F64
}
"""


def lines(nodes: int, edges: int, *, seed: int = 7) -> Iterator[pa.Array]:
    """Yield the lines of the file in chunks: people first, then edges."""
    chance = np.random.default_rng(seed)
    cities = pa.array(["Berlin", "Nairobi", "Quito", "Osaka", "Oslo"])
    statuses = pa.array(["active", "idle", "banned"])
    for first in range(0, nodes, CHUNK):
        n = min(CHUNK, nodes - first)
        yield pc.binary_join_element_wise(
            '{"type":"Person","data":{"name":"',
            _names(np.arange(first, first + n)),
            '","age":',
            _texts(chance.integers(0, 131, n)),
            ',"status":"',
            statuses.take(pa.array(chance.integers(0, 3, n))),
            '","score":',
            _texts(np.round(chance.random(n) * 100, 3)),
            ',"city":"',
            cities.take(pa.array(chance.integers(0, 5, n))),
            '"}}\n',
            "",
        )
    for first in range(0, edges, CHUNK):
        n = min(CHUNK, edges - first)
        yield pc.binary_join_element_wise(
            '{"edge":"Knows","from":"',
            _names(chance.integers(0, nodes, n)),
            '","to":"',
            _names(chance.integers(0, nodes, n)),
            '","data":{"since":',
            _texts(chance.integers(1950, 2026, n)),
            ',"weight":',
            _texts(np.round(chance.random(n), 3)),
            "}}\n",
            "",
        )


def _names(numbers: Any) -> pa.Array:
    return pc.binary_join_element_wise("person-", pc.utf8_lpad(_texts(numbers), width=8, padding="0"), "")


def _texts(values: Any) -> pa.Array:
    return pa.array(values).cast(pa.string())


def write_file(path: Path, *, nodes: int, edges: int) -> None:
    with path.open("wb") as file:
        for chunk in lines(nodes, edges):
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)
            file.write(memoryview(chunk.buffers()[2])[offsets[0] : offsets[len(chunk)]])


def ours(graph: str, file: str) -> dict[str, int]:
    import omnigraph as og

    receipt = og.init(graph, schema=SCHEMA).load(file, mode="append")
    return {**receipt.nodes, **receipt.edges}


def duckdb_to_lance(folder: str, file: str) -> dict[str, int]:
    """Read the same rows with duckdb and write them with Lance. Keys, endpoints and ranges are not checked."""
    import duckdb
    import lance

    connection = duckdb.connect()
    columns = (
        "{type: 'VARCHAR', edge: 'VARCHAR', \"from\": 'VARCHAR', \"to\": 'VARCHAR', data: 'STRUCT(name VARCHAR, age INTEGER, "
        "status VARCHAR, score DOUBLE, city VARCHAR, since INTEGER, weight DOUBLE)'}"
    )
    connection.execute(f"CREATE TABLE raw AS SELECT * FROM read_json('{file}', format = 'newline_delimited', columns = {columns})")
    selects = {
        "Person": "SELECT data.name AS id, data.age, data.city, data.name, data.score, data.status FROM raw WHERE type = 'Person'",
        "Knows": 'SELECT "from" AS src, "to" AS dst, data.since, data.weight FROM raw WHERE edge = \'Knows\'',
    }
    counts = {}
    for name, select in selects.items():
        reader = connection.sql(select).to_arrow_reader(100_000)
        counts[name] = lance.write_dataset(reader, f"{folder}/{name}").count_rows()
    return counts


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario load", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--edges", type=int, default=EDGES)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "people.ndjson"
        write_file(file, nodes=chosen.nodes, edges=chosen.edges)
        costs = [
            cost_of("duckdb -> lance, unchecked", duckdb_to_lance, str(folder / "duckdb"), str(file)),
            cost_of("omnigraph, one commit", ours, str(folder / "graph"), str(file)),
        ]
        _show(costs, size_mb=file.stat().st_size / 1e6)
    theirs, mine = costs
    assert theirs.result == mine.result, "both must have stored the same rows"
    ratio = mine.cpu_seconds / theirs.cpu_seconds
    print(f"  CPU {ratio:.2f} times that of duckdb (target: at most 2.5); peak {mine.peak_mb:,.0f} MB (target: below 2,048)")
    save("scenario-load", {"nodes": chosen.nodes, "edges": chosen.edges, "costs": [cost._asdict() for cost in costs], "cpu_ratio": ratio})


def _show(costs: Sequence[Cost], *, size_mb: float) -> None:
    print(f"load of {size_mb:,.0f} MB of NDJSON")
    for cost in costs:
        print(f"  {cost.name:30s} wall {cost.wall_seconds:7.2f} s   CPU {cost.cpu_seconds:7.2f} s   peak {cost.peak_mb:7,.0f} MB")
