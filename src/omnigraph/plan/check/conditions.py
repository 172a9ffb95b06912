"""Conditions of a match or of a `where` -> typed tests, with the type errors of their operands."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.types import NUMBERS, ListOf, Plain, ValueType, VectorOf, scalar_of
from omnigraph.lang.query import (
    Comparison,
    Conjunction,
    Containment,
    Disjunction,
    Filter,
    Fuzzy,
    Inversion,
    ListLiteral,
    ListTest,
    MatchText,
    NullTest,
    Search,
    Truth,
    Variable,
)
from omnigraph.lang.query import Condition as ConditionTree
from omnigraph.lang.query import Expr as ExprTree
from omnigraph.lang.tree import Scalar, Syntax
from omnigraph.plan.check.expressions import any_entity, is_entity, pair, path_field, text_search, typed, what_is
from omnigraph.plan.check.literals import constant, require_u64
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import BOOL, STRING, TRUE, Constant
from omnigraph.plan.type_codes import Code, refused
from omnigraph.plan.typed import AllOf, AnyOf, Condition, Expr, InList, IsNull, Not, Operand, Test, TextSearch, is_late, type_of
from omnigraph.plan.values import compatible, described


def typed_test(tree: ConditionTree, scope: Scope) -> Test:
    match tree:
        case Filter():
            return _filter(tree, scope)
        case ListTest():
            found = InList(*_list_test(tree, scope))
            return Not(found) if tree.negated else found
        case NullTest():
            null = IsNull(_null_operand(tree.value, scope))
            return Not(null) if tree.negated else null
        case Truth(value):
            return _truth(value, scope)
        case Search() | MatchText() | Fuzzy():
            return Condition(text_search(tree, scope), Comparison.EQ, TRUE)
        case Conjunction(terms):
            return AllOf(tuple(typed_test(term, scope) for term in terms))
        case Disjunction(terms):
            return AnyOf(tuple(typed_test(term, scope) for term in terms))
        case Inversion(term):
            return Not(typed_test(term, scope))
        case _:
            assert_never(tree)


def _truth(value: ExprTree, scope: Scope) -> Condition:
    expr = typed(value, scope, BOOL)
    if is_entity(expr) or type_of(expr) != BOOL:
        hint = "compare it with a value, or test `is not null`"
        raise refused(Code.CONDITION, f"a condition must be a Bool, and this is {what_is(expr)}", value, hint=hint)
    return Condition(expr, Comparison.EQ, TRUE)


# comparisons


def _filter(tree: Filter, scope: Scope) -> Condition:
    match tree.operator:
        case Comparison():
            left, right = pair(tree.left, tree.right, scope)
        case Containment.STARTS_WITH | Containment.ENDS_WITH:
            left, right = typed(tree.left, scope, STRING), typed(tree.right, scope, STRING)
        case Containment.CONTAINS:
            left = typed(tree.left, scope, STRING)
            item = type_of(left)
            right = typed(tree.right, scope, Plain(item.item) if isinstance(item, ListOf) else STRING)
        case _:
            assert_never(tree.operator)
    for side, at in ((left, tree.left), (right, tree.right)):
        _refuse_late(side, at)
    match tree.operator:
        case Comparison():
            # In a `where` two lists may be compared, as they always could; no list equals another.
            if scope.row is None or not _are_lists(type_of(left), type_of(right)):
                _check_comparison(left, right, tree)
        case Containment.CONTAINS:
            _check_contains(left, right, tree)
        case Containment.STARTS_WITH | Containment.ENDS_WITH:
            if comparable(left) is not Scalar.STRING or comparable(right) is not Scalar.STRING:
                raise _operands(tree, left, right)
        case _:
            assert_never(tree.operator)
    for side, other, at in ((left, right, tree.left), (right, left, tree.right)):
        if isinstance(side, Constant):
            require_u64(side, type_of(other), at, Code.OPERANDS)
    return Condition(left, tree.operator, right)


def _are_lists(left: ValueType, right: ValueType) -> bool:
    if isinstance(left, VectorOf) and isinstance(right, ListOf):
        return right.item in NUMBERS
    return isinstance(left, ListOf | VectorOf) and compatible(left, right)


def _refuse_late(expr: Expr, at: Syntax) -> None:
    if is_late(expr):
        raise refused(None, "unsupported expression in filter", at, hint="scores and aggregates exist only after the match")


def _check_comparison(left: Expr, right: Expr, tree: Filter) -> None:
    for side, at in ((left, tree.left), (right, tree.right)):
        if comparable(side) in (None, Scalar.BLOB):
            raise refused(Code.OPERANDS, f"{what_is(side)} cannot be compared with `{tree.operator}`", at)
    if not compatible(type_of(left), type_of(right)):
        raise _operands(tree, left, right)


def _check_contains(left: Expr, right: Expr, tree: Filter) -> None:
    match type_of(left):
        case ListOf(item):
            fits = comparable(right) is not None and compatible(Plain(item), type_of(right))
        case _:
            fits = comparable(left) is Scalar.STRING and comparable(right) is Scalar.STRING
    empty = isinstance(left, Constant) and left.value == ()
    if not fits and not (empty and comparable(right) is not None):
        raise _operands(tree, left, right)


def _operands(tree: Filter, left: Expr, right: Expr) -> Exception:
    return refused(Code.OPERANDS, f"`{tree.operator}` does not apply to {what_is(left)} and {what_is(right)}", tree)


def comparable(expr: Expr) -> Scalar | None:
    """The scalar that an operand can be compared by; a node, a list and a vector have none."""
    return None if is_entity(expr) else scalar_of(type_of(expr))


# lists and nulls


def _list_test(tree: ListTest, scope: Scope) -> tuple[Expr, Operand]:
    if isinstance(tree.options, ListLiteral):
        options: Operand = constant(tree.options)
        listed = type_of(options)
        assert isinstance(listed, ListOf)
        item = _item(tree, scope, expected=Plain(listed.item) if tree.options.items else None)
        assert isinstance(options, Constant)
        if tree.options.items:
            require_u64(options, type_of(item), tree.options, Code.OPERANDS)
    else:
        item = _item(tree, scope, expected=None)
        options = _list_parameter(tree.options, type_of(item), scope)
        listed = type_of(options)
    empty = isinstance(options, Constant) and options.value == ()
    if not empty and not (isinstance(listed, ListOf) and compatible(Plain(listed.item), type_of(item))):
        raise refused(Code.OPERANDS, f"`in` does not apply to {what_is(item)} and {described(listed)}", tree)
    return item, options


def _item(tree: ListTest, scope: Scope, *, expected: ValueType | None) -> Expr:
    item = typed(tree.item, scope, expected)
    _refuse_late(item, tree.item)
    if comparable(item) in (None, Scalar.BLOB) or isinstance(item, TextSearch):
        raise refused(Code.OPERANDS, f"{what_is(item)} cannot be looked up in a list", tree.item)
    return item


def _list_parameter(options: Variable, item: ValueType, scope: Scope) -> Operand:
    scalar = scalar_of(item)
    parameter = scope.parameter(options, None if scalar is None else ListOf(scalar))
    if parameter is None:
        hint = "`in` takes a list of literals or a list parameter: `in [1, 2]`, `in $values`"
        raise refused(Code.PARAMETER, f"`{options}` is not a declared parameter", options, hint=hint)
    return parameter


def _null_operand(value: ExprTree, scope: Scope) -> Expr:
    """Anything that may be null, a whole entity and a path included."""
    if isinstance(value, Variable):
        entity = any_entity(value, scope) or path_field(value, scope)
        if entity is not None:
            return entity
    expr = typed(value, scope)
    _refuse_late(expr, value)
    if isinstance(expr, TextSearch):
        raise refused(Code.CONDITION, "a text search is no value that could be null", value)
    return expr
