"""Expected and actual lines -> one drawing with both side by side, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, NamedTuple

WIDTH: Final = 76
"""How wide the left side gets at most; longer lines are continued below."""
MARK: Final = "!"


class Pair(NamedTuple):
    """One line of both sides; None where a side has none."""

    expected: str | None
    actual: str | None
    same: bool


def paired(expected: Sequence[str], actual: Sequence[str]) -> tuple[Pair, ...]:
    """Lines that are equal stand beside each other, the others beside what replaced them."""
    pairs: list[Pair] = []
    for tag, i, j, k, m in SequenceMatcher(None, expected, actual, autojunk=False).get_opcodes():
        rows = zip_longest(expected[i:j], actual[k:m])
        pairs.extend(Pair(left, right, tag == "equal") for left, right in rows)
    return tuple(pairs)


def side_by_side(pairs: Iterable[Pair]) -> str:
    """Two columns; lines that differ are marked in front."""
    rows = [Pair("expected", "actual", same=True), *pairs]
    width = min(WIDTH, max(len(row.expected or "") for row in rows))
    drawn: list[str] = []
    for row in rows:
        left, right = _pieces(row.expected, width), _pieces(row.actual, WIDTH)
        mark = " " if row.same else MARK
        drawn.extend(f"{mark} {a or '':<{width}} | {b or ''}".rstrip() for a, b in zip_longest(left, right))
    return "\n".join(drawn)


def _pieces(line: str | None, width: int) -> list[str]:
    text = line or ""
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]
