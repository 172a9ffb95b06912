"""Matched rows, batch by batch -> one row per group. Groups are held, rows are not.

Each row begins as a group of itself: its keys and, for every call, states that can be merged with others (a count, a sum,
a smallest value). Merging states is the only step there is, so batches of any size give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import ListOf, VectorOf, arrow_type
from omnigraph.exec.read.rows import Numbers64, Rows
from omnigraph.lang.query import AggregateFunction
from omnigraph.plan import ir
from omnigraph.plan.expr import Field
from omnigraph.store.arrays import Column

ValueOf = Callable[[ir.Expr], Column]
"""An expression -> its value for every row of a batch."""
ReadBack = Callable[[Field, Numbers64], Column]
"""A field and the numbers of entities -> its values."""

MERGED: Final = 1 << 20
"""States that are merged at a time."""


class Grouping:
    """One aggregation under way: `add` takes rows, `columns` gives the result.

    A whole node, and a list (which Arrow cannot group by), is grouped by the number of its entity. Entities with equal lists
    are put together at the end.
    """

    def __init__(self, outputs: Sequence[Field | ir.Call], *, merged: int = MERGED) -> None:
        self._outputs: Final = tuple(outputs)
        self._keys: Final = [_name(at) for at, output in enumerate(outputs) if not isinstance(output, ir.Call)]
        self._merges: Final = [merge for at, output in enumerate(outputs) if isinstance(output, ir.Call) for merge in _merges(at, output)]
        self._held: list[pa.Table] = []
        self._waiting = 0
        self._merged: Final = merged
        self._due = merged

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._held)

    def add(self, rows: Rows, value_of: ValueOf, *, times: Numbers64 | None = None) -> None:
        """`times`: how many rows each of these stands for; then `only_counts` holds for the outputs."""
        if not rows.count:
            return
        self._held.append(pa.table(dict(self._states(rows, value_of, times))) if self._outputs else pa.table({}))
        self._waiting += rows.count
        if self._waiting >= self._due:
            merged = self._merge(pa.concat_tables(self._held), self._keys)
            self._held, self._waiting = [merged], len(merged)
            self._due = max(self._merged, 2 * len(merged))  # many groups are not merged again with every batch

    def columns(self, read_back: ReadBack) -> list[Column]:
        """The result columns, in the order of the outputs."""
        if not self._held:
            return self._of_nothing()
        groups = self._merge(pa.concat_tables(self._held), self._keys)
        for at, output in enumerate(self._outputs):
            if isinstance(output, Field) and _by_number(output):
                groups = _replaced(groups, _name(at), read_back(output, groups.column(_name(at)).to_numpy()))
        lists = [_name(at) for at, output in enumerate(self._outputs) if isinstance(output, Field) and _is_list(output)]
        if lists:
            groups = self._merge_equal(groups, lists)
        return [
            _finished(at, output, groups) if isinstance(output, ir.Call) else groups.column(_name(at))
            for at, output in enumerate(self._outputs)
        ]

    def _of_nothing(self) -> list[Column]:
        """No rows: no group, unless there is no key, which makes one group of them all."""
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
            elif _by_number(output):
                yield _name(at), pa.array(rows.bindings[output.binding])
            else:
                yield _name(at), one_zero(value_of(output))

    def _merge(self, states: pa.Table, keys: Sequence[str]) -> pa.Table:
        # One thread: several each build a table of the groups and merge them, which costs two to four times the CPU when groups are many.
        merged = states.group_by(list(keys), use_threads=False).aggregate([(name, how) for name, how in self._merges])
        names = {f"{name}_{how}": name for name, how in self._merges}
        return merged.rename_columns([names.get(name, name) for name in merged.column_names])

    def _merge_equal(self, groups: pa.Table, lists: Sequence[str]) -> pa.Table:
        """Groups whose lists are equal become one; the lists themselves are those of the first of them."""
        plain = [name for name in self._keys if name not in lists]
        coded = groups.select([name for name in groups.column_names if name not in lists])
        for name in lists:
            coded = coded.append_column(name, pa.array(list_codes(groups.column(name).combine_chunks())))
        keys = [*plain, *lists]
        merged = self._merge(coded, keys)
        for name in lists:
            codes, first = np.unique(coded.column(name).to_numpy(), return_index=True)
            at = first[np.searchsorted(codes, merged.column(name).to_numpy())]
            merged = _replaced(merged, name, groups.column(name).take(pa.array(at)))
        return merged


def _name(at: int) -> str:
    return f"c{at}"


def only_counts(outputs: Sequence[Field | ir.Call], binding: int) -> bool:
    """Whether nothing is asked about the entities of a binding, nor of their rows, but how many there are."""
    return all(_counts_entities(output) if isinstance(output, ir.Call) else output.binding != binding for output in outputs)


def _counts_entities(call: ir.Call) -> bool:
    """An entity is never null, so its rows are counted without looking at it."""
    return call.function is AggregateFunction.COUNT and isinstance(call.argument, Field) and call.argument.whole


def _is_list(field: Field) -> bool:
    return isinstance(field.type, ListOf | VectorOf)


def _by_number(field: Field) -> bool:
    return field.whole or _is_list(field)


def _replaced(table: pa.Table, name: str, column: Column) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def one_zero(column: Column) -> Column:
    """`-0.0` is the same value as `0.0`; Arrow would tell them apart."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


# -- one call


def _merges(at: int, call: ir.Call) -> list[tuple[str, str]]:
    """The states of a call, and how two of them become one."""
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


def _finished(at: int, call: ir.Call, groups: pa.Table) -> Column:
    state = groups.column(_name(at))
    if call.function is AggregateFunction.AVG:
        return pc.divide(state, groups.column(f"{_name(at)}n").cast(pa.float64()))  # without a value the sum is null, and so is this
    return state


# -- lists as keys


def list_codes(lists: pa.Array) -> Numbers64:
    """A number for each list: equal lists have equal numbers. One step for every position in the longest, none for a row."""
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    _, codes = np.unique(lengths, return_inverse=True)
    flat = one_zero(pc.list_flatten(lists)).dictionary_encode(null_encoding="encode")
    items = flat.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    for position in range(int(lengths.max(initial=0))):
        there = lengths > position
        item = np.zeros(len(lengths), np.int64)
        item[there] = items[starts[there] + position] + 1
        _, codes = np.unique(codes * (len(flat.dictionary) + 1) + item, return_inverse=True)
    return np.asarray(codes, np.int64)
