"""The types a query reads and may write, from its statements and the catalog alone; cascades included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, InterfaceType, NodeType, TypeKind
from omnigraph.plan.expr import TypeRef, type_ref
from omnigraph.plan.typed import (
    Block,
    BoundVariable,
    Change,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Link,
    MatchedChanges,
    OptionalBlock,
    PathType,
    Pattern,
    Statement,
    TypedMutation,
    TypedQuery,
    TypedRead,
    UpdateBound,
    UpdateRows,
)


class Touched(msgspec.Struct, frozen=True):
    """Nodes before edges, sorted by name, without duplicates. A query cannot change a type outside `writes`."""

    reads: tuple[TypeRef, ...]
    writes: tuple[TypeRef, ...]


def touched(query: TypedQuery, catalog: Catalog) -> Touched:
    match query:
        case TypedRead(variables=variables, block=block):
            return Touched(_sorted(matched_types(variables, block, catalog)), ())
        case TypedMutation():
            reads = (entity for statement in query.statements for entity in _read_by(statement, catalog))
            writes = (entity for statement in query.statements for change in _changes(statement) for entity in _written_by(change))
            return Touched(_sorted(reads), _sorted(writes))
        case _:
            assert_never(query)


def links_of(block: Block) -> Iterable[Link]:
    """Every traversal of a block, at any depth."""
    for part in block.parts:
        match part:
            case Pattern(links=links, tests=tests):
                yield from links
                for test in tests:
                    for inner in test.blocks:
                        yield from links_of(inner)
            case OptionalBlock(inner):
                yield from links_of(inner)
            case _:
                assert_never(part)


def matched_types(variables: tuple[BoundVariable, ...], block: Block, catalog: Catalog) -> Iterable[EntityType]:
    """The types whose rows a match reads; some of them more than once."""
    for variable in variables:
        match variable.type:
            case InterfaceType():
                yield from catalog.implementing(variable.type)
            case PathType():
                pass
            case entity:
                yield entity
    for link in links_of(block):
        for edge in link.edges:
            yield edge
            yield from _ends(edge, catalog)


def _ends(edge: EdgeType, catalog: Catalog) -> Iterable[NodeType]:
    for name in (edge.source, edge.target):
        node = catalog.node(name)
        assert node is not None
        yield node


def _changes(statement: Statement) -> tuple[Change, ...]:
    return statement.changes if isinstance(statement, MatchedChanges) else (statement,)


def _read_by(statement: Statement, catalog: Catalog) -> Iterable[EntityType]:
    if isinstance(statement, MatchedChanges):
        yield from matched_types(statement.variables, statement.block, catalog)
    for change in _changes(statement):
        yield from _written_by(change)
        if isinstance(change, InsertEdge):
            yield from _ends(change.edge, catalog)  # to check that they exist


def _written_by(change: Change) -> tuple[EntityType, ...]:
    match change:
        case InsertNode():
            return (change.node,)
        case InsertEdge() | DeleteEdges():
            return (change.edge,)
        case UpdateRows() | UpdateBound():
            return (change.entity,)
        case DeleteNodes(node, _, cascades):
            return (node, *cascades)
        case DeleteBound(_, entity, cascades):
            return (entity, *cascades)
        case _:
            assert_never(change)


def _sorted(entities: Iterable[EntityType]) -> tuple[TypeRef, ...]:
    refs = {type_ref(entity) for entity in entities}
    return tuple(sorted(refs, key=lambda ref: (ref.kind is TypeKind.EDGE, ref.name)))
