"""Typed query -> its description for lint and tools: result columns, reads and writes."""

from __future__ import annotations

from typing import assert_never

import msgspec

from omnigraph.catalog.model import Catalog, TypeKind
from omnigraph.catalog.types import EnumOf, ListOf, Plain, VectorOf
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Field, TypeRef
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import AggregateCall, Output, TypedQuery, TypedRead


class ResultColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column as rows have it, with the kind of its values."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None


class TouchedType(msgspec.Struct, frozen=True):
    kind: TypeKind
    type_name: str


class Operation(msgspec.Struct, frozen=True):
    result: tuple[ResultColumn, ...]
    reads: tuple[TouchedType, ...]
    writes: tuple[TouchedType, ...]


def operation_of(query: TypedQuery, catalog: Catalog) -> Operation:
    """The result columns of a query and the types it reads and writes. A mutation has no result columns."""
    tables = touched(query, catalog)
    result = tuple(_column(output) for output in query.outputs) if isinstance(query, TypedRead) else ()
    return Operation(result, _types(tables.reads), _types(tables.writes))


def _types(refs: tuple[TypeRef, ...]) -> tuple[TouchedType, ...]:
    return tuple(TouchedType(ref.kind, ref.name) for ref in refs)


def _column(output: Output) -> ResultColumn:
    name = output.name
    nullable = output.nullable or isinstance(output.expr, AggregateCall)
    if isinstance(output.expr, Field) and output.expr.entity:
        return ResultColumn(name, "object", nullable)
    match output.type:
        case Plain(scalar):
            return ResultColumn(name, _kind(scalar), nullable)
        case EnumOf():
            return ResultColumn(name, "string", nullable)
        case ListOf(item):
            return ResultColumn(name, "list", nullable, item_kind=_kind(item))
        case VectorOf(dimension):
            return ResultColumn(name, "vector", nullable, vector_dim=dimension)
        case _:
            assert_never(output.type)


def _kind(scalar: Scalar) -> str:
    match scalar:
        case Scalar.STRING:
            return "string"
        case Scalar.BLOB:
            return "blob"
        case Scalar.BOOL:
            return "bool"
        case Scalar.I32 | Scalar.U32:
            return "int"
        case Scalar.I64 | Scalar.U64:
            return "bigint"
        case Scalar.F32 | Scalar.F64:
            return "float"
        case Scalar.DATE:
            return "date"
        case Scalar.DATETIME:
            return "datetime"
        case _:
            assert_never(scalar)
