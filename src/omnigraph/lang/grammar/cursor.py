"""A position in a token list. Every production reads from it, and it builds every syntax error."""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Kind, LanguageError, ResourceLimitExceeded, Span
from omnigraph.lang import lexer
from omnigraph.lang.source import Source
from omnigraph.lang.tree import Name

MAX_NESTING: Final = 64
"""How deep blocks, calls and lists may nest. Each level costs a few Python frames, here and in every walk over the tree."""

MAX_OPERATORS: Final = 200
"""Arithmetic operators of one clause, projection or assignment. Each may add a level to the tree, in parentheses or without."""

MAX_INTEGER: Final = 2**63 - 1
MAX_UNSIGNED: Final = 2**64 - 1
"""A literal may be as large as the largest property type. Whether the other side can hold it is checked with its type."""

_SHOWN: Final = 40
"""Characters of a token that a message repeats."""


class Cursor:
    """Moves forward only: `consumed` counts the tokens read, and never exceeds the number of tokens."""

    __slots__ = (
        "_code",
        "_depth",
        "_ends",
        "_operators",
        "_problem",
        "_starts",
        "_texts",
        "consumed",
        "kind",
        "kinds",
        "source",
        "start",
        "text",
    )

    def __init__(self, source: Source, *, code: str) -> None:
        tokens = lexer.lex(source.text)
        self.source: Final = source
        self.kinds: Final = tokens.kinds
        self._starts: Final = tokens.starts
        self._texts: Final = tokens.texts
        self._ends: Final = tokens.ends
        self._problem: Final = tokens.problem
        self._code: Final = code
        self._depth = 0
        self._operators = 0
        self.consumed = 0
        self.kind = self.kinds[0]
        self.text = self._texts[0]
        self.start = self._starts[0]

    # reading

    def advance(self) -> None:
        """Step over the current token, which must not be the last."""
        self.consumed = at = self.consumed + 1
        self.kind = self.kinds[at]
        self.text = self._texts[at]
        self.start = self._starts[at]

    @property
    def next_kind(self) -> str:
        """The kind of the token after this one; the last token is followed by itself."""
        return self.kinds[min(self.consumed + 1, len(self.kinds) - 1)]

    @property
    def next_text(self) -> str:
        return self._texts[min(self.consumed + 1, len(self._texts) - 1)]

    def ahead(self, count: int) -> tuple[str, str]:
        """The kind and the text of the token `count` after this one; the last token is followed by itself."""
        at = min(self.consumed + count, len(self.kinds) - 1)
        return self.kinds[at], self._texts[at]

    def at_word(self, word: str) -> bool:
        return self.text == word and self.kind == lexer.LOWER

    def at_call(self, word: str) -> bool:
        """The word and an opening parenthesis; a keyword without one is a plain name."""
        return self.text == word and self.kind == lexer.LOWER and self.next_kind == "("

    def accept(self, kind: str) -> bool:
        if self.kind != kind:
            return False
        self.advance()
        return True

    def accept_word(self, word: str) -> bool:
        if not self.at_word(word):
            return False
        self.advance()
        return True

    def expect(self, mark: str, *, hint: str | None = None) -> None:
        if self.kind != mark:
            raise self.unexpected(f"`{mark}`", hint=hint)
        self.advance()

    def expect_word(self, word: str) -> None:
        if not self.at_word(word):
            raise self.unexpected(f"`{word}`", options=(word,))
        self.advance()

    def lower_name(self, what: str, *, hint: str | None = None) -> Name:
        """A name that starts with a lower-case letter or `_`; every keyword is one."""
        if self.kind != lexer.LOWER:
            if self.kind == lexer.UPPER:
                hint = f"it starts with a lower-case letter: `{self.text[0].lower()}{self.text[1:]}`"
            raise self.unexpected(what, hint=hint)
        return self._name()

    def upper_name(self, what: str) -> Name:
        if self.kind != lexer.UPPER:
            named = self.kind == lexer.LOWER and self.text[0] != "_"
            raise self.unexpected(
                what, hint=f"type names start with a capital letter: `{self.text[0].upper()}{self.text[1:]}`" if named else None
            )
        return self._name()

    def _name(self) -> Name:
        start, text = self.start, self.text
        self.advance()
        return Name(text, span=Span(start, self._ends[self.consumed - 1]))

    def integer(self, what: str, *, limit: int = MAX_INTEGER) -> int:
        """An unsigned integer up to `limit`."""
        if self.kind != lexer.INTEGER:
            raise self.unexpected(what)
        digits = self.text.lstrip("0") or "0"
        # Measured before it is converted: Python refuses, with an error of its own, to read thousands of digits.
        if len(digits) > len(str(limit)) or int(digits) > limit:
            raise self.refused(f"invalid integer: {_clip(self.text)} is greater than {limit}")
        self.advance()
        return int(digits)

    def float_(self) -> float:
        value = float(self.text)
        if value == float("inf"):
            raise self.refused(f"invalid float: {_clip(self.text)} is out of range")
        self.advance()
        return value

    def string(self, what: str) -> str:
        if self.kind != lexer.STRING:
            raise self.unexpected(what)
        value = lexer.unescape(self.text, self.start)
        if isinstance(value, lexer.LexerProblem):
            raise self._error(value.message, value.span, hint=value.hint)
        self.advance()
        return value

    def glue(self, end: int) -> None:
        """Step over the tokens up to the offset `end`, which must be a token's end."""
        while self.start < end:
            self.advance()
        if self._ends[self.consumed - 1] != end:
            raise self._error(f"unexpected `{self.source.text[end]}` in a word", Span(end, end + 1))

    def span_from(self, start: int) -> Span:
        """From `start` to the end of the last token read."""
        return Span(start, self._ends[self.consumed - 1] if self.consumed else start)

    # nesting

    def enter(self) -> None:
        """Go one level deeper. No `finally` is needed around the level: parsing stops at the first error."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._limit(f"nested deeper than {MAX_NESTING} levels", "syntax_nesting", MAX_NESTING, self._depth)

    def leave(self) -> None:
        self._depth -= 1

    def begin_part(self) -> None:
        """A clause, a projection, a sort key or an assignment begins: its operators are counted anew."""
        self._operators = 0

    def count_operator(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            message = f"more than {MAX_OPERATORS} arithmetic operators in one expression"
            raise self._limit(message, "operators", MAX_OPERATORS, self._operators)

    def _limit(self, message: str, resource: str, limit: int, actual: int) -> ResourceLimitExceeded:
        at = self.source.position(self.start)
        return ResourceLimitExceeded(
            Kind.RESOURCE_LIMIT, f"{self.source.name}:{at.line}:{at.column}: {message}", resource=resource, limit=limit, actual=actual
        )

    # errors: each method returns the error for the caller to raise

    def unexpected(self, expected: str, *, hint: str | None = None, options: tuple[str, ...] = ()) -> LanguageError:
        """The current token is not what the grammar expects. `options` are the words that it may be a misspelling of."""
        if self._problem is not None and self.kind == lexer.PROBLEM:
            return self._error(self._problem.message, self._problem.span, hint=self._problem.hint)
        if self.kind == lexer.RUN_ON:
            return self.refused(
                f"invalid number: {_clip(self.text)}", hint="numbers have no exponent and no unit, and end before the next word"
            )
        return self.refused(
            f"expected {expected}, found {self._found()}",
            hint=near(self.text, options, sign="@" if self.kind == lexer.ANNOTATION else "") or hint,
        )

    def refused(self, message: str, *, code: str | None = None, hint: str | None = None) -> LanguageError:
        """The current token has the right kind and an invalid value."""
        return self._error(message, Span(self.start, self._ends[self.consumed]), code=code, hint=hint)

    def refused_from(self, start: int, message: str, *, code: str | None = None, hint: str | None = None) -> LanguageError:
        """The text read since `start` is well formed and invalid."""
        return self._error(message, self.span_from(start), code=code, hint=hint)

    def _error(self, message: str, span: Span, *, code: str | None = None, hint: str | None = None) -> LanguageError:
        return LanguageError(Kind.SYNTAX, message, span=span, code=code or self._code, hint=hint)

    def _found(self) -> str:
        match self.kind:
            case lexer.END:
                return "the end of the text"
            case lexer.STRING:
                return f"the string {_clip(self.text)}"
            case lexer.VARIABLE:
                return f"`${_clip(self.text)}`"
            case lexer.ANNOTATION:
                return f"`@{_clip(self.text)}`"
            case _:
                return f"`{_clip(self.text)}`"


def near(word: str, options: tuple[str, ...], *, sign: str = "") -> str | None:
    """Return a "did you mean" hint for a misspelled word, or None."""
    from difflib import get_close_matches  # slow to import, and needed only for an error

    close = get_close_matches(word[:_SHOWN], options, n=1, cutoff=0.7)
    return f"did you mean `{sign}{close[0]}`?" if close and close[0] != word else None


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
