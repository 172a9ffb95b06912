"""Matched rows, batch by batch -> one row per group, and result rows -> the distinct ones.

Each row starts as a group of its own. It has its keys and, for every call, partial states that can be merged (a count, a sum,
a minimum). Merging states is the only operation, so the result does not depend on the batch size, and memory grows with the number of
groups, not with the number of rows. A call over distinct values keeps those of each group, and `collect` keeps what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.types import INTEGERS, arrow_type, scalar_of
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.encoding import decoded, encoded
from omnigraph.exec.read.rows import NULL_ENTITY, Cells, Rows, distinct
from omnigraph.lang.query import AggregateFunction
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.arithmetic import overflow
from omnigraph.plan.expr import ID, Field
from omnigraph.store.arrays import Column, whole

ValueOf = Callable[[ir.Expr], Column]
"""Expression -> its value for every row of a batch."""
ReadBack = Callable[[int, str, Numbers64], Column]
"""Binding, column name and entity numbers -> the values of the column."""

MERGE_ROWS: Final = 1 << 20
"""The number of pending states that triggers a merge."""
MERGE_BYTES: Final = 64 << 20
"""The size of pending states that triggers a merge."""

_VALUE: Final = "value"
_ROW: Final = "row"
_FIRST: Final = "first"


class Merged:
    """Tables that are merged now and then. They take memory in proportion to what a merge leaves."""

    def __init__(self, merge: Callable[[pa.Table], pa.Table], merge_rows: int) -> None:
        self._merge: Final = merge
        self._parts: list[pa.Table] = []
        self._rows, self.nbytes = 0, 0
        self._least_rows: Final = merge_rows
        self._merge_at = (merge_rows, MERGE_BYTES)

    def add(self, part: pa.Table) -> None:
        self._parts.append(part)
        self._rows += len(part)
        self.nbytes += part.nbytes
        if self._rows >= self._merge_at[0] or self.nbytes >= self._merge_at[1]:
            merged = self.table()
            # Do not merge many rows again with every batch.
            self._merge_at = max(self._least_rows, 2 * len(merged)), max(MERGE_BYTES, 2 * merged.nbytes)

    def table(self) -> pa.Table:
        """Return everything that was added, merged. There is at least one part."""
        merged = self._merge(pa.concat_tables(self._parts))
        self._parts, self._rows, self.nbytes = [merged], len(merged), merged.nbytes
        return merged


class DistinctRows:
    """The distinct rows of a result: `add` takes rows, `cells` returns each of them once, in the order in which they came."""

    def __init__(self, *, merge_rows: int = MERGE_ROWS) -> None:
        self._held: Final = Merged(self._merge, merge_rows)
        self._types: list[pa.DataType] = []
        self._count = 0

    @property
    def nbytes(self) -> int:
        return self._held.nbytes

    def add(self, cells: Cells) -> None:
        self._types = [column.type for column in cells.columns]
        columns = {_name(at): encoded(column) for at, column in enumerate(cells.columns)}
        self._held.add(pa.table({**columns, _ROW: _numbered(self._count, cells.count)}))
        self._count += cells.count

    def _merge(self, rows: pa.Table) -> pa.Table:
        return _group(rows, rows.column_names[:-1], [(_ROW, "min")])

    def cells(self) -> Cells | None:
        """Return the rows, or None if none was added."""
        if not self._count:
            return None
        rows = self._held.table()
        rows = rows.take(pa.array(_sorted(rows.column(_ROW).to_numpy())))
        return Cells(len(rows), [decoded(rows.column(_name(at)), type_) for at, type_ in enumerate(self._types)])


class Grouping:
    """One running aggregation: `add` takes rows, `cells` returns the result.

    A whole node is grouped by its entity number, and read only at the end.
    """

    def __init__(
        self,
        outputs: Sequence[ir.Expr | ir.Call],
        read_back: ReadBack,
        *,
        ties: Sequence[int] = (),
        merge_rows: int = MERGE_ROWS,
    ) -> None:
        """`ties` are the bindings whose ids order the rows of a group; without them the order is that of the rows."""
        self._outputs: Final = tuple(outputs)
        self._read_back: Final = read_back
        self._keys: Final = [_name(at) for at, output in enumerate(outputs) if not isinstance(output, ir.Call)]
        self._types: Final[dict[str, pa.DataType]] = {}
        self._values: Final = {
            at: _Values(output, self._keys, read_back, ties, merge_rows)
            for at, output in enumerate(outputs)
            if isinstance(output, ir.Call) and _keeps_values(output)
        }
        merges = [merge for at, call in self._merged_calls() for merge in _merges(at, call)]
        self._states: Final = Merged(lambda states: _group(states, self._keys, merges), merge_rows)
        self._has_states: Final = bool(self._keys or merges)
        self._started = False

    @property
    def nbytes(self) -> int:
        return self._states.nbytes + sum(values.nbytes for values in self._values.values())

    def add(self, rows: Rows, value_of: ValueOf, *, times: Numbers64 | None = None) -> None:
        """`times` is the number of rows that each row stands for. It is allowed only if `only_counts` holds for the outputs."""
        if not rows.count:
            return
        self._started = True
        keys = {_name(at): self._key(at, output, rows, value_of) for at, output in self._key_outputs()}
        if self._has_states:
            states = [state for at, call in self._merged_calls() for state in _states(at, call, rows, value_of, times)]
            self._states.add(pa.table({**keys, **dict(states)}))
        for values in self._values.values():
            values.add(keys, rows, value_of)

    def cells(self) -> Cells | None:
        """Return one row per group, or None if there is no group. Without keys there is always one."""
        if not self._started:
            return None if self._keys else Cells(1, [_result_of_nothing(output) for output in self._outputs if isinstance(output, ir.Call)])
        groups = self._states.table() if self._has_states else pa.table({})
        count = len(groups) if self._keys else 1
        return Cells(count, [self._column(at, output, groups, count) for at, output in enumerate(self._outputs)])

    def _key_outputs(self) -> Iterator[tuple[int, ir.Expr]]:
        return ((at, output) for at, output in enumerate(self._outputs) if not isinstance(output, ir.Call))

    def _merged_calls(self) -> Iterator[tuple[int, ir.Call]]:
        return ((at, output) for at, output in enumerate(self._outputs) if isinstance(output, ir.Call) and at not in self._values)

    def _key(self, at: int, output: ir.Expr, rows: Rows, value_of: ValueOf) -> Column:
        if isinstance(output, Field) and output.entity:
            return pa.array(rows.bindings[output.binding])
        column = value_of(output)
        self._types[_name(at)] = column.type
        return encoded(column)

    def _column(self, at: int, output: ir.Expr | ir.Call, groups: pa.Table, count: int) -> Column:
        if isinstance(output, ir.Call):
            return self._values[at].result(groups, count) if at in self._values else _result(output, _states_of(at, output, groups))
        column = groups.column(_name(at))
        if isinstance(output, Field) and output.entity:
            return self._read_back(output.binding, ID, column.to_numpy())
        return decoded(column, self._types[_name(at)])


def _name(at: int) -> str:
    return f"c{at}"


def _numbered(start: int, count: int) -> pa.Array:
    return pa.array(np.arange(start, start + count, dtype=np.int64))


def _group(table: pa.Table, keys: Sequence[str], merges: Sequence[tuple[str, str]]) -> pa.Table:
    """Return each tuple of keys once, in any order, with the other columns merged by the given functions."""
    # One thread: several threads build a table of groups each and merge them. With many groups that costs two to four times the CPU.
    grouped = table.group_by(list(keys), use_threads=False).aggregate(list(merges))
    names = {f"{name}_{how}": name for name, how in merges}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


# -- counts without values


def only_counts(outputs: Sequence[ir.Expr | ir.Call], binding: int) -> bool:
    """Return whether the outputs use only the number of entities of a binding, not their values or rows."""
    return all(
        _counts_entities(output) if isinstance(output, ir.Call) else all(field.binding != binding for field in ir.expr_fields(output))
        for output in outputs
    )


def _counts_entities(call: ir.Call) -> bool:
    """Return whether the call counts rows, or rows in which a binding is not null."""
    return call.function is AggregateFunction.COUNT and not call.distinct and (call.argument is None or uses_number(call))


def uses_number(output: ir.Expr | ir.Call) -> bool:
    """Return whether the output is about an entity whose number is all that each row needs."""
    expr = output.argument if isinstance(output, ir.Call) else output
    return isinstance(expr, Field) and expr.entity


# -- states of a call


def _sums_exactly(call: ir.Call) -> bool:
    return call.function is AggregateFunction.SUM and scalar_of(call.type) in INTEGERS


def _merges(at: int, call: ir.Call) -> list[tuple[str, str]]:
    """Return the states of a call, each with the function that merges two of them."""
    match call.function:
        case AggregateFunction.COUNT:
            return [(_name(at), "sum")]
        case AggregateFunction.SUM:
            return [(_name(at), "sum"), (f"{_name(at)}h", "sum")] if _sums_exactly(call) else [(_name(at), "sum")]
        case AggregateFunction.AVG:
            return [(_name(at), "sum"), (f"{_name(at)}n", "sum")]
        case AggregateFunction.MIN:
            return [(_name(at), "min")]
        case AggregateFunction.MAX:
            return [(_name(at), "max")]
        case AggregateFunction.COLLECT:
            raise AssertionError("collect keeps its values")
        case _:
            assert_never(call.function)


def _states(at: int, call: ir.Call, rows: Rows, value_of: ValueOf, times: Numbers64 | None) -> list[tuple[str, Column]]:
    """Return the states of a call for every row."""
    if _counts_entities(call):
        return [(_name(at), pa.array(_counts(call, rows, times)))]
    assert call.argument is not None
    return list(zip((name for name, _ in _merges(at, call)), _states_of_values(call, value_of(call.argument)), strict=True))


def _counts(call: ir.Call, rows: Rows, times: Numbers64 | None) -> Numbers64:
    counts = np.ones(rows.count, np.int64) if times is None else times
    # A binding that the rows do not have is the far end of a link that was only counted, and never null.
    if isinstance(call.argument, Field) and (numbers := rows.bindings.get(call.argument.binding)) is not None:
        counts = counts * (numbers != NULL_ENTITY)
    return counts


def _states_of_values(call: ir.Call, column: Column) -> list[Column]:
    match call.function:
        case AggregateFunction.COUNT:
            return [column.is_valid().cast(pa.int64())]
        case AggregateFunction.SUM if _sums_exactly(call):
            return _halves(column)
        case AggregateFunction.SUM:
            return [column.cast(pa.float64(), safe=False)]
        case AggregateFunction.AVG:
            return [column.cast(pa.float64(), safe=False), column.is_valid().cast(pa.int64())]
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return [column]
        case AggregateFunction.COLLECT:
            raise AssertionError("collect keeps its values")
        case _:
            assert_never(call.function)


def _states_of(at: int, call: ir.Call, groups: pa.Table) -> list[Column]:
    return [groups.column(name) for name, _ in _merges(at, call)]


def _result(call: ir.Call, states: Sequence[Column]) -> Column:
    if call.function is AggregateFunction.AVG:
        total, count = states
        return pc.divide(total, count.cast(pa.float64()))  # null if there are no values: then the sum is null
    if _sums_exactly(call):
        low, high = states
        return _total(whole(low), whole(high), call)
    (state,) = states
    return state


def _result_of_nothing(call: ir.Call) -> Column:
    type_ = arrow_type(call.type)
    match call.function:
        case AggregateFunction.COUNT:
            return pa.array([0], type_)
        case AggregateFunction.COLLECT:
            return pa.array([[]], type_)
        case AggregateFunction.SUM | AggregateFunction.AVG | AggregateFunction.MIN | AggregateFunction.MAX:
            return pa.nulls(1, type_)
        case _:
            assert_never(call.function)


# -- sums of integers

_HALF: Final = 32
_LOW: Final = (1 << _HALF) - 1


def _halves(column: Column) -> list[Column]:
    """Return the low and the high half of every integer. The sums of the halves fit 64 bits, whatever the total is on the way."""
    wide = pa.uint64() if column.type == pa.uint64() else pa.int64()
    numbers = column.cast(wide)
    low = pc.bit_wise_and(numbers, pa.scalar(_LOW, wide))
    high = pc.shift_right(numbers, pa.scalar(_HALF, wide))
    return [low.cast(pa.int64()), high.cast(pa.int64())]


def _total(low: pa.Array, high: pa.Array, call: ir.Call) -> pa.Array:
    is_null = high.is_null().to_numpy(zero_copy_only=False)
    lows, highs = (half.fill_null(0).to_numpy() for half in (low, high))
    highs, lows = highs + (lows >> _HALF), lows & _LOW
    scalar = scalar_of(call.type)
    least, most = (0, _LOW) if scalar is Scalar.U64 else (-(1 << _HALF - 1), _LOW >> 1)
    outside = np.flatnonzero((highs < least) | (highs > most))
    if len(outside):
        total = (int(highs[outside[0]]) << _HALF) + int(lows[outside[0]])
        raise overflow(f"the sum {total}", call.type)
    if scalar is Scalar.U64:
        return pa.array((highs.astype(np.uint64) << np.uint64(_HALF)) | lows.astype(np.uint64), mask=is_null)
    return pa.array((highs << _HALF) | lows, mask=is_null)


# -- values of a call


def _sorted(*keys: Numbers64) -> Numbers64:
    """Return the positions in the order of the keys, which are not negative. Positions with equal keys keep their order."""
    codes, bits = keys[0], len(keys[0]).bit_length()
    most = int(codes.max(initial=0))
    for key in keys[1:]:
        width = int(key.max(initial=0)) + 1
        most = most * width + width - 1
        if most.bit_length() + bits < 64:
            codes = codes * width + key
    if most.bit_length() + bits >= 64:
        return np.lexsort(keys[::-1])
    # Numbers that contain their positions take a fifth of the time that `argsort` needs.
    return np.sort(codes << bits | np.arange(len(codes))) & (1 << bits) - 1


def _keeps_values(call: ir.Call) -> bool:
    """Return whether merging states is not enough. Leaving out equal values makes no difference to a minimum."""
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return False
    return call.distinct or call.function is AggregateFunction.COLLECT


class _Values:
    """The values of one call, with the keys of their groups: all of them, or the distinct ones. Nulls are left out."""

    def __init__(self, call: ir.Call, keys: Sequence[str], read_back: ReadBack, ties: Sequence[int], merge_rows: int) -> None:
        self._call: Final = call
        self._keys: Final = tuple(keys)
        self._read_back: Final = read_back
        collects = call.function is AggregateFunction.COLLECT
        self._ties: Final = {f"t{binding}": binding for binding in ties} if collects else {}
        self._numbers_rows: Final = collects and call.distinct and not ties
        self._count = 0
        self._type: pa.DataType | None = None
        self._held: Final = Merged(self._merge, merge_rows)

    @property
    def nbytes(self) -> int:
        return self._held.nbytes

    def add(self, keys: Mapping[str, Column], rows: Rows, value_of: ValueOf) -> None:
        ties = {name: pa.array(rows.bindings[binding]) for name, binding in self._ties.items()}
        row = {_ROW: _numbered(self._count, rows.count)} if self._numbers_rows else {}
        table = pa.table({**keys, _VALUE: self._value(rows, value_of), **ties, **row})
        self._count += rows.count
        present = table.column(_VALUE).is_valid()
        self._held.add(table.filter(present) if table.column(_VALUE).null_count else table)

    def _value(self, rows: Rows, value_of: ValueOf) -> Column:
        """Return the values, encoded if equal ones are left out. A whole node is its entity number."""
        argument = self._call.argument
        assert argument is not None
        if isinstance(argument, Field) and argument.entity:
            numbers = rows.bindings[argument.binding]
            return pa.array(numbers, mask=numbers == NULL_ENTITY)
        column = value_of(argument)
        self._type = column.type
        return encoded(column) if self._call.distinct else column

    def _merge(self, table: pa.Table) -> pa.Table:
        """Leave out equal values. Of several rows with one value the first counts."""
        if not self._call.distinct:
            return table
        first = [(name, "first") for name in self._ties] or [(_ROW, "min")] * self._numbers_rows
        return _group(self._ordered(table) if self._ties else table, [*self._keys, _VALUE], first)

    def _ordered(self, table: pa.Table) -> pa.Table:
        """Return the rows in the order of the ids of the ties, or in that in which they came."""
        if self._ties:
            keys = [self._ranks(binding, table.column(name).to_numpy()) for name, binding in self._ties.items()]
        elif self._numbers_rows:
            keys = [table.column(_ROW).to_numpy()]
        else:
            return table
        return table.take(pa.array(_sorted(*keys)))

    def _ranks(self, binding: int, numbers: Numbers64) -> Numbers64:
        """Return the place of each entity in the order of ids; null is smallest. Equal ids of two types are in the order of the types."""
        above, places = distinct(numbers - NULL_ENTITY, size=int(numbers.max(initial=0) - NULL_ENTITY) + 1)
        ids = whole(self._read_back(binding, ID, above + NULL_ENTITY))
        ranks: Numbers64 = pc.rank(ids, sort_keys=[("", "ascending", "at_start")], tiebreaker="first").to_numpy().astype(np.int64)
        return ranks[places]

    def result(self, groups: pa.Table, count: int) -> Column:
        """Return the result of the call for each of the `count` groups."""
        table, function = self._held.table(), self._call.function
        if function is AggregateFunction.COLLECT:
            table = self._ordered(table)
        owners = self._owners(groups, table, count)
        if function is AggregateFunction.COUNT:
            return pa.array(np.bincount(owners, minlength=count).astype(np.int64))
        if function is AggregateFunction.COLLECT:
            ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))])
            items = whole(self._values_of(table).take(pa.array(_sorted(owners))))
            type_ = arrow_type(self._call.type)
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items.cast(type_.value_type), type=type_)
        return self._merged(table, owners, count)

    def _owners(self, groups: pa.Table, table: pa.Table, count: int) -> Numbers64:
        """Return the group of each row: the position of its keys among the groups."""
        if not self._keys:
            return np.zeros(len(table), np.int64)
        keys = pa.concat_tables([groups.select(self._keys), table.select(self._keys)])
        keys = keys.append_column(_ROW, _numbered(0, len(keys))).append_column(_FIRST, _numbered(0, len(keys)))
        found = _group(keys, self._keys, [(_ROW, "list"), (_FIRST, "min")])
        rows, first = found.column(_ROW), found.column(_FIRST).to_numpy()  # the first row of each is the group itself
        owners = np.empty(len(keys), np.int64)
        owners[pc.list_flatten(rows).to_numpy()] = np.repeat(first, pc.list_value_length(rows).to_numpy())
        return owners[count:]

    def _values_of(self, table: pa.Table) -> Column:
        column = table.column(_VALUE)
        argument = self._call.argument
        if isinstance(argument, Field) and argument.entity:
            return self._read_back(argument.binding, ID, column.to_numpy())
        assert self._type is not None
        return decoded(column, self._type) if self._call.distinct else column

    def _merged(self, table: pa.Table, owners: Numbers64, count: int) -> Column:
        """Merge the states of the values. Groups without a value have none."""
        states = _states_of_values(self._call, self._values_of(table))
        names = [_name(at) for at in range(len(states))]
        values = pa.table({"group": pa.array(owners), **dict(zip(names, states, strict=True))})
        every = pa.table({"group": pa.array(np.arange(count)), **{name: pa.nulls(count, values.schema.field(name).type) for name in names}})
        merged = _group(pa.concat_tables([every, values]), ["group"], [(name, "sum") for name in names])
        merged = merged.take(pa.array(_sorted(merged.column("group").to_numpy())))
        return _result(self._call, [merged.column(name) for name in names])
