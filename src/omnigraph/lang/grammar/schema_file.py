"""Productions of the schema language: tokens -> `Schema`.

Errors that one declaration shows by itself are raised here. The catalog finds those that need another declaration:
unknown names, duplicates, misplaced annotations.
"""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Kind, LanguageError, Span
from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import MAX_INTEGER, MAX_UNSIGNED, Cursor, near
from omnigraph.lang.grammar.shape import property_shape
from omnigraph.lang.schema import (
    Annotation,
    Argument,
    Cardinality,
    Check,
    Constraint,
    Declaration,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Option,
    Property,
    Range,
    Schema,
    Unique,
)
from omnigraph.lang.source import Source, located
from omnigraph.lang.tree import Name

GRAMMAR_CODE: Final = "S01"

_DECLARATIONS: Final = ("interface", "node", "edge")
_COLUMN_CONSTRAINTS: Final[dict[str, type[Key | Unique | Index]]] = {"key": Key, "unique": Unique, "index": Index}
_CONSTRAINTS: Final = (*_COLUMN_CONSTRAINTS, "range", "check")
MAX_CHARACTERS: Final = 4 << 20
"""The greatest length of a schema's text. It has room for the greatest number of types and properties."""
_LITERALS: Final = (lexer.STRING, lexer.INTEGER, lexer.FLOAT)
_ARGUMENTS: Final = (*_LITERALS, lexer.LOWER, "-", "..")
"""Tokens that may begin a constraint argument. Any other token is a grammar error, not an argument of the wrong kind."""


def parse_schema(text: str, *, name: str = "schema.pg") -> Schema:
    """The tree of a schema, or a LanguageError with the place of the error. `name` names the text in its message."""
    source = Source(text, name)
    with located(source):
        if len(text) > MAX_CHARACTERS:
            raise LanguageError(
                Kind.SYNTAX,
                f"the schema has {len(text)} characters; at most {MAX_CHARACTERS} are allowed",
                span=Span(MAX_CHARACTERS, MAX_CHARACTERS + 1),
                code=GRAMMAR_CODE,
                resource="schema_characters",
                limit=MAX_CHARACTERS,
                actual=len(text),
            )
        return schema(Cursor(source, code=GRAMMAR_CODE))


def schema(c: Cursor) -> Schema:
    declarations: list[Declaration] = []
    while c.kind != lexer.END:
        if c.at_word("node"):
            declarations.append(_node(c))
        elif c.at_word("edge"):
            declarations.append(_edge(c))
        elif c.at_word("interface"):
            declarations.append(_interface(c))
        else:
            raise c.unexpected("`interface`, `node` or `edge`", options=_DECLARATIONS)
    return Schema(tuple(declarations), span=c.span_from(0))


# declarations


def _interface(c: Cursor) -> InterfaceType:
    start = c.start
    c.advance()
    name = c.upper_name("an interface name")
    c.expect("{", hint="an interface has no annotations and implements nothing")
    properties: list[Property] = []
    while not c.accept("}"):
        properties.append(_property(c, hint="an interface holds properties only, no constraints"))
    return InterfaceType(name, tuple(properties), span=c.span_from(start))


def _node(c: Cursor) -> NodeType:
    start = c.start
    c.advance()
    name = c.upper_name("a node type name")
    annotations = _annotations(c)
    implements: list[Name] = []
    if c.accept_word("implements"):
        implements.append(c.upper_name("an interface name"))
        while c.accept(","):
            implements.append(c.upper_name("an interface name"))
    if c.kind != "{":
        raise c.unexpected("`{`", hint=_type_level_hint(c), options=() if implements else ("implements",))
    properties, constraints = _body(c)
    return NodeType(name, annotations, tuple(implements), properties, constraints, span=c.span_from(start))


def _edge(c: Cursor) -> EdgeType:
    start = c.start
    c.advance()
    name = c.upper_name("an edge type name")
    c.expect(":", hint="an edge names its ends: `edge Knows: Person -> Person`")
    source = c.upper_name("the source type")
    c.expect("->")
    target = c.upper_name("the target type")
    cardinality = _cardinality(c) if _at_annotation_call(c, "card") else None
    annotations = _annotations(c)
    if c.kind == lexer.ANNOTATION:
        raise c.unexpected("`{` or the next declaration", hint=_type_level_hint(c))
    properties, constraints = _body(c) if c.kind == "{" else ((), ())
    return EdgeType(name, source, target, cardinality, annotations, properties, constraints, span=c.span_from(start))


def _cardinality(c: Cursor) -> Cardinality:
    start = c.start
    c.advance()
    c.advance()
    low = c.integer("the least number of edges")
    c.expect("..", hint="a cardinality is a range: `@card(0..1)`, `@card(1..)`")
    high = c.integer("the greatest number of edges") if c.kind == lexer.INTEGER else None
    c.expect(")")
    if high is not None and low > high:
        raise c.refused_from(start, f"cardinality min ({low}) exceeds max ({high})", code="S29")
    return Cardinality(low, high, span=c.span_from(start))


def _body(c: Cursor) -> tuple[tuple[Property, ...], tuple[Constraint, ...]]:
    properties: list[Property] = []
    constraints: list[Constraint] = []
    c.expect("{")
    while not c.accept("}"):
        if _at_constraint(c):
            constraints.append(_constraint(c))
        elif c.kind == lexer.ANNOTATION:
            raise c.unexpected(
                "a property or a constraint", hint="the constraints are @key, @unique, @index, @range, @check", options=_CONSTRAINTS
            )
        else:
            properties.append(_property(c, hint=None))
    return tuple(properties), tuple(constraints)


def _property(c: Cursor, *, hint: str | None) -> Property:
    start = c.start
    if c.kind == ",":
        hint = "properties are separated by whitespace, not by commas"
    name = c.lower_name("a property or `}`", hint=hint)
    c.expect(":", hint="a property has a type: `title: String`")
    shape = property_shape(c)
    nullable = c.accept("?")
    annotations = _annotations(c)
    return Property(name, shape, nullable, annotations, span=c.span_from(start))


# annotations


def _annotations(c: Cursor) -> tuple[Annotation, ...]:
    """Annotations up to the next token of another kind. `@key(` and the other constraints begin a body constraint instead."""
    found: list[Annotation] = []
    while c.kind == lexer.ANNOTATION and not _at_constraint(c):
        found.append(_annotation(c))
    return tuple(found)


def _annotation(c: Cursor) -> Annotation:
    start, name = c.start, c.text
    c.advance()
    if not c.accept("("):
        return Annotation(name, span=c.span_from(start))
    value = _argument(c, names=True)
    options: list[Option] = []
    while c.accept(","):
        if c.kind != lexer.LOWER or c.next_kind != "=":
            raise c.unexpected("an option `key=literal`", hint=_annotation_hint(name))
        option_start = c.start
        key = c.lower_name("an option")
        c.expect("=")
        literal = _argument(c, names=False)
        options.append(Option(key, literal, span=c.span_from(option_start)))
    if c.kind != ")":
        raise c.unexpected("`,` or `)`", hint=_annotation_hint(name))
    c.advance()
    return Annotation(name, value, tuple(options), span=c.span_from(start))


def _argument(c: Cursor, *, names: bool) -> Argument:
    """A literal, or where `names` allows it a bare word. Kept as text, numbers as written."""
    start, text, kind = c.start, c.text, c.kind
    if kind == lexer.STRING:
        text = c.string("a string")
    elif kind == lexer.INTEGER:
        c.integer("an integer", limit=MAX_UNSIGNED)
    elif kind == lexer.FLOAT:
        c.float_()
    elif kind == lexer.LOWER and (names or text in ("true", "false")):
        c.advance()
    else:
        raise c.unexpected(
            "a literal or a name" if names else "a literal", hint="write other values as a string" if kind == lexer.UPPER else None
        )
    return Argument(text, kind == lexer.STRING, span=c.span_from(start))


# constraints


def _at_annotation_call(c: Cursor, name: str) -> bool:
    return c.kind == lexer.ANNOTATION and c.text == name and c.next_kind == "("


def _at_constraint(c: Cursor) -> bool:
    return c.kind == lexer.ANNOTATION and c.text in _CONSTRAINTS and c.next_kind == "("


def _constraint(c: Cursor) -> Constraint:
    start, name = c.start, c.text
    c.advance()
    c.advance()
    constraint: Constraint
    if name == "range":
        property_ = _column(c)
        low, high = _bounds(c)
        _last_argument(c, "@range requires property name and bounds (min..max)", code="S17")
        constraint = Range(property_, low, high, span=c.span_from(start))
    elif name == "check":
        property_ = _column(c)
        pattern = _pattern(c)
        _last_argument(c, "@check requires property name and pattern", code="S18")
        constraint = Check(property_, pattern, span=c.span_from(start))
    else:
        columns = [_column(c)]
        while c.accept(","):
            columns.append(_column(c))
        c.expect(")")
        constraint = _COLUMN_CONSTRAINTS[name](tuple(columns), span=c.span_from(start))
    return constraint


def _column(c: Cursor) -> Name:
    if c.kind != lexer.LOWER and c.kind in _ARGUMENTS:
        raise c.refused("expected property name in constraint", code="S19", hint="name properties without quotes")
    return c.lower_name("a property name")


def _bounds(c: Cursor) -> tuple[int | float | None, int | float | None]:
    """`, low..high` with at least one end. Raises S17 for any other argument of `@range`."""
    if c.kind == ")":
        raise c.refused("@range requires property name and bounds (min..max)", code="S17")
    c.expect(",")
    start = c.start
    if c.kind in (lexer.STRING, lexer.LOWER):
        raise c.refused("expected range bounds (min..max) in @range constraint", code="S17")
    low = _bound(c) if c.kind != ".." else None
    if not c.accept(".."):
        raise c.refused_from(
            start, "expected range bounds (min..max) in @range constraint", code="S17", hint="either end may be left open: `1888..`"
        )
    high = None if c.kind == ")" and low is not None else _bound(c)
    return low, high


def _bound(c: Cursor) -> int | float:
    sign = -1 if c.accept("-") else 1
    if c.kind == lexer.FLOAT:
        return sign * c.float_()
    return sign * c.integer("a number", limit=MAX_UNSIGNED if sign > 0 else MAX_INTEGER + 1)


def _pattern(c: Cursor) -> str:
    if c.kind == ")":
        raise c.refused("@check requires property name and pattern", code="S18")
    c.expect(",")
    if c.kind != lexer.STRING and c.kind in _ARGUMENTS:
        raise c.refused("expected string argument in constraint", code="S18", hint='a pattern is a string: `@check(slug, "^[a-z]+$")`')
    return c.string("a pattern")


def _last_argument(c: Cursor, message: str, *, code: str) -> None:
    if c.kind == ",":
        raise c.refused(message, code=code)
    c.expect(")")


def _type_level_hint(c: Cursor) -> str | None:
    if _at_constraint(c):
        return f"`@{c.text}(..)` is a constraint and belongs inside the braces"
    return None


def _annotation_hint(name: str) -> str | None:
    """For `@uniqe(a, b)`: an annotation's second argument must be `key=literal`, a constraint's need not."""
    if name == "card":
        return "`@card(..)` stands directly after the target type of an edge"
    return near(name, _CONSTRAINTS, sign="@")
