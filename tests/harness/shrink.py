"""A case that fails -> a smaller one that still does: pieces of the query, rows and types are left out one after another."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import msgspec

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.layout import identity_columns
from omnigraph.catalog.model import EntityType
from omnigraph.errors import LanguageError
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.lang.query import (
    Aggregate,
    Arithmetic,
    Binding,
    Clause,
    Condition,
    Conjunction,
    Disjunction,
    Either,
    Exists,
    Expr,
    Filter,
    FunctionCall,
    Inversion,
    ListLiteral,
    ListTest,
    Negation,
    Negative,
    NullTest,
    Optional,
    Ordering,
    Path,
    Projection,
    Query,
    QueryFile,
    Read,
    Traversal,
    Variable,
)
from omnigraph.lang.schema import EdgeType, NodeType, Schema
from omnigraph.lang.tree import Syntax
from tests.harness.brute.data import Data, Row
from tests.harness.printer import print_queries, print_schema

_T = TypeVar("_T")


class Case(msgspec.Struct, frozen=True):
    """A schema, rows, a read and its parameters."""

    schema: str
    data: Data
    text: str
    params: dict[str, object]


Fails = Callable[[Case], bool]
"""Whether a case still shows the failure. A case that is no longer valid does not."""


def shrunk(case: Case, fails: Fails, *, seconds: float) -> Case:
    """The smallest case found in the time: no single piece can be left out of it, if the time was enough."""
    deadline = time.monotonic() + seconds
    before = None
    while case is not before:
        before = case
        for smaller in _STEPS:
            while (found := _first(smaller(case), fails, deadline)) is not None:
                case = found
    return case


def _first(cases: Iterator[Case], fails: Fails, deadline: float) -> Case | None:
    return next((case for case in cases if time.monotonic() < deadline and fails(case)), None)


def catalog_of(schema: str) -> Catalog:
    numbers = iter(range(1_000_000))
    return build_catalog(parse_schema(schema), mint=lambda: f"{next(numbers):016x}")


# rows


def _with_less_data(case: Case, *, parts: int) -> Iterator[Case]:
    """One table without one of so many parts of its rows."""
    for name, rows in case.data.nodes.items():
        for part in _without_a_share(rows, parts):
            yield msgspec.structs.replace(case, data=_without_loose_ends(case, {**case.data.nodes, name: part}))
    for name, rows in case.data.edges.items():
        for part in _without_a_share(rows, parts):
            yield msgspec.structs.replace(case, data=Data(case.data.nodes, {**case.data.edges, name: part}))


def _without_a_share(rows: list[Row], parts: int) -> Iterator[list[Row]]:
    size = max(1, len(rows) // parts)
    return (rows[:at] + rows[at + size :] for at in range(0, len(rows), size))


def _without_loose_ends(case: Case, nodes: dict[str, list[Row]]) -> Data:
    """Edges go with the nodes at their ends."""
    gone = {name: {row["id"] for row in rows} - {row["id"] for row in nodes[name]} for name, rows in case.data.nodes.items()}
    ends = {edge.name: (edge.source, edge.target) for edge in catalog_of(case.schema).edges}
    edges = {
        name: [row for row in rows if row["src"] not in gone[ends[name][0]] and row["dst"] not in gone[ends[name][1]]]
        for name, rows in case.data.edges.items()
    }
    return Data(nodes, edges)


# the query


def _with_less_query(case: Case) -> Iterator[Case]:
    (query,) = parse_queries(case.text).queries
    assert isinstance(query.body, Read)
    for read in _reads(query.body):
        yield _asking(case, msgspec.structs.replace(query, body=read))


def _asking(case: Case, query: Query) -> Case:
    """The case with another query, and only the parameters that it mentions."""
    body = print_queries(QueryFile(queries=(msgspec.structs.replace(query, parameters=()),)))
    used = tuple(parameter for parameter in query.parameters if re.search(rf"\${parameter.name}\b", body))
    text = print_queries(QueryFile(queries=(msgspec.structs.replace(query, parameters=used),)))
    names = {parameter.name.text for parameter in used}
    return Case(case.schema, case.data, text, {name: value for name, value in case.params.items() if name in names})


def _reads(read: Read) -> Iterator[Read]:
    for name in sorted(set(_names(read.match))):
        yield from _without_variable(read, name)
    for clauses in _clauses(read.match):
        if clauses:
            yield msgspec.structs.replace(read, match=clauses)
    for returns in _without_one(read.returns):
        if returns:
            yield msgspec.structs.replace(read, returns=returns)
    for order in _without_one(read.order):
        yield msgspec.structs.replace(read, order=order)
    for name in ("limit", "skip"):
        if getattr(read, name) is not None:
            yield msgspec.structs.replace(read, **{name: None})
    if read.distinct:
        yield msgspec.structs.replace(read, distinct=False)
    yield from _with_simpler_results(read)


def _with_simpler_results(read: Read) -> Iterator[Read]:
    for at, projection in enumerate(read.returns):
        for value in _simpler_value(projection.value):
            shorter = msgspec.structs.replace(projection, value=value)
            yield msgspec.structs.replace(read, returns=(*read.returns[:at], shorter, *read.returns[at + 1 :]))
    for at, ordering in enumerate(read.order):
        for plainer in _simpler_ordering(ordering):
            yield msgspec.structs.replace(read, order=(*read.order[:at], plainer, *read.order[at + 1 :]))


def _simpler_ordering(ordering: Ordering) -> Iterator[Ordering]:
    if ordering.nulls is not None:
        yield msgspec.structs.replace(ordering, nulls=None)
    if ordering.descending:
        yield msgspec.structs.replace(ordering, descending=False)
    for key in _simpler_value(ordering.key):
        yield msgspec.structs.replace(ordering, key=key)


def _simpler_value(value: Expr) -> Iterator[Expr]:
    """The parts of an expression in its place."""
    match value:
        case Arithmetic(left=left, right=right):
            yield from (left, right)
        case Negative(operand=operand):
            yield operand
        case FunctionCall(arguments=arguments):
            yield from arguments
        case Aggregate(distinct=True):
            yield msgspec.structs.replace(value, distinct=False)
        case _:
            return


def _without_variable(read: Read, name: str) -> Iterator[Read]:
    """All that mentions a variable left out at once; something must be returned, so in doubt another one is."""
    match = tuple(clause for clause in read.match if name not in _names(clause))
    others = sorted({clause.variable.name for clause in match if isinstance(clause, Binding)})
    if others:
        kept = tuple(projection for projection in read.returns if name not in _names(projection))
        order = tuple(ordering for ordering in read.order if name not in _names(ordering))
        returns = kept or (Projection(value=Variable(name=others[0])),)
        yield msgspec.structs.replace(read, match=match, returns=returns, order=order)


def _names(value: object) -> Iterator[str]:
    """Every variable in a tree."""
    match value:
        case Variable(name=name):
            yield name
        case tuple():
            for item in value:
                yield from _names(item)
        case Syntax():
            for field in value.__struct_fields__:
                yield from _names(getattr(value, field))
        case _:
            return


def _clauses(clauses: tuple[Clause, ...]) -> Iterator[tuple[Clause, ...]]:
    yield from _without_one(clauses)
    for at, clause in enumerate(clauses):
        if isinstance(clause, Exists | Optional):
            yield (*clauses[:at], *clause.clauses, *clauses[at + 1 :])
        for simpler in _simpler(clause):
            yield (*clauses[:at], simpler, *clauses[at + 1 :])


def _simpler(clause: Clause) -> Iterator[Clause]:
    match clause:
        case Negation(clauses=inner) | Exists(clauses=inner) | Optional(clauses=inner):
            yield from (type(clause)(clauses=fewer) for fewer in _clauses(inner) if fewer)
        case Either(blocks=blocks):
            yield from (Exists(clauses=block) for block in blocks)
            yield from (Either(blocks=fewer) for fewer in _without_one(blocks) if len(fewer) > 1)
            for at, block in enumerate(blocks):
                yield from (Either(blocks=(*blocks[:at], fewer, *blocks[at + 1 :])) for fewer in _clauses(block) if fewer)
        case Binding(matches=matches):
            yield from (msgspec.structs.replace(clause, matches=fewer) for fewer in _without_one(matches))
        case Traversal():
            yield from _simpler_traversal(clause)
        case Path(traversal=traversal):
            yield traversal
            yield from (msgspec.structs.replace(clause, traversal=simpler) for simpler in _simpler_traversal(traversal))
        case _:
            yield from _simpler_condition(clause)


def _simpler_traversal(traversal: Traversal) -> Iterator[Traversal]:
    if traversal.hops is not None:
        yield msgspec.structs.replace(traversal, hops=None)
    yield from (msgspec.structs.replace(traversal, edges=fewer) for fewer in _without_one(traversal.edges) if fewer)


def _simpler_condition(condition: Condition) -> Iterator[Condition]:
    match condition:
        case Conjunction(terms=terms) | Disjunction(terms=terms):
            yield from terms
            yield from (type(condition)(terms=fewer) for fewer in _without_one(terms) if len(fewer) > 1)
            for at, term in enumerate(terms):
                yield from (type(condition)(terms=(*terms[:at], simpler, *terms[at + 1 :])) for simpler in _simpler_condition(term))
        case Inversion(term=term):
            yield term
            yield from (Inversion(term=simpler) for simpler in _simpler_condition(term))
        case Filter(left=left, right=right):
            yield from (msgspec.structs.replace(condition, left=simpler) for simpler in _simpler_value(left))
            yield from (msgspec.structs.replace(condition, right=simpler) for simpler in _simpler_value(right))
        case ListTest(item=item, options=options):
            yield from (msgspec.structs.replace(condition, item=simpler) for simpler in _simpler_value(item))
            if isinstance(options, ListLiteral):
                yield from (msgspec.structs.replace(condition, options=ListLiteral(items=fewer)) for fewer in _without_one(options.items))
        case NullTest(value=value):
            yield from (msgspec.structs.replace(condition, value=simpler) for simpler in _simpler_value(value))
        case _:
            return


def _without_one(items: tuple[_T, ...]) -> Iterator[tuple[_T, ...]]:
    return (items[:at] + items[at + 1 :] for at in range(len(items)))


# the schema


def _with_less_schema(case: Case) -> Iterator[Case]:
    """Types that have no rows and are not asked for, and properties that are not mentioned."""
    tree = parse_schema(case.schema)
    for at, declared in enumerate(tree.declarations):
        yield from _narrowed(case, Schema(declarations=tree.declarations[:at] + tree.declarations[at + 1 :]))
        if isinstance(declared, NodeType | EdgeType):
            for properties in _without_one(declared.properties):
                fewer = msgspec.structs.replace(declared, properties=properties)
                yield from _narrowed(case, Schema(declarations=(*tree.declarations[:at], fewer, *tree.declarations[at + 1 :])))


def _narrowed(case: Case, schema: Schema) -> Iterator[Case]:
    """The case under a smaller schema, unless that takes away what rows or keys need."""
    text = print_schema(schema)
    try:
        catalog = catalog_of(text)
    except LanguageError:
        return
    before = catalog_of(case.schema)
    lost = [name for name, rows in case.data.nodes.items() if rows and catalog.node(name) is None]
    lost += [name for name, rows in case.data.edges.items() if rows and catalog.edge(name) is None]
    keys = {node.name: node.key for node in before.nodes}
    if lost or any(node.key != keys[node.name] for node in catalog.nodes):
        return
    nodes = {node.name: [_kept(row, node) for row in case.data.nodes[node.name]] for node in catalog.nodes}
    edges = {edge.name: [_kept(row, edge) for row in case.data.edges[edge.name]] for edge in catalog.edges}
    yield Case(text, Data(nodes, edges), case.text, case.params)


def _kept(row: Row, entity: EntityType) -> Row:
    return {name: row[name] for name in (*identity_columns(entity), *(property_.name for property_ in entity.properties))}


_STEPS: Final[tuple[Callable[[Case], Iterator[Case]], ...]] = (
    partial(_with_less_data, parts=1),
    _with_less_schema,
    _with_less_query,
    *(partial(_with_less_data, parts=parts) for parts in (2, 4, 8, 1000)),
)
"""Large pieces first: every try makes a graph, and what has no types left is made quickly."""
