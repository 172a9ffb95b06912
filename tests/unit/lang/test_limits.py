"""Deep nesting is refused before the stack ends, and no text costs more than its length."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from omnigraph.errors import LanguageError, ResourceLimitExceeded
from omnigraph.lang import parse_queries
from omnigraph.lang.grammar.cursor import MAX_NESTING, MAX_OPERATORS, Cursor
from omnigraph.lang.grammar.query_file import query_file
from omnigraph.lang.grammar.schema_file import schema
from omnigraph.lang.query import Conjunction, Disjunction, Either, Read, Traversal
from omnigraph.lang.source import Source
from tests.harness.printer import print_queries

HEAD = "query q() { match { $f: Film "
DEEP = {
    "list": ("$f.x = ", "[", "", "]"),
    "negation": ("", "not { ", "$f.x = 1", " }"),
    "call": ("$f.x = ", "search(1, ", "2", ")"),
    "aggregate": ("$f.x = ", "count(", "1", ")"),
    "function": ("$f.x = ", "lower(", "1", ")"),
    "exists": ("", "exists { ", "$f.x = 1", " }"),
    "optional": ("", "optional { ", "$f.x = 1", " }"),
    "either": ("", "either { ", "$f.x = 1", " } or { $f.x = 1 }"),
    "condition": ("", "(", "$f.x = 1", ")"),
    "inversion": ("", "not (", "$f.x = 1", ")"),
    "condition in a condition": ("", "($f.x = 1 or (", "$f.x = 1", "))"),
    "value": ("$f.x = ", "(", "1", ")"),
    "sum in a sum": ("$f.x = ", "(1 + ", "1", ")"),
    "minus": ("$f.x = ", "-", "$f.x", ""),
}
LEVELS = {"condition in a condition": 2}
"""What nests twice in one piece."""


def nested(kind: str, depth: int) -> str:
    before, opening, core, closing = DEEP[kind]
    return HEAD + before + opening * depth + core + closing * depth + " } return { $f } }"


@pytest.mark.parametrize("kind", DEEP)
def test_nesting_up_to_the_limit_parses_prints_and_compares(kind: str) -> None:
    tree = parse_queries(nested(kind, MAX_NESTING // LEVELS.get(kind, 1)))
    assert parse_queries(print_queries(tree)) == tree


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 10_000])
def test_deeper_nesting_is_a_limit_and_not_a_crash(kind: str, depth: int) -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        parse_queries(nested(kind, depth), name="deep.gq")
    assert caught.value.facts == {"resource": "syntax_nesting", "limit": MAX_NESTING, "actual": MAX_NESTING + 1}
    assert caught.value.message.startswith("deep.gq:1:")


def test_left_values_nest_as_deep() -> None:
    """`(((x) = 1` closes one parenthesis after the other, with an operator behind each."""
    text = HEAD + "(" * MAX_NESTING + "$f.x" + " + 1)" * MAX_NESTING + " = 1 } return { $f } }"
    tree = parse_queries(text)
    assert parse_queries(print_queries(tree)) == tree


@pytest.mark.parametrize("operator", "+-*/%")
def test_operators_up_to_the_limit_parse_print_and_compare(operator: str) -> None:
    tree = parse_queries(f"{HEAD}$f.x = 1 {f'{operator} 1 ' * MAX_OPERATORS}}} return {{ $f }} }}")
    assert parse_queries(print_queries(tree)) == tree
    assert hash(parse_queries(print_queries(tree))) == hash(tree)


@pytest.mark.parametrize("count", [MAX_OPERATORS + 1, 10_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HEAD + "$f.x = ", "} return { $f } }"),
        (HEAD + "} return { ", " } }"),
        (HEAD + "} return { $f } order { ", " } }"),
        ("query q() { insert F { a: ", " } }"),
        ("query q() { delete F where a = ", " }"),
        (HEAD + "} update $f set { a: ", " } }"),
    ],
    ids=["clause", "projection", "ordering", "assignment", "where", "matched"],
)
def test_more_operators_are_a_limit_and_not_a_crash(before: str, after: str, count: int) -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        parse_queries(before + "1" + " + 1" * count + after, name="long.gq")
    assert caught.value.facts == {"resource": "operators", "limit": MAX_OPERATORS, "actual": MAX_OPERATORS + 1}


@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize("term", ["$f.x + 1 > 2", "($f.x in [1] or $f.b and $f.b)"])
def test_ten_thousand_terms_are_flat(word: str, term: str) -> None:
    text = f"{HEAD}{f' {word} '.join([term] * 10_000)} }} return {{ $f }} }}"
    tree = parse_queries(text)
    body = tree.queries[0].body
    assert isinstance(body, Read)
    joined = body.match[1]
    assert isinstance(joined, Conjunction | Disjunction)
    assert len(joined.terms) == 10_000


def test_ten_thousand_blocks_and_edges_are_flat() -> None:
    either = " or ".join(["{ $f.x = 1 }"] * 10_000)
    edges = "|".join(["knows"] * 10_000)
    body = parse_queries(f"{HEAD}either {either} $f <{edges}> $g }} return {{ $f }} }}").queries[0].body
    assert isinstance(body, Read)
    assert isinstance(body.match[1], Either)
    assert len(body.match[1].blocks) == 10_000
    assert isinstance(body.match[2], Traversal)
    assert len(body.match[2].edges) == 10_000


def test_blocks_side_by_side_are_not_deep() -> None:
    clauses = "not { $f.x = [[1], [2]] } " * 500
    body = parse_queries(f"{HEAD}{clauses}}} return {{ $f }} }}").queries[0].body
    assert isinstance(body, Read)
    assert len(body.match) == 501


GARBAGE = {
    "braces": (query_file, "{"),
    "quotes": (query_file, 'query "'),
    "open comments": (query_file, "/*"),
    "slashes": (query_file, "//"),
    "backslashes in a string": (query_file, '\\"'),
    "variables": (query_file, "$a "),
    "queries without a body": (query_file, "query q "),
    "annotations": (schema, "@a "),
    "enum dashes": (schema, "--"),
    "digits": (schema, "9"),
    "dots": (schema, "1."),
    "lines": (schema, "\n"),
}
LONG = {
    "clauses": (query_file, HEAD, "$f < $f $f <e> $g "),
    "lists": (query_file, HEAD + "$f.x = [", "1, -2.5, "),
    "undirected": (query_file, HEAD, "$a <b> $c "),
    "edges": (query_file, HEAD + "$a <", "b|"),
    "terms": (query_file, HEAD + "$f.x", " = 1 or $f.x"),
    "half edges": (query_file, HEAD, "$a <b|b|b|b|b|b|b|b|b|b "),
    "blocks": (query_file, HEAD, "either { $f: F } or { $f: F } optional { $f: F } "),
    "values": (query_file, HEAD + "$f.x in [", "1, "),
    "tests": (query_file, HEAD, "$f.x is null $a in [1] $a in $b ($f.x) "),
    "paths": (query_file, HEAD, "path $w = $a <b|c>{1,2} $d "),
    "matched": (query_file, "query q() {", "match { $f: F } update $f set { a: a + 1 } delete $f, $g "),
    "projections": (query_file, HEAD + "} return {", "as "),
    "statements": (query_file, "query q() {", "delete A where b = 1 "),
    "nodes": (schema, "", "node A { } "),
    "annotations": (schema, "node A", " @key @a(b, c=1)"),
    "enum": (schema, "node A { a: enum(", "-"),
    "digits": (schema, "node A @a(", "9"),
    "fraction": (schema, "node A @a(0.", "9"),
    "one string": (schema, 'node A @a("', "\\n"),
}


def consumed(start: Callable[[Cursor], object], text: str) -> tuple[int, int]:
    """How many tokens a parse stepped over, and how many there were."""
    cursor = Cursor(Source(text, "t"), code="S01")
    with contextlib.suppress(LanguageError, ResourceLimitExceeded):
        start(cursor)
    return cursor.consumed, len(cursor.kinds)


@pytest.mark.parametrize(
    ("start", "head", "piece", "times"),
    [pytest.param(start, "", piece, 100, id=f"garbage-{name}") for name, (start, piece) in GARBAGE.items()]
    + [pytest.param(start, head, piece, 20, id=f"long-{name}") for name, (start, head, piece) in LONG.items()],
)
def test_so_many_times_the_text_takes_so_many_times_the_steps(start: Callable[[Cursor], object], head: str, piece: str, times: int) -> None:
    small, large = (head + piece * (size // len(piece)) for size in (10_000, 10_000 * times))
    steps_small, tokens_small = consumed(start, small)
    began = time.process_time()
    steps_large, tokens_large = consumed(start, large)
    spent = time.process_time() - began
    assert steps_small < tokens_small
    assert steps_large < tokens_large
    assert steps_large <= (times + 1) * (steps_small + 1)
    assert tokens_large <= (times + 1) * (tokens_small + 1)
    assert spent < 10, "far beyond linear, even on a slow machine"
