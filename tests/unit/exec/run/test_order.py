"""Order: nulls smallest unless told, NaN the smallest number, bytes of texts, ties by id; a limit changes nothing but the length."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read import order
from omnigraph.exec.read.order import OrderColumn, places
from omnigraph.lang.query import NullOrder

VALUES = [
    (pa.float64(), [0.0, -0.0, 1.5, -2.5, float("nan"), -float("nan"), float("inf"), -float("inf")]),
    (pa.float32(), [0.0, -0.0, 1.5, float("nan")]),
    (pa.string(), ["", "a", "b", "é", "z"]),
    (pa.bool_(), [True, False]),
    (pa.int64(), [-1, 0, 2**53 + 1, 2**53]),
]


class Given(NamedTuple):
    values: list[Any]
    type: pa.DataType
    descending: bool
    nulls: NullOrder | None

    @property
    def column(self) -> OrderColumn:
        return OrderColumn(pa.array(self.values, self.type), self.descending, self.nulls)

    def at(self, place: int) -> tuple[bool, Any]:
        """What to order by, ascending, if nulls were smallest."""
        value = self.values[place]
        nulls_first = not self.descending if self.nulls is None else self.nulls is NullOrder.FIRST
        return (value is not None) is (nulls_first is not self.descending), _comparable(value)


@st.composite
def sortable(draw: st.DrawFn) -> tuple[list[Given], list[str | None]]:
    count = draw(st.integers(0, 12))
    keys = []
    for _ in range(draw(st.integers(1, 3))):
        type_, pool = draw(st.sampled_from(VALUES))
        values = draw(st.lists(st.none() | st.sampled_from(pool), min_size=count, max_size=count))
        keys.append(Given(values, type_, draw(st.booleans()), draw(st.sampled_from([None, *NullOrder]))))
    ids: list[str | None] = [f"id{at}" for at in range(count)]
    if count and draw(st.booleans()):
        ids[0] = None
    return keys, draw(st.permutations(ids))


def by_the_rules(keys: list[Given], ids: list[str | None]) -> list[int]:
    order = sorted(range(len(ids)), key=lambda at: ids[at] or "")
    for key in reversed(keys):
        order.sort(key=key.at, reverse=key.descending)
    return order


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (value == value, 0.0 if value != value else value)
    return 0 if value is None else value.encode() if isinstance(value, str) else value


@settings(deadline=None)
@given(sortable(), st.none() | st.integers(0, 14))
def test_the_order_is_total_and_a_limit_cuts_it(given_: tuple[list[Given], list[str | None]], limit: int | None) -> None:
    keys, ids = given_

    def ties(at: Numbers64) -> list[pa.Array]:
        return [pa.array([ids[place] for place in at.tolist()], pa.string())]

    found = places([key.column for key in keys], limit=limit, ties=ties)
    assert found.tolist() == by_the_rules(keys, ids)[:limit]


def test_ids_are_only_asked_for_where_keys_are_equal() -> None:
    asked: list[int] = []

    def ties(at: Numbers64) -> list[pa.Array]:
        asked.extend(at.tolist())
        return [pa.array([str(place) for place in at.tolist()])]

    key = OrderColumn(pa.array([5, 1, 1, 7, 7, 7, 7, 7]), descending=False)
    assert places([key], limit=2, ties=ties).tolist() == [1, 2]
    assert sorted(asked) == [1, 2]


@given(sortable(), st.none() | st.integers(0, 12))
@settings(deadline=None)
def test_few_rows_are_ordered_as_many_are(given_: tuple[list[Given], list[str | None]], limit: int | None) -> None:
    """Numbers by numpy and few ties in Python, or all by Arrow: the same order."""
    keys, ids = given_

    def ordered() -> list[int]:
        def ties(at: Numbers64) -> list[pa.Array]:
            return [pa.array([ids[place] for place in at.tolist()], pa.string())]

        return list(places([key.column for key in keys[:1]], limit=limit, ties=ties).tolist())

    few = ordered()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "FEW_ROWS", 0)
        patch.setattr(order, "FEW_TIES", 0)
        assert ordered() == few
