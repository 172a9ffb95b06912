"""The small integer steps that every operator is made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.read.join import anti_join, equi_join, product
from omnigraph.exec.read.rows import Rows, concat, distinct, expand_ranges, rebatch
from omnigraph.plan.expr import I64, STRING, Field

A, B = Field(0, "a", STRING, nullable=True), Field(0, "n", I64, nullable=True)
C, D = Field(1, "a", STRING, nullable=True), Field(1, "n", I64, nullable=True)
pairs = st.lists(st.tuples(st.none() | st.sampled_from("xyz"), st.none() | st.integers(0, 2)), max_size=6)


def rows_of(values: list[tuple[str | None, int | None]], binding: int) -> Rows:
    columns = {(binding, "a"): pa.array([a for a, _ in values], pa.string()), (binding, "n"): pa.array([n for _, n in values], pa.int64())}
    return Rows(len(values), {binding: np.arange(len(values), dtype=np.int64)}, columns)


def numbers(found: list[Rows]) -> list[tuple[int, int]]:
    return sorted((int(a), int(b)) for rows in found for a, b in zip(rows.bindings[0], rows.bindings[1], strict=True))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_ranges_are_spread_element_by_element(ranges: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in ranges], np.int64)
    owners, elements = expand_ranges(starts, np.array([count for _, count in ranges], np.int64))
    expected = [(at, start + step) for at, (start, count) in enumerate(ranges) for step in range(count)]
    assert list(zip(owners.tolist(), elements.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=20), st.sampled_from([31, 10_000]))
def test_distinct_numbers_ascend_and_every_number_knows_its_place(given_: list[int], size: int) -> None:
    found, places = distinct(np.array(given_, np.int64), size=size)
    assert found.tolist() == sorted(set(given_))
    assert [int(found[place]) for place in places] == given_


@settings(deadline=None)
@given(pairs, pairs, st.booleans())
def test_a_join_pairs_equal_rows_and_null_equals_nothing(
    left: list[tuple[str | None, int | None]], right: list[tuple[str | None, int | None]], both: bool
) -> None:
    on = [(A, C), (B, D)] if both else [(A, C)]
    found = list(equi_join([rows_of(left, 0)], rows_of(right, 1), on, lambda rows, field: rows.columns[field.binding, field.column]))
    expected = [
        (at, other)
        for at, one in enumerate(left)
        for other, two in enumerate(right)
        if all(one[k] is not None and one[k] == two[k] for k in range(len(on)))
    ]
    assert numbers(found) == sorted(expected)


@settings(deadline=None)
@given(pairs, pairs)
def test_a_product_has_every_pair_once(left: list[tuple[str | None, int | None]], right: list[tuple[str | None, int | None]]) -> None:
    found = list(product([rows_of(left, 0)], rows_of(right, 1)))
    assert numbers(found) == [(at, other) for at in range(len(left)) for other in range(len(right))]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=10), st.frozensets(st.integers(0, 3)))
def test_a_negation_and_what_it_leaves_out_are_the_whole(values: list[tuple[int, int]], partnered: frozenset[int]) -> None:
    """X-12: every row is kept or has a partner, never both."""
    rows = Rows(len(values), {0: np.array([a for a, _ in values], np.int64), 1: np.array([b for _, b in values], np.int64)})

    def inner(asked: Rows) -> list[Rows]:
        return [asked.keep(np.isin(asked.bindings[0], list(partnered)))]

    kept = anti_join(rows, (0, 1), inner)
    assert list(zip(kept.bindings[0].tolist(), kept.bindings[1].tolist(), strict=True)) == [
        pair for pair in values if pair[0] not in partnered
    ]


def test_parts_are_gathered_without_losing_a_row() -> None:
    parts = [rows_of([("x", at)] * at, 0) for at in range(6)]
    whole = list(rebatch(iter(parts), rows=4))
    assert [part.count for part in whole] == [6, 4, 5]
    assert concat(whole).columns[0, "n"].to_pylist() == [at for at in range(6) for _ in range(at)]
