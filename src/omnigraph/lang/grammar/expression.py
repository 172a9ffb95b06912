"""Productions shared by reads and mutations: literals, values, expressions and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import MAX_INTEGER, MAX_UNSIGNED, Cursor
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Bm25,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    Expr,
    FloatLiteral,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    Literal,
    MatchText,
    Nearest,
    Now,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Value,
    Variable,
)

_NO_NULL: Final = "there is no null literal; pass null through a nullable parameter"


def variable(c: Cursor, what: str = "a variable") -> Variable:
    if c.kind != lexer.VARIABLE:
        raise c.unexpected(what, hint=f"variables start with `$`: `${c.text}`" if c.kind == lexer.LOWER else None)
    start, name = c.start, c.text
    c.advance()
    return Variable(name, span=c.span_from(start))


def value(c: Cursor) -> Value:
    """A value that a property is matched with or set to: a literal, a parameter or `now()`."""
    if c.kind == lexer.VARIABLE:
        return variable(c)
    if c.at_call("now"):
        return _now(c)
    return literal(c)


def literal(c: Cursor) -> Literal:
    start = c.start
    match c.kind:
        case lexer.STRING:
            text = c.string("a string")
            return StringLiteral(text, span=c.span_from(start))
        case lexer.INTEGER:
            number = c.integer("an integer", limit=MAX_UNSIGNED)
            return IntegerLiteral(number, span=c.span_from(start))
        case lexer.FLOAT:
            real = c.float_()
            return FloatLiteral(real, span=c.span_from(start))
        case "-":
            return _negative(c)
        case "[":
            return _list(c)
        case lexer.LOWER if c.text in ("true", "false"):
            true = c.text == "true"
            c.advance()
            return BoolLiteral(true, span=c.span_from(start))
        case lexer.LOWER if c.text in ("date", "datetime") and c.next_kind == "(":
            return _date(c)
    raise c.unexpected("a value", hint=_value_hint(c))


def _negative(c: Cursor) -> Literal:
    start = c.start
    c.advance()
    if c.kind == lexer.FLOAT:
        real = c.float_()
        return FloatLiteral(-real, span=c.span_from(start))
    number = c.integer("a number", limit=MAX_INTEGER + 1)
    return IntegerLiteral(-number, span=c.span_from(start))


def _list(c: Cursor) -> ListLiteral:
    start = c.start
    c.enter()
    c.advance()
    items: list[Literal] = []
    if c.kind != "]":
        items.append(literal(c))
        while c.accept(","):
            items.append(literal(c))
    c.expect("]")
    c.leave()
    return ListLiteral(tuple(items), span=c.span_from(start))


def _date(c: Cursor) -> DateLiteral | DateTimeLiteral:
    start = c.start
    kind = DateLiteral if c.text == "date" else DateTimeLiteral
    c.advance()
    c.advance()
    text = c.string('a string such as "1979-05-25"')
    c.expect(")")
    return kind(text, span=c.span_from(start))


def _value_hint(c: Cursor) -> str | None:
    if c.kind == "=":
        return "equality is a single `=`"
    if c.at_word("null"):
        return _NO_NULL
    if c.kind in (lexer.LOWER, lexer.UPPER):
        return f'strings are written in quotes: `"{c.text}"`'
    return None


def expression(c: Cursor) -> Expr:
    """Anything that has a value in a read."""
    start = c.start
    if c.kind == lexer.VARIABLE:
        bound = variable(c)
        if not c.accept("."):
            return bound
        name = c.lower_name("a property name")
        return PropertyRef(bound, name, span=c.span_from(start))
    if c.kind != lexer.LOWER or c.text in ("true", "false"):
        return literal(c)
    if c.next_kind != "(":
        word = c.text
        c.advance()
        return AliasRef(word, span=c.span_from(start))
    if c.text in ("date", "datetime"):
        return literal(c)
    return _call(c)


def _call(c: Cursor) -> Expr:
    production = _CALLS.get(c.text)
    if production is None:
        raise c.unexpected("a function", hint=f"the functions are {', '.join(FUNCTIONS)}", options=FUNCTIONS)
    c.enter()
    call = production(c)
    c.leave()
    return call


def _open(c: Cursor) -> int:
    """Step over a function's name and parenthesis. Returns the offset of the name."""
    start = c.start
    c.advance()
    c.advance()
    return start


def _now(c: Cursor) -> Now:
    start = _open(c)
    c.expect(")")
    return Now(span=c.span_from(start))


def _nearest(c: Cursor) -> Nearest:
    start = _open(c)
    field_start = c.start
    bound = variable(c, "a vector property `$v.property`")
    c.expect(".", hint="`nearest` ranks by a property: `nearest($v.embedding, $q)`")
    field = PropertyRef(bound, c.lower_name("a property name"), span=c.span_from(field_start))
    c.expect(",")
    query = expression(c)
    c.expect(")")
    return Nearest(field, query, span=c.span_from(start))


def _field_and_query(c: Cursor) -> tuple[Expr, Expr]:
    field = expression(c)
    c.expect(",")
    return field, expression(c)


def _search(c: Cursor) -> Search:
    start = _open(c)
    field, query = _field_and_query(c)
    c.expect(")")
    return Search(field, query, span=c.span_from(start))


def _match_text(c: Cursor) -> MatchText:
    start = _open(c)
    field, query = _field_and_query(c)
    c.expect(")")
    return MatchText(field, query, span=c.span_from(start))


def _bm25(c: Cursor) -> Bm25:
    start = _open(c)
    field, query = _field_and_query(c)
    c.expect(")")
    return Bm25(field, query, span=c.span_from(start))


def _fuzzy(c: Cursor) -> Fuzzy:
    start = _open(c)
    field, query = _field_and_query(c)
    max_edits = expression(c) if c.accept(",") else None
    c.expect(")")
    return Fuzzy(field, query, max_edits, span=c.span_from(start))


def _rrf(c: Cursor) -> Rrf:
    start = _open(c)
    first = _ranking(c)
    c.expect(",")
    second = _ranking(c)
    k = expression(c) if c.accept(",") else None
    c.expect(")")
    return Rrf(first, second, k, span=c.span_from(start))


def _ranking(c: Cursor) -> Nearest | Bm25:
    if c.at_call("nearest"):
        return _nearest(c)
    if c.at_call("bm25"):
        return _bm25(c)
    raise c.unexpected("`nearest(..)` or `bm25(..)`", options=("nearest", "bm25"))


def _aggregate(c: Cursor) -> Aggregate:
    function = AggregateFunction(c.text)
    start = _open(c)
    argument = expression(c)
    c.expect(")")
    return Aggregate(function, argument, span=c.span_from(start))


_CALLS: Final[dict[str, Callable[[Cursor], Expr]]] = {
    "now": _now,
    "nearest": _nearest,
    "search": _search,
    "fuzzy": _fuzzy,
    "match_text": _match_text,
    "bm25": _bm25,
    "rrf": _rrf,
    **{function.value: _aggregate for function in AggregateFunction},
}
FUNCTIONS: Final = tuple(_CALLS)
