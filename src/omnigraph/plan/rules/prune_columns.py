"""Only the columns that an operator above needs are read. Columns that are needed only after a limit are read after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.plan.expr import TYPE, Field
from omnigraph.plan.ir import (
    Inner,
    Link,
    LogicalAggregate,
    LogicalArgument,
    LogicalConnect,
    LogicalCrossProduct,
    LogicalDistinct,
    LogicalEmpty,
    LogicalExpand,
    LogicalFetch,
    LogicalFilter,
    LogicalJoin,
    LogicalLimit,
    LogicalOptional,
    LogicalOrder,
    LogicalPaths,
    LogicalPattern,
    LogicalPlan,
    LogicalProject,
    LogicalRank,
    LogicalScan,
    LogicalSemiJoin,
    Read,
    expr_fields,
    fields_of,
    output_fields,
)
from omnigraph.plan.statistics import Statistics

Wanted = frozenset[tuple[int, str]]
"""Columns by binding. The id and the type of a bound entity are always available and never listed."""


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
        case LogicalSemiJoin(input_, inners, kept):
            asked = wanted.union(*(_asked_of_argument(inner.plan, frozenset(inner.on)) for inner in inners))
            return LogicalSemiJoin(
                _pruned(input_, asked), tuple(Inner(_pruned(inner.plan, frozenset()), inner.on) for inner in inners), kept
            )
        case LogicalOptional(input_, inner, binds):
            inside = frozenset(column for column in wanted if column[0] in binds)
            asked = (wanted - inside) | _asked_of_argument(inner.plan, frozenset(inner.on))
            return LogicalOptional(_pruned(input_, asked), Inner(_pruned(inner.plan, inside), inner.on), binds)
        case LogicalPaths(input_, link):
            assert link.path is not None
            below = _pruned(input_, frozenset(column for column in wanted if column[0] != link.path))
            columns = _columns(wanted, link.path)
            return LogicalPaths(below, link, columns) if columns else below
        case LogicalRank():
            # A ranking reads its property itself: with an index it need not.
            return msgspec.structs.replace(plan, input=_pruned(plan.input, wanted))
        case LogicalFetch():
            raise AssertionError("columns are pruned once")
        case LogicalAggregate(input_, outputs):
            fields = (field for output in outputs for field in output_fields(output))
            return msgspec.structs.replace(plan, input=_pruned(input_, _wanted(fields)))
        case LogicalProject(input_, outputs):
            return LogicalProject(_pruned(input_, _wanted(field for output in outputs for field in expr_fields(output))), outputs)
        case LogicalDistinct(input_):
            return LogicalDistinct(_pruned(input_, wanted))
        case LogicalOrder(input_, keys, ties):
            return LogicalOrder(_pruned(input_, wanted | _wanted(field for key in keys for field in expr_fields(key.key))), keys, ties)
        case LogicalLimit():
            return _limit(plan, wanted)
        case _:
            assert_never(plan)


def _limit(plan: LogicalLimit, wanted: Wanted) -> LogicalPlan:
    if isinstance(plan.input, LogicalScan) or plan.count is None:
        return msgspec.structs.replace(plan, input=_pruned(plan.input, wanted))
    paths = _paths(plan.input)
    below = _pruned(plan.input, frozenset(column for column in wanted if column[0] in paths))
    return _fetched(msgspec.structs.replace(plan, input=below), wanted - delivered(below))


def _paths(plan: LogicalPlan) -> frozenset[int]:
    """The bindings of paths, whose columns exist only from the operator that finds them."""
    match plan:
        case LogicalPaths(input_, link):
            assert link.path is not None
            return _paths(input_) | {link.path}
        case LogicalOptional(input_, inner):
            return _paths(input_) | _paths(inner.plan)
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return _paths(left) | _paths(right)
        case LogicalScan() | LogicalArgument() | LogicalPattern() | LogicalEmpty():
            return frozenset()
        case _:
            return _paths(plan.input)


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
    return frozenset((field.binding, field.column) for field in fields if not field.whole and field.column != TYPE)


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
        case LogicalOptional(input_, inner, binds):
            return delivered(input_) | {column for column in delivered(inner.plan) if column[0] in binds}
        case LogicalPaths(input_, link, columns):
            assert link.path is not None
            return delivered(input_) | {(link.path, column) for column in columns}
        case LogicalFilter() | LogicalSemiJoin() | LogicalRank() | LogicalDistinct() | LogicalOrder() | LogicalLimit():
            return delivered(plan.input)
        case _:
            assert_never(plan)


def _of_edge(link: Link) -> Wanted:
    return frozenset() if link.edge_binding is None else frozenset((link.edge_binding, column) for column in link.columns)


def _asked_of_argument(plan: LogicalPlan, on: frozenset[int]) -> Wanted:
    """The columns of outer bindings that the inside of a block reads."""
    match plan:
        case LogicalFilter(input_, where):
            here = _wanted(field for predicate in where for field in fields_of(predicate) if field.binding in on)
            return here | _asked_of_argument(input_, on)
        case LogicalSemiJoin(input_, inners):
            return _asked_of_argument(input_, on).union(*(_asked_of_argument(inner.plan, on) for inner in inners))
        case LogicalOptional(input_, inner):
            return _asked_of_argument(input_, on) | _asked_of_argument(inner.plan, on)
        case LogicalCrossProduct(left, right):
            return _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case LogicalJoin(left, right, pairs):
            here = _wanted(field for pair in pairs for field in pair if field.binding in on)
            return here | _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case LogicalExpand(input_) | LogicalConnect(input_) | LogicalPaths(input_):
            return _asked_of_argument(input_, on)
        case LogicalScan() | LogicalArgument() | LogicalEmpty():
            return frozenset()
        case (
            LogicalPattern()
            | LogicalRank()
            | LogicalFetch()
            | LogicalAggregate()
            | LogicalProject()
            | LogicalDistinct()
            | LogicalOrder()
            | LogicalLimit()
        ):
            raise AssertionError("a block is matched, not ranked, grouped or ordered")
        case _:
            assert_never(plan)
