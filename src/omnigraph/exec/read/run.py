"""A physical plan and a view of the graph -> the result as an Arrow table.

Operators exchange batches of rows. A row consists of the numbers of its entities. Columns are added where the plan says so.
An operator that needs all rows at once (a sort, the right side of a join, the result) counts them against the memory limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.catalog.model import TypeKind
from omnigraph.catalog.types import arrow_type
from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.aggregate import DistinctRows, Grouping, only_counts
from omnigraph.exec.read.conditions import RowFilter
from omnigraph.exec.read.entity_union import AnyEntities
from omnigraph.exec.read.expand import LinkAccess, connect, end_of, expand, fan_outs, linked_rows, paths
from omnigraph.exec.read.expressions import evaluate
from omnigraph.exec.read.join import NO_BINDINGS, BlockColumns, equi_join, left_join, product, semi_join
from omnigraph.exec.read.measure import Recorder, Tally
from omnigraph.exec.read.order import OrderColumn, places
from omnigraph.exec.read.rank import best_of_scan, fused, ranked_field, scored, scores_of
from omnigraph.exec.read.routes import LinkRouter
from omnigraph.exec.read.rows import (
    BATCH,
    NULL_ENTITY,
    B,
    Cells,
    Rows,
    concat,
    concat_cells,
    rebatch,
    spread,
    window,
)
from omnigraph.exec.read.shapes import bindings_of, bindings_with_ids, columns_of, gives_cells
from omnigraph.exec.read.view import View
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import ID, TYPE, Field, TypeRef
from omnigraph.plan.ops import Route
from omnigraph.plan.spelling import Speller
from omnigraph.plan.typed import Direction
from omnigraph.store.arrays import Column, joined

MEMORY_BYTES: Final = 4 << 30
"""The memory limit of one query: rows that wait for a sort or a join, and the result."""
MAX_PAIRS: Final = 1_000_000_000
"""The largest number of rows of a cross product in one query."""
OUTER_ROWS: Final = 16 * BATCH
"""Rows per batch that the inner plan of a block starts from. It runs once for each batch."""


def run(
    plan: ops.ReadPlan,
    view: View,
    *,
    watch: Watch,
    route: Route | None = None,
    memory_bytes: int = MEMORY_BYTES,
    outer_rows: int = OUTER_ROWS,
    recorder: Recorder | None = None,
) -> pa.Table:
    """Return all rows of the plan. With `route` every link is followed by that route; the result is the same.

    A `recorder` collects the measurements of every operator.
    """
    return _Run(plan, view, watch, route, memory_bytes, outer_rows, recorder).result()


def stream(plan: ops.ReadPlan, view: View, *, watch: Watch, route: Route | None = None) -> Iterator[Cells]:
    """Return the rows of the plan in batches. The caller keeps what it needs of them. `route` as for `run`."""
    return _Run(plan, view, watch, route, MEMORY_BYTES, OUTER_ROWS, None).cells()


class Clause(StrEnum):
    """The clause of a query that exceeded a limit."""

    MATCH = "match"
    RETURN = "return"
    ORDER = "order"


class _MemoryBudget:
    """The memory that a query holds, counted against its limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0

    def add(self, count: int, clause: Clause, what: str) -> None:
        self._bytes += count
        if self._bytes > self._limit:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"{what} needs more than the {self._limit} bytes that a query may hold; narrow the match, or add a limit",
                resource="query memory in bytes",
                limit=self._limit,
                actual=self._bytes,
                clause=clause.value,
            )

    def drop(self, count: int) -> None:
        self._bytes -= count


class _Run:
    """One execution of one plan."""

    def __init__(
        self,
        plan: ops.ReadPlan,
        view: View,
        watch: Watch,
        route: Route | None,
        memory_bytes: int,
        outer_rows: int,
        recorder: Recorder | None,
    ) -> None:
        self._plan = plan
        self._view = view
        self._watch = watch
        self._route = route
        self._outer_rows = outer_rows
        self._recorder = recorder
        self._memory = _MemoryBudget(memory_bytes)
        self._spell = Speller(plan.bindings)
        self._with_ids = bindings_with_ids(plan.root)

    # -- results

    def result(self) -> pa.Table:
        fields = [pa.field(column.name, arrow_type(column.type), nullable=True) for column in self._plan.columns]
        parts: list[Cells] = []
        for cells in self._cells(self._plan.root):
            self._memory.add(cells.nbytes, Clause.RETURN, "the result")
            parts.append(cells)
        if not parts:
            return pa.schema(fields).empty_table()
        columns = concat_cells(parts).columns
        cast = [column if column.type == field.type else column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
        return pa.Table.from_arrays([joined([column], column.type) for column in cast], schema=pa.schema(fields))

    def cells(self) -> Iterator[Cells]:
        return self._cells(self._plan.root)

    def _cells(self, op: ops.Op) -> Iterator[Cells]:
        """Yield the result rows of an operator above the match."""
        batches = self._cell_batches(op)
        for cells in batches if self._recorder is None else self._recorder.of(op).count(batches):
            self._watch.check()
            if cells.count:
                yield cells

    def _cell_batches(self, op: ops.Op) -> Iterator[Cells]:
        match op:
            case ops.Project(input_, outputs) if gives_cells(input_):
                return (self._project_cells(cells, outputs) for cells in self._cells(input_))
            case ops.Project(input_, outputs):
                return (Cells(rows.count, [self._value(output, rows) for output in outputs]) for rows in self._rows(input_, None))
            case ops.Aggregate():
                return self._aggregate(op)
            case ops.Distinct(input_):
                return self._distinct(input_)
            case ops.Sort(input_, _, _, limit, skip):
                return self._sort(self._cells(input_), limit, skip, partial(self._cell_keys, op), concat_cells, _by_place)
            case ops.Limit(input_, count, skip):
                return window(self._cells(input_), skip=skip, count=count)
            case ops.Empty():
                return iter(())
            case _:
                raise AssertionError("a plan ends in a projection or an aggregation")

    def _project_cells(self, cells: Cells, outputs: tuple[ir.Expr, ...]) -> Cells:
        return Cells(cells.count, [self._cell_value(output, cells) for output in outputs])

    def _distinct(self, input_: ops.Op) -> Iterator[Cells]:
        rows = DistinctRows()
        before = 0
        for cells in self._cells(input_):
            rows.add(cells)
            self._memory.add(rows.nbytes - before, Clause.RETURN, "finding distinct rows")
            before = rows.nbytes
        self._memory.drop(before)
        if (found := rows.cells()) is not None:
            yield found

    def _aggregate(self, op: ops.Aggregate) -> Iterator[Cells]:
        grouping = Grouping(op.outputs, self._read_one, ties=op.ties)
        before = 0
        for rows, times in self._weighted_rows(op.input, op.outputs):
            grouping.add(rows, partial(self._value, rows=rows), times=times)
            self._memory.add(grouping.nbytes - before, Clause.RETURN, "grouping")
            before = grouping.nbytes
        self._memory.drop(before)
        if (found := grouping.cells()) is not None:
            yield found

    def _weighted_rows(self, input_: ops.Op, outputs: tuple[ir.Expr | ir.Call, ...]) -> Iterator[tuple[Rows, Numbers64 | None]]:
        """Yield the rows to group, each with the number of rows it stands for. A link whose far end is only counted is not expanded."""
        if isinstance(input_, ops.Expand) and only_counts(outputs, input_.target.binding) and input_.is_bare:
            weighted = fan_outs(input_, self._link_access(input_), self._rows(input_.input, None))
            yield from ((rows, times) for rows, times in self._tally_weighted(input_, weighted) if rows.count)
        else:
            yield from ((rows, None) for rows in self._rows(input_, None))

    def _tally_weighted(self, op: ops.Expand, weighted: Iterator[tuple[Rows, Numbers64]]) -> Iterator[tuple[Rows, Numbers64]]:
        """Pass weighted rows on and add the rows they stand for to the tally."""
        tally, began = self._tally(op), time.perf_counter()
        for rows, times in weighted:
            tally.ms += (time.perf_counter() - began) * 1e3
            tally.rows += int(times.sum())
            yield rows, times
            began = time.perf_counter()

    def _tally(self, op: ops.Op) -> Tally:
        return Tally() if self._recorder is None else self._recorder.of(op)

    # -- rows

    def _rows(self, op: ops.Op, outer: Rows | None) -> Iterator[Rows]:
        batches = self._batches(op, outer)
        for rows in batches if self._recorder is None else self._recorder.of(op).count(batches):
            self._watch.check()
            if rows.count:
                yield rows

    def _existing(self, op: ops.Op, outer: Rows) -> Iterator[Rows]:
        """Yield rows of an operator of which only the existence counts. Those of a bare expansion are not multiplied."""
        if not (isinstance(op, ops.Expand) and op.is_bare):
            return self._rows(op, outer)
        found = linked_rows(op, self._link_access(op), self._rows(op.input, outer))
        return found if self._recorder is None else self._recorder.of(op).count(found)

    def _batches(self, op: ops.Op, outer: Rows | None) -> Iterator[Rows]:
        match op:
            case ops.Scan():
                return self._scan(op, None)
            case ops.Argument():
                return iter((NO_BINDINGS if outer is None else outer,))
            case ops.Expand():
                return expand(op, self._link_access(op), self._rows(op.input, outer))
            case ops.Connect():
                return connect(op, self._link_access(op), self._rows(op.input, outer))
            case ops.CrossProduct() | ops.Join():
                return self._pairs(op, outer)
            case ops.Filter(input_, where):
                return self._filter(self._rows(input_, outer), RowFilter(where))
            case ops.SemiJoin():
                return self._semi_join(op, outer)
            case ops.Optional():
                return self._optional(op, outer)
            case ops.Fetch(input_, reads):
                return (self._fetch(rows, reads) for rows in self._rows(input_, outer))
            case ops.Sort(input_, _, _, limit, skip):
                return self._sort(self._rows(input_, outer), limit, skip, partial(self._keys, op), concat, partial(self._ties, op))
            case ops.Limit(input_, count, skip):
                most = None if count is None else skip + count
                rows = self._scan(input_, most) if isinstance(input_, ops.Scan) else self._rows(input_, outer)
                return window(rows, skip=skip, count=count)
            case ops.Empty():
                return iter(())
            case ops.Paths():
                return paths(op, self._link_access(op), self._rows(op.input, outer))
            case ops.Rank():
                return self._rank(op, outer)
            case ops.Aggregate() | ops.Project() | ops.Distinct():
                raise AssertionError("this operator returns result columns, not rows")
            case _:
                assert_never(op)

    def _pairs(self, op: ops.CrossProduct | ops.Join, outer: Rows | None) -> Iterator[Rows]:
        what = self._product_of(op.left, op.right)
        with self._held(op.right, outer, what) as right:
            left = self._rows(op.left, outer)
            if isinstance(op, ops.Join):
                yield from equi_join(left, right, op.on, self._field)
            else:
                yield from self._limit_pairs(product(left, right), what)

    def _semi_join(self, op: ops.SemiJoin, outer: Rows | None) -> Iterator[Rows]:
        inners = [(inner.on, partial(self._existing, inner.root)) for inner in op.inners]
        for rows in rebatch(self._rows(op.input, outer), rows=self._outer_rows):
            yield semi_join(rows, inners, wanted=op.wanted)

    def _optional(self, op: ops.Optional, outer: Rows | None) -> Iterator[Rows]:
        inner, added = op.inner, self._added(op)
        if inner.on:
            for rows in rebatch(self._rows(op.input, outer), rows=self._outer_rows):
                yield from left_join(rows, inner.on, partial(self._rows, inner.root), added)
            return
        what = self._product_of(op.input, inner.root)
        with self._held(inner.root, NO_BINDINGS, what) as right:
            inside = added.of(right) if right.count else added.nulls(1)
            yield from self._limit_pairs(product(self._rows(op.input, outer), inside), what)

    def _added(self, op: ops.Optional) -> BlockColumns:
        columns = sorted(key for key in columns_of(op.inner.root, self._with_ids) if key[0] in op.binds)
        entities = [binding for binding in op.binds if self._plan.bindings[binding].type is not None]
        return BlockColumns(entities, {key: self._column_type(*key) for key in columns})

    def _limit_pairs(self, pairs: Iterator[Rows], what: str) -> Iterator[Rows]:
        """Pass pairs on and fail above the limit. Pairs are not kept in memory, but so many take too long and point to a mistake."""
        count = 0
        for rows in pairs:
            count += rows.count
            if count > MAX_PAIRS:
                raise ResourceLimitExceeded(
                    Kind.RESOURCE_LIMIT,
                    f"{what} gives more than {MAX_PAIRS} pairs; link them by a traversal or an equality, or add a limit",
                    resource="pairs of a cross product",
                    limit=MAX_PAIRS,
                    actual=count,
                    clause=Clause.MATCH.value,
                )
            yield rows

    def _scan(self, op: ops.Scan, limit: int | None) -> Iterator[Rows]:
        names = self._scanned(op)
        for numbers, batch in self._entities(op.binding).scan(names, op.where, check=self._watch.check, limit=limit):
            yield Rows(len(numbers), {op.binding: numbers}, {(op.binding, name): batch.column(name) for name in names})

    def _scanned(self, op: ops.Scan) -> tuple[str, ...]:
        """Return the columns that a scan reads."""
        return op.columns if op.binding not in self._with_ids else (*op.columns, ID)

    def _rank(self, op: ops.Rank, outer: Rows | None) -> Iterator[Rows]:
        binding = ranked_field(op.ranking).binding
        entities, check = self._entities(binding), self._watch.check
        if isinstance(op.input, ops.Scan) and (best := best_of_scan(op, entities, op.input, check=check)) is not None:
            names = self._scanned(op.input)
            read = self._read(binding, best.bindings[binding], names)
            yield best.with_columns({(binding, name): read[name] for name in names})
            return
        if not isinstance(op.ranking, ir.Fusion):
            top = op.top if isinstance(op.input, ops.Scan) and not op.input.where else None
            yield from scored(op, scores_of(op.ranking, entities, check=check, index=op.index, top=top), self._rows(op.input, outer))
            return
        with self._held(op.input, outer, "fusing rankings") as rows:
            if rows.count:
                yield fused(op, op.ranking, rows, entities, self._type(binding), check=check)

    def _filter(self, batches: Iterator[Rows], where: RowFilter) -> Iterator[Rows]:
        return (rows.keep(where.mask(rows.count, partial(self._field, rows))) for rows in batches)

    def _fetch(self, rows: Rows, reads: tuple[ir.Read, ...]) -> Rows:
        for read in reads:
            if (numbers := rows.bindings.get(read.binding)) is None:  # a path in no row: `_field` gives its nulls
                continue
            found = self._read(read.binding, numbers, read.columns)
            rows = rows.with_columns({(read.binding, name): column for name, column in found.items()})
        return rows

    @contextmanager
    def _held(self, op: ops.Op, outer: Rows | None, what: str) -> Iterator[Rows]:
        """All rows of an operator, counted as long as they are in use."""
        parts, held = [], 0
        for rows in self._rows(op, outer):
            self._memory.add(rows.nbytes, Clause.MATCH, what)
            held += rows.nbytes
            parts.append(rows)
        try:
            yield concat(parts) if parts else Rows(0, {})
        finally:
            self._memory.drop(held)

    # -- order

    def _sort(
        self,
        batches: Iterator[B],
        limit: int | None,
        skip: int,
        keys_of: Callable[[B], list[OrderColumn]],
        join: Callable[[Sequence[B]], B],
        ties_of: Callable[[B, Numbers64], list[Column]],
    ) -> Iterator[B]:
        """Yield the rows in order, after the first `skip`, at most `limit` of them. No more than those are kept on the way."""
        most = None if limit is None else skip + limit

        def ordered(parts: Sequence[B]) -> B:
            every = join(parts)
            return every.take(places(keys_of(every), limit=most, ties=partial(ties_of, every)))

        waiting: list[B] = []
        due = max(16 * BATCH, 4 * most) if most is not None else None
        for batch in batches:
            self._memory.add(batch.nbytes, Clause.ORDER, "sorting all rows")
            waiting.append(batch)
            if due is not None and sum(part.count for part in waiting) >= due:
                before = sum(part.nbytes for part in waiting)
                waiting = [ordered(waiting)]
                self._memory.drop(before - waiting[0].nbytes)
        if waiting:
            rows = ordered(waiting)
            yield from (rows.slice(start, BATCH) for start in range(skip, rows.count, BATCH))

    def _keys(self, op: ops.Sort, rows: Rows) -> list[OrderColumn]:
        return [OrderColumn(self._value(key.key, rows), key.descending, key.nulls) for key in op.keys]

    def _ties(self, op: ops.Sort, rows: Rows, at: Numbers64) -> list[Column]:
        return [
            self._read_one(binding, name, rows.bindings[binding][at])
            for binding in op.ties
            for name in ((ID, TYPE) if self._type(binding).kind is TypeKind.INTERFACE else (ID,))
        ]

    def _cell_keys(self, op: ops.Sort, cells: Cells) -> list[OrderColumn]:
        return [OrderColumn(self._cell_value(key.key, cells), key.descending, key.nulls) for key in op.keys]

    # -- values

    def _value(self, expr: ir.Expr, rows: Rows) -> Column:
        if isinstance(expr, Field):
            return self._field(rows, expr)
        return evaluate(expr, rows.count, partial(self._field, rows))

    def _cell_value(self, expr: ir.Expr, cells: Cells) -> Column:
        if isinstance(expr, ir.Cell):
            return cells.columns[expr.index]
        return evaluate(expr, cells.count, _no_field, cells=cells.columns)

    def _field(self, rows: Rows, field: Field) -> Column:
        """Return a column of the rows, or read it now. A plan contains no explicit read of an entity's id or type."""
        binding, name = field.binding, field.column
        if (known := rows.columns.get((binding, name))) is not None:
            return known
        if (numbers := rows.bindings.get(binding)) is None:  # a path in no row
            return pa.nulls(rows.count, self._column_type(binding, name))
        return self._read_one(binding, name, numbers)

    def _read_one(self, binding: int, name: str, numbers: Numbers64) -> Column:
        return self._read(binding, numbers, (name,))[name]

    def _read(self, binding: int, numbers: Numbers64, names: Sequence[str]) -> dict[str, Column]:
        """Return columns of entities, null for a null entity."""
        present = numbers != NULL_ENTITY
        if present.all():
            return self._read_present(binding, numbers, names)
        if not present.any():
            return {name: pa.nulls(len(numbers), self._column_type(binding, name)) for name in names}
        return {name: spread(column, present) for name, column in self._read_present(binding, numbers[present], names).items()}

    def _read_present(self, binding: int, numbers: Numbers64, names: Sequence[str]) -> dict[str, Column]:
        type_ = self._type(binding)
        if TYPE in names and type_.kind is not TypeKind.INTERFACE:
            rest = self._read_present(binding, numbers, [name for name in names if name != TYPE])
            return {**rest, TYPE: pa.repeat(pa.scalar(type_.name, pa.string()), len(numbers))}
        return self._entities(binding).read(numbers, names, check=self._watch.check)

    def _column_type(self, binding: int, name: str) -> pa.DataType:
        """Return the type of a column of an entity or a path."""
        if self._plan.bindings[binding].type is None:
            return pa.int64() if name == "length" else pa.list_(pa.field("item", pa.string(), nullable=True))
        return pa.string() if name == TYPE else self._entities(binding).column_type(name)

    # -- tables

    def _entities(self, binding: int) -> AnyEntities:
        return self._view.rows(self._type(binding))

    def _type(self, binding: int) -> TypeRef:
        type_ = self._plan.bindings[binding].type
        assert type_ is not None, "a path has no table"
        return type_

    def _link_access(self, op: ops.Expand | ops.Connect | ops.Paths) -> LinkAccess:
        link = op.link
        sources, targets = self._view.ends(link.edges[0])
        left, right = (targets, sources) if link.direction is Direction.IN else (sources, targets)
        finder = LinkRouter(link, op.choice, self._view, (left, right), forced=self._route, watch=self._watch, tally=self._tally(op))
        ends = end_of(self._entities(link.left), left), end_of(self._entities(link.right), right)
        return LinkAccess(link, self._view.edges(link.edges), *ends, finder, watch=self._watch)

    def _product_of(self, left: ops.Op, right: ops.Op) -> str:
        return f"matching {self._names(left)} with {self._names(right)}"

    def _names(self, op: ops.Op) -> str:
        return ", ".join(self._spell.variable(binding) for binding in sorted(bindings_of(op)))


def _by_place(_: Cells, at: Numbers64) -> list[Column]:
    """Result rows with equal keys stay in their order."""
    return [pa.array(at)]


def _no_field(_: Field) -> Column:
    raise AssertionError("result rows have cells, not fields")
