"""The progress of a command -> one line on stderr that is drawn over itself. Nothing is drawn unless stderr is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

_SECONDS_BETWEEN: Final = 0.1
_ERASE: Final = "\r\x1b[2K"


class Line:
    """A line of progress. It is erased at the end of the block."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._began: Final = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shown and self._drawn:
            print(_ERASE, end="", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def draw(self, text: str) -> None:
        """Draw the text, at most ten times a second."""
        now = time.monotonic()
        if self._shown and now - self._drawn >= _SECONDS_BETWEEN:
            self._drawn = now
            print(f"{_ERASE}{text}", end="", file=sys.stderr, flush=True)
