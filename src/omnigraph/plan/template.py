"""A typed read and the values of one call -> a plan for all calls, in which the values of others take their places. Pure.

Planning costs more than a small query, and calls of one text mostly differ in the values of their parameters. A template is made only of a
read whose plan has the same operators whatever the values are: each parameter is compared with a property of its own type, or is what a
search looks for. Elsewhere a value can change the plan: a limit, a list, a side of `or`, a number of another type, `now()`, a null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from omnigraph.catalog.types import scalar_of
from omnigraph.lang.query import Comparison, Containment
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir, ops, typed
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.lowering import lower, nearest_query
from omnigraph.plan.params import Bindings
from omnigraph.plan.planner import plan_logical
from omnigraph.plan.statistics import Statistics
from omnigraph.plan.typed import Parameter


class Slot(msgspec.Struct, frozen=True):
    """The place of a parameter's value in a plan: the names of fields and the positions in tuples that lead to it."""

    path: tuple[str | int, ...]
    parameter: str


class PlanTemplate(msgspec.Struct, frozen=True):
    """A plan, and the places of the values in it."""

    plan: ops.ReadPlan
    slots: tuple[Slot, ...]

    def filled(self, parameters: Bindings) -> ops.ReadPlan:
        """The plan of a call with these values, none of them null."""
        plan = self.plan
        for slot in self.slots:
            plan = _replaced(plan, slot.path, 0, parameters[slot.parameter])
        return plan


def plan_template(read: typed.TypedRead, parameters: Bindings, statistics: Statistics) -> PlanTemplate:
    """The template of a read for which `same_plan_for_all` holds. The values, none of them null, are those of any call."""
    plan = plan_logical(lower(read, parameters, now_ms=0, marked=True), statistics)
    return PlanTemplate(plan, tuple(_slots(plan, ())))


def same_plan_for_all(read: typed.TypedRead) -> bool:
    """Whether all values that are not null lead to the same operators."""
    if isinstance(read.limit, Parameter) or isinstance(read.skip, Parameter):
        return False
    keys = (key.key for key in read.order if not isinstance(key.key, typed.OutputKey | typed.UnsupportedOrder))
    return all(_fixed(expr) for expr in (*(output.expr for output in read.outputs), *keys)) and _fixed_block(read.block)


def _fixed_block(block: typed.Block) -> bool:
    for part in block.parts:
        match part:
            case typed.Pattern(conditions=conditions, tests=tests):
                inner = (inside for test in tests for inside in test.blocks)
                if not (all(map(_fixed_test, conditions)) and all(map(_fixed_block, inner))):
                    return False
            case typed.OptionalBlock(inside):
                if not _fixed_block(inside):
                    return False
            case _:
                assert_never(part)
    return True


def _fixed_test(test: typed.Test) -> bool:
    match test:
        case typed.Condition(Field() as field, operator, Parameter() as parameter):
            return _alike(field, operator, parameter)
        case typed.Condition(Parameter() as parameter, Comparison() as operator, Field() as field):
            return _alike(field, operator, parameter)
        case typed.AllOf(terms):
            return all(map(_fixed_test, terms))
        case typed.Not(term):
            return _fixed_test(term)
        case typed.Condition() | typed.InList() | typed.IsNull() | typed.AnyOf():
            return all(map(_fixed, typed.exprs_of(test)))
        case _:
            assert_never(test)


def _alike(field: Field, operator: Comparison | Containment, parameter: Parameter) -> bool:
    """Whether a property is compared with a value of its own type, or a text with a text."""
    texts = scalar_of(field.type) is Scalar.STRING and scalar_of(parameter.type) is Scalar.STRING
    return texts or (isinstance(operator, Comparison) and field.type == parameter.type and scalar_of(field.type) is not None)


def _fixed(expr: typed.Expr) -> bool:
    match expr:
        case Parameter() | typed.NowCall():
            return False
        case typed.TextSearch(query=query, max_edits=edits):
            return not isinstance(query, typed.NowCall) and (edits is None or isinstance(edits, Constant))
        case typed.RrfScore(k=k):
            return k is None or isinstance(k, Constant)
        case _:
            return all(map(_fixed, typed.parts_of(expr)))


def _slots(node: object, path: tuple[str | int, ...]) -> Iterator[Slot]:
    match node:
        case Constant() | ir.TextMatch() | ir.Nearest() | ir.Bm25():
            if node.parameter is not None:
                yield Slot(path, node.parameter)
        case tuple():
            for at, each in enumerate(node):
                yield from _slots(each, (*path, at))
        case msgspec.Struct():
            for name in node.__struct_fields__:
                yield from _slots(getattr(node, name), (*path, name))


def _replaced(node: Any, path: tuple[str | int, ...], depth: int, value: Any) -> Any:
    """The node with a value at the end of a path."""
    if depth == len(path):
        return _with_value(node, value)
    step = path[depth]
    if isinstance(step, int):
        return (*node[:step], _replaced(node[step], path, depth + 1, value), *node[step + 1 :])
    return msgspec.structs.replace(node, **{step: _replaced(getattr(node, step), path, depth + 1, value)})


def _with_value(node: Constant | ir.TextMatch | ir.Nearest | ir.Bm25, value: Any) -> Constant | ir.TextMatch | ir.Nearest | ir.Bm25:
    match node:
        case Constant(type_):
            return Constant(type_, value)
        case ir.TextMatch(mode, field, _, edits):
            return ir.TextMatch(mode, field, value, edits)
        case ir.Nearest(field):
            return ir.Nearest(field, nearest_query(value))
        case ir.Bm25(field):
            return ir.Bm25(field, value)
        case _:
            assert_never(node)
