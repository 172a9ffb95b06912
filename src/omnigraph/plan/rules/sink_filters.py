"""Predicates about several bindings, and negations, move down to where the last binding they need is bound."""

from __future__ import annotations

import msgspec

from omnigraph.plan.ir import AntiJoin, Connect, CrossProduct, Expand, Filter, Plan, Predicate, bound_by, map_inputs, reads_bindings
from omnigraph.plan.statistics import Statistics


def sink_filters(plan: Plan, statistics: Statistics) -> Plan:
    plan = map_inputs(plan, lambda input_: sink_filters(input_, statistics))
    match plan:
        case Filter(input_, where):
            for predicate in where:
                input_ = _filtered(input_, predicate, reads_bindings(predicate))
            return input_
        case AntiJoin(input_, inner, on):
            return _negated(input_, inner, on)
        case _:
            return plan


def _filtered(plan: Plan, predicate: Predicate, needed: frozenset[int]) -> Plan:
    match plan:
        case Expand() | Connect() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_filtered(plan.input, predicate, needed))
        case CrossProduct(left, right) if needed <= bound_by(left):
            return CrossProduct(_filtered(left, predicate, needed), right)
        case CrossProduct(left, right) if needed <= bound_by(right):
            return CrossProduct(left, _filtered(right, predicate, needed))
        case Filter(input_, where):
            return Filter(input_, (*where, predicate))
        case _:
            return Filter(plan, (predicate,))


def _negated(plan: Plan, inner: Plan, on: tuple[int, ...]) -> Plan:
    needed = frozenset(on)
    match plan:
        case Expand() | Connect() if needed <= bound_by(plan.input):
            return msgspec.structs.replace(plan, input=_negated(plan.input, inner, on))
        case CrossProduct(left, right) if needed <= bound_by(left):
            return CrossProduct(_negated(left, inner, on), right)
        case CrossProduct(left, right) if needed <= bound_by(right):
            return CrossProduct(left, _negated(right, inner, on))
        case _:
            return AntiJoin(plan, inner, on)
