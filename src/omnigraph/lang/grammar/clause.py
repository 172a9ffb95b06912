"""Productions of a match block: bindings, traversals, paths, conditions and the blocks inside it."""

from __future__ import annotations

from omnigraph.lang import lexer
from omnigraph.lang.grammar.condition import TEST_WORDS, condition
from omnigraph.lang.grammar.cursor import Cursor
from omnigraph.lang.grammar.expression import value, variable
from omnigraph.lang.query import Binding, Clause, Either, Exists, Hops, Negation, Optional, Path, PropertyMatch, Traversal
from omnigraph.lang.tree import Name


def clause_block(c: Cursor, parameters: frozenset[str]) -> tuple[Clause, ...]:
    """`{ clause clause ... }`, at least one."""
    c.expect("{")
    clauses = [_clause(c, parameters)]
    while not c.accept("}"):
        clauses.append(_clause(c, parameters))
    return tuple(clauses)


def _clause(c: Cursor, parameters: frozenset[str]) -> Clause:
    c.begin_part()
    if c.kind == lexer.VARIABLE:
        if c.next_kind == ":":
            return _binding(c)
        if _at_traversal(c, parameters):
            return _traversal(c)
    elif c.kind == lexer.LOWER:
        if c.next_kind == "{" and c.text in ("not", "optional", "exists", "either"):
            return _inner_block(c, parameters)
        if c.text == "path" and c.next_kind == lexer.VARIABLE:
            return _path(c)
    elif c.kind in (",", "}"):
        raise c.unexpected("a clause", hint="clauses are separated by whitespace, not by commas" if c.kind == "," else None)
    return condition(c)


def _at_traversal(c: Cursor, parameters: frozenset[str]) -> bool:
    """A variable and a word begin a traversal, unless they can only begin a test or the variable is a parameter."""
    match c.next_kind:
        case lexer.VARIABLE | lexer.UPPER:
            return True  # the edge name production rejects a capital letter
        case lexer.LOWER:
            return c.next_text not in TEST_WORDS or not _at_test(c, parameters)
        case "<":
            return _at_undirected(c)
        case _:
            return False


def _at_test(c: Cursor, parameters: frozenset[str]) -> bool:
    """A variable and a word that may follow the left side of a test: whether a test it is.

    It is if what follows is no end of a traversal (`is null`, `in [`, `not in`, a literal, `$v.property`), or if the variable
    is a parameter.
    """
    kind, text = c.ahead(2)
    value = kind in (lexer.STRING, lexer.INTEGER, lexer.FLOAT) or (kind == lexer.VARIABLE and c.ahead(3)[0] == ".")
    match c.next_text:
        case "is":
            return kind == lexer.LOWER and text in ("null", "not")
        case "not":
            return kind == lexer.LOWER and text == "in"
        case "in":
            return kind == "[" or c.text in parameters
        case "and" | "or":
            # An edge may have these names; only what can be a Bool is joined.
            return value or kind == "(" or (c.text in parameters and (kind != lexer.VARIABLE or text in parameters))
        case _:
            return value or c.text in parameters


def _at_undirected(c: Cursor) -> bool:
    """`<edge>`, `<edge|edge>`, also where only the `>` is missing."""
    at = 2
    while c.ahead(at)[0] == lexer.LOWER:
        following = c.ahead(at + 1)[0]
        if following != "|":
            return following in (">", lexer.VARIABLE)
        at += 2
    return False


def _inner_block(c: Cursor, parameters: frozenset[str]) -> Negation | Optional | Exists | Either:
    start, word = c.start, c.text
    c.enter()
    c.advance()
    clauses = clause_block(c, parameters)
    blocks = [clauses]
    if word == "either":
        c.expect_word("or")
        blocks.append(clause_block(c, parameters))
        while c.at_word("or") and c.next_kind == "{":
            c.advance()
            blocks.append(clause_block(c, parameters))
    c.leave()
    span = c.span_from(start)
    match word:
        case "not":
            return Negation(clauses, span=span)
        case "optional":
            return Optional(clauses, span=span)
        case "exists":
            return Exists(clauses, span=span)
        case _:
            return Either(tuple(blocks), span=span)


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


def _path(c: Cursor) -> Path:
    start = c.start
    c.advance()
    bound = variable(c)
    c.expect("=", hint="a path is written `path $w = $a knows{1,5} $b`")
    traversal = _traversal(c)
    return Path(bound, traversal, span=c.span_from(start))


def _traversal(c: Cursor) -> Traversal:
    start = c.start
    left = variable(c)
    edge_variable = None
    if c.kind == lexer.VARIABLE:
        edge_variable = variable(c)
        c.expect(":", hint="an edge stands between two variables: `$a knows $b`, `$a $r:knows $b`")
    undirected = c.accept("<")
    edges = [_edge_name(c)]
    while c.accept("|"):
        edges.append(_edge_name(c))
    if undirected:
        c.expect(">")
    hops = _hops(c) if c.kind == "{" else None
    right = variable(c, "the variable at the other end of the edge")
    return Traversal(left, tuple(edges), right, edge_variable, undirected, hops, span=c.span_from(start))


def _edge_name(c: Cursor) -> Name:
    if c.at_word("not"):
        raise c.unexpected("an edge name", hint="a negation is a clause of its own: `not { .. }`")
    return c.lower_name("an edge name")


def _hops(c: Cursor) -> Hops:
    """`{low,high}`, `{low,}`, or `{n}` for exactly that many."""
    start = c.start
    c.advance()
    low = c.integer("the least number of hops")
    if c.accept("}"):
        return Hops(low, low, span=c.span_from(start))
    c.expect(",", hint=f"bounds have two ends: `{{{low},{low}}}`")
    high = c.integer("the greatest number of hops") if c.kind == lexer.INTEGER else None
    c.expect("}")
    return Hops(low, high, span=c.span_from(start))
