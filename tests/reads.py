"""Reads through the façade on small real graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.query import query
from omnigraph.exec.read.run import MEMORY_BYTES
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph, init
from omnigraph.lang import Source
from omnigraph.plan.ops import Route

SOCIETY = """
node Person { name: String @key  born: I32?  rank: I64?  score: F32?  height: F64?  nickName: String? @index  tags: [String]?
              at: DateTime?  day: Date?  alive: Bool?  grade: enum(a, b, c)?  votes: U64?  marks: [I32]?  vec: Vector(2)? }
node Film { slug: String @key  year: I32?  title: String? }
edge Knows: Person -> Person { since: I32?  note: String? }
edge ActedIn: Person -> Film { role: String? }
"""


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def film(slug: str, **values: object) -> dict[str, object]:
    return {"type": "Film", "data": {"slug": slug, **values}}


def knows(source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": "Knows", "from": source, "to": target, "data": values}


def acted(source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": "ActedIn", "from": source, "to": target, "data": values}


def graph_of(place: Path, *records: Mapping[str, object], schema: str = SOCIETY) -> Graph:
    graph = init(place / "graph.omni", schema=schema)
    if records:
        load(graph, *records)
    return graph


def load(graph: Graph, *records: Mapping[str, object], branch: str = "main") -> None:
    graph.load(b"\n".join(msgspec.json.encode(record) for record in records), "merge", branch=branch)


def text_of(body: str) -> str:
    """`($x: I32) match ...` declares parameters."""
    head, rest = body.split(") ", 1) if body.startswith("(") else ("(", body)
    return f"query q{head}) {{ {rest} }}"


def ask(
    graph: Graph, body: str, params: Mapping[str, object] | None = None, *, branch: str = "main", at: Any = None
) -> list[tuple[Any, ...]]:
    """The rows of a read, by position, in its order."""
    return list(graph.query(text_of(body), params=params, branch=branch, at=at).tuples())


def bag(
    graph: Graph, body: str, params: Mapping[str, object] | None = None, *, branch: str = "main", at: Any = None
) -> list[tuple[Any, ...]]:
    """The rows of a read whose order is left open."""
    return sorted(ask(graph, body, params, branch=branch, at=at), key=repr)


def routed(graph: Graph, body: str, route: Route, *, memory_bytes: int = MEMORY_BYTES) -> list[tuple[Any, ...]]:
    """The rows when every link is followed one way, whatever the plan chose."""
    ask = QueryCall(Source(text_of(body), "query.gq"), None, None, 0)
    snapshot = graph.engine.manifest.snapshot()  # below the façade, which has no such choice
    result = query(graph.engine, ask, snapshot, watch=Watch(), route=route, memory_bytes=memory_bytes)
    return sorted(result.tuples(), key=repr)
