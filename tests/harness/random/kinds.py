"""A read -> which constructs of the language and which operators occur in it, by name, so that a suite can tell what it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog
from omnigraph.lang import parse_queries, select_query
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Binding,
    Clause,
    Comparison,
    Containment,
    Expr,
    Filter,
    ListLiteral,
    Negation,
    Now,
    Projection,
    PropertyRef,
    Read,
    Traversal,
    Variable,
)
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir, ops
from omnigraph.plan.check import check_read
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.typed import Block, TypedRead, is_list

_SEARCH: Final = ("Rank",)
_OPERATORS: Final = tuple(op.__name__ for op in ops.Op.__args__ if op.__name__ not in _SEARCH)
# `Matches` is search, and what never holds becomes an operator that gives nothing.
_PREDICATES: Final = tuple(kind.__name__ for kind in ir.Predicate.__args__ if kind not in (ir.Matches, ir.Never))
_SCALARS: Final = tuple(scalar.value for scalar in Scalar if scalar is not Scalar.BLOB)

KINDS: Final = frozenset(
    {
        *(f"operator {name}" for name in _OPERATORS),
        *(f"predicate {name}" for name in _PREDICATES),
        *(f"filter {how.value}" for how in (*Comparison, Containment.STARTS_WITH)),
        *("filter contains in a list", "filter contains in a text", "filter of a property and a property", "filter of constants"),
        *(f"filter of {what}" for what in ("a property and a literal", "a property and a parameter", "a property and now()")),
        *("binding", "binding with a match", "binding again", "match of a list's item", "match with a parameter"),
        *("traversal", "traversal with hops", "traversal with hops, undirected", "traversal undirected", "traversal from a wildcard"),
        *("traversal with an edge variable", "traversal with an edge variable, undirected", "traversal with a wildcard edge"),
        *("traversal of nothing bound", "traversal of the left bound", "traversal of the right bound", "traversal of both bound"),
        *("traversal to itself", "traversal between types", "traversal inside a type", "direction out", "direction in", "direction both"),
        *("negation", "negation nested"),
        *(f"parameter {scalar}" for scalar in _SCALARS),
        *("parameter list", "parameter Vector", "parameter null"),
        *(f"aggregate {function.value}" for function in AggregateFunction),
        *("return node", "return property", "return edge property", "return literal", "return parameter", "return alias"),
        *("groups by nothing", "groups by one", "groups by several"),
        *("order by property", "order by alias", "order by several", "order ascending", "order descending", "order of groups"),
        *("limit", "limit 0"),
        "now()",
    }
)


def kinds_of(source: str, params: object, catalog: Catalog, *, now_ms: int) -> Counter[str]:
    """How often each of `KINDS` occurs in a read."""
    query = select_query(parse_queries(source), None)
    read = check_read(query, catalog)
    bound = bind_parameters(read.parameters, params)
    assert isinstance(query.body, Read)
    found = Counter(_clauses(query.body.match, set()))
    found.update(_directions(read.block))
    found.update(_tail(query.body, read))
    for parameter in query.parameters:
        shape = parameter.shape
        found[f"parameter {getattr(shape, 'scalar', 'list' if hasattr(shape, 'item') else 'Vector')}"] += 1
        found["parameter null"] += bound[parameter.name.text] is None
    found["now()"] += source.count("now()")
    contains = Counter(_contains(read.block))
    found["filter contains in a list"] += contains[True]
    found["filter contains in a text"] += contains[False]
    found["match of a list's item"] += contains.total() - found.pop("filter contains", 0)
    found.update(_structs(plan_read(read, bound, now_ms=now_ms).root))
    unknown = set(found) - KINDS
    assert not unknown, unknown
    return found


def _clauses(clauses: tuple[Clause, ...], bound: set[str], *, depth: int = 0) -> Iterator[str]:
    for clause in clauses:
        match clause:
            case Binding(variable=variable, matches=matches):
                yield "binding again" if variable.name in bound else "binding"
                yield from ("binding with a match" for _ in matches[:1])
                yield from ("match with a parameter" for match in matches if isinstance(match.value, Variable))
                bound.add(variable.name)
            case Traversal():
                yield from _traversal(clause, bound)
                ends = (clause.left, clause.right, clause.edge_variable)
                bound.update(end.name for end in ends if end is not None and not end.wildcard)
            case Filter():
                yield from _filter(clause)
            case Negation(clauses=inner):
                yield "negation nested" if depth else "negation"
                yield from _clauses(inner, set(bound), depth=depth + 1)
            case _:
                raise AssertionError("search is no part of this")


def _traversal(clause: Traversal, bound: set[str]) -> Iterator[str]:
    way = ", undirected" if clause.undirected else ""
    match clause.edge_variable:
        case None if clause.hops is not None:
            yield f"traversal with hops{way}"
        case None:
            yield "traversal undirected" if way else "traversal"
        case Variable(name="_"):
            yield "traversal with a wildcard edge"
        case _:
            yield f"traversal with an edge variable{way}"
    if clause.left.wildcard or clause.right.wildcard:
        yield "traversal from a wildcard"
    if clause.left.name == clause.right.name and not clause.left.wildcard:
        yield "traversal to itself"
    ends = {(False, False): "nothing", (True, False): "the left", (False, True): "the right", (True, True): "both"}
    yield f"traversal of {ends[clause.left.name in bound, clause.right.name in bound]} bound"


def _filter(clause: Filter) -> Iterator[str]:
    yield f"filter {clause.operator.value}"
    sides = (clause.left, clause.right)
    given = [side for side in sides if not isinstance(side, PropertyRef)]
    match given:
        case []:
            yield "filter of a property and a property"
        case [Variable()]:
            yield "filter of a property and a parameter"
        case [Now()]:
            yield "filter of a property and now()"
        case [_]:
            yield "filter of a property and a literal"
        case _:
            yield "filter of constants"


def _contains(block: Block) -> Iterator[bool]:
    """Whether each `contains`, written out or as the match of a list's item, looks into a list."""
    for condition in block.conditions:
        if condition.operator is Containment.CONTAINS:
            yield is_list(condition.left)
    for negation in block.negations:
        yield from _contains(negation)


def _directions(block: Block) -> Iterator[str]:
    for link in block.links:
        yield f"direction {link.direction.value}"
        yield "traversal inside a type" if link.edge.source == link.edge.target else "traversal between types"
    for negation in block.negations:
        yield from _directions(negation)


def _tail(read: Read, typed: TypedRead) -> Iterator[str]:
    edges = {variable.name for variable in typed.variables if variable.type.kind == "edge"}
    for projection in read.returns:
        yield from _projection(projection, edges)
    if typed.aggregates:
        keys = sum(not isinstance(projection.value, Aggregate) for projection in read.returns)
        yield f"groups by {('nothing', 'one')[keys] if keys < 2 else 'several'}"
        yield from ("order of groups" for _ in read.order[:1])
    for ordering in read.order:
        yield "order by alias" if isinstance(ordering.key, AliasRef) else "order by property"
        yield "order descending" if ordering.descending else "order ascending"
    yield from ("order by several" for _ in read.order[1:2])
    if read.limit is not None:
        yield "limit" if read.limit else "limit 0"


def _projection(projection: Projection, edges: set[str]) -> Iterator[str]:
    if projection.alias is not None:
        yield "return alias"
    value: Expr = projection.value
    match value:
        case Aggregate(function=function):
            yield f"aggregate {function.value}"
        case PropertyRef(variable=variable):
            yield "return edge property" if variable.name in edges else "return property"
        case Variable(name=name):
            yield "return parameter" if name.startswith("p") and name[1:].isdigit() else "return node"
        case ListLiteral() | Now():
            raise AssertionError("nothing of the kind is made")
        case _:
            yield "return literal"


def _structs(value: object) -> Iterator[str]:
    """The operators and predicates of a plan, wherever they stand in it."""
    match value:
        case tuple():
            for item in value:
                yield from _structs(item)
        case msgspec.Struct():
            name = type(value).__name__
            if isinstance(value, ops.Op):
                yield f"operator {name}"
            elif isinstance(value, ir.Predicate):
                yield f"predicate {name}"
            for field in value.__struct_fields__:
                yield from _structs(getattr(value, field))
        case _:
            return
