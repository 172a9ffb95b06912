"""The answer that brute force gives and the one an engine gave -> nothing, or in a sentence why they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.harness.brute.answer import Answer
from tests.harness.engine import Table

DIGITS: Final = 9
"""Sums may be rounded in another order; fewer digits than a 32-bit float shows are never compared."""


def disagreement(expected: Answer, actual: Table) -> str | None:
    """None when the answer is one of the right ones: the right rows, in as much of an order as was promised."""
    if actual.columns != expected.columns:
        return f"columns {list(actual.columns)} instead of {list(expected.columns)}"
    total = max(0, sum(map(len, expected.classes)) - expected.skip)
    wanted = total if expected.limit is None else min(total, expected.limit)
    if len(actual.rows) != wanted:
        return f"{len(actual.rows)} rows instead of {wanted}"
    at, skipped = 0, expected.skip
    for class_ in expected.classes:
        # Of the first class that is not skipped whole, any rows may be skipped.
        size = max(0, len(class_) - skipped)
        skipped = max(0, skipped - len(class_))
        part = actual.rows[at : at + size]
        strange = Counter(map(row_text, part)) - Counter(map(row_text, class_))
        if strange:
            place = "" if len(expected.classes) == 1 else f" at row {at + 1}" + (f" to {at + len(part)}" if len(part) > 1 else "")
            return f"unexpected{place}: {next(iter(strange))}"
        at += len(part)
    return None


def row_text(row: Sequence[object]) -> str:
    """A row as text; two rows are the same exactly when their texts are."""
    return json.dumps([_rounded(cell) for cell in row], ensure_ascii=False)


def _rounded(cell: object) -> object:
    match cell:
        case float():
            return float(f"{cell:.{DIGITS}g}") + 0.0  # both zeros are one number
        case list() | tuple():
            return [_rounded(item) for item in cell]
        case _:
            return cell
