"""Shapes as written -> types of values, their display names and their Arrow types.

pyarrow is imported inside the functions that build Arrow types, so that reading a schema stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from omnigraph.lang.tree import EnumType, ListType, PropertyShape, Scalar, ScalarType, VectorType

if TYPE_CHECKING:
    import pyarrow as pa


class _Type(msgspec.Struct, frozen=True, gc=False, tag_field="is"):
    pass


class Plain(_Type, frozen=True, tag="scalar"):
    """`String`, `I32`, ...: one scalar value."""

    scalar: Scalar


class ListOf(_Type, frozen=True, tag="list"):
    """`[String]`: a list of scalars, never of `Blob`."""

    item: Scalar


class VectorOf(_Type, frozen=True, tag="vector"):
    """`Vector(n)`: exactly `dimension` 32-bit floats."""

    dimension: int


class EnumOf(_Type, frozen=True, tag="enum"):
    """`enum(a, b)`: one of `values`, which are sorted; stored as a string."""

    values: tuple[str, ...]


ValueType = Plain | ListOf | VectorOf | EnumOf
"""The type of a property, parameter or literal, without nullability."""

INTEGERS: Final = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS: Final = frozenset({Scalar.F32, Scalar.F64})
NUMBERS: Final = INTEGERS | FLOATS


def value_type(shape: PropertyShape) -> ValueType:
    """The type of a written shape. Enum values are sorted and unique."""
    match shape:
        case ScalarType(scalar=scalar):
            return Plain(scalar)
        case ListType(item=item):
            return ListOf(item)
        case VectorType(dimension=dimension):
            return VectorOf(dimension)
        case EnumType(values=values):
            return EnumOf(tuple(sorted(set(values))))
        case _:
            assert_never(shape)


def scalar_of(type_: ValueType) -> Scalar | None:
    """The scalar of a single value: an enum is a `String`; lists and vectors have none."""
    match type_:
        case Plain(scalar):
            return scalar
        case EnumOf():
            return Scalar.STRING
        case ListOf() | VectorOf():
            return None
        case _:
            assert_never(type_)


def display(type_: ValueType, *, nullable: bool = False) -> str:
    """The type as shown in messages: `I32`, `[String]?`, `enum(a, b)`, `Vector(3)`."""
    mark = "?" if nullable else ""
    match type_:
        case Plain(scalar):
            return f"{scalar}{mark}"
        case ListOf(item):
            return f"[{item}]{mark}"
        case VectorOf(dimension):
            return f"Vector({dimension}){mark}"
        case EnumOf(values):
            return f"enum({', '.join(values)}){mark}"
        case _:
            assert_never(type_)


def arrow_scalar(scalar: Scalar) -> pa.DataType:
    """The Arrow type of one scalar. `Blob` is a placeholder: the store puts its own blob column there."""
    import pyarrow as pa

    match scalar:
        case Scalar.STRING:
            return pa.string()
        case Scalar.BLOB:
            return pa.large_binary()
        case Scalar.BOOL:
            return pa.bool_()
        case Scalar.I32:
            return pa.int32()
        case Scalar.I64:
            return pa.int64()
        case Scalar.U32:
            return pa.uint32()
        case Scalar.U64:
            return pa.uint64()
        case Scalar.F32:
            return pa.float32()
        case Scalar.F64:
            return pa.float64()
        case Scalar.DATETIME:
            return pa.date64()
        case Scalar.DATE:
            return pa.date32()
        case _:
            assert_never(scalar)


def arrow_type(type_: ValueType) -> pa.DataType:
    """The Arrow type of a column of this type. Items of lists and vectors are called `item` and may be null."""
    import pyarrow as pa

    match type_:
        case Plain(scalar):
            return arrow_scalar(scalar)
        case ListOf(item):
            return pa.list_(pa.field("item", arrow_scalar(item), nullable=True))
        case VectorOf(dimension):
            return pa.list_(pa.field("item", pa.float32(), nullable=True), dimension)
        case EnumOf():
            return pa.string()
        case _:
            assert_never(type_)
