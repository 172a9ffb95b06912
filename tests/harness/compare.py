"""What was expected and what came -> nothing, or the difference as lines side by side."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import msgspec

from tests.harness import expect, outcome
from tests.harness.engine import Counts, Table
from tests.harness.facts import facts_of
from tests.harness.show import Pair, paired
from tests.harness.tables import ULID, cell_text, value_text

_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Difference(msgspec.Struct, frozen=True):
    """What differs, in a word and line by line."""

    reason: str
    pairs: tuple[Pair, ...]


def compare(expected: expect.Expected, actual: outcome.Outcome) -> Difference | None:
    """None when the outcome is what was expected. A refusal that nobody expected differs from everything."""
    match expected, actual:
        case expect.Error(), outcome.Failure():
            return _errors(expected, actual)
        case expect.Error(), _:
            return Difference("an error was expected, but it succeeded", paired(_error_lines(expected), _shown(actual)))
        case _, outcome.Failure():
            return Difference("it was refused", paired(_wanted_lines(expected), actual.rendered.split("\n")))
        case expect.Nothing(), _:
            return None
        case expect.Rows(), Table():
            return _tables(expected, actual)
        case expect.Affected(), Counts():
            return _lines("other counts", _affected_lines(expected), _counted_lines(actual, expected))
        case expect.Loaded(), outcome.LoadCounts():
            return _lines("other counts", _wanted_lines(expected), _shown(actual))
        case expect.Lines(), outcome.Exported():
            return _exports(expected, actual)
        case expect.Report(), outcome.Document():
            return _lines("another document", _pretty(expected.value), _pretty(projected(actual.value, expected.value)))
        case expect.Steps(), outcome.PlannedSteps():
            seen = projected(list(actual.values), list(expected.values))
            assert isinstance(seen, list)
            return _lines("another plan", [value_text(step) for step in expected.values], [value_text(step) for step in seen])
        case expect.PlanText(), outcome.Explained():
            return _plans(expected.text.split("\n"), actual.text.strip("\n").split("\n"))
        case expect.Facts(), outcome.Accepted():
            return _facts(expected, facts_of(actual.catalog))
        case _:
            raise TypeError(f"{type(actual).__name__} cannot be compared with {type(expected).__name__}")


def _lines(reason: str, expected: Sequence[str], actual: Sequence[str]) -> Difference | None:
    return None if list(expected) == list(actual) else Difference(reason, paired(expected, actual))


# errors


def _errors(expected: expect.Error, actual: outcome.Failure) -> Difference | None:
    reasons = list(_error_reasons(expected, actual))
    if not reasons:
        return None
    return Difference(" and ".join(reasons), paired(_error_lines(expected), _failure_lines(actual)))


def _error_reasons(expected: expect.Error, actual: outcome.Failure) -> Iterator[str]:
    if expected.code not in actual.codes:
        yield "another code"
    if expected.at is not None and expected.at != actual.position:
        yield "another place"
    if any(part not in actual.message for part in expected.messages):
        yield "another message"
    if expected.hint is not None and expected.hint not in (actual.hint or ""):
        yield "another hint"


def _error_lines(expected: expect.Error) -> list[str]:
    place = "" if expected.at is None else f" at {expected.at.line}:{expected.at.column}"
    hint = [] if expected.hint is None else [f"hint: {expected.hint}"]
    return [f"error {expected.code}{place}", *expected.messages, *hint]


def _failure_lines(actual: outcome.Failure) -> list[str]:
    place = "" if actual.position is None else f" at {actual.position.line}:{actual.position.column}"
    return [f"error {' or '.join(actual.codes)}{place}", actual.message, *actual.rendered.split("\n")[1:]]


# tables


def _tables(expected: expect.Rows, actual: Table) -> Difference | None:
    columns = Pair(" | ".join(expected.columns), " | ".join(actual.columns), expected.columns == actual.columns)
    matched = _in_order(expected, actual) if expected.ordered else _as_bag(expected, actual)
    twice = _same_ulid_twice(expected, actual, matched)
    pairs = (columns, *_row_pairs(expected, actual, matched))
    if not columns.same:
        return Difference("other columns", pairs)
    if len(matched) < len(expected.rows) or len(matched) < len(actual.rows):
        return Difference("other rows" if not expected.ordered else "other rows, or in another order", pairs)
    return Difference(f"{twice!r} stands in two {ULID} cells", pairs) if twice is not None else None


def _in_order(expected: expect.Rows, actual: Table) -> dict[int, int]:
    """The rows that match the one in the same place."""
    both = enumerate(zip(expected.rows, actual.rows, strict=False))
    return {index: index for index, (wanted, row) in both if _row_matches(wanted, row)}


def _as_bag(expected: expect.Rows, actual: Table) -> dict[int, int]:
    """Expected row -> actual row, as many as can be: a cell such as `~1.5` may match several, so rows make room for each other."""
    taken: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for candidate, row in enumerate(actual.rows):
            if candidate in tried or not _row_matches(expected.rows[index], row):
                continue
            tried.add(candidate)
            if candidate not in taken or place(taken[candidate], tried):
                taken[candidate] = index
                return True
        return False

    for index in range(len(expected.rows)):
        place(index, set())
    return {index: candidate for candidate, index in taken.items()}


def _row_matches(wanted: Sequence[expect.Cell], row: Sequence[object]) -> bool:
    return len(wanted) == len(row) and all(map(cell_matches, wanted, row))


def cell_matches(cell: expect.Cell, value: object) -> bool:
    """Whether a value is what a cell says."""
    match cell:
        case expect.Exactly(wanted):
            return value_text(wanted) == value_text(value)
        case expect.About():
            return isinstance(value, float) and math.isfinite(value) and abs(value - cell.value) <= cell.tolerance
        case expect.AnyUlid():
            return isinstance(value, str) and _ULID.fullmatch(value) is not None
        case _:
            assert_never(cell)


def _same_ulid_twice(expected: expect.Rows, actual: Table, matched: dict[int, int]) -> object | None:
    seen: set[object] = set()
    for index, candidate in matched.items():
        for cell, value in zip(expected.rows[index], actual.rows[candidate], strict=True):
            if isinstance(cell, expect.AnyUlid):
                if value in seen:
                    return value
                seen.add(value)
    return None


def _row_pairs(expected: expect.Rows, actual: Table, matched: dict[int, int]) -> Iterator[Pair]:
    """Matched rows beside each other; in an ordered table rows that differ too, in a bag each on a line of its own."""
    shown = [" | ".join(value_text(value) for value in row) for row in actual.rows]
    for index, row in enumerate(expected.rows):
        partner = matched.get(index, index if expected.ordered and index < len(shown) else None)
        yield Pair(" | ".join(map(cell_text, row)), None if partner is None else shown[partner], index in matched)
    left = range(len(expected.rows), len(shown)) if expected.ordered else sorted(set(range(len(shown))) - set(matched.values()))
    yield from (Pair(None, shown[index], same=False) for index in left)


# documents


def projected(actual: object, expected: object, *, whole: bool = False) -> object:
    """`actual` as far as `expected` speaks of it: its members only (all of them when `whole`), and `<ulid>` for a ULID.

    A member expected to be null may be absent.
    """
    match actual, expected:
        case dict(), dict():
            if whole:
                return {key: projected(value, expected.get(key), whole=True) for key, value in actual.items()}
            return {key: projected(actual.get(key), expected[key]) for key in expected if key in actual or expected[key] is None}
        case list(), list():
            partners = [*expected, *([None] * (len(actual) - len(expected)))]
            return [projected(value, partner, whole=whole) for value, partner in zip(actual, partners, strict=False)]
        case str(), str() if expected == ULID and _ULID.fullmatch(actual) is not None:
            return ULID
        case _:
            return actual


def _exports(expected: expect.Lines, actual: outcome.Exported) -> Difference | None:
    values = [json.loads(line) for line in actual.lines]
    seen = projected(values, list(expected.values), whole=True)
    assert isinstance(seen, list)
    return _lines("other lines", [value_text(value) for value in expected.values], [value_text(value) for value in seen])


def _plans(expected: Sequence[str], actual: Sequence[str]) -> Difference | None:
    """Line by line, each as far as it is written: what is left off at its end (estimates, usually) is not compared."""
    written = [*expected, *([""] * (len(actual) - len(expected)))]
    seen = [wanted if wanted and line.startswith(wanted) else line for wanted, line in zip(written, actual, strict=False)]
    return _lines("another plan", expected, seen)


def _pretty(value: object) -> list[str]:
    return json.dumps(value, indent=2, ensure_ascii=False).split("\n")


def _facts(expected: expect.Facts, facts: Sequence[str]) -> Difference | None:
    missing = [fact for fact in expected.present if fact not in facts]
    present = [fact for fact in expected.absent if fact in facts]
    if not missing and not present:
        return None
    wanted = [*expected.present, *(f"not {fact}" for fact in expected.absent)]
    types = {" ".join(re.split(r"[ .:]", fact)[:2]) for fact in (*missing, *present)}
    near = [fact for fact in facts if fact in wanted or any(re.match(rf"{re.escape(type_)}\b", fact) for type_ in types)]
    return Difference("other facts", paired(sorted(wanted), sorted(near)))


# outcomes as lines


def _affected_lines(expected: expect.Affected) -> list[str]:
    commit = [] if expected.committed is None else [f"commit: {'one' if expected.committed else 'none'}"]
    return [f"nodes: {expected.nodes}", f"edges: {expected.edges}", *commit]


def _counted_lines(actual: Counts, expected: expect.Affected) -> list[str]:
    committed = None if expected.committed is None else actual.committed
    return _affected_lines(expect.Affected(actual.nodes, actual.edges, committed))


def _wanted_lines(expected: expect.Expected) -> list[str]:
    match expected:
        case expect.Rows(columns, rows):
            return [" | ".join(columns), *(" | ".join(map(cell_text, row)) for row in rows)]
        case expect.Affected():
            return _affected_lines(expected)
        case expect.Loaded(counts):
            return [f"{kind} {name}: {count}" for kind, name, count in counts]
        case expect.Lines(values) | expect.Steps(values):
            return [value_text(value) for value in values]
        case expect.Report(value):
            return _pretty(value)
        case expect.Facts(present, absent):
            return [*present, *(f"not {fact}" for fact in absent)]
        case expect.PlanText(text):
            return text.split("\n")
        case expect.Error():
            return _error_lines(expected)
        case expect.Nothing():
            return ["success"]
        case _:
            assert_never(expected)


def _shown(actual: outcome.Outcome) -> list[str]:
    match actual:
        case Table(columns, rows):
            return [" | ".join(columns), *(" | ".join(map(value_text, row)) for row in rows)]
        case Counts(nodes, edges, committed):
            return _affected_lines(expect.Affected(nodes, edges, committed))
        case outcome.LoadCounts(counts):
            return [f"{kind} {name}: {count}" for (kind, name), count in sorted(counts.items())]
        case outcome.Exported(lines):
            return list(lines)
        case outcome.Document(value):
            return _pretty(value)
        case outcome.PlannedSteps(values):
            return [value_text(value) for value in values]
        case outcome.Explained(text):
            return text.split("\n")
        case outcome.Accepted() | outcome.Done():
            return ["success"]
        case outcome.Failure():
            return _failure_lines(actual)
        case _:
            assert_never(actual)
