"""Productions of values: literals, variables, properties, arithmetic and calls. Conditions are in `condition`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import MAX_INTEGER, MAX_UNSIGNED, Cursor
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Bm25,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    Expr,
    FloatLiteral,
    FunctionCall,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    Literal,
    MatchText,
    Nearest,
    Negative,
    Now,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Value,
    Variable,
)

NO_NULL: Final = "there is no null literal; pass null through a nullable parameter, or test with `is null`"

_OPERATORS: Final = {operator.value: operator for operator in ArithmeticOperator}
_PRODUCTS: Final = frozenset((ArithmeticOperator.MULTIPLY, ArithmeticOperator.DIVIDE, ArithmeticOperator.REMAINDER))


def variable(c: Cursor, what: str = "a variable") -> Variable:
    if c.kind != lexer.VARIABLE:
        raise c.unexpected(what, hint=f"variables start with `$`: `${c.text}`" if c.kind == lexer.LOWER else None)
    start, name = c.start, c.text
    c.advance()
    return Variable(name, span=c.span_from(start))


def value(c: Cursor) -> Value:
    """A value that a property is matched with: a literal, a parameter or `now()`."""
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
        return NO_NULL
    if c.kind in (lexer.LOWER, lexer.UPPER):
        return f'strings are written in quotes: `"{c.text}"`'
    return None


def expression(c: Cursor) -> Expr:
    """Anything that has a value."""
    start = c.start
    first = _factor(c)
    return arithmetic(c, first, start) if c.kind in _OPERATORS else first


def arithmetic(c: Cursor, first: Expr, start: int) -> Expr:
    """The rest of an expression whose first factor, read from `start`, is `first`. Products bind closer than sums."""
    left = _product(c, first, start)
    while c.kind in _OPERATORS:
        operator = _operator(c)
        right_start = c.start
        right = _product(c, _factor(c), right_start)
        left = Arithmetic(left, operator, right, span=c.span_from(start))
    return left


def _product(c: Cursor, first: Expr, start: int) -> Expr:
    left = first
    while _OPERATORS.get(c.kind) in _PRODUCTS:
        operator = _operator(c)
        right = _factor(c)
        left = Arithmetic(left, operator, right, span=c.span_from(start))
    return left


def _operator(c: Cursor) -> ArithmeticOperator:
    operator = _OPERATORS[c.kind]
    c.count_operator()
    c.advance()
    return operator


def _factor(c: Cursor) -> Expr:
    start = c.start
    if c.kind == lexer.VARIABLE:
        bound = variable(c)
        if not c.accept("."):
            return bound
        name = c.lower_name("a property name")
        return PropertyRef(bound, name, span=c.span_from(start))
    if c.kind == "(":
        c.enter()
        c.advance()
        inside = expression(c)
        c.expect(")")
        c.leave()
        return inside
    if c.kind == "-" and c.next_kind not in (lexer.INTEGER, lexer.FLOAT):
        c.enter()
        c.count_operator()
        c.advance()
        operand = _factor(c)
        c.leave()
        return Negative(operand, span=c.span_from(start))
    if c.kind != lexer.LOWER or c.text in ("true", "false"):
        return literal(c)
    if c.next_kind != "(":
        word = c.text
        c.advance()
        return AliasRef(word, span=c.span_from(start))
    if c.text in ("date", "datetime") and c.ahead(2)[0] == lexer.STRING:
        return literal(c)
    return _call(c)


def _call(c: Cursor) -> Expr:
    production = _CALLS.get(c.text, _function)
    c.enter()
    call = production(c)
    c.leave()
    return call


def _function(c: Cursor) -> FunctionCall:
    start = c.start
    name = c.lower_name("a function")
    c.expect("(")
    arguments: list[Expr] = []
    if c.kind != ")":
        arguments.append(expression(c))
        while c.accept(","):
            arguments.append(expression(c))
    c.expect(")")
    return FunctionCall(name, tuple(arguments), span=c.span_from(start))


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


_DISTINCT: Final = (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG, AggregateFunction.COLLECT)


def _aggregate(c: Cursor) -> Aggregate:
    function = AggregateFunction(c.text)
    start = _open(c)
    if function is AggregateFunction.COUNT and c.accept("*"):
        c.expect(")")
        return Aggregate(function, None, span=c.span_from(start))
    # `count(distinct)` and `count(distinct + 1)` name an output; whatever can begin a value makes it the keyword.
    distinct = c.at_word("distinct") and c.next_kind not in (")", "+", "*", "/", "%")
    if distinct:
        if function not in _DISTINCT:
            raise c.unexpected("a value", hint=f"`{function}` is the same with and without `distinct`")
        c.advance()
    argument = expression(c)
    c.expect(")")
    return Aggregate(function, argument, distinct, span=c.span_from(start))


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
CALLS: Final = tuple(_CALLS)
"""The calls with a grammar of their own. Every other call is a scalar function."""
