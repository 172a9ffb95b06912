"""Commits, each child before its parents -> lines that draw their graph, as `git log --graph` does. Pure.

Each commit is a `*` in a column. A column holds the id of the commit that it leads to. Lines between two commits join columns that lead
to the same commit (`|/`) and begin a column for each further parent (`|\\`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Columns = list[str | None]
"""The commit that each column leads to. None for a column that is free."""


class Node(NamedTuple):
    """A commit to draw: its id, its parents, and the text beside it."""

    id: str
    parents: Sequence[str]
    text: str


def draw(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the lines of the drawing."""
    columns: Columns = []
    for node in nodes:
        here = columns.index(node.id) if node.id in columns else _free(columns)
        columns[here] = node.id
        for other in [at for at, held in enumerate(columns) if held == node.id and at != here]:
            yield _joined(columns, here, other, "/")
            columns[other] = None
        yield f"{_row(columns, star=here)} {node.text}"
        columns[here] = node.parents[0] if node.parents else None
        for parent in node.parents[1:]:
            there = columns.index(parent) if parent in columns else _free(columns, after=here)
            is_new = columns[there] is None
            columns[there] = None if is_new else parent
            yield _joined(columns, here, there, "\\" if there > here else "/")
            columns[there] = parent
        while columns and columns[-1] is None:
            columns.pop()


def _free(columns: Columns, *, after: int = -1) -> int:
    """Return the first free column behind `after`. Adds one if there is none."""
    for at in range(after + 1, len(columns)):
        if columns[at] is None:
            return at
    columns.append(None)
    return len(columns) - 1


def _row(columns: Columns, *, star: int) -> str:
    return " ".join("*" if at == star else " " if held is None else "|" for at, held in enumerate(columns)).rstrip()


def _joined(columns: Columns, here: int, there: int, stroke: str) -> str:
    """Return a line that joins two columns. The stroke stands beside the outer one; a long way is drawn with dashes."""
    left, right = sorted((here, there))
    cells = [" " if held is None else "|" for held in columns]
    cells[here] = "|"
    if stroke == "/" and there > here:
        cells[there] = " "  # it ends here
    line = ""
    for at, cell in enumerate(cells):
        gap = " " if not left <= at < right else stroke if at == right - 1 else "-"
        line += ("-" if cell == " " and left < at < right else cell) + gap
    return line.rstrip()
