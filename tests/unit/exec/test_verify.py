"""What verification finds, and what it must not take for damage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import faults
from omnigraph.catalog.layout import PROPERTY_MARK
from omnigraph.exec.engine import Engine
from omnigraph.exec.upkeep.verify import verify
from omnigraph.exec.write.protocol import GiveUp, Prepared, Request, write
from omnigraph.faults import Fault, SimulatedCrash
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.model import CommitKind
from omnigraph.store.objects import open_objects
from omnigraph.store.root import Root
from tests.counting import CountingObjects
from tests.mutations import table, table_row

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"


def add(graph: og.Graph, name: str) -> None:
    graph.mutate(
        "query add($name: String) { insert Person { name: $name }\n insert Knows { from: $name, to: $name } }", params={"name": name}
    )


def test_a_branch_that_inherits_a_table_does_not_move_with_it(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    add(graph, "Ada")
    graph.branches.create("work")
    add(graph, "Grace")
    assert graph.verify() == []


def test_what_an_intent_explains_is_no_drift(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    with pytest.raises(SimulatedCrash), faults.armed(Fault.WRITE_BETWEEN_TABLES):
        add(graph, "Ada")
    assert [finding.code for finding in og.open(tmp_path / "g", mode="r").verify()] == ["pending_intent"]
    og.open(tmp_path / "g")
    assert graph.verify() == []


def test_what_the_dead_left_waits_for_cleanup_and_is_no_error(tmp_path: Path) -> None:
    """A branch whose delete died after its visible step leaves its forks; an init that lost a race leaves tables."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    add(graph, "Ada")
    graph.branches.create("work")
    graph.mutate('query q() { insert Person { name: "Eve" } }', branch="work")
    assert graph.verify() == []
    with pytest.raises(SimulatedCrash), faults.armed(Fault.BRANCH_AFTER_DELETE):
        graph.branches.delete("work")
    stray = tmp_path / "g" / "nodes" / "0000000000000000-0000000000000000"
    stray.mkdir()
    (stray / "file").write_text("left")
    assert sorted((finding.severity.value, finding.code) for finding in graph.verify()) == [
        ("warning", "unused_ref"),
        ("warning", "unused_table"),
    ]


# -- columns and the properties they hold


def marked(name: str, type_: pa.DataType, mark: bytes | None, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={PROPERTY_MARK: mark} if mark is not None else None)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (marked("born", pa.int32(), b"0123456789abcdef"), "holds property 0123456789abcdef"),
        (marked("born", pa.int32(), None), "without an identity"),
        (marked("other", pa.int32(), b"0123456789abcdef"), "is not in the schema"),
        (None, "is missing"),
        (marked("born", pa.int64(), b"same"), "has type int64, the schema says int32"),
    ],
    ids=["another", "none", "extra", "missing", "type"],
)
def test_a_column_that_holds_another_property_is_found(tmp_path: Path, column: pa.Field | None, says: str) -> None:
    """Nothing of ours writes such a table; what wrote it is told by a query only when the next schema change loses the values."""
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  born: I32? }")
    row = table_row(graph, "node:Person")
    fields = {field.name: field for field in table(graph, "node:Person").schema}
    own = fields.pop("born")
    if column is not None:
        known = (column.metadata or {}).get(PROPERTY_MARK) == b"same"
        fields[column.name] = column.with_metadata(own.metadata) if known else column
    wrong = pa.schema(list(fields.values()))
    write(graph.engine, Request(CommitKind.SCHEMA), lambda _: Prepared({row.id: GiveUp(wrong)}))
    found = [finding for finding in graph.verify() if finding.code == "identity_mismatch"]
    assert [(finding.severity.value, finding.where) for finding in found][:1] == [("error", "main:node:Person")]
    assert says in " ".join(finding.message for finding in found)
    assert "copy the graph" in found[0].remedy


class Interrupted(CountingObjects):
    """Real objects, of which one call is preceded by something that another process does."""

    def __init__(self, uri: str, at: int, do: Callable[[], object]) -> None:
        super().__init__(open_objects(uri))
        self.made, self._at, self._do = 0, at, do

    def _count(self, kind: str) -> None:
        super()._count(kind)
        self.made += 1
        if self.made == self._at:
            self._do()


def test_a_branch_that_is_made_and_written_meanwhile_is_no_finding(tmp_path: Path) -> None:
    """Before every storage call of a verification in turn, another handle makes a branch, forks a table, and deletes the branch before."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    add(graph, "Ada")
    graph.branches.create("w0")

    def meanwhile(at: int) -> None:
        graph.branches.create(f"w{at}")
        graph.mutate('insert Person { name: "Eve" }', branch=f"w{at}")
        graph.branches.delete(f"w{at - 1}")

    for at in count(1):
        objects = Interrupted(graph.uri, at, partial(meanwhile, at))
        assert verify(Engine(open_graph(Root(objects)))) == [], f"before call {at}"
        if objects.made < at:
            break
    assert at > 20
