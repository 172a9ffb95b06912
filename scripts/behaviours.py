"""`python -m scripts.behaviours`: docstrings of tests -> docs/dev/behaviours.md. Run it after a change.

An id such as `W-49` names one promise. A test defines it by a line of its docstring, `W-49: A sentence.`, with the id alone and a capital
letter; every other mention cites it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "dev" / "behaviours.md"

FAMILIES = {
    "A": "Objects in storage",
    "B": "Branches",
    "C": "Commits and concurrent writers",
    "D": "History",
    "F": "Storage failures",
    "FF": "Fast-forward merges",
    "G": "Records of recoveries",
    "K": "Costs",
    "L": "Life of a graph",
    "M": "Merges",
    "MR": "Merged rows, one by one",
    "NZ": "Merges without a net change",
    "O": "Compaction",
    "P": "Facts about Lance",
    "REC": "Recovery",
    "RT": "Interruptions, one by one",
    "S": "Schema changes",
    "T": "Reading the past",
    "V": "Validation",
    "W": "Writes",
    "X": "Indexes and answers",
    "Y": "Reads inside a mutation",
    "Z": "Who may call Lance",
}
ID = rf"\b(?:{'|'.join(FAMILIES)})-\d\d\b"
DEFINITION = re.compile(rf"^({ID}): ([A-Z`].*)$", re.MULTILINE)

HEAD = """# Behaviours

Tests and comments cite promises by ids such as `W-49`. This page lists each id, its promise, and the test that defines it;
`grep -rn W-49 tests src` finds the others. `python -m scripts.behaviours` generates the page from the docstrings of the tests;
`tests/unit/test_docs.py` checks that it is current and that every cited id is defined once.
"""


class Behaviour(NamedTuple):
    """A promise, and the test whose docstring states it: its name, or its file if the whole file proves it."""

    id: str
    promise: str
    test: str


def behaviours() -> list[Behaviour]:
    """Return every promise that a docstring of a test defines, by id; one defined twice stands in the list twice."""
    return sorted(found for path in (ROOT / "tests").rglob("*.py") for found in _defined(path))


def cited() -> set[str]:
    """Return every id that a file of `tests` or `src` mentions."""
    files = [path for folder in ("tests", "src") for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".gqt", ".pgt")]
    return {found for path in files for found in re.findall(ID, path.read_text("utf-8"))}


def page() -> str:
    found = behaviours()
    families = [(name, [one for one in found if one.id.startswith(f"{letters}-")]) for letters, name in FAMILIES.items()]
    return "\n".join([HEAD, *(line for name, members in families for line in _family(name, members))])


def _family(name: str, members: list[Behaviour]) -> list[str]:
    rows = [f"| {one.id} | {one.promise} | `{one.test}` |" for one in members]
    return [f"## {name}", "", "| id | promise | defined by |", "|---|---|---|", *rows, ""]


def _defined(path: Path) -> Iterator[Behaviour]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.FunctionDef):
            test = node.name if isinstance(node, ast.FunctionDef) else path.relative_to(ROOT).as_posix()
            for key, promise in DEFINITION.findall(ast.get_docstring(node) or ""):
                yield Behaviour(key, promise, test)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
