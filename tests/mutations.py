"""Mutations through the façade on real graphs, and what their tables hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa

from omnigraph.exec.engine import Engine
from omnigraph.exec.write.protocol import Append, Prepared, Request, write
from omnigraph.graph import Graph, Receipt
from omnigraph.ids import BranchName
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.model import CommitKind, TableRow
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from omnigraph.manifest.read import Manifest
from omnigraph.store import stage
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.root import open_root
from omnigraph.store.tables import Table, Tables

SOCIETY = """
node Person { name: String @key  born: I32?  email: String?  nickName: String?  seen: DateTime? }
node Film { slug: String @key  year: I32 }
node Note { text: String?  at: DateTime }
node Screening { hall: I32  film: String  seats: I32?  @key(hall, film) }
edge ActedIn: Person -> Film { role: String? }
edge Knows: Person -> Person { since: DateTime? }
edge Likes: Person -> Film
edge About: Note -> Person
"""


def run(
    graph: Graph,
    text: str,
    params: Mapping[str, object] | None = None,
    *,
    branch: str = "main",
    if_commit: str | None = None,
    token: str | None = None,
) -> Receipt:
    """Run statements; `($x: I32) ...` declares parameters."""
    head, body = text.split(") ", 1) if text.startswith("(") else ("(", text)
    return graph.mutate(f"query q{head}) {{ {body} }}", params=params, branch=branch, if_commit=if_commit, token=token)


def table_row(graph: Graph, alias: str, *, branch: str = "main") -> TableRow:
    row = graph.engine.manifest.snapshot(BranchName(branch)).state.table(alias)  # the row itself, which the façade does not show
    assert row is not None
    return row


def table(graph: Graph, alias: str, *, branch: str = "main") -> Table:
    return Tables(open_root(graph.uri)).open(table_row(graph, alias, branch=branch).ref)


def rows(graph: Graph, alias: str, *, branch: str = "main") -> dict[str, dict[str, object]]:
    """Every row by its id, each value as it is at rest: days and milliseconds are numbers."""
    return by_id(table(graph, alias, branch=branch).scan().read_all())


def by_id(read: pa.Table) -> dict[str, dict[str, object]]:
    plain = read.cast(pa.schema([field.with_type(_at_rest(field.type)) for field in read.schema])).to_pylist()
    found = {row.pop("id"): row for row in plain}
    assert len(found) == len(plain), "an id is there twice"
    return found


def _at_rest(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_at_rest(type_.value_type))
    return {pa.date32(): pa.int32(), pa.date64(): pa.int64()}.get(type_, type_)


def values(graph: Graph, alias: str, column: str, *, branch: str = "main") -> dict[str, object]:
    """Id -> one value."""
    return {id_: row[column] for id_, row in rows(graph, alias, branch=branch).items()}


def edges(graph: Graph, name: str, *, branch: str = "main") -> list[tuple[object, object]]:
    """The ends of every edge of a type, sorted."""
    return sorted((row["src"], row["dst"]) for row in rows(graph, f"edge:{name}", branch=branch).values())


def versions(graph: Graph, *, branch: str = "main") -> dict[str, int]:
    return {f"{table.kind}:{table.type_name}": table.version for table in graph.snapshot(branch).tables}


def manifest_of(graph: Graph) -> Manifest:
    """A handle of the layer below, on the same place."""
    return open_graph(open_root(graph.uri))


def fill(graph: Graph, contents: Mapping[str, pa.Table]) -> None:
    """Many rows at once, by the write protocol."""
    manifest = manifest_of(graph)
    changes = {table_row(graph, alias).id: Append(content) for alias, content in contents.items()}
    write(Engine(manifest), Request(CommitKind.LOAD), lambda _: Prepared(changes))


def build_indexes(graph: Graph, alias: str, *columns: str) -> None:
    """A BTREE on each column, published."""
    manifest = manifest_of(graph)
    with hold(manifest) as grant:
        found, _, state = manifest.look(BranchName("main"))
        row = state.table(alias)
        assert row is not None
        staged = build(
            Tables(manifest.root).open(row.ref), [IndexSpec(column, LanceIndexKind.BTREE, f"{column}_idx") for column in columns]
        )
        assert staged is not None
        after = msgspec.structs.replace(row, version=stage.commit(staged).ref.version)
        expect = Preconditions(branch=found, epoch=grant.epoch, tables={row.id: row.version})
        publish(manifest, Publication(CommitKind.LOAD, tables=(after,), expect=expect))


class Racing(Mapping[str, object]):
    """Parameters that are read while a mutation is prepared: the first time, somebody else writes meanwhile."""

    def __init__(self, given: Mapping[str, object], race: Callable[[], object]) -> None:
        self._given = given
        self._race = race
        self.prepared = 0

    def __getitem__(self, name: str) -> object:
        self.prepared += 1
        if self.prepared == 1:
            self._race()
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)
