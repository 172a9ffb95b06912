"""Columns and rows of a result -> the lines of a table, of `column: value` blocks, or of CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

FORMATS: Final = ("table", "kv", "csv", "jsonl", "json")
WIDEST: Final = 60
"""A longer cell is cut in a table."""
NARROWEST: Final = 8
NO_ROWS: Final = "(no rows)"


def printed(form: str, headline: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of `form`, which is `table`, `kv` or `csv`."""
    if form == "csv":
        yield from _csv(columns, rows)
        return
    yield headline
    if not columns or (form == "kv" and not rows):
        yield NO_ROWS
    elif form == "kv":
        yield from _blocks(columns, rows)
    else:
        yield from _table(columns, rows)


def _cell(value: object) -> str:
    """A text as it is, everything else as JSON spells it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [[_cut(_cell(value)) for value in row] for row in rows]
    widths = [
        max(NARROWEST, len(_cut(name)), *(len(row[at]) for row in cells)) if cells else max(NARROWEST, len(_cut(name)))
        for at, name in enumerate(columns)
    ]
    yield _padded([_cut(name) for name in columns], widths)
    yield "-+-".join("-" * width for width in widths)
    for row in cells:
        yield _padded(row, widths)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cut(text: str) -> str:
    shown = text.replace("\r", "\\r").replace("\n", "\\n")
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name, value in zip(columns, row, strict=True):
            yield f"{name}: {_cell(value)}"


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield ",".join(_quoted(name) for name in columns)
    for row in rows:
        yield ",".join(_quoted(_cell(value)) for value in row)


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(char in text for char in ',"\r\n') else text
