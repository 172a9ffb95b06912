"""Productions of a query file: tokens -> `QueryFile`."""

from __future__ import annotations

from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.clause import COMPARISONS, clause_block
from omnigraph.lang.grammar.cursor import Cursor, near
from omnigraph.lang.grammar.expression import expression, value
from omnigraph.lang.grammar.shape import parameter_shape
from omnigraph.lang.query import (
    Assignment,
    Delete,
    Insert,
    Mutation,
    Nearest,
    Ordering,
    Parameter,
    Predicate,
    Projection,
    Query,
    QueryFile,
    Read,
    Statement,
    Update,
)
from omnigraph.lang.source import Source, located
from omnigraph.lang.tree import Name

GRAMMAR_CODE: Final = "Q000"

_STATEMENTS: Final = ("insert", "update", "delete")
_ANNOTATIONS: Final = ("description", "instruction")


def parse_queries(text: str, *, name: str = "query.gq") -> QueryFile:
    """The tree of a query file, or a LanguageError with the place of the error. `name` names the text in its message."""
    source = Source(text, name)
    with located(source):
        return query_file(Cursor(source, code=GRAMMAR_CODE))


def query_file(c: Cursor) -> QueryFile:
    queries: list[Query] = []
    names: set[str] = set()
    while c.kind != lexer.END:
        queries.append(_query(c, names))
    return QueryFile(tuple(queries), span=c.span_from(0))


def _query(c: Cursor, names: set[str]) -> Query:
    start = c.start
    c.expect_word("query")
    name_start = c.start
    name = c.lower_name("a query name")
    if name.text in names:
        raise c.refused_from(name_start, f"duplicate query '{name}'")
    names.add(name.text)
    parameters = _parameters(c)
    annotations = _annotations(c, name.text)
    c.expect("{")
    body = _body(c, frozenset(parameter.name.text for parameter in parameters))
    c.expect("}", hint=_after_body_hint(c))
    return Query(name, parameters, body, annotations.get("description"), annotations.get("instruction"), span=c.span_from(start))


def _parameters(c: Cursor) -> tuple[Parameter, ...]:
    c.expect("(", hint="a query without parameters is written `query name() { .. }`")
    parameters: list[Parameter] = []
    names: set[str] = set()
    if c.kind != ")":
        parameters.append(_parameter(c, names))
        while c.accept(","):
            parameters.append(_parameter(c, names))
    c.expect(")")
    return tuple(parameters)


def _parameter(c: Cursor, names: set[str]) -> Parameter:
    start, text = c.start, c.text
    if c.kind != lexer.VARIABLE:
        raise c.unexpected("a parameter", hint=f"parameters start with `$`: `${text}: String`" if c.kind == lexer.LOWER else None)
    c.advance()
    name = Name(text, span=c.span_from(start))
    if text in names:
        raise c.refused_from(start, f"duplicate parameter `${text}`")
    names.add(text)
    c.expect(":", hint=f"a parameter has a type: `${text}: String`")
    shape = parameter_shape(c)
    nullable = c.accept("?")
    return Parameter(name, shape, nullable, span=c.span_from(start))


def _annotations(c: Cursor, query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    while c.kind == lexer.ANNOTATION:
        name = c.text
        if name not in _ANNOTATIONS:
            raise c.unexpected("`@description`, `@instruction` or `{`", options=_ANNOTATIONS)
        if name in found:
            raise c.refused(f"query '{query}' declares @{name} multiple times")
        c.advance()
        c.expect("(")
        found[name] = c.string("a string")
        c.expect(")")
    return found


def _body(c: Cursor, parameters: frozenset[str]) -> Read | Mutation:
    if c.at_word("match"):
        return _read(c, parameters)
    start = c.start
    statements = [_statement(c)]
    while c.kind != "}":
        statements.append(_statement(c))
    return Mutation(tuple(statements), span=c.span_from(start))


# reads


def _read(c: Cursor, parameters: frozenset[str]) -> Read:
    start = c.start
    c.advance()
    clauses = clause_block(c, parameters)
    c.expect_word("return")
    projections = _projections(c)
    order = _orderings(c) if c.accept_word("order") else ()
    limit = c.integer("the greatest number of rows") if c.accept_word("limit") else None
    return Read(clauses, projections, order, limit, span=c.span_from(start))


def _projections(c: Cursor) -> tuple[Projection, ...]:
    c.expect("{")
    projections = [_projection(c)]
    while not c.accept("}"):
        projections.append(_projection(c))
    return tuple(projections)


def _projection(c: Cursor) -> Projection:
    start = c.start
    projected = expression(c)
    alias = c.lower_name("an alias") if c.accept_word("as") else None
    projection = Projection(projected, alias, span=c.span_from(start))
    c.accept(",")
    return projection


def _orderings(c: Cursor) -> tuple[Ordering, ...]:
    c.expect("{")
    orderings = [_ordering(c)]
    while c.accept(","):
        orderings.append(_ordering(c))
    c.expect("}", hint="sort keys are separated by commas")
    return tuple(orderings)


def _ordering(c: Cursor) -> Ordering:
    start = c.start
    key = expression(c)
    if isinstance(key, Nearest):
        if c.at_word("asc") or c.at_word("desc"):
            raise c.unexpected("`,` or `}`", hint="`nearest` has no direction: the nearest come first")
        return Ordering(key, span=c.span_from(start))
    descending = c.accept_word("desc")
    if not descending:
        c.accept_word("asc")
    return Ordering(key, descending, span=c.span_from(start))


def _after_body_hint(c: Cursor) -> str | None:
    if c.kind != lexer.LOWER:
        return None
    if c.text in ("order", "limit"):
        return "the parts of a read come in the order match, return, order, limit"
    if c.text in _STATEMENTS:
        return "a query either reads or changes the graph"
    return near(c.text, ("order", "limit"))


# mutations


def _statement(c: Cursor) -> Statement:
    start = c.start
    if c.accept_word("insert"):
        type_name = c.upper_name("a node or edge type name")
        assignments = _assignments(c)
        return Insert(type_name, assignments, span=c.span_from(start))
    if c.accept_word("update"):
        type_name = c.upper_name("a node type name")
        c.expect_word("set")
        assignments = _assignments(c)
        where = _predicate(c)
        return Update(type_name, assignments, where, span=c.span_from(start))
    if c.accept_word("delete"):
        type_name = c.upper_name("a node or edge type name")
        where = _predicate(c)
        return Delete(type_name, where, span=c.span_from(start))
    raise c.unexpected("`match`, `insert`, `update` or `delete`", options=("match", *_STATEMENTS))


def _assignments(c: Cursor) -> tuple[Assignment, ...]:
    c.expect("{")
    assignments = [_assignment(c)]
    while not c.accept("}"):
        assignments.append(_assignment(c))
    return tuple(assignments)


def _assignment(c: Cursor) -> Assignment:
    start = c.start
    name = c.lower_name("a property name")
    c.expect(":", hint="an assignment is written `property: value`")
    assigned = value(c)
    assignment = Assignment(name, assigned, span=c.span_from(start))
    c.accept(",")
    return assignment


def _predicate(c: Cursor) -> Predicate:
    c.expect_word("where")
    start = c.start
    name = c.lower_name("a property name", hint="name the property without a variable: `where slug = $slug`")
    comparison = COMPARISONS.get(c.kind)
    if comparison is None:
        only = "`contains` and `starts_with` are for reads" if c.at_word("contains") or c.at_word("starts_with") else None
        raise c.unexpected("one of = != < <= > >=", hint=only)
    c.advance()
    compared = value(c)
    return Predicate(name, comparison, compared, span=c.span_from(start))
