"""The command line in a pseudo-terminal: the shell, progress and colours, and that the captures in the docs are what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from scripts import captures
from tests.harness.terminal import Terminal

QUERY = "match { $p: Person } return { $p.name as name, $p.born as born, $p.about as about } order { name }"
ESCAPE = b"\x1b["
SLOW = "match { $a: Person  $b: Person  $c: Person  $a.born + $b.born < $c.born } return { count($a) as n }"
"""Two hundred million combinations: it is still running when it is interrupted."""
CTRL_C = "\x03"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    graph = og.init(folder / "g.omni", schema="node Person { name: String @key  born: I32?  about: String? }")
    graph.load([{"type": "Person", "data": {"name": f"p{n:03}", "born": n, "about": "x" * 200}} for n in range(300)], "append")
    graph.branches.create("review")
    return folder


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow")
    graph = og.init(folder / "g.omni", schema="node Person { name: String @key  born: I32 }")
    graph.load([{"type": "Person", "data": {"name": f"p{n:03}", "born": n}} for n in range(600)], "append")
    return folder


def files(folder: Path) -> set[str]:
    """The files of the graph, but for the mark that the first writer leaves: locks work here."""
    return {str(path.relative_to(folder)) for path in (folder / "g.omni").rglob("*") if path.is_file() and path.name != "proven.txt"}


def query(folder: Path, *more: str, columns: int = 80, variables: dict[str, str] | None = None) -> Terminal:
    terminal = Terminal("query", "-e", QUERY, "--store", "g.omni", *more, cwd=folder, columns=columns, rows=250, variables=variables)
    with terminal:
        assert terminal.finish() == 0
    return terminal


def test_the_captures_in_the_docs_are_what_is_shown(tmp_path: Path) -> None:
    text = captures.PAGE.read_text("utf-8")
    assert captures.page(text, tmp_path) == text


def test_colours_are_for_terminals_that_want_them(folder: Path) -> None:
    assert b"\x1b[1mname     | " in query(folder).raw
    assert ESCAPE not in query(folder, variables={"NO_COLOR": "1"}).raw
    assert ESCAPE not in query(folder, "--format", "csv").raw


def test_an_error_is_red(folder: Path) -> None:
    with Terminal("query", "-e", "match { $p: Nope } return { $p }", "--store", "g.omni", cwd=folder) as terminal:
        assert terminal.finish() == 1
        assert b"\x1b[31mError:\x1b[0m " in terminal.raw


def test_progress_comes_after_a_second_and_goes_at_the_end(folder: Path) -> None:
    with Terminal("load", "g.omni", "--data", "-", "--mode", "append", "--branch", "review", cwd=folder, pipe=True) as terminal:
        terminal.wait_for(" s)")
        terminal.write(b'{"type": "Person", "data": {"name": "Zoe"}}\n')
        terminal.close_pipe()
        assert terminal.finish() == 0
        assert " s)" not in terminal.screen
        assert "loaded g.omni on branch review with append: 1 entity" in terminal.screen


def test_the_shell_completes_remembers_and_goes_on_after_errors(folder: Path) -> None:
    with Terminal("shell", "g.omni", cwd=folder) as terminal:
        terminal.wait_for("g.omni:main>")
        terminal.keys("\\branch rev\t")
        terminal.wait_for("\\branch review")
        terminal.keys("\r")
        terminal.wait_for_last_line("g.omni:review>")
        terminal.keys("match { $p: Nope } return { $p }\r")
        terminal.wait_for("unknown node type `Nope`")
        terminal.wait_for_last_line("g.omni:review>")
        terminal.keys("nonsense\x03")  # Ctrl-C clears
        terminal.wait_for("nonsense\ng.omni:review>")
        terminal.keys('match { $p: Person { name: "p007" } }\r')
        terminal.wait_for("...>")
        terminal.keys("return { $p.born as born };\r")
        terminal.wait_for(" ms\ng.omni:review>")
        assert "born\n--------\n       7\n" in terminal.screen.replace("    born\n", "born\n")
        terminal.keys("\x04")  # Ctrl-D leaves
        assert terminal.finish() == 0
    history = folder / "home" / "shell_history"
    assert "+return { $p.born as born };" in history.read_text("utf-8")
    assert history.stat().st_mode & 0o077 == 0
    with Terminal("shell", "g.omni", cwd=folder) as terminal:
        terminal.wait_for("g.omni:main>")
        terminal.keys("\x1b[A")  # up
        terminal.wait_for("return { $p.born as born };")
        terminal.keys("\x03")
        terminal.wait_for_last_line("g.omni:main>")
        terminal.keys("\\quit\r")
        assert terminal.finish() == 0


@pytest.mark.parametrize("arguments", [("query", "-e", SLOW, "--store", "g.omni"), ("load", "g.omni", "--data", "-", "--mode", "append")])
def test_an_interrupted_command_says_so_in_one_line_and_leaves_nothing(slow: Path, arguments: tuple[str, ...]) -> None:
    """The load reads what is typed, and is interrupted before its end."""
    before = files(slow)
    with Terminal(*arguments, cwd=slow) as terminal:
        terminal.wait_for(f"{arguments[0]} (")
        terminal.keys(CTRL_C)
        assert terminal.finish() == 130
        assert terminal.last_line == "Error: interrupted"
        assert " s)" not in terminal.screen
        assert "Traceback" not in terminal.screen
    assert files(slow) == before
    assert og.open(slow / "g.omni").verify() == []


def test_an_interrupted_query_ends_and_the_shell_goes_on(slow: Path) -> None:
    with Terminal("shell", "g.omni", cwd=slow) as terminal:
        terminal.wait_for("g.omni:main>")
        terminal.keys(f"{SLOW}\r")
        terminal.wait_for("query (")
        terminal.keys(CTRL_C)
        terminal.wait_for("Error: interrupted\ng.omni:main>")
        terminal.keys("match { $p: Person { born: 7 } } return { $p.name as name }\r")
        terminal.wait_for("p007")
        terminal.wait_for_last_line("g.omni:main>")
        assert "Traceback" not in terminal.screen
        terminal.keys("\\quit\r")
        assert terminal.finish() == 0
