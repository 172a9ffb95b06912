"""The clauses of a match, one after another in nested loops -> every row of variables that satisfies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import ListOf, Plain
from omnigraph.lang.query import (
    Aggregate,
    AliasRef,
    Arithmetic,
    Binding,
    Bm25,
    BoolLiteral,
    Clause,
    Comparison,
    Condition,
    Conjunction,
    Containment,
    DateLiteral,
    DateTimeLiteral,
    Disjunction,
    Either,
    Exists,
    Expr,
    Filter,
    FloatLiteral,
    FunctionCall,
    Fuzzy,
    IntegerLiteral,
    Inversion,
    ListLiteral,
    ListTest,
    MatchText,
    Nearest,
    Negation,
    Negative,
    Now,
    NullTest,
    Optional,
    Path,
    PropertyMatch,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Traversal,
    Variable,
)
from omnigraph.lang.query import Truth as BareTruth
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import BOOL, DATE, DATETIME, F64, I64, STRING, U64, Atom
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.typed import Parameter
from tests.harness.brute.bound import (
    Bound,
    Declared,
    Entity,
    Walk,
    declared,
    declared_type,
    edges_of,
    introduced,
    nothing,
    runs_forward,
    types_of,
    with_variable,
)
from tests.harness.brute.calculate import PARTS, calculated, called, negated, part
from tests.harness.brute.data import Data, Row
from tests.harness.brute.text import text_matches
from tests.harness.brute.values import Truth, Typed, compared, conjunction, disjunction, inversion, listed
from tests.harness.brute.walks import Walks, Way

_IDENTITY = {"id": "id", "from": "src", "to": "dst"}
"""What every entity has beside its properties, and the column that holds it."""


_VISITS_OF_STEP: Final = 16
"""How many nodes a search may visit in the time of one step."""


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
        self._walks = Walks(data)

    def rows(self, clauses: Sequence[Clause], bound: Bound) -> Iterator[Bound]:
        """Every way to satisfy all clauses, given what is bound already."""
        if not clauses:
            yield bound
            return
        for found in self._clause(clauses[0], bound):
            yield from self.rows(clauses[1:], found)

    def nothing(self, clauses: Sequence[Clause]) -> Bound:
        """Every variable of a match null: what an expression makes of it has the expression's type."""
        return nothing(introduced(self._catalog, clauses, {}))

    def _clause(self, clause: Clause, bound: Bound) -> Iterator[Bound]:
        self._step()
        match clause:
            case Binding():
                yield from self._binding(clause, bound)
            case Traversal():
                yield from (found for found, _, _ in self._traversal(clause, bound))
            case Path():
                yield from self._path(clause, bound)
            case Negation():
                if not self._finds(clause.clauses, bound):
                    yield bound
            case Exists():
                if self._finds(clause.clauses, bound):
                    yield bound
            case Either(blocks=blocks):
                if any(self._finds(block, bound) for block in blocks):
                    yield bound
            case Optional():
                yield from self._optional(clause, bound)
            case _:
                if self.truth(clause, bound) is True:
                    yield bound

    def _step(self) -> None:
        self._spend(1)

    def _visit(self, nodes: int) -> None:
        """A search may visit many nodes and emit none of them."""
        self._spend(nodes // _VISITS_OF_STEP)

    def _spend(self, steps: int) -> None:
        if self._steps is not None:
            self._steps -= steps
            if self._steps < 0:
                raise TooManyRows

    # blocks

    def _finds(self, clauses: Sequence[Clause], bound: Bound) -> bool:
        return next(self.rows(clauses, bound), None) is not None

    def _optional(self, clause: Optional, bound: Bound) -> Iterator[Bound]:
        """Every row of the block, or one in which all of its own variables are null."""
        empty = True
        for found in self.rows(clause.clauses, bound):
            empty = False
            yield found
        if empty:
            known = declared(bound)
            types = introduced(self._catalog, clause.clauses, known)
            yield {**bound, **nothing({name: type_ for name, type_ in types.items() if name not in known})}

    # bindings

    def _binding(self, clause: Binding, bound: Bound) -> Iterator[Bound]:
        for entity in self._candidates(clause.variable, declared_type(self._catalog, clause.type_name.text), bound):
            self._step()
            if all(self._matched(match, entity) for match in clause.matches):
                yield with_variable(bound, clause.variable, entity)

    def _candidates(self, variable: Variable, declared_: Declared, bound: Bound) -> list[Entity]:
        """The one node that is bound already, or every node that the variable may stand for."""
        types = types_of(self._catalog, declared_)
        known = bound.get(variable.name)
        if known is not None:
            assert isinstance(known, Entity)
            return [known] if known.row is not None and known.type in types else []
        assert declared_ is not None
        return [Entity(declared_, node, row) for node in types for row in self._data.nodes[node.name]]

    def _matched(self, match: PropertyMatch, entity: Entity) -> bool:
        """Equality, or for a list membership."""
        own = property_of(entity, match.property.text)
        how = Containment.CONTAINS if isinstance(own.type, ListOf) else Comparison.EQ
        return compared(own, how, self.value(match.value, {})) is True

    # traversals

    def _traversal(self, clause: Traversal, bound: Bound) -> Iterator[tuple[Bound, str, str]]:
        """The rows of a traversal, each with the ids at its ends."""
        way = self._way(clause, bound)
        edge = way.edges[0]
        left_type, right_type = (edge.source, edge.target) if way.forward else (edge.target, edge.source)
        right_node = self._catalog.node(right_type)
        assert right_node is not None
        for left in self._candidates(clause.left, self._catalog.node(left_type), bound):
            self._step()
            assert left.id is not None
            with_left = with_variable(bound, clause.left, left)
            for right_id, edge_row in self._reached(clause, way, left.id):
                self._step()
                right = Entity(right_node, right_node, self._nodes[right_type][right_id])
                known = with_left.get(clause.right.name)
                if known is not None:
                    assert isinstance(known, Entity)
                    if (known.type, known.id) != (right.type, right.id):
                        continue
                    right = known
                found = with_variable(with_left, clause.right, right)
                if clause.edge_variable is not None and edge_row is not None:
                    found = with_variable(found, clause.edge_variable, Entity(edge, edge, edge_row))
                yield found, left.id, right_id

    def _way(self, clause: Traversal, bound: Bound) -> Way:
        low, high = (1, 1) if clause.hops is None else (clause.hops.low, clause.hops.high)
        assert high is not None
        forward = runs_forward(self._catalog, clause, declared(bound))
        return Way(edges_of(self._catalog, clause), forward=forward, undirected=clause.undirected, low=low, high=high)

    def _reached(self, clause: Traversal, way: Way, start: str) -> list[tuple[str, Row | None]]:
        """The nodes a traversal leads to: each once, or, if the edge has a name, once for every edge."""
        if clause.edge_variable is not None and not clause.edge_variable.wildcard:
            return list(self._walks.leaving(way, start))
        return [(end, None) for end in self._walks.reached(way, start, on_visit=self._visit)]

    def _path(self, clause: Path, bound: Bound) -> Iterator[Bound]:
        way = self._way(clause.traversal, bound)
        for found, start, end in self._traversal(clause.traversal, bound):
            yield with_variable(found, clause.variable, self._walks.shortest(way, start, end))

    # conditions

    def truth(self, condition: Condition, bound: Bound) -> Truth:
        """Whether a condition holds in one row: true, false or unknown."""
        match condition:
            case Filter(left=left, operator=operator, right=right):
                return compared(self.value(left, bound), operator, self.value(right, bound))
            case ListTest(item=item, options=options, negated=negated_):
                found = listed(self.value(item, bound), self.value(options, bound))
                return inversion(found) if negated_ else found
            case NullTest(value=value, negated=negated_):
                return self._is_null(value, bound) != negated_
            case BareTruth(value=value):
                return self._bool(value, bound)
            case Search() | MatchText() | Fuzzy():
                return self._bool(condition, bound)
            case Conjunction(terms=terms):
                return conjunction([self.truth(term, bound) for term in terms])
            case Disjunction(terms=terms):
                return disjunction([self.truth(term, bound) for term in terms])
            case Inversion(term=term):
                return inversion(self.truth(term, bound))
            case _:
                assert_never(condition)

    def _bool(self, expr: Expr, bound: Bound) -> Truth:
        value = self.value(expr, bound).value
        assert value is None or isinstance(value, bool)
        return value

    def _is_null(self, expr: Expr, bound: Bound) -> bool:
        if isinstance(expr, Variable) and expr.name not in self._parameters:
            entity = bound[expr.name]
            return entity.nodes is None if isinstance(entity, Walk) else entity.row is None
        return self.value(expr, bound).value is None

    # expressions

    def value(self, expr: Expr, bound: Bound) -> Typed:
        """What an expression means in one row."""
        match expr:
            case Variable(name=name):
                parameter = self._parameters.get(name)  # it hides a variable of the same name
                return parameter if parameter is not None else Typed(self._entity(expr, bound).id, STRING)
            case PropertyRef(variable=variable, property=property_):
                return property_of(self._entity(variable, bound), property_.text)
            case Now():
                return self._now
            case Search() | MatchText() | Fuzzy():
                return self._found(expr, bound)
            case Arithmetic(left=left, operator=operator, right=right):
                return calculated(self.value(left, bound), operator, self.value(right, bound))
            case Negative(operand=operand):
                return negated(self.value(operand, bound))
            case FunctionCall():
                return self._called(expr, bound)
            case Nearest() | Bm25() | Rrf():
                return self.score(expr, bound)
            case AliasRef() | Aggregate():
                raise AssertionError("this has no meaning in a single row")
            case _:
                return literal(expr)

    def score(self, ranking: Nearest | Bm25 | Rrf, bound: Bound) -> Typed:
        """A score depends on all rows. Whoever has them says what it is."""
        raise AssertionError("this has no meaning in a single row")

    def _entity(self, variable: Variable, bound: Bound) -> Entity:
        entity = bound[variable.name]
        assert isinstance(entity, Entity)
        return entity

    def _called(self, call: FunctionCall, bound: Bound) -> Typed:
        name = call.name.text
        match call.arguments:
            case (Variable() as variable,) if isinstance(walk := bound.get(variable.name), Walk):
                return _of_walk(name, walk)
            case (Variable() as variable,) if name == "type":
                entity = self._entity(variable, bound)
                return Typed(None if entity.row is None else entity.type.name, STRING)
            case (Variable() as variable,) if name == "id":
                return Typed(self._entity(variable, bound).id, STRING)
            case arguments:
                return apply(name, [self.value(argument, bound) for argument in arguments])

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


def apply(name: str, arguments: Sequence[Typed]) -> Typed:
    """A function of values."""
    return part(name, arguments[0]) if name in PARTS else called(name, arguments)


def _of_walk(name: str, walk: Walk) -> Typed:
    match name:
        case "nodes":
            return Typed(walk.nodes, ListOf(Scalar.STRING))
        case "edges":
            return Typed(walk.edges, ListOf(Scalar.STRING))
        case "length":
            return Typed(None if walk.edges is None else len(walk.edges), I64)
        case _:
            raise AssertionError("a path has nodes, edges and a length")


def property_of(entity: Entity, name: str) -> Typed:
    """A property, or what identifies the entity; of a null entity null."""
    if name in _IDENTITY:
        return Typed(None if entity.row is None else entity.row[_IDENTITY[name]], STRING)
    property_ = entity.type.property(name)
    assert property_ is not None
    return Typed(None if entity.row is None else entity.row[name], property_.type)


def literal(
    expr: IntegerLiteral | FloatLiteral | StringLiteral | BoolLiteral | DateLiteral | DateTimeLiteral | ListLiteral,
) -> Typed:
    """What a literal means by itself."""
    match expr:
        case IntegerLiteral(value=number):
            return Typed(number, I64 if number < 2**63 else U64, given=True)
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
