"""Laws of parser and printer: parse∘print = id, print is a fixed point, and bad text fails only as it may."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from omnigraph.errors import Kind, LanguageError, ResourceLimitExceeded, Span
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.lang.query import Aggregate, Filter, PropertyRef, QueryFile, Read
from omnigraph.lang.schema import Schema
from tests.harness.printer import print_queries, print_schema
from tests.unit.lang.strategies import KEYWORDS, query_files, schemas
from tests.unit.lang.texts import QUERIES, SCHEMA

thorough = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@thorough
@given(schemas)
def test_a_printed_schema_parses_to_the_same_tree(tree: Schema) -> None:
    printed = print_schema(tree)
    again = parse_schema(printed)
    assert again == tree
    assert print_schema(again) == printed


@thorough
@given(query_files)
def test_a_printed_query_file_parses_to_the_same_tree(tree: QueryFile) -> None:
    printed = print_queries(tree)
    again = parse_queries(printed)
    assert again == tree
    assert print_queries(again) == printed


def test_layout_and_comments_are_no_part_of_the_tree() -> None:
    tight = parse_queries("query q(){match{$f:Film{year:1}}return{$f.slug as s,$f}}")
    loose = parse_queries("// one\nquery q ( ) {\n match { /* two */ $f : Film { year : 1 , } }\n return { $f . slug as s  $f , }\n}\n")
    assert tight == loose
    assert hash(tight) == hash(loose)
    assert tight.queries[0].span != loose.queries[0].span


def test_trees_of_other_kinds_or_contents_differ() -> None:
    first, second = parse_schema("node A {} edge A: B -> C").declarations
    assert first != second
    assert first != parse_schema("node B {}").declarations[0]
    assert first != "node A {}"


def test_every_span_covers_what_was_written() -> None:
    text = "query q($y: I32?) { match { $f: Film  $f.year > $y } return { count($f.slug) as n } }"
    read = parse_queries(text).queries[0].body
    assert isinstance(read, Read)
    compared, returned = read.match[1], read.returns[0].value
    assert isinstance(compared, Filter)
    assert isinstance(compared.left, PropertyRef)
    assert isinstance(returned, Aggregate)
    assert returned.argument is not None

    def written(span: Span) -> str:
        return text[span.start : span.end]

    assert written(parse_queries(text).queries[0].parameters[0].span) == "$y: I32?"
    assert [written(clause.span) for clause in read.match] == ["$f: Film", "$f.year > $y"]
    assert written(compared.left.property.span) == "year"
    assert written(read.returns[0].span) == "count($f.slug) as n"
    assert written(returned.argument.span) == "$f.slug"


EDITS = (
    '"',
    "{",
    "}",
    "(",
    ")",
    "[",
    "$",
    "@",
    "\\",
    "/*",
    "//",
    "..",
    "-",
    ",",
    "not",
    " 1e5 ",
    "é",
    "\x00",
    "9" * 5000,
    "[" * 200,
    "not { " * 200,
)


@st.composite
def damaged(draw: st.DrawFn, original: str) -> str:
    """A valid text after a few cuts, copies and insertions."""
    text = original
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        replacement = draw(st.sampled_from(EDITS) | st.just("") | st.just(text[start:end] * 2) | st.text(max_size=3))
        text = text[:start] + replacement + text[end:]
    return text


def failure(parse: Callable[[str], object], text: str) -> LanguageError | ResourceLimitExceeded | None:
    try:
        parse(text)
    except (LanguageError, ResourceLimitExceeded) as error:
        return error
    return None


@pytest.mark.parametrize(("parse", "original"), [(parse_schema, SCHEMA), (parse_queries, QUERIES)], ids=["schema", "queries"])
def test_damaged_text_raises_only_language_errors(parse: Callable[[str], object], original: str) -> None:
    @settings(parent=thorough, max_examples=300)
    @given(damaged(original))
    @example(original[: len(original) // 2])
    def check(text: str) -> None:
        error = failure(parse, text)
        if isinstance(error, LanguageError):
            assert error.span is not None
            assert 0 <= error.span.start <= error.span.end <= len(text)
            assert error.position is not None
            assert error.message in str(error)
        elif error is not None:
            assert error.facts["resource"] in ("syntax_nesting", "operators")

    check()


# fmt: off
MARKS = (
    "{", "}", "(", ")", "[", "]", ":", ",", ".", "?", "<", ">", "=", "-", "+", "*", "/", "%", "|", "->", ">=", "<=", "!=", "..",
)
# fmt: on
VALUES = (
    "$f",
    "$p",
    "$_",
    "$f.a",
    "$f.in",
    "Film",
    "String",
    "1",
    "-1",
    "2.5",
    '"x"',
    "[1, 2]",
    "{1,2}",
    "a",
    "b.c",
    "@description",
    "$f: Film",
)
PIECES = (
    "match {", "return {", "return distinct {", "order {", "not (", "optional {", "exists {", "either {", "} or {", "path $w =",
    "is not null", "is null", "not in [", "in $p", "nulls last", "count(distinct", "count(*)", "lower(", "insert Film {",
    "update $f set {", "update Film set {", "delete Film where", "delete $f", "a: a + 1", "$f knows|likes{1,3} $p", "query q($p: I32) {",
)  # fmt: skip
HEADS = (
    "",
    "match { $f: Film ",
    "query q($p: [String]) { match { $f: Film ",
    "match { $f: Film } return { $f ",
    "insert Film { a: 1 } ",
    "match { $f: Film } update $f set { a: 1 } ",
    "delete Film where a = 1 ",
    "query q() { match { optional { $f knows $g } ",
)
tokens = st.lists(st.sampled_from((*MARKS, *VALUES, *PIECES, *KEYWORDS)), max_size=25)


@settings(parent=thorough, max_examples=800)
@given(st.sampled_from(HEADS), tokens, st.sampled_from((" ", "\n")))
@example("match { ", ["$f", "is", "$null"], " ")
@example("match { ", ["$f", "not"], " ")
@example("match { ", ["$a", "<", "b", "|", "c"], " ")
@example("match { ", ["path", "$w"], " ")
@example("match { $f: Film } return { ", ["count(distinct"], " ")
def test_words_of_the_language_in_any_order_raise_only_language_errors(head: str, words: list[str], between: str) -> None:
    text = head + between.join(words)
    error = failure(parse_queries, text)
    if isinstance(error, LanguageError):
        assert (error.kind, error.code) == (Kind.SYNTAX, "Q000")
        assert error.span is not None
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert error.position is not None
        assert error.rendered is not None
        assert error.rendered.startswith(f"query.gq:{error.position.line}:{error.position.column}: parse error: ")


@settings(parent=thorough, max_examples=300)
@given(st.sampled_from(HEADS), tokens)
def test_what_parses_by_chance_is_printed_and_parsed_again(head: str, words: list[str]) -> None:
    """Longer and longer beginnings are closed until one parses: texts that nobody would write, and the parser takes."""
    for count in range(len(words) + 1):
        for tail in ("", " }", " } }", " } return { $f }", " } return { $f } }", ") } return { $f }"):
            with contextlib.suppress(LanguageError, ResourceLimitExceeded):
                tree = parse_queries(head + " ".join(words[:count]) + tail)
                assert parse_queries(print_queries(tree)) == tree


@thorough
@given(st.text(max_size=60))
def test_any_text_at_all_raises_only_language_errors(text: str) -> None:
    for parse in (parse_schema, parse_queries):
        with contextlib.suppress(LanguageError):
            parse(text)
