"""A schema's tree -> its catalog, or the first error: interfaces, then annotations, then constraints, then the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from omnigraph.catalog import annotations as annotation
from omnigraph.catalog.constraints import Constraints, constraints_of
from omnigraph.catalog.declarations import DeclaredProperty, DeclaredType, declare
from omnigraph.catalog.model import Cardinality, Catalog, EdgeType, InterfaceType, NodeType, Property, TypeKind, fold
from omnigraph.catalog.schema_codes import SchemaCode, refuse
from omnigraph.errors import Span
from omnigraph.ids import PropertyId, TypeId
from omnigraph.lang import schema as tree
from omnigraph.lang.tree import Name

_Named = TypeVar("_Named", InterfaceType, NodeType, EdgeType)


class RenameHint(NamedTuple):
    """`@rename_from("old")` and its place in the text. An inherited hint belongs to the interface and is optional."""

    old: str
    span: Span
    inherited: bool = False


class RenameHints(NamedTuple):
    """The rename hints of a schema: of types by kind and name, of properties by kind, owner and name. Never stored."""

    types: Mapping[tuple[TypeKind, str], RenameHint]
    properties: Mapping[tuple[TypeKind, str, str], RenameHint]


class ResolvedSchema(NamedTuple):
    """A valid schema without identities: every id is still empty."""

    catalog: Catalog
    hints: RenameHints


def resolve(schema: tree.Schema) -> ResolvedSchema:
    """Check a whole schema. Raises the first error, a `LanguageError` with its code in the language reference."""
    declared = declare(schema)
    for declaration in declared:
        annotation.check_annotations(declaration)
    constraints = [constraints_of(declaration) for declaration in declared]
    _check_names(schema)
    interfaces: list[InterfaceType] = []
    nodes: list[NodeType] = []
    edges: list[EdgeType] = []
    for declaration, held in zip(declared, constraints, strict=True):
        match declaration.tree:
            case tree.InterfaceType():
                interfaces.append(_interface(declaration, held))
            case tree.NodeType() as node:
                nodes.append(_node(declaration, node, held))
            case tree.EdgeType() as edge:
                edges.append(_edge(declaration, edge, held))
    return ResolvedSchema(Catalog(_sorted(interfaces), _sorted(nodes), _sorted(edges)), _hints(declared))


def _sorted(types: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(sorted(types, key=_name_of))


def _name_of(named: InterfaceType | NodeType | EdgeType | Property) -> str:
    return named.name


def _check_names(schema: tree.Schema) -> None:
    nodes: dict[str, tree.NodeType] = {}
    edges: dict[str, tree.EdgeType] = {}
    for declaration in schema.declarations:
        name = declaration.name
        match declaration:
            case tree.NodeType():
                if name.text in nodes:
                    raise refuse(SchemaCode.DUPLICATE, f"duplicate node '{name}'", span=name.span)
                nodes[name.text] = declaration
            case tree.EdgeType():
                _check_edge_name(name, edges.get(fold(name.text)))
                edges[fold(name.text)] = declaration
            case tree.InterfaceType():
                pass
    for edge in edges.values():
        for role, end in (("source", edge.source), ("target", edge.target)):
            if end.text not in nodes:
                message = f"edge {edge.name} references unknown {role} type: {end}"
                raise refuse(SchemaCode.UNKNOWN_ENDPOINT, message, span=end.span, hint="an edge joins node types")


def _check_edge_name(name: Name, other: tree.EdgeType | None) -> None:
    if other is None:
        return
    if other.name == name:
        raise refuse(SchemaCode.DUPLICATE, f"duplicate edge '{name}'", span=name.span)
    message = f"edge name collision after case folding: '{other.name}' and '{name}'"
    raise refuse(SchemaCode.EDGE_NAMES_COLLIDE, message, span=name.span)


def _interface(declared: DeclaredType, held: Constraints) -> InterfaceType:
    return InterfaceType(
        name=declared.name,
        id=TypeId(""),
        properties=_properties(declared),
        key=held.key,
        uniques=held.uniques,
        indexes=held.indexes,
    )


def _node(declared: DeclaredType, node: tree.NodeType, held: Constraints) -> NodeType:
    return NodeType(
        name=declared.name,
        id=TypeId(""),
        properties=_properties(declared),
        key=held.key,
        uniques=held.uniques,
        indexes=held.indexes,
        ranges=held.ranges,
        checks=held.checks,
        implements=tuple(sorted({name.text for name in node.implements})),
        description=annotation.text_of(node.annotations, "description"),
        instruction=annotation.text_of(node.annotations, "instruction"),
        annotations=annotation.other_annotations(node.annotations),
    )


def _edge(declared: DeclaredType, edge: tree.EdgeType, held: Constraints) -> EdgeType:
    cardinality = Cardinality(edge.cardinality.low, edge.cardinality.high) if edge.cardinality else Cardinality()
    return EdgeType(
        name=declared.name,
        id=TypeId(""),
        source=edge.source.text,
        target=edge.target.text,
        cardinality=cardinality,
        properties=_properties(declared),
        uniques=held.uniques,
        indexes=held.indexes,
        description=annotation.text_of(edge.annotations, "description"),
        instruction=annotation.text_of(edge.annotations, "instruction"),
        annotations=annotation.other_annotations(edge.annotations),
    )


def _properties(declared: DeclaredType) -> tuple[Property, ...]:
    return tuple(sorted(map(_property, declared.properties), key=_name_of))


def _property(declared: DeclaredProperty) -> Property:
    annotations = declared.tree.annotations
    return Property(
        name=declared.name,
        type=declared.type,
        nullable=declared.tree.nullable,
        id=PropertyId(""),
        inherited_from=declared.inherited_from,
        description=annotation.text_of(annotations, "description"),
        embed=annotation.embed_of(annotations),
        annotations=annotation.other_annotations(annotations),
    )


def _hints(declared: Iterable[DeclaredType]) -> RenameHints:
    types: dict[tuple[TypeKind, str], RenameHint] = {}
    properties: dict[tuple[TypeKind, str, str], RenameHint] = {}
    for declaration in declared:
        if not isinstance(declaration.tree, tree.InterfaceType):
            hint = _hint(declaration.tree.annotations, inherited=False)
            if hint is not None:
                types[declaration.kind, declaration.name] = hint
        for property_ in declaration.properties:
            hint = _hint(property_.tree.annotations, inherited=bool(property_.inherited_from))
            if hint is not None:
                properties[declaration.kind, declaration.name, property_.name] = hint
    return RenameHints(types, properties)


def _hint(annotations: Iterable[tree.Annotation], *, inherited: bool) -> RenameHint | None:
    found = annotation.find(annotations, annotation.RENAME)
    return RenameHint(found.value.text, found.span, inherited) if found is not None and found.value is not None else None
