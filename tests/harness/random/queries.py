"""A graph's rows and a random generator -> valid reads with their parameters, most of which find something.

A query grows around a witness: every variable has a row that exists, traversals follow edges that exist, and most
filters are true of the witness. Negations, and the filters that are not, then take rows away again. What of the
language comes seldom by itself is asked for: one query in several is about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, ListOf, Plain, ValueType, VectorOf, scalar_of
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from tests.harness.brute.answer import Answer, answer
from tests.harness.brute.bound import types_of
from tests.harness.brute.data import Data, Row
from tests.harness.brute.match import TooManyRows
from tests.harness.random.expressions import Expressions, Made
from tests.harness.random.literals import Constants
from tests.harness.random.returns import random_returns
from tests.harness.random.scope import Scope, Seen
from tests.harness.random.searches import Searches

_SEARCHES: Final = re.compile(r"\b(nearest|bm25|search|fuzzy|match_text)\(")
_BOOL: Final = re.compile(r"(?s:.*\s|)\$\w+\.\w+")
_LITERALS: Final = '"0123456789tf'
_OTHER: Final = {"and": "or", "or": "and"}
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
_MIXED: Final = tuple({integer, float_} for integer in INTEGERS for float_ in FLOATS)
MOST_STEPS: Final = 40_000
MOST_ROWS: Final = 2_000
"""Beyond these a query counts as too large for brute force; where a table is larger, a few passes over it are allowed."""
_EMPTY_KEPT: Final = 0.4
_PLAIN: Final = 0.35
"""How many reads keep to patterns, comparisons, negations and simple results."""


class RandomQuery(msgspec.Struct, frozen=True):
    """A read, what it is given, and what it must answer."""

    text: str
    params: dict[str, object]
    expected: Answer


def random_query(rng: Random, catalog: Catalog, data: Data, *, now_ms: int, searching: bool = False) -> RandomQuery:
    """A valid read; with `searching` one with searches. One that finds nothing is seldom kept, one that finds far too much never."""
    while True:
        found = _try(rng, catalog, data, now_ms, searching=searching)
        if found is not None and (found.expected.rows or rng.random() < _EMPTY_KEPT):
            return found


def _try(rng: Random, catalog: Catalog, data: Data, now_ms: int, *, searching: bool) -> RandomQuery | None:
    largest = max(map(len, (*data.nodes.values(), *data.edges.values())))
    plain = rng.random() < _PLAIN and not searching
    maker = Maker(rng, catalog, data, plain=plain, searching=searching)
    clauses = maker.clauses(rng.choice((1, 2, 2, 3, 3, 4, 5, 6) if plain else (1, 2, 3, 3, 4, 5, 6, 7)))
    tail = random_returns(rng, maker.scope, maker.constants, maker.expressions, plain=plain, searches=maker.searches)
    parameters = ", ".join(f"${name}: {type_}" for name, type_ in maker.constants.declared)
    text = "match {\n    " + "\n    ".join(clauses) + f"\n  }}\n  {tail}"
    if parameters or rng.random() < 0.9:
        text = f"query q({parameters}) {{\n  {text}\n}}"
    if searching and _SEARCHES.search(text) is None:
        return None
    try:
        expected = answer(text, maker.constants.params, catalog=catalog, data=data, now_ms=now_ms, steps=max(MOST_STEPS, 8 * largest))
    except TooManyRows:
        return None
    except InvalidInput as error:
        if error.kind is Kind.NUMERIC_OVERFLOW:  # of a sum
            return None
        raise
    if sum(map(len, expected.classes)) > max(MOST_ROWS, largest):
        return None
    return RandomQuery(text, maker.constants.params, expected)


class Maker:
    """Makes the clauses of one query; `scope` knows its variables, `constants` its parameters."""

    def __init__(self, rng: Random, catalog: Catalog, data: Data, *, plain: bool, searching: bool = False) -> None:
        self._rng = rng
        self._plain = plain
        self._catalog = catalog
        self._data = data
        self.scope = Scope(rng)
        self.constants = Constants(rng)
        self.expressions = Expressions(rng, catalog, data, self.constants)
        self.searches = Searches(rng, self.constants) if searching else None

    def clauses(self, size: int) -> list[str]:
        found = [*self._beginning()]
        while len(found) < size:
            found.extend(self._clause())
        end = None if self._plain or self._rng.random() < 0.5 else self.expressions.end(self.scope)
        return _separated(found if end is None else [*found, self._identified(end)])

    def _beginning(self) -> Iterator[str]:
        unbound = self._traversal_of_nothing() if self._rng.random() < 0.1 else None
        yield unbound if unbound is not None else self._binding()

    def _clause(self) -> list[str]:
        kinds = {
            self.onward: 5.0,
            self._connection: 1.6,
            self._property_filter: 3.0,
            self._pair_filter: 1.2,
            self._another_binding: 1.3,
            self._rebinding: 0.8,
            self._negation: 1.8,
            self._constant_filter: 0.2,
            self._time_filter: 0.5,
        }
        if not self._plain:
            kinds |= {
                self.condition: 2.5,
                self._test: 5.0,
                self._exists: 1.4,
                self._either: 1.4,
                self._optional: 2.4,
                self._path: 1.8,
            }
        if self.searches is not None:
            kinds |= {self._search: 6.0}
        made = self._rng.choices(list(kinds), list(kinds.values()))[0]()
        return [] if made is None else [made]

    def _search(self) -> str | None:
        return None if self.searches is None else self.searches.clause(self.scope)

    # bindings

    def _binding(self) -> str:
        declared: NodeType | InterfaceType = self._rng.choice(self._catalog.nodes)
        inhabited = [interface for interface in self._catalog.interfaces if types_of(self._catalog, interface)]
        if inhabited and not self._plain and self._rng.random() < 0.2:
            declared = self._rng.choice(inhabited)
        name = self.scope.new(Seen(declared, self._witness(declared)))
        return f"${name}: {declared.name}{self._inline(name, 0.45)}"

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

    def _rebinding(self) -> str | None:
        known = [(name, seen) for name, seen in self.scope.nodes() if not seen.optional]
        if not known:
            return None
        name, seen = self._rng.choice(known)
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
        if seen.row is not None and not self._plain and self._rng.random() < 0.1:
            matches.append(f"id: {self.constants.text(str(seen.row['id']))}")
        return f" {{ {', '.join(matches)} }}" if matches else ""

    def _witness(self, declared: NodeType | EdgeType | InterfaceType) -> Row | None:
        rows = self._rows(declared)
        return self._rng.choice(rows) if rows else None

    def _rows(self, declared: NodeType | EdgeType | InterfaceType) -> list[Row]:
        if isinstance(declared, EdgeType):
            return self._data.edges[declared.name]
        return [row for node in types_of(self._catalog, declared) for row in self._data.nodes[node.name]]

    def _known(self, seen: Seen, property_: Property) -> Value:
        """The witness's own value, or now and then that of any other row."""
        row = seen.row
        if row is None or self._rng.random() < 0.15:
            row = self._witness(seen.type)
        return None if row is None else row[property_.name]

    def _some_properties(self, entity: NodeType | EdgeType | InterfaceType, count: int) -> list[Property]:
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

    def onward(self) -> str | None:
        """From a variable to a new one, along an edge that its witness has."""
        name, seen = self.scope.some_node()
        types = {node.name for node in types_of(self._catalog, seen.type)}
        ways = [(edge, out) for edge in self._catalog.edges for out in (True, False) if (edge.source if out else edge.target) in types]
        if isinstance(seen.type, InterfaceType):  # what can be the source decides, for all of its types at once
            ways = [(edge, out) for edge, out in ways if out or edge.source not in types]
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
        if edge.source == edge.target or self._interface(name) or self._interface(other):
            return f"${name} {step} ${other}" if out else f"${other} {step} ${name}"
        return f"${name} {step} ${other}" if self._rng.random() < 0.6 else f"${other} {step} ${name}"

    def _edge(self, edge: EdgeType, row: Row | None, *, named: bool = True) -> str:
        """The middle of a traversal: perhaps named, perhaps undirected, perhaps of several hops or over several edges."""
        spelled = edge.name[0].lower() + (edge.name[1:] if self._rng.random() < 0.9 else edge.name[1:].lower())
        same = edge.source == edge.target
        several = self._alike(edge) if not self._plain and self._rng.random() < (0.15 if named else 0.4) else []
        written = "|".join([spelled, *several])
        if same and self._rng.random() < 0.3:
            written = f"<{written}>"
        draw = self._rng.random()
        if draw < 0.3 and not several and named:
            return f"${self.scope.new(Seen(edge, row))}:{written}"
        if draw < 0.34 and not several and named:
            return f"$_:{written}"
        if draw < (0.62 if same else 0.4):
            low = self._rng.choice((1, 1, 1, 1, 2, 2, 3))
            if not self._plain and self._rng.random() < 0.12:
                return f"{written}{{{low}}}"
            return f"{written}{{{low},{low + self._rng.choice((0, 0, 1, 1, 2, 6))}}}"
        return written

    def _alike(self, edge: EdgeType) -> list[str]:
        """Other edges with the same ends, or the same edge again."""
        others = [other for other in self._catalog.edges if (other.source, other.target) == (edge.source, edge.target)]
        chosen = self._rng.sample(others, self._rng.randint(1, len(others)))
        return [other.name[0].lower() + other.name[1:] for other in chosen]

    def _interface(self, name: str) -> bool:
        seen = self.scope.variables.get(name)
        return seen is not None and isinstance(seen.type, InterfaceType)

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
            if self._can_be(one, edge.source) and self._can_be(other, edge.target)
        ]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: not self._joined(*pair))
        edge, left, right = pairs[0] if self._rng.random() < 0.7 else self._rng.choice(pairs)
        self.scope.join(left, right)
        return self._written(left, right, edge, None, out=True)

    def _can_be(self, seen: Seen, type_name: str) -> bool:
        return any(node.name == type_name for node in types_of(self._catalog, seen.type))

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

    # tests and conditions

    def _test(self) -> str | None:
        """One of the tests that stand by themselves: a list, a null, a Bool, something calculated."""
        makers = {
            self._in_list: 3, self._null_test: 3, self._bool: 2, self._calculated: 6, self._identity: 4, self._ending: 2,
        }  # fmt: skip
        return self._rng.choices(list(makers), list(makers.values()))[0]()

    def _in_list(self) -> str | None:
        """A property in a list that mostly holds the witness's value, or in an empty one."""
        fields = [
            (f"${name}.{property_.name}", property_.type, self._known(seen, property_))
            for name, seen in self.scope.variables.items()
            for property_ in seen.type.properties
            if scalar_of(property_.type) is not None
        ]
        if not fields:
            return None
        field, type_, value = self._rng.choice(fields)
        word = "not in" if self._rng.random() < 0.35 else "in"
        if isinstance(value, tuple) or value is None or self._rng.random() < 0.35:
            return f"{field} {word} {'[]' if self._rng.random() < 0.7 else self.constants.no_list(type_)}"
        return f"{field} {word} {self.constants.several(value, type_)}"

    def _null_test(self) -> str | None:
        """Is it null? Of a property that may be, or of a whole variable that may be."""
        word = self._rng.choice(("is null", "is not null", "is not null"))
        loose = [name for name, seen in self.scope.variables.items() if seen.optional]
        if loose and self._rng.random() < 0.6:
            return f"${self._rng.choice(loose)} {word}"
        fields = [
            (f"${name}.{property_.name}", seen.row, property_.name)
            for name, seen in self.scope.variables.items()
            for property_ in seen.type.properties
            if property_.nullable or seen.optional
        ]
        if not fields:
            return None
        field, row, name = self._rng.choice(fields)
        if row is not None and self._rng.random() < 0.7:
            word = "is null" if row[name] is None else "is not null"
        return f"{field} {word}"

    def _bool(self) -> str | None:
        fields = [
            (f"${name}.{property_.name}", self._known(seen, property_))
            for name, seen in self.scope.variables.items()
            for property_ in seen.type.properties
            if scalar_of(property_.type) is Scalar.BOOL
        ]
        if not fields:
            return None
        field, value = self._rng.choice(fields)
        return f"not ({field})" if value is False else field

    def _calculated(self) -> str | None:
        """Something calculated against what it is for the witness."""
        made = self.expressions.some(self.scope)
        if made is None or made.scalar is None:
            return None
        if made.typed.value is None or isinstance(made.typed.value, tuple):
            return f"{made.text} {self._rng.choice(('is null', 'is null', 'is not null'))}"
        if isinstance(made.typed.value, float) and abs(made.typed.value) == float("inf"):
            return None
        if self._rng.random() < 0.15:
            return f"{made.text} in {self.constants.several(made.typed.value, Plain(made.scalar))}"
        return self._comparison(made.text, made.typed.value, Plain(made.scalar))

    def _identity(self) -> str:
        return self._identified(self.expressions.identity(self.scope))

    def _identified(self, made: Made) -> str:
        value = made.typed.value
        if not isinstance(value, str):
            return f"{made.text} is {self._rng.choice(('null', 'not null'))}"
        if self._rng.random() < 0.3:
            return f"{made.text} in {self.constants.several(value, Plain(Scalar.STRING))}"
        return f"{made.text} {self._rng.choice(('=', '=', '!=', '<=', 'starts_with'))} {self.constants.text(value)}"

    def _ending(self) -> str | None:
        fields = [
            (f"${name}.{property_.name}", value)
            for name, seen in self.scope.variables.items()
            for property_ in seen.type.properties
            if scalar_of(property_.type) is Scalar.STRING and isinstance(value := self._known(seen, property_), str)
        ]
        if not fields:
            return None
        field, value = self._rng.choice(fields)
        return f"{field} ends_with {self.constants.text(value[self._rng.randint(0, len(value)) :])}"

    def condition(self, depth: int = 0, within: str | None = None) -> str | None:
        """Tests joined by `and` and `or`, some of them turned round. Inside `or` there is `and`, and the other way round."""
        word = self._rng.choice(("and", "or", "or")) if within is None else _OTHER[within]
        terms = []
        for _ in range(self._rng.choice((2, 2, 3))):
            term = self.condition(depth + 1, word) if depth < 2 and self._rng.random() < 0.25 else self.test()
            if term is not None:
                terms.append(f"not ({term})" if self._rng.random() < 0.25 else term)
        if len(terms) < 2:
            return None
        if word == "or" and self._rng.random() < 0.15:
            terms.append(f"{self.constants.unknown()} {self._rng.choice(COMPARISONS)} 1")
        joined = f" {word} ".join(terms)
        return joined if depth == 0 and self._rng.random() < 0.4 and not joined.startswith("(") else f"({joined})"

    def test(self) -> str | None:
        """Any test by itself."""
        if self.searches is not None and self._rng.random() < 0.4:
            return self._search()
        return self._rng.choice((self._test, self._property_filter, self._property_filter, self._pair_filter, self._constant_filter))()

    # paths

    def _path(self) -> str | None:
        """The shortest path along an edge that the witness has, mostly inside one type."""
        name, seen = self.scope.some_node()
        types = {node.name for node in types_of(self._catalog, seen.type)}
        edges = [edge for edge in self._catalog.edges if edge.source in types]
        edges = [edge for edge in edges if edge.source == edge.target] or edges
        if not edges:
            return None
        edge = self._rng.choice(edges)
        others = [other for other, its in self.scope.nodes() if self._can_be(its, edge.target)]
        if others and self._rng.random() < 0.3:
            other = self._rng.choice(others)
        else:
            leaving = self._leaving(seen, edge, out=True)
            row = self._rng.choice(leaving) if leaving else None
            other = self.scope.new(Seen(self._node(edge.target), None if row is None else self._row(edge.target, row["dst"])))
        self.scope.join(name, other)
        step = self._edge(edge, None, named=False)
        return f"path ${self.scope.new_path()} = ${name} {step} ${other}"

    # blocks

    def _negation(self) -> str | None:
        return self._of("not")

    def _exists(self) -> str | None:
        return self._of("exists")

    def _of(self, word: str) -> str | None:
        clauses = self.block()
        return None if clauses is None else f"{word} {clauses}"

    def _either(self) -> str | None:
        blocks = [block for block in (self.block() for _ in range(self._rng.choice((2, 2, 3)))) if block is not None]
        return f"either {' or '.join(blocks)}" if len(blocks) > 1 else None

    def block(self) -> str | None:
        """`{ .. }`: something about an outer variable, and perhaps more, which may be another block."""
        if self.scope.depth >= 2:
            return None
        outer = self.scope
        self.scope = outer.inner()
        try:
            mention = self._rng.choice((self.onward, self.onward, self._property_filter, self._connection, self._compared_binding))()
            if mention is None:
                return None
            return self._clauses(mention)
        finally:
            outer.release(self.scope)
            self.scope = outer

    def _clauses(self, first: str) -> str:
        clauses = [first]
        makers = [self.onward, self._property_filter, self._pair_filter, self._negation, self._negation, self._rebinding]
        if not self._plain:
            makers += [self._test, self.condition, self._exists, self._either, self._optional, self._optional, self._path]
        if self.searches is not None:
            makers += [self._search] * 6
        for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
            more = self._rng.choice(makers)()
            clauses.extend([] if more is None else [more])
        return f"{{ {'  '.join(_separated(clauses))} }}"

    def _optional(self) -> str | None:
        """A block whose variables can be named afterwards. It need not be about anything outside."""
        if self.scope.depth >= 2:
            return None
        known = dict(self.scope.variables)
        self.scope.depth += 1
        first = self._rng.choice((self.onward, self.onward, self.onward, self._path, self._lonely_binding))()
        block = None if first is None else self._clauses(first)
        self.scope.depth -= 1
        self.scope.optional(known)
        loose = [name for name in self.scope.variables if name not in known]
        if block is None or not loose or self._rng.random() < 0.85:
            return None if block is None else f"optional {block}"
        return f"optional {block}  ${self._rng.choice(loose)} is {self._rng.choice(('null', 'not null'))}"

    def _lonely_binding(self) -> str | None:
        """At most one row, if it finds any: what hangs on nothing multiplies."""
        if self.scope.components() >= 2:
            return None
        node = self._rng.choice(self._catalog.nodes)
        row = self._witness(node)
        if row is None:
            return None
        name = self.scope.new(Seen(node, row))
        return f"${name}: {node.name} {{ id: {self.constants.text(str(row['id']) + self._rng.choice(('', '', 'no')))} }}"

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


def _separated(clauses: list[str]) -> list[str]:
    """Clauses that stay apart: a minus belongs to what stands before it, and so does a literal behind a Bool."""
    found = []
    for at, clause in enumerate(clauses):
        after_bool = at > 0 and _BOOL.fullmatch(clauses[at - 1]) is not None
        found.append(f"({clause})" if clause.startswith("-") or (after_bool and clause[0] in _LITERALS) else clause)
    return found


def _comparable(a: Property, b: Property) -> bool:
    """Whether the language lets the two be compared, or the first contain the second."""
    one = a.type.item if isinstance(a.type, ListOf) else scalar_of(a.type)
    other = scalar_of(b.type)
    return one is not None and other is not None and (one is other or {one, other} <= NUMBERS)
