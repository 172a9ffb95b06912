"""A physical plan and a view of the graph -> the result as an Arrow table.

Operators exchange batches of rows. A row consists of the numbers of its entities. Columns are added where the plan says so.
An operator that needs all rows at once (a sort, the right side of a join, the result) counts them against the memory limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from typing import Final, assert_never

import pyarrow as pa

from omnigraph.catalog.types import arrow_type
from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.exec.adjacency.numbering import Numbers64
from omnigraph.exec.read.aggregate import Grouping, only_counts
from omnigraph.exec.read.conditions import filter_mask, repeat
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.expand import LinkAccess, connect, expand, fan_outs, linked_rows
from omnigraph.exec.read.join import anti_join, equi_join, product
from omnigraph.exec.read.measure import Recorder, Tally
from omnigraph.exec.read.order import OrderColumn, places
from omnigraph.exec.read.routes import LinkRouter
from omnigraph.exec.read.rows import BATCH, Rows, concat, rebatch
from omnigraph.exec.read.view import View
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import ID, Constant, Field
from omnigraph.plan.ops import Route
from omnigraph.plan.spelling import Speller
from omnigraph.store.arrays import Column, joined

MEMORY_BYTES: Final = 4 << 30
"""The memory limit of one query: rows that wait for a sort or a join, and the result."""
MAX_PAIRS: Final = 1_000_000_000
"""The largest number of rows of a cross product in one query."""
ANTI_JOIN_ROWS: Final = 16 * BATCH
"""Rows per batch of an anti join. The inner plan runs once for each batch."""


def run(
    plan: ops.ReadPlan,
    view: View,
    *,
    watch: Watch,
    route: Route | None = None,
    memory_bytes: int = MEMORY_BYTES,
    recorder: Recorder | None = None,
) -> pa.Table:
    """Return all rows of the plan. With `route` every link is followed by that route; the result is the same.

    A `recorder` collects the measurements of every operator.
    """
    return _Run(plan, view, watch, route, memory_bytes, recorder).result()


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
        self, plan: ops.ReadPlan, view: View, watch: Watch, route: Route | None, memory_bytes: int, recorder: Recorder | None
    ) -> None:
        self._plan = plan
        self._view = view
        self._watch = watch
        self._route = route
        self._recorder = recorder
        self._memory = _MemoryBudget(memory_bytes)
        self._spell = Speller(plan.bindings)
        self._with_ids = bindings_with_ids(plan.root)

    # -- results

    def result(self) -> pa.Table:
        columns = self._columns(self._plan.root)
        fields = [pa.field(column.name, arrow_type(column.type), nullable=True) for column in self._plan.columns]
        if columns is None:
            return pa.schema(fields).empty_table()
        cast = [column if column.type == field.type else column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
        return pa.Table.from_arrays([joined([column], column.type) for column in cast], schema=pa.schema(fields))

    def _columns(self, op: ops.Op) -> list[Column] | None:
        """Return the result columns of an operator above the match, or None if there are no rows."""
        if self._recorder is None:
            return self._evaluate(op)
        began = time.perf_counter()
        columns = self._evaluate(op)
        tally = self._recorder.of(op)
        tally.rows, tally.ms = len(columns[0]) if columns else 0, (time.perf_counter() - began) * 1e3
        return columns

    def _evaluate(self, op: ops.Op) -> list[Column] | None:
        match op:
            case ops.Project(input_, outputs):
                return self._project(input_, outputs)
            case ops.Aggregate(input_, outputs):
                return self._aggregate(input_, outputs)
            case ops.Sort(input_, keys, _, limit):
                columns = self._columns(input_)
                return None if columns is None else _sorted_cells(columns, keys, limit)
            case ops.Limit(input_, count):
                columns = self._columns(input_)
                return None if columns is None else [column.slice(0, count) for column in columns]
            case ops.Empty():
                return None
            case _:
                raise AssertionError("a plan ends in a projection or an aggregation")

    def _project(self, input_: ops.Op, outputs: tuple[ir.Expr, ...]) -> list[Column] | None:
        parts: list[list[Column]] = []
        for rows in self._rows(input_, None):
            columns = [self._value(output, rows) for output in outputs]
            self._memory.add(sum(column.nbytes for column in columns), Clause.RETURN, "the result")
            parts.append(columns)
        if not parts:
            return None
        return [joined(column, column[0].type) for column in zip(*parts, strict=True)]

    def _aggregate(self, input_: ops.Op, outputs: tuple[Field | ir.Call, ...]) -> list[Column]:
        grouping = Grouping(outputs)
        before = 0
        for rows, times in self._weighted_rows(input_, outputs):
            grouping.add(rows, partial(self._value, rows=rows), times=times)
            self._memory.add(grouping.nbytes - before, Clause.RETURN, "grouping")
            before = grouping.nbytes
        return grouping.columns(
            lambda field, numbers: self._entities(field.binding).read(numbers, (field.column,), check=self._watch.check)[field.column]
        )

    def _weighted_rows(self, input_: ops.Op, outputs: tuple[Field | ir.Call, ...]) -> Iterator[tuple[Rows, Numbers64 | None]]:
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
                assert outer is not None
                return iter((outer,))
            case ops.Expand():
                return expand(op, self._link_access(op), self._rows(op.input, outer))
            case ops.Connect():
                return connect(op, self._link_access(op), self._rows(op.input, outer))
            case ops.CrossProduct(left, right):
                what = self._product_of(left, right)
                return self._limit_pairs(product(self._rows(left, outer), self._collect(right, outer, what)), what)
            case ops.Join(left, right, on):
                held = self._collect(right, outer, self._product_of(left, right))
                return equi_join(self._rows(left, outer), held, on, self._field)
            case ops.Filter(input_, where):
                return (self._filter(rows, where) for rows in self._rows(input_, outer))
            case ops.AntiJoin(input_, inner, on):
                return (
                    anti_join(rows, on, lambda tuples: self._existing(inner, tuples))
                    for rows in rebatch(self._rows(input_, outer), rows=ANTI_JOIN_ROWS)
                )
            case ops.Fetch(input_, reads):
                return (self._fetch(rows, reads) for rows in self._rows(input_, outer))
            case ops.Sort():
                return self._sort(op, outer)
            case ops.Limit(input_, count):
                return self._limit(input_, count, outer)
            case ops.Empty():
                return iter(())
            case ops.Rank():
                raise AssertionError("rankings are refused before a plan runs")
            case ops.Aggregate() | ops.Project():
                raise AssertionError("this operator returns result columns, not rows")
            case _:
                assert_never(op)

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
        names = op.columns if op.binding not in self._with_ids else (*op.columns, ID)
        for numbers, batch in self._entities(op.binding).scan(names, op.where, check=self._watch.check, limit=limit):
            yield Rows(len(numbers), {op.binding: numbers}, {(op.binding, name): batch.column(name) for name in names})

    def _limit(self, input_: ops.Op, count: int, outer: Rows | None) -> Iterator[Rows]:
        """Yield the first `count` rows. The input is not read further than needed."""
        if not count:
            return
        left = count
        for rows in self._scan(input_, count) if isinstance(input_, ops.Scan) else self._rows(input_, outer):
            yield rows if rows.count <= left else rows.slice(0, left)
            left -= rows.count
            if left <= 0:
                return

    def _sort(self, op: ops.Sort, outer: Rows | None) -> Iterator[Rows]:
        rows: Rows | None = None
        waiting: list[Rows] = []
        due = max(16 * BATCH, 4 * op.limit) if op.limit is not None else None
        for batch in self._rows(op.input, outer):
            self._memory.add(batch.nbytes, Clause.ORDER, "sorting all rows")
            waiting.append(batch)
            if due is not None and sum(part.count for part in waiting) >= due:
                before = sum(part.nbytes for part in waiting)
                waiting = [self._order(op, concat(waiting))]
                self._memory.drop(before - waiting[0].nbytes)
        if waiting:
            rows = self._order(op, concat(waiting))
            yield from (rows.slice(start, BATCH) for start in range(0, rows.count, BATCH))

    def _order(self, op: ops.Sort, rows: Rows) -> Rows:
        keys = [OrderColumn(self._value(_expr(key), rows), key.descending) for key in op.keys]

        def ties(at: Numbers64) -> list[Column]:
            some = Rows(len(at), {binding: rows.bindings[binding][at] for binding in op.ties})
            return [self._entities(binding).ids(some.bindings[binding], check=self._watch.check) for binding in op.ties]

        return rows.take(places(keys, limit=op.limit, ties=ties))

    def _filter(self, rows: Rows, where: tuple[ir.Predicate, ...]) -> Rows:
        return rows.keep(filter_mask(where, rows.count, lambda field: self._field(rows, field)))

    def _fetch(self, rows: Rows, reads: tuple[ir.Read, ...]) -> Rows:
        for read in reads:
            found = self._entities(read.binding).read(rows.bindings[read.binding], read.columns, check=self._watch.check)
            rows = rows.with_columns({(read.binding, name): column for name, column in found.items()})
        return rows

    def _collect(self, op: ops.Op, outer: Rows | None, what: str) -> Rows:
        parts = []
        for rows in self._rows(op, outer):
            self._memory.add(rows.nbytes, Clause.MATCH, what)
            parts.append(rows)
        return concat(parts) if parts else Rows(0, {})

    # -- values

    def _value(self, expr: ir.Expr, rows: Rows) -> Column:
        match expr:
            case Field():
                return self._field(rows, expr)
            case Constant():
                return repeat(expr, rows.count)
            case ir.TextMatch() | ir.Score():
                raise AssertionError("search is refused before a plan runs")
            case _:
                assert_never(expr)

    def _field(self, rows: Rows, field: Field) -> Column:
        """Return a column of the rows, or read it now. A plan contains no explicit read of an entity's id."""
        key = (field.binding, field.column)
        if (known := rows.columns.get(key)) is not None:
            return known
        return self._entities(field.binding).read(rows.bindings[field.binding], (field.column,), check=self._watch.check)[field.column]

    # -- tables

    def _entities(self, binding: int) -> Entities:
        return self._view.entities(self._plan.bindings[binding].type)

    def _link_access(self, op: ops.Expand | ops.Connect) -> LinkAccess:
        link = op.link
        left, right = self._entities(link.left), self._entities(link.right)
        finder = LinkRouter(link, op.choice, self._view, (left, right), forced=self._route, watch=self._watch, tally=self._tally(op))
        return LinkAccess(link, self._view.entities(link.edge), left, right, finder, watch=self._watch)

    def _product_of(self, left: ops.Op, right: ops.Op) -> str:
        return f"matching {self._names(left)} with {self._names(right)}"

    def _names(self, op: ops.Op) -> str:
        return ", ".join(self._spell.variable(binding) for binding in sorted(bindings_of(op)))


def bindings_with_ids(op: ops.Op) -> frozenset[int]:
    """Return the bindings whose ids every row needs later. A scan reads them together with its other columns."""
    found: set[int] = set()

    def see(*exprs: object) -> None:
        found.update(expr.binding for expr in exprs if isinstance(expr, Field) and expr.whole)

    def visit(op: ops.Op) -> None:
        match op:
            case ops.Project(input_, outputs):
                see(*outputs)
                visit(input_)
            case ops.Filter(input_, where):
                see(*(field for predicate in where for field in ir.fields_of(predicate)))
                visit(input_)
            case ops.Join(left, right, on):
                see(*(field for pair in on for field in pair))
                visit(left)
                visit(right)
            case ops.CrossProduct(left, right):
                visit(left)
                visit(right)
            case ops.AntiJoin(input_, inner):
                visit(input_)
                visit(inner)
            case ops.Expand() | ops.Connect() | ops.Rank() | ops.Fetch() | ops.Aggregate():
                visit(op.input)
            case ops.Sort() | ops.Limit():
                # Columns that only the few remaining rows need are read after the limit.
                if not isinstance(op, ops.Sort) or op.limit is None:
                    visit(op.input)
            case ops.Scan() | ops.Argument() | ops.Empty():
                return
            case _:
                assert_never(op)

    visit(op)
    return frozenset(found)


def bindings_of(op: ops.Op) -> frozenset[int]:
    """Return the bindings of a row of this operator."""
    match op:
        case ops.Scan(binding):
            return frozenset((binding,))
        case ops.Argument(bindings):
            return frozenset(bindings)
        case ops.Expand():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bindings_of(op.input) | edge | {op.target.binding}
        case ops.Connect():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bindings_of(op.input) | edge
        case ops.CrossProduct(left, right) | ops.Join(left, right):
            return bindings_of(left) | bindings_of(right)
        case ops.Filter() | ops.AntiJoin() | ops.Rank() | ops.Fetch() | ops.Aggregate() | ops.Project() | ops.Sort() | ops.Limit():
            return bindings_of(op.input)
        case ops.Empty():
            return frozenset()
        case _:
            assert_never(op)


def _sorted_cells(columns: list[Column], keys: tuple[ir.SortKey, ...], limit: int | None) -> list[Column]:
    cells = [OrderColumn(columns[key.key.index], key.descending) for key in keys if isinstance(key.key, ir.Cell)]
    at = pa.array(places(cells, limit=limit, ties=lambda tied: [pa.array(tied)]))
    return [column.take(at) for column in columns]


def _expr(key: ir.SortKey) -> ir.Expr:
    assert not isinstance(key.key, ir.Cell)
    return key.key
