"""A mutation's tree -> `TypedMutation`: every statement typed against the catalog, and the rule against mixing deletes with others."""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, InterfaceType, NodeType
from omnigraph.catalog.types import FLOATS, INTEGERS, ValueType, scalar_of
from omnigraph.lang.query import (
    AliasRef,
    Assignment,
    BoolLiteral,
    Comparison,
    Conjunction,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Disjunction,
    Filter,
    FloatLiteral,
    Insert,
    Insertion,
    IntegerLiteral,
    Inversion,
    ListLiteral,
    Mutation,
    Now,
    StringLiteral,
    Update,
    Variable,
)
from omnigraph.lang.query import (
    Change as ChangeTree,
)
from omnigraph.lang.query import (
    Condition as ConditionTree,
)
from omnigraph.lang.query import (
    DeleteBound as DeleteBoundTree,
)
from omnigraph.lang.query import (
    Expr as ExprTree,
)
from omnigraph.lang.query import (
    MatchedChanges as MatchedTree,
)
from omnigraph.lang.query import (
    UpdateBound as UpdateBoundTree,
)
from omnigraph.lang.tree import Name
from omnigraph.plan.check.clauses import block_of, names_bound_by
from omnigraph.plan.check.conditions import typed_test
from omnigraph.plan.check.expressions import is_entity, typed, what_is
from omnigraph.plan.check.literals import fit_literal, stored_literal
from omnigraph.plan.check.scope import ENDS, Parameters, Scope
from omnigraph.plan.expr import BLOB, DATETIME, ID, STRING, Field
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import (
    Change,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    Expr,
    InsertEdge,
    InsertNode,
    MatchedChanges,
    NowCall,
    Parameter,
    PathType,
    PropertyValue,
    Statement,
    Test,
    TextSearch,
    TypedMutation,
    UpdateBound,
    UpdateRows,
    is_late,
    type_of,
)
from omnigraph.plan.values import compatible, described

_LITERALS: Final = (IntegerLiteral, FloatLiteral, StringLiteral, BoolLiteral, DateLiteral, DateTimeLiteral, ListLiteral)


def typed_mutation(name: str, parameters: tuple[Parameter, ...], mutation: Mutation, catalog: Catalog, *, anonymous: bool) -> TypedMutation:
    bound = frozenset[str]().union(*(names_bound_by(each.match) for each in mutation.statements if isinstance(each, MatchedTree)))
    known = Parameters(parameters, variables=bound if anonymous else None)
    statements: list[Statement] = []
    for tree in mutation.statements:
        if isinstance(tree, MatchedTree):
            statements.append(_matched(tree, Scope(catalog, known)))
        else:
            change = _change(tree, Scope(catalog, known))
            assert not isinstance(change, UpdateBound | DeleteBound)
            statements.append(change)
    _check_unmixed(name, mutation)
    return TypedMutation(name, known.all(), tuple(statements))


def _matched(tree: MatchedTree, scope: Scope) -> MatchedChanges:
    block = block_of(tree.match, scope)
    changes: list[Change] = []
    for each in tree.changes:
        if isinstance(each, DeleteBoundTree):
            changes.extend(_delete_bound(variable, scope) for variable in each.variables)
        else:
            changes.append(_change(each, scope))
    return MatchedChanges(tuple(scope.variables), block, tuple(changes))


def _check_unmixed(name: str, mutation: Mutation) -> None:
    """One query inserts and updates, or deletes: otherwise the rows a delete sees would depend on rows not yet written."""
    changes = [change for tree in mutation.statements for change in (tree.changes if isinstance(tree, MatchedTree) else (tree,))]
    deletes = [change for change in changes if isinstance(change, Delete | DeleteBoundTree)]
    if deletes and len(deletes) < len(changes):
        named = f"mutation '{name}'" if name else "the mutation"
        raise refused(
            Code.MIXED,
            f"{named} on the same query mixes inserts/updates and deletes; "
            "split into separate mutations: (1) inserts and updates, then (2) deletes. "
            "`g.transaction()` makes one commit of both.",
            deletes[0],
        )


def _change(tree: ChangeTree, scope: Scope) -> Change:
    match tree:
        case Insert():
            entity = _entity(tree.type_name, scope)
            return _insert_node(tree, entity, scope) if isinstance(entity, NodeType) else _insert_edge(tree, entity, scope)
        case Update():
            entity = _entity(tree.type_name, scope)
            own = scope.of_row(entity)
            values = _updated(tree.assignments, entity, own)
            return UpdateRows(entity, values, _where(tree.where, entity, own))
        case Delete():
            entity = _entity(tree.type_name, scope)
            where = _where(tree.where, entity, scope.of_row(entity))
            if isinstance(entity, NodeType):
                return DeleteNodes(entity, where, scope.catalog.edges_of(entity.name))
            return DeleteEdges(entity, where)
        case UpdateBoundTree(variable, assignments):
            slot, entity = _target(variable, scope, "updated")
            return UpdateBound(slot, entity, _updated(assignments, entity, scope.of_row(entity, slot=slot)))
        case DeleteBoundTree(variables):
            return _delete_bound(variables[0], scope)
        case _:
            assert_never(tree)


def _delete_bound(variable: Variable, scope: Scope) -> DeleteBound:
    slot, entity = _target(variable, scope, "deleted")
    return DeleteBound(slot, entity, scope.catalog.edges_of(entity.name) if isinstance(entity, NodeType) else ())


def _target(variable: Variable, scope: Scope, verb: str) -> tuple[int, EntityType]:
    """The entity that a match bound, and that a change is about."""
    slot = scope.slot(variable)
    if slot is None:
        hint = "a variable is bound by a match before the change: `match { .. } update $p set { .. }`"
        raise refused(Code.WRITE_TYPE, f"`{variable}` is not bound by a match", variable, hint=hint)
    bound = scope.variables[slot]
    if isinstance(bound.type, InterfaceType | PathType):
        what = "a path" if isinstance(bound.type, PathType) else f"of interface `{bound.type.name}`"
        hint = "bind it to one node or edge type"
        raise refused(Code.WRITE_TYPE, f"`{variable}` is {what} and cannot be {verb}", variable, hint=hint)
    _refuse_optional(variable, scope, f"cannot be {verb}")
    return slot, bound.type


def _refuse_optional(variable: Variable, scope: Scope, what: str) -> None:
    slot = scope.slot(variable)
    if slot is not None and scope.variables[slot].optional:
        message = f"`{variable}` of an optional block may be null and {what}"
        raise refused(Code.OPTIONAL, message, variable, hint="match it without `optional`")


def _entity(name: Name, scope: Scope) -> EntityType:
    """A node type first, then an edge type, each by its exact name."""
    catalog = scope.catalog
    entity: EntityType | None = catalog.node(name.text) or catalog.edge_named(name.text)
    if entity is None:
        hint = nearest_name(name.text, (type_.name for type_ in (*catalog.nodes, *catalog.edges)))
        raise refused(Code.WRITE_TYPE, f"unknown node or edge type `{name}`", name, hint=hint)
    return entity


# inserts


def _insert_node(tree: Insert, node: NodeType, scope: Scope) -> InsertNode:
    own = scope.of_row(node) if tree.insertion is Insertion.UPSERT else scope
    identity, others = _identity(tree, node)
    values = _assigned(others, node, own)
    assigned = {value.property for value in values}
    if tree.insertion is Insertion.UPSERT:
        _require_key(tree, node, assigned)
    else:
        _require(tree, node, assigned)
    return InsertNode(node, values, tree.insertion, None if identity is None else _text(identity, own, f"{node.name}.id"))


def _insert_edge(tree: Insert, edge: EdgeType, scope: Scope) -> InsertEdge:
    own = scope.of_row(edge) if tree.insertion is Insertion.UPSERT else scope
    _refuse_twice(tree.assignments)
    identity, others = _identity(tree, edge)
    ends: dict[str, Expr] = {}
    for assignment in others:
        name = assignment.property.text
        if name in ENDS:
            ends[name] = _end(assignment.value, edge.source if name == "from" else edge.target, f"{edge.name}.{name}", scope)
    values = _assigned(tuple(each for each in others if each.property.text not in ENDS), edge, own)
    for end in ENDS:
        if end not in ends:
            raise refused(Code.REQUIRED, f"{tree.insertion} of edge `{edge.name}` misses its endpoint `{end}`", tree)
    if tree.insertion is not Insertion.UPSERT:
        _require(tree, edge, {value.property for value in values})
    id_ = None if identity is None else _text(identity, own, f"{edge.name}.id")
    return InsertEdge(edge, ends["from"], ends["to"], values, tree.insertion, id_)


def _identity(tree: Insert, entity: EntityType) -> tuple[ExprTree | None, tuple[Assignment, ...]]:
    """The assigned id, and the other assignments. `insert` mints ids, and the id of a node with a key is its key."""
    keyed = isinstance(entity, NodeType) and entity.key is not None
    if tree.insertion is Insertion.INSERT or keyed:
        return None, tree.assignments
    found = [assignment for assignment in tree.assignments if assignment.property.text == ID]
    others = tuple(assignment for assignment in tree.assignments if assignment.property.text != ID)
    if len(found) > 1:
        raise refused(Code.TWICE, f"property `{ID}` is assigned twice", found[1])
    return (found[0].value if found else None), others


def _require(tree: Insert, entity: EntityType, assigned: set[str]) -> None:
    for property_ in entity.properties:
        if property_.nullable or property_.name in assigned:
            continue
        source = None if property_.embed is None else property_.embed.source
        if source in assigned:
            continue
        message = f"{tree.insertion} of `{entity.name}` misses required property `{property_.name}`"
        raise refused(Code.REQUIRED, message if source is None else f"{message} (or its @embed source `{source}`)", tree)


def _require_key(tree: Insert, node: NodeType, assigned: set[str]) -> None:
    """An upsert finds its row by the key; what else is required is known only when the row is looked for."""
    for name in () if node.key is None else node.key.columns:
        if name not in assigned:
            raise refused(Code.REQUIRED, f"upsert of `{node.name}` misses its key property `{name}`", tree)


# values


def _updated(assignments: tuple[Assignment, ...], entity: EntityType, scope: Scope) -> tuple[PropertyValue, ...]:
    for assignment in assignments:
        name = assignment.property.text
        if isinstance(entity, EdgeType) and name in ENDS:
            message = f"cannot update the endpoint '{name}' of edge type `{entity.name}` — delete and re-insert instead"
            raise refused(None, message, assignment)
    values = _assigned(assignments, entity, scope)
    for assignment in assignments:
        if isinstance(entity, NodeType) and entity.key is not None and assignment.property.text in entity.key.columns:
            message = f"cannot update @key property '{assignment.property}' — delete and re-insert instead"
            raise refused(None, message, assignment)
    return values


def _assigned(assignments: tuple[Assignment, ...], entity: EntityType, scope: Scope) -> tuple[PropertyValue, ...]:
    _refuse_twice(assignments)
    values: list[PropertyValue] = []
    for assignment in assignments:
        name = assignment.property
        found = entity.property(name.text)
        if found is None:
            hint = nearest_name(name.text, (property_.name for property_ in entity.properties))
            raise refused(Code.WRITE_PROPERTY, f"{entity.kind} type `{entity.name}` has no property `{name}`", name, hint=hint)
        value = _value(assignment.value, found.type, f"{entity.name}.{found.name}", scope)
        values.append(PropertyValue(found.name, found.type, found.nullable, value))
    return tuple(values)


def _refuse_twice(assignments: tuple[Assignment, ...]) -> None:
    seen: set[str] = set()
    for assignment in assignments:
        if assignment.property.text in seen:
            raise refused(Code.TWICE, f"property `{assignment.property}` is assigned twice", assignment)
        seen.add(assignment.property.text)


def _value(tree: ExprTree, type_: ValueType, owner: str, scope: Scope) -> Expr:
    match tree:
        case Variable():
            return _parameter(tree, type_, owner, scope)
        case Now():
            if type_ != DATETIME:
                raise refused(Code.OPERANDS, f"now() does not fit `{owner}` of type {described(type_)}", tree)
            return NowCall()
        case _ if isinstance(tree, _LITERALS):
            return stored_literal(tree, type_, owner)
        case _:
            return _expression(tree, type_, owner, scope)


def _expression(tree: ExprTree, type_: ValueType, owner: str, scope: Scope) -> Expr:
    expr = typed(tree, scope, type_)
    if is_late(expr) or isinstance(expr, TextSearch):
        raise refused(None, "unsupported expression in a change", tree, hint="aggregates, scores and searches are for reads")
    given = type_of(expr)
    narrows = scalar_of(type_) in INTEGERS and scalar_of(given) in FLOATS
    if is_entity(expr) or given == BLOB or narrows or not compatible(given, type_):
        raise refused(Code.OPERANDS, f"{what_is(expr)} does not fit `{owner}` of type {described(type_)}", tree)
    return expr


def _parameter(variable: Variable, type_: ValueType, owner: str, scope: Scope) -> Parameter:
    parameter = scope.parameter(variable, type_)
    if parameter is None:
        hint = nearest_name(variable.name, scope.parameters.names(), sign="$")
        if scope.slot(variable) is not None:
            hint = f"a property of it is written `{variable}.name`, its id `{variable}.id`"
        raise refused(Code.PARAMETER, f"`{variable}` is not a declared parameter", variable, hint=hint)
    if not (compatible(parameter.type, type_) or (type_ == BLOB and parameter.type == STRING)):
        message = f"parameter `{variable}` of type {described(parameter.type)} does not fit `{owner}` of type {described(type_)}"
        raise refused(Code.OPERANDS, message, variable)
    return parameter


def _text(tree: ExprTree, scope: Scope, owner: str) -> Expr:
    return _value(tree, STRING, owner, scope)


def _end(tree: ExprTree, type_name: str, owner: str, scope: Scope) -> Expr:
    """An end of a new edge: the id of a node as a text, or a node that a match bound."""
    if isinstance(tree, Variable) and scope.parameters.get(tree.name) is None and scope.slot(tree) is not None:
        found = scope.node(tree)
        assert found is not None
        slot, type_ = found
        _refuse_optional(tree, scope, "cannot be the end of a new edge")
        if not isinstance(type_, NodeType) or type_.name != type_name:
            raise refused(Code.ENDPOINT, f"`{tree}` is of type `{type_.name}`, but `{owner}` is a `{type_name}`", tree)
        return scope.entity(slot)
    return _text(tree, scope, owner)


# where


def _where(tree: ConditionTree, entity: EntityType, scope: Scope) -> Test:
    named = _with_names(tree, entity)
    _check_operands(named, entity, scope)
    return typed_test(named, scope)


def _with_names(tree: ConditionTree, entity: EntityType) -> ConditionTree:
    """The condition with `true` and `false` at its left as properties, where the type has properties of these names."""
    match tree:
        case Conjunction(terms):
            return Conjunction(tuple(_with_names(term, entity) for term in terms), span=tree.span)
        case Disjunction(terms):
            return Disjunction(tuple(_with_names(term, entity) for term in terms), span=tree.span)
        case Inversion(term):
            return Inversion(_with_names(term, entity), span=tree.span)
        case Filter(BoolLiteral(value) as left, operator, right) if entity.property(name := str(value).lower()) is not None:
            return Filter(AliasRef(name, span=left.span), operator, right, span=tree.span)
        case _:
            return tree


def _check_operands(tree: ConditionTree, entity: EntityType, scope: Scope) -> None:
    """A property and what it is compared with: an unknown property, a misfit literal and an unknown parameter have codes of their own."""
    match tree:
        case Conjunction(terms) | Disjunction(terms):
            for term in terms:
                _check_operands(term, entity, scope)
        case Inversion(term):
            _check_operands(term, entity, scope)
        case Filter(AliasRef() as left, Comparison(), right):
            _check_compared(left, right, entity, scope)
        case _:
            pass


def _check_compared(left: AliasRef, right: ExprTree, entity: EntityType, scope: Scope) -> None:
    field = typed(left, scope)
    assert isinstance(field, Field)
    owner = f"{entity.name}.{left.name}"
    if field.type == BLOB:
        raise refused(Code.WRITE_PROPERTY, f"Blob property `{owner}` cannot be tested", left)
    match right:
        case Variable():
            _parameter(right, field.type, owner, scope)
        case _ if isinstance(right, _LITERALS):
            fit_literal(right, field.type, owner)
        case _:
            pass
