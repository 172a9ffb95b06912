"""A mutation's tree -> `TypedMutation`: each statement typed, then the rule that inserts and deletes do not mix."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.catalog.types import Plain, ValueType
from omnigraph.lang.query import Assignment, Delete, Insert, Mutation, Now, Predicate, Update, Value, Variable
from omnigraph.lang.query import Statement as StatementTree
from omnigraph.lang.tree import Name, Scalar
from omnigraph.plan.check.literals import fit_literal, stored_literal
from omnigraph.plan.expr import DATETIME, STRING, Field
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import (
    Condition,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    NowCall,
    Operand,
    Parameter,
    PropertyValue,
    Statement,
    TypedMutation,
    UpdateNodes,
)
from omnigraph.plan.values import compatible, described

_BLOB = Plain(Scalar.BLOB)
_ENDS = {"from": "src", "to": "dst"}
"""The names of an edge's ends in a mutation -> their columns."""


def typed_mutation(name: str, parameters: tuple[Parameter, ...], mutation: Mutation, catalog: Catalog) -> TypedMutation:
    checker = _Checker(catalog, parameters)
    statements = tuple(checker.statement(statement) for statement in mutation.statements)
    _check_unmixed(name, mutation)
    return TypedMutation(name, parameters, statements)


def _check_unmixed(name: str, mutation: Mutation) -> None:
    """One query inserts and updates, or deletes: otherwise the rows a delete sees would depend on rows not yet written."""
    deletes = [statement for statement in mutation.statements if isinstance(statement, Delete)]
    if deletes and len(deletes) < len(mutation.statements):
        raise refused(
            Code.MIXED,
            f"mutation '{name}' on the same query mixes inserts/updates and deletes; "
            "split into separate mutations: (1) inserts and updates, then (2) deletes.",
            deletes[0],
        )


class _Checker:
    """Types one statement after another; they share nothing but the catalog and the parameters."""

    def __init__(self, catalog: Catalog, parameters: tuple[Parameter, ...]) -> None:
        self._catalog = catalog
        self._parameters = {parameter.name: parameter for parameter in parameters}

    def statement(self, tree: StatementTree) -> Statement:
        entity = self._entity(tree.type_name)
        match tree, entity:
            case Insert(), NodeType():
                return self._insert_node(tree, entity)
            case Insert(), EdgeType():
                return self._insert_edge(tree, entity)
            case Update(), NodeType():
                return self._update(tree, entity)
            case Update(), EdgeType():
                raise refused(Code.EDGE_UPDATE, f"edge type `{entity.name}` cannot be updated", tree.type_name, hint="delete and insert it")
            case Delete(), NodeType():
                return DeleteNodes(entity, self._where(tree.where, entity), self._catalog.edges_of(entity.name))
            case Delete(), EdgeType():
                return DeleteEdges(entity, self._where(tree.where, entity))
            case _:
                raise AssertionError("every statement is an insert, update or delete of a node or edge type")

    def _entity(self, name: Name) -> EntityType:
        """A node type first, then an edge type, each by its exact name."""
        entity: EntityType | None = self._catalog.node(name.text) or self._catalog.edge_named(name.text)
        if entity is None:
            known = (*self._catalog.nodes, *self._catalog.edges)
            raise refused(
                Code.WRITE_TYPE, f"unknown node or edge type `{name}`", name, hint=nearest_name(name.text, (type_.name for type_ in known))
            )
        return entity

    # inserts and updates

    def _insert_node(self, tree: Insert, node: NodeType) -> InsertNode:
        values = self._assigned(tree.assignments, node)
        self._require(tree, node, {value.property for value in values})
        return InsertNode(node, values)

    def _insert_edge(self, tree: Insert, edge: EdgeType) -> InsertEdge:
        _refuse_twice(tree.assignments)
        ends: dict[str, Operand] = {}
        others: list[Assignment] = []
        for assignment in tree.assignments:
            name = assignment.property.text
            if name in _ENDS:
                ends[name] = self._value(assignment.value, STRING, f"{edge.name}.{name}", stored=True)
            else:
                others.append(assignment)
        values = self._assigned(tuple(others), edge)
        for end in _ENDS:
            if end not in ends:
                raise refused(Code.REQUIRED, f"insert of edge `{edge.name}` misses its endpoint `{end}`", tree)
        self._require(tree, edge, {value.property for value in values})
        return InsertEdge(edge, ends["from"], ends["to"], values)

    def _require(self, tree: Insert, entity: EntityType, assigned: set[str]) -> None:
        for property_ in entity.properties:
            if property_.nullable or property_.name in assigned:
                continue
            source = None if property_.embed is None else property_.embed.source
            if source in assigned:
                continue
            message = f"insert of `{entity.name}` misses required property `{property_.name}`"
            raise refused(Code.REQUIRED, message if source is None else f"{message} (or its @embed source `{source}`)", tree)

    def _update(self, tree: Update, node: NodeType) -> UpdateNodes:
        values = self._assigned(tree.assignments, node)
        for assignment in tree.assignments:
            if node.key is not None and assignment.property.text in node.key.columns:
                message = f"cannot update @key property '{assignment.property}' — delete and re-insert instead"
                raise refused(None, message, assignment)
        return UpdateNodes(node, values, self._where(tree.where, node))

    def _assigned(self, assignments: tuple[Assignment, ...], entity: EntityType) -> tuple[PropertyValue, ...]:
        _refuse_twice(assignments)
        values: list[PropertyValue] = []
        for assignment in assignments:
            found = self._property(assignment.property, entity)
            value = self._value(assignment.value, found.type, f"{entity.name}.{found.name}", stored=True)
            values.append(PropertyValue(found.name, found.type, found.nullable, value))
        return tuple(values)

    def _property(self, name: Name, entity: EntityType) -> Property:
        found = entity.property(name.text)
        if found is None:
            raise _unknown(name, entity, ())
        return found

    # predicates

    def _where(self, predicate: Predicate, entity: EntityType) -> Condition:
        field = self._target(predicate.property, entity)
        value = self._value(predicate.value, field.type, f"{entity.name}.{predicate.property}", stored=False)
        return Condition(field, predicate.comparison, value)

    def _target(self, name: Name, entity: EntityType) -> Field:
        """The column a predicate tests: a property, or an end of an edge."""
        if isinstance(entity, EdgeType) and name.text in _ENDS:
            return Field(0, _ENDS[name.text], STRING)
        found = entity.property(name.text)
        if found is None:
            raise _unknown(name, entity, _ENDS if isinstance(entity, EdgeType) else ())
        if found.type == _BLOB:
            raise refused(Code.WRITE_PROPERTY, f"Blob property `{entity.name}.{found.name}` cannot be tested", name)
        return Field(0, found.name, found.type, found.nullable)

    # values

    def _value(self, value: Value, type_: ValueType, owner: str, *, stored: bool) -> Operand:
        match value:
            case Variable():
                return self._parameter(value, type_, owner)
            case Now():
                if type_ != DATETIME:
                    raise refused(Code.OPERANDS, f"now() does not fit `{owner}` of type {described(type_)}", value)
                return NowCall()
            case _:
                return stored_literal(value, type_, owner) if stored else fit_literal(value, type_, owner)

    def _parameter(self, variable: Variable, type_: ValueType, owner: str) -> Parameter:
        parameter = self._parameters.get(variable.name)
        if parameter is None:
            hint = nearest_name(variable.name, self._parameters, sign="$")
            raise refused(Code.PARAMETER, f"`{variable}` is not a declared parameter", variable, hint=hint)
        if not (compatible(parameter.type, type_) or (type_ == _BLOB and parameter.type == STRING)):
            message = f"parameter `{variable}` of type {described(parameter.type)} does not fit `{owner}` of type {described(type_)}"
            raise refused(Code.OPERANDS, message, variable)
        return parameter


def _refuse_twice(assignments: tuple[Assignment, ...]) -> None:
    seen: set[str] = set()
    for assignment in assignments:
        if assignment.property.text in seen:
            raise refused(Code.TWICE, f"property `{assignment.property}` is assigned twice", assignment)
        seen.add(assignment.property.text)


def _unknown(name: Name, entity: EntityType, more: Iterable[str]) -> Exception:
    hint = nearest_name(name.text, (*more, *(property_.name for property_ in entity.properties)))
    return refused(Code.WRITE_PROPERTY, f"{entity.kind} type `{entity.name}` has no property `{name}`", name, hint=hint)
