"""A schema's tree -> type declarations with their inherited properties, the input of the checks and the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from omnigraph.catalog.model import TypeKind
from omnigraph.catalog.schema_codes import SchemaCode, refuse
from omnigraph.catalog.types import ValueType, display, value_type
from omnigraph.errors import LanguageError
from omnigraph.lang import schema as tree
from omnigraph.lang.tree import Name

MAX_TYPES: Final = 1_000
"""Node types, edge types and interfaces of a schema. A graph with this many is created in five seconds."""
MAX_PROPERTIES: Final = 1_000
"""Properties of one type, inherited ones included. The cost of a one-row update is quadratic: 3 s at 1,000, 13 s at 2,000."""
MAX_PROPERTIES_IN_ALL: Final = 20_000


class DeclaredProperty(NamedTuple):
    """A property as a type has it. `inherited_from` is empty if the type itself declares it."""

    tree: tree.Property
    inherited_from: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.tree.name.text

    @property
    def type(self) -> ValueType:
        return value_type(self.tree.shape)

    @property
    def display(self) -> str:
        return display(self.type, nullable=self.tree.nullable)


class DeclaredType(NamedTuple):
    """A declaration and its properties: first the declared ones, then the inherited ones."""

    kind: TypeKind
    tree: tree.Declaration
    properties: tuple[DeclaredProperty, ...]

    @property
    def name(self) -> str:
        return self.tree.name.text

    @property
    def label(self) -> str:
        """The name in messages: `node Film`."""
        return f"{self.kind} {self.name}"

    def property(self, name: str) -> DeclaredProperty | None:
        return next((property_ for property_ in self.properties if property_.name == name), None)


def declare(schema: tree.Schema) -> tuple[DeclaredType, ...]:
    """Every declaration in textual order, its interfaces resolved."""
    if len(schema.declarations) > MAX_TYPES:
        raise _too_many("types", "the schema", MAX_TYPES, len(schema.declarations), schema.declarations[MAX_TYPES].name)
    interfaces = _interfaces(schema)
    found: list[DeclaredType] = []
    in_all = 0
    for declaration in schema.declarations:
        found.append(declared := _declare(declaration, interfaces))
        in_all += len(declared.properties)
        if len(declared.properties) > MAX_PROPERTIES:
            raise _too_many("properties", declared.label, MAX_PROPERTIES, len(declared.properties), declaration.name)
        if in_all > MAX_PROPERTIES_IN_ALL:
            raise _too_many("properties_in_all", f"the schema up to {declared.label}", MAX_PROPERTIES_IN_ALL, in_all, declaration.name)
    return tuple(found)


def _too_many(resource: str, where: str, limit: int, actual: int, at: Name) -> LanguageError:
    what = "types" if resource == "types" else "properties"
    message = f"{where} has {actual} {what}; at most {limit} are allowed"
    return refuse(SchemaCode.TOO_MANY, message, span=at.span, resource=resource, limit=limit, actual=actual)


def _interfaces(schema: tree.Schema) -> Mapping[str, tree.InterfaceType]:
    found: dict[str, tree.InterfaceType] = {}
    for declaration in schema.declarations:
        if isinstance(declaration, tree.InterfaceType):
            name = declaration.name
            if name.text in found:
                raise refuse(SchemaCode.DUPLICATE, f"duplicate interface '{name}'", span=name.span)
            found[name.text] = declaration
    return found


def _declare(declaration: tree.Declaration, interfaces: Mapping[str, tree.InterfaceType]) -> DeclaredType:
    own = tuple(DeclaredProperty(property_) for property_ in declaration.properties)
    match declaration:
        case tree.InterfaceType():
            return DeclaredType(TypeKind.INTERFACE, declaration, own)
        case tree.NodeType():
            return DeclaredType(TypeKind.NODE, declaration, (*own, *_inherited(declaration, own, interfaces)))
        case tree.EdgeType():
            return DeclaredType(TypeKind.EDGE, declaration, own)


def _inherited(
    node: tree.NodeType, own: Sequence[DeclaredProperty], interfaces: Mapping[str, tree.InterfaceType]
) -> tuple[DeclaredProperty, ...]:
    declared = {property_.name: property_ for property_ in own}
    inherited: dict[str, DeclaredProperty] = {}
    for name in node.implements:
        interface = interfaces.get(name.text)
        if interface is None:
            message = f"node {node.name} implements unknown interface '{name}'"
            raise refuse(SchemaCode.UNKNOWN_INTERFACE, message, span=name.span)
        for offered in map(DeclaredProperty, interface.properties):
            if offered.name in declared:
                _same_type(node, declared[offered.name], interface, offered)
            else:
                inherited[offered.name] = _take(node, name.text, offered, inherited.get(offered.name))
    return tuple(inherited.values())


def _same_type(node: tree.NodeType, own: DeclaredProperty, interface: tree.InterfaceType, offered: DeclaredProperty) -> None:
    if own.display != offered.display:
        message = (
            f"node {node.name} property '{own.name}' has type {own.display} but interface {interface.name} declares it as {offered.display}"
        )
        raise refuse(SchemaCode.INTERFACE_TYPE_DIFFERS, message, span=own.tree.span)


def _take(node: tree.NodeType, interface: str, offered: DeclaredProperty, taken: DeclaredProperty | None) -> DeclaredProperty:
    if taken is None:
        return DeclaredProperty(offered.tree, (interface,))
    if offered.display != taken.display or Counter(offered.tree.annotations) != Counter(taken.tree.annotations):
        message = f"interfaces contributing '{node.name}.{offered.name}' have incompatible property semantics"
        raise refuse(SchemaCode.INTERFACES_DISAGREE, message, span=offered.tree.span)
    return DeclaredProperty(taken.tree, tuple(sorted({*taken.inherited_from, interface})))
