"""Invalid records -> problems with a code and a position, and one error that carries them all.

Every rule that a record can violate has a code here, whether the file reader, the value validation or the comparison with the graph
detects the violation. A mutation, a load and a Spark job report the same problem with the same message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from omnigraph.catalog.model import Property
from omnigraph.catalog.types import VectorOf, scalar_of
from omnigraph.errors import VALUE_CHARACTERS, InvalidInput, Kind, bounded, shortened
from omnigraph.grid import counted
from omnigraph.lang.tree import Scalar
from omnigraph.plan.type_codes import nearest_name

REPORTED: Final = 100
"""The default number of problems that an error lists."""


class ProblemCode(StrEnum):
    """Stable codes of the rules that a record can violate. Append only."""

    # the text of a record
    ENCODING = "encoding"
    JSON = "json"
    DUPLICATE_MEMBER = "duplicate_member"
    LINE_LIMIT = "line_limit"
    # the envelope
    ENVELOPE = "envelope"
    UNKNOWN_FIELD = "unknown_field"
    UNKNOWN_TYPE = "unknown_type"
    # its values
    ID = "id"
    TYPE = "type"
    OVERFLOW = "overflow"
    REQUIRED = "required"
    LIST = "list"
    VECTOR = "vector"
    TEMPORAL = "temporal"
    BLOB = "blob"
    ENUM = "enum"
    RANGE = "range"
    CHECK = "check"
    # its relation to other records
    DUPLICATE_ID = "duplicate_id"
    KEY_CONFLICT = "key_conflict"
    UNIQUE = "unique"
    ENDPOINT = "endpoint"
    CARDINALITY = "cardinality"


EMBED_REMEDY: Final = "configure an embedding provider, or give the vector"
"""What to do about a missing vector that the schema says is embedded."""


def missing_value(property_: Property) -> str:
    """The message for a required property without a value."""
    if isinstance(property_.type, VectorOf):
        noun = "vector property"
    else:
        noun = "blob property" if scalar_of(property_.type) is Scalar.BLOB else "property"
    message = f"non-nullable {noun} '{property_.name}' has null or invalid values"
    return message if property_.embed is None else f"{message}; {EMBED_REMEDY}"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem of one record. `line`, `record` and `column` count from 1; `column` is a position in the line's text."""

    code: ProblemCode
    message: str
    type: str | None = None
    """For example `node:Film`."""
    property: str | None = None
    id: str | None = None
    source: str | None = None
    line: int | None = None
    record: int | None = None
    column: int | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "message", shortened(bounded(self.message), 4 * VALUE_CHARACTERS))
        if self.id is not None:
            msgspec.structs.force_setattr(self, "id", shortened(self.id))

    def where(self) -> str:
        """Return the position in readable form; empty if the problem has none."""
        parts = [self.source or ""]
        if self.line is not None:
            parts.append(f"line {self.line}" if self.column is None else f"line {self.line}, column {self.column}")
        elif self.record is not None:
            parts.append(f"record {self.record}")
        return ", ".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{place}: {self.message}" if (place := self.where()) else self.message


def refusal(problems: Sequence[Problem], *, more: int = 0) -> InvalidInput:
    """Return the error for at least one problem. `more` is the number of further problems that are not listed."""
    first = problems[0]
    others = len(problems) - 1 + more
    tail = f" (and {counted(others, 'more problem')})" if others else ""
    place = {
        name: value
        for name in ("source", "line", "record", "column", "type", "property", "id")
        if (value := getattr(first, name)) is not None
    }
    return InvalidInput(
        Kind.VALIDATION,
        f"{first}{tail}; nothing was written" if first.where() else f"{first}{tail}",
        code=first.code.value,
        problems=tuple(problems),
        more=more,
        **place,
    )


def with_hint(message: str, word: str, names: Iterable[str]) -> str:
    """The message about an unknown word, with the name that it may be a misspelling of."""
    hint = nearest_name(word, names)
    return message if hint is None else f"{message}; {hint}"


def shifted(problems: Iterable[Problem], *, by: int) -> list[Problem]:
    """The problems with their record numbers increased by `by`."""
    return [problem if problem.record is None else msgspec.structs.replace(problem, record=problem.record + by) for problem in problems]


class Report:
    """The problems of an input so far. A reader stops once it is `full`, so `more` counts only the problems found until then."""

    def __init__(self, limit: int = REPORTED) -> None:
        self.limit = limit
        self.problems: list[Problem] = []
        self.more = 0

    @property
    def full(self) -> bool:
        """Whether further problems are only counted."""
        return len(self.problems) >= self.limit

    def add(self, problems: Iterable[Problem], *, more: int = 0) -> None:
        """Add problems up to the limit and count the rest. `more` is the number of further problems that are not described."""
        self.more += more
        for problem in problems:
            if self.full:
                self.more += 1
            else:
                self.problems.append(problem)
