"""The parts that both languages share: the base of every tree node, names, scalar types and type shapes.

A tree records the text as written, not its meaning: names are not resolved, columns keep their order, literals keep the
type of their spelling. Every node carries the `span` it was read from. Equality and hashing ignore the span, so two texts
that differ only in layout give equal trees.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from omnigraph.errors import Span

NOWHERE: Final = Span(0, 0)
"""The span of a node that was built by a program and not read from a text."""


class Syntax(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="syntax"):
    """The base of every node. `span` is its place in the text and takes no part in equality."""

    span: Span = NOWHERE

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

    def _content(self) -> tuple[object, ...]:
        return tuple(getattr(self, field) for field in self.__struct_fields__ if field != "span")


class Name(Syntax, frozen=True):
    """One identifier: of a type, a property, an edge, a query or an alias."""

    text: str

    def __str__(self) -> str:
        return self.text


class Scalar(StrEnum):
    """The scalar types, as they are spelled."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"


class ScalarType(Syntax, frozen=True):
    """`String`, `I32`, ..."""

    scalar: Scalar


class ListType(Syntax, frozen=True):
    """`[String]`: a list of one scalar. The schema parser refuses `[Blob]`."""

    item: Scalar


class VectorType(Syntax, frozen=True):
    """`Vector(n)`. A schema's dimension lies in 1..2147483647; a parameter's is unchecked here."""

    dimension: int


class EnumType(Syntax, frozen=True):
    """`enum(a, b)`: the values as written, without duplicates. Schemas only."""

    values: tuple[str, ...]


PropertyShape = ScalarType | ListType | VectorType | EnumType
ParameterShape = ScalarType | ListType | VectorType
