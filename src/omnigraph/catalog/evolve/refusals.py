"""A type or property and an unsupported change -> the `UnsupportedChange` with its message."""

from __future__ import annotations

from omnigraph.catalog.evolve.steps import MigrationCode, UnsupportedChange
from omnigraph.catalog.model import AnyType


def type_refusal(owner: AnyType, doing: str) -> UnsupportedChange:
    """`doing` names the type itself: "changing the cardinality of 'MadeBy'"."""
    return UnsupportedChange(owner.alias, _reason(doing))


def property_refusal(owner: AnyType, name: str, doing: str, *, code: MigrationCode | None = None) -> UnsupportedChange:
    """`doing` is completed by the property: "changing property type for" -> "... 'Film.year' ..."."""
    return UnsupportedChange(f"{owner.alias}.{name}", _reason(f"{doing} '{owner.name}.{name}'"), code)


def _reason(doing: str) -> str:
    return f"{doing} is not supported in schema migration v1"
