"""Columns and rows -> the lines of a table or of `name: value` blocks, aligned by the cells that characters take. Pure.

A pipe or a file gets every row and every value whole. On a terminal no line is wider than the terminal: long values are shortened, columns
that have no room are left out, and so are rows after the first 200; a line below the table says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from omnigraph.cli.screen import Screen, Style

NO_ROWS: Final = "(no rows)"
ROWS_ON_A_TERMINAL: Final = 200
NARROWEST: Final = 8
"""A column is at least this wide, and is not shortened further."""
_BETWEEN: Final = " | "
_CUT: Final = "…"
_JOINERS: Final = frozenset("\u200c\u200d\u00a0\u3000")
"""Not printable by the rules of Python, but harmless: they join emoji and letters, or are spaces."""


class TableCell(NamedTuple):
    """A value as text, and its width."""

    text: str
    width: int
    is_null: bool = False


def printable(text: str) -> str:
    """Escape control characters, so that a name in the data cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _JOINERS else char.encode("unicode_escape").decode() for char in text)


def width_of(text: str) -> int:
    """Return how many cells of a terminal a printable text takes: two for most CJK characters and emoji, none for combining characters."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # its tables take 30 ms, which texts in ASCII do not need

    return max(0, wcswidth(text))


def shorten(text: str, width: int) -> str:
    """Cut a text that is wider than `width` cells. A character and its combining characters stay together."""
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + _CUT
    from wcwidth import iter_graphemes

    kept, room = "", width - 1
    for grapheme in iter_graphemes(text):
        room -= width_of(grapheme)
        if room < 0:
            break
        kept += grapheme
    return kept + _CUT


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def text_of(value: object) -> str:
    """Return a text unchanged and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], count: int, screen: Screen) -> Iterator[str]:
    """Yield the lines of a table of `count` rows. Columns of numbers are aligned to the right."""
    if not columns:
        yield NO_ROWS
        return
    shown = list(rows if screen.width is None else islice(rows, ROWS_ON_A_TERMINAL))
    heads = [_cell(name) for name in columns]
    cells = [[_cell(value) for value in row] for row in shown]
    natural = [max(NARROWEST, head.width, *(row[at].width for row in cells)) for at, head in enumerate(heads)]
    widths = natural if screen.width is None else _fitted(natural, screen.width)
    is_number = [_is_number(row[at] for row in shown) for at in range(len(widths))]
    is_cut = len(widths) < len(columns)
    yield _line(heads, widths, is_number, screen, is_cut=is_cut, is_head=True)
    yield "-+-".join("-" * width for width in (*widths, *([1] if is_cut else ())))
    for row in cells:
        yield _line(row, widths, is_number, screen, is_cut=is_cut)
    if len(shown) < count:
        yield screen.paint(f"({len(shown)} of {count:,} rows shown; a pipe or a file gets all)", Style.DIM)
    if is_cut:
        yield screen.paint(f"({len(widths)} of {len(columns)} columns shown; the terminal is too narrow for more)", Style.DIM)


def blocks(columns: Sequence[str], rows: Iterable[Sequence[object]], count: int, screen: Screen) -> Iterator[str]:
    """Yield each row as lines of `name: value`, with every value whole."""
    if not count:
        yield NO_ROWS
        return
    shown = rows if screen.width is None else islice(rows, ROWS_ON_A_TERMINAL)
    number = 0
    for number, row in enumerate(shown, 1):
        if number > 1:
            yield ""
        yield screen.paint(f"row {number}", Style.BOLD)
        for name, value in zip(columns, row, strict=True):
            yield f"{screen.paint(printable(name), Style.CYAN)}: {printable(text_of(value))}"
    if number < count:
        yield screen.paint(f"({number} of {count:,} rows shown; a pipe or a file gets all)", Style.DIM)


def _cell(value: object) -> TableCell:
    text = printable(text_of(value))
    return TableCell(text, width_of(text), value is None)


def _is_number(values: Iterable[object]) -> bool:
    """Return whether a column has numbers, and apart from nulls nothing else."""
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float}


def _fitted(natural: Sequence[int], width: int) -> list[int]:
    """Return the widths with which the columns fit into a line: of the first columns only, if all do not fit at their narrowest.

    The widest columns give way first: all of them are cut at one width, the largest that fits.
    """
    kept = len(natural)
    room = width - len(_BETWEEN) * (kept - 1)
    while kept > 1 and sum(min(one, NARROWEST) for one in natural[:kept]) > room:
        kept -= 1
        room = width - len(_BETWEEN) * kept - 1  # the mark of the columns that are left out
    low, high = NARROWEST, max(natural[:kept])
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(one, middle) for one in natural[:kept]) <= room:
            low = middle
        else:
            high = middle - 1
    widths = [min(one, low) for one in natural[:kept]]
    spare = max(0, room - sum(widths))
    for at, one in enumerate(natural[:kept]):
        if spare and widths[at] < one:
            widths[at] += 1
            spare -= 1
    return widths if kept > 1 else [min(widths[0], max(1, room))]


def _line(
    cells: Sequence[TableCell], widths: Sequence[int], is_number: Sequence[bool], screen: Screen, *, is_cut: bool, is_head: bool = False
) -> str:
    parts: list[str] = []
    for at, (cell, width, to_the_right) in enumerate(zip(cells, widths, is_number, strict=False)):
        text = cell.text if cell.width <= width else shorten(cell.text, width)
        pad = " " * (width - (cell.width if cell.width <= width else width_of(text)))
        shown = screen.paint(text, Style.BOLD if is_head else Style.DIM) if is_head or cell.is_null else text
        is_last = at == len(widths) - 1 and not is_cut
        parts.append(pad + shown if to_the_right else shown if is_last else shown + pad)
    return _BETWEEN.join([*parts, *([_CUT] if is_cut else ())]).rstrip()
