"""Rows and sort keys -> their places in order. Nulls are smallest, texts compare by their bytes, ties are broken by ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.rows import Column, Mask, Numbers64


class Key(NamedTuple):
    """One column to order by."""

    column: Column
    descending: bool


def places(keys: Sequence[Key], *, limit: int | None, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    """The places of the first `limit` rows, in order. `ties(places)` gives the ids of some rows, one column a variable.

    Ids are asked for only where the keys leave two rows equal, and, with a limit, only where that matters.
    """
    by_keys = _sorted(keys)
    starts = _run_starts([key.column for key in keys], by_keys)
    if limit is not None and limit < len(by_keys):
        # Whoever equals the last of the first `limit` may yet come before it.
        end = int(np.searchsorted(np.flatnonzero(starts), limit, side="left"))
        runs = np.flatnonzero(starts)
        by_keys = by_keys[: int(runs[end]) if end < len(runs) else len(by_keys)]
        starts = starts[: len(by_keys)]
    return _untied(by_keys, starts, ties)[:limit]


def _sorted(keys: Sequence[Key]) -> Numbers64:
    names = [str(at) for at in range(len(keys))]
    table = pa.table({name: _plain(key.column) for name, key in zip(names, keys, strict=True)})
    order = [
        (name, "descending", "at_end") if key.descending else (name, "ascending", "at_start") for name, key in zip(names, keys, strict=True)
    ]
    return np.asarray(pc.sort_indices(table, sort_keys=order).to_numpy(), np.int64)


def _plain(column: Column) -> Column:
    """`-0.0` equals `0.0`, here too."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _run_starts(columns: Sequence[Column], order: Numbers64) -> Mask:
    """For every row in order whether it differs from the one before it."""
    starts = np.zeros(len(order), np.bool_)
    starts[:1] = True
    if len(order) < 2:
        return starts
    indices = pa.array(order)
    for column in columns:
        ordered = _plain(column).take(indices)
        ordered = ordered.combine_chunks() if isinstance(ordered, pa.ChunkedArray) else ordered
        before, after = ordered.slice(0, len(order) - 1), ordered.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), fill_value=False).to_numpy(zero_copy_only=False)
        one_null = pc.xor(before.is_null(), after.is_null()).to_numpy(zero_copy_only=False)
        starts[1:] |= differs | one_null
    return starts


def _untied(order: Numbers64, starts: Mask, ties: Callable[[Numbers64], Sequence[Column]]) -> Numbers64:
    """Rows of one run, put in order of their ids."""
    ends = np.append(starts[1:], True)
    tied = np.flatnonzero(~(starts & ends))
    if not len(tied):
        return order
    run = pa.array(np.cumsum(starts)[tied])
    columns = [run, *ties(order[tied])]
    table = pa.table({str(at): column for at, column in enumerate(columns)})
    within = pc.sort_indices(table, sort_keys=[(str(at), "ascending") for at in range(len(columns))]).to_numpy()
    result = order.copy()
    result[tied] = order[tied][within]
    return result
