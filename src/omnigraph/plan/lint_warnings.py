"""A checked query -> warnings about what is legal and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.catalog.model import NodeType
from omnigraph.lang.query import Comparison, Insertion, Query, Variable
from omnigraph.lang.tree import Syntax
from omnigraph.plan.expr import Field
from omnigraph.plan.typed import (
    ROW,
    AllOf,
    AnyOf,
    Block,
    BoundVariable,
    Change,
    Condition,
    DeleteEdges,
    DeleteNodes,
    InList,
    InsertNode,
    IsNull,
    MatchedChanges,
    Not,
    OptionalBlock,
    Pattern,
    Test,
    TypedMutation,
    TypedQuery,
    TypedRead,
    UpdateRows,
    exprs_of,
    slots_of,
)


def lint_warnings(tree: Query, query: TypedQuery) -> tuple[str, ...]:
    """The warnings about one query, in a fixed order and each once."""
    found = [*_unused_parameters(tree)]
    match query:
        case TypedRead(variables=variables, block=block):
            found += _about_match(block, variables)
        case TypedMutation(statements=statements):
            for statement in statements:
                if isinstance(statement, MatchedChanges):
                    found += _about_match(statement.block, statement.variables)
            for change in changes_of(query):
                found += _about_change(change)
    return tuple(dict.fromkeys(found))


def changes_of(query: TypedQuery) -> Iterator[Change]:
    """Every change of a mutation, those after a match included."""
    for statement in query.statements if isinstance(query, TypedMutation) else ():
        yield from statement.changes if isinstance(statement, MatchedChanges) else (statement,)


# parameters


def _unused_parameters(tree: Query) -> Iterator[str]:
    used = set(_names(tree.body))
    for parameter in tree.parameters:
        if parameter.name.text not in used:
            yield f"parameter `${parameter.name}` is declared and not used"


def _names(node: object) -> Iterator[str]:
    """Every variable of a tree."""
    match node:
        case Variable(name):
            yield name
        case Syntax():
            for value in msgspec.structs.astuple(node):
                yield from _names(value)
        case tuple():
            for item in node:
                yield from _names(item)


# match


def _about_match(block: Block, variables: tuple[BoundVariable, ...]) -> Iterator[str]:
    yield from _cross_products(block, variables)
    for test in _tests(block):
        yield from _about_test(test, variables)


def _cross_products(block: Block, variables: tuple[BoundVariable, ...]) -> Iterator[str]:
    """Variables that no traversal and no condition links: each pair of them is a row."""
    groups: dict[int, set[int]] = {}

    def link(slots: frozenset[int]) -> None:
        together = set(slots).union(*(groups.get(slot, set()) for slot in slots))
        groups.update(dict.fromkeys(together, together))

    for slot in block.outer:
        link(frozenset(block.outer) | {slot})
    for part in block.parts:
        match part:
            case Pattern(nodes=nodes, links=links, conditions=conditions, tests=tests):
                for slot in nodes:
                    link(frozenset((slot,)))
                for each in links:
                    named = (each.left, each.right, each.edge_slot, each.path)
                    link(frozenset(slot for slot in named if slot is not None))
                for test in conditions:
                    link(frozenset[int]().union(*(slots_of(expr) for expr in exprs_of(test))))
                for blocks in tests:
                    for inner in blocks.blocks:
                        link(frozenset(inner.outer))
            case OptionalBlock(inner, binds):
                link(frozenset((*inner.outer, *binds)))
    parts = sorted({min(group) for group in groups.values() if group})
    if len(parts) > 1:
        names = " and ".join(f"`${variables[slot].name}`" for slot in parts)
        yield f"{names} are not linked: the match is a cross product, with a row for every pair"


def _tests(block: Block) -> Iterator[Test]:
    for part in block.parts:
        match part:
            case Pattern(conditions=conditions, tests=tests):
                yield from conditions
                for test in tests:
                    for inner in test.blocks:
                        yield from _tests(inner)
            case OptionalBlock(inner):
                yield from _tests(inner)


def _about_test(test: Test, variables: tuple[BoundVariable, ...]) -> Iterator[str]:
    """`!=` with a property that may be null leaves null rows out, unless the same test asks for null."""
    asked = set(_null_tested(test))
    for field in _unequal(test):
        if field.nullable and field not in asked:
            name = field.column if field.binding == ROW else f"${variables[field.binding].name}.{field.column}"
            yield f"`{name}` may be null, and `!=` leaves such rows out; add `or {name} is null` if they are meant"


def _null_tested(test: Test) -> Iterator[Field]:
    match test:
        case IsNull(Field() as field):
            yield field
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from _null_tested(term)
        case Not(term):
            yield from _null_tested(term)


def _unequal(test: Test) -> Iterator[Field]:
    match test:
        case Condition(left, Comparison.NE, right):
            yield from (side for side in (left, right) if isinstance(side, Field))
        case Not(InList(Field() as field)):
            yield field
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from _unequal(term)
        case _:
            return


# changes


def _about_change(change: Change) -> Iterator[str]:
    match change:
        case InsertNode(node, values, insertion):
            named = {value.property for value in values}
            yield from _never_satisfied(node, named)
            if insertion is Insertion.INSERT and node.key is not None:
                left_out = [each.name for each in node.properties if each.nullable and each.name not in named]
                if left_out:
                    names = ", ".join(f"`{name}`" for name in left_out)
                    yield f"insert of `{node.name}` replaces a node with the same key and sets {names} to null; `upsert` keeps them"
        case UpdateRows(where=where) | DeleteNodes(where=where) | DeleteEdges(where=where):
            yield from _about_test(where, ())
        case _:
            return


def _never_satisfied(node: NodeType, named: set[str]) -> Iterator[str]:
    """A required vector whose source is given passes the check, and nothing computes it."""
    for each in node.properties:
        if not each.nullable and each.embed is not None and each.name not in named:
            yield f"insert of `{node.name}` leaves out the required vector `{each.name}`: it is refused without an embedding provider"
