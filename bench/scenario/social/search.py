"""The nearest vectors, the most relevant texts, and both beside one hop -> their costs beside bare lance, lancedb, duckdb and kuzu.

Everything is asked for the same ten best people. Exact answers are compared before anything is timed, the neighbours of all people that are
asked for among them, so that a hop and what is ranked behind it find the same memory filled. Where an index is asked, the share of the ten
nearest that it finds is a result. duckdb is asked by index only if packages of its extensions are installed that fit it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

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
    lancedb = _LanceDb(folder / "searched-lancedb", people, net)
    duck, kuzu = _Duck(net), _Kuzu(folder / "searched-kuzu", net)
    exact: dict[str, Ask] = {
        OURS: ours.nearest,
        LANCE: bare.nearest,
        "lancedb": lancedb.nearest,
        "duckdb": duck.nearest,
        "kuzu": kuzu.nearest,
    }
    truth = [sorted(_nearest(people, vector)) for vector in vectors]
    for name, ask in exact.items():
        assert [sorted(ask(vector)) for vector in vectors[:5]] == truth[:5], f"{name} finds others"
    _time(facts, "vector_exact", exact, vectors)
    _time(facts, "text_scan", {OURS: ours.relevant}, words)
    peers: dict[str, _Searched] = {OURS: ours, LANCE: bare, "lancedb": lancedb, "kuzu": kuzu}
    if duck.extended:
        peers["duckdb"] = duck
    for name, engine in peers.items():
        for what in ("vec", "bio"):
            began = time.perf_counter()
            engine.index(what)
            facts[name][f"index_{what}_s"] = time.perf_counter() - began
    for name, engine in peers.items():
        found = [len(set(engine.nearest(vector)) & set(best)) for vector, best in zip(vectors, truth, strict=True)]
        facts[name]["recall"] = sum(found) / (TOP * len(found))
    _time(facts, "vector_indexed", {name: engine.nearest for name, engine in peers.items()}, vectors)
    fresh = ours.again()  # as a new process finds it: without the words that the scans above left in memory
    _time(facts, "text_indexed", {**{name: engine.relevant for name, engine in peers.items()}, OURS: fresh.relevant}, words)
    names = net.names.take(pa.array(chance.integers(0, len(net.names), QUERIES))).to_pylist()
    hybrids = list(zip(names, vectors, words, strict=True))
    hopping: dict[str, _Hopping] = {OURS: ours, "lancedb": lancedb, "kuzu": kuzu, **({"duckdb": duck} if duck.extended else {})}
    for name, engine in hopping.items():
        assert all(sorted(engine.hop(each)) == sorted(ours.hop(each)) for each in names), f"{name} has other neighbours"
    _time(facts, "hybrid", {name: partial(_asked, engine.hybrid) for name, engine in hopping.items()}, hybrids)
    _time(facts, "hop", {name: engine.hop for name, engine in hopping.items()}, names)
    for name in hopping:
        parts = sum(facts[name][f"{part}_cpu_ms"] for part in ("hop", "vector_indexed", "text_indexed"))
        facts[name]["hybrid_of_parts"] = facts[name]["hybrid_cpu_ms"] / parts
    return facts


def _asked(hybrid: Callable[[str, Any, str], list[str]], each: tuple[str, Any, str]) -> list[str]:
    return hybrid(*each)


class _Searched(Protocol):
    """An engine with indexes on vectors and texts."""

    def index(self, what: str) -> None: ...
    def nearest(self, vector: Any) -> list[str]: ...
    def relevant(self, words: str) -> list[str]: ...


class _Hopping(_Searched, Protocol):
    """One that has the edges too."""

    def hop(self, name: str) -> list[str]: ...
    def hybrid(self, name: str, vector: Any, words: str) -> list[str]: ...


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

    def again(self) -> _Ours:
        """The same graph, opened again."""
        import omnigraph as og

        other = _Ours.__new__(_Ours)
        other._graph, other._built = og.open(self._graph.uri), True
        return other

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

    def __init__(self, folder: Path, people: pa.Table, net: Network) -> None:
        import lancedb

        database = lancedb.connect(str(folder))
        self._table = database.create_table("person", people)
        self._knows = database.create_table("knows", pq.read_table(net.knows).rename_columns(["source", "target", "since"]))
        self._knows.create_scalar_index("source")
        self._table.create_scalar_index("name")

    def index(self, what: str) -> None:
        if what == "vec":
            self._table.create_index(metric="cosine", vector_column_name="vec", index_type="IVF_SQ")
        else:
            self._table.create_fts_index("bio", use_tantivy=False)

    def nearest(self, vector: Any) -> list[str]:
        search: Any = self._table.search(vector, vector_column_name="vec")
        found = search.distance_type("cosine").refine_factor(5).select(["name", "_distance"]).limit(TOP)
        return [str(name) for name in found.to_arrow().column("name").to_pylist()]

    def relevant(self, words: str) -> list[str]:
        found = self._table.search(words, query_type="fts", fts_columns="bio").select(["name", "_score"]).limit(TOP)
        return [str(name) for name in found.to_arrow().column("name").to_pylist()]

    def hop(self, name: str) -> list[str]:
        found = self._knows.search().where(f"source = '{name}'").select(["target"]).limit(len(self._knows))
        return [str(target) for target in found.to_arrow().column("target").to_pylist()]

    def hybrid(self, name: str, vector: Any, words: str) -> list[str]:
        """Both searches among the neighbours, which a filter names."""
        if not (neighbours := self.hop(name)):
            return []
        where = f"name IN ({', '.join(repr(each) for each in neighbours)})"
        search: Any = self._table.search(vector, vector_column_name="vec")
        near = search.distance_type("cosine").where(where, prefilter=True)
        best: Any = self._table.search(words, query_type="fts", fts_columns="bio").where(where, prefilter=True)
        arms = [arm.select(["name"]).limit(TOP).to_arrow().column("name").to_pylist() for arm in (near, best)]
        return _fused(*arms)


class _Duck:
    """duckdb in memory, with its extensions for texts and vectors if packages of them are installed that fit it."""

    def __init__(self, net: Network) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._connection.execute(f"CREATE TABLE person AS SELECT name, bio, vec::FLOAT[{VECTOR}] AS vec FROM '{net.people}'")
        self._connection.execute(f'CREATE TABLE knows AS SELECT "from" AS source, "to" AS target FROM \'{net.knows}\' ORDER BY source')
        self._connection.execute("CREATE INDEX by_source ON knows (source)")
        self.extended = self._load("fts") and self._load("vss")

    def _load(self, name: str) -> bool:
        import duckdb

        found = find_spec(f"duckdb_extension_{name}")
        places = [] if found is None or found.origin is None else list(Path(found.origin).parent.rglob(f"{name}.duckdb_extension"))
        if not places or f"v{duckdb.__version__}" not in places[0].parts:
            return False
        self._connection.execute(f"LOAD '{places[0]}'")
        return True

    def index(self, what: str) -> None:
        if what == "vec":
            self._connection.execute("CREATE INDEX by_vec ON person USING HNSW (vec) WITH (metric = 'cosine')")
        else:
            self._connection.execute("PRAGMA create_fts_index('person', 'name', 'bio', stemmer = 'porter', stopwords = 'english')")

    def _names(self, text: str, *params: Any) -> list[str]:
        return [str(row[0]) for row in self._connection.execute(text, list(params)).fetchall()]

    def nearest(self, vector: Any) -> list[str]:
        text = f"SELECT name FROM person ORDER BY array_cosine_distance(vec, ?::FLOAT[{VECTOR}]) LIMIT {TOP}"
        return self._names(text, vector.tolist())

    def relevant(self, words: str) -> list[str]:
        scored = "SELECT name, fts_main_person.match_bm25(name, ?) AS score FROM person"
        return self._names(f"SELECT name FROM ({scored}) WHERE score IS NOT NULL ORDER BY score DESC, name LIMIT {TOP}", words)

    def hop(self, name: str) -> list[str]:
        return self._names("SELECT target FROM knows WHERE source = ?", name)

    def hybrid(self, name: str, vector: Any, words: str) -> list[str]:
        """Reciprocal ranks of the best of each kind among the neighbours, as in ours."""
        return self._names(
            f"""WITH near AS (SELECT person.* FROM knows JOIN person ON target = name WHERE source = ?),
            arms AS (
              (SELECT name, row_number() OVER (ORDER BY array_cosine_distance(vec, ?::FLOAT[{VECTOR}]), name) AS place FROM near)
              UNION ALL
              (SELECT name, row_number() OVER (ORDER BY score DESC, name) AS place
               FROM (SELECT name, fts_main_person.match_bm25(name, ?) AS score FROM near) WHERE score IS NOT NULL))
            SELECT name FROM arms WHERE place <= {TOP} GROUP BY name ORDER BY sum(1.0 / (60 + place)) DESC, name LIMIT {TOP}""",
            name,
            vector.tolist(),
            words,
        )


class _Kuzu:
    """kuzu on a disk, with the extensions for texts and vectors that it brings along."""

    def __init__(self, folder: Path, net: Network) -> None:
        import kuzu

        self._connection = kuzu.Connection(kuzu.Database(str(folder)))
        columns = f"name STRING PRIMARY KEY, age INT32, city STRING, bio STRING, vec FLOAT[{VECTOR}]"
        self._connection.execute(f"CREATE NODE TABLE Person({columns})")
        self._connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
        self._connection.execute(f'COPY Person FROM "{net.people}"')
        self._connection.execute(f'COPY Knows FROM "{net.knows}"')
        self._connection.execute("LOAD fts")
        self._connection.execute("LOAD vector")
        self._indexed = False
        self._prepared: dict[str, Any] = {}

    def index(self, what: str) -> None:
        if what == "vec":
            self._connection.execute("CALL CREATE_VECTOR_INDEX('Person', 'by_vec', 'vec', metric := 'cosine')")
            self._indexed = True
        else:
            self._connection.execute("CALL CREATE_FTS_INDEX('Person', 'by_bio', ['bio'], stemmer := 'porter')")

    def _names(self, text: str, **params: Any) -> list[str]:
        if text not in self._prepared:
            self._prepared[text] = self._connection.prepare(text)
        result: Any = self._connection.execute(self._prepared[text], params)
        return [str(row[0]) for row in result.get_all()]

    def nearest(self, vector: Any) -> list[str]:
        asked = f"CAST($v, 'FLOAT[{VECTOR}]')"
        if self._indexed:
            text = f"CALL QUERY_VECTOR_INDEX('Person', 'by_vec', $v, {TOP}) RETURN node.name ORDER BY distance"
        else:
            text = f"MATCH (p:Person) RETURN p.name ORDER BY array_cosine_similarity(p.vec, {asked}) DESC LIMIT {TOP}"
        return self._names(text, v=vector.tolist())

    def relevant(self, words: str) -> list[str]:
        text = f"CALL QUERY_FTS_INDEX('Person', 'by_bio', $w, TOP := {TOP}) RETURN node.name ORDER BY score DESC"
        return self._names(text, w=words)

    def hop(self, name: str) -> list[str]:
        return self._names("MATCH (:Person {name: $n})-[:Knows]->(q:Person) RETURN q.name", n=name)

    def hybrid(self, name: str, vector: Any, words: str) -> list[str]:
        hop = "MATCH (:Person {name: $n})-[:Knows]->(q:Person)"
        similar = f"array_cosine_similarity(q.vec, CAST($v, 'FLOAT[{VECTOR}]'))"
        near = self._names(f"{hop} RETURN q.name ORDER BY {similar} DESC LIMIT {TOP}", n=name, v=vector.tolist())
        among = f"{hop} WITH collect(q.name) AS names CALL QUERY_FTS_INDEX('Person', 'by_bio', $w) WITH node, score, names"
        best = self._names(
            f"{among} WHERE list_contains(names, node.name) RETURN node.name ORDER BY score DESC LIMIT {TOP}", n=name, w=words
        )
        return _fused(near, best)


def _fused(*arms: list[str]) -> list[str]:
    """Reciprocal ranks, added."""
    scores: dict[str, float] = {}
    for arm in arms:
        for place, name in enumerate(arm, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (60 + place)
    return sorted(scores, key=lambda name: (-scores[name], name))[:TOP]
