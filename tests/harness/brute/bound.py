"""What the variables of a match stand for, and which types clauses give to the variables that they introduce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType
from omnigraph.lang.query import Binding, Clause, Optional, Path, Traversal, Variable
from tests.harness.brute.data import Row

Declared: TypeAlias = NodeType | EdgeType | InterfaceType | None
"""What a variable may stand for, known before anything runs. None: it is a path."""


class Entity(NamedTuple):
    """A node, or an edge that was given a name. Without a row it is null: its `optional` block found nothing."""

    declared: NodeType | EdgeType | InterfaceType
    type: NodeType | EdgeType | InterfaceType
    """Of the row itself: one of the types of an interface."""
    row: Row | None

    @property
    def id(self) -> str | None:
        return None if self.row is None else str(self.row["id"])


class Walk(NamedTuple):
    """A path, or null."""

    nodes: tuple[str, ...] | None
    edges: tuple[str, ...] | None


Bound: TypeAlias = Mapping[str, Entity | Walk]
"""One row of a match: its named variables. `$_` leaves no trace but the number of rows."""


def declared_type(catalog: Catalog, name: str) -> NodeType | InterfaceType:
    node = catalog.node(name)
    return node if node is not None else next(interface for interface in catalog.interfaces if interface.name == name)


def types_of(catalog: Catalog, declared: Declared) -> tuple[NodeType, ...]:
    """The node types a variable may stand for: those of an interface, or the one."""
    match declared:
        case NodeType():
            return (declared,)
        case InterfaceType(name=name):
            return tuple(node for node in catalog.nodes if name in node.implements)
        case _:
            return ()


def edges_of(catalog: Catalog, traversal: Traversal) -> list[EdgeType]:
    found = [catalog.edge(edge.text) for edge in traversal.edges]
    return [edge for edge in found if edge is not None]


def runs_forward(catalog: Catalog, traversal: Traversal, known: Mapping[str, Declared]) -> bool:
    """The types of what is bound already decide, once for the whole traversal; the left end first, then the right."""
    edge = edges_of(catalog, traversal)[0]
    if traversal.undirected:
        return True
    if traversal.left.name in known:
        return any(node.name == edge.source for node in types_of(catalog, known[traversal.left.name]))
    if traversal.right.name in known:
        return any(node.name == edge.target for node in types_of(catalog, known[traversal.right.name]))
    return True


def introduced(catalog: Catalog, clauses: Sequence[Clause], known: Mapping[str, Declared]) -> dict[str, Declared]:
    """The variables that can be named after some clauses, those from before included. Blocks but `optional` keep theirs to themselves."""
    types = dict(known)
    for clause in clauses:
        match clause:
            case Binding(variable=variable, type_name=type_name):
                types.setdefault(variable.name, declared_type(catalog, type_name.text))
            case Traversal():
                _ends(catalog, clause, types)
            case Path(variable=variable, traversal=traversal):
                _ends(catalog, traversal, types)
                types[variable.name] = None
            case Optional(clauses=inner):
                types = introduced(catalog, inner, types)
            case _:
                pass
    types.pop("_", None)
    return types


def _ends(catalog: Catalog, traversal: Traversal, types: dict[str, Declared]) -> None:
    edge = edges_of(catalog, traversal)[0]
    forward = runs_forward(catalog, traversal, types)
    left, right = (edge.source, edge.target) if forward else (edge.target, edge.source)
    types.setdefault(traversal.left.name, catalog.node(left))
    types.setdefault(traversal.right.name, catalog.node(right))
    if traversal.edge_variable is not None:
        types[traversal.edge_variable.name] = edge
    types.pop("_", None)


def declared(bound: Bound) -> dict[str, Declared]:
    return {name: entity.declared if isinstance(entity, Entity) else None for name, entity in bound.items()}


def nothing(types: Mapping[str, Declared]) -> Bound:
    """Every variable null."""
    return {name: Walk(None, None) if type_ is None else Entity(type_, type_, None) for name, type_ in types.items()}


def with_variable(bound: Bound, variable: Variable, entity: Entity | Walk) -> Bound:
    return bound if variable.wildcard else {**bound, variable.name: entity}
