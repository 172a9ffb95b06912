"""Only the columns somebody above needs are read, and those only needed after a limit are read after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.plan.expr import Field
from omnigraph.plan.ir import (
    Aggregate,
    AntiJoin,
    Argument,
    Call,
    Cell,
    Connect,
    CrossProduct,
    Empty,
    Expand,
    Fetch,
    Filter,
    Join,
    Limit,
    Link,
    Order,
    Pattern,
    Plan,
    Project,
    Rank,
    Read,
    Scan,
    expr_fields,
    fields_of,
)
from omnigraph.plan.statistics import Statistics

Wanted = frozenset[tuple[int, str]]
"""Columns by binding. The id of a bound entity is always at hand and never asked for."""


def prune_columns(plan: Plan, statistics: Statistics) -> Plan:
    del statistics
    return _pruned(plan, frozenset())


def _pruned(plan: Plan, wanted: Wanted) -> Plan:
    """The plan, reading what it needs itself and delivering `wanted` above it."""
    match plan:
        case Scan(binding=binding):
            return msgspec.structs.replace(plan, columns=_columns(wanted, binding))
        case Argument() | Empty():
            return plan
        case Pattern():
            raise AssertionError("joins are ordered before columns are pruned")
        case Expand():
            return _expand(plan, wanted)
        case Connect(input_, link):
            return Connect(_pruned(input_, wanted), _link(link, wanted))
        case CrossProduct(left, right):
            return CrossProduct(_pruned(left, wanted), _pruned(right, wanted))
        case Join(left, right, on):
            needed = wanted | _wanted(field for pair in on for field in pair)
            return Join(_pruned(left, needed), _pruned(right, needed), on)
        case Filter(input_, where):
            return Filter(_pruned(input_, wanted | _wanted(field for predicate in where for field in fields_of(predicate))), where)
        case AntiJoin(input_, inner, on):
            return AntiJoin(_pruned(input_, wanted | _asked_of_argument(inner, frozenset(on))), _pruned(inner, frozenset()), on)
        case Rank():
            # A ranking reads the property it ranks by itself: an index may spare it.
            return msgspec.structs.replace(plan, input=_pruned(plan.input, wanted))
        case Fetch():
            raise AssertionError("columns are pruned once")
        case Aggregate(input_, outputs):
            fields = (expr_fields(output.argument) if isinstance(output, Call) else (output,) for output in outputs)
            return Aggregate(_pruned(input_, _wanted(field for group in fields for field in group)), outputs)
        case Project(input_, outputs):
            return Project(_pruned(input_, _wanted(field for output in outputs for field in expr_fields(output))), outputs)
        case Order(input_, keys, ties):
            fields = (() if isinstance(key.key, Cell) else expr_fields(key.key) for key in keys)
            return Order(_pruned(input_, wanted | _wanted(field for group in fields for field in group)), keys, ties)
        case Limit(input_, count):
            return _limit(input_, count, wanted)
        case _:
            assert_never(plan)


def _limit(input_: Plan, count: int, wanted: Wanted) -> Plan:
    if isinstance(input_, Scan):
        return Limit(_pruned(input_, wanted), count)
    below = _pruned(input_, frozenset())
    return _fetched(Limit(below, count), wanted - delivered(below))


def _expand(plan: Expand, wanted: Wanted) -> Plan:
    link, target = _link(plan.link, wanted), plan.target
    here = _columns(wanted, target.binding)
    below = _pruned(plan.input, wanted)
    if target.where:
        # Its rows are looked at anyway.
        return Expand(below, link, plan.from_left, msgspec.structs.replace(target, columns=here))
    expanded = Expand(below, link, plan.from_left, target)
    return Fetch(expanded, (Read(target.binding, here),)) if here else expanded


def _link(link: Link, wanted: Wanted) -> Link:
    if link.edge_binding is None:
        return link
    return msgspec.structs.replace(link, columns=_columns(wanted, link.edge_binding))


def _fetched(plan: Plan, wanted: Wanted) -> Plan:
    if not wanted:
        return plan
    bindings = sorted({binding for binding, _ in wanted})
    return Fetch(plan, tuple(Read(binding, _columns(wanted, binding)) for binding in bindings))


def _columns(wanted: Wanted, binding: int) -> tuple[str, ...]:
    return tuple(sorted(column for owner, column in wanted if owner == binding))


def _wanted(fields: Iterable[Field]) -> Wanted:
    return frozenset((field.binding, field.column) for field in fields if not field.whole)


def delivered(plan: Plan) -> Wanted:
    """Every column that rows of this plan carry."""
    match plan:
        case Scan(binding=binding, columns=columns):
            return frozenset((binding, column) for column in columns)
        case Argument() | Pattern() | Empty() | Aggregate() | Project():
            return frozenset()
        case Expand(input_, link, _, target):
            return delivered(input_) | _of_edge(link) | delivered(target)
        case Connect(input_, link):
            return delivered(input_) | _of_edge(link)
        case CrossProduct(left, right) | Join(left, right):
            return delivered(left) | delivered(right)
        case Fetch(input_, reads):
            return delivered(input_) | {(read.binding, column) for read in reads for column in read.columns}
        case Filter() | AntiJoin() | Rank() | Order() | Limit():
            return delivered(plan.input)
        case _:
            assert_never(plan)


def _of_edge(link: Link) -> Wanted:
    return frozenset() if link.edge_binding is None else frozenset((link.edge_binding, column) for column in link.columns)


def _asked_of_argument(plan: Plan, on: frozenset[int]) -> Wanted:
    """The columns of outer bindings that the inside of a negation reads."""
    match plan:
        case Filter(input_, where):
            here = _wanted(field for predicate in where for field in fields_of(predicate) if field.binding in on)
            return here | _asked_of_argument(input_, on)
        case AntiJoin(input_, inner):
            return _asked_of_argument(input_, on) | _asked_of_argument(inner, on)
        case CrossProduct(left, right):
            return _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case Join(left, right, pairs):
            here = _wanted(field for pair in pairs for field in pair if field.binding in on)
            return here | _asked_of_argument(left, on) | _asked_of_argument(right, on)
        case Expand(input_) | Connect(input_):
            return _asked_of_argument(input_, on)
        case Scan() | Argument() | Empty():
            return frozenset()
        case Pattern() | Rank() | Fetch() | Aggregate() | Project() | Order() | Limit():
            raise AssertionError("a negation is matched, not ranked, grouped or ordered")
        case _:
            assert_never(plan)
