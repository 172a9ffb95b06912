"""Typed mutation + bound parameters + the query's instant -> the statements to run, constants as their columns hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.catalog.model import EdgeType, InterfaceType, NodeType
from omnigraph.catalog.types import ListOf
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.query import Insertion
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir, typed
from omnigraph.plan.expr import ID, STRING, TRUE, TYPE, Constant, Field, TypeRef, type_ref, whole
from omnigraph.plan.ir import Expr, Predicate
from omnigraph.plan.lowering import Filler, bindings_of, match_plan, predicate
from omnigraph.plan.params import Bindings
from omnigraph.plan.rules.fold_constants import fold
from omnigraph.plan.rules.type_literals import typed_predicate
from omnigraph.plan.typed import ROW
from omnigraph.plan.values import stored

Values = dict[str, Expr]
"""New values by property. A constant is a value of the property's own type. Fields of binding `ROW` are of the row before the change."""


class _Write(msgspec.Struct, frozen=True, tag=True, tag_field="write"):
    pass


class InsertNode(_Write, frozen=True):
    """`insert` replaces a node with the same key as a whole, `create` refuses it, `upsert` keeps the properties that it does not name.

    `id` is the given identity of a node without a key.
    """

    type: TypeRef
    values: Values
    insertion: Insertion = Insertion.INSERT
    id: Expr | None = None


class InsertEdge(_Write, frozen=True):
    """`source` and `target` are ids of nodes. `create` and `upsert` as for nodes."""

    type: TypeRef
    source: Expr
    target: Expr
    values: Values
    insertion: Insertion = Insertion.INSERT
    id: Expr | None = None


class UpdateRows(_Write, frozen=True):
    """In `where` the row is binding `ROW`. A row for which `where` is unknown is not changed."""

    type: TypeRef
    values: Values
    where: Predicate


class UpdateBound(_Write, frozen=True):
    """Update the entities that a match bound to `slot`. Their properties are fields of that binding."""

    type: TypeRef
    slot: int
    values: Values


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


class DeleteBound(_Write, frozen=True):
    """Delete the entities that a match bound to `slot`, and the edges of deleted nodes."""

    type: TypeRef
    slot: int
    cascades: tuple[Cascade, ...]


Change = InsertNode | InsertEdge | UpdateRows | UpdateBound | DeleteNodes | DeleteEdges | DeleteBound


class MatchedChange(_Write, frozen=True):
    """A change, and the columns whose values identify a combination of the variables that it uses. Without any it is applied once."""

    change: Change
    identity: tuple[Field, ...]


class MatchedChanges(_Write, frozen=True):
    """Each change is applied for each distinct combination of its variables among the rows of a match.

    `read` returns the columns `fields` of every row of the match; `match` is what it was made from.
    """

    match: typed.MatchedChanges
    read: ir.LogicalRead
    fields: tuple[Field, ...]
    changes: tuple[MatchedChange, ...]


Write = InsertNode | InsertEdge | UpdateRows | DeleteNodes | DeleteEdges | MatchedChanges


class MutationPlan(_Write, frozen=True):
    """The statements of a mutation in order: inserts and updates, or deletes, never both."""

    name: str
    statements: tuple[Write, ...]


def plan_mutation(mutation: typed.TypedMutation, parameters: Bindings, *, now_ms: int) -> MutationPlan:
    """Fill a checked mutation. `now_ms` is the value of `now()` in every statement."""
    filler = Filler(parameters, now_ms)
    return MutationPlan(mutation.name, tuple(_write(statement, mutation.name, filler) for statement in mutation.statements))


def _write(statement: typed.Statement, name: str, filler: Filler) -> Write:
    if isinstance(statement, typed.MatchedChanges):
        return _matched(statement, name, filler)
    change = _change(statement, filler)
    assert not isinstance(change, UpdateBound | DeleteBound), "a variable is bound by a match"
    return change


def _change(change: typed.Change, filler: Filler) -> Change:
    match change:
        case typed.InsertNode(node, values, insertion, id_):
            key = () if node.key is None else node.key.columns
            return InsertNode(type_ref(node), _values(values, filler, key=key), insertion, _identity(id_, filler))
        case typed.InsertEdge(edge, source, target, values, insertion, id_):
            ends = _endpoint(source, "from", filler), _endpoint(target, "to", filler)
            return InsertEdge(type_ref(edge), *ends, _values(values, filler), insertion, _identity(id_, filler))
        case typed.UpdateRows(entity, values, where):
            return UpdateRows(type_ref(entity), _values(values, filler), _where(where, filler))
        case typed.UpdateBound(slot, entity, values):
            return UpdateBound(type_ref(entity), slot, _values(values, filler))
        case typed.DeleteNodes(node, where, cascades):
            return DeleteNodes(type_ref(node), _where(where, filler), _cascades(node.name, cascades))
        case typed.DeleteEdges(edge, where):
            return DeleteEdges(type_ref(edge), _where(where, filler))
        case typed.DeleteBound(slot, entity, cascades):
            return DeleteBound(type_ref(entity), slot, _cascades(entity.name, cascades))
        case _:
            assert_never(change)


def _cascades(node: str, edges: tuple[EdgeType, ...]) -> tuple[Cascade, ...]:
    return tuple(Cascade(type_ref(edge), edge.source == node, edge.target == node) for edge in edges)


def _where(test: typed.Test, filler: Filler) -> Predicate:
    return fold(typed_predicate(predicate(test, filler)))


# matches


def _matched(statement: typed.MatchedChanges, name: str, filler: Filler) -> MatchedChanges:
    changes: list[MatchedChange] = []
    fields: dict[tuple[int, str], Field] = {}
    for each in statement.changes:
        change = _change(each, filler)
        read = [field for field in fields_of_change(change) if field.binding != ROW]
        slots = sorted({field.binding for field in read})
        identity = tuple(field for slot in slots for field in _identity_of(slot, statement.variables[slot]))
        fields.update(((field.binding, field.column), field) for field in (*read, *identity))
        changes.append(MatchedChange(change, identity))
    matched = match_plan(statement.block, statement.variables, filler)
    outputs: tuple[Expr, ...] = tuple(fields.values())
    if not outputs:  # no change uses a variable: only whether there is a row matters
        matched, outputs = ir.LogicalLimit(matched, 1), (TRUE,)
    columns = tuple(ir.Column(f"{field.binding}.{field.column}", field.type, nullable=True) for field in fields.values())
    read_ = ir.LogicalRead(name, ir.LogicalProject(matched, outputs), bindings_of(statement.variables), columns)
    return MatchedChanges(statement, read_, tuple(fields.values()), tuple(changes))


def _identity_of(slot: int, variable: typed.BoundVariable) -> tuple[Field, ...]:
    """The columns that tell the values of a variable apart: ids are unique within a type, and a path has none."""
    match variable.type:
        case NodeType() | EdgeType():
            return (whole(slot),)
        case InterfaceType():
            return (whole(slot), Field(slot, TYPE, STRING, nullable=True))
        case typed.PathType():
            return (Field(slot, "nodes", ListOf(Scalar.STRING), nullable=True), Field(slot, "edges", ListOf(Scalar.STRING), nullable=True))
        case _:
            assert_never(variable.type)


def fields_of_change(change: Change) -> Iterable[Field]:
    """Every field that a change reads, and the id of the entity that it is about."""
    match change:
        case InsertNode(_, values, _, id_):
            exprs: tuple[Expr | None, ...] = (*values.values(), id_)
        case InsertEdge(_, source, target, values, _, id_):
            exprs = (source, target, *values.values(), id_)
        case UpdateRows(_, values, where):
            yield from ir.fields_of(where)
            exprs = tuple(values.values())
        case UpdateBound(_, slot, values):
            exprs = (whole(slot), *values.values())
        case DeleteNodes(where=where) | DeleteEdges(where=where):
            yield from ir.fields_of(where)
            exprs = ()
        case DeleteBound(_, slot):
            exprs = (whole(slot),)
        case _:
            assert_never(change)
    for expr in exprs:
        if expr is not None:
            yield from ir.expr_fields(expr)


# values


def _endpoint(expr: typed.Expr, end: str, filler: Filler) -> Expr:
    filled = filler.expr(expr)
    if isinstance(filled, Constant) and filled.value is None:
        raise InvalidInput(Kind.VALIDATION, f"edge endpoint '{end}' cannot be null", property=end)
    return filled


def _identity(expr: typed.Expr | None, filler: Filler) -> Expr | None:
    filled = None if expr is None else filler.expr(expr)
    if isinstance(filled, Constant) and filled.value is None:
        raise InvalidInput(Kind.VALIDATION, f"'{ID}' cannot be null", property=ID)
    return filled


def _values(values: tuple[typed.PropertyValue, ...], filler: Filler, *, key: tuple[str, ...] = ()) -> Values:
    return {assigned.property: _value(assigned, filler, key) for assigned in values}


def _value(assigned: typed.PropertyValue, filler: Filler, key: tuple[str, ...]) -> Expr:
    name = assigned.property
    filled = filler.expr(assigned.value)
    if not isinstance(filled, Constant):
        return filled
    given = filled.value
    if given is None and name in key:
        raise InvalidInput(Kind.VALIDATION, f"insert @key property '{name}' cannot contain null", property=name)
    if given is None and not assigned.nullable:
        raise InvalidInput(Kind.VALIDATION, f"non-nullable property '{name}' has null or invalid values", property=name)
    try:
        return Constant(assigned.type, stored(given, assigned.type))
    except ValueError as error:
        raise InvalidInput(Kind.VALIDATION, f"{error} (property '{name}')", property=name) from None
