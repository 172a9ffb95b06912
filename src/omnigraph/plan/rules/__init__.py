"""Rewrites of logical plans. None changes an answer; `RULES` is the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.plan.ir import LogicalPlan
from omnigraph.plan.rules.bound_ranks import bound_ranks
from omnigraph.plan.rules.fold_constants import fold_constants
from omnigraph.plan.rules.join_equals import join_equals
from omnigraph.plan.rules.order_joins import order_joins
from omnigraph.plan.rules.prune_columns import prune_columns
from omnigraph.plan.rules.push_filters import push_filters
from omnigraph.plan.rules.sink_filters import sink_filters
from omnigraph.plan.rules.type_literals import type_literals
from omnigraph.plan.statistics import Statistics

Rule = Callable[[LogicalPlan, Statistics], LogicalPlan]

RULES: Final[tuple[Rule, ...]] = (
    type_literals,
    fold_constants,
    push_filters,
    order_joins,
    sink_filters,
    join_equals,
    bound_ranks,
    prune_columns,
)


def optimize(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    """The plan after every rule."""
    for rule in RULES:
        plan = rule(plan, statistics)
    return plan
