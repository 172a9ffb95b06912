"""The types a query reads and may write, from its statements and the catalog alone; cascades included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, TypeKind
from omnigraph.plan.expr import TypeRef, type_ref
from omnigraph.plan.typed import (
    Block,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    TypedQuery,
    TypedRead,
    UpdateNodes,
)


class Touched(msgspec.Struct, frozen=True):
    """Nodes before edges, sorted by name, without duplicates. A query cannot change a type outside `writes`."""

    reads: tuple[TypeRef, ...]
    writes: tuple[TypeRef, ...]


def touched(query: TypedQuery, catalog: Catalog) -> Touched:
    match query:
        case TypedRead():
            return Touched(_sorted((*(variable.type for variable in query.variables), *_traversed(query.block, catalog))), ())
        case TypedMutation():
            reads = (entity for statement in query.statements for entity in _read_by(statement, catalog))
            writes = (entity for statement in query.statements for entity in _written_by(statement))
            return Touched(_sorted(reads), _sorted(writes))
        case _:
            assert_never(query)


def _traversed(block: Block, catalog: Catalog) -> Iterable[EntityType]:
    for link in block.links:
        yield link.edge
        yield from _ends(link.edge, catalog)
    for negation in block.negations:
        yield from _traversed(negation, catalog)


def _ends(edge: EdgeType, catalog: Catalog) -> Iterable[NodeType]:
    for name in (edge.source, edge.target):
        node = catalog.node(name)
        assert node is not None
        yield node


def _read_by(statement: Statement, catalog: Catalog) -> Iterable[EntityType]:
    yield from _written_by(statement)
    if isinstance(statement, InsertEdge):
        yield from _ends(statement.edge, catalog)  # to check that they exist


def _written_by(statement: Statement) -> tuple[EntityType, ...]:
    match statement:
        case InsertNode() | UpdateNodes():
            return (statement.node,)
        case InsertEdge() | DeleteEdges():
            return (statement.edge,)
        case DeleteNodes(node, _, cascades):
            return (node, *cascades)
        case _:
            assert_never(statement)


def _sorted(entities: Iterable[EntityType]) -> tuple[TypeRef, ...]:
    refs = {type_ref(entity) for entity in entities}
    return tuple(sorted(refs, key=lambda ref: (ref.kind is TypeKind.EDGE, ref.name)))
