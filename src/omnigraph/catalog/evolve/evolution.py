"""An accepted catalog and a wanted schema -> the steps between them, and the resulting catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from omnigraph.catalog.evolve.constraint_changes import ConstraintChanges, constraint_changes
from omnigraph.catalog.evolve.refusals import property_refusal, type_refusal
from omnigraph.catalog.evolve.steps import (
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationCode,
    RenameProperty,
    RenameType,
    SchemaPlan,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    type_form,
)
from omnigraph.catalog.identity import Mint, identify
from omnigraph.catalog.model import Annotation, AnyType, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.catalog.resolution import resolve
from omnigraph.catalog.types import EnumOf
from omnigraph.lang.schema import Schema

_T = TypeVar("_T", InterfaceType, NodeType, EdgeType)


class Evolution(NamedTuple):
    """A plan, and the catalog after it is applied. New types and properties have fresh identities, the others keep theirs."""

    plan: SchemaPlan
    catalog: Catalog


class _Change(NamedTuple):
    """The two sides of a plan."""

    accepted: Catalog
    wanted: Catalog
    mode: DropMode


def plan_schema(accepted: Catalog, schema: Schema, *, mint: Mint, allow_data_loss: bool = False) -> Evolution:
    """Plan the change from `accepted` to `schema`. Raises `LanguageError` for an invalid schema or rename hint.

    The plan has no steps if and only if the stored form, and so the schema's hash, stays the same.
    """
    wanted = identify(resolve(schema), mint=mint, accepted=accepted)
    change = _Change(accepted, wanted, DropMode.HARD if allow_data_loss else DropMode.SOFT)
    steps = (
        *_group(accepted.interfaces, wanted.interfaces, change),
        *_group(accepted.nodes, wanted.nodes, change),
        *_group(accepted.edges, wanted.edges, change),
    )
    supported = not any(isinstance(step, UnsupportedChange) for step in steps)
    return Evolution(SchemaPlan(supported, steps), wanted)


def _group(accepted: tuple[_T, ...], wanted: tuple[_T, ...], change: _Change) -> Iterator[Step]:
    """The steps of one kind of types: by name, drops last."""
    before = {type_.id: type_ for type_ in accepted}
    for type_ in wanted:
        old = before.pop(type_.id, None)
        if old is None:
            yield AddType(type_.kind, type_.name)
        else:
            yield from _type(old, type_, change)
    for old in before.values():
        if isinstance(old, InterfaceType):
            yield type_refusal(old, f"removing interface '{old.name}'")
        else:
            yield DropType(old.kind, old.name, change.mode)


def _type(old: AnyType, new: AnyType, change: _Change) -> Iterator[Step]:
    """The steps inside one type that is kept."""
    if old.name != new.name:
        yield RenameType(new.kind, old.name, new.name)
    yield from _structure(old, new, change)
    yield from _type_texts(old, new)
    constraints = constraint_changes(old, new)
    before = {property_.id: property_ for property_ in old.properties}
    for property_ in new.properties:
        yield from _property(before.pop(property_.id, None), property_, (old, new), constraints)
    for dropped in before.values():
        yield DropProperty(new.kind, new.name, dropped.name, change.mode)
    yield from constraints.body


def _structure(old: AnyType, new: AnyType, change: _Change) -> Iterator[Step]:
    match old, new:
        case NodeType(), NodeType():
            if old.implements != new.implements:
                yield type_refusal(new, f"changing the interfaces of '{new.name}'")
        case EdgeType(), EdgeType():
            if _ends(old, change.accepted) != _ends(new, change.wanted):
                yield type_refusal(new, f"changing the endpoints of '{new.name}'")
            if old.cardinality != new.cardinality:
                yield type_refusal(new, f"changing the cardinality of '{new.name}'")


def _ends(edge: EdgeType, catalog: Catalog) -> list[str]:
    """The identities an edge joins, so that renaming a node type is not a change."""
    return [node.id for name in (edge.source, edge.target) if (node := catalog.node(name)) is not None]


def _type_texts(old: AnyType, new: AnyType) -> Iterator[Step]:
    if isinstance(old, InterfaceType) or isinstance(new, InterfaceType):
        return
    if (old.description, old.instruction) != (new.description, new.instruction):
        yield UpdateTypeMetadata(new.kind, new.name, _texts(description=new.description, instruction=new.instruction))
    if old.annotations != new.annotations:
        yield type_refusal(new, f"changing annotations of '{new.name}'")


def _texts(*, description: str | None, instruction: str | None = None) -> tuple[Annotation, ...]:
    texts = (("description", description), ("instruction", instruction))
    return tuple(Annotation(name, text) for name, text in texts if text is not None)


def _property(old: Property | None, new: Property, owners: tuple[AnyType, AnyType], constraints: ConstraintChanges) -> Iterator[Step]:
    _, owner = owners
    if old is None:
        yield _added(owner, new)
        yield from constraints.by_property.get(new.name, ())
        return
    if old.name != new.name:
        yield RenameProperty(owner.kind, owner.name, old.name, new.name)
    yield from _type_of(owner, old, new)
    if _embed(owners[0], old) != _embed(owner, new):
        yield property_refusal(owner, new.name, "changing @embed for")
    yield from constraints.by_property.get(new.name, ())
    if bool(old.inherited_from) != bool(new.inherited_from):
        yield property_refusal(owner, new.name, "moving between direct and inherited declaration of")
    if old.description != new.description:
        yield UpdatePropertyMetadata(owner.kind, owner.name, new.name, _texts(description=new.description))
    if old.annotations != new.annotations:
        yield property_refusal(owner, new.name, "changing annotations for")


def _added(owner: AnyType, new: Property) -> Step:
    if not new.nullable:
        return property_refusal(owner, new.name, "adding required property", code=MigrationCode.REQUIRED_PROPERTY)
    return AddProperty(owner.kind, owner.name, new.name, type_form(new.type, nullable=new.nullable))


def _type_of(owner: AnyType, old: Property, new: Property) -> Iterator[Step]:
    if (old.type, old.nullable) == (new.type, new.nullable):
        return
    match old.type, new.type:
        case EnumOf(before), EnumOf(after) if old.nullable == new.nullable and set(before) < set(after):
            yield ExtendEnum(owner.kind, owner.name, new.name, tuple(sorted(set(after) - set(before))))
        case _:
            yield property_refusal(owner, new.name, "changing property type for", code=MigrationCode.PROPERTY_TYPE)


def _embed(owner: AnyType, property_: Property) -> tuple[str, str | None] | None:
    """The source of the vectors by identity, so that renaming it is not a change. An interface may know only its name."""
    if property_.embed is None:
        return None
    source = owner.property(property_.embed.source)
    return source.id if source is not None else property_.embed.source, property_.embed.model
