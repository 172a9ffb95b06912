"""Where a plan says that an index leads, Lance takes it; and with or without one, wholly or partly covered, the same rows match."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import NodeType
from omnigraph.exec.read.predicate import column, literal, sql
from omnigraph.exec.read.table_statistics import Surveyor
from omnigraph.graph import Graph
from omnigraph.lang import parse_queries, select_query
from omnigraph.lang.query import Comparison
from omnigraph.plan import ops
from omnigraph.plan.check import check_read
from omnigraph.plan.explain import explain
from omnigraph.plan.expr import Constant, Field, Value
from omnigraph.plan.ir import AnyOf, Compare, OneOf
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.store.index import existing
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Table
from tests.mutations import fill, table
from tests.samples import sample
from tests.unit.exec.test_statistics import statistics

THINGS = """
node Thing {
  name: String @key
  colour: enum(red, green, blue)? @index
  flag: Bool? @index
  small: I32? @index
  large: I64? @index
  smallCount: U32? @index
  largeCount: U64? @index
  single: F32? @index
  double: F64? @index
  day: Date? @index
  seenAt: DateTime? @index
  nickName: String? @index
  email: String? @unique
  plain: I32?
}
"""
INF, NAN = math.inf, math.nan
STORED: dict[str, list[Value | None]] = {
    "name": ["a", "b", "c", "d", "e", "f", "g", "h"],
    "colour": ["red", "green", "blue", None, "red", "red", "green", None],
    "flag": [True, False, None, True, False, True, None, False],
    "small": [-(2**31), -1, 0, 1, 2**31 - 1, None, 0, 7],
    "large": [-(2**63), -1, 0, 1, 2**63 - 1, None, 0, 7],
    "smallCount": [0, 1, 2**32 - 1, None, 1, 7, 2**31, 3],
    "largeCount": [0, 1, 2**64 - 1, None, 2**63, 2**63 - 1, 7, 7],
    "single": [-INF, -0.0, 0.0, 0.1, INF, NAN, None, -1.5],
    "double": [-INF, -0.0, 0.0, 0.1, INF, NAN, None, 5e-324],
    "day": [-719162, -1, 0, 1, 2932896, None, 0, 20000],
    "seenAt": [-62135596800000, -1, 0, 1, 253402300799999, None, 0, 86400000],
    "nickName": ["", "Ann", "ann", "Änn", "it's", "\U0010ffff", None, "An"],
    "email": ["a@x", "a@y", "b@x", None, "", "A@x", "z", "a"],
    "plain": [0, 1, 2, 3, 4, 5, 6, None],
}
INDEXED = [name for name in STORED if name != "plain"]
COVERED = 5
"""How many of the rows are there when a partial index is built."""


def thing(graph: Graph) -> NodeType:
    node = graph.catalog.node("Thing")
    assert node is not None
    return node


def rows(graph: Graph, start: int, stop: int) -> pa.Table:
    schema = table_schema(thing(graph))
    at_rest = {pa.date32(): pa.int32(), pa.date64(): pa.int64()}
    columns = {
        field.name: pa.array(
            (STORED["name"] if field.name == "id" else STORED[field.name])[start:stop], at_rest.get(field.type, field.type)
        )
        for field in schema
    }
    return pa.table({name: values.cast(schema.field(name).type) for name, values in columns.items()}, schema=schema)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Graph]]:
    """The same rows without indexes, with all, and with some that came later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FSYNC_ENVIRONMENT, "off")
        yield {name: _made(tmp_path_factory.mktemp(name), name) for name in ("without", "whole", "partly")}


@pytest.fixture(scope="module")
def tables(graphs: dict[str, Graph]) -> dict[str, Table]:
    return {name: table(graph, "node:Thing") for name, graph in graphs.items()}


def _made(folder: Path, name: str) -> Graph:
    graph = og.init(folder / "g", schema=THINGS)
    for start, stop in ((0, COVERED), (COVERED, 8)):
        if name == "partly" and start == COVERED:
            graph.ensure_indices()
        fill(graph, {"node:Thing": rows(graph, start, stop)})
    if name == "whole":
        graph.ensure_indices()
    return graph


def ids(shown: Table, where: str) -> list[str]:
    return sorted(shown.scan(["id"], where=where).read_all()["id"].to_pylist())


def uses_index(shown: Table, where: str) -> bool:
    return "ScalarIndexQuery" in shown.dataset.scanner(columns=["id"], filter=where).explain_plan()


def field_of(graph: Graph, name: str) -> Field:
    property_ = thing(graph).property(name)
    assert property_ is not None
    return Field(0, name, property_.type)


@pytest.mark.parametrize("name", INDEXED)
def test_an_indexed_column_is_asked_by_its_index(graphs: dict[str, Graph], tables: dict[str, Table], name: str) -> None:
    """X-14: Every type, comparison, list of values and prefix is answered by an index, whatever the case of the name.

    Also X-02, X-04.
    """
    graph = graphs["whole"]
    field, value = field_of(graph, name), STORED[name][1]
    other = field_of(graph, "nickName")
    assert value is not None
    asked = [sql(Compare(field, comparison, Constant(field.type, value))) for comparison in Comparison]
    asked.append(sql(OneOf(field, (value, STORED[name][0]))))  # type: ignore[arg-type]  # neither is null
    asked.append(sql(AnyOf((Compare(field, Comparison.EQ, Constant(field.type, value)), OneOf(other, ("Ann", "it's"))))))
    if isinstance(value, str):
        asked.append(f"starts_with({column(name)}, {literal(value[:1], field.type)})")
    for where in asked:
        assert uses_index(tables["whole"], where), where
    assert uses_index(tables["partly"], asked[0])
    assert not uses_index(tables["without"], asked[0])


@pytest.mark.parametrize(
    ("clause", "led_by"),
    [
        ("$t.small > 5", "small"),
        ("$t.seenAt >= datetime('2020-01-01T00:00:00Z')", "seenAt"),
        ("$t.single = 0.1", "single"),
        ("$t.largeCount = 18446744073709551615", "largeCount"),
        ("$t.colour = 'red'", "colour"),
        ("$t.nickName starts_with 'An'", "nickName"),
        ("$t.plain = 3", None),
        ("$t.small != 3", None),
        ("$t.small in [1, 7]", "small"),
        ("($t.small = 1 or $t.small = 7)", "small"),
        ("($t.small = 1 or $t.nickName = 'Ann' or $t.small > 5)", "small, nickName"),
        ("($t.small = 1 or ($t.plain = 3 and $t.nickName = 'Ann'))", "small, nickName"),
        ("($t.small = 1 or $t.plain = 3)", None),
        ("not ($t.small = 1 or $t.nickName = 'Ann')", None),
    ],
)
def test_a_plan_claims_an_index_exactly_where_one_leads(graphs: dict[str, Graph], clause: str, led_by: str | None) -> None:
    """X-02: A plan names an index exactly where one exists; without indexes the same query is a full scan."""
    for name, graph in graphs.items():
        scan = scan_of(graph, clause)
        assert ", ".join(scan.indexes) == (led_by if led_by and name != "without" else ""), name
    text = explain(plan(graphs["whole"], clause)).text
    assert (f"index on {led_by}" if led_by else "full scan") in text


def plan(graph: Graph, clause: str) -> ops.ReadPlan:
    query = f"query q() {{ match {{ $t: Thing  {clause} }} return {{ $t.name }} }}".replace("'", '"')
    read = check_read(select_query(parse_queries(query), None), graph.catalog)
    known = statistics(Surveyor(graph.engine.tables), graph.engine.manifest.snapshot(), graph.catalog, [thing(graph).id])
    return plan_read(read, bind_parameters(read.parameters, None), now_ms=0, statistics=known)


def scan_of(graph: Graph, clause: str) -> ops.Scan:
    op = plan(graph, clause).root
    while not isinstance(op, ops.Scan):
        op = op.input  # type: ignore[union-attr]  # a query over one type is a chain
    return op


@settings(max_examples=sample(150, whole=2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_index_never_changes_which_rows_match(graphs: dict[str, Graph], tables: dict[str, Table], data: st.DataObject) -> None:
    """X-03: An index never changes which rows match, whether it covers all rows, some or none.

    No index, a whole one and a partial one agree, at the edges of every type: zeros of both signs, NaN, nulls, extremes.
    """
    word = data.draw(st.sampled_from([None, " OR ", " AND "]), label="joined by")
    where = drawn(graphs["whole"], data) if word is None else word.join(f"({drawn(graphs['whole'], data)})" for _ in range(2))
    found = {kind: ids(shown, where) for kind, shown in tables.items()}
    assert found["whole"] == found["partly"] == found["without"], where


def drawn(graph: Graph, data: st.DataObject) -> str:
    """A condition on one column."""
    name = data.draw(st.sampled_from(INDEXED), label="column")
    field = field_of(graph, name)
    values: st.SearchStrategy[Any] = st.sampled_from([value for value in STORED[name] if value is not None])
    operator = data.draw(st.sampled_from([*Comparison, "in", "prefix", "null", "not null"]), label="operator")
    value = data.draw(values, label="value")
    match operator:
        case Comparison():
            where = sql(Compare(field, operator, Constant(field.type, value)))
        case "in":
            where = sql(OneOf(field, tuple(data.draw(st.lists(values, min_size=1, max_size=3), label="values"))))
        case "prefix" if isinstance(value, str):
            where = f"starts_with({column(name)}, {literal(value, field.type)})"
        case _:
            where = f"{column(name)} IS {'NOT ' if operator == 'not null' else ''}NULL"
    return f"NOT ({where})" if data.draw(st.booleans(), label="negated") else where


def test_the_rows_are_covered_as_said(tables: dict[str, Table]) -> None:
    assert {kind: {index.uncovered_rows for index in existing(shown)} for kind, shown in tables.items()} == {
        "without": set(),
        "whole": {0},
        "partly": {8 - COVERED},
    }
