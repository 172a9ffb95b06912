"""The meaning of a schema: types, properties and constraints, resolved, sorted and indexed by name.

A `Catalog` is made by `omnigraph.catalog.resolution` from a tree and by `omnigraph.catalog.identity` from stored bytes. It
holds no spans and no layout: two schemas with the same meaning give the same catalog, except for identities. Defaults are left
out of the stored form, so that a field added later does not change the hash of a schema that does not use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

import msgspec

from omnigraph.catalog.types import ValueType
from omnigraph.ids import PropertyId, TypeId


class TypeKind(StrEnum):
    """The three namespaces of types."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


class Annotation(msgspec.Struct, frozen=True, omit_defaults=True):
    """An annotation without a meaning to the catalog (`@pii`, `@default(3)`), kept as written. `options` are sorted by key."""

    name: str
    value: str | None = None
    options: tuple[tuple[str, str], ...] = ()


class Embed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@embed(source, model="m")`: the vectors of this property come from the text of `source`."""

    source: str
    model: str | None = None


class Property(msgspec.Struct, frozen=True, omit_defaults=True):
    """One property of a type, inherited ones included."""

    name: str
    type: ValueType
    nullable: bool
    id: PropertyId
    """Stable through renames and unique among properties."""
    inherited_from: tuple[str, ...] = ()
    """The interfaces that contribute the property, sorted. Empty if the type itself declares it."""
    description: str | None = None
    embed: Embed | None = None
    annotations: tuple[Annotation, ...] = ()


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@key(a, b)`: the identity of a node.

    `columns` are in the order in which a row's id is spelled. That is the order of their names when the type was created;
    a rename changes a name and never the order.
    """

    columns: tuple[str, ...]
    declared: tuple[str, ...] = ()
    """The columns in the order inside the declaration, where that is another one. A load accepts key values in this order."""

    @property
    def in_declared_order(self) -> tuple[str, ...]:
        return self.declared or self.columns


class Unique(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@unique(a, b)`: no two rows share the tuple; a null in it exempts the row. Sorted; edges may name `src`, `dst`."""

    columns: tuple[str, ...]


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@index(a, b)`: a request for an index. It changes speed, never answers. Sorted; edges may name `src`, `dst`."""

    columns: tuple[str, ...]


class Range(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@range(property, low..high)`: inclusive, compared as doubles, null exempt. At least one end is given."""

    property: str
    low: int | float | None
    high: int | float | None


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@check(property, "regex")`: the pattern is found somewhere in the value; null exempt."""

    property: str
    pattern: str


Constraint = Key | Unique | Index | Range | Check


class Cardinality(msgspec.Struct, frozen=True, omit_defaults=True):
    """`@card(low..high)`: edges of one type per source node; no `high` means no upper bound."""

    low: int = 0
    high: int | None = None


class _DeclaredType(msgspec.Struct, frozen=True, dict=True, kw_only=True, omit_defaults=True):
    """The fields that all three kinds of types share. `properties` are sorted by name and include the inherited ones."""

    kind: ClassVar[TypeKind]
    name: str
    id: TypeId
    properties: tuple[Property, ...] = ()
    indexes: tuple[Index, ...] = ()
    uniques: tuple[Unique, ...] = ()

    @cached_property
    def _by_name(self) -> Mapping[str, Property]:
        return {property_.name: property_ for property_ in self.properties}

    @cached_property
    def alias(self) -> str:
        """The name of the type in messages, and of its table: `node:Film`. A node type and an edge type may have the same name."""
        return f"{self.kind}:{self.name}"

    def property(self, name: str) -> Property | None:
        """The property of that exact name."""
        return self._by_name.get(name)


class InterfaceType(_DeclaredType, frozen=True, kw_only=True):
    """A set of properties that node types may inherit. It has no table; a query on it reads the types that implement it."""

    kind: ClassVar[TypeKind] = TypeKind.INTERFACE
    key: Key | None = None

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that every implementing node type inherits."""
        return (*((self.key,) if self.key else ()), *self.uniques, *self.indexes)


class NodeType(_DeclaredType, frozen=True, kw_only=True):
    """A node type: one table with `id` and its properties."""

    kind: ClassVar[TypeKind] = TypeKind.NODE
    key: Key | None = None
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    implements: tuple[str, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Every constraint, inherited ones included. The index that a key implies is not listed again."""
        return (*((self.key,) if self.key else ()), *self.uniques, *self.indexes, *self.ranges, *self.checks)


class EdgeType(_DeclaredType, frozen=True, kw_only=True):
    """An edge type: one table with `id`, `src`, `dst` and its properties."""

    kind: ClassVar[TypeKind] = TypeKind.EDGE
    source: str
    target: str
    cardinality: Cardinality = Cardinality()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Every constraint but the cardinality."""
        return (*self.uniques, *self.indexes)


EntityType = NodeType | EdgeType
"""A type that has rows."""
AnyType = InterfaceType | NodeType | EdgeType


def is_key(entity: EntityType, property_: str) -> bool:
    """True for a property of the key of a node type."""
    return isinstance(entity, NodeType) and entity.key is not None and property_ in entity.key.columns


class Catalog(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """A whole schema. Each group is sorted by name."""

    interfaces: tuple[InterfaceType, ...] = ()
    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()

    @cached_property
    def _nodes(self) -> Mapping[str, NodeType]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _edges(self) -> Mapping[str, EdgeType]:
        return {fold(edge.name): edge for edge in self.edges}

    @cached_property
    def _by_id(self) -> Mapping[TypeId, EntityType]:
        return {entity.id: entity for entity in self.entities}

    @property
    def entities(self) -> tuple[EntityType, ...]:
        """The types that have rows: nodes, then edges."""
        return (*self.nodes, *self.edges)

    def node(self, name: str) -> NodeType | None:
        """The node type of that exact name."""
        return self._nodes.get(name)

    def interface(self, name: str) -> InterfaceType | None:
        """The interface of that exact name."""
        return next((interface for interface in self.interfaces if interface.name == name), None)

    def implementing(self, interface: InterfaceType) -> tuple[NodeType, ...]:
        """The node types that implement an interface, by name."""
        return tuple(node for node in self.nodes if interface.name in node.implements)

    def edge(self, name: str) -> EdgeType | None:
        """The edge type of that name in any case: queries and data may write `actedIn` for `ActedIn`."""
        return self._edges.get(fold(name))

    def edge_named(self, name: str) -> EdgeType | None:
        """The edge type of that exact name: mutations write type names as the schema does."""
        edge = self.edge(name)
        return edge if edge is not None and edge.name == name else None

    def by_id(self, type_id: TypeId) -> EntityType | None:
        """The node or edge type with that identity, under any name."""
        return self._by_id.get(type_id)

    def edges_of(self, node: str) -> tuple[EdgeType, ...]:
        """The edge types that start or end at a node type, by name: what a delete of its nodes cascades to."""
        return tuple(edge for edge in self.edges if node in (edge.source, edge.target))


def fold(name: str) -> str:
    """An edge name as it is looked up."""
    return name.lower()
