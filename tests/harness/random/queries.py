"""A graph's rows and a random generator -> valid reads with their parameters, most of which find something.

A query grows around a witness: every variable has a row that exists, traversals follow edges that exist, and most
filters are true of the witness. Negations, and the filters that are not, then take rows away again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, ListOf, Plain, ValueType, VectorOf, scalar_of
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from tests.harness.brute.answer import Answer, answer
from tests.harness.brute.data import Data, Row
from tests.harness.brute.match import TooManyRows
from tests.harness.random.literals import Constants
from tests.harness.random.returns import random_returns
from tests.harness.random.scope import Scope, Seen

COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
_MIXED: Final = tuple({integer, float_} for integer in INTEGERS for float_ in FLOATS)
MOST_STEPS: Final = 40_000
MOST_ROWS: Final = 2_000
"""Beyond these a query counts as too large for brute force; where a table is larger, a few passes over it are allowed."""
_EMPTY_KEPT: Final = 0.4


class RandomQuery(msgspec.Struct, frozen=True):
    """A read, what it is given, and what it must answer."""

    text: str
    params: dict[str, object]
    expected: Answer


def random_query(rng: Random, catalog: Catalog, data: Data, *, now_ms: int) -> RandomQuery:
    """A valid read. One that finds nothing is seldom kept, one that finds far too much never."""
    while True:
        found = _try(rng, catalog, data, now_ms)
        if found is not None and (found.expected.rows or rng.random() < _EMPTY_KEPT):
            return found


def _try(rng: Random, catalog: Catalog, data: Data, now_ms: int) -> RandomQuery | None:
    largest = max(map(len, (*data.nodes.values(), *data.edges.values())))
    maker = _Maker(rng, catalog, data)
    clauses = maker.clauses(rng.choice((1, 2, 2, 3, 3, 4, 5, 6)))
    tail = random_returns(rng, maker.scope, maker.constants)
    parameters = ", ".join(f"${name}: {type_}" for name, type_ in maker.constants.declared)
    text = f"query q({parameters}) {{\n  match {{\n    " + "\n    ".join(clauses) + f"\n  }}\n  {tail}\n}}"
    try:
        expected = answer(text, maker.constants.params, catalog=catalog, data=data, now_ms=now_ms, steps=max(MOST_STEPS, 8 * largest))
    except TooManyRows:
        return None
    if sum(map(len, expected.classes)) > max(MOST_ROWS, largest):
        return None
    return RandomQuery(text, maker.constants.params, expected)


class _Maker:
    """Makes the clauses of one query; `scope` knows its variables, `constants` its parameters."""

    def __init__(self, rng: Random, catalog: Catalog, data: Data) -> None:
        self._rng = rng
        self._catalog = catalog
        self._data = data
        self.scope = Scope(rng)
        self.constants = Constants(rng)

    def clauses(self, size: int) -> list[str]:
        found = [*self._beginning()]
        while len(found) < size:
            found.extend(self._clause())
        return found

    def _beginning(self) -> Iterator[str]:
        unbound = self._traversal_of_nothing() if self._rng.random() < 0.1 else None
        yield unbound if unbound is not None else self._binding()

    def _clause(self) -> list[str]:
        kinds = {
            self._onward: 5.0,
            self._connection: 1.6,
            self._property_filter: 3.0,
            self._pair_filter: 1.2,
            self._another_binding: 1.3,
            self._rebinding: 0.8,
            self._negation: 1.8,
            self._constant_filter: 0.2,
            self._time_filter: 0.5,
        }
        made = self._rng.choices(list(kinds), list(kinds.values()))[0]()
        return [] if made is None else [made]

    # bindings

    def _binding(self) -> str:
        node = self._rng.choice(self._catalog.nodes)
        name = self.scope.new(Seen(node, self._witness(node)))
        return f"${name}: {node.name}{self._inline(name, 0.45)}"

    def _another_binding(self) -> str | None:
        """A component of its own: rows multiply, so there are few. Often it has a value in common with another one."""
        if self.scope.components() >= 2 + (self._rng.random() < 0.2):
            return None
        known = dict(self.scope.variables)
        binding = self._binding()
        name = next(name for name in self.scope.variables if name not in known)
        pairs = [
            (mine.name, other, its.name)
            for mine in self.scope.variables[name].type.properties
            for other, seen in known.items()
            for its in seen.type.properties
            if _comparable(mine, its) and not isinstance(mine.type, ListOf)
        ]
        if not pairs or self._rng.random() < 0.5:
            return binding
        mine_, other_, its_ = self._rng.choice(pairs)
        return f"{binding} ${name}.{mine_} = ${other_}.{its_}"

    def _rebinding(self) -> str:
        name, seen = self.scope.some_node()
        return f"${name}: {seen.type.name}{self._inline(name, 0.8)}"

    def _inline(self, name: str, chance: float) -> str:
        """`{ property: value }`, mostly as the witness has it."""
        seen = self.scope.variables[name]
        if self._rng.random() >= chance:
            return ""
        matches = []
        for property_ in self._some_properties(seen.type, self._rng.choice((1, 1, 1, 2))):
            item = Plain(property_.type.item) if isinstance(property_.type, ListOf) else property_.type
            if isinstance(item, VectorOf):
                continue
            value = self._known(seen, property_)
            if isinstance(value, tuple):
                value = self._rng.choice(value) if value else None
            if value is not None:
                matches.append(f"{property_.name}: {self.constants.exactly(value, item)}")
        return f" {{ {', '.join(matches)} }}" if matches else ""

    def _witness(self, node: NodeType) -> Row | None:
        rows = self._data.nodes[node.name]
        return self._rng.choice(rows) if rows else None

    def _known(self, seen: Seen, property_: Property) -> Value:
        """The witness's own value, or now and then that of any other row."""
        row = seen.row
        if row is None or self._rng.random() < 0.15:
            rows = self._data.rows(seen.type)
            row = self._rng.choice(rows) if rows else None
        return None if row is None else row[property_.name]

    def _some_properties(self, entity: EntityType, count: int) -> list[Property]:
        return self._rng.sample(entity.properties, min(count, len(entity.properties)))

    # traversals

    def _traversal_of_nothing(self) -> str | None:
        """Neither end is bound: the edge runs as it was declared."""
        edge = self._rng.choice(self._catalog.edges)
        rows = self._data.edges[edge.name]
        if not rows:
            return None
        row = self._rng.choice(rows)
        same = edge.source == edge.target and row["src"] == row["dst"] and self._rng.random() < 0.3
        left = self.scope.new(Seen(self._node(edge.source), self._row(edge.source, row["src"])))
        right = left if same else self.scope.new(Seen(self._node(edge.target), self._row(edge.target, row["dst"])))
        self.scope.join(left, right)
        return f"${left} {self._edge(edge, row)} ${right}"

    def _onward(self) -> str | None:
        """From a variable to a new one, along an edge that its witness has."""
        name, seen = self.scope.some_node()
        ways = [
            (edge, out) for edge in self._catalog.edges for out in (True, False) if seen.type.name == (edge.source if out else edge.target)
        ]
        if not ways:
            return None
        ways.sort(key=lambda way: not self._leaving(seen, *way))
        edge, out = ways[0] if self._rng.random() < 0.3 else self._rng.choice(ways)
        leaving = self._leaving(seen, edge, out)
        row = self._rng.choice(leaving) if leaving else None
        far = edge.target if out else edge.source
        other = "_"
        if self._rng.random() < 0.85:
            other = self.scope.new(Seen(self._node(far), None if row is None else self._row(far, row["dst" if out else "src"])))
            self.scope.join(name, other)
        return self._written(name, other, edge, row, out=out)

    def _written(self, name: str, other: str, edge: EdgeType, row: Row | None, *, out: bool) -> str:
        """Inside one type the written order is the direction; between two the types decide, and either order will do."""
        step = self._edge(edge, row)
        if edge.source == edge.target:
            return f"${name} {step} ${other}" if out else f"${other} {step} ${name}"
        return f"${name} {step} ${other}" if self._rng.random() < 0.6 else f"${other} {step} ${name}"

    def _edge(self, edge: EdgeType, row: Row | None) -> str:
        """The middle of a traversal: perhaps named, perhaps undirected, perhaps of several hops."""
        spelled = edge.name[0].lower() + (edge.name[1:] if self._rng.random() < 0.9 else edge.name[1:].lower())
        same = edge.source == edge.target
        if same and self._rng.random() < 0.3:
            spelled = f"<{spelled}>"
        draw = self._rng.random()
        if draw < 0.3:
            return f"${self.scope.new(Seen(edge, row))}:{spelled}"
        if draw < 0.34:
            return f"$_:{spelled}"
        if draw < (0.62 if same else 0.4):
            low = self._rng.choice((1, 1, 1, 1, 2, 2, 3))
            return f"{spelled}{{{low},{low + self._rng.choice((0, 0, 1, 1, 2, 6))}}}"
        return spelled

    def _leaving(self, seen: Seen, edge: EdgeType, out: bool) -> list[Row]:
        if seen.row is None:
            return []
        return [row for row in self._data.edges[edge.name] if row["src" if out else "dst"] == seen.row["id"]]

    def _connection(self) -> str | None:
        """Between two variables that are bound already, sometimes one and the same."""
        pairs = [
            (edge, left, right)
            for edge in self._catalog.edges
            for left, one in self.scope.nodes()
            for right, other in self.scope.nodes()
            if (one.type.name, other.type.name) == (edge.source, edge.target)
        ]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: not self._joined(*pair))
        edge, left, right = pairs[0] if self._rng.random() < 0.7 else self._rng.choice(pairs)
        self.scope.join(left, right)
        return self._written(left, right, edge, None, out=True)

    def _joined(self, edge: EdgeType, left: str, right: str) -> bool:
        one, other = self.scope.variables[left].row, self.scope.variables[right].row
        if one is None or other is None:
            return False
        return any((row["src"], row["dst"]) == (one["id"], other["id"]) for row in self._data.edges[edge.name])

    def _node(self, name: str) -> NodeType:
        node = self._catalog.node(name)
        assert node is not None
        return node

    def _row(self, type_name: str, id_: Value) -> Row | None:
        return next((row for row in self._data.nodes[type_name] if row["id"] == id_), None)

    # filters

    def _property_filter(self) -> str | None:
        """A property against something given, mostly so that the witness stays."""
        name, seen = self.scope.some()
        found = self._some_properties(seen.type, 1)
        if not found:
            return None
        (property_,) = found
        value = self._known(seen, property_)
        field = f"${name}.{property_.name}"
        match property_.type:
            case VectorOf():
                return None
            case ListOf(item):
                if not isinstance(value, tuple) or not value:
                    return None
                return f"{field} contains {self.constants.about(self._rng.choice(value), Plain(item))}"
            case type_ if value is None or isinstance(value, tuple):
                return f"{field} {self._rng.choice(COMPARISONS)} {self.constants.of(type_)}"
            case type_:
                if self._rng.random() < 0.12:
                    return f"{self.constants.several(value, type_)} contains {field}"
                if isinstance(value, str) and self._rng.random() < 0.4:
                    return self._text_filter(field, value)
                return self._comparison(field, value, type_)

    def _comparison(self, field: str, value: Atom, type_: ValueType) -> str:
        if scalar_of(type_) in INTEGERS and self._rng.random() < 0.2:
            return f"{field} != {self.constants.between()}"
        how = self._rng.choice(COMPARISONS)
        if how in ("!=", "<", ">") and self._rng.random() < 0.8:
            given = self.constants.other(value, type_)
        else:
            given = self.constants.about(value, type_)
        return f"{field} {how} {given}" if self._rng.random() < 0.8 else f"{given} {how} {field}"

    def _text_filter(self, field: str, value: str) -> str:
        begin, end = sorted((self._rng.randint(0, len(value)), self._rng.randint(0, len(value))))
        draw = self._rng.random()
        if draw < 0.35:
            return f"{field} starts_with {self.constants.text(value[:end])}"
        if draw < 0.75:
            return f"{field} contains {self.constants.text(value[begin:end])}"
        how = self._rng.choice(("contains", "starts_with"))
        return f"{self.constants.text(value + self._rng.choice(('', 'b', ' x')))} {how} {field}"

    def _pair_filter(self) -> str | None:
        """Two properties against each other, of one variable or of two."""
        pairs = [
            (f"${left}.{a.name}", a, f"${right}.{b.name}", b)
            for left, one in self.scope.variables.items()
            for right, other in self.scope.variables.items()
            for a in one.type.properties
            for b in other.type.properties
            if (left, a.name) != (right, b.name) and _comparable(a, b)
        ]
        if not pairs:
            return None
        mixed = [pair for pair in pairs if {scalar_of(pair[1].type), scalar_of(pair[3].type)} in _MIXED]
        left_field, left, right_field, right = self._rng.choice(mixed if mixed and self._rng.random() < 0.4 else pairs)
        if isinstance(left.type, ListOf):
            return f"{left_field} contains {right_field}"
        if scalar_of(left.type) is scalar_of(right.type) is Scalar.STRING and self._rng.random() < 0.3:
            return f"{left_field} {self._rng.choice(('contains', 'starts_with'))} {right_field}"
        how = "=" if self._rng.random() < 0.3 else self._rng.choice(COMPARISONS)
        return f"{left_field} {how} {right_field}"

    def _time_filter(self) -> str | None:
        """A time against now: most are past, some lie far ahead."""
        times = [
            f"${name}.{property_.name}"
            for name, seen in self.scope.variables.items()
            for property_ in seen.type.properties
            if scalar_of(property_.type) is Scalar.DATETIME
        ]
        if not times:
            return None
        field, how = self._rng.choice(times), self._rng.choice(("<", "<", "<=", "!=", ">", ">="))
        return f"{field} {how} now()" if self._rng.random() < 0.8 else f"now() {how} {field}"

    def _constant_filter(self) -> str:
        if self._rng.random() < 0.3:
            return 'now() > datetime("2001-01-01T00:00:00Z")'
        left = self._rng.randint(0, 1)
        return f"{left} {self._rng.choice(COMPARISONS)} {self._rng.randint(0, 1)}"

    # negation

    def _negation(self) -> str | None:
        """Something about an outer variable, and perhaps more, which may be another negation."""
        if self.scope.depth >= 2:
            return None
        outer = self.scope
        self.scope = outer.inner()
        try:
            mention = self._rng.choice((self._onward, self._onward, self._property_filter, self._connection, self._compared_binding))()
            if mention is None:
                return None
            clauses = [mention]
            for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
                more = self._rng.choice(
                    (self._onward, self._property_filter, self._pair_filter, self._negation, self._negation, self._rebinding)
                )()
                clauses.extend([] if more is None else [more])
            return f"not {{ {' '.join(clauses)} }}"
        finally:
            outer.release(self.scope)
            self.scope = outer

    def _compared_binding(self) -> str | None:
        """A node that no edge links to the outer ones, but a comparison does."""
        name, seen = self.scope.some_node()
        node = self._rng.choice(self._catalog.nodes)
        pairs = [(a, b) for a in node.properties for b in seen.type.properties if _comparable(a, b) and not isinstance(a.type, ListOf)]
        if not pairs:
            return None
        mine, other = self._rng.choice(pairs)
        local = self.scope.new(Seen(node, self._witness(node)))
        return f"${local}: {node.name} ${local}.{mine.name} {self._rng.choice(COMPARISONS)} ${name}.{other.name}"


def _comparable(a: Property, b: Property) -> bool:
    """Whether the language lets the two be compared, or the first contain the second."""
    one = a.type.item if isinstance(a.type, ListOf) else scalar_of(a.type)
    other = scalar_of(b.type)
    return one is not None and other is not None and (one is other or {one, other} <= NUMBERS)
