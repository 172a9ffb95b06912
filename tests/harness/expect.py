"""What a case expects of a step, as data."""

from __future__ import annotations

import msgspec

from omnigraph.catalog.model import TypeKind
from omnigraph.errors import Position


class Exactly(msgspec.Struct, frozen=True):
    """A cell that holds this JSON value; `1`, `1.0`, `"1"`, `null`, `""` and `[]` are all different."""

    value: object


class About(msgspec.Struct, frozen=True):
    """A cell that holds a float which, rounded to the digits written, is this one."""

    written: str

    @property
    def value(self) -> float:
        return float(self.written)

    @property
    def tolerance(self) -> float:
        """Half a unit of the last digit written, and a hair more for what binary fractions cannot hold."""
        return 0.5 * 10.0 ** -len(self.written.partition(".")[2]) * (1 + 1e-9)


class AnyUlid(msgspec.Struct, frozen=True):
    """A cell that holds a ULID; no two such cells of a table hold the same one."""


Cell = Exactly | About | AnyUlid


class Rows(msgspec.Struct, frozen=True):
    """A table. Without `ordered` its rows are a bag."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    ordered: bool


class Affected(msgspec.Struct, frozen=True):
    """What a mutation counted; `committed` is None where the case does not care."""

    nodes: int
    edges: int
    committed: bool | None = None


class Loaded(msgspec.Struct, frozen=True):
    """How many rows of each type a load brought."""

    counts: tuple[tuple[TypeKind, str, int], ...]


class Lines(msgspec.Struct, frozen=True):
    """The lines of an export, in order; members of an object too."""

    values: tuple[object, ...]


class Report(msgspec.Struct, frozen=True):
    """A JSON document: members that are not written are not compared, lists are compared whole."""

    value: object


class Steps(msgspec.Struct, frozen=True):
    """The steps of a schema plan, each as a `Report`."""

    values: tuple[object, ...]


class Facts(msgspec.Struct, frozen=True):
    """Facts about a catalog, in the words of `tests.harness.facts`: some that hold, some that do not."""

    present: tuple[str, ...]
    absent: tuple[str, ...]


class PlanText(msgspec.Struct, frozen=True):
    """The text of an explained plan; each line says how the line begins."""

    text: str


class Error(msgspec.Struct, frozen=True):
    """A refusal: a code of the language reference or a stable kind, where it stands, and parts of its message and of its hint."""

    code: str
    messages: tuple[str, ...]
    at: Position | None = None
    hint: str | None = None


class Nothing(msgspec.Struct, frozen=True):
    """No expectation but that the step succeeds."""


Expected = Rows | Affected | Loaded | Lines | Report | Steps | Facts | PlanText | Error | Nothing
