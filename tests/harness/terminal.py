"""A command in a pseudo-terminal -> what a person sees: the screen as text, and the bytes as they came.

Nothing here waits for a time to pass: a step waits until a text is on the screen, however long that takes.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyte

PATIENCE_SECONDS: Final = 120
"""Nothing is expected to take that long. Silence for that time is a failure."""


class _Screen(pyte.Screen):
    """A screen that answers when the program asks where the cursor is."""

    answer_to: int

    def write_process_input(self, data: str) -> None:
        os.write(self.answer_to, data.encode())


class Terminal:
    """The command line in a terminal of some size. With `pipe` its stdin is a pipe, and only its output goes to the terminal."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 80,
        rows: int = 40,
        variables: Mapping[str, str] | None = None,
        pipe: bool = False,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen = _Screen(columns, rows)
        self._screen.answer_to = self._master
        self._stream: Any = pyte.ByteStream(self._screen)
        self.raw = b""
        left_out = ("NO_COLOR", "COLUMNS", "LINES", "PROMPT_TOOLKIT_COLOR_DEPTH")
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        # The leader of a session that opens a terminal gets it as its own: then Ctrl-C is a signal. Only a shell can open it there.
        opening = 'exec "$@"' if pipe else f'exec "$@" < {os.ttyname(slave)}'
        self._running = subprocess.Popen(
            ["sh", "-c", opening, "sh", sys.executable, "-m", "omnigraph.cli.main", *arguments],
            cwd=cwd,
            env={**inherited, "TERM": "xterm-256color", "OMNIGRAPH_HOME": str(cwd / "home"), **(variables or {})},
            stdin=subprocess.PIPE if pipe else slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._running.kill()
        self._running.wait()
        if self._running.stdin is not None:
            self._running.stdin.close()
        os.close(self._master)

    @property
    def screen(self) -> str:
        """What the screen shows, without spaces at the ends of lines and without empty lines below."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip("\n")

    @property
    def last_line(self) -> str:
        return self.screen.rpartition("\n")[2]

    def keys(self, text: str) -> None:
        os.write(self._master, text.encode())

    def write(self, data: bytes) -> None:
        """Write to the pipe."""
        assert self._running.stdin is not None
        self._running.stdin.write(data)
        self._running.stdin.flush()

    def close_pipe(self) -> None:
        assert self._running.stdin is not None
        self._running.stdin.close()

    def wait_for(self, text: str) -> None:
        """Read until the screen shows the text."""
        while text not in self.screen:
            assert self._read(), f"{text!r} did not come; the screen shows\n{self.screen}"

    def wait_for_last_line(self, text: str) -> None:
        """Read until the last line of the screen is the text: a prompt that waits for keys."""
        while self.last_line != text:
            assert self._read(), f"{text!r} did not come; the screen shows\n{self.screen}"

    def finish(self) -> int:
        """Read until the command ends, and return its exit code."""
        while self._read():
            pass
        return self._running.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Read what comes next. False at the end."""
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        assert ready, f"silence; the screen shows\n{self.screen}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last process that had the terminal is gone
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
