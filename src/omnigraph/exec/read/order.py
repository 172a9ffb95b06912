"""Rows and sort keys -> their positions in sort order. Texts compare by their bytes, ids break ties.

Nulls come first in ascending order and last in descending order, unless the key says where they stand. NaN is the smallest number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.encoding import has_nan, normalize_zero
from omnigraph.lang.query import NullOrder
from omnigraph.store.arrays import Column, Mask, whole

FEW_ROWS: Final = 10_000
"""Up to so many rows with one key of numbers are ordered by numpy."""


FEW_TIES: Final = 100
"""Up to so many rows with equal keys are ordered by their ids in Python: a call of Arrow takes longer."""


class OrderColumn(NamedTuple):
    """One column to order by."""

    column: Column
    descending: bool = False
    nulls: NullOrder | None = None

    @property
    def nulls_first(self) -> bool:
        return self.nulls is NullOrder.FIRST if self.nulls is not None else not self.descending

    @property
    def how(self) -> tuple[str, str]:
        """The direction and the place of nulls, as Arrow names them."""
        return "descending" if self.descending else "ascending", "at_start" if self.nulls_first else "at_end"


def places(keys: Sequence[OrderColumn], *, limit: int | None, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    """Return the positions of the first `limit` rows, in order. `ties(positions)` returns the ids of some rows, one column per variable.

    Ids are read only for rows with equal keys, and, with a limit, only if they can affect the result.
    """
    if len(keys) == 1 and (values := _numbers(keys[0].column)) is not None:
        return _number_places(values, descending=keys[0].descending, limit=limit, ties=ties)
    keys = [key._replace(column=_plain(key.column)) for key in keys]
    if limit is not None and (few := _candidates(keys[0], limit)) is not None:
        some = pa.array(few)
        keys = [key._replace(column=key.column.take(some)) for key in keys]
        return few[_places(keys, limit=limit, ties=lambda at: ties(few[at]))]
    return _places(keys, limit=limit, ties=ties)


def _numbers(column: Column) -> npt.NDArray[Any] | None:
    """Return a column of few numbers as an array, to which calls of Arrow would cost more than the order; None for another one."""
    if len(column) > FEW_ROWS or column.null_count or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return None if np.isnan(values).any() else values


def _number_places(
    values: npt.NDArray[Any], *, descending: bool, limit: int | None, ties: Callable[[Numbers64], Sequence[Column]]
) -> Numbers64:
    ascending = np.argsort(values, kind="stable")
    by_value = ascending[::-1] if descending else ascending
    ordered = values[by_value]
    starts = np.ones(len(ordered), np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    return _first_places(by_value, starts, limit, ties)


def _candidates(key: OrderColumn, limit: int) -> Numbers64 | None:
    """Return the rows that may be among the first `limit` by the first key, or None if the key excludes too few rows."""
    column = key.column
    values = len(column) - column.null_count
    nulls_before = column.null_count if key.nulls_first else 0
    if not limit or len(column) < 4 * limit or values + nulls_before < limit:
        return None
    if nulls_before >= limit:
        chosen = column.is_null()
    else:
        best = pc.select_k_unstable(column.drop_null(), k=limit - nulls_before, sort_keys=[("", key.how[0])])
        last = column.drop_null()[best[len(best) - 1].as_py()]
        reached = pc.greater_equal(column, last) if key.descending else pc.less_equal(column, last)
        chosen = pc.fill_null(reached, fill_value=key.nulls_first)
    return np.flatnonzero(chosen.to_numpy(zero_copy_only=False))


def _places(keys: Sequence[OrderColumn], *, limit: int | None, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    by_keys = _sorted(keys)
    return _first_places(by_keys, _run_starts([key.column for key in keys], by_keys), limit, ties)


def _first_places(by_keys: Numbers64, starts: Mask, limit: int | None, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    """Return the first rows of those that are in the order of their keys. `starts` says which differ from the one before."""
    if limit is not None and limit < len(by_keys):
        # Rows equal to the last of the first `limit` may still come before it.
        runs = np.append(np.flatnonzero(starts), len(by_keys))
        by_keys = by_keys[: runs[np.searchsorted(runs, limit, side="left")]]
        starts = starts[: len(by_keys)]
    return _break_ties(by_keys, starts, ties)[:limit]


def _sorted(keys: Sequence[OrderColumn]) -> Numbers64:
    if len(keys) == 1:  # sorting a single array takes half the time of sorting a table with one column
        return np.asarray(pc.sort_indices(keys[0].column, sort_keys=[("", *keys[0].how)]).to_numpy(), np.int64)
    table = pa.table({name: key.column for name, key in _named(keys)})
    return np.asarray(pc.sort_indices(table, sort_keys=[(name, *key.how) for name, key in _named(keys)]).to_numpy(), np.int64)


def _named(keys: Sequence[OrderColumn]) -> Iterator[tuple[str, OrderColumn]]:
    return ((str(at), key) for at, key in enumerate(keys))


def _plain(column: Column) -> pa.Array:
    """Return a column with the same order as one array, in which equal values have equal bits."""
    plain = normalize_zero(whole(column))
    return _ranks(plain) if has_nan(plain) else plain


def _ranks(floats: pa.Array) -> pa.Array:
    """Return integers with the order of the floats. NaN comes first; Arrow would put it beside the nulls."""
    bits = floats.cast(pa.float64()).fill_null(0.0).to_numpy().view(np.int64)
    ranks = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    ranks[pc.is_nan(floats).fill_null(fill_value=False).to_numpy(zero_copy_only=False)] = np.iinfo(np.int64).min
    return pa.array(ranks, mask=floats.is_null().to_numpy(zero_copy_only=False))


def _run_starts(columns: Sequence[Column], order: Numbers64) -> Mask:
    """Return for every row in sort order whether it differs from the previous row."""
    starts = np.zeros(len(order), np.bool_)
    starts[:1] = True
    if len(order) < 2:
        return starts
    indices = pa.array(order)
    for column in columns:
        ordered = column.take(indices)
        ordered = whole(ordered)
        before, after = ordered.slice(0, len(order) - 1), ordered.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), fill_value=False).to_numpy(zero_copy_only=False)
        one_null = pc.xor(before.is_null(), after.is_null()).to_numpy(zero_copy_only=False)
        starts[1:] |= differs | one_null
    return starts


def _break_ties(order: Numbers64, starts: Mask, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    """Sort the rows of each run of equal keys by their ids."""
    ends = np.append(starts[1:], True)
    tied = np.flatnonzero(~(starts & ends))
    if not len(tied):
        return order
    runs, columns = np.cumsum(starts, dtype=np.int64)[tied], ties(order[tied])
    within = _few_by_id(runs, columns) if len(tied) <= FEW_TIES else _by_id(runs, columns)
    result = order.copy()
    result[tied] = order[tied][within]
    return result


def _by_id(runs: Numbers64, ids: Sequence[Column]) -> Numbers64:
    columns = [pa.array(runs), *ids]
    table = pa.table({str(at): column for at, column in enumerate(columns)})
    order = pc.sort_indices(table, sort_keys=[(str(at), "ascending", "at_start") for at in range(len(columns))])
    return np.asarray(order.to_numpy(), np.int64)


def _few_by_id(runs: Numbers64, ids: Sequence[Column]) -> Numbers64:
    """Like `_by_id`. Python compares texts by code points, which is the order of their bytes."""
    values = [[(value is not None, value) for value in column.to_pylist()] for column in ids]
    keys = list(zip(runs.tolist(), *values, strict=True))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
