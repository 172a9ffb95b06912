"""A stream -> how lines are shown on it: the width of its terminal and whether it shows colours. A pipe or a file has neither."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final, NamedTuple, TextIO

_UNKNOWN_WIDTH: Final = 80


class Style(StrEnum):
    """How a part of a line looks on a terminal with colours. The value is the parameter of the escape sequence."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


class Screen(NamedTuple):
    """Where lines are shown. `width` is that of a terminal, in cells; None is a pipe or a file, which gets everything, at any width."""

    width: int | None = None
    colours: bool = False

    def paint(self, text: str, style: Style) -> str:
        """Return the text in a style, or unchanged where there are no colours."""
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.colours and text else text


def screen_of(stream: TextIO | None) -> Screen:
    """Return the screen of a stream. `COLUMNS` overrides the width of a terminal; `NO_COLOR` and `TERM=dumb` turn its colours off."""
    if stream is None or not stream.isatty():
        return Screen()
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(_width_of(stream), colours)


def _width_of(stream: TextIO) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _UNKNOWN_WIDTH
    except (OSError, ValueError):
        return _UNKNOWN_WIDTH
