"""The progress of a command -> one line on stderr that is drawn over itself. Nothing is drawn unless stderr is a terminal.

The line appears after a second, so that quick commands draw nothing. From then on it is drawn ten times a second, with the last text that
the command gave and the time, also while the command waits for storage and says nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self, TypeVar

from omnigraph.cli.screen import screen_of
from omnigraph.grid import escaped, fitted

QUIET_SECONDS: Final = 1.0
_SECONDS_BETWEEN: Final = 0.1
_ERASE: Final = "\r\x1b[2K"


T = TypeVar("T")


def until_first(items: Iterator[T], text: str, *, quiet: bool) -> Iterator[T]:
    """Return the items, with a line of progress until the first of them is there: those after it are printed as they come."""
    with Line(text, quiet=quiet):
        first = list(islice(items, 1))
    return chain(first, items)


class Line:
    """A line of progress, begun with the name of what is done. It is erased at the end of the block."""

    def __init__(self, text: str, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen: Final = screen_of(None if quiet else sys.stderr)
        self._clock: Final = clock
        self._began: Final = clock()
        self._text = text
        self._done: Final = Event()
        self._drawer: Final = Thread(target=self._draw_until_done, name="progress", daemon=True)
        self._is_drawn = False

    def __enter__(self) -> Self:
        if self._screen.width is not None:
            self._drawer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        if self._drawer.ident is not None:
            self._drawer.join()
        if self._is_drawn:
            print(_ERASE, end="", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def draw(self, text: str) -> None:
        """Draw this text from now on. It costs nothing, so that a command may say what it does as often as it likes."""
        self._text = text

    def frame(self) -> str | None:
        """Return what the line shows now, within the width of the terminal. None in the first second."""
        seconds = self.seconds
        if self._screen.width is None or seconds < QUIET_SECONDS:
            return None
        return fitted(f"{escaped(self._text)} ({seconds:.0f} s)".lstrip(), self._screen.width - 1)

    def _draw_until_done(self) -> None:
        while not self._done.wait(_SECONDS_BETWEEN):
            if (shown := self.frame()) is not None:
                self._is_drawn = True
                print(f"{_ERASE}{shown}", end="", file=sys.stderr, flush=True)
