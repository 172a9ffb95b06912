"""The examples of the language: what append, merge and overwrite refuse, word for word, and what they let through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, KeyConflict, Kind
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.findings import Findings, Violation, error
from omnigraph.exec.validate.integrity import CommittedTables, Delta, RowsInMemory, check_integrity
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Tables
from tests.mutations import fill, manifest_of

CINE = """
node Film { slug: String @key  year: I32? }
node Person { name: String @key  born: I32?  email: String? @unique }
node Screening { hall: I32  film: String  @key(hall, film) }
node Note { text: String? }
node Odd { name: String @key  tags: [String]?  @unique(tags) }
edge ActedIn: Person -> Film { role: String? }
edge Directed: Person -> Film @card(0..2)
edge Likes: Person -> Film { @unique(src, dst) }
edge WorksFor: Person -> Person @card(1..)
"""
PEOPLE = ("Ada", "Ben", "Cy", "Dee")
DATA: dict[str, list[dict[str, Any]]] = {
    "Film": [{"id": slug, "slug": slug, "year": 2000} for slug in ("alien", "heat", "dune")],
    "Person": [{"id": name, "name": name, "email": f"{name}@x"} for name in PEOPLE],
    "ActedIn": [{"id": "a1", "src": "Ada", "dst": "alien"}, {"id": "a2", "src": "Ben", "dst": "alien"}],
    "Directed": [{"id": "d1", "src": "Cy", "dst": "alien"}, {"id": "d2", "src": "Cy", "dst": "heat"}],
    "WorksFor": [{"id": "w1", "src": "Ada", "dst": "Ben"}, {"id": "w2", "src": "Dee", "dst": "Ben"}],
}


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    made = og.init(tmp_path / "g", schema=CINE)
    fill(made, {_alias(made, name): rows_of(_entity(made, name), rows) for name, rows in DATA.items()})
    return made


def _entity(graph: Graph, name: str) -> EntityType:
    found = graph.catalog.node(name) or graph.catalog.edge_named(name)
    assert found is not None
    return found


def _alias(graph: Graph, name: str) -> str:
    return f"{_entity(graph, name).kind}:{name}"


def rows_of(entity: EntityType, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = table_schema(entity)
    return pa.table([pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema)


def judge(graph: Graph, mode: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Findings:
    deltas = [
        Delta(entity, RowsInMemory(rows_of(entity, given)), whole=mode == "overwrite", replaces=mode != "append")
        for name, given in rows.items()
        for entity in [_entity(graph, name)]
    ]
    manifest = manifest_of(graph)
    return check_integrity(deltas, graph.catalog, CommittedTables(manifest.snapshot(), Tables(manifest.root)))


def only(findings: Findings) -> Violation:
    (found,) = findings.found
    return found


def test_append_meets_an_id_that_is_there(graph: Graph) -> None:
    """W-28: a conflict that names type and id."""
    found = only(judge(graph, "append", {"Film": [{"id": "new", "slug": "new"}, {"id": "heat", "slug": "heat"}]}))
    assert (found.code, found.type, found.id, found.row) == (ProblemCode.KEY_CONFLICT, "node:Film", "heat", 1)
    assert found.message == "node type 'Film' already has this id: 'heat'"
    refused = error([found.problem(source="x.jsonl", line=2)])
    assert isinstance(refused, KeyConflict)
    assert refused.kind is Kind.KEY_CONFLICT
    assert refused.message == "x.jsonl, line 2: node type 'Film' already has this id: 'heat'; nothing was written"
    assert (refused.facts["type"], refused.facts["id"]) == ("node:Film", "heat")
    assert only(judge(graph, "append", {"ActedIn": [{"id": "a1", "src": "Ada", "dst": "heat"}]})).message.startswith("edge type 'ActedIn'")


def test_merge_and_overwrite_replace_an_id_that_is_there(graph: Graph) -> None:
    """V-05."""
    ada = {"id": "Ada", "name": "Ada", "email": "Ada@x"}
    assert not judge(graph, "merge", {"Person": [ada]})
    assert not judge(graph, "overwrite", {"Film": [dict(row) for row in DATA["Film"]]})


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_key_twice_is_refused_in_every_mode(graph: Graph, mode: str) -> None:
    """V-03: A key or `@unique` value that stands twice in one input is refused in every mode.

    Also W-32.
    """
    screening = {"id": '["heat","3"]', "film": "heat", "hall": 3}
    held = 'held by \'["heat","3"]\' and \'["heat","3"]\''
    findings = judge(graph, mode, {"Screening": [screening, screening], "Note": [{"id": "n"}, {"id": "m"}, {"id": "n"}]})
    assert [(found.code, found.row, found.message) for found in findings.found] == [
        (ProblemCode.DUPLICATE_ID, 1, f"@unique violation on Screening.(film, hall): value '(heat, 3)' {held}"),
        (ProblemCode.DUPLICATE_ID, 2, "node type 'Note' has id 'n' twice in one input"),
    ]  # fmt: skip


def test_the_same_name_twice_is_told_as_a_unique_value(graph: Graph) -> None:
    eve = {"id": "Eve", "name": "Eve"}
    assert (
        only(judge(graph, "merge", {"Person": [eve, eve]})).message
        == "@unique violation on Person.name: value 'Eve' held by 'Eve' and 'Eve'"
    )


def test_edges_that_an_overwrite_of_nodes_would_strand_are_told(graph: Graph) -> None:
    """V-10: An overwrite of nodes that would leave an edge of another table without an end is refused."""
    findings = judge(graph, "overwrite", {"Person": [{"id": "Ada", "name": "Ada"}]})
    assert {(found.code, found.type, found.row) for found in findings.found} == {
        (ProblemCode.ENDPOINT, f"edge:{name}", None) for name in ("ActedIn", "Directed", "WorksFor")
    }
    assert "src 'Ben' not found in Person" in {found.message for found in findings.found}
    assert {found.id for found in findings.found} == {"a2", "d1", "d2", "w1", "w2"}


def test_edges_alone_are_overwritten_against_the_nodes_that_stay(graph: Graph) -> None:
    """V-09: An overwrite of edges is checked against the nodes that stay; one of nodes and edges against the new nodes."""
    assert not judge(graph, "overwrite", {"ActedIn": [{"id": "x", "src": "Dee", "dst": "heat"}]})
    assert only(judge(graph, "overwrite", {"ActedIn": [{"id": "x", "src": "Dee", "dst": "no"}]})).message == "dst 'no' not found in Film"


def test_nodes_and_edges_are_overwritten_against_the_new_nodes(graph: Graph) -> None:
    """V-09: here Ada is not there any more, and edges that went with the change are no concern."""
    ben, edge = {"id": "Ben", "name": "Ben"}, {"id": "x", "dst": "heat"}
    new = {"Person": [ben], "ActedIn": [edge | {"src": "Ben"}], "Directed": [], "WorksFor": []}
    assert not judge(graph, "overwrite", new)
    stale = judge(graph, "overwrite", new | {"ActedIn": [edge | {"src": "Ada"}]})
    assert only(stale).message == "src 'Ada' not found in Person"


def test_two_edges_with_one_tuple_are_told_with_sorted_columns(graph: Graph) -> None:
    """V-07."""
    likes = [{"id": id_, "src": "Ada", "dst": "alien"} for id_ in "xy"]
    message = "@unique violation on Likes.(dst, src): value '(alien, Ada)' held by 'x' and 'y'"
    assert only(judge(graph, "merge", {"Likes": likes})).message == message


def test_an_overwrite_that_takes_a_source_below_its_minimum_is_refused(graph: Graph) -> None:
    """V-11: `@card` holds in mutations and loads, for its minimum and its maximum."""
    findings = judge(graph, "overwrite", {"WorksFor": [{"id": "w", "src": "Ben", "dst": "Ben"}]})
    assert sorted(found.message for found in findings.found) == [
        f"@card violation on edge WorksFor: source '{name}' has 0 edges (min 1)" for name in ("Ada", "Dee")
    ]
    people = [{"id": "Ben", "name": "Ben"}]
    rest: dict[str, list[dict[str, Any]]] = {"ActedIn": [], "Directed": [], "WorksFor": [{"id": "w", "src": "Ben", "dst": "Ben"}]}
    assert not judge(graph, "overwrite", {"Person": people} | rest), "sources that go owe nothing"


def test_an_edge_that_moves_leaves_its_old_source_to_be_counted(graph: Graph) -> None:
    """V-12: A merge that moves an edge checks the minimum of the source it leaves.
    V-13: An edge that is replaced counts once.
    """
    moved = judge(graph, "merge", {"WorksFor": [{"id": "w1", "src": "Cy", "dst": "Ben"}]})
    assert only(moved).message == "@card violation on edge WorksFor: source 'Ada' has 0 edges (min 1)"
    assert not judge(graph, "merge", {"Directed": [{"id": "d1", "src": "Cy", "dst": "dune"}]})
    third = judge(graph, "merge", {"Directed": [{"id": "d3", "src": "Cy", "dst": "dune"}]})
    assert (only(third).row, only(third).id) == (0, "d3")
    assert only(third).message == "@card violation on edge Directed: source 'Cy' has 3 edges (max 2)"


def test_a_unique_list_can_be_declared_and_never_met(graph: Graph) -> None:
    found = only(judge(graph, "merge", {"Odd": [{"id": "a", "name": "a", "tags": ["x"]}]}))
    assert found.message.startswith("scalar key: unsupported column type")
    assert isinstance(error([found.problem()]), InvalidInput)


def test_nothing_is_wrong_with_nothing(graph: Graph) -> None:
    for mode in ("append", "merge"):
        assert not judge(graph, mode, {name: [] for name in ("Person", "Likes", "WorksFor")})
