"""A graph's rows and a random generator -> mutations with their parameters, most of which change something.

Values and keys come from rows that exist, so that rows meet: an insert replaces, a create is refused, an upsert finds its
row. One mutation writes or deletes, never both.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Final

import msgspec

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.model import EdgeType, EntityType, InterfaceType, NodeType, Property
from omnigraph.catalog.types import EnumOf, ListOf, Plain, VectorOf, scalar_of
from omnigraph.lang import parse_schema
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from tests.harness.brute.data import Data, Row, shown_value
from tests.harness.random.graphs import RandomGraph
from tests.harness.random.literals import spelled
from tests.harness.random.queries import Maker
from tests.harness.random.scope import Seen
from tests.harness.random.values import random_pool

UNIQUE: Final = "Single"
"""The edge of which there is at most one between two nodes."""

_CALCULATED: Final = (Scalar.I64, Scalar.F64, Scalar.STRING, Scalar.DATE, Scalar.DATETIME)
"""What is calculated fits any property of these types."""


class RandomChange(msgspec.Struct, frozen=True):
    """A mutation and what it is given."""

    text: str
    params: dict[str, object]


def with_unique_edge(graph: RandomGraph) -> tuple[str, Catalog, Data]:
    """The graph's schema and rows with one more type of edges, and without edges that lack an end: no writer makes such."""
    source = graph.catalog.nodes[0].name
    schema = f"{graph.schema}edge {UNIQUE}: {source} -> {source} {{ weight: F64?  note: String?  rank: I64?  @unique(src, dst) }}\n"
    numbers = iter(range(10_000))
    catalog = build_catalog(parse_schema(schema), mint=lambda: f"{next(numbers):016x}")
    ids = {name: {row["id"] for row in rows} for name, rows in graph.now.nodes.items()}
    ends = {edge.name: (edge.source, edge.target) for edge in catalog.edges}
    edges = {
        name: [row for row in rows if row["src"] in ids[ends[name][0]] and row["dst"] in ids[ends[name][1]]]
        for name, rows in graph.now.edges.items()
    }
    nodes = [str(row["id"]) for row in graph.now.nodes[source]][:12]
    edges[UNIQUE] = [
        {"id": f"u{at}", "src": one, "dst": other, "weight": at / 2, "note": None if at % 3 else "n", "rank": at}
        for at, (one, other) in enumerate(pairwise(nodes))
    ]
    return schema, catalog, Data(graph.now.nodes, edges)


def random_change(rng: Random, catalog: Catalog, data: Data) -> RandomChange:
    maker = _Changes(rng, catalog, data)
    deletes = rng.random() < 0.15
    statements = [maker.statement(deletes=deletes) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    parameters = ", ".join(f"${name}: {type_}" for name, type_ in maker.declared)
    body = "\n  ".join(sorted(filter(None, statements), key=lambda statement: statement.startswith("match")))
    if not body:
        return random_change(rng, catalog, data)
    return RandomChange(f"query q({parameters}) {{\n  {body}\n}}", maker.params)


class _Changes:
    def __init__(self, rng: Random, catalog: Catalog, data: Data) -> None:
        self._rng = rng
        self._catalog = catalog
        self._data = data
        self.declared: list[tuple[str, str]] = []
        self.params: dict[str, object] = {}

    def statement(self, *, deletes: bool) -> str:
        if self._rng.random() < 0.45:
            return self._matched(deletes=deletes)
        if deletes:
            entity = self._some_type()
            return f"delete {entity.name} where {self._where(entity)}"
        return self._inserted() if self._rng.random() < 0.6 else self._updated()

    def _maker(self) -> Maker:
        """For patterns and conditions; its parameters are the mutation's."""
        maker = Maker(self._rng, self._catalog, self._data, plain=self._rng.random() < 0.5)
        maker.constants.declared = self.declared
        maker.constants.params = self.params
        return maker

    # statements about a type

    def _some_type(self) -> EntityType:
        types: tuple[EntityType, ...] = (*self._catalog.nodes, *self._catalog.edges)
        return self._rng.choice(types)

    def _inserted(self) -> str:
        entity = self._some_type()
        word = self._rng.choice(("insert", "insert", "create", "upsert", "upsert"))
        return f"{word} {entity.name} {{ {', '.join(self._row(entity, word))} }}"

    def _row(self, entity: EntityType, word: str) -> list[str]:
        """Assignments of a row: sometimes one that exists, with most of what it needs."""
        known = self._known(entity)
        given: list[str] = []
        key = entity.key.columns if isinstance(entity, NodeType) and entity.key is not None else ()
        if isinstance(entity, EdgeType):
            ends = (known["src"], known["dst"]) if known is not None and self._rng.random() < 0.5 else self._some_ends(entity)
            given += [f"from: {self._text(str(ends[0]))}", f"to: {self._text(str(ends[1]))}"]
        if not key and word != "insert" and (self._rng.random() < 0.5 or word == "create"):
            old = known is not None and self._rng.random() < 0.5 and not isinstance(entity, EdgeType)
            given.append(f"id: {self._text(str(known['id']) if known is not None and old else f'new{self._rng.randint(0, 30)}')}")
        for property_ in entity.properties:
            required = property_.name in key or (not property_.nullable and (word != "upsert" or self._rng.random() < 0.8))
            if required or self._rng.random() < 0.5:
                same = known is not None and property_.name in key and self._rng.random() < 0.6
                value = known[property_.name] if known is not None and same else self._some_value(property_)
                given.append(f"{property_.name}: {self._value(value, property_)}")
        if word == "upsert" and isinstance(entity, EdgeType) and entity.name == UNIQUE and self._rng.random() < 0.5:
            given = [each for each in given if not each.startswith("rank:")] + ["rank: coalesce(rank, 0) + 1"]
        return given

    def _some_ends(self, edge: EdgeType) -> tuple[Value, Value]:
        sources, targets = self._data.nodes[edge.source], self._data.nodes[edge.target]
        nowhere = "nowhere"
        source = self._rng.choice(sources)["id"] if sources and self._rng.random() < 0.97 else nowhere
        return source, self._rng.choice(targets)["id"] if targets and self._rng.random() < 0.97 else nowhere

    def _updated(self) -> str:
        entity = self._some_type()
        assignments = self._assignments(entity, "")
        return f"update {entity.name} set {{ {assignments} }} where {self._where(entity)}" if assignments else ""

    def _where(self, entity: EntityType) -> str:
        """A condition on the row itself, or which row it is."""
        maker = self._maker()
        name = maker.scope.new(Seen(entity, self._known(entity)))
        if self._rng.random() < 0.2 and (listed := self._listed(entity)) is not None:
            return listed
        for _ in range(5):
            made = (maker.condition() if self._rng.random() < 0.5 else None) or maker.test()
            bare = None if made is None else made.replace(f"${name}.", "")
            if bare is not None and f"${name}" not in bare:
                return bare
        known = self._known(entity)
        return f"id = {self._text('none' if known is None else str(known['id']))}"

    def _listed(self, entity: EntityType) -> str | None:
        """A property in a list, or not. Null is neither."""
        fields = [property_ for property_ in entity.properties if scalar_of(property_.type) is not None]
        if not fields:
            return None
        property_ = self._rng.choice([field for field in fields if field.nullable] or fields)
        scalar = Scalar.STRING if isinstance(property_.type, EnumOf) else scalar_of(property_.type)
        drawn = [self._some_value(property_, null=0.0) for _ in range(self._rng.choice((0, 1, 2, 2, 3)))]
        items = ", ".join(_literal(value, scalar) for value in drawn if value is not None and not isinstance(value, tuple))
        return f"{property_.name} {self._rng.choice(('in', 'not in', 'not in'))} [{items}]"

    # values

    def _known(self, entity: EntityType) -> Row | None:
        rows = self._data.rows(entity)
        return self._rng.choice(rows) if rows else None

    def _some_value(self, property_: Property, *, null: float = 0.2) -> Value:
        if property_.nullable and self._rng.random() < null:
            return None
        return self._rng.choice(random_pool(self._rng, property_.type))

    def _value(self, value: Value, property_: Property) -> str:
        """A literal, or a parameter; null comes by a parameter."""
        type_ = property_.type
        shape = (
            f"[{type_.item}]"
            if isinstance(type_, ListOf)
            else f"Vector({type_.dimension})"
            if isinstance(type_, VectorOf)
            else scalar_of(type_)
        )
        if value is None or isinstance(type_, VectorOf) or self._rng.random() < 0.3:
            return self._parameter(f"{shape}?", shown_value(value, type_))
        if isinstance(value, tuple):
            assert isinstance(type_, ListOf)
            return f"[{', '.join(_literal(item, type_.item) for item in value)}]"
        return _literal(value, Scalar.STRING if isinstance(type_, EnumOf) else scalar_of(type_))

    def _text(self, value: str) -> str:
        return _literal(value, Scalar.STRING) if self._rng.random() < 0.7 else self._parameter("String", value)

    def _parameter(self, type_: str, value: object) -> str:
        name = f"p{len(self.declared)}"
        self.declared.append((name, type_))
        self.params[name] = value
        return f"${name}"

    def _assignments(self, entity: EntityType | InterfaceType, owner: str, maker: Maker | None = None) -> str:
        """Some properties set, never one of the key: to values, or to what is calculated from the row or from a match."""
        key = entity.key.columns if isinstance(entity, NodeType) and entity.key is not None else ()
        free = [property_ for property_ in entity.properties if property_.name not in key]
        chosen = self._rng.sample(free, min(len(free), self._rng.choice((1, 1, 2))))
        return ", ".join(f"{property_.name}: {self._assigned(entity, property_, owner, maker)}" for property_ in chosen)

    def _assigned(self, entity: EntityType | InterfaceType, property_: Property, owner: str, maker: Maker | None) -> str:
        scalar = scalar_of(property_.type)
        if maker is not None and self._rng.random() < 0.35 and (taken := self._of_others(maker, owner, property_)):
            return self._rng.choice(taken)
        if isinstance(property_.type, Plain) and property_.nullable and scalar in _CALCULATED and self._rng.random() < 0.5:
            scope = maker or self._alone(entity)
            for _ in range(4):
                made = scope.expressions.some(scope.scope)
                if made is not None and _fits(made.scalar, scalar):
                    return made.text if maker is not None else made.text.replace("$row.", "")
        return self._value(self._some_value(property_, null=0.15), property_)

    def _of_others(self, maker: Maker, owner: str, property_: Property) -> list[str]:
        """What other variables of a match have of the same type: often several values for one row, which is refused."""
        return [
            f"${name}.{other.name}"
            for name, seen in maker.scope.variables.items()
            if name != owner
            for other in seen.type.properties
            if other.type == property_.type and (property_.nullable or not (other.nullable or seen.optional))
        ]

    def _alone(self, entity: EntityType | InterfaceType) -> Maker:
        """A scope that holds only the row itself, under a name that is taken off again."""
        maker = self._maker()
        maker.scope.variables["row"] = Seen(entity, None)
        return maker

    # statements behind a match

    def _matched(self, *, deletes: bool) -> str:
        maker = self._maker()
        clauses = maker.clauses(self._rng.choice((2, 3, 3) if deletes else (1, 2, 2, 3)))
        changes = [self._change(maker, deletes=deletes) for _ in range(self._rng.choice((1, 1, 2)))]
        found = list(filter(None, changes))
        return f"match {{ {'  '.join(clauses)} }} {' '.join(found)}" if found else ""

    def _change(self, maker: Maker, *, deletes: bool) -> str:
        known = [
            (name, seen.type)
            for name, seen in maker.scope.variables.items()
            if not seen.optional and not isinstance(seen.type, InterfaceType)
        ]
        if not known:
            return ""
        if deletes and self._rng.random() < 0.3:
            name, entity = self._rng.choice(known)
            if plain := [each.name for each in entity.properties if isinstance(each.type, Plain) and each.type.scalar is not Scalar.BLOB]:
                property_ = self._rng.choice(plain)
                return f"delete {entity.name} where {property_} = ${name}.{property_}"
        if deletes:
            names = self._rng.sample([name for name, _ in known], self._rng.randint(1, min(2, len(known))))
            return f"delete {', '.join(f'${name}' for name in names)}"
        if self._rng.random() < 0.5:
            name, entity = self._rng.choice(known)
            assignments = self._assignments(entity, name, maker)
            return f"update ${name} set {{ {assignments} }}" if assignments else ""
        return self._new_edge(known)

    def _new_edge(self, known: list[tuple[str, NodeType | EdgeType]]) -> str:
        pairs = [
            (edge, left, right)
            for edge in self._catalog.edges
            for left, one in known
            for right, other in known
            if (one.name, other.name) == (edge.source, edge.target) and isinstance(one, NodeType) and isinstance(other, NodeType)
        ]
        if not pairs:
            return ""
        edge, left, right = self._rng.choice(pairs)
        word = "upsert" if edge.name == UNIQUE else self._rng.choice(("insert", "insert", "create"))
        values = [
            f"{property_.name}: {self._value(self._some_value(property_), property_)}"
            for property_ in edge.properties
            if not property_.nullable or self._rng.random() < 0.4
        ]
        return f"{word} {edge.name} {{ {', '.join([f'from: ${left}', f'to: ${right}', *values])} }}"


def _fits(made: Scalar | None, wanted: Scalar | None) -> bool:
    """Whether what was calculated can be stored there: an integer also as a float."""
    return made is wanted or (wanted is Scalar.F64 and made in (Scalar.I64, Scalar.I32, Scalar.U32, Scalar.F32))


def _literal(value: Atom, scalar: Scalar | None) -> str:
    assert scalar is not None
    return spelled(value, scalar)
