"""The small integer steps that every operator is made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.read.join import NO_BINDINGS, OUTER_ROW, BlockColumns, equi_join, left_join, product, semi_join
from omnigraph.exec.read.rows import NULL_ENTITY, Rows, concat, cut_ranges, distinct, expand_ranges, rebatch, spread, window
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


# -- blocks

ends = st.lists(st.tuples(st.integers(NULL_ENTITY, 3), st.integers(NULL_ENTITY, 3)), max_size=10)
partners = st.dictionaries(st.integers(NULL_ENTITY, 3), st.lists(st.integers(0, 9), max_size=3), max_size=5)


def bound(values: list[tuple[int, int]]) -> Rows:
    return Rows(len(values), {0: np.array([a for a, _ in values], np.int64), 1: np.array([b for _, b in values], np.int64)})


class Block:
    """The inner plan of a block: it finds the given partners of the binding it starts from, in parts of `size` rows."""

    def __init__(self, on: int, found: dict[int, list[int]], *, size: int = 2) -> None:
        self.on = on
        self.found = found
        self.size = size
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, outer: Rows) -> Iterator[Rows]:
        starts = [numbers.tolist() for binding, numbers in outer.bindings.items() if binding != OUTER_ROW]
        self.asked += zip(*starts, strict=True)
        pairs = [
            (row, other)
            for row, start in zip(outer.bindings[OUTER_ROW].tolist(), outer.bindings[self.on].tolist(), strict=True)
            for other in self.found.get(start, [])
        ]
        for start in range(0, len(pairs), self.size):
            part = np.array(pairs[start : start + self.size], np.int64)
            texts = pa.array([f"t{other}" for other in part[:, 1].tolist()])
            yield outer.take(part[:, 0]).binding(2, part[:, 1]).with_columns({(2, "t"): texts})


ADDED = BlockColumns((2,), {(2, "t"): pa.string()})


@settings(deadline=None)
@given(ends, st.lists(partners, min_size=1, max_size=3))
def test_a_row_is_kept_by_a_block_or_by_its_negation(values: list[tuple[int, int]], founds: list[dict[int, list[int]]]) -> None:
    """X-12: every row is kept or has a partner, never both."""
    rows = bound(values)
    partnered = [any(found.get(pair[at % 2]) for at, found in enumerate(founds)) for pair in values]
    for wanted in (True, False):
        inners = [((at % 2,), Block(at % 2, found)) for at, found in enumerate(founds)]
        kept = semi_join(rows, inners, wanted=wanted)
        expected = [pair for pair, has in zip(values, partnered, strict=True) if has is wanted]
        assert list(zip(kept.bindings[0].tolist(), kept.bindings[1].tolist(), strict=True)) == expected


def test_a_block_starts_once_from_each_tuple_that_is_undecided() -> None:
    first, second = Block(0, {1: [7]}), Block(0, {2: [8]})
    rows = bound([(1, 0), (1, 0), (2, 0), (2, 1), (NULL_ENTITY, 0), (3, 0), (3, 0)])
    kept = semi_join(rows, [((0, 1), first), ((0,), second)], wanted=True)
    assert kept.bindings[0].tolist() == [1, 1, 2, 2]
    assert sorted(first.asked) == [(NULL_ENTITY, 0), (1, 0), (2, 0), (2, 1), (3, 0)]
    assert sorted(second.asked) == [(NULL_ENTITY,), (2,), (3,)]


@settings(deadline=None)
@given(ends, partners, st.integers(1, 3))
def test_an_optional_block_keeps_every_row(values: list[tuple[int, int]], found: dict[int, list[int]], size: int) -> None:
    parts = list(left_join(bound(values), (0,), Block(0, found, size=size), ADDED))
    rows = [
        row
        for part in parts
        for row in zip(*(part.bindings[at].tolist() for at in range(3)), part.columns[2, "t"].to_pylist(), strict=True)
    ]
    expected = [
        (a, b, other, None if other == NULL_ENTITY else f"t{other}") for a, b in values for other in found.get(a, []) or [NULL_ENTITY]
    ]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert all(set(part.columns) == {(2, "t")} for part in parts)
    if parts:
        assert concat(parts).count == len(expected)


def test_rows_of_an_optional_block_come_in_parts() -> None:
    """One inner row with many outer rows, and many inner rows with one outer row."""
    count = 600_000
    rows = bound([(0, 0)] * count)
    parts = list(left_join(rows, (0,), Block(0, {0: [4, 5]}), ADDED))
    assert sum(part.count for part in parts) == 2 * count
    assert max(part.count for part in parts) <= count


def test_a_path_has_no_number_to_be_distinct_by() -> None:
    lengths = {(5, "length"): pa.array([1, 2])}
    block = Block(0, {0: [9]})
    kept = semi_join(bound([(0, 0), (0, 0)]).with_columns(lengths), [((0, 5), block)], wanted=True)
    assert (kept.count, len(block.asked)) == (2, 2)


def test_a_block_without_an_outer_variable_starts_from_one_row() -> None:
    assert (NO_BINDINGS.count, NO_BINDINGS.bindings[OUTER_ROW].tolist()) == (1, [0])


# -- parts


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 12), st.none() | st.integers(0, 12))
def test_a_window_is_a_slice_of_all_rows(sizes: list[int], skip: int, count: int | None) -> None:
    taken: list[int] = []

    def batches() -> Iterator[Rows]:
        for at, size in enumerate(sizes):
            taken.append(at)
            yield Rows(size, {0: np.arange(sum(sizes[:at]), sum(sizes[:at]) + size, dtype=np.int64)})

    found = [number for rows in window(batches(), skip=skip, count=count) for number in rows.bindings[0].tolist()]
    assert found == list(range(sum(sizes)))[skip:][:count]
    if count is not None and sum(sizes) >= skip + count:
        before = sum(sizes[: len(taken) - 1]) if taken else 0
        assert not taken or before < skip + count, "no batch is read after the last row"


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 6))
def test_ranges_are_cut_without_losing_one(counts: list[int], rows: int) -> None:
    cuts = list(cut_ranges(np.array(counts, np.int64), rows=rows))
    assert [at for first, last in cuts for at in range(first, last)] == list(range(len(counts)))
    assert all(sum(counts[first : last - 1]) < rows + 5 for first, last in cuts)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 9), max_size=8))
def test_values_are_spread_over_the_rows_that_have_one(values: list[int | None]) -> None:
    mask = np.array([value is not None for value in values], np.bool_)
    column = pa.array([value for value in values if value is not None], pa.int64())
    assert spread(column, mask).to_pylist() == values
    vectors = pa.array([[value, value] for value in values if value is not None], pa.list_(pa.int64(), 2))
    assert spread(pa.chunked_array([vectors]), mask).to_pylist() == [None if value is None else [value, value] for value in values]


def test_parts_are_gathered_without_losing_a_row() -> None:
    parts = [rows_of([("x", at)] * at, 0) for at in range(6)]
    whole = list(rebatch(iter(parts), rows=4))
    assert [part.count for part in whole] == [6, 4, 5]
    assert concat(whole).columns[0, "n"].to_pylist() == [at for at in range(6) for _ in range(at)]
