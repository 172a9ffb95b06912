"""Groups: the same answer however the rows are cut into batches; nulls group together; lists may be keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf, Plain
from omnigraph.exec.read.aggregate import Grouping, list_codes
from omnigraph.exec.read.rows import Rows
from omnigraph.lang.query import AggregateFunction
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import F64, I64, STRING, Field
from omnigraph.plan.ir import Call
from tests.reads import ask, bag, graph_of, person

KEY = Field(0, "k", STRING, nullable=True)
LIST = Field(0, "l", ListOf(Scalar.I32), nullable=True)
X = Field(0, "x", Plain(Scalar.F64), nullable=True)
CALLS = (
    Call(AggregateFunction.COUNT, X, I64),
    Call(AggregateFunction.SUM, X, F64),
    Call(AggregateFunction.AVG, X, F64),
    Call(AggregateFunction.MIN, X, F64),
    Call(AggregateFunction.MAX, X, F64),
)

values = st.none() | st.integers(-8, 8).map(float)
row = st.tuples(st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.lists(st.integers(0, 2), max_size=2), values)


def grouped(rows: list[tuple[Any, ...]], keys: tuple[Field, ...], cuts: int, *, merged: int = 1 << 20) -> list[tuple[Any, ...]]:
    """Through `Grouping`, the rows handed in `cuts` at a time."""
    grouping = Grouping((*keys, *CALLS), merge_rows=merged)
    types = {"k": pa.string(), "l": pa.list_(pa.int32()), "x": pa.float64()}
    columns = {name: pa.array([one[at] for one in rows], types[name]) for at, name in enumerate("klx")}
    for start in range(0, len(rows), cuts):
        numbers = np.arange(start, min(start + cuts, len(rows)), dtype=np.int64)
        grouping.add(Rows(len(numbers), {0: numbers}), lambda expr, at=numbers: columns[expr.column].take(pa.array(at)))  # type: ignore[misc]
    found = grouping.columns(lambda field, numbers: columns[field.column].take(pa.array(numbers)))
    return list(zip(*(column.to_pylist() for column in found), strict=True))


def by_the_rules(rows: list[tuple[Any, ...]], keys: tuple[int, ...]) -> list[tuple[Any, ...]]:
    groups: dict[str, tuple[list[Any], list[float]]] = {} if keys else {"[]": ([], [])}
    for one in rows:
        key = [one[at] for at in keys]
        held = groups.setdefault(repr(key), (key, []))[1]
        held += [one[2]] if one[2] is not None else []
    return [
        (
            *key,
            len(held),
            sum(held) if held else None,
            sum(held) / len(held) if held else None,
            min(held, default=None),
            max(held, default=None),
        )
        for key, held in groups.values()
    ]


def test_many_groups_come_in_the_same_order_every_time() -> None:
    """One thread merges them: several would each build a table of all groups, and hand them out as they finish."""
    rows = [(f"k{at * 7919 % 200_003}", None, 1.0) for at in range(200_003)]
    first = grouped(rows, (KEY,), 65_536)
    assert len(first) == len(rows)
    assert all(grouped(rows, (KEY,), 65_536) == first for _ in range(3))


@settings(deadline=None)
@given(st.lists(row, max_size=12), st.sampled_from([(), (0,), (1,), (0, 1)]), st.integers(1, 5))
def test_groups_do_not_depend_on_batches(rows: list[tuple[Any, ...]], keys: tuple[int, ...], cuts: int) -> None:
    fields = tuple((KEY, LIST)[at] for at in keys)
    assert sorted(grouped(rows, fields, cuts), key=repr) == sorted(by_the_rules(rows, keys), key=repr)


def test_states_that_were_merged_on_the_way_give_the_same() -> None:
    rows = [("a" if at % 3 else None, None, float(at)) for at in range(40)]
    assert sorted(grouped(rows, (KEY,), 2, merged=3), key=repr) == sorted(by_the_rules(rows, (0,)), key=repr)


@settings(deadline=None)
@given(st.lists(st.none() | st.lists(st.none() | st.sampled_from([0.0, -0.0, 1.0]), max_size=3), max_size=8))
def test_equal_lists_have_equal_codes(lists: list[Any]) -> None:
    codes = list_codes(pa.array(lists, pa.list_(pa.float64()))).tolist()
    for at, one in enumerate(lists):
        for other, two in enumerate(lists):
            assert (codes[at] == codes[other]) is (one == two)


def test_both_zeros_are_one_group(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", height=0.0), person("b", height=-0.0), person("c", height=1.0))
    assert bag(graph, "match { $p: Person } return { $p.height, count($p) as n }") == [(0.0, 2), (1.0, 1)]


def test_a_vector_and_a_whole_node_may_be_keys(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", vec=[1, 2]), person("b", vec=[1, 2]), person("c"))
    assert bag(graph, "match { $p: Person } return { $p.vec as v, count($p) as n }") == [(None, 1), ([1.0, 2.0], 2)]
    assert bag(graph, "match { $p: Person } return { $p, count($p.vec) as n }") == [("a", 1), ("b", 1), ("c", 0)]


def test_sums_of_wide_integers_are_doubles(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", votes=2**64 - 1), person("b", votes=1))
    ((total, most),) = ask(graph, "match { $p: Person } return { sum($p.votes) as s, max($p.votes) as m }")
    assert math.isclose(total, 2.0**64)
    assert most == 2**64 - 1


def test_no_rows_make_one_group_without_keys_and_none_with_them(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    everything = "count($p) as n, sum($p.born) as s, avg($p.born) as a, min($p.name) as lo, max($p.name) as hi"
    assert ask(graph, f"match {{ $p: Person }} return {{ {everything} }}") == [(0, None, None, None, None)]
    assert ask(graph, f"match {{ $p: Person }} return {{ $p.born, {everything} }}") == []
