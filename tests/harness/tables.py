"""The text of an expected table -> typed cells; cells and values -> the text a table is shown as."""

from __future__ import annotations

import json
import re
from typing import Final, assert_never

from tests.harness.document import Section
from tests.harness.expect import About, AnyUlid, Cell, Exactly, Rows

BAR: Final = "|"
ULID: Final = "<ulid>"
ORDERED: Final = "ordered"

_ABOUT: Final = re.compile(r"~(-?[0-9]+\.[0-9]+)")
_BLANKS: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder()


def read_table(section: Section) -> Rows:
    """`column | column`, then one line for each row with a JSON value, `~1.25` or `<ulid>` in each cell."""
    if section.argument not in ("", ORDERED):
        raise section.wrong(f"`{section.name}` takes `{ORDERED}` or nothing, not `{section.argument}`")
    lines = [(number, line) for number, line in enumerate(section.text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise section.wrong("a table needs a line with the names of its columns, even when it has no rows")
    (_, header), *body = lines
    columns = tuple(name.strip() for name in header.split(BAR))
    if not all(columns) or any(name.startswith('"') for name in columns):
        raise section.wrong("column names are written bare and separated by `|`", below=lines[0][0])
    rows = []
    for number, line in body:
        row = _read_row(section, number, line)
        if len(row) != len(columns):
            raise section.wrong(f"this row has {len(row)} cells, and the table {len(columns)} columns", below=number)
        rows.append(row)
    return Rows(columns, tuple(rows), section.argument == ORDERED)


def _read_row(section: Section, number: int, line: str) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    at = 0
    while True:
        cell, at = _read_cell(section, number, line, _skip(line, at))
        cells.append(cell)
        at = _skip(line, at)
        if at == len(line):
            return tuple(cells)
        if line[at] != BAR:
            raise section.wrong(f"expected `|` or the end of the row before `{line[at:]}`", below=number)
        at += 1


def _skip(line: str, at: int) -> int:
    found = _BLANKS.match(line, at)
    assert found is not None  # the pattern matches nothing, too
    return found.end()


def _read_cell(section: Section, number: int, line: str, at: int) -> tuple[Cell, int]:
    if line.startswith(ULID, at):
        return AnyUlid(), at + len(ULID)
    if (about := _ABOUT.match(line, at)) is not None:
        return About(about[1]), about.end()
    try:
        value, end = _DECODER.raw_decode(line, at)
    except json.JSONDecodeError:
        shown = line[at:].split(BAR)[0].strip()
        raise section.wrong(f"`{shown}` is no cell: write a JSON value (text in quotes), `~1.25` or `{ULID}`", below=number) from None
    return Exactly(value), end


def cell_text(cell: Cell) -> str:
    """A cell as it was written."""
    match cell:
        case Exactly(value):
            return value_text(value)
        case About(written):
            return f"~{written}"
        case AnyUlid():
            return ULID
        case _:
            assert_never(cell)


def value_text(value: object) -> str:
    """A JSON value as a cell holds it. Two values are the same exactly when their texts are."""
    return json.dumps(value, ensure_ascii=False)
