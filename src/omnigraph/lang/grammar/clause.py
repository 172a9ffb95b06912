"""Productions of a match block: bindings, traversals, filters, text searches and negations."""

from __future__ import annotations

from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import Cursor, near
from omnigraph.lang.grammar.expression import FUNCTIONS, expression, value, variable
from omnigraph.lang.query import (
    AliasRef,
    Binding,
    Clause,
    Comparison,
    Containment,
    Expr,
    Filter,
    Fuzzy,
    Hops,
    MatchText,
    Negation,
    PropertyMatch,
    Search,
    Traversal,
)
from omnigraph.lang.tree import Name

COMPARISONS: Final = {comparison.value: comparison for comparison in Comparison}
_CONTAINMENTS: Final = {containment.value: containment for containment in Containment}


def clause_block(c: Cursor, parameters: frozenset[str]) -> tuple[Clause, ...]:
    """`{ clause clause ... }`, at least one."""
    c.expect("{")
    clauses = [_clause(c, parameters)]
    while not c.accept("}"):
        clauses.append(_clause(c, parameters))
    return tuple(clauses)


def _clause(c: Cursor, parameters: frozenset[str]) -> Clause:
    if c.kind == lexer.VARIABLE:
        if c.next_kind == ":":
            return _binding(c)
        if _at_traversal(c, parameters):
            return _traversal(c)
    elif c.at_word("not") and c.next_kind == "{":
        return _negation(c, parameters)
    elif c.kind in (",", "}"):
        raise c.unexpected("a clause", hint="clauses are separated by whitespace, not by commas" if c.kind == "," else None)
    return _filter_or_search(c)


def _at_traversal(c: Cursor, parameters: frozenset[str]) -> bool:
    """A variable and a word begin a traversal, unless the variable is a parameter and the word an operator."""
    match c.next_kind:
        case lexer.VARIABLE | lexer.UPPER:
            return True  # the edge name production rejects a capital letter
        case lexer.LOWER:
            return not (c.text in parameters and c.next_text in _CONTAINMENTS)
        case "<":
            return c.kinds[c.consumed + 2 : c.consumed + 4] == [lexer.LOWER, ">"]
        case _:
            return False


def _negation(c: Cursor, parameters: frozenset[str]) -> Negation:
    start = c.start
    c.enter()
    c.advance()
    clauses = clause_block(c, parameters)
    c.leave()
    return Negation(clauses, span=c.span_from(start))


def _binding(c: Cursor) -> Binding:
    start = c.start
    bound = variable(c)
    c.advance()
    type_name = c.upper_name("a node type name")
    matches: list[PropertyMatch] = []
    if c.accept("{"):
        if c.kind == "}":
            raise c.unexpected("a property match", hint="leave out the empty braces")
        while not c.accept("}"):
            matches.append(_property_match(c))
            if not c.accept(",") and c.kind != "}":
                raise c.unexpected("`,` or `}`")
    return Binding(bound, type_name, tuple(matches), span=c.span_from(start))


def _property_match(c: Cursor) -> PropertyMatch:
    start = c.start
    name = c.lower_name("a property name")
    c.expect(":", hint="a match is written `{ property: value }`, other comparisons as a clause: `$v.property > 1`")
    matched = value(c)
    return PropertyMatch(name, matched, span=c.span_from(start))


def _traversal(c: Cursor) -> Traversal:
    start = c.start
    left = variable(c)
    edge_variable = None
    if c.kind == lexer.VARIABLE:
        edge_variable = variable(c)
        c.expect(":", hint="an edge stands between two variables: `$a knows $b`, `$a $r:knows $b`")
    undirected = c.accept("<")
    edge = _edge_name(c)
    if undirected:
        c.expect(">")
    hops = _hops(c) if c.kind == "{" else None
    right = variable(c, "the variable at the other end of the edge")
    return Traversal(left, edge, right, edge_variable, undirected, hops, span=c.span_from(start))


def _edge_name(c: Cursor) -> Name:
    if c.at_word("not"):
        raise c.unexpected("an edge name", hint="a negation is a clause of its own: `not { .. }`")
    return c.lower_name("an edge name")


def _hops(c: Cursor) -> Hops:
    start = c.start
    c.advance()
    low = c.integer("the least number of hops")
    c.expect(",", hint=f"bounds have two ends: `{{{low},{low}}}`")
    high = c.integer("the greatest number of hops") if c.kind == lexer.INTEGER else None
    c.expect("}")
    return Hops(low, high, span=c.span_from(start))


def _filter_or_search(c: Cursor) -> Clause:
    start = c.start
    left = expression(c)
    operator = COMPARISONS.get(c.kind) or (_CONTAINMENTS.get(c.text) if c.kind == lexer.LOWER else None)
    if operator is not None:
        c.advance()
        right = expression(c)
        return Filter(left, operator, right, span=c.span_from(start))
    if isinstance(left, Search | Fuzzy | MatchText):
        return left
    raise c.unexpected("a comparison", hint=_clause_hint(left), options=tuple(_CONTAINMENTS))


def _clause_hint(left: Expr) -> str | None:
    """The hint for a clause that begins with a bare word."""
    if not isinstance(left, AliasRef):
        return None
    if left.name in ("and", "or"):
        return "clauses stand side by side and must all hold; there is no `or`"
    return near(left.name, ("not", *FUNCTIONS))
