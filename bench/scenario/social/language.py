"""Conditions, optional matches, distinct counts, shortest paths and match-driven updates -> their costs beside kuzu, duckdb and igraph.

Every question is asked in the language of each engine. The answers are compared before anything is timed: tables as sets of rows,
the number of hops of shortest paths, and the sum of what an update changed. igraph searches the same edges as arrays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from bench.report import interleaved
from bench.scenario.social.data import Network

PAIRS = 100
HOPS = 10
UPDATED = 10_000
RUNS = {"paths": 3, "update": 5}
READ_RUNS = 15
IGRAPH = "igraph"


class Asked(Protocol):
    """An engine that answers a query in its own language with a table, and takes a statement."""

    key: str

    def __init__(self, folder: Path, *, writes: bool = False) -> None: ...

    def table(self, text: str, parameters: dict[str, Any] | None = None) -> pa.Table: ...

    def change(self, text: str) -> None: ...

    def close(self) -> None: ...


class Texts(NamedTuple):
    """One question in three languages; the fields are the keys of the engines."""

    ours: str
    kuzu: str
    duck: str

    def of(self, engine: Asked) -> str:
        return str(getattr(self, engine.key))


CITIES = "['city-001', 'city-017', 'city-042', 'city-055', 'city-099']"
READS = {
    "conditions": Texts(
        f"""match {{ $p: Person  ($p.age < 20 or $p.age > 85 or $p.city in {CITIES.replace("'", '"')}) }}
            return {{ $p.name as name, $p.age as age }}""",
        f"MATCH (p:Person) WHERE p.age < 20 OR p.age > 85 OR p.city IN {CITIES} RETURN p.name AS name, p.age AS age",
        f"SELECT name, age FROM person WHERE age < 20 OR age > 85 OR city IN {CITIES.replace('[', '(').replace(']', ')')}",
    ),
    "optional": Texts(
        """match { $p: Person  $p.age < 40  optional { $p knows $q  $q.age > 60 } }
           return { $p.city as city, count(*) as rows, count($q) as met, max($q.age) as oldest }""",
        "MATCH (p:Person) WHERE p.age < 40 OPTIONAL MATCH (p)-[:Knows]->(q:Person) WHERE q.age > 60 "
        "RETURN p.city AS city, count(*) AS rows, count(q) AS met, max(q.age) AS oldest",
        """SELECT p.city AS city, count(*) AS rows, count(q.name) AS met, max(q.age) AS oldest FROM person p
           LEFT JOIN (SELECT k.src, q.name, q.age FROM knows k JOIN person q ON q.name = k.dst WHERE q.age > 60) q ON q.src = p.name
           WHERE p.age < 40 GROUP BY p.city""",
    ),
    "distinct": Texts(
        "match { $p knows $q  $p: Person } return { count(distinct $q) as n }",
        "MATCH (:Person)-[:Knows]->(q:Person) RETURN count(DISTINCT q.name) AS n",
        "SELECT count(DISTINCT dst) AS n FROM knows",
    ),
    "distinct_by_group": Texts(
        "match { $p: Person  $p $k: knows $q } return { $p.city as city, count(distinct $q) as people, count(distinct $k.since) as years }",
        "MATCH (p:Person)-[k:Knows]->(q:Person) RETURN p.city AS city, count(DISTINCT q.name) AS people, count(DISTINCT k.since) AS years",
        """SELECT p.city AS city, count(DISTINCT k.dst) AS people, count(DISTINCT k.since) AS years
           FROM knows k JOIN person p ON p.name = k.src GROUP BY p.city""",
    ),
}
SHORTEST = Texts(
    f"""query q($a: String, $b: String) {{
          match {{ $s: Person {{ name: $a }}  $t: Person {{ name: $b }}  path $w = $s knows{{1,{HOPS}}} $t }}
          return {{ length($w) as hops, nodes($w) as via }} }}""",
    f"""MATCH w = (s:Person {{name: $a}})-[:Knows* SHORTEST 1..{HOPS}]->(t:Person {{name: $b}})
        RETURN length(w) AS hops, properties(nodes(w), 'name') AS via""",
    f"""WITH RECURSIVE walk(node, hops) AS (SELECT $a, 0 UNION
          SELECT k.dst, w.hops + 1 FROM walk w JOIN knows k ON k.src = w.node
          WHERE w.hops < {HOPS} AND NOT EXISTS (SELECT 1 FROM walk WHERE node = $b))
        SELECT min(hops) AS hops FROM walk WHERE node = $b HAVING count(*) > 0""",
)
LAST = f"person-{UPDATED:08d}"
UPDATE = Texts(
    f'match {{ $p: Person  $p.name < "{LAST}" }} update $p set {{ age: $p.age + 1 }}',
    f"MATCH (p:Person) WHERE p.name < '{LAST}' SET p.age = p.age + 1",
    f"UPDATE person SET age = age + 1 WHERE name < '{LAST}'",
)
AGES = Texts(
    "match { $p: Person } return { sum($p.age) as n }",
    "MATCH (p:Person) RETURN sum(p.age) AS n",
    "SELECT sum(age) AS n FROM person",
)

Facts = dict[str, dict[str, float]]


def measure_reads(engines: dict[str, Asked], net: Network) -> Facts:
    """Return the milliseconds of every read, by engine."""
    facts: Facts = {name: {} for name in (*engines, IGRAPH)}
    for question, texts in READS.items():
        _agree(question, {name: engine.table(texts.of(engine)) for name, engine in engines.items()})
        works: dict[str, Callable[[], object]] = {name: _asking(engine, texts) for name, engine in engines.items()}
        _time(facts, question, works, READ_RUNS)
    searches: dict[str, Callable[[], list[FoundPath]]] = {name: _searching(engine, net) for name, engine in engines.items()}
    searches[IGRAPH] = _in_igraph(net)
    _agree_on_paths({name: search() for name, search in searches.items()}, net)
    _time(facts, "shortest", dict(searches), RUNS["paths"])
    return facts


def measure_updates(engines: dict[str, Asked], net: Network) -> Facts:
    """Return the milliseconds of an update of `UPDATED` rows, or of all if there are fewer, by engine."""
    facts: Facts = {name: {} for name in engines}
    before = {name: engine.table(AGES.of(engine)) for name, engine in engines.items()}
    _time(facts, "update", {name: _changing(engine) for name, engine in engines.items()}, RUNS["update"])
    after = {name: engine.table(AGES.of(engine)) for name, engine in engines.items()}
    _agree("the sum of all ages", after)
    changed = {name: int(after[name].column("n")[0].as_py()) - int(before[name].column("n")[0].as_py()) for name in engines}
    assert set(changed.values()) == {min(UPDATED, len(net.names)) * RUNS["update"]}, f"rows changed: {changed}"
    return facts


def _time(facts: Facts, question: str, works: dict[str, Callable[[], object]], runs: int) -> None:
    timings = interleaved(works, runs=runs, warm=0)  # they have answered once, to be compared
    for name, timing in timings.items():
        facts[name] |= {f"{question}_ms": timing.median_ms, f"{question}_cpu_ms": timing.cpu_ms}
    print(question, {name: f"{timing.median_ms:.2f} (CPU {timing.cpu_ms:.2f})" for name, timing in timings.items()}, flush=True)


def _asking(engine: Asked, texts: Texts) -> Callable[[], object]:
    return lambda: engine.table(texts.of(engine))


def _changing(engine: Asked) -> Callable[[], object]:
    return lambda: engine.change(UPDATE.of(engine))


def _agree(question: str, answers: dict[str, pa.Table]) -> None:
    """Check that all tables have the same rows, in any order."""
    rows = {name: sorted(map(tuple, (row.values() for row in table.to_pylist()))) for name, table in answers.items()}
    first = next(iter(rows.values()))
    assert first, f"{question} has no answer"
    different = [name for name, found in rows.items() if found != first]
    assert not different, f"{question}: {different} differ from {next(iter(rows))}"


# -- shortest paths

FoundPath = tuple[int, Sequence[Any] | None]
"""The number of hops, -1 if there is no path, and the names or positions of its nodes if the engine returns them."""


def _pairs(net: Network) -> list[tuple[int, int]]:
    drawn = np.random.default_rng(11).choice(len(net.names), (2, PAIRS), replace=False)
    return list(zip(drawn[0].tolist(), drawn[1].tolist(), strict=True))


def _searching(engine: Asked, net: Network) -> Callable[[], list[FoundPath]]:
    names = [(net.names[a].as_py(), net.names[b].as_py()) for a, b in _pairs(net)]
    text = SHORTEST.of(engine)

    def search() -> list[FoundPath]:
        found = []
        for a, b in names:
            table = engine.table(text, {"a": a, "b": b})
            via = table.column("via")[0].as_py() if len(table) and "via" in table.column_names else None
            found.append((table.column("hops")[0].as_py() if len(table) else -1, via))
        return found

    return search


def _in_igraph(net: Network) -> Callable[[], list[FoundPath]]:
    import igraph

    graph = igraph.Graph(n=len(net.names), edges=np.stack([net.sources, net.targets], axis=1), directed=True)
    pairs = _pairs(net)

    def search() -> list[FoundPath]:
        found = []
        for a, b in pairs:
            via = graph.get_shortest_path(a, b, mode="out", output="vpath")
            found.append((len(via) - 1, via))
        return found

    return search


def _agree_on_paths(answers: dict[str, list[FoundPath]], net: Network) -> None:
    """Check that the distances are equal, and that every path begins and ends where it should and follows edges."""
    position = {name: at for at, name in enumerate(net.names.to_pylist())}
    edges = set(zip(net.sources.tolist(), net.targets.tolist(), strict=True))
    wanted = [hops for hops, _ in answers[IGRAPH]]
    for name, found in answers.items():
        assert [hops for hops, _ in found] == wanted, f"distances of {name} differ from {IGRAPH}"
        for pair, (hops, via) in zip(_pairs(net), found, strict=True):
            if via is None or hops < 0:
                continue
            nodes = [position[node] if isinstance(node, str) else node for node in via]
            assert (nodes[0], nodes[-1], len(nodes)) == (*pair, hops + 1), f"{name} has no path of {pair}"
            assert all(hop in edges for hop in pairwise(nodes)), f"{name} has no edge of {pair}"
