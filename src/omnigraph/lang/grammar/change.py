"""Productions of mutations: inserts, updates and deletes, of a type or of what a match block found."""

from __future__ import annotations

from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.condition import condition
from omnigraph.lang.grammar.cursor import Cursor
from omnigraph.lang.grammar.expression import expression, variable
from omnigraph.lang.query import (
    Assignment,
    Change,
    Clause,
    Condition,
    Delete,
    DeleteBound,
    Insert,
    Insertion,
    MatchedChanges,
    Update,
    UpdateBound,
)

CHANGES: Final = ("insert", "create", "upsert", "update", "delete")
"""The words that begin a change."""

_INSERTIONS: Final = {insertion.value: insertion for insertion in Insertion}


def matched_changes(c: Cursor, clauses: tuple[Clause, ...], start: int) -> MatchedChanges:
    """The changes after a match block: all up to the next block."""
    changes = [change(c, after_match=True)]
    while c.kind == lexer.LOWER and c.text in CHANGES:
        changes.append(change(c))
    return MatchedChanges(clauses, tuple(changes), span=c.span_from(start))


def change(c: Cursor, *, after_match: bool = False) -> Change:
    start, word = c.start, c.text
    if c.kind != lexer.LOWER or word not in CHANGES:
        if after_match:
            raise c.unexpected("`return` or a change", options=("return", *CHANGES))
        raise c.unexpected("`match`, `insert`, `update` or `delete`", hint=_hint(c), options=("match", *CHANGES))
    c.begin_part()
    c.advance()
    if word in _INSERTIONS:
        type_name = c.upper_name("a node or edge type name")
        assignments = _assignments(c)
        return Insert(type_name, assignments, _INSERTIONS[word], span=c.span_from(start))
    if word == "update":
        return _update(c, start)
    return _delete(c, start)


def _hint(c: Cursor) -> str | None:
    if c.at_word("return"):
        return "a query either reads or changes the graph"
    if c.at_word("where"):
        return "`where` goes with a type; which rows a variable stands for is said in the match block"
    return None


def _update(c: Cursor, start: int) -> Update | UpdateBound:
    if c.kind == lexer.VARIABLE:
        bound = variable(c)
        c.expect_word("set")
        assignments = _assignments(c)
        return UpdateBound(bound, assignments, span=c.span_from(start))
    type_name = c.upper_name("a node or edge type name")
    c.expect_word("set")
    assignments = _assignments(c)
    where = _where(c)
    return Update(type_name, assignments, where, span=c.span_from(start))


def _delete(c: Cursor, start: int) -> Delete | DeleteBound:
    if c.kind == lexer.VARIABLE:
        variables = [variable(c)]
        while c.accept(","):
            variables.append(variable(c))
        return DeleteBound(tuple(variables), span=c.span_from(start))
    type_name = c.upper_name("a node or edge type name")
    where = _where(c)
    return Delete(type_name, where, span=c.span_from(start))


def _assignments(c: Cursor) -> tuple[Assignment, ...]:
    c.expect("{")
    assignments = [_assignment(c)]
    while not c.accept("}"):
        assignments.append(_assignment(c))
    return tuple(assignments)


def _assignment(c: Cursor) -> Assignment:
    start = c.start
    c.begin_part()
    name = c.lower_name("a property name")
    c.expect(":", hint="an assignment is written `property: value`")
    assigned = expression(c)
    assignment = Assignment(name, assigned, span=c.span_from(start))
    c.accept(",")
    return assignment


def _where(c: Cursor) -> Condition:
    c.expect_word("where")
    c.begin_part()
    return condition(c)
