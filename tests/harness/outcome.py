"""What came of a step, as data that can be compared with what was expected."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from omnigraph.catalog.model import Catalog, TypeKind
from omnigraph.errors import Kind, LanguageError, OmniGraphError, Position
from tests.harness.engine import Counts, Table


class Failure(msgspec.Struct, frozen=True):
    """A refusal. `rendered` is what a person would see, `hint` the last line of it."""

    kind: Kind
    code: str | None
    message: str
    position: Position | None
    rendered: str
    hint: str | None = None

    @property
    def codes(self) -> tuple[str, ...]:
        """What the error may be called by: its code, if it has one, and its kind."""
        return (self.kind.value,) if self.code is None else (self.code, self.kind.value)


class LoadCounts(msgspec.Struct, frozen=True):
    counts: Mapping[tuple[TypeKind, str], int]


class Exported(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]


class Document(msgspec.Struct, frozen=True):
    """A JSON document."""

    value: object


class PlannedSteps(msgspec.Struct, frozen=True):
    """The steps of a schema plan as JSON values."""

    values: tuple[object, ...]


class Explained(msgspec.Struct, frozen=True):
    text: str


class Accepted(msgspec.Struct, frozen=True):
    """A schema's meaning."""

    catalog: Catalog


class Done(msgspec.Struct, frozen=True):
    """It succeeded, and there is nothing to show."""


Outcome = Table | Counts | LoadCounts | Exported | Document | PlannedSteps | Explained | Accepted | Done | Failure


def failure_of(error: OmniGraphError) -> Failure:
    """The error as an outcome."""
    if isinstance(error, LanguageError):
        return Failure(error.kind, error.code, error.message, error.position, str(error), error.hint)
    return Failure(error.kind, None, error.message, None, error.message)
