"""Columns and rows -> the lines of a table for people, aligned by display width. Pure; no terminal is asked."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

WIDEST: Final = 60
"""Longer cells are cut."""
NARROWEST: Final = 8
_GAP: Final = " | "
_MORE: Final = "…"
_JOINED: Final = ("Mn", "Me", "Cf")
"""Categories of characters that are drawn on the one before them: accents, variation selectors, joiners."""
_JOINER: Final = "\u200d"
_AS_EMOJI: Final = "\ufe0f"
"""The variation selector that makes an emoji of the character before it, such as `❤`, which is then two columns wide."""
_JOINERS: Final = f"\u200c{_JOINER}"
"""Invisible characters that texts need: without them Persian words and families of emoji fall apart."""


def counted(count: int, noun: str) -> str:
    """Return a number and its noun: `1 row`, `2 rows`, `1,000 entities`, `0 branches`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('x', 'ch')) else 's'}"


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for each wide character (CJK, emoji), none for an accent.

    An emoji of several characters (a family, a flag, a hand with a colour of skin) takes two, as terminals draw it that know such emoji.
    """
    if text.isascii():
        return len(text)
    return sum(width for _, width in _drawn(text))


def _drawn(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each drawn unit of a text ends, and its width: a character with all that is drawn on it."""
    width, joins = 0, False
    for at, character in enumerate(text):
        is_joined = at > 0 and (joins or _is_joined(character, width))
        joins = character == _JOINER and width == 2
        if is_joined:
            width = 2 if character == _AS_EMOJI else width
            continue
        if at:
            yield at, width
        width = _character_width(character)
    if text:
        yield len(text), width


def _is_joined(character: str, before: int) -> bool:
    """Return whether a character is drawn on the one before it, which has this width."""
    if unicodedata.category(character) in _JOINED or "\u1160" <= character <= "\u11ff":  # a part of a Korean syllable
        return True
    return before == 2 and "\U0001f3fb" <= character <= "\U0001f3ff"  # a colour of skin


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _JOINED:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """Return a text, cut so that it takes at most `width` columns. An emoji of several characters is kept or cut whole."""
    if display_width(text) <= width:
        return text
    taken, kept = 0, 0
    for end, drawn in _drawn(text):
        taken += drawn
        if taken > width - 1:
            break
        kept = end
    return f"{text[:kept]}{_MORE}"


def escaped(text: str) -> str:
    """Escape control characters, so that a name in the data cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _JOINERS else char.encode("unicode_escape").decode() for char in text)


def cell_text(value: object) -> str:
    """Return a text unchanged and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, widest: int | None = WIDEST, width: int | None = None
) -> Iterator[str]:
    """Yield the header, a rule and the rows. Numbers are to the right. A cell takes at most `widest` columns. With `width`, wide columns
    are narrowed, and the last ones left out, so that each line fits.
    """

    def cell(text: str) -> str:
        return escaped(text) if widest is None else fitted(escaped(text), widest)

    heads = [cell(name) for name in columns]
    cells = [[cell(cell_text(value)) for value in row] for row in rows]
    widths = [
        max(NARROWEST, display_width(head), *(display_width(row[at]) for row in cells)) if cells else max(NARROWEST, display_width(head))
        for at, head in enumerate(heads)
    ]
    right = [_is_number(rows, at) for at in range(len(columns))]
    if width is not None:
        widths = _narrowed(widths, width)
    left_out = len(widths) < len(columns)
    for line in (heads, None, *cells):
        if line is None:
            yield "-+-".join("-" * each for each in widths) + ("-+-" + "-" * len(_MORE) if left_out else "")
        else:
            shown = [_padded(text, each, right=number) for text, each, number in zip(line, widths, right, strict=False)]
            yield _GAP.join([*shown, _MORE] if left_out else shown).rstrip()


def _is_number(rows: Sequence[Sequence[object]], at: int) -> bool:
    """Return whether a column has numbers, and otherwise only nulls."""
    values = [row[at] for row in rows if row[at] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _padded(cell: str, width: int, *, right: bool) -> str:
    text = fitted(cell, width)
    pad = " " * (width - display_width(text))
    return f"{pad}{text}" if right else f"{text}{pad}"


def _narrowed(widths: list[int], width: int) -> list[int]:
    """Return widths that fit a line: the widest columns lose first, and what then does not fit is left out, from the end."""
    room, spent, cap = width - len(_GAP) * (len(widths) - 1), 0, width
    for at, each in enumerate(sorted(widths)):  # the largest cap for which all columns together have room
        cap = (room - spent) // (len(widths) - at)
        if each > cap:
            break
        spent += each
    else:
        return widths
    capped = [min(each, max(cap, NARROWEST)) for each in widths]
    return capped if sum(capped) <= room else _fitting(capped, width)


def _fitting(widths: list[int], width: int) -> list[int]:
    """Return the first columns that fit a line together with a mark for the others. There is at least one."""
    taken, mark = 0, len(_GAP) + len(_MORE)
    for at, each in enumerate(widths):
        taken += each + (len(_GAP) if at else 0)
        if taken + mark > width and at:
            return widths[:at]
    return widths
