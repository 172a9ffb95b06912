"""Text -> tokens, for both languages, in one pass and linear time.

Tokens are parallel lists rather than objects: a parser mostly compares kinds, and a query is parsed on every call.
The kind of a punctuation mark is the mark itself. The lexer does not raise. Text that is not a token becomes a last token
of kind PROBLEM. The parser then reports whichever error comes first in the text.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from omnigraph.errors import Span

LOWER: Final = "name"
UPPER: Final = "type name"
VARIABLE: Final = "variable"
ANNOTATION: Final = "annotation"
INTEGER: Final = "integer"
FLOAT: Final = "float"
RUN_ON: Final = "run-on number"
"""Digits that run into letters, `3d`: legal as an enum value only. (`1e5` must not be read as `1` and then `e5`.)"""
STRING: Final = "string"
END: Final = "end"
PROBLEM: Final = "problem"

# In the order of the pattern's groups, which count from 1.
_KINDS: Final = ("", LOWER, "mark", VARIABLE, UPPER, STRING, INTEGER, FLOAT, RUN_ON, ANNOTATION, END, PROBLEM)
_MARK: Final = _KINDS.index("mark")
_SIGNED: Final = (_KINDS.index(VARIABLE), _KINDS.index(ANNOTATION))
_LAST: Final = _KINDS.index(END)

# Possessive quantifiers (`*+`) never give characters back, so that no input makes a match cost more than its length.
_TOKEN: Final = re.compile(
    r"""
    [ \t\r\n]*+ (?: (?: //[^\n]*+ | /\*(?s:.*?)\*/ ) [ \t\r\n]*+ )*+     # whitespace and comments
    (?:
      ( [a-z_][A-Za-z0-9_]*+ )
    | ( -> | >= | <= | != | \.\. | [{}()\[\]:,.?<>=\-+*%|] | /(?!\*) )
    | ( \$[a-z_][A-Za-z0-9_]*+ )
    | ( [A-Z][A-Za-z0-9_]*+ )
    | ( "[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+" )
    | ( [0-9]++(?![A-Za-z_]|\.[0-9]) )
    | ( [0-9]++\.[0-9]++(?![A-Za-z_]) )
    | ( [0-9]++(?:\.[0-9]++)?+[A-Za-z_][A-Za-z0-9_]*+ )
    | ( @[a-z_][A-Za-z0-9_]*+ )
    | ( \Z )
    | ( (?s:.) )
    )
    """,
    re.VERBOSE,
)


class LexerProblem(msgspec.Struct, frozen=True):
    """Why the lexer stopped, and where."""

    message: str
    span: Span
    hint: str | None = None


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of a text, up to an END or a PROBLEM. `texts` hold variables and annotations without their sign."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]
    ends: list[int]
    problem: LexerProblem | None


def lex(text: str) -> Tokens:
    """Read tokens until the end of the text, or until a character that begins no token."""
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _TOKEN.finditer(text):
        index = match.lastindex or 0
        start, end = match.span(index)
        word = text[start:end]
        kinds.append(word if index == _MARK else _KINDS[index])
        texts.append(word[1:] if index in _SIGNED else word)
        starts.append(start)
        ends.append(end)
        if index >= _LAST:
            break
    if kinds[-1] == PROBLEM:
        return Tokens(kinds, texts, starts, ends, _problem(text, starts[-1]))
    # An error at the end points right behind the last token, not below the last empty line of the file.
    starts[-1] = ends[-1] = ends[-2] if len(ends) > 1 else 0
    return Tokens(kinds, texts, starts, ends, None)


def _problem(text: str, start: int) -> LexerProblem:
    """Describe the error at an offset where no token begins."""
    char = text[start]
    here = Span(start, start + 1)
    if char == '"':
        return LexerProblem("unterminated string", here, 'close it with `"`, and write a quote inside as `\\"`')
    if text.startswith("/*", start):
        return LexerProblem("unterminated comment", Span(start, start + 2), "close it with `*/`")
    if char == "$":
        return LexerProblem("expected a variable name right after `$`", here, "variables start with a lower-case letter or `_`: `$film`")
    if char == "@":
        return LexerProblem("expected an annotation name right after `@`", here, "annotations start with a lower-case letter: `@key`")
    shown = f"`{char}`" if char.isprintable() else f"U+{ord(char):04X}"
    hint = "names are made of ASCII letters, digits and `_`" if char.isalnum() else None
    return LexerProblem(f"unexpected character {shown}", here, hint)


_ESCAPE: Final = re.compile(r"\\(?s:(.))")
_ESCAPES: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def unescape(token: str, start: int) -> str | LexerProblem:
    """The value of a string token at offset `start`, or the problem with its first unsupported escape."""
    if "\\" not in token:
        return token[1:-1]
    for match in _ESCAPE.finditer(token):
        if match[1] not in _ESCAPES:
            where = Span(start + match.start(), start + match.end())
            return LexerProblem(f"unsupported escape sequence: \\{match[1]}", where, 'the escapes are \\" \\\\ \\n \\r \\t')
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], token[1:-1])
