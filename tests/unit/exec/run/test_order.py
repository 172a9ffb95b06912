"""Order: nulls smallest, bytes of texts, ties by id; and a limit changes nothing but the length."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.order import OrderColumn, places

NUMBERS = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.5])
TEXTS = st.none() | st.sampled_from(["", "a", "b", "é", "z"])


@st.composite
def sortable(draw: st.DrawFn) -> tuple[list[tuple[list[Any], pa.DataType, bool]], list[str]]:
    count = draw(st.integers(0, 12))
    keys = []
    for _ in range(draw(st.integers(1, 3))):
        values, type_ = draw(st.sampled_from([(NUMBERS, pa.float64()), (TEXTS, pa.string())]))
        keys.append((draw(st.lists(values, min_size=count, max_size=count)), type_, draw(st.booleans())))
    return keys, draw(st.permutations([f"id{at}" for at in range(count)]))


def by_the_rules(keys: list[tuple[list[Any], pa.DataType, bool]], ids: list[str]) -> list[int]:
    order = sorted(range(len(ids)), key=lambda at: ids[at])
    for values, _, descending in reversed(keys):
        order.sort(key=lambda at, values=values: (values[at] is not None, _comparable(values[at])), reverse=descending)  # type: ignore[misc]
    return order


def _comparable(value: Any) -> Any:
    return 0 if value is None else value.encode() if isinstance(value, str) else value


@settings(deadline=None)
@given(sortable(), st.none() | st.integers(0, 14))
def test_the_order_is_total_and_a_limit_cuts_it(given_: Any, limit: int | None) -> None:
    keys, ids = given_

    def ties(at: Numbers64) -> list[pa.Array]:
        return [pa.array([ids[place] for place in at.tolist()], pa.string())]

    found = places([OrderColumn(pa.array(values, type_), descending) for values, type_, descending in keys], limit=limit, ties=ties)
    assert found.tolist() == by_the_rules(keys, ids)[:limit]


def test_ids_are_only_asked_for_where_keys_are_equal() -> None:
    asked: list[int] = []

    def ties(at: Numbers64) -> list[pa.Array]:
        asked.extend(at.tolist())
        return [pa.array([str(place) for place in at.tolist()])]

    key = OrderColumn(pa.array([5, 1, 1, 7, 7, 7, 7, 7]), descending=False)
    assert places([key], limit=2, ties=ties).tolist() == [1, 2]
    assert sorted(asked) == [1, 2]
