"""Two node tables and an edge table in real Lance, changed step by step; and what their adjacency must be, by reading it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.exec.adjacency.kernels import Csr, hop
from omnigraph.exec.adjacency.node_ids import Ids
from omnigraph.exec.adjacency.numbering import Numbering
from omnigraph.exec.adjacency.topology import Topology
from omnigraph.ids import TableId
from omnigraph.manifest.model import TableRow
from omnigraph.store import stage
from omnigraph.store.refs import create_ref
from omnigraph.store.tables import ADDRESS, Table, Tables, create_table
from tests.unit.store.tables import compacted, place

PEOPLE, FILMS = "nodes/aaaaaaaaaaaaaaaa-0000000000000001", "nodes/bbbbbbbbbbbbbbbb-0000000000000001"
KNOWS = "edges/cccccccccccccccc-0000000000000001"
NODE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
EDGE = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")])


class Town:
    """`people` are linked by `knows` with each other, or with `films`."""

    def __init__(self, folder: Path, *, square: bool = True) -> None:
        self.root = place(folder)
        self.cache = folder / "cache"
        self.square = square
        self.people = create_table(self.root, PEOPLE, NODE)
        self.films = self.people if square else create_table(self.root, FILMS, NODE)
        self.knows = create_table(self.root, KNOWS, EDGE)

    def topology(self) -> Topology:
        """As a process that has just begun sees it: nothing in memory."""
        return Topology(Tables(self.root), self.cache)

    def rows(self) -> tuple[TableRow, TableRow, TableRow]:
        films = self.people if self.square else self.films
        return row(self.knows), row(self.people), row(films)

    def add_people(self, ids: Iterable[str]) -> None:
        self.people = appended(self.people, nodes(ids))

    def add_films(self, ids: Iterable[str]) -> None:
        self.films = appended(self.films, nodes(ids))

    def touch_people(self, ids: Iterable[str]) -> None:
        """An upsert writes a row anew, somewhere else."""
        staged = stage.upsert(self.people, nodes(ids, 1))
        self.people = stage.commit(staged) if staged is not None else self.people

    def remove_people(self, ids: Iterable[str]) -> None:
        self.people = removed(self.people, ids)

    def link(self, edges: Iterable[tuple[str, str, str]]) -> None:
        self.knows = appended(self.knows, links(edges))

    def unlink(self, ids: Iterable[str]) -> None:
        self.knows = removed(self.knows, ids)

    def compact(self) -> None:
        self.people, self.knows = compacted(self.people), compacted(self.knows)

    def branch(self, name: str) -> None:
        """From now on all tables are native branches."""
        self.people, self.knows = create_ref(self.people, name), create_ref(self.knows, name)
        self.films = self.people if self.square else create_ref(self.films, name)

    def check(self, topology: Topology) -> Adjacency:
        """The adjacency, once it has said exactly what the tables say, in both directions."""
        found, back = topology.adjacency(*self.rows()), topology.adjacency(*self.rows(), back=True)
        check_ids(self.people, topology.ids(row(self.people)))
        sources, targets = texts(self.people), texts(self.people if self.square else self.films)
        expected = Counter(
            (edge["src"], edge["dst"], edge["id"])
            for edge in self.knows.scan().read_all().to_pylist()
            if edge["src"] in sources.values() and edge["dst"] in targets.values()
        )
        edges = texts(self.knows)
        assert Counter((sources[at], targets[to], edges[edge]) for at, to, edge in triples(found.csr)) == expected
        assert Counter((sources[to], targets[at], edges[edge]) for at, to, edge in triples(back.csr)) == expected
        assert all(set(near_pairs(csr)) == {(at, to) for at, to, _ in triples(csr)} for csr in (found.csr, back.csr))
        return found


def nodes(ids: Iterable[str], n: int = 0) -> pa.Table:
    given = list(ids)
    return pa.table({"id": pa.array(given, pa.string()), "n": pa.array([n] * len(given), pa.int64())}, schema=NODE)


def links(edges: Iterable[tuple[str, str, str]]) -> pa.Table:
    given = list(edges)
    return pa.table({name: pa.array([edge[at] for edge in given], pa.string()) for at, name in enumerate(EDGE.names)}, schema=EDGE)


def row(table: Table) -> TableRow:
    ref = table.ref
    return TableRow(TableId(ref.path.split("/")[1]), ref.path, ref.path, ref.version, table.count(), native=ref.branch)


def appended(table: Table, rows: pa.Table) -> Table:
    staged = stage.append(table, rows)
    return stage.commit(staged) if staged is not None else table


def removed(table: Table, ids: Iterable[str]) -> Table:
    staged = stage.delete_keys(table, pa.array(list(ids), pa.string()))
    return stage.commit(staged) if staged is not None else table


def texts(table: Table) -> dict[int, str]:
    """Number -> id of every row."""
    rows = table.scan(["id"], addresses=True).read_all()
    numbers = Numbering.of(table).from_addresses(rows.column(ADDRESS).to_numpy())
    return dict(zip(numbers.tolist(), rows.column("id").to_pylist(), strict=True))


def check_ids(table: Table, ids: Ids) -> None:
    expected = texts(table)
    numbers = np.array(sorted(expected), np.int64)
    assert ids.take(numbers).to_pylist() == [expected[number] for number in numbers.tolist()]
    asked = [*expected.values(), "nobody", "", None]
    sought = pa.array(asked, pa.string())
    assert ids.find(sought).tolist() == [*expected, -1, -1, -1]
    many = pa.concat_arrays([sought] * 30)
    assert ids.find(many).tolist() == [*expected, -1, -1, -1] * 30, "by a hash table as one by one"


def triples(csr: Csr) -> list[tuple[int, int, int]]:
    origin, reached, edge = hop(csr, np.arange(csr.size))
    return list(zip(origin.tolist(), reached.tolist(), edge.tolist(), strict=True))


def near_pairs(csr: Csr) -> list[tuple[int, int]]:
    near = csr.near
    origin = np.repeat(np.arange(len(near.offsets) - 1), np.diff(near.offsets))
    found = list(zip(origin.tolist(), near.targets.tolist(), strict=True))
    assert found == sorted(set(found)), "each neighbour once, ascending"
    return found
