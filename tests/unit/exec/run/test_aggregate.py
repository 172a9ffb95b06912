"""Groups: the same answer however the rows are cut into batches; nulls group together; any value may be a key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf, Plain
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.aggregate import DistinctRows, Grouping, only_counts
from omnigraph.exec.read.rows import NULL_ENTITY, Cells, Rows
from omnigraph.lang.query import AggregateFunction
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import BOOL, DATE, F64, I64, STRING, U64, Field, whole
from omnigraph.plan.ir import Call
from tests.reads import ask, bag, graph_of, person

F = AggregateFunction
KEY = Field(0, "k", STRING, nullable=True)
LIST = Field(0, "l", ListOf(Scalar.I32), nullable=True)
FLOAT = Field(0, "f", F64, nullable=True)
X = Field(0, "x", F64, nullable=True)
N = Field(0, "n", I64, nullable=True)
NODE, OTHER = whole(0), whole(1, nullable=True)
TYPES: Final = {"k": pa.string(), "l": pa.list_(pa.field("item", pa.int32())), "f": pa.float64(), "x": pa.float64(), "n": pa.int64()}

Row = tuple[str | None, list[int] | None, float | None, float | None, int | None, int]
"""The columns of `TYPES`, and the number of binding 1."""

values = st.none() | st.integers(-8, 8).map(float)
row = st.tuples(
    st.none() | st.sampled_from(["", "a", "b"]),
    st.none() | st.lists(st.integers(0, 2), max_size=2),
    st.none() | st.sampled_from([0.0, -0.0, float("nan"), -float("nan"), 1.0]),
    values,
    st.none() | st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1]),
    st.integers(NULL_ENTITY, 3),
)
CALLS: Final = (
    Call(F.COUNT, None, I64),
    Call(F.COUNT, X, I64),
    Call(F.COUNT, OTHER, I64),
    Call(F.SUM, X, F64),
    Call(F.AVG, X, F64),
    Call(F.MIN, X, F64),
    Call(F.MAX, X, F64),
    Call(F.COUNT, N, I64, distinct=True),
    Call(F.COUNT, OTHER, I64, distinct=True),
    Call(F.COUNT, LIST, I64, distinct=True),
    Call(F.SUM, X, F64, distinct=True),
    Call(F.AVG, X, F64, distinct=True),
    Call(F.COLLECT, X, ListOf(Scalar.F64)),
    Call(F.COLLECT, N, ListOf(Scalar.I64), distinct=True),
    Call(F.COLLECT, OTHER, ListOf(Scalar.STRING)),
)


def id_of(number: int) -> str | None:
    """Ids in another order than the numbers."""
    return None if number == NULL_ENTITY else f"id{97 - number:03}"


def grouped(
    rows: Sequence[Row],
    keys: Sequence[Field],
    cuts: int,
    *,
    calls: Sequence[Call] = CALLS,
    ties: Sequence[int] = (),
    merged: int = 1 << 20,
) -> list[tuple[Any, ...]]:
    """Through `Grouping`, the rows handed in `cuts` at a time. The number of the first binding is the position of the row."""
    columns = {name: pa.array([one[at] for one in rows], type_) for at, (name, type_) in enumerate(TYPES.items())}

    def read_back(binding: int, name: str, numbers: Numbers64) -> pa.Array:
        assert name == "id"
        return pa.array([id_of(number) for number in numbers.tolist()], pa.string())

    grouping = Grouping((*keys, *calls), read_back, ties=ties, merge_rows=merged)
    for start in range(0, len(rows), cuts):
        numbers = np.arange(start, min(start + cuts, len(rows)), dtype=np.int64)
        others = np.array([one[5] for one in rows[start : start + cuts]], np.int64)
        grouping.add(
            Rows(len(numbers), {0: numbers, 1: others}),
            lambda expr, at=numbers: columns[expr.column].take(pa.array(at)),  # type: ignore[misc]
        )
    found = grouping.cells()
    return [] if found is None else list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def by_the_rules(rows: Sequence[Row], keys: Sequence[Field], ties: Sequence[int] = ()) -> list[tuple[Any, ...]]:
    """Group by group, with Python's own lists, sums and sets."""
    groups: dict[Any, list[tuple[int, Row]]] = {} if keys else {(): []}
    for at, one in enumerate(rows):
        groups.setdefault(tuple(form(_of(key, at, one)) for key in keys), []).append((at, one))
    found = []
    for held in groups.values():
        first = [_of(key, *held[0]) for key in keys]
        if ties:
            held.sort(key=lambda pair: [id_of(pair[0] if tie == 0 else pair[1][5]) or "" for tie in ties])
        x = [one[3] for _, one in held if one[3] is not None]
        n = [one[4] for _, one in held if one[4] is not None]
        others = [one[5] for _, one in held if one[5] != NULL_ENTITY]
        lists = {tuple(one[1]) for _, one in held if one[1] is not None}
        found.append(
            (
                *first,
                len(held),
                len(x),
                len(others),
                *(_sum(x), _avg(x), min(x, default=None), max(x, default=None)),
                *(len(set(n)), len(set(others)), len(lists)),
                *(_sum(set(x)), _avg(set(x))),
                *(x, list(dict.fromkeys(n)), [id_of(other) for other in others]),
            )
        )
    return found


def _of(key: Field, at: int, one: Row) -> Any:
    if key.entity:
        return id_of(at if key.binding == 0 else one[5])
    value = one[list(TYPES).index(key.column)]
    return value + 0.0 if isinstance(value, float) else value


def _sum(found: Any) -> float | None:
    return sum(found) if found else None


def _avg(found: Any) -> float | None:
    return sum(found) / len(found) if found else None


def form(value: Any) -> Any:
    """Equal for equal values only."""
    if isinstance(value, list | tuple):
        return tuple(form(item) for item in value)
    return "NaN" if isinstance(value, float) and value != value else value


def test_many_groups_come_in_the_same_order_every_time() -> None:
    """One thread merges them: several would each build a table of all groups, and hand them out as they finish."""
    rows: list[Row] = [(f"k{at * 7919 % 200_003}", None, None, 1.0, None, 0) for at in range(200_003)]
    calls = (Call(F.SUM, X, F64),)
    first = grouped(rows, (KEY,), 65_536, calls=calls)
    assert len(first) == len(rows)
    assert all(grouped(rows, (KEY,), 65_536, calls=calls) == first for _ in range(3))


@settings(deadline=None)
@given(
    st.lists(row, max_size=12),
    st.lists(st.sampled_from([KEY, LIST, FLOAT, NODE, OTHER]), max_size=2, unique=True),
    st.integers(1, 5),
    st.sampled_from([1, 3, 1 << 20]),
    st.sampled_from([(), (0,), (1, 0)]),
)
def test_groups_do_not_depend_on_batches(rows: list[Row], keys: list[Field], cuts: int, merged: int, ties: tuple[int, ...]) -> None:
    found = grouped(rows, keys, cuts, merged=merged, ties=ties)
    assert sorted(map(form, found), key=repr) == sorted(map(form, by_the_rules(rows, keys, ties)), key=repr)


def test_states_that_were_merged_on_the_way_give_the_same() -> None:
    rows: list[Row] = [("a" if at % 3 else None, None, None, float(at), at, at % 5) for at in range(40)]
    assert sorted(grouped(rows, (KEY,), 2, merged=3), key=repr) == sorted(by_the_rules(rows, (KEY,)), key=repr)


@settings(deadline=None)
@given(st.lists(row, max_size=10), st.sampled_from([(), (KEY,)]), st.sampled_from([(I64, pa.int64()), (U64, pa.uint64())]))
def test_sums_of_integers_are_exact_or_fail(rows: list[Row], keys: tuple[Field, ...], types: tuple[Plain, pa.DataType]) -> None:
    """Only the total counts: what is outside the range on the way may come back."""
    type_, arrow = types
    least, most = (0, 2**64 - 1) if type_ == U64 else (-(2**63), 2**63 - 1)
    numbers = [None if one[4] is None else one[4] % 2**64 if type_ == U64 else one[4] for one in rows]
    grouping = Grouping((*keys, Call(F.SUM, N, type_)), lambda *_: pa.nulls(0))
    columns = {"k": pa.array([one[0] for one in rows], pa.string()), "n": pa.array(numbers, arrow)}
    grouping.add(Rows(len(rows), {0: np.arange(len(rows))}), lambda expr: columns[expr.column])  # type: ignore[union-attr]
    groups: dict[str | None, list[int]] = {} if keys else {None: []}
    for one, number in zip(rows, numbers, strict=True):
        groups.setdefault(one[0] if keys else None, []).extend([] if number is None else [number])
    totals = [sum(held) if held else None for held in groups.values()]
    if outside := [total for total in totals if total is not None and not least <= total <= most]:
        with pytest.raises(InvalidInput) as refused:
            grouping.cells()
        assert refused.value.kind is Kind.NUMERIC_OVERFLOW
        assert refused.value.message == f"the sum {outside[0]} is outside the range of {type_.scalar}"
    else:
        found = grouping.cells()
        assert ([] if found is None else found.columns[-1].to_pylist()) == totals


def test_minimum_and_maximum_of_values_without_numbers() -> None:
    types = {"b": (BOOL, pa.bool_()), "d": (DATE, pa.date32())}
    columns = {"b": pa.array([True, None, False]), "d": pa.array([3, None, -1], pa.date32())}
    calls = [Call(function, Field(0, name, type_), type_) for name, (type_, _) in types.items() for function in (F.MIN, F.MAX)]
    grouping = Grouping(calls, lambda *_: pa.nulls(0))
    grouping.add(Rows(3, {0: np.arange(3)}), lambda expr: columns[expr.column])  # type: ignore[union-attr]
    found = grouping.cells()
    assert found is not None
    assert [column.to_pylist()[0] for column in found.columns[:2]] == [False, True]
    assert [column.cast(pa.int32()).to_pylist()[0] for column in found.columns[2:]] == [-1, 3]


def test_rows_that_stand_for_many_are_counted_that_often() -> None:
    calls = (Call(F.COUNT, None, I64), Call(F.COUNT, OTHER, I64), Call(F.COUNT, whole(2), I64))
    assert only_counts(calls, 2)
    assert not only_counts((Call(F.COUNT, whole(2), I64, distinct=True),), 2)
    assert not only_counts((*calls, whole(2)), 2)
    grouping = Grouping(calls, lambda *_: pa.nulls(0))
    grouping.add(Rows(3, {1: np.array([NULL_ENTITY, 0, 1])}), lambda _: pa.nulls(3), times=np.array([5, 3, 1]))
    found = grouping.cells()
    assert found is not None
    assert [column.to_pylist() for column in found.columns] == [[9], [4], [9]]


def test_no_rows_have_one_group_without_keys_and_none_with_them() -> None:
    assert grouped([], (KEY,), 1) == []
    assert grouped([], (), 1) == [(0, 0, 0, None, None, None, None, 0, 0, 0, None, None, [], [], [])]


# -- distinct rows


@settings(deadline=None)
@given(st.lists(row, max_size=14), st.integers(1, 5), st.sampled_from([1, 4, 1 << 20]))
def test_distinct_rows_are_the_first_of_equal_ones(rows: list[Row], cuts: int, merged: int) -> None:
    found = DistinctRows(merge_rows=merged)
    for start in range(0, len(rows), cuts):
        part = rows[start : start + cuts]
        found.add(Cells(len(part), [pa.array([one[at] for one in part], type_) for at, type_ in enumerate(list(TYPES.values())[:3])]))
    cells = found.cells()
    expected = list(dict.fromkeys(form(one[:3]) for one in rows))
    if cells is None:
        assert not rows
        return
    assert form(list(zip(*(column.to_pylist() for column in cells.columns), strict=True))) == tuple(expected)
    assert [column.type for column in cells.columns] == list(TYPES.values())[:3]


def test_distinct_rows_take_memory_for_distinct_rows_only() -> None:
    found = DistinctRows(merge_rows=1_000)
    for _ in range(200):
        found.add(Cells(1_000, [pa.array(np.arange(1_000) % 10)]))
        assert found.nbytes <= 4 * 8_000


# -- through the language


def test_both_zeros_are_one_group(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", height=0.0), person("b", height=-0.0), person("c", height=1.0))
    assert bag(graph, "match { $p: Person } return { $p.height, count($p) as n }") == [(0.0, 2), (1.0, 1)]


def test_a_vector_and_a_whole_node_may_be_keys(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", vec=[1, 2]), person("b", vec=[1, 2]), person("c"))
    assert bag(graph, "match { $p: Person } return { $p.vec as v, count($p) as n }") == [(None, 1), ([1.0, 2.0], 2)]
    assert bag(graph, "match { $p: Person } return { $p, count($p.vec) as n }") == [("a", 1), ("b", 1), ("c", 0)]


def test_sums_of_wide_integers_are_exact(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", votes=2**63), person("b", votes=2**63 - 1), person("c", votes=1))
    read = "match { $p: Person  $p.name < $n } return { sum($p.votes) as s, max($p.votes) as m }"
    assert ask(graph, f"($n: String) {read}", {"n": "c"}) == [(2**64 - 1, 2**63)]
    with pytest.raises(InvalidInput) as refused:
        ask(graph, f"($n: String) {read}", {"n": "d"})
    assert refused.value.kind is Kind.NUMERIC_OVERFLOW


def test_no_rows_make_one_group_without_keys_and_none_with_them(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    everything = "count($p) as n, sum($p.born) as s, avg($p.born) as a, min($p.name) as lo, max($p.name) as hi"
    assert ask(graph, f"match {{ $p: Person }} return {{ {everything} }}") == [(0, None, None, None, None)]
    assert ask(graph, f"match {{ $p: Person }} return {{ $p.born, {everything} }}") == []
