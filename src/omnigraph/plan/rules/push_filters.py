"""A predicate about one binding moves into the scan or link that binds it; one about several, or about a type, stays above."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from omnigraph.plan.expr import TYPE
from omnigraph.plan.ir import (
    Link,
    LogicalFilter,
    LogicalPattern,
    LogicalPlan,
    LogicalScan,
    Predicate,
    fields_of,
    map_inputs,
)
from omnigraph.plan.statistics import Statistics


def push_filters(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: push_filters(input_, statistics))
    if isinstance(plan, LogicalFilter) and isinstance(plan.input, LogicalPattern):
        return _pushed(plan.input, plan.where)
    return plan


def _pushed(pattern: LogicalPattern, where: tuple[Predicate, ...]) -> LogicalPlan:
    here = {scan.binding for scan in pattern.scans} | {link.edge_binding for link in pattern.links}
    pushed: dict[int, list[Predicate]] = {}
    kept: list[Predicate] = []
    for predicate in where:
        fields = fields_of(predicate)
        bindings = {field.binding for field in fields}
        # No table has the name of its type as a column.
        if len(bindings) == 1 and bindings <= here and all(field.column != TYPE for field in fields):
            pushed.setdefault(bindings.pop(), []).append(predicate)
        else:
            kept.append(predicate)
    scans = tuple(_with(scan, pushed.get(scan.binding, [])) for scan in pattern.scans)
    links = tuple(link if link.edge_binding is None else _with(link, pushed.get(link.edge_binding, [])) for link in pattern.links)
    plan = LogicalPattern(scans, links, pattern.argument, pattern.input)
    return LogicalFilter(plan, tuple(kept)) if kept else plan


_Tested = TypeVar("_Tested", LogicalScan, Link)


def _with(tested: _Tested, where: list[Predicate]) -> _Tested:
    return tested if not where else msgspec.structs.replace(tested, where=(*tested.where, *where))
