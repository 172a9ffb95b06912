"""The trees of a schema (`.pg`): interfaces, node types, edge types, their properties and constraints."""

from __future__ import annotations

from omnigraph.lang.tree import Name, PropertyShape, Syntax


class Argument(Syntax, frozen=True):
    """An annotation's argument. Its value is `text` in every spelling; `quoted` is true if it was written as a string."""

    text: str
    quoted: bool


class Option(Syntax, frozen=True):
    """`key=literal` inside an annotation's parentheses."""

    key: Name
    value: Argument


class Annotation(Syntax, frozen=True):
    """`@name`, `@name(value)` or `@name(value, key=literal)`. Any name is accepted; the catalog gives it a meaning."""

    name: str
    value: Argument | None = None
    options: tuple[Option, ...] = ()


class Property(Syntax, frozen=True):
    """`name: type? @annotation ...`"""

    name: Name
    shape: PropertyShape
    nullable: bool = False
    annotations: tuple[Annotation, ...] = ()


class Key(Syntax, frozen=True):
    """`@key(a, b)` in a body. Columns keep the order written and may repeat."""

    columns: tuple[Name, ...]


class Unique(Syntax, frozen=True):
    """`@unique(a, b)` in a body. On edges a column may be `src` or `dst`."""

    columns: tuple[Name, ...]


class Index(Syntax, frozen=True):
    """`@index(a, b)` in a body. On edges a column may be `src` or `dst`."""

    columns: tuple[Name, ...]


class Range(Syntax, frozen=True):
    """`@range(property, low..high)`: both ends inclusive, at least one given."""

    property: Name
    low: int | float | None
    high: int | float | None


class Check(Syntax, frozen=True):
    """`@check(property, "regex")`. The pattern is not compiled here."""

    property: Name
    pattern: str


Constraint = Key | Unique | Index | Range | Check


class Cardinality(Syntax, frozen=True):
    """`@card(low..high)`: edges per source node; no `high` means no bound. Never `low > high`."""

    low: int
    high: int | None = None


class InterfaceType(Syntax, frozen=True):
    """`interface Name { properties }`"""

    name: Name
    properties: tuple[Property, ...] = ()


class NodeType(Syntax, frozen=True):
    """`node Name @annotation ... implements A, B { properties and constraints }`"""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class EdgeType(Syntax, frozen=True):
    """`edge Name: Source -> Target @card(..) @annotation ... { properties and constraints }`"""

    name: Name
    source: Name
    target: Name
    cardinality: Cardinality | None = None
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()


Declaration = InterfaceType | NodeType | EdgeType


class Schema(Syntax, frozen=True):
    """A whole file: its declarations in textual order. The catalog rejects duplicate names."""

    declarations: tuple[Declaration, ...] = ()
