"""A physical plan and a view of the graph -> the result as an Arrow table.

Operators hand each other batches of rows; a row is the numbers of its entities, and columns join it where the plan says so.
Whoever needs all rows at once (an order, the right side of a join, the result) says how much it holds.
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
from omnigraph.exec.read.aggregate import Grouping, only_counts
from omnigraph.exec.read.conditions import holding, repeated
from omnigraph.exec.read.entities import Entities
from omnigraph.exec.read.expand import Linked, connect, expand, fan_outs, is_bare
from omnigraph.exec.read.join import equal_pairs, product, without_partner
from omnigraph.exec.read.measure import Recorder, Tally
from omnigraph.exec.read.order import Key, places
from omnigraph.exec.read.routes import Routed
from omnigraph.exec.read.rows import BATCH, Numbers64, Rows, concat, gathered
from omnigraph.exec.read.view import View
from omnigraph.exec.read.watch import Watch
from omnigraph.plan import ir, ops
from omnigraph.plan.expr import ID, Constant, Field
from omnigraph.plan.ops import Route
from omnigraph.plan.spelling import Speller
from omnigraph.store.arrays import Column, joined

HELD_BYTES: Final = 4 << 30
"""What one query may hold in memory at a time: rows that wait for an order or a partner, and the result."""
MOST_PAIRS: Final = 1_000_000_000
"""How many rows of a cross product one query looks at."""
NEGATED: Final = 16 * BATCH
"""Rows that a negation looks at together: what stands inside it runs once for all of them."""


def run(
    plan: ops.ReadPlan,
    view: View,
    *,
    watch: Watch,
    route: Route | None = None,
    held_bytes: int = HELD_BYTES,
    recorder: Recorder | None = None,
) -> pa.Table:
    """All rows of the plan. With `route` every link is followed that way, whatever the plan chose: the answer is the same.

    A `recorder` learns what every operator did.
    """
    return _Run(plan, view, watch, route, held_bytes, recorder).result()


class Clause(StrEnum):
    """The part of a query that asked for too much."""

    MATCH = "match"
    RETURN = "return"
    ORDER = "order"


class _Held:
    """What a query holds, counted."""

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
    """One run of one plan."""

    def __init__(
        self, plan: ops.ReadPlan, view: View, watch: Watch, route: Route | None, held_bytes: int, recorder: Recorder | None
    ) -> None:
        self._plan = plan
        self._view = view
        self._watch = watch
        self._route = route
        self._recorder = recorder
        self._held = _Held(held_bytes)
        self._spell = Speller(plan.bindings)
        self._shown = ids_wanted(plan.root)

    # -- results

    def result(self) -> pa.Table:
        columns = self._columns(self._plan.root)
        fields = [pa.field(column.name, arrow_type(column.type), nullable=True) for column in self._plan.columns]
        if columns is None:
            return pa.schema(fields).empty_table()
        cast = [column if column.type == field.type else column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
        return pa.Table.from_arrays([joined([column], column.type) for column in cast], schema=pa.schema(fields))

    def _columns(self, op: ops.Op) -> list[Column] | None:
        """The result columns of the operators above the match; None when there are no rows."""
        if self._recorder is None:
            return self._uncounted(op)
        began = time.perf_counter()
        columns = self._uncounted(op)
        tally = self._recorder.of(op)
        tally.rows, tally.ms = len(columns[0]) if columns else 0, (time.perf_counter() - began) * 1e3
        return columns

    def _uncounted(self, op: ops.Op) -> list[Column] | None:
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
                raise AssertionError("a plan ends in a projection or in groups")

    def _project(self, input_: ops.Op, outputs: tuple[ir.Expr, ...]) -> list[Column] | None:
        parts: list[list[Column]] = []
        for rows in self._rows(input_, None):
            columns = [self._value(output, rows) for output in outputs]
            self._held.add(sum(column.nbytes for column in columns), Clause.RETURN, "the result")
            parts.append(columns)
        if not parts:
            return None
        return [joined(column, column[0].type) for column in zip(*parts, strict=True)]

    def _aggregate(self, input_: ops.Op, outputs: tuple[Field | ir.Call, ...]) -> list[Column]:
        grouping = Grouping(outputs)
        before = 0
        for rows, times in self._counted(input_, outputs):
            grouping.add(rows, partial(self._value, rows=rows), times=times)
            self._held.add(grouping.nbytes - before, Clause.RETURN, "grouping")
            before = grouping.nbytes
        return grouping.columns(
            lambda field, numbers: self._entities(field.binding).read(numbers, (field.column,), check=self._watch.check)[field.column]
        )

    def _counted(self, input_: ops.Op, outputs: tuple[Field | ir.Call, ...]) -> Iterator[tuple[Rows, Numbers64 | None]]:
        """Rows to be grouped, and how many each stands for: a link whose far end is only counted is not followed row by row."""
        if isinstance(input_, ops.Expand) and only_counts(outputs, input_.target.binding) and is_bare(input_):
            weighed = fan_outs(input_, self._linked(input_), self._rows(input_.input, None))
            yield from ((rows, times) for rows, times in self._weighed(input_, weighed) if rows.count)
        else:
            yield from ((rows, None) for rows in self._rows(input_, None))

    def _weighed(self, op: ops.Expand, weighed: Iterator[tuple[Rows, Numbers64]]) -> Iterator[tuple[Rows, Numbers64]]:
        """The same, counted as the rows they stand for."""
        tally, began = self._tally(op), time.perf_counter()
        for rows, times in weighed:
            tally.ms += (time.perf_counter() - began) * 1e3
            tally.rows += int(times.sum())
            yield rows, times
            began = time.perf_counter()

    def _tally(self, op: ops.Op) -> Tally:
        return Tally() if self._recorder is None else self._recorder.of(op)

    # -- rows

    def _rows(self, op: ops.Op, outer: Rows | None) -> Iterator[Rows]:
        batches = self._unwatched(op, outer)
        for rows in batches if self._recorder is None else self._recorder.of(op).over(batches):
            self._watch.check()
            if rows.count:
                yield rows

    def _unwatched(self, op: ops.Op, outer: Rows | None) -> Iterator[Rows]:
        match op:
            case ops.Scan():
                return self._scan(op, None)
            case ops.Argument():
                assert outer is not None
                return iter((outer,))
            case ops.Expand():
                return expand(op, self._linked(op), self._rows(op.input, outer))
            case ops.Connect():
                return connect(op, self._linked(op), self._rows(op.input, outer))
            case ops.CrossProduct(left, right):
                what = self._product_of(left, right)
                return self._bounded(product(self._rows(left, outer), self._all(right, outer, what)), what)
            case ops.Join(left, right, on):
                held = self._all(right, outer, self._product_of(left, right))
                return equal_pairs(self._rows(left, outer), held, on, self._field)
            case ops.Filter(input_, where):
                return (self._filtered(rows, where) for rows in self._rows(input_, outer))
            case ops.AntiJoin(input_, inner, on):
                return (
                    without_partner(rows, on, lambda asked: self._rows(inner, asked))
                    for rows in gathered(self._rows(input_, outer), rows=NEGATED)
                )
            case ops.Fetch(input_, reads):
                return (self._fetched(rows, reads) for rows in self._rows(input_, outer))
            case ops.Sort():
                return self._sort(op, outer)
            case ops.Limit(input_, count):
                return self._limit(input_, count, outer)
            case ops.Empty():
                return iter(())
            case ops.Rank():
                raise AssertionError("rankings are refused before a plan runs")
            case ops.Aggregate() | ops.Project():
                raise AssertionError("results, not rows")
            case _:
                assert_never(op)

    def _bounded(self, pairs: Iterator[Rows], what: str) -> Iterator[Rows]:
        """Pairs are handed on and not held; but so many of them are a mistake, and would take for ever."""
        count = 0
        for rows in pairs:
            count += rows.count
            if count > MOST_PAIRS:
                raise ResourceLimitExceeded(
                    Kind.RESOURCE_LIMIT,
                    f"{what} gives more than {MOST_PAIRS} pairs; link them by a traversal or an equality, or add a limit",
                    resource="pairs of a cross product",
                    limit=MOST_PAIRS,
                    actual=count,
                    clause=Clause.MATCH.value,
                )
            yield rows

    def _scan(self, op: ops.Scan, limit: int | None) -> Iterator[Rows]:
        names = op.columns if op.binding not in self._shown else (*op.columns, ID)
        for numbers, batch in self._entities(op.binding).scan(names, op.where, check=self._watch.check, limit=limit):
            yield Rows(len(numbers), {op.binding: numbers}, {(op.binding, name): batch.column(name) for name in names})

    def _limit(self, input_: ops.Op, count: int, outer: Rows | None) -> Iterator[Rows]:
        """Stops asking as soon as it has enough."""
        if not count:
            return
        left = count
        for rows in self._scan(input_, count) if isinstance(input_, ops.Scan) else self._rows(input_, outer):
            yield rows if rows.count <= left else rows.part(0, left)
            left -= rows.count
            if left <= 0:
                return

    def _sort(self, op: ops.Sort, outer: Rows | None) -> Iterator[Rows]:
        rows: Rows | None = None
        waiting: list[Rows] = []
        due = max(16 * BATCH, 4 * op.limit) if op.limit is not None else None
        for batch in self._rows(op.input, outer):
            self._held.add(batch.nbytes, Clause.ORDER, "putting all rows in order")
            waiting.append(batch)
            if due is not None and sum(part.count for part in waiting) >= due:
                before = sum(part.nbytes for part in waiting)
                waiting = [self._ordered(op, concat(waiting))]
                self._held.drop(before - waiting[0].nbytes)
        if waiting:
            rows = self._ordered(op, concat(waiting))
            yield from (rows.part(start, BATCH) for start in range(0, rows.count, BATCH))

    def _ordered(self, op: ops.Sort, rows: Rows) -> Rows:
        keys = [Key(self._value(_expr(key), rows), key.descending) for key in op.keys]

        def ties(at: Numbers64) -> list[Column]:
            some = Rows(len(at), {binding: rows.bindings[binding][at] for binding in op.ties})
            return [self._entities(binding).ids(some.bindings[binding], check=self._watch.check) for binding in op.ties]

        return rows.take(places(keys, limit=op.limit, ties=ties))

    def _filtered(self, rows: Rows, where: tuple[ir.Predicate, ...]) -> Rows:
        return rows.keep(holding(where, rows.count, lambda field: self._field(rows, field)))

    def _fetched(self, rows: Rows, reads: tuple[ir.Read, ...]) -> Rows:
        for read in reads:
            found = self._entities(read.binding).read(rows.bindings[read.binding], read.columns, check=self._watch.check)
            rows = rows.with_columns({(read.binding, name): column for name, column in found.items()})
        return rows

    def _all(self, op: ops.Op, outer: Rows | None, what: str) -> Rows:
        parts = []
        for rows in self._rows(op, outer):
            self._held.add(rows.nbytes, Clause.MATCH, what)
            parts.append(rows)
        return concat(parts) if parts else Rows(0, {})

    # -- values

    def _value(self, expr: ir.Expr, rows: Rows) -> Column:
        match expr:
            case Field():
                return self._field(rows, expr)
            case Constant():
                return repeated(expr, rows.count)
            case ir.TextMatch() | ir.Score():
                raise AssertionError("search is refused before a plan runs")
            case _:
                assert_never(expr)

    def _field(self, rows: Rows, field: Field) -> Column:
        """A column that came along with the rows, or else is read now: the id of an entity is never asked for in a plan."""
        key = (field.binding, field.column)
        if (known := rows.columns.get(key)) is not None:
            return known
        return self._entities(field.binding).read(rows.bindings[field.binding], (field.column,), check=self._watch.check)[field.column]

    # -- tables

    def _entities(self, binding: int) -> Entities:
        return self._view.entities(self._plan.bindings[binding].type)

    def _linked(self, op: ops.Expand | ops.Connect) -> Linked:
        link = op.link
        left, right = self._entities(link.left), self._entities(link.right)
        ways = Routed(link, op.choice, self._view, (left, right), forced=self._route, watch=self._watch, tally=self._tally(op))
        return Linked(link, self._view.entities(link.edge), left, right, ways, watch=self._watch)

    def _product_of(self, left: ops.Op, right: ops.Op) -> str:
        return f"matching {self._names(left)} with {self._names(right)}"

    def _names(self, op: ops.Op) -> str:
        return ", ".join(self._spell.variable(binding) for binding in sorted(bound_by(op)))


def ids_wanted(op: ops.Op) -> frozenset[int]:
    """The bindings whose ids every row needs sooner or later: a scan reads them while it is there."""
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
                # What is only needed of the few rows that stay is read then.
                if not isinstance(op, ops.Sort) or op.limit is None:
                    visit(op.input)
            case ops.Scan() | ops.Argument() | ops.Empty():
                return
            case _:
                assert_never(op)

    visit(op)
    return frozenset(found)


def bound_by(op: ops.Op) -> frozenset[int]:
    """The bindings a row of this operator has."""
    match op:
        case ops.Scan(binding):
            return frozenset((binding,))
        case ops.Argument(bindings):
            return frozenset(bindings)
        case ops.Expand():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bound_by(op.input) | edge | {op.target.binding}
        case ops.Connect():
            edge = frozenset() if op.link.edge_binding is None else frozenset((op.link.edge_binding,))
            return bound_by(op.input) | edge
        case ops.CrossProduct(left, right) | ops.Join(left, right):
            return bound_by(left) | bound_by(right)
        case ops.Filter() | ops.AntiJoin() | ops.Rank() | ops.Fetch() | ops.Aggregate() | ops.Project() | ops.Sort() | ops.Limit():
            return bound_by(op.input)
        case ops.Empty():
            return frozenset()
        case _:
            assert_never(op)


def _sorted_cells(columns: list[Column], keys: tuple[ir.SortKey, ...], limit: int | None) -> list[Column]:
    cells = [Key(columns[key.key.index], key.descending) for key in keys if isinstance(key.key, ir.Cell)]
    at = pa.array(places(cells, limit=limit, ties=lambda tied: [pa.array(tied)]))
    return [column.take(at) for column in columns]


def _expr(key: ir.SortKey) -> ir.Expr:
    assert not isinstance(key.key, ir.Cell)
    return key.key
