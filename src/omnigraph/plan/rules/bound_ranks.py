"""A ranking that only serves `order .. limit k` over one scan scores only the k best entities."""

from __future__ import annotations

from typing import Final

import msgspec

from omnigraph.plan.ir import (
    Fusion,
    LogicalAggregate,
    LogicalDistinct,
    LogicalLimit,
    LogicalOrder,
    LogicalPlan,
    LogicalProject,
    LogicalRank,
    LogicalScan,
    Nearest,
    Score,
    map_inputs,
)
from omnigraph.plan.statistics import Statistics

_AFTER_MATCH: Final = (LogicalLimit, LogicalOrder, LogicalProject, LogicalAggregate, LogicalDistinct)
"""The operators that an order with a limit may stand under."""


def bound_ranks(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    if not isinstance(plan, _AFTER_MATCH):
        return plan
    plan = map_inputs(plan, lambda input_: bound_ranks(input_, statistics))
    if isinstance(plan, LogicalLimit) and isinstance(plan.input, LogicalOrder):
        order = plan.input
        ranked = order.input
        if isinstance(ranked, LogicalRank) and plan.count is not None and _serves(order, ranked):
            best = msgspec.structs.replace(ranked, top=plan.count + plan.skip)
            return msgspec.structs.replace(plan, input=msgspec.structs.replace(order, input=best))
    return plan


def _serves(order: LogicalOrder, ranked: LogicalRank) -> bool:
    """One row per entity, nothing dropped later, and the best come first."""
    if (
        isinstance(ranked.ranking, Fusion)
        or not isinstance(ranked.input, LogicalScan)
        or len(order.keys) != 1
        or not ranked.only_candidates
    ):
        return False
    best_first = order.keys[0].descending is not isinstance(ranked.ranking, Nearest)
    return best_first and order.keys[0].key == Score(ranked.slot)
