"""The line of progress: when it appears, what it shows, and that it is gone at the end. The clock is the test's own."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest

from omnigraph.cli.progress import Line, until_first


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def terminal(columns: int = 30) -> Iterator[Terminal]:
    """stderr as a terminal. Not a fixture: pytest sets its own stderr after the fixtures."""
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(Terminal()) as shown:
        patch.setenv("COLUMNS", str(columns))
        yield shown


def test_it_appears_after_a_second_and_shows_the_last_text_and_the_time() -> None:
    clock = Clock()
    with terminal():
        line = Line("load", quiet=False, clock=clock)
    clock.now += 0.75
    assert line.frame() is None
    clock.now += 0.25
    assert line.frame() == "load (1 s)"
    line.draw("read: 5 records")
    clock.now += 61
    assert line.frame() == "read: 5 records (62 s)"


def test_it_is_never_wider_than_the_terminal_and_escapes_control_characters() -> None:
    clock = Clock()
    with terminal(30):
        line = Line("x" * 100, quiet=False, clock=clock)
    clock.now += 2
    assert line.frame() == "x" * 28 + "…"
    line.draw("a\x1b[2Jb")
    assert line.frame() == r"a\x1b[2Jb (2 s)"


def test_it_is_drawn_over_itself_and_erased() -> None:
    clock = Clock()
    with terminal() as shown, Line("work", quiet=False, clock=clock):
        clock.now += 5
        while "work (5 s)" not in shown.getvalue():
            time.sleep(0.001)
    assert set(shown.getvalue().split("\r\x1b[2K")) == {"", "work (5 s)"}
    assert shown.getvalue().endswith("\r\x1b[2K")


def test_a_quick_command_draws_nothing() -> None:
    with terminal() as shown, Line("work", quiet=False, clock=Clock()) as line:
        line.draw("done")
    assert shown.getvalue() == ""


def test_nothing_is_drawn_quietly_or_without_a_terminal() -> None:
    clock = Clock()
    with terminal() as shown, redirect_stderr(io.StringIO()) as file:
        piped = Line("work", quiet=False, clock=clock)
        with redirect_stderr(shown):
            quiet = Line("work", quiet=True, clock=clock)
        clock.now += 9
        with quiet, piped:
            assert (quiet.frame(), piped.frame()) == (None, None)
    assert (shown.getvalue(), file.getvalue()) == ("", "")


def test_what_is_streamed_has_a_line_until_its_first_item() -> None:
    with terminal():
        assert list(until_first(iter([1, 2, 3]), "diff", quiet=False)) == [1, 2, 3]
        assert list(until_first(iter(()), "diff", quiet=False)) == []
