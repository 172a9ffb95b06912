"""Mutations: what each statement does to real tables, what it sees, what it counts, and what it refuses."""

from __future__ import annotations

import re
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, LanguageError, OmniGraphError, PreconditionFailed
from omnigraph.exec.read.predicate import sql
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.lang import parse_queries, select_query
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import hold
from omnigraph.plan.check import check_mutation
from omnigraph.plan.writes import UpdateRows, plan_mutation
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import one_of
from tests.graphs import note
from tests.mutations import SOCIETY, Racing, build_indexes, edges, fill, manifest_of, rows, run, table, table_row, values, versions

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
PERSON = "node:Person"
NOBODY = {"born": None, "email": None, "nickName": None, "seen": None}

EVERY = """
node Every {
  k: String @key   s: String?   b: Bool?   i32: I32?   i64: I64?   u32: U32?   u64: U64?   f32: F32?   f64: F64?
  day: Date?   at: DateTime?   choice: enum(low, mid, top)?
  strings: [String]?   ints: [I32]?   moments: [DateTime]?   days: [Date]?   floats: [F32]?   flags: [Bool]?
  vec: Vector(3)?   mark: I32?
}
"""
DECLARED = {
    "s": "String",
    "b": "Bool",
    "day": "Date",
    "at": "DateTime",
    "choice": "String",
    "vec": "Vector(3)",
    "strings": "[String]",
    "ints": "[I32]",
    "moments": "[DateTime]",
    "days": "[Date]",
    "floats": "[F32]",
    "flags": "[Bool]",
}
"""How a parameter for a property is declared; the others are called by their type."""
SCALARS: dict[str, tuple[str, str, str]] = {
    "s": ('"it\'s"', '"q`\\"\\\\"', '"ünï漢"'),
    "i32": ("-2147483648", "0", "2147483647"),
    "i64": ("-9223372036854775808", "9007199254740993", "9223372036854775807"),
    "u32": ("0", "7", "4294967295"),
    "u64": ("0", "9007199254740993", "18446744073709551615"),
    "f32": ("-0.5", "0.1", "16777216"),
    "f64": ("-0.1", "0.1", "9007199254740992"),
    "day": ('date("0001-01-01")', 'date("1969-12-31")', 'date("9999-12-31")'),
    "at": ('datetime("0001-01-01")', 'datetime("1969-12-31T23:59:59.999Z")', 'datetime("2024-01-02T20:00:00.123Z")'),
    "choice": ('"low"', '"mid"', '"top"'),
}
"""For each type three values in order, as a query writes them."""
OPERATORS = {"=": {1}, "!=": {0, 2}, "<": {0}, "<=": {0, 1}, ">": {2}, ">=": {1, 2}}
"""Which of three ordered values each operator finds, compared with the middle one."""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Ada, Ben and Cy, two films, and edges of every type among them; Ada knows herself."""
    made = og.init(tmp_path / "g", schema=SOCIETY)
    run(
        made,
        'insert Person { name: "Ada", born: 1950, email: "ada@x", nickName: "A" } insert Person { name: "Ben", born: 1960 }'
        ' insert Person { name: "Cy" } insert Film { slug: "heat", year: 1995 } insert Film { slug: "dune", year: 2021 }'
        ' insert ActedIn { from: "Ada", to: "heat", role: "Eve" } insert ActedIn { from: "Ben", to: "heat" }'
        ' insert Knows { from: "Ada", to: "Ada", since: now() } insert Knows { from: "Ben", to: "Ada" }'
        ' insert Knows { from: "Cy", to: "Ben" } insert Likes { from: "Cy", to: "dune" }',
    )
    return made


@pytest.fixture
def every(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "every", schema=EVERY)


def three_of_each(graph: Graph) -> None:
    """Rows 0, 1, 2 with ordered values of every type, and a row that has none."""
    values_of = [", ".join(f"{name}: {texts[at]}" for name, texts in SCALARS.items()) for at in range(3)]
    inserts = [f'insert Every {{ k: "{at}", {texts} }}' for at, texts in enumerate(values_of)]
    run(graph, " ".join([*inserts, 'insert Every { k: "null" }']))


def marked(graph: Graph, mark: int = 1) -> set[str]:
    return {id_ for id_, found in values(graph, "node:Every", "mark").items() if found == mark}


def refused(graph: Graph, text: str, params: dict[str, object] | None = None) -> OmniGraphError:
    """The error of a mutation that must leave everything as it was."""
    before = graph.snapshot()
    with pytest.raises(OmniGraphError) as caught:
        run(graph, text, params)
    assert graph.snapshot() == before
    return caught.value


# -- inserting nodes


def test_a_keyed_node_has_its_key_as_id_and_null_for_what_was_left_out(graph: Graph) -> None:
    receipt = run(graph, 'insert Person { name: "Eve", born: 2000 }')
    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 0)
    assert rows(graph, PERSON)["Eve"] == {**NOBODY, "name": "Eve", "born": 2000}


def test_inserting_a_key_that_exists_replaces_the_whole_row(graph: Graph) -> None:
    receipt = run(graph, 'insert Person { name: "Ada", born: 1951 }')
    assert receipt.affected_nodes == 1
    assert rows(graph, PERSON)["Ada"] == {**NOBODY, "name": "Ada", "born": 1951}
    assert table_row(graph, PERSON).rows == len(rows(graph, PERSON)) == 3


def test_an_unkeyed_node_is_new_every_time(graph: Graph) -> None:
    for _ in range(2):
        run(graph, 'insert Note { text: "x", at: now() } insert Note { text: "x", at: now() }')
    notes = rows(graph, "node:Note")
    assert len(notes) == 4
    assert all(ULID.fullmatch(id_) for id_ in notes)


@pytest.mark.parametrize(("hall", "film", "id_"), [(-3, 'a"b', '["a\\"b","-3"]'), (0, "", '["","0"]'), (7, "ü,\\", '["ü,\\\\","7"]')])
def test_a_composite_key_is_spelled_in_the_order_of_its_names(graph: Graph, hall: int, film: str, id_: str) -> None:
    for seats in (1, 2):
        run(
            graph,
            "($h: I32, $f: String, $s: I32) insert Screening { hall: $h, film: $f, seats: $s }",
            {"h": hall, "f": film, "s": seats},
        )
    assert rows(graph, "node:Screening") == {id_: {"hall": hall, "film": film, "seats": 2}}


@pytest.mark.parametrize(
    ("type_", "value", "id_"),
    [
        ("Bool", "true", "true"),
        ("I64", "-9223372036854775808", "-9223372036854775808"),
        ("U64", "18446744073709551615", "18446744073709551615"),
        ("F32", "0.1", "0.1"),
        ("F64", "-0.0", "0"),
        ("F64", "1000000000000000000000.0", "1000000000000000000000"),
        ("Date", 'date("1979-05-25")', "3431"),
        ("DateTime", 'datetime("2024-01-02T20:00:00Z")', "1704225600000"),
        ("enum(a, b)", '"b"', "b"),
    ],
)
def test_a_key_of_any_type_is_spelled_canonically_and_found_again(tmp_path: Path, type_: str, value: str, id_: str) -> None:
    graph = og.init(tmp_path / "g", schema=f"node N {{ k: {type_} @key  n: I32? }} edge To: N -> N")
    run(graph, f'insert N {{ k: {value}, n: 1 }} insert To {{ from: "{id_}", to: "{id_}" }}')
    run(graph, f"insert N {{ k: {value}, n: 2 }}")
    assert values(graph, "node:N", "n") == {id_: 2}
    assert run(graph, f"delete N where k = {value}").affected_edges == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("($x: String?) insert Person { name: $x }", "insert @key property 'name' cannot contain null"),
        ('($x: I32?) insert Screening { hall: $x, film: "a" }', "insert @key property 'hall' cannot contain null"),
        ('($x: I32?) insert Film { slug: "x", year: $x }', "non-nullable property 'year' has null or invalid values"),
        ('($x: I32?) update Film set { year: $x } where slug = "none"', "non-nullable property 'year' has null or invalid values"),
        ('($x: String?) insert Likes { from: $x, to: "dune" }', "edge endpoint 'from' cannot be null"),
        ('($x: String?) insert Likes { from: "Ada", to: $x }', "edge endpoint 'to' cannot be null"),
    ],
)
def test_null_is_refused_where_it_cannot_stand(graph: Graph, text: str, message: str) -> None:
    error = refused(graph, text, {"x": None})
    assert isinstance(error, InvalidInput)
    assert (error.kind, error.message) == (Kind.VALIDATION, message)


def test_a_vector_that_nobody_computes_is_refused_unless_it_may_be_null(tmp_path: Path) -> None:
    must = "node Must { k: String @key  t: String  v: Vector(2) @embed(t) }"
    graph = og.init(tmp_path / "g", schema=f"{must} {must.replace('Must', 'May').replace('(2)', '(2)?')}")
    message = "missing required property 'v': configure an embedding provider, or give the vector"
    assert refused(graph, 'insert Must { k: "a", t: "x" }').message == message
    run(graph, 'insert Must { k: "a", t: "x", v: [1, 2] } insert May { k: "a", t: "x" }')
    assert values(graph, "node:Must", "v") == {"a": [1.0, 2.0]}
    assert values(graph, "node:May", "v") == {"a": None}


ROUND_TRIPS: list[tuple[str, str, object]] = [
    ("s", '"it\'s \\"q\\" \\\\ ü\\n"', 'it\'s "q" \\ ü\n'),
    ("s", '""', ""),
    ("b", "false", False),
    ("i32", "-2147483648", -(2**31)),
    ("i64", "-9223372036854775808", -(2**63)),
    ("u32", "4294967295", 2**32 - 1),
    ("u64", "18446744073709551615", 2**64 - 1),
    ("f32", "0.1", 0.10000000149011612),
    ("f32", "3", 3.0),
    ("f64", "0.1", 0.1),
    ("f64", "9007199254740993", 9007199254740992.0),
    ("day", 'date("1969-12-31")', -1),
    ("at", 'datetime("1969-12-31T23:59:59.999Z")', -1),
    ("at", 'datetime("2024-01-02T22:00:00.123+02:00")', 1704225600123),
    ("choice", '"mid"', "mid"),
    ("strings", '["a", "", "it\'s"]', ["a", "", "it's"]),
    ("strings", "[]", []),
    ("ints", "[1, -2147483648]", [1, -(2**31)]),
    ("moments", '[datetime("1969-12-31T23:59:59.999Z")]', [-1]),
    ("days", '[date("1969-12-31")]', [-1]),
    ("floats", "[1, 0.1]", [1.0, 0.10000000149011612]),
    ("flags", "[true, false]", [True, False]),
    ("vec", "[1, 0.5, -0.1]", [1.0, 0.5, -0.10000000149011612]),
]


@pytest.mark.parametrize(("name", "text", "value"), ROUND_TRIPS)
def test_every_type_is_read_back_as_it_was_written(every: Graph, name: str, text: str, value: object) -> None:
    """Inserted, then set, then set to null: by a literal, while pending and when committed."""
    run(
        every, f'insert Every {{ k: "in", {name}: {text} }} insert Every {{ k: "up" }} update Every set {{ {name}: {text} }} where k = "up"'
    )
    assert values(every, "node:Every", name) == {"in": value, "up": value}
    run(every, f'update Every set {{ mark: 1 }} where k = "in" update Every set {{ {name}: {text}, mark: 2 }} where mark = 1')
    assert values(every, "node:Every", name) == {"in": value, "up": value}
    run(every, f'($x: {DECLARED.get(name, name.upper())}?) update Every set {{ {name}: $x }} where k >= ""', {"x": None})
    assert values(every, "node:Every", name) == {"in": None, "up": None}


# -- inserting edges


def test_an_edge_joins_committed_and_pending_nodes_in_any_mix(graph: Graph) -> None:
    """W-13: Edges of one mutation join committed and new nodes, each edge with an id of its own, in one version.

    Also Y-01.
    """
    before = table_row(graph, "edge:Likes").version
    receipt = run(
        graph,
        'insert Person { name: "Eve" } insert Film { slug: "new", year: 1 } insert Likes { from: "Eve", to: "new" }'
        ' insert Likes { from: "Eve", to: "dune" } insert Likes { from: "Ada", to: "new" } insert Likes { from: "Ada", to: "new" }',
    )
    assert (receipt.affected_nodes, receipt.affected_edges) == (2, 4)
    assert edges(graph, "Likes") == [("Ada", "new"), ("Ada", "new"), ("Cy", "dune"), ("Eve", "dune"), ("Eve", "new")]
    assert all(ULID.fullmatch(id_) for id_ in rows(graph, "edge:Likes"))
    assert table_row(graph, "edge:Likes").version == before + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('insert ActedIn { from: "nobody", to: "heat" }', "src 'nobody' not found in Person"),
        ('insert ActedIn { from: "Ada", to: "Ada" }', "dst 'Ada' not found in Film"),
        ('insert Knows { from: "it\'s", to: "Ada" }', "src 'it's' not found in Person"),
        ('insert Knows { from: "", to: "Ada" }', "src '' not found in Person"),
        ('insert Knows { from: "ada", to: "Ada" }', "src 'ada' not found in Person"),
        ('insert Likes { from: "Eve", to: "dune" } insert Person { name: "Eve" }', "src 'Eve' not found in Person"),
    ],
)
def test_an_edge_needs_both_its_ends(graph: Graph, text: str, message: str) -> None:
    error = refused(graph, text)
    assert isinstance(error, InvalidInput)
    assert (error.kind, error.message) == (Kind.VALIDATION, message)


def test_a_statement_that_fails_takes_all_before_it_along(graph: Graph, tmp_path: Path) -> None:
    """RT-01: A write that fails before its intent leaves rows, versions and tables as they were.

    Also W-11.
    """
    error = refused(graph, 'insert Person { name: "Eve" } insert Film { slug: "n", year: 1 } insert Likes { from: "Eve", to: "gone" }')
    assert error.message == "dst 'gone' not found in Film"
    assert graph.verify() == []
    run(graph, 'insert Person { name: "Eve" } insert Likes { from: "Eve", to: "dune" }')
    assert ("Eve", "dune") in edges(graph, "Likes")


# -- updating


@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
@pytest.mark.parametrize("name", SCALARS)
def test_every_operator_on_every_type_finds_what_it_says(every: Graph, name: str, indexed: bool) -> None:
    """Null never matches; the same rows with and without an index."""
    three_of_each(every)
    if indexed:
        build_indexes(every, "node:Every", name)
    for mark, (operator, expected) in enumerate(OPERATORS.items()):
        receipt = run(every, f"update Every set {{ mark: {mark} }} where {name} {operator} {SCALARS[name][1]}")
        assert marked(every, mark) == {str(at) for at in expected}, operator
        assert receipt.affected_nodes == len(expected)


@pytest.mark.parametrize("name", SCALARS)
def test_every_operator_means_the_same_for_pending_rows(every: Graph, name: str) -> None:
    """Y-02: judged by one engine, committed or not."""
    for operator, expected in OPERATORS.items():
        inserts = " ".join(f'insert Every {{ k: "{at}", {name}: {SCALARS[name][at]} }}' for at in range(3))
        run(every, f'{inserts} insert Every {{ k: "null" }} update Every set {{ mark: 1 }} where {name} {operator} {SCALARS[name][1]}')
        assert marked(every) == {str(at) for at in expected}, operator


def test_booleans_are_compared(every: Graph) -> None:
    run(every, 'insert Every { k: "yes", b: true } insert Every { k: "no", b: false } insert Every { k: "null" }')
    found = {"b = true": {"yes"}, "b != true": {"no"}, "b < true": {"no"}, "b >= false": {"yes", "no"}}
    for mark, (where, expected) in enumerate(found.items()):
        run(every, f"update Every set {{ mark: {mark} }} where {where}")
        assert marked(every, mark) == expected, where


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("i32 = 2.7", set()),
        ("i32 != 2.7", {"0", "1", "2"}),
        ("i32 < 3000000000", {"0", "1", "2"}),
        ("i32 > 3000000000", set()),
        ("i32 >= -0.5", {"1", "2"}),
        ("u32 > -1", {"0", "1", "2"}),
        ("u32 <= -1", set()),
        ("u64 < 9007199254740993.5", {"0", "1"}),
        ("i64 = 9007199254740992", set()),
        ("f64 = 9007199254740993", set()),
        ("f64 < 9007199254740993", {"0", "1", "2"}),
        ("f32 = 0.1", {"1"}),
        ("f32 = 16777217", {"2"}),
        ("f32 < 1000000000000000000000000000000000000000000.0", {"0", "1", "2"}),
        ("strings = []", set()),
        ("vec = [1, 2, 3]", set()),
    ],
)
def test_what_a_column_cannot_hold_is_compared_by_value(every: Graph, where: str, expected: set[str]) -> None:
    """X-06: A filter is never dropped because its literal does not fit.

    Also X-05.
    """
    three_of_each(every)
    assert run(every, f"update Every set {{ mark: 1 }} where {where}").affected_nodes == len(expected)
    assert marked(every) == expected


def test_null_as_a_parameter_matches_nothing(graph: Graph) -> None:
    for operator in OPERATORS:
        receipt = run(graph, f'($b: I32?) update Person set {{ email: "z" }} where born {operator} $b', {"b": None})
        assert (receipt.affected_nodes, receipt.commit) == (0, None)


def test_an_update_changes_what_it_names_and_nothing_else(graph: Graph) -> None:
    before = rows(graph, PERSON)
    run(graph, 'update Person set { born: 1, nickName: "old" } where born > 1955')
    assert rows(graph, PERSON) == {**before, "Ben": {**before["Ben"], "born": 1, "nickName": "old"}}


@pytest.mark.parametrize(
    "text",
    [
        'update Person set { name: "X" } where name = "nobody"',
        "update Screening set { seats: 1, hall: 2 } where hall = 1",
        'update Screening set { film: "x" } where seats = 1',
    ],
)
def test_keys_do_not_change(graph: Graph, text: str) -> None:
    error = refused(graph, text)
    assert isinstance(error, LanguageError)
    assert "cannot update @key property" in error.message
    assert error.position is not None


def test_a_property_in_mixed_case_is_itself(graph: Graph) -> None:
    """W-46, Y-08: set, updated by, updated by while pending, deleted by."""
    run(graph, 'update Person set { nickName: "x" } where nickName = "A" update Person set { born: 7 } where nickName = "x"')
    assert values(graph, PERSON, "born")["Ada"] == 7
    assert run(graph, 'delete Person where nickName = "x"').affected_nodes == 1


@pytest.mark.parametrize("name", ["select", "order", "case", "false", "null", "camelCase", "camelcase", "_under"])
def test_a_property_may_have_any_name_the_schema_allows(tmp_path: Path, name: str) -> None:
    """W-46: A property may have any name that the schema allows, mixed case and words of SQL included.

    Words of SQL among them; compared while pending and when committed, and never with a neighbour.
    """
    graph = og.init(tmp_path / "g", schema=f"node N {{ k: String @key  {name}: I32?  cAMELcASE: I32? }}")
    run(graph, f'insert N {{ k: "a", {name}: 1, cAMELcASE: 7 }} update N set {{ {name}: 2 }} where {name} = 1')
    assert run(graph, f"update N set {{ {name}: 3 }} where {name} < 7").affected_nodes == 1
    assert rows(graph, "node:N") == {"a": {"k": "a", name: 3, "cAMELcASE": 7}}
    assert run(graph, f"delete N where {name} = 3").affected_nodes == 1


# -- reading one's own writes


def test_an_insert_and_its_update_are_one_row_and_two_counts(graph: Graph) -> None:
    """W-12: An insert and an update of the same row in one mutation are one row, and both are counted."""
    receipt = run(graph, 'insert Person { name: "Eve" } update Person set { born: 2000 } where name = "Eve"')
    assert receipt.affected_nodes == 2
    assert values(graph, PERSON, "born")["Eve"] == 2000


def test_an_unkeyed_row_keeps_its_id_when_it_is_updated_while_pending(graph: Graph) -> None:
    run(graph, 'insert Note { text: "a", at: now() } update Note set { text: "b" } where text = "a"')
    (note,) = rows(graph, "node:Note").values()
    assert note["text"] == "b"
    run(graph, 'insert Note { text: "c", at: now() } update Note set { text: "d" } where at <= now()')
    assert sorted(str(text) for text in values(graph, "node:Note", "text").values()) == ["d", "d"]


def test_of_two_inserts_with_one_key_the_later_stays_whole(graph: Graph) -> None:
    """W-14: Of two inserts with one key in a mutation the later row stays, whole."""
    receipt = run(graph, 'insert Person { name: "Eve", born: 1, email: "e" } insert Person { name: "Eve", nickName: "E" }')
    assert receipt.affected_nodes == 2
    assert rows(graph, PERSON)["Eve"] == {**NOBODY, "name": "Eve", "nickName": "E"}


def test_a_later_statement_works_on_what_an_earlier_one_left(graph: Graph) -> None:
    """Y-04: A later statement works on what an earlier one left; all statements make one version.

    Also Y-03.
    """
    before = table_row(graph, PERSON).version
    receipt = run(
        graph,
        'update Person set { born: 99 } where name = "Ada" update Person set { email: "late" } where born = 1950'
        ' update Person set { email: "seen" } where born < 100 update Person set { born: 5 } where born > 50',
    )
    assert receipt.affected_nodes == 1 + 0 + 1 + 2
    assert {id_: (row["born"], row["email"]) for id_, row in rows(graph, PERSON).items()} == {
        "Ada": (5, "seen"),
        "Ben": (5, None),
        "Cy": (None, None),
    }
    assert table_row(graph, PERSON).version == before + 1


def test_a_replaced_row_is_seen_as_replaced(graph: Graph) -> None:
    """Y-03: A row that the mutation has replaced hides the committed one."""
    receipt = run(graph, 'insert Person { name: "Ada" } update Person set { born: 1 } where born = 1950')
    assert receipt.affected_nodes == 1
    assert rows(graph, PERSON)["Ada"] == {**NOBODY, "name": "Ada"}


# -- deleting


def test_a_deleted_node_takes_every_edge_at_either_end_along(graph: Graph) -> None:
    """W-19: Deleting a node deletes its edges of every type and at either end in the same commit; a self-edge counts once."""
    run(graph, "insert Note { at: now() }")
    (note,) = rows(graph, "node:Note")
    run(graph, f'insert About {{ from: "{note}", to: "Ada" }}')
    receipt = run(graph, 'delete Person where name = "Ada"')
    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 4)
    assert set(rows(graph, PERSON)) == {"Ben", "Cy"}
    assert (edges(graph, "ActedIn"), edges(graph, "Knows"), edges(graph, "About")) == ([("Ben", "heat")], [("Cy", "Ben")], [])
    assert edges(graph, "Likes") == [("Cy", "dune")]
    assert graph.verify() == []


def test_tables_without_an_edge_to_take_along_do_not_move(graph: Graph) -> None:
    """W-17: A delete that matches no row of a table makes no version of it.
    W-18: Deleting a node without edges moves no edge table.
    """
    run(graph, 'insert Person { name: "Eve" }')
    before = versions(graph)
    run(graph, 'delete Person where name = "Eve"')
    assert versions(graph) == {**before, PERSON: before[PERSON] + 1}


def test_equal_ids_of_another_type_are_not_taken_along(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node A { k: String @key } node B { k: String @key } edge To: A -> B edge Back: B -> A")
    run(
        graph,
        'insert A { k: "x" } insert A { k: "y" } insert B { k: "x" } insert B { k: "y" } insert To { from: "x", to: "y" }'
        ' insert To { from: "y", to: "x" } insert Back { from: "x", to: "y" } insert Back { from: "y", to: "x" }',
    )
    assert run(graph, 'delete A where k = "x"').affected_edges == 2
    assert (edges(graph, "To"), edges(graph, "Back")) == ([("y", "x")], [("x", "y")])


@pytest.mark.parametrize(
    ("text", "nodes", "edge_count"),
    [
        ('delete Person where name = "Ada" delete Person where born < 1970', 2, 5),
        ('delete Person where born < 1970 delete Person where name = "Ada"', 2, 5),
        ('delete ActedIn where from = "Ada" delete Person where name = "Ada"', 1, 3),
        ('delete Person where name = "Ada" delete ActedIn where from = "Ada"', 1, 3),
        ('delete Knows where to = "Ada" delete Knows where from = "Ada"', 0, 2),
        ('delete Film where slug = "heat" delete Person where name = "Ada"', 2, 4),
        ('delete ActedIn where role = "Eve" delete ActedIn where role != "x"', 0, 1),
    ],
)
def test_what_several_deletes_match_is_counted_once(graph: Graph, text: str, nodes: int, edge_count: int) -> None:
    """W-16: Several deletes of one mutation make one version of each table.
    W-20: A cascade into an edge table and a delete of that edge type both take effect.
    W-21: A row that several deletes match is counted once.
    """
    before = versions(graph)
    receipt = run(graph, text)
    assert (receipt.affected_nodes, receipt.affected_edges) == (nodes, edge_count)
    assert all(after - before[alias] in (0, 1) for alias, after in versions(graph).items())
    assert graph.verify() == []


def test_a_predicate_that_is_null_for_a_row_hides_it_from_no_later_one(graph: Graph) -> None:
    """W-22: A row for which one delete's predicate is null can still be matched by a later delete, and its edges go too."""
    receipt = run(graph, 'delete Person where born > 1900 delete Person where name = "Cy"')
    assert (receipt.affected_nodes, receipt.affected_edges) == (3, 6)
    assert rows(graph, PERSON) == {}


def test_edges_are_deleted_by_their_ends_and_by_their_properties(graph: Graph) -> None:
    assert run(graph, 'delete Knows where to = "Ada"').affected_edges == 2
    assert run(graph, "delete Knows where since <= now()").affected_edges == 0, "the one that had a time went with its end"
    assert run(graph, 'delete ActedIn where role = "Eve"').affected_edges == 1
    assert (edges(graph, "Knows"), edges(graph, "ActedIn")) == ([("Cy", "Ben")], [("Ben", "heat")])
    assert set(rows(graph, PERSON)) == {"Ada", "Ben", "Cy"}


def test_very_many_nodes_take_their_edges_along(graph: Graph) -> None:
    """Beyond what one lookup takes the cascade is one pass, and finds the same."""
    count = IN_LIST + 5
    names = pa.array([f"p{n}" for n in range(count)])
    columns = table(graph, PERSON).schema
    people = pa.table([names if field.name in ("id", "name") else pa.nulls(count, field.type) for field in columns], schema=columns)
    knows = table(graph, "edge:Knows").schema
    pairs = {"id": [f"k{n}" for n in range(count)], "src": names, "dst": ["Ada"] * count, "since": [None] * count}
    fill(graph, {PERSON: people, "edge:Knows": pa.table(pairs, schema=knows)})
    receipt = run(graph, 'delete Person where name >= "p"')
    assert (receipt.affected_nodes, receipt.affected_edges) == (count, count)
    assert edges(graph, "Knows") == [("Ada", "Ada"), ("Ben", "Ada"), ("Cy", "Ben")]
    assert graph.verify() == []


@pytest.mark.parametrize(
    "text",
    [
        'insert Person { name: "Z" } delete Person where name = "Ada"',
        'delete Knows where from = "Ada" update Person set { born: 1 } where name = "Ada"',
    ],
)
def test_inserts_and_deletes_do_not_mix_and_no_table_is_asked(graph: Graph, text: str) -> None:
    """W-15: A mutation that mixes inserts or updates with deletes is refused before any table is read."""
    for folder in ("nodes", "edges"):
        shutil.rmtree(Path(graph.uri) / folder)
    reader = og.open(graph.uri)
    with pytest.raises(LanguageError) as caught:
        run(reader, text)
    assert caught.value.code == "D2"
    assert "split into separate mutations: (1) inserts and updates, then (2) deletes" in caught.value.message


# -- commits and receipts


def test_a_query_is_one_commit_and_its_receipt_names_it(graph: Graph) -> None:
    """W-25: The receipt names the commit that the write made, not the head when it is read.

    Also W-09, W-44.
    """
    writer = og.open(graph.uri, actor="act-eve")
    before, start = versions(graph), graph.snapshot()
    receipt = writer.mutate(
        'query q() { insert Person { name: "E" } insert Film { slug: "f", year: 1 } insert Likes { from: "E", to: "f" } }'
    )
    run(graph, 'insert Film { slug: "later", year: 2 }')
    assert receipt.commit is not None
    commit = graph.commit(receipt.commit.id)
    assert commit == receipt.commit
    assert (commit.actor, commit.kind, commit.parents) == ("act-eve", CommitKind.MUTATE, (start.commit_id,))
    assert {change.alias: (change.before, change.after) for change in commit.tables} == {
        alias: (before[alias], before[alias] + 1) for alias in (PERSON, "node:Film", "edge:Likes")
    }
    assert len(graph.commits()) == 4


@pytest.mark.parametrize(
    "text",
    [
        'update Person set { born: 1 } where name = "nobody"',
        'delete Person where name = "nobody"',
        "delete Person where born = 2.5",
        'delete Knows where from = "nobody" delete Film where year > 3000',
    ],
)
def test_matching_nothing_succeeds_without_a_commit(graph: Graph, text: str) -> None:
    """W-24: A mutation that matches nothing succeeds without a commit; on a branch it forks nothing.

    Also W-17.
    """
    graph.branches.create("work")
    for branch in ("main", "work"):
        before = graph.snapshot(branch)
        receipt = run(graph, text, branch=branch)
        assert (receipt.affected_nodes, receipt.affected_edges, receipt.commit) == (0, 0, None)
        assert graph.snapshot(branch) == before


def test_if_commit_must_hold(graph: Graph) -> None:
    """C-18: stale, also for a mutation that matches nothing; current; and never retried when somebody was faster."""
    base = graph.snapshot().commit_id
    run(graph, 'insert Person { name: "Eve" }')
    head = graph.snapshot().commit_id
    for text in ('insert Person { name: "F" }', 'delete Person where name = "nobody"'):
        with pytest.raises(PreconditionFailed) as caught:
            run(graph, text, if_commit=base)
        assert (caught.value.facts["expected"], caught.value.facts["actual"]) == (base, head)
    assert run(graph, 'insert Person { name: "F" }', if_commit=head).commit is not None
    racing = Racing({"n": "G"}, lambda: run(og.open(graph.uri), 'insert Person { name: "faster" }'))
    with pytest.raises(PreconditionFailed):
        run(graph, "($n: String) insert Person { name: $n }", racing, if_commit=graph.snapshot().commit_id)
    assert set(rows(graph, PERSON)) == {"Ada", "Ben", "Cy", "Eve", "F", "faster"}


def test_a_token_gives_the_first_receipt_again(graph: Graph) -> None:
    text = 'insert Person { name: "Eve" } insert Likes { from: "Eve", to: "dune" }'
    first = run(graph, text, token="job-1")
    before = graph.snapshot()
    assert run(og.open(graph.uri), text, token="job-1") == first
    assert graph.snapshot() == before
    assert run(graph, text, token="job-2") != first


def test_a_token_used_again_for_another_mutation_is_refused(graph: Graph) -> None:
    text = "query q($name: String, $at: DateTime?) { insert Person { name: $name } }"
    first = graph.mutate(text, params={"name": "Gil", "at": datetime(2026, 1, 1, tzinfo=UTC)}, token="job")
    again = graph.mutate(text, params={"at": datetime(2026, 1, 1, tzinfo=UTC), "name": "Gil"}, token="job", message="again")
    assert again == first
    before = graph.snapshot()
    for params in ({"name": "Hal", "at": datetime(2026, 1, 1, tzinfo=UTC)}, {"name": "Gil", "at": None}, {"name": "Gil"}):
        with pytest.raises(InvalidInput, match=r"belongs to another mutate, commit .*; nothing was written") as reused:
            graph.mutate(text, params=params, token="job")
        assert reused.value.kind is Kind.TOKEN_REUSED
        assert reused.value.facts == {"token": "job", "commit": first.commit.id}  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="belongs to another mutate"):
        og.open(graph.uri).mutate(text.replace("insert", " insert"), params={"name": "Gil"}, token="job")
    assert graph.snapshot() == before
    graph.branches.create("work")
    graph.mutate(text, params={"name": "Hal"}, branch="work", token="job")  # a token belongs to one branch


def test_the_digest_survives_a_recovery_and_is_absent_without_a_token(graph: Graph) -> None:
    text = 'insert Person { name: "Gil" }'
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        run(graph, text, token="job")
    healed = og.open(graph.uri)
    first = run(healed, text, token="job")
    assert first.commit is not None
    assert first.commit.digest is not None
    with pytest.raises(InvalidInput, match="belongs to another mutate"):
        run(healed, 'insert Person { name: "Hal" }', token="job")
    plain = run(healed, 'insert Person { name: "Ida" }')
    assert plain.commit is not None
    assert plain.commit.digest is None


def test_a_token_of_another_kind_of_write_is_refused(graph: Graph, tmp_path: Path) -> None:
    """Its receipt says nothing about nodes and edges."""
    note(manifest_of(graph), "a load", token="job-1")
    with pytest.raises(InvalidInput) as caught:
        run(graph, 'insert Person { name: "Eve" }', token="job-1")
    assert "job-1" in caught.value.message
    assert "Eve" not in rows(graph, PERSON)


# -- races


def test_now_is_one_instant_however_often_the_mutation_is_prepared(graph: Graph) -> None:
    """W-49: `now()` is one instant in the whole mutation, however often it is prepared.

    In every statement, in values and in predicates; the second preparation happens later, and does not show.
    """
    raced_at: list[float] = []

    def race() -> None:
        raced_at.append(time.time() * 1000)
        time.sleep(0.01)
        run(og.open(graph.uri), 'insert Person { name: "faster" }')

    racing = Racing({"n": "Eve"}, race)
    run(
        graph,
        "($n: String) insert Person { name: $n, seen: now() } insert Note { at: now() } update Note set { text: $n } where at = now()",
        racing,
    )
    assert racing.prepared > 2, "it was prepared again"
    (note,) = rows(graph, "node:Note").values()
    assert (rows(graph, PERSON)["Eve"]["seen"], "Eve") == (note["at"], note["text"])
    assert isinstance(note["at"], int)
    assert note["at"] <= raced_at[0]


def test_an_overtaken_update_sees_what_the_other_wrote(graph: Graph) -> None:
    racing = Racing({"b": 1900}, lambda: run(og.open(graph.uri), 'insert Person { name: "Eve", born: 1999 }'))
    assert run(graph, '($b: I32) update Person set { email: "z" } where born > $b', racing).affected_nodes == 3
    assert values(graph, PERSON, "email")["Eve"] == "z"


def test_an_overtaken_delete_takes_new_edges_along(graph: Graph) -> None:
    racing = Racing({"n": "Ada"}, lambda: run(og.open(graph.uri), 'insert Likes { from: "Ada", to: "dune" }'))
    assert run(graph, "($n: String) delete Person where name = $n", racing).affected_edges == 4
    assert graph.verify() == []


def test_an_edge_whose_end_was_deleted_meanwhile_is_refused(graph: Graph) -> None:
    racing = Racing({"n": "Ada"}, lambda: run(og.open(graph.uri), 'delete Person where name = "Ada"'))
    with pytest.raises(InvalidInput) as caught:
        run(graph, '($n: String) insert Likes { from: $n, to: "dune" }', racing)
    assert caught.value.message == "src 'Ada' not found in Person"
    assert graph.verify() == []


# -- branches


def test_a_branch_is_changed_alone(graph: Graph) -> None:
    """B-04: A delete as the first write of a branch forks the node's table and those of the edges it removes, no other.

    Also B-02, B-13.
    """
    graph.branches.create("work")
    run(graph, 'update Person set { born: 1 } where name = "Ben"')
    main = {alias: rows(graph, alias) for alias in (PERSON, "edge:Knows", "edge:ActedIn")}
    receipt = run(graph, 'delete Person where name = "Ada"', branch="work")
    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 3)
    assert set(rows(graph, PERSON, branch="work")) == {"Ben", "Cy"}
    assert values(graph, PERSON, "born", branch="work")["Ben"] == 1960
    assert {alias: rows(graph, alias) for alias in main} == main
    forked = {f"{table.kind}:{table.type_name}" for table in graph.snapshot("work").tables if table.native_branch is not None}
    assert forked == {PERSON, "edge:Knows", "edge:ActedIn"}
    run(graph, 'insert Person { name: "Eve" } insert Likes { from: "Eve", to: "dune" }', branch="work")
    assert ("Eve", "dune") in edges(graph, "Likes", branch="work")
    assert graph.verify() == []


# -- indexes


@pytest.mark.parametrize("name", [*SCALARS, "b"])
def test_an_index_answers_a_mutation_of_its_type(every: Graph, name: str) -> None:
    """X-04: A literal is cast to its column's type, so an index can answer it."""
    three_of_each(every)
    run(every, 'update Every set { b: true } where k = "1"')
    build_indexes(every, "node:Every", name, "id")
    value = "true" if name == "b" else SCALARS[name][1]
    for operator in ("=", "<", ">="):
        query = select_query(parse_queries(f"query q() {{ update Every set {{ mark: 1 }} where {name} {operator} {value} }}"), None)
        (update,) = plan_mutation(check_mutation(query, every.catalog), {}, now_ms=0).statements
        assert isinstance(update, UpdateRows)
        assert "ScalarIndexQuery" in table(every, "node:Every").dataset.scanner(filter=sql(update.where)).explain_plan()
    run(every, f'insert Every {{ k: "new", {name}: {value} }}')
    assert run(every, f"update Every set {{ mark: 1 }} where {name} = {value}").affected_nodes == 2
    assert marked(every) == {"1", "new"}


def test_ids_and_ends_are_looked_up_by_their_indexes(graph: Graph) -> None:
    """X-04: endpoints, cascades and deletes; the same counts as without."""
    build_indexes(graph, PERSON, "id")
    build_indexes(graph, "edge:Knows", "id", "src", "dst")
    for alias, column in ((PERSON, "id"), ("edge:Knows", "src"), ("edge:Knows", "dst")):
        plan = table(graph, alias).dataset.scanner(filter=one_of(column, pa.array(["Ada", "it's"]))).explain_plan()
        assert "ScalarIndexQuery" in plan
    run(graph, 'insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Ada" }')
    assert run(graph, 'delete Person where name = "Ada"').affected_edges == 4
    assert edges(graph, "Knows") == [("Cy", "Ben")]
    assert graph.verify() == []


def test_a_mutation_that_waits_for_the_branch_reads_the_index_meanwhile(tmp_path: Path) -> None:
    """What it reads ahead decides nothing: it is prepared on the state that the writer before it leaves."""
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  n: I64? }")
    graph.load({"Person": pa.table({"name": [f"p{n}" for n in range(100)]})}, mode="append")
    graph.ensure_indices()
    waiting = og.open(tmp_path / "g")
    put = "query put($name: String, $n: I64) { insert Person { name: $name, n: $n } }"
    blocks = waiting.engine.root.memory.keys
    with hold(graph.engine.manifest):
        other = threading.Thread(target=lambda: waiting.mutate(put, params={"name": "p7", "n": 1}))
        other.start()
        while not blocks.values():  # it reads before it waits
            time.sleep(0.01)
        assert waiting.query("query q() { match { $p: Person { n: 1 } } return { $p.name } }").rows == []
    other.join()
    assert waiting.query("query q() { match { $p: Person { n: 1 } } return { $p.name as name } }").rows == [{"name": "p7"}]
    assert waiting.query("query q() { match { $p: Person } return { count($p) as n } }").rows == [{"n": 100}]
