"""Only the columns that an operator above needs are read. Columns that are needed only after a limit are read after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.plan.expr import Field
from omnigraph.plan.ir import (
    Call,
    Cell,
    Link,
    LogicalAggregate,
    LogicalAntiJoin,
    LogicalArgument,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalEmpty,
    LogicalExpand,
    LogicalFetch,
    LogicalFilter,
    LogicalJoin,
    LogicalLimit,
    LogicalOrder,
    LogicalPattern,
    LogicalPlan,
    LogicalProject,
    LogicalRank,
    LogicalScan,
    Read,
    expr_fields,
    fields_of,
)
from omnigraph.plan.statistics import Statistics

Wanted = frozenset[tuple[int, str]]
"""Columns by binding. The id of a bound entity is always available and never listed."""


def prune_columns(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    del statistics
    return _pruned(plan, frozenset())


def _pruned(plan: LogicalPlan, wanted: Wanted) -> LogicalPlan:
    """The plan, reading what it needs itself and delivering `wanted` above it."""
    match plan:
        case LogicalScan(binding=binding):
            return msgspec.structs.replace(plan, columns=_columns(wanted, binding))
        case LogicalArgument() | LogicalEmpty():
            return plan
        case LogicalPattern():
            raise AssertionError("joins are ordered before columns are pruned")
        case LogicalExpand():
            return _expand(plan, wanted)
        case LogicalConnect(input_, link):
            return LogicalConnect(_pruned(input_, wanted), _link(link, wanted))
        case LogicalCrossProduct(left, right):
            return LogicalCrossProduct(_pruned(left, wanted), _pruned(right, wanted))
        case LogicalJoin(left, right, on):
            needed = wanted | _wanted(field for pair in on for field in pair)
            return LogicalJoin(_pruned(left, needed), _pruned(right, needed), on)
        case LogicalFilter(input_, where):
            return LogicalFilter(_pruned(input_, wanted | _wanted(field for predicate in where for field in fields_of(predicate))), where)
        case LogicalAntiJoin(input_, inner, on):
            return LogicalAntiJoin(_pruned(input_, wanted | _asked_of_argument(inner, frozenset(on))), _pruned(inner, frozenset()), on)
        case LogicalRank():
            # A ranking reads its property itself: with an index it need not.
            return msgspec.structs.replace(plan, input=_pruned(plan.input, wanted))
        case LogicalFetch():
            raise AssertionError("columns are pruned once")
        case LogicalAggregate(input_, outputs):
            fields = (expr_fields(output.argument) if isinstance(output, Call) else (output,) for output in outputs)
            return LogicalAggregate(_pruned(input_, _wanted(field for group in fields for field in group)), outputs)
        case LogicalProject(input_, outputs):
            return LogicalProject(_pruned(input_, _wanted(field for output in outputs for field in expr_fields(output))), outputs)
        case LogicalOrder(input_, keys, ties):
            fields = (() if isinstance(key.key, Cell) else expr_fields(key.key) for key in keys)
            return LogicalOrder(_pruned(input_, wanted | _wanted(field for group in fields for field in group)), keys, ties)
        case LogicalLimit(input_, count):
            return _limit(input_, count, wanted)
        case _:
            assert_never(plan)


def _limit(input_: LogicalPlan, count: int, wanted: Wanted) -> LogicalPlan:
    if isinstance(input_, LogicalScan):
        return LogicalLimit(_pruned(input_, wanted), count)
    below = _pruned(input_, frozenset())
    return _fetched(LogicalLimit(below, count), wanted - delivered(below))


def _expand(plan: LogicalExpand, wanted: Wanted) -> LogicalPlan:
    link, target = _link(plan.link, wanted), plan.target
    here = _columns(wanted, target.binding)
    below = _pruned(plan.input, wanted)
    if target.where:
        # The predicates read these rows anyway.
        return LogicalExpand(below, link, plan.from_left, msgspec.structs.replace(target, columns=here))
    expanded = LogicalExpand(below, link, plan.from_left, target)
    return LogicalFetch(expanded, (Read(target.binding, here),)) if here else expanded


def _link(link: Link, wanted: Wanted) -> Link:
    if link.edge_binding is None:
        return link
    return msgspec.structs.replace(link, columns=_columns(wanted, link.edge_binding))


def _fetched(plan: LogicalPlan, wanted: Wanted) -> LogicalPlan:
    if not wanted:
        return plan
    bindings = sorted({binding for binding, _ in wanted})
    return LogicalFetch(plan, tuple(Read(binding, _columns(wanted, binding)) for binding in bindings))


def _columns(wanted: Wanted, binding: int) -> tuple[str, ...]:
    return tuple(sorted(column for owner, column in wanted if owner == binding))


def _wanted(fields: Iterable[Field]) -> Wanted:
    return frozenset((field.binding, field.column) for field in fields if not field.whole)


def delivered(plan: LogicalPlan) -> Wanted:
    """Every column that rows of this plan carry."""
    match plan:
        case LogicalScan(binding=binding, columns=columns):
            return frozenset((binding, column) for column in columns)
        case LogicalArgument() | LogicalPattern() | LogicalEmpty() | LogicalAggregate() | LogicalProject():
            return frozenset()
        case LogicalExpand(input_, link, _, target):
            return delivered(input_) | _of_edge(link) | delivered(target)
        case LogicalConnect(input_, link):
            return delivered(input_) | _of_edge(link)
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return delivered(left) | delivered(right)
        case LogicalFetch(input_, reads):
            return delivered(input_) | {(read.binding, column) for read in reads for column in read.columns}
        case LogicalFilter() | LogicalAntiJoin() | LogicalRank() | LogicalOrder() | LogicalLimit():
            return delivered(plan.input)
        case _:
            assert_never(plan)


def _of_edge(link: Link) -> Wanted:
    return frozenset() if link.edge_binding is None else frozenset((link.edge_binding, column) for column in link.columns)


def _asked_of_argument(plan: LogicalPlan, on: frozenset[int]) -> Wanted:
    """The columns of outer bindings that the inside of a negation reads."""
    match plan:
        case LogicalFilter(input_, where):
            here = _wanted(field for predicate in where for field in fields_of(predicate) if field.binding in on)
            return here | _asked_of_argument(input_, on)
        case LogicalAntiJoin(input_, inner):
            return _asked_of_argument(input_, on) | _asked_of_argument(inner, on)
        case LogicalCrossProduct(left, right):
            return _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case LogicalJoin(left, right, pairs):
            here = _wanted(field for pair in pairs for field in pair if field.binding in on)
            return here | _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case LogicalExpand(input_) | LogicalConnect(input_):
            return _asked_of_argument(input_, on)
        case LogicalScan() | LogicalArgument() | LogicalEmpty():
            return frozenset()
        case LogicalPattern() | LogicalRank() | LogicalFetch() | LogicalAggregate() | LogicalProject() | LogicalOrder() | LogicalLimit():
            raise AssertionError("a negation is matched, not ranked, grouped or ordered")
        case _:
            assert_never(plan)
