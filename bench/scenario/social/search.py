"""The nearest vectors, the most relevant texts, and both beside one hop -> their costs beside bare lance, lancedb, duckdb and kuzu.

Everything is asked for the same ten best people. Exact answers are compared before anything is timed; where an index is asked, the share of
the ten nearest that it finds is a result. duckdb and kuzu have no text index without a download, so they are asked for vectors only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import interleaved
from bench.scenario.social.data import VECTOR, Network
from bench.scenario.social.engines import SCHEMA

TOP = 10
QUERIES = 40
RUNS = 40
LANCE = "bare lance"
OURS = "omnigraph"
VECTORS = f"""query q($v: Vector({VECTOR})) {{
  match {{ $p: Person }} return {{ $p.name as name }} order {{ nearest($p.vec, $v) }} limit {TOP}
}}"""
TEXTS = f"query q($w: String) {{ match {{ $p: Person }} return {{ $p.name as name }} order {{ bm25($p.bio, $w) }} limit {TOP} }}"
HYBRID = f"""query q($n: String, $v: Vector({VECTOR}), $w: String) {{
  match {{ $p: Person {{ name: $n }}  $p knows $q }}
  return {{ $q.name as name }} order {{ rrf(nearest($q.vec, $v), bm25($q.bio, $w)) }} limit {TOP}
}}"""
HOP = "query q($n: String) { match { $p: Person { name: $n }  $p knows $q } return { $q.name as name } }"

Facts = dict[str, dict[str, float]]
Ask = Callable[[Any], list[str]]


def measure_searches(folder: Path, net: Network) -> Facts:
    """Return the milliseconds of every search, the seconds of every index, and the share of the nearest that it finds, by engine."""
    facts: Facts = {OURS: {}, LANCE: {}, "lancedb": {}, "duckdb": {}, "kuzu": {}}
    people = pq.read_table(net.people, columns=["name", "bio", "vec"])
    chance = np.random.default_rng(11)
    vectors = list(chance.standard_normal((QUERIES, VECTOR), np.float32))
    texts = people.column("bio").take(pa.array(chance.integers(0, len(people), QUERIES))).to_pylist()
    words = [" ".join(str(text).split()[:2]) for text in texts]
    ours, bare = _Ours(folder / "searched", net), _Lance(folder / "bare.lance", people)
    lancedb = _LanceDb(folder / "searched-lancedb", people)
    exact: dict[str, Ask] = {OURS: ours.nearest, LANCE: bare.nearest, "lancedb": lancedb.nearest}
    exact |= {"duckdb": _duck(net), "kuzu": _kuzu(folder / "searched-kuzu", net)}
    truth = [sorted(_nearest(people, vector)) for vector in vectors]
    for name, ask in exact.items():
        assert [sorted(ask(vector)) for vector in vectors[:5]] == truth[:5], f"{name} finds others"
    _time(facts, "vector_exact", exact, vectors)
    _time(facts, "text_scan", {OURS: ours.relevant}, words)
    for name, engine in ((OURS, ours), (LANCE, bare), ("lancedb", lancedb)):
        for what in ("vec", "bio"):
            began = time.perf_counter()
            engine.index(what)
            facts[name][f"index_{what}_s"] = time.perf_counter() - began
    indexed: dict[str, Ask] = {OURS: ours.nearest, LANCE: bare.nearest, "lancedb": lancedb.nearest}
    for name, ask in indexed.items():
        found = [len(set(ask(vector)) & set(best)) for vector, best in zip(vectors, truth, strict=True)]
        facts[name]["recall"] = sum(found) / (TOP * len(found))
    _time(facts, "vector_indexed", indexed, vectors)
    _time(facts, "text_indexed", {OURS: ours.relevant, LANCE: bare.relevant, "lancedb": lancedb.relevant}, words)
    names = net.names.take(pa.array(chance.integers(0, len(net.names), QUERIES))).to_pylist()
    hybrids = list(zip(names, vectors, words, strict=True))
    _time(facts, "hybrid", {OURS: lambda each: ours.hybrid(*each)}, hybrids)
    _time(facts, "hop", {OURS: ours.hop}, names)
    return facts


def _time(facts: Facts, question: str, asks: dict[str, Ask], values: Sequence[Any]) -> None:
    def work(ask: Ask) -> Callable[[], object]:
        every: Iterator[Any] = cycle(values)
        return lambda: ask(next(every))

    timings = interleaved({name: work(ask) for name, ask in asks.items()}, runs=RUNS, warm=3)
    for name, timing in timings.items():
        facts[name] |= {f"{question}_ms": timing.median_ms, f"{question}_cpu_ms": timing.cpu_ms}
    print(question, {name: (round(each.median_ms, 2), round(each.cpu_ms, 2)) for name, each in timings.items()}, "ms, CPU ms", flush=True)


def _nearest(people: pa.Table, vector: Any) -> list[str]:
    matrix = people.column("vec").combine_chunks().flatten().to_numpy().reshape(-1, VECTOR).astype(np.float64)
    cosines = matrix @ vector / np.linalg.norm(matrix, axis=1)
    return [str(name) for name in people.column("name").take(pa.array(np.argsort(-cosines)[:TOP])).to_pylist()]


class _Ours:
    """omnigraph, with indexes declared and built later."""

    def __init__(self, folder: Path, net: Network) -> None:
        import omnigraph as og

        schema = SCHEMA.replace("bio: String", "bio: String @index").replace(f"vec: Vector({VECTOR})", f"vec: Vector({VECTOR}) @index")
        self._graph = og.init(folder, schema=schema)
        self._graph.load({"Person": str(net.people), "Knows": str(net.knows)}, mode="append")
        self._built = False

    def index(self, what: str) -> None:
        """All indexes are built at once, those of vectors and texts included."""
        del what
        if not self._built:
            self._graph.ensure_indices()
        self._built = True

    def _names(self, text: str, **params: Any) -> list[str]:
        return [str(name) for name in self._graph.query(text, params=params).to_arrow().column("name").to_pylist()]

    def nearest(self, vector: Any) -> list[str]:
        return self._names(VECTORS, v=vector)

    def relevant(self, words: str) -> list[str]:
        return self._names(TEXTS, w=words)

    def hybrid(self, name: str, vector: Any, words: str) -> list[str]:
        return self._names(HYBRID, n=name, v=vector, w=words)

    def hop(self, name: str) -> list[str]:
        return self._names(HOP, n=name)


class _Lance:
    """A Lance dataset of the people, with the settings that omnigraph uses."""

    def __init__(self, folder: Path, people: pa.Table) -> None:
        import lance

        self._data = lance.write_dataset(people, str(folder))
        self._probing: dict[str, Any] = {"use_index": False}

    def index(self, what: str) -> None:
        if what == "vec":
            self._data.create_index("vec", "IVF_SQ", metric="cosine")
            self._probing = {"minimum_nprobes": 20, "refine_factor": 5}
        else:
            self._data.create_scalar_index("bio", "INVERTED")

    def nearest(self, vector: Any) -> list[str]:
        asked = {"column": "vec", "q": vector, "k": TOP, "metric": "cosine", **self._probing}
        return [str(name) for name in self._data.to_table(columns=["name", "_distance"], nearest=asked).column("name").to_pylist()]

    def relevant(self, words: str) -> list[str]:
        from lance.query import MatchQuery

        found = self._data.to_table(columns=["name", "_score"], full_text_query=MatchQuery(words, "bio"), limit=TOP)
        return [str(name) for name in found.column("name").to_pylist()]


class _LanceDb:
    """lancedb, with its own defaults."""

    def __init__(self, folder: Path, people: pa.Table) -> None:
        import lancedb

        self._table = lancedb.connect(str(folder)).create_table("person", people)

    def index(self, what: str) -> None:
        if what == "vec":
            self._table.create_index(metric="cosine", vector_column_name="vec", index_type="IVF_SQ")
        else:
            self._table.create_fts_index("bio", use_tantivy=False)

    def nearest(self, vector: Any) -> list[str]:
        search: Any = self._table.search(vector, vector_column_name="vec")
        found = search.distance_type("cosine").refine_factor(5).select(["name"]).limit(TOP)
        return [str(name) for name in found.to_arrow().column("name").to_pylist()]

    def relevant(self, words: str) -> list[str]:
        found = self._table.search(words, query_type="fts", fts_columns="bio").select(["name"]).limit(TOP)
        return [str(name) for name in found.to_arrow().column("name").to_pylist()]


def _duck(net: Network) -> Ask:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE person AS SELECT name, vec::FLOAT[{VECTOR}] AS vec FROM '{net.people}'")
    text = f"SELECT name FROM person ORDER BY array_cosine_distance(vec, ?::FLOAT[{VECTOR}]) LIMIT {TOP}"
    return lambda vector: [str(row[0]) for row in connection.execute(text, [vector.tolist()]).fetchall()]


def _kuzu(folder: Path, net: Network) -> Ask:
    import kuzu

    connection = kuzu.Connection(kuzu.Database(str(folder)))
    columns = f"name STRING PRIMARY KEY, age INT32, city STRING, bio STRING, vec FLOAT[{VECTOR}]"
    connection.execute(f"CREATE NODE TABLE Person({columns})")
    connection.execute(f'COPY Person FROM "{net.people}"')
    text = f"MATCH (p:Person) RETURN p.name ORDER BY array_cosine_similarity(p.vec, CAST($v, 'FLOAT[{VECTOR}]')) DESC LIMIT {TOP}"
    prepared = connection.prepare(text)

    def ask(vector: Any) -> list[str]:
        result: Any = connection.execute(prepared, {"v": vector.tolist()})
        return [str(row[0]) for row in result.get_all()]

    return ask
