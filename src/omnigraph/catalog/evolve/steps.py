"""The steps of a schema plan. Encoded as JSON they have the form that the command line shows."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import msgspec

from omnigraph.catalog.model import Annotation, TypeKind
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf


class MigrationCode(StrEnum):
    """Stable codes of refused changes. `OG-DS-101` to `OG-DS-105` and `OG-MF-104` are reserved and never produced."""

    REQUIRED_PROPERTY = "OG-MF-103"
    PROPERTY_TYPE = "OG-MF-106"


class DropMode(StrEnum):
    """`soft`: older snapshots keep the dropped data. `hard`: its versions are purged too."""

    SOFT = "soft"
    HARD = "hard"


class VectorForm(msgspec.Struct, frozen=True, rename={"dimension": "Vector"}):
    """`{"Vector": 3}`"""

    dimension: int


class TypeForm(msgspec.Struct, frozen=True):
    """`{"scalar": "String", "nullable": true, "list": false, "enum_values": null}`"""

    scalar: str | VectorForm
    nullable: bool
    list: bool
    enum_values: tuple[str, ...] | None


class IndexForm(msgspec.Struct, frozen=True, rename={"columns": "Index"}):
    """`{"Index": ["plot"]}`"""

    columns: tuple[str, ...]


class _Step(msgspec.Struct, frozen=True, tag_field="kind"):
    pass


class AddType(_Step, frozen=True, tag="add_type"):
    """A new type; a node or an edge begins with an empty table."""

    type_kind: TypeKind
    name: str


class RenameType(_Step, frozen=True, tag="rename_type", rename={"from_": "from"}):
    """Another name for the same type: rows, ids and edges stay."""

    type_kind: TypeKind
    from_: str
    to: str


class AddProperty(_Step, frozen=True, tag="add_property"):
    """A new nullable property, null in every row."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: TypeForm


class RenameProperty(_Step, frozen=True, tag="rename_property", rename={"from_": "from"}):
    """Another name for the same values. Ids that were spelled from them stay as they are."""

    type_kind: TypeKind
    type_name: str
    from_: str
    to: str


class AddConstraint(_Step, frozen=True, tag="add_constraint"):
    """A new index intent; the index is built later."""

    type_kind: TypeKind
    type_name: str
    constraint: IndexForm


class ExtendEnum(_Step, frozen=True, tag="extend_enum"):
    """More values for an enum property."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]


class UpdateTypeMetadata(_Step, frozen=True, tag="update_type_metadata"):
    """Another description or instruction. `annotations` are those after the change."""

    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]


class UpdatePropertyMetadata(_Step, frozen=True, tag="update_property_metadata"):
    """Another description. `annotations` are those after the change."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]


class DropType(_Step, frozen=True, tag="drop_type"):
    """A node or edge type that is no longer declared."""

    type_kind: TypeKind
    name: str
    mode: DropMode


class DropProperty(_Step, frozen=True, tag="drop_property"):
    """A property that is no longer declared."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode


class UnsupportedChange(_Step, frozen=True, tag="unsupported_change", omit_defaults=True):
    """A change that no step can make; one of these refuses the whole plan. `entity` is `node:Film` or `node:Film.year`."""

    entity: str
    reason: str
    code: MigrationCode | None = None

    @property
    def message(self) -> str:
        """The reason, with its code if it has one."""
        return self.reason if self.code is None else f"[{self.code}] {self.reason}"


Step = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | AddConstraint
    | ExtendEnum
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropType
    | DropProperty
    | UnsupportedChange
)


class SchemaPlan(msgspec.Struct, frozen=True):
    """The steps from the accepted schema to the wanted one, in order."""

    supported: bool
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        steps = "; ".join(map(describe, self.steps)) or "no schema changes"
        return f"SchemaPlan({steps})" if self.supported else f"SchemaPlan(not supported: {steps})"


def type_form(type_: ValueType, *, nullable: bool) -> TypeForm:
    """A property's type as plans show it."""
    match type_:
        case Plain(scalar):
            return TypeForm(scalar.value, nullable, list=False, enum_values=None)
        case ListOf(item):
            return TypeForm(item.value, nullable, list=True, enum_values=None)
        case VectorOf(dimension):
            return TypeForm(VectorForm(dimension), nullable, list=False, enum_values=None)
        case EnumOf(values):
            return TypeForm("String", nullable, list=False, enum_values=values)
        case _:
            assert_never(type_)


def describe(step: Step) -> str:
    """One line of text for a person."""
    match step:
        case AddType(kind, name):
            return f"add {kind} {name}"
        case RenameType(kind, old, new):
            return f"rename {kind} {old} to {new}"
        case AddProperty(kind, owner, name):
            return f"add property {kind}:{owner}.{name}"
        case RenameProperty(kind, owner, old, new):
            return f"rename property {kind}:{owner}.{old} to {new}"
        case AddConstraint(kind, owner, constraint):
            return f"add @index({', '.join(constraint.columns)}) to {kind} {owner}"
        case ExtendEnum(kind, owner, name, values):
            return f"extend enum {kind}:{owner}.{name} by {', '.join(values)}"
        case UpdateTypeMetadata(kind, name):
            return f"update the texts of {kind} {name}"
        case UpdatePropertyMetadata(kind, owner, name):
            return f"update the texts of {kind}:{owner}.{name}"
        case DropType(kind, name, mode):
            return f"drop {kind} {name} ({mode})"
        case DropProperty(kind, owner, name, mode):
            return f"drop property {kind}:{owner}.{name} ({mode})"
        case UnsupportedChange(entity):
            return f"not supported: {entity}: {step.message}"
        case _:
            assert_never(step)
