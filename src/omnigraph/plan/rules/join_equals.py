"""An equality between two sides of a cross product makes it a join: pairs are found by a hash join, not by comparing all."""

from __future__ import annotations

from omnigraph.catalog.types import FLOATS, scalar_of
from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import Field
from omnigraph.plan.ir import Compare, LogicalCrossProduct, LogicalFilter, LogicalJoin, LogicalPlan, Predicate, bound_by, map_inputs
from omnigraph.plan.statistics import Statistics


def join_equals(plan: LogicalPlan, statistics: Statistics) -> LogicalPlan:
    plan = map_inputs(plan, lambda input_: join_equals(input_, statistics))
    if not isinstance(plan, LogicalFilter) or not isinstance(plan.input, LogicalCrossProduct):
        return plan
    product = plan.input
    left = bound_by(product.left)
    pairs: list[tuple[Field, Field]] = []
    kept: list[Predicate] = []
    for predicate in plan.where:
        pair = _equal_fields(predicate)
        if pair is None or (pair[0].binding in left) is (pair[1].binding in left):
            kept.append(predicate)
        else:
            pairs.append(pair if pair[0].binding in left else pair[::-1])
    if not pairs:
        return plan
    joined = LogicalJoin(product.left, product.right, tuple(pairs))
    return LogicalFilter(joined, tuple(kept)) if kept else joined


def _equal_fields(predicate: Predicate) -> tuple[Field, Field] | None:
    """Two fields of one scalar type. Numbers of two types, and the two zeros of floats, stay a comparison by value."""
    match predicate:
        case Compare(Field() as left, Comparison.EQ, Field() as right):
            scalar = scalar_of(left.type)
            same = scalar is not None and scalar is scalar_of(right.type) and scalar not in FLOATS
            return (left, right) if same else None
        case _:
            return None
