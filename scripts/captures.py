"""`python -m scripts.captures`: real commands in a pseudo-terminal -> the captures in docs/user/terminal.md.

What differs from run to run (times, ids, speeds) is replaced, so that a test can compare the page with a new run.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import omnigraph as og
from tests.harness.terminal import Terminal

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "user" / "terminal.md"
_CAPTURE: Final = re.compile(r"(<!-- capture: (\w+) -->\n```\n).*?(```\n)", re.DOTALL)
_SCHEMA: Final = """node Person {
  name: String @key
  born: I32?
  about: String?
}

edge Knows: Person -> Person
"""
_ABOUT: Final = "wrote the first program for a machine that was never built, and more about it than its inventor"
_RECORDS: Final = [
    {"type": "Person", "data": {"name": "Ada", "born": 1815, "about": _ABOUT}},
    {"type": "Person", "data": {"name": "紫式部", "about": "源氏物語"}},
    {"type": "Person", "data": {"name": "Zoë 🚀", "born": 1990}},
    {"edge": "Knows", "from": "Ada", "to": "Zoë 🚀", "data": {"id": "k"}},
]
_QUERY: Final = "match { $p: Person } return { $p.name as name, $p.born as born, $p.about as about } order { name }"
_VOLATILE: Final = (
    (r"\b[\d.]+ ms", "1.0 ms"),
    (r"\b01[0-9A-HJKMNP-TV-Z]{6,24}\b", "01M7GK4H"),
    (r"[\d,]+ records/s", "1,000 records/s"),
    (r"\(\d+ s\)", "(1 s)"),
)


def captures(folder: Path) -> Iterator[tuple[str, str]]:
    """Run every command, and yield the name of each capture with its text."""
    og.init(folder / "people.omni", schema=_SCHEMA).load(_RECORDS, "append")
    (folder / "people.gq").write_text(_QUERY + "\n", "utf-8")
    query = ("query", "--query", "people.gq", "--store", "people.omni")
    with Terminal(*query, cwd=folder, columns=60) as terminal:
        assert terminal.finish() == 0
        yield "table", _shown(query, terminal.screen)
        coloured = terminal.raw.decode().replace("\r\n", "\n").replace("\x1b", "\\e")
    yield "colours", _shown(query, "\n".join(coloured.splitlines()[:4]))
    yield "shell", _shell(folder)
    yield "progress", _progress(folder)


def _shell(folder: Path) -> str:
    with Terminal("shell", "people.omni", cwd=folder) as terminal:
        terminal.wait_for("main>")
        terminal.keys("match { $p: Pers\t")
        terminal.wait_for("Person")
        terminal.keys(" { na\t")
        terminal.wait_for("{ name")
        terminal.keys(': "Ada" } }\r')
        terminal.wait_for("...>")
        terminal.keys("return { $p.name as name, $p.born as born }\r\r")
        terminal.wait_for(" ms\npeople.omni:main>")
        terminal.keys("match { $p: Person } return { $p.nme }\r")
        terminal.wait_for("did you mean `name`?\npeople.omni:main>")
        terminal.keys("\\quit\r")
        assert terminal.finish() == 0
        return _shown(("shell", "people.omni"), terminal.screen)


def _progress(folder: Path) -> str:
    load = ("load", "people.omni", "--data", "-", "--mode", "append")
    with Terminal(*load, cwd=folder, columns=72, pipe=True) as terminal:
        terminal.write(json.dumps({"type": "Person", "data": {"name": "Grace"}}).encode() + b"\n")
        terminal.wait_for(" s)")
        shown = _shown(load, terminal.screen)
        terminal.close_pipe()
        assert terminal.finish() == 0
        return shown


def _shown(arguments: tuple[str, ...], screen: str) -> str:
    text = f"$ omnigraph {' '.join(arguments)}\n{screen.rstrip()}\n"
    for pattern, name in _VOLATILE:
        text = re.sub(pattern, name, text)
    return re.sub(r"(?m) +$", "", text)


def page(text: str, folder: Path) -> str:
    """Return the page with new captures in place of those it has."""
    made = dict(captures(folder))
    assert set(made) == {name for _, name, _ in _CAPTURE.findall(text)}
    return _CAPTURE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", text)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="captures-"))
    try:
        PAGE.write_text(page(PAGE.read_text("utf-8"), folder), "utf-8")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
