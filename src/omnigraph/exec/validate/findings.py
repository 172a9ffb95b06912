"""What the evaluator found: rows by number -> problems with a place, and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest

import msgspec

from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, KeyConflict, Kind
from omnigraph.exec.problems import Code, Problem, refusal


class Found(msgspec.Struct, frozen=True):
    """One rule that one row breaks."""

    code: Code
    message: str
    type: str
    """As in `node:Film`: the type whose row it is."""
    row: int | None = None
    """Its number among the rows of its type that were looked at, from 0 in the order they were given; None: none of them."""
    property: str | None = None
    id: str | None = None

    def problem(self, *, source: str | None = None, line: int | None = None, record: int | None = None) -> Problem:
        """The same with the place where the row came from, as far as the caller knows it."""
        return Problem(self.code, self.message, self.type, self.property, self.id, source=source, line=line, record=record)


class Findings(msgspec.Struct, frozen=True):
    """What was found: the first ones, and how many `more` there are that nobody turned into words."""

    found: tuple[Found, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.found) or self.more > 0

    @property
    def count(self) -> int:
        return len(self.found) + self.more


def told(
    code: Code,
    entity: EntityType,
    rows: Iterable[int | None],
    messages: Iterable[str],
    ids: Iterable[str | None],
    *,
    total: int,
    property_: str | None = None,
) -> Findings:
    """The first of `total` rows of a type that break one rule, in order: a row, a message and an id each."""
    one_by_one = zip(rows, messages, ids, strict=True)
    found = tuple(Found(code, message, label(entity), row, property_, id_) for row, message, id_ in one_by_one)
    return Findings(found, total - len(found))


def by_row(findings: Iterable[Findings], *, limit: int) -> Findings:
    """Findings of the same rows as one: in the order of the rows, those of one row in the order given."""
    parts = tuple(findings)
    found = nsmallest(limit, (one for part in parts for one in part.found), key=_row)
    return Findings(tuple(found), sum(part.count for part in parts) - len(found))


def in_turn(findings: Iterable[Findings], *, limit: int) -> Findings:
    """Findings about different rows as one, in the order given."""
    parts = tuple(findings)
    found = tuple(one for part in parts for one in part.found)[:limit]
    return Findings(found, sum(part.count for part in parts) - len(found))


def _row(found: Found) -> int:
    return -1 if found.row is None else found.row


def label(entity: EntityType) -> str:
    """A type as problems name it: `node:Film`."""
    return f"{entity.kind}:{entity.name}"


def error(problems: Sequence[Problem], *, more: int = 0) -> InvalidInput | KeyConflict:
    """The error of a write with these problems, of which there is at least one: an id that exists is a conflict, all else bad input."""
    refused = refusal(problems, more=more)
    if problems[0].code is not Code.KEY_CONFLICT:
        return refused
    return KeyConflict(Kind.KEY_CONFLICT, refused.message, **refused.facts)
