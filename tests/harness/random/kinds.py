"""A read -> which constructs of the language and which operators occur in it, by name, so that a suite can tell what it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType
from omnigraph.catalog.types import ListOf
from omnigraph.lang import parse_queries, select_query
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Binding,
    Bm25,
    Clause,
    Comparison,
    Condition,
    Conjunction,
    Containment,
    Disjunction,
    Either,
    Exists,
    Expr,
    Filter,
    FunctionCall,
    Fuzzy,
    Inversion,
    ListLiteral,
    ListTest,
    MatchText,
    Nearest,
    Negation,
    Negative,
    Now,
    NullOrder,
    NullTest,
    Optional,
    Ordering,
    Path,
    Projection,
    PropertyRef,
    Query,
    Read,
    Rrf,
    Search,
    Traversal,
    Truth,
    Variable,
)
from omnigraph.lang.tree import ListType, Scalar, Syntax
from omnigraph.plan import ir, ops
from omnigraph.plan.check import check_read
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from tests.harness.brute.bound import Declared, declared_type, edges_of, introduced, runs_forward

_OPERATORS: Final = tuple(op.__name__ for op in ops.Op.__args__)
_PREDICATES: Final = tuple(kind.__name__ for kind in ir.Predicate.__args__)
_SCALARS: Final = tuple(scalar.value for scalar in Scalar if scalar is not Scalar.BLOB)
FUNCTIONS: Final = (
    "lower", "upper", "trim", "length", "substring", "coalesce", "abs", "round", "floor", "ceil", "year", "month", "day", "hour", "date",
    "datetime", "type", "id", "nodes", "edges",
)  # fmt: skip

KINDS: Final = frozenset(
    {
        *(f"operator {name}" for name in _OPERATORS),
        *(f"predicate {name}" for name in _PREDICATES),
        *(f"filter {how.value}" for how in (*Comparison, Containment.STARTS_WITH, Containment.ENDS_WITH)),
        *("filter contains in a list", "filter contains in a text", "filter of a property and a property", "filter of constants"),
        *(f"filter of {what}" for what in ("a property and a literal", "a property and a parameter", "a property and now()")),
        *("filter of something calculated", "filter of an id", "filter of an edge's end"),
        *("in a list", "not in a list", "in a list of a parameter", "in an empty list", "is null", "is not null", "a variable is null"),
        *("a Bool by itself", "and", "or", "not a condition", "a condition inside a condition"),
        *("binding", "binding with a match", "binding again", "match of a list's item", "match with a parameter", "match of an id"),
        *("binding of an interface", "traversal from an interface"),
        *("traversal", "traversal with hops", "traversal with hops, undirected", "traversal undirected", "traversal from a wildcard"),
        *("traversal with an edge variable", "traversal with an edge variable, undirected", "traversal with a wildcard edge"),
        *("traversal of nothing bound", "traversal of the left bound", "traversal of the right bound", "traversal of both bound"),
        *("traversal to itself", "traversal between types", "traversal inside a type", "direction out", "direction in", "direction both"),
        *("traversal over several edges", "traversal from an optional variable"),
        *("path", "path undirected", "path over several edges", "path of several hops", "path between bound ends"),
        *("negation", "negation nested", "exists", "exists nested", "either", "either nested", "optional", "optional nested"),
        *(f"parameter {scalar}" for scalar in _SCALARS),
        *("parameter list", "parameter Vector", "parameter null"),
        *(f"aggregate {function.value}" for function in AggregateFunction),
        *("aggregate of rows", "aggregate distinct", "aggregate of something calculated", "something calculated of aggregates"),
        *("return node", "return property", "return edge property", "return literal", "return parameter", "return alias"),
        *("return distinct", "return something calculated", "return id"),
        *("groups by nothing", "groups by one", "groups by several", "groups by something calculated", "groups distinct"),
        *("order by property", "order by alias", "order by several", "order ascending", "order descending", "order of groups"),
        *("order by something calculated", "order of distinct rows", "order nulls first", "order nulls last"),
        *("limit", "limit 0", "limit of a parameter", "skip", "skip of a parameter", "skip without a limit"),
        *(f"arithmetic {operator.value}" for operator in ArithmeticOperator),
        "arithmetic negative",
        *(f"function {name}" for name in FUNCTIONS),
        *("search", "match_text", "fuzzy", "search compared", "search in a block"),
        *("ranking nearest", "ranking bm25", "ranking rrf", "order by ranking", "order by score", "return score", "ranking of groups"),
        "now()",
        "query without a name",
    }
)


def kinds_of(source: str, params: object, catalog: Catalog, *, now_ms: int) -> Counter[str]:
    """How often each of `KINDS` occurs in a read."""
    query = select_query(parse_queries(source), None)
    found = constructs(query, params, catalog)
    read = check_read(query, catalog)
    bound = bind_parameters(read.parameters, params)
    found.update(_structs(plan_read(read, bound, now_ms=now_ms).root))
    unknown = set(found) - KINDS
    assert not unknown, unknown
    return found


def constructs(query: Query, params: object, catalog: Catalog) -> Counter[str]:
    """How often each construct occurs: what can be told of the text and the schema."""
    assert isinstance(query.body, Read)
    walk = _Walk(catalog, query)
    found = Counter(walk.clauses(query.body.match, {}, depth=0))
    found.update(walk.tail(query.body))
    found.update(_expressions(query.body))
    found["query without a name"] += query.anonymous
    given = params if isinstance(params, dict) else {}
    for parameter in query.parameters:
        shape = parameter.shape
        found[f"parameter {getattr(shape, 'scalar', 'list' if hasattr(shape, 'item') else 'Vector')}"] += 1
        found["parameter null"] += given.get(parameter.name.text) is None
    return found


class _Walk:
    """Goes through a read with the types of its variables at every place."""

    def __init__(self, catalog: Catalog, query: Query) -> None:
        self._catalog = catalog
        self._parameters = {parameter.name.text for parameter in query.parameters}
        self._lists = {parameter.name.text for parameter in query.parameters if isinstance(parameter.shape, ListType)}
        self._optional: set[str] = set()
        self._types: dict[str, Declared] = {}

    # clauses

    def clauses(self, clauses: tuple[Clause, ...], types: dict[str, Declared], *, depth: int) -> Iterator[str]:
        for clause in clauses:
            yield from self._clause(clause, types, depth)
            after = introduced(self._catalog, [clause], types)
            if isinstance(clause, Optional):
                self._optional.update(set(after) - set(types))
            types = after
        if depth == 0:
            self._types = types

    def _clause(self, clause: Clause, types: dict[str, Declared], depth: int) -> Iterator[str]:
        nested = " nested" if depth else ""
        match clause:
            case Binding():
                yield from self._binding(clause, types)
            case Traversal():
                yield from self._traversal(clause, types)
            case Path(traversal=traversal):
                yield from self._path(traversal, types)
            case Negation(clauses=inner):
                yield f"negation{nested}"
                yield from _searched(inner)
                yield from self.clauses(inner, types, depth=depth + 1)
            case Exists(clauses=inner):
                yield f"exists{nested}"
                yield from _searched(inner)
                yield from self.clauses(inner, types, depth=depth + 1)
            case Optional(clauses=inner):
                yield f"optional{nested}"
                yield from _searched(inner)
                yield from self.clauses(inner, types, depth=depth + 1)
            case Either(blocks=blocks):
                yield f"either{nested}"
                for block in blocks:
                    yield from self.clauses(block, types, depth=depth + 1)
            case _:
                yield from self._condition(clause, types, depth=0)

    def _binding(self, clause: Binding, types: dict[str, Declared]) -> Iterator[str]:
        declared = declared_type(self._catalog, clause.type_name.text)
        yield "binding again" if clause.variable.name in types else "binding"
        yield from ("binding of an interface" for _ in [declared] if isinstance(declared, InterfaceType))
        yield from ("binding with a match" for _ in clause.matches[:1])
        for match in clause.matches:
            yield from ("match with a parameter" for _ in [match] if isinstance(match.value, Variable))
            property_ = declared.property(match.property.text)
            if property_ is None:
                yield "match of an id"
            elif isinstance(property_.type, ListOf):
                yield "match of a list's item"

    def _traversal(self, clause: Traversal, types: dict[str, Declared]) -> Iterator[str]:
        way = ", undirected" if clause.undirected else ""
        match clause.edge_variable:
            case None if clause.hops is not None:
                yield f"traversal with hops{way}"
            case None:
                yield "traversal undirected" if way else "traversal"
            case Variable(name="_"):
                yield "traversal with a wildcard edge"
            case _:
                yield f"traversal with an edge variable{way}"
        yield from self._ends(clause, types)
        yield from ("traversal over several edges" for _ in clause.edges[1:2])
        edge = edges_of(self._catalog, clause)[0]
        yield "traversal inside a type" if edge.source == edge.target else "traversal between types"
        forward = runs_forward(self._catalog, clause, types)
        yield f"direction {'both' if clause.undirected else 'out' if forward else 'in'}"

    def _ends(self, clause: Traversal, types: dict[str, Declared]) -> Iterator[str]:
        if clause.left.wildcard or clause.right.wildcard:
            yield "traversal from a wildcard"
        if clause.left.name == clause.right.name and not clause.left.wildcard:
            yield "traversal to itself"
        ends = {(False, False): "nothing", (True, False): "the left", (False, True): "the right", (True, True): "both"}
        yield f"traversal of {ends[clause.left.name in types, clause.right.name in types]} bound"
        names = {clause.left.name, clause.right.name}
        yield from ("traversal from an interface" for name in names if isinstance(types.get(name), InterfaceType))
        yield from ("traversal from an optional variable" for _ in names & self._optional & set(types))

    def _path(self, clause: Traversal, types: dict[str, Declared]) -> Iterator[str]:
        yield "path undirected" if clause.undirected else "path"
        yield from ("path over several edges" for _ in clause.edges[1:2])
        yield from ("path of several hops" for _ in [clause] if clause.hops is not None)
        yield from ("path between bound ends" for _ in [clause] if clause.left.name in types and clause.right.name in types)

    # conditions

    def _condition(self, condition: Condition, types: dict[str, Declared], *, depth: int) -> Iterator[str]:
        match condition:
            case Filter():
                yield from self._filter(condition, types)
            case ListTest(options=options, negated=negated):
                yield "not in a list" if negated else "in a list"
                yield from ("in a list of a parameter" for _ in [options] if isinstance(options, Variable))
                yield from ("in an empty list" for _ in [options] if options == ListLiteral())
            case NullTest(value=value, negated=negated):
                yield "a variable is null" if isinstance(value, Variable) else "is not null" if negated else "is null"
            case Truth():
                yield "a Bool by itself"
            case Conjunction(terms=terms) | Disjunction(terms=terms):
                yield "and" if isinstance(condition, Conjunction) else "or"
                yield from ("a condition inside a condition" for _ in range(depth > 0))
                for term in terms:
                    yield from self._condition(term, types, depth=depth + 1)
            case Inversion(term=term):
                yield "not a condition"
                yield from self._condition(term, types, depth=depth)
            case Search() | MatchText() | Fuzzy():
                yield _search_kind(condition)
            case _:
                assert_never(condition)

    def _filter(self, clause: Filter, types: dict[str, Declared]) -> Iterator[str]:
        if clause.operator is Containment.CONTAINS:
            yield f"filter contains in a {'list' if self._is_list(clause.left, types) else 'text'}"
        else:
            yield f"filter {clause.operator.value}"
        sides = (clause.left, clause.right)
        for side in sides:
            if isinstance(side, Search | MatchText | Fuzzy):
                yield "search compared"
                yield _search_kind(side)
                return
        if any(isinstance(side, Arithmetic | Negative | FunctionCall) for side in sides):
            yield "filter of something calculated"
            return
        properties = [side for side in sides if isinstance(side, PropertyRef)]
        identities = {side.property.text for side in properties} & {"id", "from", "to"}
        if identities:
            yield "filter of an id" if "id" in identities else "filter of an edge's end"
            return
        given = [side for side in sides if not isinstance(side, PropertyRef)]
        match given:
            case []:
                yield "filter of a property and a property"
            case [Variable()]:
                yield "filter of a property and a parameter"
            case [Now()]:
                yield "filter of a property and now()"
            case [_]:
                yield "filter of a property and a literal"
            case _:
                yield "filter of constants"

    def _is_list(self, expr: Expr, types: dict[str, Declared]) -> bool:
        """Whether `contains` looks into a list."""
        match expr:
            case ListLiteral():
                return True
            case PropertyRef(variable=variable, property=name):
                declared = types[variable.name]
                property_ = None if declared is None else declared.property(name.text)
                return property_ is not None and isinstance(property_.type, ListOf)
            case Variable(name=name):
                return name in self._lists
            case _:
                return False

    # results

    def tail(self, read: Read) -> Iterator[str]:
        self._returns = read.returns
        for projection in read.returns:
            yield from self._projection(projection)
        grouped = any(_holds_aggregate(projection.value) for projection in read.returns)
        if grouped:
            keys = [projection.value for projection in read.returns if not _holds_aggregate(projection.value)]
            yield f"groups by {('nothing', 'one')[len(keys)] if len(keys) < 2 else 'several'}"
            yield from ("groups by something calculated" for key in keys if isinstance(key, Arithmetic | Negative | FunctionCall))
            yield from ("order of groups" for _ in read.order[:1])
            yield from ("ranking of groups" for ordering in read.order[:1] if isinstance(ordering.key, Nearest | Bm25 | Rrf))
        if read.distinct:
            yield "groups distinct" if grouped else "return distinct"
            yield from ("order of distinct rows" for _ in read.order[:1])
        for ordering in read.order:
            yield from self._ordering(ordering)
        yield from ("order by several" for _ in read.order[1:2])
        if read.limit is not None:
            yield "limit of a parameter" if isinstance(read.limit, Variable) else "limit" if read.limit else "limit 0"
        if read.skip is not None:
            yield "skip of a parameter" if isinstance(read.skip, Variable) else "skip"
            yield from ("skip without a limit" for _ in range(read.limit is None))

    def _ordering(self, ordering: Ordering) -> Iterator[str]:
        match ordering.key:
            case AliasRef(name=name):
                scores = [shown for shown in self._returns if shown.alias is not None and shown.alias.text == name]
                yield "order by score" if scores and isinstance(scores[0].value, Nearest | Bm25 | Rrf) else "order by alias"
            case Nearest() | Bm25() | Rrf():
                yield "order by ranking"
            case PropertyRef():
                yield "order by property"
            case _:
                yield "order by something calculated"
        yield "order descending" if ordering.descending else "order ascending"
        if ordering.nulls is not None:
            yield "order nulls first" if ordering.nulls is NullOrder.FIRST else "order nulls last"

    def _projection(self, projection: Projection) -> Iterator[str]:
        if projection.alias is not None:
            yield "return alias"
        value: Expr = projection.value
        match value:
            case Aggregate(function=function, argument=argument, distinct=distinct):
                yield "aggregate of rows" if argument is None else f"aggregate {function.value}"
                yield from ("aggregate distinct" for _ in range(distinct))
                yield from ("aggregate of something calculated" for _ in [argument] if isinstance(argument, Arithmetic | FunctionCall))
            case PropertyRef(property=name) if name.text in ("id", "from", "to"):
                yield "return id"
            case PropertyRef(variable=variable):
                edge = isinstance(self._types.get(variable.name), EdgeType)
                yield "return edge property" if edge else "return property"
            case Variable(name=name):
                yield "return parameter" if name in self._parameters else "return node"
            case Arithmetic() | Negative() | FunctionCall() if _holds_aggregate(value):
                yield "something calculated of aggregates"
            case Arithmetic() | Negative() | FunctionCall():
                yield "return something calculated"
            case Nearest() | Bm25() | Rrf():
                yield "return score"
            case ListLiteral() | Now():
                raise AssertionError("nothing of the kind is made")
            case _:
                yield "return literal"


def _search_kind(call: Search | MatchText | Fuzzy) -> str:
    return {Search: "search", MatchText: "match_text", Fuzzy: "fuzzy"}[type(call)]


def _searched(clauses: tuple[Clause, ...]) -> Iterator[str]:
    return ("search in a block" for _ in range(any(isinstance(part, Search | MatchText | Fuzzy) for part in _parts(clauses))))


def _expressions(value: object) -> Iterator[str]:
    """Operators, functions and `now()`, wherever they stand."""
    for part in _parts(value):
        match part:
            case Arithmetic(operator=operator):
                yield f"arithmetic {operator.value}"
            case Negative():
                yield "arithmetic negative"
            case FunctionCall(name=name):
                yield f"function {name}"
            case Now():
                yield "now()"
            case Nearest() | Bm25() | Rrf():
                yield f"ranking {type(part).__name__.lower()}"
            case _:
                pass


def _holds_aggregate(value: object) -> bool:
    return any(isinstance(part, Aggregate) for part in _parts(value))


def _parts(value: object) -> Iterator[Syntax]:
    match value:
        case tuple():
            for item in value:
                yield from _parts(item)
        case Syntax():
            yield value
            for field in value.__struct_fields__:
                yield from _parts(getattr(value, field))
        case _:
            return


def _structs(value: object) -> Iterator[str]:
    """The operators and predicates of a plan, wherever they stand in it."""
    match value:
        case tuple():
            for item in value:
                yield from _structs(item)
        case msgspec.Struct():
            name = type(value).__name__
            if isinstance(value, ops.Op):
                yield f"operator {name}"
            elif isinstance(value, ir.Predicate):
                yield f"predicate {name}"
            for field in value.__struct_fields__:
                yield from _structs(getattr(value, field))
        case _:
            return
