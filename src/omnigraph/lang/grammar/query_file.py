"""Productions of a query file: tokens -> `QueryFile`."""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Span
from omnigraph.lang import lexer
from omnigraph.lang.grammar.change import CHANGES, change, matched_changes
from omnigraph.lang.grammar.clause import clause_block
from omnigraph.lang.grammar.cursor import Cursor, near
from omnigraph.lang.grammar.expression import expression, variable
from omnigraph.lang.grammar.shape import parameter_shape
from omnigraph.lang.query import (
    AliasRef,
    Clause,
    Mutation,
    Nearest,
    NullOrder,
    Ordering,
    Parameter,
    Projection,
    Query,
    QueryFile,
    Read,
    Statement,
    Variable,
)
from omnigraph.lang.source import Source, located
from omnigraph.lang.tree import Name

GRAMMAR_CODE: Final = "Q000"

_ANNOTATIONS: Final = ("description", "instruction")
_BEGINNINGS: Final = (
    "a query is `match { .. } return { .. }`, a mutation begins with `insert`, `update` or `delete`; a name is `query name() { .. }`"
)


def parse_queries(text: str, *, name: str = "query.gq") -> QueryFile:
    """The tree of a query file, or a LanguageError with the place of the error. `name` names the text in its message."""
    source = Source(text, name)
    with located(source):
        return query_file(Cursor(source, code=GRAMMAR_CODE))


def query_file(c: Cursor) -> QueryFile:
    """Named queries, or one bare read or mutation."""
    if c.kind == lexer.LOWER and (c.text == "match" or c.text in CHANGES):
        return QueryFile((_anonymous(c),), span=c.span_from(0))
    queries: list[Query] = []
    names: set[str] = set()
    while c.kind != lexer.END:
        queries.append(_query(c, names))
    return QueryFile(tuple(queries), span=c.span_from(0))


def _anonymous(c: Cursor) -> Query:
    start = c.start
    body = _body(c, frozenset())
    if c.kind != lexer.END:
        hint = "a file holds named queries, or one query without a name" if c.at_word("query") else _after_body_hint(c)
        raise c.unexpected("the end of the query", hint=hint)
    return Query(Name("", span=Span(start, start)), (), body, span=c.span_from(start))


def _query(c: Cursor, names: set[str]) -> Query:
    start = c.start
    if not c.accept_word("query"):
        raise c.unexpected("`query`", hint=_BEGINNINGS, options=("query", "match", *CHANGES))
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
    start = c.start
    statements: list[Statement] = []
    while not statements or c.kind not in ("}", lexer.END):
        if not c.at_word("match"):
            statements.append(change(c))
            continue
        match_start = c.start
        c.advance()
        clauses = clause_block(c, parameters)
        if not statements and c.accept_word("return"):
            return _read(c, clauses, start)
        if c.at_word("return"):
            raise c.unexpected("a change", hint="a query either reads or changes the graph")
        statements.append(matched_changes(c, clauses, match_start))
    return Mutation(tuple(statements), span=c.span_from(start))


# reads


def _read(c: Cursor, clauses: tuple[Clause, ...], start: int) -> Read:
    distinct = c.accept_word("distinct")
    if c.kind == lexer.LOWER:
        raise c.unexpected("`{`", options=("distinct",))
    projections = _projections(c)
    order = _orderings(c) if c.accept_word("order") else ()
    skip = _count(c, "the number of rows to skip") if c.accept_word("skip") else None
    limit = _count(c, "the greatest number of rows") if c.accept_word("limit") else None
    return Read(clauses, projections, distinct, order, skip, limit, span=c.span_from(start))


def _count(c: Cursor, what: str) -> int | Variable:
    return variable(c) if c.kind == lexer.VARIABLE else c.integer(what)


def _projections(c: Cursor) -> tuple[Projection, ...]:
    c.expect("{")
    projections = [_projection(c)]
    while not c.accept("}"):
        projections.append(_projection(c))
    return tuple(projections)


def _projection(c: Cursor) -> Projection:
    start = c.start
    c.begin_part()
    projected = expression(c)
    if isinstance(projected, AliasRef) and projected.name == "distinct" and c.kind == lexer.VARIABLE:
        raise c.unexpected("`,` or `}`", hint="`distinct` stands before the braces: `return distinct { .. }`")
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
    c.begin_part()
    key = expression(c)
    if isinstance(key, Nearest):
        if c.at_word("asc") or c.at_word("desc"):
            raise c.unexpected("`,` or `}`", hint="`nearest` has no direction: the nearest come first")
        return Ordering(key, span=c.span_from(start))
    descending = c.accept_word("desc")
    if not descending:
        c.accept_word("asc")
    nulls = _nulls(c) if c.accept_word("nulls") else None
    return Ordering(key, descending, nulls, span=c.span_from(start))


def _nulls(c: Cursor) -> NullOrder:
    for order in NullOrder:
        if c.accept_word(order.value):
            return order
    raise c.unexpected("`first` or `last`", options=tuple(NullOrder))


def _after_body_hint(c: Cursor) -> str | None:
    if c.kind != lexer.LOWER:
        return None
    if c.text in ("order", "skip", "limit"):
        return "the parts of a read come in the order match, return, order, skip, limit"
    if c.text in CHANGES:
        return "a query either reads or changes the graph"
    return near(c.text, ("order", "skip", "limit"))
