"""A small world to load, in every form that a load takes, and what a graph shows of it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from omnigraph.graph import Graph
from omnigraph.ids import BranchName

SCHEMA = """
node Person {
  name: String @key
  born: I32?
  email: String? @unique
  mood: enum(glad, sad)?
  @range(born, 1800..2100)
}
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge Wrote: Person -> Note @card(0..2)
"""

FIRST = (
    {"type": "Person", "data": {"name": "Ada", "born": 1815, "email": "ada@x"}},
    {"type": "Person", "data": {"name": "Ben", "mood": "glad"}},
    {"type": "Note", "data": {"id": "n1", "text": "hello"}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1", "since": 1840}},
)
SECOND = (
    {"type": "Person", "data": {"name": "Cyd", "born": 1900}},
    {"type": "Person", "data": {"name": "Dee"}},
    {"edge": "Knows", "from": "Cyd", "to": "Dee", "data": {"id": "k2"}},
)
OVER = (
    {"type": "Person", "data": {"name": "Ada"}},
    {"type": "Person", "data": {"name": "Ben"}},
    {"type": "Person", "data": {"name": "Eve"}},
    {"edge": "Knows", "from": "Eve", "to": "Ada", "data": {"id": "k9"}},
)
"""Valid with every mode but append: it has ids that are there."""

Records = tuple[Mapping[str, Any], ...]


def ndjson(*records: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def tables(records: Records) -> dict[str, pa.Table]:
    """The same records as one table a type."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        ends = {end: record[end] for end in ("from", "to") if end in record}
        found.setdefault(str(record.get("type") or record["edge"]), []).append({**ends, **record["data"]})
    return {name: pa.Table.from_pylist(rows) for name, rows in found.items()}


def _file(folder: Path, name: str, body: bytes) -> str:
    path = folder / name
    path.write_bytes(body)
    return str(path)


def _parquet(records: Records, folder: Path) -> dict[str, str]:
    for name, table in tables(records).items():
        pq.write_table(table, folder / f"{name}.parquet")
    return {name: str(folder / f"{name}.parquet") for name in tables(records)}


def _csv(records: Records, folder: Path) -> dict[str, str]:
    for name, table in tables(records).items():
        pacsv.write_csv(table, folder / f"{name}.csv")
    return {name: str(folder / f"{name}.csv") for name in tables(records)}


SOURCES: Mapping[str, Callable[[Records, Path], Any]] = {
    "path": lambda records, folder: _file(folder, "data.ndjson", ndjson(*records)),
    "gzip": lambda records, folder: _file(folder, "data.ndjson.gz", gzip.compress(ndjson(*records))),
    "zstd": lambda records, folder: _file(folder, "data.ndjson.zst", pa.compress(ndjson(*records), "zstd", asbytes=True)),
    "file": lambda records, _: io.BytesIO(ndjson(*records)),
    "bytes": lambda records, _: ndjson(*records),
    "lines": lambda records, _: (json.dumps(record) for record in records),
    "records": lambda records, _: iter(records),
    "arrow": lambda records, _: tables(records),
    "parquet": _parquet,
    "csv": _csv,
}


def shown(graph: Graph, branch: str = "main") -> dict[str, list[dict[str, Any]]]:
    """Every row of every type, by alias, in the order of ids."""
    snapshot = graph.engine.manifest.snapshot(BranchName(branch))
    rows = {row.alias: graph.engine.tables.open(row.ref).scan().read_all().to_pylist() for row in snapshot.state.tables.values()}
    return {alias: sorted(found, key=lambda row: str(row["id"])) for alias, found in rows.items()}
