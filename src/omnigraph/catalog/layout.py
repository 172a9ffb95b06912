"""A node or edge type -> the Arrow schema of its table, and the indexes its columns should have."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from omnigraph.catalog.model import EdgeType, EntityType, NodeType, Property
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf, arrow_type
from omnigraph.ids import PropertyId
from omnigraph.lang.tree import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

ID: Final = "id"
SOURCE: Final = "src"
TARGET: Final = "dst"

PROPERTY_MARK: Final = b"omnigraph:property"
"""Field metadata: the property id, which distinguishes a column from an earlier one of the same name."""


class IndexKind(StrEnum):
    """The kinds of indexes: for order and equality, for words, and for nearest vectors."""

    BTREE = "btree"
    FULL_TEXT = "full_text"
    VECTOR = "vector"


class IndexIntent(msgspec.Struct, frozen=True):
    """One index that a column should have. `property` is empty for `id`, `src` and `dst`."""

    column: str
    kind: IndexKind
    property: PropertyId | None = None


def identity_columns(entity: EntityType) -> tuple[str, ...]:
    """The columns that come before the properties."""
    match entity:
        case NodeType():
            return (ID,)
        case EdgeType():
            return (ID, SOURCE, TARGET)
        case _:
            assert_never(entity)


def unique_ends(entity: EntityType) -> bool:
    """True for an edge type with at most one edge from one node to another: `@unique(src, dst)`."""
    return isinstance(entity, EdgeType) and any(set(unique.columns) == {SOURCE, TARGET} for unique in entity.uniques)


def property_field(property_: Property) -> pa.Field:
    """The column of a property, marked with its identity."""
    import pyarrow as pa

    mark = {PROPERTY_MARK: property_.id.encode()}
    return pa.field(property_.name, arrow_type(property_.type), nullable=property_.nullable, metadata=mark)


def table_schema(entity: EntityType) -> pa.Schema:
    """The table of a type: `id`, for edges `src` and `dst`, then the properties by name.

    The store adds what Lance needs besides: the key annotation on `id` and its own blob columns.
    """
    import pyarrow as pa

    first = [pa.field(name, pa.string(), nullable=False) for name in identity_columns(entity)]
    return pa.schema([*first, *map(property_field, entity.properties)])


def index_intents(entity: EntityType) -> tuple[IndexIntent, ...]:
    """Every index a table should have, in the order of its columns; indexes never change which rows match.

    A property that is alone in a key or an index has the index of its type. Free text has a B-tree as a companion, since
    words answer neither equality nor prefixes. A uniqueness and a tuple of columns are asked by equality, hence B-trees only.
    """
    alone, equal = _indexed_columns(entity)
    intents = [IndexIntent(column, IndexKind.BTREE) for column in identity_columns(entity)]
    for property_ in entity.properties:
        kinds: list[IndexKind] = []
        if property_.name in alone and (kind := index_kind(property_.type)) is not None:
            kinds.append(kind)
        if property_.name in alone | equal and orderable(property_.type) and IndexKind.BTREE not in kinds:
            kinds.append(IndexKind.BTREE)
        intents.extend(IndexIntent(property_.name, kind, property_.id) for kind in kinds)
    return tuple(intents)


def index_kind(type_: ValueType) -> IndexKind | None:
    """The index that suits a type best. No other code decides it."""
    match type_:
        case Plain(Scalar.STRING):
            return IndexKind.FULL_TEXT
        case Plain(Scalar.BLOB) | ListOf():
            return None
        case Plain() | EnumOf():
            return IndexKind.BTREE
        case VectorOf():
            return IndexKind.VECTOR
        case _:
            assert_never(type_)


def orderable(type_: ValueType) -> bool:
    """Whether a column of the type can have a B-tree: every scalar but a blob."""
    match type_:
        case Plain(scalar):
            return scalar is not Scalar.BLOB
        case EnumOf():
            return True
        case ListOf() | VectorOf():
            return False
        case _:
            assert_never(type_)


def _indexed_columns(entity: EntityType) -> tuple[frozenset[str], frozenset[str]]:
    """The properties that are alone in a key or an index, and those in any other tuple that is looked up by value."""
    tuples = [index.columns for index in entity.indexes]
    if isinstance(entity, NodeType) and entity.key is not None:
        tuples.append(entity.key.columns)
    alone = frozenset(columns[0] for columns in tuples if len(columns) == 1)
    others = [*(columns for columns in tuples if len(columns) > 1), *(unique.columns for unique in entity.uniques)]
    return alone, frozenset(column for columns in others for column in columns)
