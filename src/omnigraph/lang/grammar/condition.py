"""Productions of conditions: tests joined by `and`, `or` and `not`, in match blocks and in `where`."""

from __future__ import annotations

from typing import Final, TypeGuard

from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import Cursor, near
from omnigraph.lang.grammar.expression import CALLS, arithmetic, expression, literal, variable
from omnigraph.lang.query import (
    AliasRef,
    Comparison,
    Condition,
    Conjunction,
    Containment,
    Disjunction,
    Expr,
    Filter,
    FunctionCall,
    Fuzzy,
    Inversion,
    ListLiteral,
    ListTest,
    MatchText,
    NullTest,
    PropertyRef,
    Search,
    Truth,
    Variable,
)

COMPARISONS: Final = {comparison.value: comparison for comparison in Comparison}
CONTAINMENTS: Final = {containment.value: containment for containment in Containment}
TEST_WORDS: Final = frozenset((*CONTAINMENTS, "in", "is", "not", "and", "or"))
"""The words that may follow the left side of a test."""

_CONDITIONS: Final = (Filter, ListTest, NullTest, Truth, Conjunction, Disjunction, Inversion)


def condition(c: Cursor) -> Condition:
    """Tests joined by `and` and `or`; `and` binds closer."""
    start = c.start
    return _condition(c, _disjunction(c), start)


def _condition(c: Cursor, parsed: Condition | Expr, start: int) -> Condition:
    """A value by itself is a condition if it may be a Bool."""
    if _is_condition(parsed) or isinstance(parsed, Search | Fuzzy | MatchText):
        return parsed
    if isinstance(parsed, PropertyRef | Variable | AliasRef) and not _forgot_operator(c, parsed):
        return Truth(parsed, span=c.span_from(start))
    raise c.unexpected("a comparison", hint=_hint(parsed), options=(*CONTAINMENTS, "in", "is"))


def _is_condition(parsed: Condition | Expr) -> TypeGuard[Condition]:
    return isinstance(parsed, _CONDITIONS)


def _forgot_operator(c: Cursor, left: Expr) -> bool:
    """Whether what follows begins no clause, so that an operator is missing or misspelled."""
    if c.kinds[c.consumed - 1] == ")":
        return False  # in parentheses a value is complete
    match c.kind:
        case "{" | lexer.VARIABLE:
            return isinstance(left, AliasRef)  # `optinal { .. }`, `not $v.property`
        case lexer.STRING | lexer.INTEGER | lexer.FLOAT:
            return True
        case lexer.LOWER if c.text not in ("and", "or"):
            return c.next_kind not in ("{", "(", lexer.VARIABLE, lexer.UPPER)
        case _:
            return False


def _hint(left: Condition | Expr) -> str | None:
    match left:
        case AliasRef(name="not"):
            return "a condition is negated in parentheses: `not (..)`"
        case AliasRef(name=name):
            return near(name, ("not", "optional", "exists", "either", "path"))
        case FunctionCall(name=name):
            return near(name.text, CALLS)
        case _:
            return None


def _disjunction(c: Cursor) -> Condition | Expr:
    start = c.start
    first = _conjunction(c)
    if not c.at_word("or"):
        return first
    terms = [_condition(c, first, start)]
    while c.accept_word("or"):
        c.begin_part()
        term_start = c.start
        terms.append(_condition(c, _conjunction(c), term_start))
    return Disjunction(tuple(terms), span=c.span_from(start))


def _conjunction(c: Cursor) -> Condition | Expr:
    start = c.start
    first = _unit(c)
    if not c.at_word("and"):
        return first
    terms = [_condition(c, first, start)]
    while c.accept_word("and"):
        c.begin_part()
        term_start = c.start
        terms.append(_condition(c, _unit(c), term_start))
    return Conjunction(tuple(terms), span=c.span_from(start))


def _unit(c: Cursor) -> Condition | Expr:
    start = c.start
    if c.at_call("not"):
        c.advance()
        inner_start = c.start
        term = _condition(c, _parenthesis(c), inner_start)
        return Inversion(term, span=c.span_from(start))
    if _at_traversal(c):
        raise c.unexpected("a test", hint="a traversal cannot be part of a condition; join blocks with `either { .. } or { .. }`")
    if c.kind != "(":
        return _test(c, expression(c), start)
    inside = _parenthesis(c)
    if _is_condition(inside):
        return inside
    assert not isinstance(inside, Conjunction | Disjunction | Inversion | Filter | ListTest | NullTest | Truth)
    return _test(c, arithmetic(c, inside, start), start)


def _at_traversal(c: Cursor) -> bool:
    """`$a knows $b`; but `$flag path $w =` and `$flag delete $v` are a Bool and the beginning of what comes next."""
    between = c.kind == lexer.VARIABLE and c.next_kind == lexer.LOWER and c.next_text not in (*TEST_WORDS, "update", "delete")
    return between and c.ahead(2)[0] == lexer.VARIABLE and c.ahead(3)[0] != "="


def _parenthesis(c: Cursor) -> Condition | Expr:
    """`( .. )`: a condition, or a value that a test or an operator may follow."""
    c.enter()
    c.expect("(")
    inside = _disjunction(c)
    c.expect(")")
    c.leave()
    return inside


def _test(c: Cursor, left: Expr, start: int) -> Condition | Expr:
    """The test whose left side was read, or the left side if no test follows."""
    comparison = COMPARISONS.get(c.kind)
    if comparison is not None:
        c.advance()
        right = expression(c)
        return Filter(left, comparison, right, span=c.span_from(start))
    if c.kind != lexer.LOWER:
        return left
    if c.text in CONTAINMENTS:
        containment = CONTAINMENTS[c.text]
        c.advance()
        part = expression(c)
        return Filter(left, containment, part, span=c.span_from(start))
    if c.text == "in":
        c.advance()
        return _list_test(c, left, start, negated=False)
    if c.text == "not" and c.ahead(1) == (lexer.LOWER, "in"):
        c.advance()
        c.advance()
        return _list_test(c, left, start, negated=True)
    if c.text == "is":
        c.advance()
        negated = c.accept_word("not")
        c.expect_word("null")
        return NullTest(left, negated, span=c.span_from(start))
    return left


def _list_test(c: Cursor, item: Expr, start: int, *, negated: bool) -> ListTest:
    if c.kind == lexer.VARIABLE:
        options: ListLiteral | Variable = variable(c)
    elif c.kind == "[":
        listed = literal(c)
        assert isinstance(listed, ListLiteral)
        options = listed
    else:
        raise c.unexpected("a list", hint="`in` takes a list of literals or a list parameter: `in [1, 2]`, `in $values`")
    return ListTest(item, options, negated, span=c.span_from(start))
