"""The same queries in several engines -> numbers or ids, so that the results can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.scenario.social.data import VECTOR, Network

YOUNG, OLD = 30, 35
TOP = 10


class Engine(Protocol):
    """One engine with the network in it."""

    def one_hop(self, name: str) -> set[str]: ...

    def two_hops(self, name: str) -> set[str]:
        """Return the people within two hops, without the person itself."""
        ...

    def paths(self, names: Sequence[str]) -> int:
        """Return the number of two-hop paths from these people."""
        ...

    def within(self, names: Sequence[str]) -> int:
        """Return the number of pairs of one of these people and a person within two hops."""
        ...

    def report(self) -> list[tuple[str, int]]:
        """Return the number of acquaintances of people of some ages, by city."""
        ...


SCHEMA = f"""
node Person {{
  name: String @key
  age: I32
  city: String
  bio: String
  vec: Vector({VECTOR})
}}
edge Knows: Person -> Person {{
  since: I32
}}
"""
ONE_HOP = "query q($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.name as name } }"
TWO_HOPS = "query q($n: String) { match { $p: Person { name: $n } $p knows{1,2} $q } return { $q.name as name } }"
PATHS = "query q($names: [String]) { match { $p: Person $names contains $p.name $p knows $q $q knows $r } return { count($r) as n } }"
WITHIN = "query q($names: [String]) { match { $p: Person $names contains $p.name $p knows{1,2} $q } return { count($q) as n } }"
REPORT = f"""query q() {{
  match {{ $p: Person $p.age >= {YOUNG} $p.age < {OLD} $p knows $q }}
  return {{ $q.city as city count($p) as n }} order {{ n desc, city }} limit {TOP}
}}"""


class Ours:
    """omnigraph, through the public API."""

    key = "ours"

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        import omnigraph as og

        self._graph = og.open(folder, mode="rw" if writes else "r")

    @staticmethod
    def load(folder: str, people: str, knows: str) -> None:
        import omnigraph as og

        og.init(folder, schema=SCHEMA).load({"Person": people, "Knows": knows}, mode="append")

    @staticmethod
    def index(folder: str) -> None:
        import omnigraph as og

        og.open(folder).ensure_indices()

    def table(self, text: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        return self._graph.query(text, params=parameters).to_arrow()

    def change(self, text: str) -> None:
        self._graph.mutate(text)

    def close(self) -> None:
        """A graph holds nothing open that keeps others away."""

    def one_hop(self, name: str) -> set[str]:
        return set(self._graph.query(ONE_HOP, params={"n": name}).to_arrow().column("name").to_pylist())

    def two_hops(self, name: str) -> set[str]:
        return set(self._graph.query(TWO_HOPS, params={"n": name}).to_arrow().column("name").to_pylist())

    def paths(self, names: Sequence[str]) -> int:
        return int(self._graph.query(PATHS, params={"names": list(names)}).to_arrow().column("n")[0].as_py())

    def within(self, names: Sequence[str]) -> int:
        return int(self._graph.query(WITHIN, params={"names": list(names)}).to_arrow().column("n")[0].as_py())

    def report(self) -> list[tuple[str, int]]:
        return _pairs(self._graph.query(REPORT).to_arrow())


class Kuzu:
    """kuzu with a primary key, through prepared statements."""

    key = "kuzu"

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        import kuzu

        self._database = kuzu.Database(str(folder), read_only=not writes)
        self._connection = kuzu.Connection(self._database)
        self._texts: dict[str, Any] = {}
        # A recursive pattern takes twice as long.
        two_hops = (
            "MATCH (p:Person {name: $n})-[:Knows]->(q:Person) RETURN q.name AS name UNION "
            "MATCH (p:Person {name: $n})-[:Knows]->(:Person)-[:Knows]->(q:Person) WHERE q.name <> $n RETURN q.name AS name"
        )
        report = (
            f"MATCH (p:Person)-[:Knows]->(q:Person) WHERE p.age >= {YOUNG} AND p.age < {OLD} "
            f"RETURN q.city AS city, count(*) AS n ORDER BY n DESC, city LIMIT {TOP}"
        )
        within = (
            "MATCH (p:Person)-[:Knows*1..2]->(q:Person) WHERE p.name IN $names AND p.name <> q.name "
            "WITH DISTINCT p.name AS a, q.name AS b RETURN count(*)"
        )
        texts = {
            "one_hop": "MATCH (p:Person {name: $n})-[:Knows]->(q:Person) RETURN q.name",
            "two_hops": two_hops,
            "paths": "MATCH (p:Person)-[:Knows]->(:Person)-[:Knows]->(r:Person) WHERE p.name IN $names RETURN count(*)",
            "within": within,
            "report": report,
        }
        self._prepared = {key: self._connection.prepare(text) for key, text in texts.items()}

    @staticmethod
    def load(folder: str, people: str, knows: str) -> None:
        import kuzu

        connection = kuzu.Connection(kuzu.Database(folder))
        columns = f"name STRING PRIMARY KEY, age INT32, city STRING, bio STRING, vec FLOAT[{VECTOR}]"
        connection.execute(f"CREATE NODE TABLE Person({columns})")
        connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
        connection.execute(f'COPY Person FROM "{people}"')
        connection.execute(f'COPY Knows FROM "{knows}"')

    def table(self, text: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        if text not in self._texts:
            self._texts[text] = self._connection.prepare(text)
        result: Any = self._connection.execute(self._texts[text], parameters or {})
        return result.get_as_arrow()

    def change(self, text: str) -> None:
        self._connection.execute(text)

    def close(self) -> None:
        self._connection.close()
        self._database.close()

    def _rows(self, key: str, parameters: dict[str, Any] | None = None) -> list[Any]:
        result: Any = self._connection.execute(self._prepared[key], parameters or {})  # one statement gives one result
        return list(result.get_all())

    def one_hop(self, name: str) -> set[str]:
        return {row[0] for row in self._rows("one_hop", {"n": name})}

    def two_hops(self, name: str) -> set[str]:
        return {row[0] for row in self._rows("two_hops", {"n": name})}

    def paths(self, names: Sequence[str]) -> int:
        return int(self._rows("paths", {"names": list(names)})[0][0])

    def within(self, names: Sequence[str]) -> int:
        return int(self._rows("within", {"names": list(names)})[0][0])

    def report(self) -> list[tuple[str, int]]:
        return [(row[0], row[1]) for row in self._rows("report")]


class Duck:
    """duckdb: a primary key on people, an index on both ends of edges."""

    key = "duck"

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        import duckdb

        self._connection = duckdb.connect(str(folder), read_only=not writes)

    @staticmethod
    def load(folder: str, people: str, knows: str) -> None:
        import duckdb

        connection = duckdb.connect(folder)
        connection.execute(f"CREATE TABLE person(name VARCHAR PRIMARY KEY, age INTEGER, city VARCHAR, bio VARCHAR, vec FLOAT[{VECTOR}])")
        connection.execute(f"INSERT INTO person SELECT * FROM '{people}'")
        connection.execute(f"""CREATE TABLE knows AS SELECT "from" AS src, "to" AS dst, since FROM '{knows}'""")
        connection.close()

    @staticmethod
    def index(folder: str) -> None:
        import duckdb

        connection = duckdb.connect(folder)
        connection.execute("CREATE INDEX knows_src ON knows(src)")
        connection.execute("CREATE INDEX knows_dst ON knows(dst)")
        connection.close()

    def table(self, text: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        return self._connection.sql(text, params=parameters).to_arrow_table()

    def change(self, text: str) -> None:
        self._connection.execute(text)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, text: str, parameters: list[Any] | None = None) -> list[Any]:
        found: list[Any] = self._connection.execute(text, parameters or []).fetchall()
        return found

    def one_hop(self, name: str) -> set[str]:
        return {row[0] for row in self._rows("SELECT p.name FROM knows k JOIN person p ON p.name = k.dst WHERE k.src = ?", [name])}

    def two_hops(self, name: str) -> set[str]:
        text = """WITH near AS (SELECT dst FROM knows WHERE src = $1)
            SELECT dst FROM near UNION SELECT k.dst FROM near n JOIN knows k ON k.src = n.dst WHERE k.dst <> $1"""
        return {row[0] for row in self._rows(text, [name])}

    def paths(self, names: Sequence[str]) -> int:
        text = "SELECT count(*) FROM knows a JOIN knows b ON a.dst = b.src WHERE a.src IN (SELECT unnest(?))"
        return int(self._rows(text, [list(names)])[0][0])

    def within(self, names: Sequence[str]) -> int:
        text = """WITH near AS (SELECT src, dst FROM knows WHERE src IN (SELECT unnest(?)))
            SELECT count(*) FROM (SELECT src, dst FROM near UNION SELECT n.src, k.dst FROM near n JOIN knows k ON k.src = n.dst
            WHERE n.src <> k.dst)"""
        return int(self._rows(text, [list(names)])[0][0])

    def report(self) -> list[tuple[str, int]]:
        text = f"""SELECT q.city, count(*) AS n FROM person p JOIN knows k ON k.src = p.name JOIN person q ON q.name = k.dst
            WHERE p.age >= {YOUNG} AND p.age < {OLD} GROUP BY q.city ORDER BY n DESC, q.city LIMIT {TOP}"""
        return [(row[0], row[1]) for row in self._rows(text)]


class LanceTables:
    """lancedb: two tables with scalar indexes; a hop is a filter, and joins are left to Arrow."""

    def __init__(self, folder: Path) -> None:
        import lancedb

        database = lancedb.connect(str(folder))
        self._people, self._knows = database.open_table("person"), database.open_table("knows")

    @staticmethod
    def load(folder: str, people: str, knows: str) -> None:
        import lancedb

        database = lancedb.connect(folder)
        database.create_table("person", pq.read_table(people))
        database.create_table("knows", pq.read_table(knows).rename_columns(["src", "dst", "since"]))

    @staticmethod
    def index(folder: str) -> None:
        import lancedb

        database = lancedb.connect(folder)
        database.open_table("person").create_scalar_index("name")
        database.open_table("knows").create_scalar_index("src")

    def _next(self, names: Sequence[str]) -> pa.Table:
        listed = ", ".join(f"'{name}'" for name in names)
        return self._knows.search().where(f"src IN ({listed})").select(["src", "dst"]).limit(1 << 30).to_arrow()

    def one_hop(self, name: str) -> set[str]:
        return set(self._next([name]).column("dst").to_pylist())

    def two_hops(self, name: str) -> set[str]:
        near = self.one_hop(name)
        far = set(self._next(sorted(near)).column("dst").to_pylist()) if near else set()
        return (near | far) - {name}

    def paths(self, names: Sequence[str]) -> int:
        near = self._next(names)
        far = self._next(near.column("dst").unique().to_pylist())
        return len(near.join(far.rename_columns(["dst", "far"]), "dst", join_type="inner"))

    def within(self, names: Sequence[str]) -> int:
        near = self._next(names)
        far = self._next(near.column("dst").unique().to_pylist())
        paths = near.join(far.rename_columns(["dst", "far"]), "dst", join_type="inner").select(["src", "far"])
        both = pa.concat_tables([paths.rename_columns(["src", "dst"]), near])
        pairs = both.group_by(["src", "dst"]).aggregate([])
        return sum(pa.compute.not_equal(pairs.column("src"), pairs.column("dst")).to_pylist())

    def report(self) -> list[tuple[str, int]]:
        people = self._people.search().select(["name", "city", "age"]).limit(1 << 30).to_arrow()
        young = people.filter((pa.compute.field("age") >= YOUNG) & (pa.compute.field("age") < OLD)).select(["name"])
        knows = self._knows.search().select(["src", "dst"]).limit(1 << 30).to_arrow()
        met = knows.join(young, "src", "name", join_type="inner").join(people.select(["name", "city"]), "dst", "name")
        counted = met.group_by("city").aggregate([([], "count_all")])
        return _pairs(counted.sort_by([("count_all", "descending"), ("city", "ascending")]).slice(0, TOP))


class Floor:
    """Plain arrays in memory, with positions instead of ids: the cost of the traversal alone in numpy."""

    def __init__(self, network: Network) -> None:
        order = np.argsort(network.sources, kind="stable")
        self._targets = network.targets[order]
        self._offsets = np.searchsorted(network.sources[order], np.arange(len(network.names) + 1))
        self._names = network.names
        people = pq.read_table(network.people, columns=["age", "city"])
        self._ages = people.column("age").to_numpy()
        cities = people.column("city").combine_chunks().dictionary_encode()
        self._city, self._cities = cities.indices.to_numpy(), cities.dictionary
        self._position = {name: at for at, name in enumerate(network.names.to_pylist())}

    def _next(self, nodes: Any) -> tuple[Any, Any]:
        first, degrees = self._offsets[nodes], self._offsets[nodes + 1] - self._offsets[nodes]
        at = np.repeat(first - np.cumsum(degrees) + degrees, degrees) + np.arange(degrees.sum())
        return np.repeat(np.arange(len(nodes)), degrees), self._targets[at]

    def one_hop(self, name: str) -> set[str]:
        return set(self._names.take(pa.array(self._next(np.array([self._position[name]]))[1])).to_pylist())

    def two_hops(self, name: str) -> set[str]:
        start = self._position[name]
        seen = np.zeros(len(self._names), np.bool_)
        near = self._next(np.array([start]))[1]
        seen[near] = True
        seen[self._next(near)[1]] = True
        seen[start] = False
        return set(self._names.take(pa.array(np.flatnonzero(seen))).to_pylist())

    def paths(self, names: Sequence[str]) -> int:
        near = self._next(np.array([self._position[name] for name in names]))[1]
        return int((self._offsets[near + 1] - self._offsets[near]).sum())

    def within(self, names: Sequence[str]) -> int:
        return sum(len(self.two_hops(name)) for name in names)

    def report(self) -> list[tuple[str, int]]:
        _, met = self._next(np.flatnonzero((self._ages >= YOUNG) & (self._ages < OLD)))
        counts = np.bincount(self._city[met], minlength=len(self._cities))
        found = sorted(zip(self._cities.to_pylist(), counts.tolist(), strict=True), key=lambda row: (-row[1], row[0]))
        return found[:TOP]


def _pairs(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))
