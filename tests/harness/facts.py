"""A catalog -> everything it says, one fact in each line, in the words of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.catalog.layout import identity_columns, index_intents
from omnigraph.catalog.model import (
    AnyType,
    Catalog,
    Check,
    Constraint,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Unique,
)
from omnigraph.catalog.types import display


def facts_of(catalog: Catalog) -> tuple[str, ...]:
    """Every fact, in the catalog's order. A line about a type begins with its kind and name."""
    types: tuple[AnyType, ...] = (*catalog.interfaces, *catalog.nodes, *catalog.edges)
    return tuple(fact for type_ in types for fact in _type(type_))


def _type(type_: AnyType) -> Iterator[str]:
    name = f"{type_.kind} {type_.name}"
    match type_:
        case NodeType():
            yield name
            yield from (f"{name} implements {interface}" for interface in type_.implements)
        case EdgeType():
            yield f"{name}: {type_.source} -> {type_.target}"
            high = "" if type_.cardinality.high is None else type_.cardinality.high
            yield f"{name} @card({type_.cardinality.low}..{high})"
        case InterfaceType():
            yield name
        case _:
            assert_never(type_)
    if not isinstance(type_, InterfaceType):
        yield from _table(type_, name)
    for property_ in type_.properties:
        yield from _property(property_, f"{name}.{property_.name}")
    yield from (f"{name} {_constraint(constraint)}" for constraint in type_.constraints)


def _table(type_: NodeType | EdgeType, name: str) -> Iterator[str]:
    columns = (*identity_columns(type_), *(property_.name for property_ in type_.properties))
    yield f"{name} columns {', '.join(columns)}"
    yield from (f"{name} index {intent.column} {intent.kind}" for intent in index_intents(type_))
    yield from _text(name, "description", type_.description)
    yield from _text(name, "instruction", type_.instruction)
    yield from (f"{name} @{annotation.name}" for annotation in type_.annotations)


def _property(property_: Property, name: str) -> Iterator[str]:
    yield f"{name}: {display(property_.type, nullable=property_.nullable)}"
    yield from (f"{name} from {interface}" for interface in property_.inherited_from)
    yield from _text(name, "description", property_.description)
    if property_.embed is not None:
        model = "" if property_.embed.model is None else f', model="{property_.embed.model}"'
        yield f"{name} @embed({property_.embed.source}{model})"
    yield from (f"{name} @{annotation.name}" for annotation in property_.annotations)


def _text(name: str, what: str, text: str | None) -> Iterator[str]:
    if text is not None:
        yield f'{name} @{what}("{text}")'


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case Key(columns):
            return f"@key({', '.join(columns)})"
        case Unique(columns):
            return f"@unique({', '.join(columns)})"
        case Index(columns):
            return f"@index({', '.join(columns)})"
        case Range(property_, low, high):
            return f"@range({property_}, {'' if low is None else low}..{'' if high is None else high})"
        case Check(property_, pattern):
            return f'@check({property_}, "{pattern}")'
        case _:
            assert_never(constraint)
