"""A small graph with every type of property, in many fragments, some of its rows changed or gone; and what it shows."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.graph import Graph

SCHEMA = """
node Every {
  key: String @key
  text: String? @index  flag: Bool?  small: I32? @index  wide: I64?  count: U32?  huge: U64?  half: F32?  real: F64?
  day: Date? @index  at: DateTime?  mood: enum(glad, sad)?
  texts: [String]?  numbers: [U64]?  times: [DateTime]?  vec: Vector(2)?  data: Blob?
}
node Likes { word: String }
node Nobody { name: String @key  vec: Vector(2)? }
edge Link: Every -> Every { weight: F64? }
edge Likes: Every -> Every
"""

TEXTS = ("", "a", "ab", "ABC", "a'b", 'a"b', "a\\b", "a%b_", "zoë", "日本", "\U0001f600", "a\nb", "line\u2028end", "--", "`")
WHOLE = {
    "small": (-(2**31), -1, 0, 1, 7, 2**31 - 1),
    "wide": (-(2**63), -5, 0, 2**53 + 1, 2**63 - 1),
    "count": (0, 1, 2**31, 2**32 - 1),
    "huge": (0, 1, 2**63, 2**64 - 1),
}
FLOATS = (-1.5, -0.0, 0.0, 0.1, 2.0**53, 1e300)
_TIME = pa.timestamp("us")
"""Spark gives times in the session's zone, which is UTC, without saying so."""
_SPARK = {
    pa.uint64(): pa.decimal128(20, 0),
    pa.list_(pa.uint64()): pa.list_(pa.decimal128(20, 0)),
    pa.date64(): _TIME,
    pa.list_(pa.date64()): pa.list_(_TIME),
}
DAYS = (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31))
TIMES = tuple(datetime(year, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC) for year in (1, 1969, 1970, 2024, 9999))


def records(rng: random.Random, keys: range) -> Iterator[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.25 else value

    for at in keys:
        values = {
            "text": maybe(rng.choice(TEXTS)),
            "flag": maybe(rng.random() < 0.5),
            **{name: maybe(rng.choice(pool)) for name, pool in WHOLE.items()},
            "half": maybe(rng.choice((-1.5, -0.0, 0.0, 0.1))),
            "real": maybe(rng.choice(FLOATS)),
            "day": maybe(rng.choice(DAYS).isoformat()),
            "at": maybe(rng.choice(TIMES).isoformat().replace("+00:00", "Z")),
            "mood": maybe(rng.choice(("glad", "sad"))),
            "texts": maybe(rng.choices(TEXTS, k=rng.randrange(3))),
            "numbers": maybe(rng.choices(WHOLE["huge"], k=rng.randrange(3))),
            "times": maybe(["2020-01-01T00:00:00.001Z"] * rng.randrange(3)),
            "vec": maybe([1.5, float(at)]),
            "data": maybe("base64:" + base64.b64encode(bytes(range(at))).decode()),
        }
        yield {"type": "Every", "data": {"key": f"k{at:03d}", **values}}


def link(source: int, target: int, name: str = "Link", **values: object) -> dict[str, Any]:
    return {"edge": name, "from": f"k{source:03d}", "to": f"k{target:03d}", "data": {"id": f"{name}-{source}-{target}", **values}}


def make_world(place: Path) -> Graph:
    """Three loads, so three fragments a table; indexes over the first two; then rows changed and gone."""
    rng = random.Random(7)
    graph = og.init(place / "world.omni", schema=SCHEMA)
    graph.load([*records(rng, range(25)), link(0, 1, weight=0.5), link(0, 1, "Likes"), {"type": "Likes", "data": {"word": "x"}}])
    graph.load([*records(rng, range(25, 40)), link(30, 3)])
    graph.ensure_indices()
    graph.load([*records(rng, range(40, 60)), link(40, 59, weight=-0.0)])
    graph.load([*records(rng, range(5, 9))], "merge")
    graph.mutate('query gone() { delete Every where key = "k010" }')
    return graph


def stored(graph: Graph, alias: str, branch: str = "main", *, at: Any = None) -> list[dict[str, Any]]:
    """The rows of a type, read without Spark, in Spark's Python types and in the order of ids."""
    row = graph.engine.snapshot(branch, at).state.table(alias)
    assert row is not None
    table = graph.engine.tables.open(row.ref).scan().read_all()
    table = table.cast(pa.schema([field.with_type(_SPARK.get(field.type, field.type)) for field in table.schema]))
    return sorted(table.to_pylist(), key=lambda one: str(one["id"]))
