"""Results on a real terminal: as wide as it is, without colours if `NO_COLOR` says so, and cut with a note; a pipe gets all."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.grid import display_width

SCHEMA = "node Person { name: String @key  born: I32?  text: String? }"
ALL = "match { $p: Person } return { $p.name as name, $p.born as born, $p.text as text } order { name }"


@pytest.fixture
def graph(tmp_path: Path) -> str:
    made = og.init(tmp_path / "g.omni", schema=SCHEMA)
    rows = [{"type": "Person", "data": {"name": f"名前 {at:04d}", "born": at, "text": "long " * 30}} for at in range(1_200)]
    made.load(rows)
    return made.uri


def on_terminal(*arguments: str, columns: int) -> list[str]:
    """The lines that a command prints on a terminal of this width."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"NO_COLOR": "1"}
    command = [sys.executable, "-m", "omnigraph.cli.main", *arguments]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=subprocess.PIPE, env=environment) as running:
        os.close(other)
        parts = []
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            parts.append(part)
        assert running.stderr is not None
        assert running.stderr.read() == b""
    os.close(main)
    assert running.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [40, 79])
def test_a_table_fits_the_terminal(graph: str, columns: int) -> None:
    lines = on_terminal("query", graph, "-e", f"{ALL} limit 3", columns=columns)
    assert lines[0] == "3 rows from branch main"
    assert len(lines) == 6
    assert max(map(display_width, lines)) <= columns
    assert lines[3].startswith("名前 0000 |        0 | long")
    assert lines[3].endswith("…")
    assert not any("\x1b" in line for line in lines), "NO_COLOR switches them off"


def test_a_terminal_gets_a_thousand_rows_and_a_pipe_all(graph: str) -> None:
    shown = on_terminal("query", graph, "-e", ALL, columns=100)
    assert len(shown) == 3 + 1_000 + 1
    assert shown[-1] == "… 200 more rows: a pipe, as in `| less`, gets all of them"
    command = [sys.executable, "-m", "omnigraph.cli.main", "query", graph, "-e", ALL]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(piped) == 3 + 1_200
    assert piped[3].count("long") == 30, "and the whole values"
