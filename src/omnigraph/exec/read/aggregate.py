"""Matched rows, batch by batch -> one row per group. Memory grows with the number of groups, not with the number of rows.

Each row starts as a group of its own. It has its keys and, for every call, partial states that can be merged (a count, a sum,
a minimum). Merging states is the only operation, so the result does not depend on the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import ListOf, VectorOf, arrow_type
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.rows import Rows
from omnigraph.lang.query import AggregateFunction
from omnigraph.plan import ir
from omnigraph.plan.expr import Field
from omnigraph.store.arrays import Column

ValueOf = Callable[[ir.Expr], Column]
"""Expression -> its value for every row of a batch."""
ReadBack = Callable[[Field, Numbers64], Column]
"""Field and entity numbers -> the values of the field."""

MERGE_ROWS: Final = 1 << 20
"""The number of pending states that triggers a merge."""


class Grouping:
    """One running aggregation: `add` takes rows, `columns` returns the result.

    A whole node is grouped by its entity number. So is a list, because Arrow cannot group by lists; entities with equal lists are merged
    at the end.
    """

    def __init__(self, outputs: Sequence[Field | ir.Call], *, merge_rows: int = MERGE_ROWS) -> None:
        self._outputs: Final = tuple(outputs)
        self._keys: Final = [_name(at) for at, output in enumerate(outputs) if not isinstance(output, ir.Call)]
        self._merges: Final = [merge for at, output in enumerate(outputs) if isinstance(output, ir.Call) for merge in _merges(at, output)]
        self._partials: list[pa.Table] = []
        self._pending = 0
        self._merge_rows: Final = merge_rows
        self._merge_at = merge_rows

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._partials)

    def add(self, rows: Rows, value_of: ValueOf, *, times: Numbers64 | None = None) -> None:
        """`times` is the number of rows that each row stands for. It is allowed only if `only_counts` holds for the outputs."""
        if not rows.count:
            return
        self._partials.append(pa.table(dict(self._states(rows, value_of, times))) if self._outputs else pa.table({}))
        self._pending += rows.count
        if self._pending >= self._merge_at:
            merged = self._merge(pa.concat_tables(self._partials), self._keys)
            self._partials, self._pending = [merged], len(merged)
            self._merge_at = max(self._merge_rows, 2 * len(merged))  # do not merge many groups again with every batch

    def columns(self, read_back: ReadBack) -> list[Column]:
        """Return the result columns in the order of the outputs."""
        if not self._partials:
            return self._empty_result()
        groups = self._merge(pa.concat_tables(self._partials), self._keys)
        for at, output in enumerate(self._outputs):
            if isinstance(output, Field) and _keyed_by_number(output):
                groups = _replace_column(groups, _name(at), read_back(output, groups.column(_name(at)).to_numpy()))
        lists = [_name(at) for at, output in enumerate(self._outputs) if isinstance(output, Field) and _is_list(output)]
        if lists:
            groups = self._merge_equal(groups, lists)
        return [
            _final_column(at, output, groups) if isinstance(output, ir.Call) else groups.column(_name(at))
            for at, output in enumerate(self._outputs)
        ]

    def _empty_result(self) -> list[Column]:
        """Return the columns for an empty input: one group if there are no keys, otherwise no group."""
        count = 0 if self._keys else 1
        columns: list[Column] = []
        for output in self._outputs:
            type_ = arrow_type(output.type)
            counts = isinstance(output, ir.Call) and output.function is AggregateFunction.COUNT
            columns.append(pa.repeat(pa.scalar(0, type_), count) if counts else pa.nulls(count, type_))
        return columns

    def _states(self, rows: Rows, value_of: ValueOf, times: Numbers64 | None) -> Iterator[tuple[str, Column]]:
        for at, output in enumerate(self._outputs):
            if isinstance(output, ir.Call) and _counts_entities(output):
                yield _name(at), pa.array(np.ones(rows.count, np.int64) if times is None else times)
            elif isinstance(output, ir.Call):
                yield from _states(at, output, value_of(output.argument))
            elif _keyed_by_number(output):
                yield _name(at), pa.array(rows.bindings[output.binding])
            else:
                yield _name(at), normalize_zero(value_of(output))

    def _merge(self, states: pa.Table, keys: Sequence[str]) -> pa.Table:
        # One thread: several threads build a table of groups each and merge them. With many groups that costs two to four times the CPU.
        merged = states.group_by(list(keys), use_threads=False).aggregate([(name, how) for name, how in self._merges])
        names = {f"{name}_{how}": name for name, how in self._merges}
        return merged.rename_columns([names.get(name, name) for name in merged.column_names])

    def _merge_equal(self, groups: pa.Table, lists: Sequence[str]) -> pa.Table:
        """Merge groups with equal lists. The merged group keeps the lists of the first one."""
        plain = [name for name in self._keys if name not in lists]
        coded = groups.select([name for name in groups.column_names if name not in lists])
        for name in lists:
            coded = coded.append_column(name, pa.array(list_codes(groups.column(name).combine_chunks())))
        keys = [*plain, *lists]
        merged = self._merge(coded, keys)
        for name in lists:
            codes, first = np.unique(coded.column(name).to_numpy(), return_index=True)
            at = first[np.searchsorted(codes, merged.column(name).to_numpy())]
            merged = _replace_column(merged, name, groups.column(name).take(pa.array(at)))
        return merged


def _name(at: int) -> str:
    return f"c{at}"


def only_counts(outputs: Sequence[Field | ir.Call], binding: int) -> bool:
    """Return whether the outputs use only the number of entities of a binding, not their values or rows."""
    return all(_counts_entities(output) if isinstance(output, ir.Call) else output.binding != binding for output in outputs)


def _counts_entities(call: ir.Call) -> bool:
    """An entity is never null, so its rows are counted without reading it."""
    return call.function is AggregateFunction.COUNT and isinstance(call.argument, Field) and call.argument.whole


def _is_list(field: Field) -> bool:
    return isinstance(field.type, ListOf | VectorOf)


def _keyed_by_number(field: Field) -> bool:
    return field.whole or _is_list(field)


def _replace_column(table: pa.Table, name: str, column: Column) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def normalize_zero(column: Column) -> Column:
    """Replace `-0.0` by `0.0`. They are equal values, but Arrow distinguishes them."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


# -- one call


def _merges(at: int, call: ir.Call) -> list[tuple[str, str]]:
    """Return the states of a call, each with the function that merges two of them."""
    match call.function:
        case AggregateFunction.COUNT | AggregateFunction.SUM:
            return [(_name(at), "sum")]
        case AggregateFunction.AVG:
            return [(_name(at), "sum"), (f"{_name(at)}n", "sum")]
        case AggregateFunction.MIN:
            return [(_name(at), "min")]
        case AggregateFunction.MAX:
            return [(_name(at), "max")]
        case _:
            assert_never(call.function)


def _states(at: int, call: ir.Call, column: Column) -> Iterator[tuple[str, Column]]:
    match call.function:
        case AggregateFunction.COUNT:
            yield _name(at), column.is_valid().cast(pa.int64())
        case AggregateFunction.SUM:
            yield _name(at), column.cast(pa.float64(), safe=False)
        case AggregateFunction.AVG:
            yield _name(at), column.cast(pa.float64(), safe=False)
            yield f"{_name(at)}n", column.is_valid().cast(pa.int64())
        case AggregateFunction.MIN | AggregateFunction.MAX:
            yield _name(at), column
        case _:
            assert_never(call.function)


def _final_column(at: int, call: ir.Call, groups: pa.Table) -> Column:
    state = groups.column(_name(at))
    if call.function is AggregateFunction.AVG:
        return pc.divide(state, groups.column(f"{_name(at)}n").cast(pa.float64()))  # null if there are no values: then the sum is null
    return state


# -- lists as keys


def list_codes(lists: pa.Array) -> Numbers64:
    """Return a code for each list; equal lists have equal codes. It takes one step for each position of the longest list."""
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    _, codes = np.unique(lengths, return_inverse=True)
    flat = normalize_zero(pc.list_flatten(lists)).dictionary_encode(null_encoding="encode")
    items = flat.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    for position in range(int(lengths.max(initial=0))):
        present = lengths > position
        item = np.zeros(len(lengths), np.int64)
        item[present] = items[starts[present] + position] + 1
        _, codes = np.unique(codes * (len(flat.dictionary) + 1) + item, return_inverse=True)
    return np.asarray(codes, np.int64)
