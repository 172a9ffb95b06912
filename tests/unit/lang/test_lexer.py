"""Characters become tokens with spans; what is no token becomes a problem at its place."""

from __future__ import annotations

import pytest

from omnigraph.lang.lexer import (
    ANNOTATION,
    END,
    FLOAT,
    INTEGER,
    LOWER,
    PROBLEM,
    RUN_ON,
    STRING,
    UPPER,
    VARIABLE,
    LexerProblem,
    lex,
    unescape,
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("film _x aB9", [LOWER, LOWER, LOWER]),
        ("Film F_1", [UPPER, UPPER]),
        ("$film $_ @key", [VARIABLE, VARIABLE, ANNOTATION]),
        ("1 1.5 007", [INTEGER, FLOAT, INTEGER]),
        ("1..2 1.5..2.5 ..3", [INTEGER, "..", INTEGER, FLOAT, "..", FLOAT, "..", INTEGER]),
        ("1. .5", [INTEGER, ".", ".", INTEGER]),
        ("1e5 1.5e3 3d 1_000", [RUN_ON, RUN_ON, RUN_ON, RUN_ON]),
        ("->>=<=!=<>=", ["->", ">=", "<=", "!=", "<", ">="]),
        ("- ? : , . = > {}()[]", ["-", "?", ":", ",", ".", "=", ">", "{", "}", "(", ")", "[", "]"]),
        ("+ * / % |", ["+", "*", "/", "%", "|"]),
        ("1/2//3", [INTEGER, "/", INTEGER]),
        ("$a-1--2", [VARIABLE, "-", INTEGER, "-", "-", INTEGER]),
        ("a<b>{1,2}", [LOWER, "<", LOWER, ">", "{", INTEGER, ",", INTEGER, "}"]),
        ('"a" "" "\\"" "a\nb" "é"', [STRING] * 5),
        ("a // b\nc /* d\n * e */ f //", [LOWER, LOWER, LOWER]),
        ("/**/ /***/ /* /* */ a", [LOWER]),
        (" \t\r\n", []),
    ],
)
def test_kinds(text: str, kinds: list[str]) -> None:
    assert lex(text).kinds == [*kinds, END]


def test_spans_and_texts() -> None:
    tokens = lex('  $f.x "a"\n')
    assert tokens.texts == ["f", ".", "x", '"a"', ""]
    assert list(zip(tokens.starts, tokens.ends, strict=True)) == [(2, 4), (4, 5), (5, 6), (7, 10), (10, 10)]


@pytest.mark.parametrize(
    ("text", "start", "message"),
    [
        ('a "b', 2, "unterminated string"),
        ('a "b\\"', 2, "unterminated string"),
        ("a /* b", 2, "unterminated comment"),
        ("a $ b", 2, "expected a variable name right after `$`"),
        ("$Film", 0, "expected a variable name right after `$`"),
        ("@Key", 0, "expected an annotation name right after `@`"),
        ("a ; b", 2, "unexpected character `;`"),
        ("a &", 2, "unexpected character `&`"),
        ("/* a", 0, "unterminated comment"),
        ("!a", 0, "unexpected character `!`"),
        ("caf\u00e9", 3, "unexpected character `\u00e9`"),
        ("a\u00a0b", 1, "unexpected character U+00A0"),
        ("\ufeffnode", 0, "unexpected character U+FEFF"),
        ("a\x0cb", 1, "unexpected character U+000C"),
    ],
)
def test_problems(text: str, start: int, message: str) -> None:
    tokens = lex(text)
    assert tokens.kinds[-1] == PROBLEM
    assert tokens.problem is not None
    assert (tokens.problem.span.start, tokens.problem.message) == (start, message)


def test_escapes() -> None:
    assert unescape('"plain"', 0) == "plain"
    assert unescape(r'"\"\\\n\r\t\\n"', 0) == '"\\\n\r\t\\n'


@pytest.mark.parametrize("bad", ["x", "u", "0", "'", "\n"])
def test_other_escapes_are_refused_where_they_stand(bad: str) -> None:
    problem = unescape(f'"ab\\{bad}"', 10)
    assert isinstance(problem, LexerProblem)
    assert problem.message == f"unsupported escape sequence: \\{bad}"
    assert (problem.span.start, problem.span.end) == (13, 15)
