"""A named text. Offsets -> lines and columns; a language error -> the excerpt with carets that a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from omnigraph.errors import LanguageError, Position, Span

SHOWN_COLUMNS: Final = 120
"""Characters of a long line that are shown around the caret. A file may be one line of a megabyte."""


class Source(msgspec.Struct, frozen=True):
    """A text, and its name in messages (usually a path)."""

    text: str
    name: str

    def position(self, offset: int) -> Position:
        """The line and column of a character; lines end at LF."""
        return Position(self.text.count("\n", 0, offset) + 1, offset - self._line_start(offset) + 1)

    def line(self, offset: int) -> str:
        """The whole line that contains a character, without its line end."""
        end = self.text.find("\n", offset)
        return self.text[self._line_start(offset) : len(self.text) if end < 0 else end].removesuffix("\r")

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1


@contextmanager
def located(source: Source) -> Iterator[None]:
    """Add the position and the rendered excerpt in `source` to every language error raised in this block."""
    try:
        yield
    except LanguageError as error:
        if error.span is not None and error.position is None:
            error.position = source.position(error.span.start)
            error.rendered = render(error, source)
        raise


def render(error: LanguageError, source: Source) -> str:
    """`name:line:column: message`, then the line, the carets below it, and the hint."""
    if error.span is None:
        return error.message
    at = source.position(error.span.start)
    number = str(at.line)
    code, carets = _underlined(source.line(error.span.start), at.column - 1, error.span)
    lines = [
        f"{source.name}:{at.line}:{at.column}: {error.message}",
        f"  {number} | {code}",
        f"  {' ' * len(number)} | {carets}",
    ]
    if error.hint is not None:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)


def _underlined(line: str, column: int, span: Span) -> tuple[str, str]:
    """The visible part of a line, and the caret run to draw under it (at least one, within the line)."""
    first = max(0, column - SHOWN_COLUMNS // 2) if len(line) > SHOWN_COLUMNS else 0
    shown = line[first : first + SHOWN_COLUMNS]
    # A control character could move a terminal's cursor; tabs stay, and are repeated below so that the carets line up.
    code = "".join(char if char == "\t" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown)
    before = code[: column - first]
    width = min(max(1, span.end - span.start), max(1, len(shown) - len(before)))
    return code, "".join("\t" if char == "\t" else " " for char in before) + "^" * width
