"""Typed mutation + bound parameters + the query's instant -> the statements to run, every value as its column holds it."""

from __future__ import annotations

from typing import assert_never

import msgspec

from omnigraph.errors import InvalidInput, Kind
from omnigraph.plan import typed
from omnigraph.plan.expr import TypeRef, Value, type_ref
from omnigraph.plan.ir import Predicate
from omnigraph.plan.lowering import Filler, predicate
from omnigraph.plan.params import Bindings
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


class UpdateNodes(_Write, frozen=True):
    """In `where` the row is binding 0."""

    type: TypeRef
    values: dict[str, Value]
    where: Predicate


class Cascade(_Write, frozen=True):
    """Edges that are deleted with a node: outgoing ones, incoming ones, or both."""

    type: TypeRef
    at_source: bool
    at_target: bool


class DeleteNodes(_Write, frozen=True):
    """Delete the nodes for which `where` is true, and their edges. A row for which `where` is null is kept."""

    type: TypeRef
    where: Predicate
    cascades: tuple[Cascade, ...]


class DeleteEdges(_Write, frozen=True):
    """The ends of an edge are the columns `src` and `dst` of binding 0."""

    type: TypeRef
    where: Predicate


Write = InsertNode | InsertEdge | UpdateNodes | DeleteNodes | DeleteEdges


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
        case typed.UpdateNodes(node, values, where):
            return UpdateNodes(type_ref(node), _values(values, filler), _where(where, filler))
        case typed.DeleteNodes(node, where, cascades):
            ends_of = tuple(Cascade(type_ref(edge), edge.source == node.name, edge.target == node.name) for edge in cascades)
            return DeleteNodes(type_ref(node), _where(where, filler), ends_of)
        case typed.DeleteEdges(edge, where):
            return DeleteEdges(type_ref(edge), _where(where, filler))
        case _:
            assert_never(statement)


def _where(condition: typed.Condition, filler: Filler) -> Predicate:
    return typed_predicate(predicate(condition, filler))


def _endpoint(operand: typed.Operand, end: str, filler: Filler) -> str:
    value = filler.value(operand).value
    if not isinstance(value, str):
        raise InvalidInput(Kind.VALIDATION, f"edge endpoint '{end}' cannot be null", property=end)
    return value


def _values(values: tuple[typed.PropertyValue, ...], filler: Filler, *, key: tuple[str, ...] = ()) -> dict[str, Value]:
    return {assigned.property: _value(assigned, filler, key) for assigned in values}


def _value(assigned: typed.PropertyValue, filler: Filler, key: tuple[str, ...]) -> Value:
    name = assigned.property
    given = filler.value(assigned.value).value
    if given is None and name in key:
        raise InvalidInput(Kind.VALIDATION, f"insert @key property '{name}' cannot contain null", property=name)
    if given is None and not assigned.nullable:
        raise InvalidInput(Kind.VALIDATION, f"non-nullable property '{name}' has null or invalid values", property=name)
    try:
        return stored(given, assigned.type)
    except ValueError as error:
        raise InvalidInput(Kind.VALIDATION, f"{error} (property '{name}')", property=name) from None
