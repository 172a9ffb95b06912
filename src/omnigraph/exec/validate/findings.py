"""Rows that break a rule -> violations, problems with a location, and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

import msgspec

from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, KeyConflict, Kind
from omnigraph.exec.problems import Problem, ProblemCode, refusal


class Violation(msgspec.Struct, frozen=True):
    """One rule that one row breaks."""

    code: ProblemCode
    message: str
    type: str
    """The type of the row, for example `node:Film`."""
    row: int | None = None
    """The number of the row among the checked rows of its type, from 0, in input order. None if it is not one of them."""
    property: str | None = None
    id: str | None = None

    def problem(self, *, source: str | None = None, line: int | None = None, record: int | None = None) -> Problem:
        """The problem of this violation, with the location of the row as far as the caller knows it."""
        return Problem(self.code, self.message, self.type, self.property, self.id, source=source, line=line, record=record)


class Findings(msgspec.Struct, frozen=True):
    """The first violations, and how many `more` were counted but not described."""

    found: tuple[Violation, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.found) or self.more > 0

    @property
    def count(self) -> int:
        return len(self.found) + self.more


def rule_findings(
    code: ProblemCode,
    entity: EntityType,
    rows: Iterable[int | None],
    messages: Iterable[str],
    ids: Iterable[str | None],
    *,
    total: int,
    property_: str | None = None,
) -> Findings:
    """The findings for one rule: the first of `total` rows that break it, each with its number, message and id."""
    one_by_one = zip(rows, messages, ids, strict=True)
    found = tuple(Violation(code, message, entity.alias, row, property_, id_) for row, message, id_ in one_by_one)
    return Findings(found, total - len(found))


def merge_by_row(findings: Iterable[Findings], *, limit: int) -> Findings:
    """Merge findings about the same rows: ordered by row, and for one row in the order given."""
    parts = tuple(findings)
    found = nsmallest(limit, (one for part in parts for one in part.found), key=_row)
    return Findings(tuple(found), sum(part.count for part in parts) - len(found))


def merge_in_order(findings: Iterable[Findings], *, limit: int) -> Findings:
    """Merge findings about different rows, in the order given."""
    parts = tuple(findings)
    found = tuple(one for part in parts for one in part.found)[:limit]
    return Findings(found, sum(part.count for part in parts) - len(found))


def _row(found: Violation) -> int:
    return -1 if found.row is None else found.row


def error(problems: Sequence[Problem], *, more: int = 0) -> InvalidInput | KeyConflict:
    """The error for a write with at least one problem: `KeyConflict` if the first one is an existing id, else `InvalidInput`."""
    refused = refusal(problems, more=more)
    if problems[0].code is not ProblemCode.KEY_CONFLICT:
        return refused
    return KeyConflict(Kind.KEY_CONFLICT, refused.message, **refused.facts)
