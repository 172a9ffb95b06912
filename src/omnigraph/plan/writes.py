"""Typed mutation + bound parameters + the query's instant -> the statements to run, every value as its column holds it."""

from __future__ import annotations

from typing import assert_never

import msgspec

from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.plan import typed
from omnigraph.plan.expr import Constant, TypeRef, Value, type_ref
from omnigraph.plan.ir import Predicate
from omnigraph.plan.lowering import Filler, predicate
from omnigraph.plan.params import Bindings
from omnigraph.plan.rules.fold_constants import fold
from omnigraph.plan.rules.type_literals import typed_predicate
from omnigraph.plan.values import stored


class _Write(msgspec.Struct, frozen=True, tag=True, tag_field="write"):
    pass


class InsertNode(_Write, frozen=True):
    """Properties that are not among `values` become null. A node with an existing key is replaced as a whole."""

    type: TypeRef
    values: dict[str, Value]


class InsertEdge(_Write, frozen=True):
    """`source` and `target` are ids of nodes."""

    type: TypeRef
    source: str
    target: str
    values: dict[str, Value]


class UpdateRows(_Write, frozen=True):
    """In `where` the row is binding `ROW`."""

    type: TypeRef
    values: dict[str, Value]
    where: Predicate


class Cascade(_Write, frozen=True):
    """Edges that are deleted with a node: outgoing ones, incoming ones, or both."""

    type: TypeRef
    at_source: bool
    at_target: bool


class DeleteNodes(_Write, frozen=True):
    """Delete the nodes for which `where` is true, and their edges. A row for which `where` is unknown is kept."""

    type: TypeRef
    where: Predicate
    cascades: tuple[Cascade, ...]


class DeleteEdges(_Write, frozen=True):
    """The ends of an edge are the columns `src` and `dst` of binding `ROW`."""

    type: TypeRef
    where: Predicate


Write = InsertNode | InsertEdge | UpdateRows | DeleteNodes | DeleteEdges


class MutationPlan(_Write, frozen=True):
    """The statements of a mutation in order: inserts and updates, or deletes, never both."""

    name: str
    statements: tuple[Write, ...]


def plan_mutation(mutation: typed.TypedMutation, parameters: Bindings, *, now_ms: int) -> MutationPlan:
    """Fill a checked mutation. `now_ms` is the value of `now()` in every statement."""
    filler = Filler(parameters, now_ms)
    return MutationPlan(mutation.name, tuple(_write(statement, filler) for statement in mutation.statements))


def _write(statement: typed.Statement, filler: Filler) -> Write:
    match statement:
        case typed.InsertNode(node, values):
            key = () if node.key is None else node.key.columns
            return InsertNode(type_ref(node), _values(values, filler, key=key))
        case typed.InsertEdge(edge, source, target, values):
            ends = _endpoint(source, "from", filler), _endpoint(target, "to", filler)
            return InsertEdge(type_ref(edge), *ends, _values(values, filler))
        case typed.UpdateRows(entity, values, where):
            return UpdateRows(type_ref(entity), _values(values, filler), _where(where, filler))
        case typed.DeleteNodes(node, where, cascades):
            ends_of = tuple(Cascade(type_ref(edge), edge.source == node.name, edge.target == node.name) for edge in cascades)
            return DeleteNodes(type_ref(node), _where(where, filler), ends_of)
        case typed.DeleteEdges(edge, where):
            return DeleteEdges(type_ref(edge), _where(where, filler))
        case typed.MatchedChanges():
            raise Unsupported(Kind.UNSUPPORTED, "changes after a match cannot be run yet")
        case _:
            assert_never(statement)


def _where(test: typed.Test, filler: Filler) -> Predicate:
    return fold(typed_predicate(predicate(test, filler)))


def _constant(expr: typed.Expr, filler: Filler) -> Value:
    filled = filler.expr(expr)
    if not isinstance(filled, Constant):
        raise Unsupported(Kind.UNSUPPORTED, "values that depend on the row cannot be written yet")
    return filled.value


def _endpoint(expr: typed.Expr, end: str, filler: Filler) -> str:
    value = _constant(expr, filler)
    if not isinstance(value, str):
        raise InvalidInput(Kind.VALIDATION, f"edge endpoint '{end}' cannot be null", property=end)
    return value


def _values(values: tuple[typed.PropertyValue, ...], filler: Filler, *, key: tuple[str, ...] = ()) -> dict[str, Value]:
    return {assigned.property: _value(assigned, filler, key) for assigned in values}


def _value(assigned: typed.PropertyValue, filler: Filler, key: tuple[str, ...]) -> Value:
    name = assigned.property
    given = _constant(assigned.value, filler)
    if given is None and name in key:
        raise InvalidInput(Kind.VALIDATION, f"insert @key property '{name}' cannot contain null", property=name)
    if given is None and not assigned.nullable:
        raise InvalidInput(Kind.VALIDATION, f"non-nullable property '{name}' has null or invalid values", property=name)
    try:
        return stored(given, assigned.type)
    except ValueError as error:
        raise InvalidInput(Kind.VALIDATION, f"{error} (property '{name}')", property=name) from None
