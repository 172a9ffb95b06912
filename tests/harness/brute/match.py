"""The clauses of a match, one after another in nested loops -> every row of variables that satisfies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.catalog.types import ListOf, Plain
from omnigraph.lang.query import (
    Aggregate,
    AliasRef,
    Binding,
    Bm25,
    BoolLiteral,
    Clause,
    Comparison,
    Containment,
    DateLiteral,
    DateTimeLiteral,
    Expr,
    Filter,
    FloatLiteral,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    MatchText,
    Nearest,
    Negation,
    Now,
    PropertyMatch,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Traversal,
    Variable,
)
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import BOOL, DATE, DATETIME, F64, I64, STRING, Atom
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.typed import Parameter
from tests.harness.brute.data import Data, Row
from tests.harness.brute.text import text_matches
from tests.harness.brute.values import Typed, matches


class Entity(NamedTuple):
    """What a variable stands for: a node, or an edge that was given a name."""

    type: EntityType
    row: Row

    @property
    def id(self) -> str:
        return str(self.row["id"])


Bound: TypeAlias = Mapping[str, Entity]
"""One row of a match: its named variables. `$_` leaves no trace but the number of rows."""


class TooManyRows(Exception):
    """The loops went round more often than the caller allows."""


class Matcher:
    """Finds the rows of a match in some data. `steps` is how often its loops may go round."""

    def __init__(self, catalog: Catalog, data: Data, parameters: Mapping[str, Typed], *, now_ms: int, steps: int | None = None) -> None:
        self._catalog = catalog
        self._data = data
        self._parameters = parameters
        self._now = Typed(now_ms, DATETIME, given=True)
        self._steps = steps
        self._nodes = {name: {str(row["id"]): row for row in rows} for name, rows in data.nodes.items()}
        self._edges: dict[tuple[str, bool], dict[str, list[tuple[str, Row]]]] = {}
        self._walks: dict[tuple[str, bool, bool, int, int, str], list[str]] = {}

    def rows(self, clauses: Sequence[Clause], bound: Bound) -> Iterator[Bound]:
        """Every way to satisfy all clauses, given what is bound already."""
        if not clauses:
            yield bound
            return
        for found in self._clause(clauses[0], bound):
            yield from self.rows(clauses[1:], found)

    def _clause(self, clause: Clause, bound: Bound) -> Iterator[Bound]:
        self._step()
        match clause:
            case Binding():
                yield from self._binding(clause, bound)
            case Traversal():
                yield from self._traversal(clause, bound)
            case Filter():
                if self._holds(clause, bound):
                    yield bound
            case Search() | MatchText() | Fuzzy():
                if self.value(clause, bound).value is True:
                    yield bound
            case Negation():
                if next(self.rows(clause.clauses, bound), None) is None:
                    yield bound
            case _:
                assert_never(clause)

    def _step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise TooManyRows

    # bindings

    def _binding(self, clause: Binding, bound: Bound) -> Iterator[Bound]:
        node = self._catalog.node(clause.type_name.text)
        assert node is not None
        for entity in self._candidates(clause.variable, node, bound):
            self._step()
            if all(self._matched(match, entity) for match in clause.matches):
                yield _with(bound, clause.variable, entity)

    def _candidates(self, variable: Variable, node: NodeType, bound: Bound) -> list[Entity]:
        """The one node that is bound already, or every node of the type."""
        if variable.name in bound:
            return [bound[variable.name]]
        return [Entity(node, row) for row in self._data.nodes[node.name]]

    def _matched(self, match: PropertyMatch, entity: Entity) -> bool:
        """Equality, or for a list membership."""
        property_ = _property(entity, match.property.text)
        how = Containment.CONTAINS if isinstance(property_.type, ListOf) else Comparison.EQ
        return matches(property_, how, self.value(match.value, {}))

    # traversals

    def _traversal(self, clause: Traversal, bound: Bound) -> Iterator[Bound]:
        edge = self._catalog.edge(clause.edge.text)
        assert edge is not None
        forward = clause.undirected or _runs_forward(clause, edge, bound)
        left_type, right_type = (edge.source, edge.target) if forward else (edge.target, edge.source)
        left_node, right_node = self._catalog.node(left_type), self._catalog.node(right_type)
        assert left_node is not None
        assert right_node is not None
        for left in self._candidates(clause.left, left_node, bound):
            self._step()
            with_left = _with(bound, clause.left, left)
            right_bound = with_left.get(clause.right.name)
            for right_id, edge_row in self._reached(clause, edge, left.id, forward=forward):
                self._step()
                if right_bound is not None and right_bound.id != right_id:
                    continue
                found = _with(with_left, clause.right, Entity(right_node, self._nodes[right_type][right_id]))
                if clause.edge_variable is not None and edge_row is not None:
                    found = _with(found, clause.edge_variable, Entity(edge, edge_row))
                yield found

    def _reached(self, clause: Traversal, edge: EdgeType, start: str, *, forward: bool) -> list[tuple[str, Row | None]]:
        """The nodes a traversal leads to: each once, or, if the edge has a name, once for every edge."""
        if clause.edge_variable is not None and not clause.edge_variable.wildcard:
            return list(self._leaving(edge, start, forward=forward, undirected=clause.undirected))
        low, high = (1, 1) if clause.hops is None else (clause.hops.low, clause.hops.high)
        assert high is not None
        if edge.source != edge.target:
            high = 1
        # The same walk is asked for again and again; it depends on nothing but this.
        key = (edge.name, forward, clause.undirected, low, high, start)
        if key not in self._walks:
            self._walks[key] = self._walk(edge, start, low, high, forward=forward, undirected=clause.undirected)
        return [(end, None) for end in self._walks[key]]

    def _walk(self, edge: EdgeType, start: str, low: int, high: int, *, forward: bool, undirected: bool) -> list[str]:
        """The breadth-first search of the language, word for word."""
        frontier, visited, emitted = [start], {start}, dict[str, None]()
        for hop in range(1, high + 1):
            following: list[str] = []
            for node in frontier:
                for other, _ in self._leaving(edge, node, forward=forward, undirected=undirected):
                    if other == node:
                        if hop >= low:
                            emitted[other] = None
                    elif other not in visited:
                        visited.add(other)
                        following.append(other)
                        if hop >= low:
                            emitted[other] = None
            frontier = following
            if not frontier:
                break
        return list(emitted)

    def _leaving(self, edge: EdgeType, node: str, *, forward: bool, undirected: bool) -> Iterator[tuple[str, Row]]:
        """The edges at a node, each with its other end. An undirected one is followed both ways, a self-edge only once."""
        yield from self._at(edge, forward=forward).get(node, ())
        if undirected:
            yield from ((other, row) for other, row in self._at(edge, forward=not forward).get(node, ()) if other != node)

    def _at(self, edge: EdgeType, *, forward: bool) -> dict[str, list[tuple[str, Row]]]:
        """Every edge of a type by the node it leaves from. One that lacks one of its ends contributes nothing."""
        key = (edge.name, forward)
        if key not in self._edges:
            self._edges[key] = {}
            for row in self._data.edges[edge.name]:
                source, target = str(row["src"]), str(row["dst"])
                if source in self._nodes[edge.source] and target in self._nodes[edge.target]:
                    begin, end = (source, target) if forward else (target, source)
                    self._edges[key].setdefault(begin, []).append((end, row))
        return self._edges[key]

    # expressions

    def _holds(self, clause: Filter, bound: Bound) -> bool:
        return matches(self.value(clause.left, bound), clause.operator, self.value(clause.right, bound))

    def value(self, expr: Expr, bound: Bound) -> Typed:
        """What an expression means in one row."""
        match expr:
            case Variable(name=name):
                parameter = self._parameters.get(name)  # it hides a variable of the same name
                return parameter if parameter is not None else Typed(bound[name].id, STRING)
            case PropertyRef(variable=variable, property=property_):
                return _property(bound[variable.name], property_.text)
            case Now():
                return self._now
            case Search() | MatchText() | Fuzzy():
                return self._found(expr, bound)
            case AliasRef() | Aggregate() | Nearest() | Bm25() | Rrf():
                raise AssertionError("this has no meaning in a single row")
            case _:
                return literal(expr)

    def _found(self, expr: Search | MatchText | Fuzzy, bound: Bound) -> Typed:
        text, query = self.value(expr.field, bound).value, self.value(expr.query, bound).value
        if not isinstance(text, str) or not isinstance(query, str):
            return Typed(None, BOOL)
        edits = 0
        if isinstance(expr, Fuzzy):
            given = 2 if expr.max_edits is None else self.value(expr.max_edits, bound).value
            assert isinstance(given, int)
            edits = given
        return Typed(text_matches(text, query, edits=edits), BOOL)


def _runs_forward(clause: Traversal, edge: EdgeType, bound: Bound) -> bool:
    """The types of what is bound already decide; the left end first, then the right."""
    if clause.left.name in bound:
        return bound[clause.left.name].type.name == edge.source
    if clause.right.name in bound:
        return bound[clause.right.name].type.name == edge.target
    return True


def _with(bound: Bound, variable: Variable, entity: Entity) -> Bound:
    return bound if variable.wildcard else {**bound, variable.name: entity}


def _property(entity: Entity, name: str) -> Typed:
    property_ = entity.type.property(name)
    assert property_ is not None
    return Typed(entity.row[name], property_.type)


def literal(
    expr: IntegerLiteral | FloatLiteral | StringLiteral | BoolLiteral | DateLiteral | DateTimeLiteral | ListLiteral,
) -> Typed:
    """What a literal means by itself."""
    match expr:
        case IntegerLiteral(value=number):
            return Typed(number, I64, given=True)
        case FloatLiteral(value=real):
            return Typed(real, F64, given=True)
        case StringLiteral(value=text):
            return Typed(text, STRING, given=True)
        case BoolLiteral(value=truth):
            return Typed(truth, BOOL, given=True)
        case DateLiteral(text=text):
            return Typed(parse_date(text), DATE, given=True)
        case DateTimeLiteral(text=text):
            return Typed(parse_datetime(text), DATETIME, given=True)
        case ListLiteral(items=items):
            return _list([literal(item) for item in items])
        case _:
            assert_never(expr)


def _list(items: Sequence[Typed]) -> Typed:
    """A list of its first item's type; one float among numbers makes all of them floats."""
    scalars = [item.type.scalar for item in items if isinstance(item.type, Plain)]
    scalar = Scalar.STRING if not scalars else Scalar.F64 if Scalar.F64 in scalars else scalars[0]
    values: list[Atom] = []
    for item in items:
        assert isinstance(item.value, bool | int | float | str)
        values.append(item.value)
    return Typed(tuple(values), ListOf(scalar), given=True)


def typed_parameters(declared: Sequence[Parameter], values: Mapping[str, object]) -> dict[str, Typed]:
    """Bound parameters with their declared types."""
    typed: dict[str, Typed] = {}
    for parameter in declared:
        value = values[parameter.name]
        assert value is None or isinstance(value, bool | int | float | str | tuple)
        typed[parameter.name] = Typed(value, parameter.type, given=True)
    return typed
