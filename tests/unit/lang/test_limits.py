"""Deep nesting is refused before the stack ends, and no text costs more than its length."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from omnigraph.errors import LanguageError, ResourceLimitExceeded
from omnigraph.lang import parse_queries
from omnigraph.lang.grammar.cursor import MAX_NESTING, Cursor
from omnigraph.lang.grammar.query_file import query_file
from omnigraph.lang.grammar.schema_file import schema
from omnigraph.lang.query import Read
from omnigraph.lang.source import Source
from tests.harness.printer import print_queries

HEAD = "query q() { match { $f: Film "
DEEP = {
    "list": ("$f.x = ", "[", "", "]"),
    "negation": ("", "not { ", "$f.x = 1", " }"),
    "call": ("$f.x = ", "search(1, ", "2", ")"),
    "aggregate": ("$f.x = ", "count(", "1", ")"),
}


def nested(kind: str, depth: int) -> str:
    before, opening, core, closing = DEEP[kind]
    return HEAD + before + opening * depth + core + closing * depth + " } return { $f } }"


@pytest.mark.parametrize("kind", DEEP)
def test_nesting_up_to_the_limit_parses_prints_and_compares(kind: str) -> None:
    tree = parse_queries(nested(kind, MAX_NESTING))
    assert parse_queries(print_queries(tree)) == tree


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 10_000])
def test_deeper_nesting_is_a_limit_and_not_a_crash(kind: str, depth: int) -> None:
    with pytest.raises(ResourceLimitExceeded) as caught:
        parse_queries(nested(kind, depth), name="deep.gq")
    assert caught.value.facts == {"resource": "syntax_nesting", "limit": MAX_NESTING, "actual": MAX_NESTING + 1}
    assert caught.value.message.startswith("deep.gq:1:")


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
