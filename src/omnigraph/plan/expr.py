"""The leaves that typed queries, logical plans and operators share: constants, fields, and the types they refer to."""

from __future__ import annotations

from typing import Final

import msgspec

from omnigraph.catalog.model import AnyType, TypeKind
from omnigraph.catalog.types import Plain, ValueType
from omnigraph.ids import TypeId
from omnigraph.lang.tree import Scalar

Atom = bool | int | float | str
Value = Atom | tuple[Atom, ...] | None
"""A stored value: a `Date` as days, a `DateTime` as milliseconds since 1970, a list or vector as a tuple."""

ID: Final = "id"
"""The column that identifies a row. No property has this name."""

TYPE: Final = "(type)"
"""The name of the type of a bound entity, as a column. No property can have this name."""

STRING: Final = Plain(Scalar.STRING)
BOOL: Final = Plain(Scalar.BOOL)
BLOB: Final = Plain(Scalar.BLOB)
I64: Final = Plain(Scalar.I64)
U64: Final = Plain(Scalar.U64)
F64: Final = Plain(Scalar.F64)
DATE: Final = Plain(Scalar.DATE)
DATETIME: Final = Plain(Scalar.DATETIME)


class TypeRef(msgspec.Struct, frozen=True):
    """A type: its name for people, its identity for tables. An interface stands for the node types that implement it."""

    kind: TypeKind
    name: str
    id: TypeId


class Constant(msgspec.Struct, frozen=True, tag="constant", tag_field="is"):
    """A value known before the plan runs. In the plan of a template, `parameter` is the one whose value it is."""

    type: ValueType
    value: Value
    parameter: str | None = None


class Field(msgspec.Struct, frozen=True, tag="field", tag_field="is"):
    """A column of the entity bound to `binding`. With `entity` it is the whole entity, which is represented by its id."""

    binding: int
    column: str
    type: ValueType
    nullable: bool = False
    entity: bool = False

    @property
    def whole(self) -> bool:
        """Whether the field is the id, which every bound entity has at hand."""
        return self.column == ID


TRUE: Final = Constant(BOOL, value=True)


def type_ref(entity: AnyType) -> TypeRef:
    return TypeRef(entity.kind, entity.name, entity.id)


def whole(binding: int, *, nullable: bool = False) -> Field:
    """The entity bound to `binding`, as its id."""
    return Field(binding, ID, STRING, nullable, entity=True)
