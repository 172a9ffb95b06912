"""What the checker makes of a query: names resolved to types and slots, directions inferred, result columns known.

Variables are numbered: `TypedRead.variables[i]` is the variable that `Field(binding=i)` reads. Parameters and `now()` are
still open; `omnigraph.plan.lowering` and `omnigraph.plan.writes` fill them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never

import msgspec

from omnigraph.catalog.model import EdgeType, EntityType, InterfaceType, NodeType
from omnigraph.catalog.types import ListOf, ValueType
from omnigraph.errors import Span
from omnigraph.lang.query import AggregateFunction, ArithmeticOperator, Comparison, Containment, Insertion, NullOrder
from omnigraph.plan.expr import BOOL, DATETIME, F64, Constant, Field
from omnigraph.plan.functions import Function


class Parameter(msgspec.Struct, frozen=True):
    """A declared parameter, and wherever `$name` reads it. A nullable one that is not `required` may be left out."""

    name: str
    type: ValueType
    nullable: bool
    required: bool = False


class NowCall(msgspec.Struct, frozen=True):
    """`now()`: the one instant of the query."""


Operand = Constant | Parameter | NowCall
"""A value that is known once parameters are bound."""


class TextMode(StrEnum):
    """How the tokens of a text and of a query are compared."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


class TextSearch(msgspec.Struct, frozen=True):
    """`search(..)`, `match_text(..)` or `fuzzy(..)`: true, false, or null where the text is null."""

    mode: TextMode
    field: Field
    query: Operand
    max_edits: Operand | None = None


class NearestScore(msgspec.Struct, frozen=True):
    """`nearest(field, query)`: the cosine distance; `query` is a vector, or a text to be embedded."""

    field: Field
    query: Operand


class Bm25Score(msgspec.Struct, frozen=True):
    """`bm25(field, query)`"""

    field: Field
    query: Operand


class RrfScore(msgspec.Struct, frozen=True):
    """`rrf(first, second, k)`: both rank the same variable."""

    first: NearestScore | Bm25Score
    second: NearestScore | Bm25Score
    k: Operand | None = None


Ranking = NearestScore | Bm25Score | RrfScore


class Arithmetic(msgspec.Struct, frozen=True):
    left: Expr
    operator: ArithmeticOperator
    right: Expr
    type: ValueType


class FunctionCall(msgspec.Struct, frozen=True):
    function: Function
    arguments: tuple[Expr, ...]
    type: ValueType


class AggregateCall(msgspec.Struct, frozen=True):
    """`count(x)`, `sum(distinct x)`, ... with the type of its result; no argument is `count(*)`."""

    function: AggregateFunction
    argument: Expr | None
    type: ValueType
    distinct: bool = False


Expr = Operand | Field | TextSearch | Ranking | Arithmetic | FunctionCall | AggregateCall


class Condition(msgspec.Struct, frozen=True):
    """`left operator right`: unknown where a side is null."""

    left: Expr
    operator: Comparison | Containment
    right: Expr


class InList(msgspec.Struct, frozen=True):
    """`item in options`: the options are a list."""

    item: Expr
    options: Operand


class IsNull(msgspec.Struct, frozen=True):
    value: Expr


class AllOf(msgspec.Struct, frozen=True):
    terms: tuple[Test, ...]


class AnyOf(msgspec.Struct, frozen=True):
    terms: tuple[Test, ...]


class Not(msgspec.Struct, frozen=True):
    term: Test


Test = Condition | InList | IsNull | AllOf | AnyOf | Not
"""True, false or unknown, as in SQL. A row is kept where the whole test is true."""


class Direction(StrEnum):
    """Which end of a stored edge the left variable of a traversal stands at."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class Link(msgspec.Struct, frozen=True):
    """One traversal: `left` and `right` are slots, as are `edge_slot` when the edge has a name, and `path` when the path has one.

    Several `edges` have the same ends.
    """

    edges: tuple[EdgeType, ...]
    left: int
    right: int
    direction: Direction
    low: int
    high: int
    edge_slot: int | None = None
    path: int | None = None


class BlockTest(msgspec.Struct, frozen=True):
    """Keeps a row for which at least one of the blocks has a row, or, if not `wanted`, for which none has."""

    blocks: tuple[Block, ...]
    wanted: bool


class Pattern(msgspec.Struct, frozen=True):
    """Clauses that hold together. `nodes` are the slots first bound here, in order; `declared` those with a binding."""

    nodes: tuple[int, ...]
    declared: tuple[int, ...]
    links: tuple[Link, ...]
    conditions: tuple[Test, ...]
    tests: tuple[BlockTest, ...]


class OptionalBlock(msgspec.Struct, frozen=True):
    """`binds` are the slots that are null where the block has no row."""

    block: Block
    binds: tuple[int, ...]


class Block(msgspec.Struct, frozen=True):
    """A match block, or one inside it: patterns and optional blocks, in the order of the text.

    `outer` are the slots of the blocks around it that it mentions, itself or further inside.
    """

    parts: tuple[Pattern | OptionalBlock, ...]
    outer: tuple[int, ...] = ()


class PathType(msgspec.Struct, frozen=True):
    """What a path variable holds: lists of the ids of its nodes and edges, and their number."""


class BoundVariable(msgspec.Struct, frozen=True):
    """A variable of the match; `name` is `_` when it is anonymous. One of an optional block may be null."""

    name: str
    type: EntityType | InterfaceType | PathType
    optional: bool = False


class Output(msgspec.Struct, frozen=True):
    """One column of the result."""

    name: str
    expr: Expr
    type: ValueType
    nullable: bool
    aliased: bool


class OutputKey(msgspec.Struct, frozen=True):
    """Order by the result column at `index`."""

    index: int


class UnsupportedOrder(msgspec.Struct, frozen=True):
    """A sort key that passes the type check and cannot run. The language rejects it when the query is planned."""

    message: str
    span: Span


class OrderKey(msgspec.Struct, frozen=True):
    key: Expr | OutputKey | UnsupportedOrder
    descending: bool = False
    nulls: NullOrder | None = None


class TypedRead(msgspec.Struct, frozen=True):
    """A read that has been checked."""

    name: str
    parameters: tuple[Parameter, ...]
    variables: tuple[BoundVariable, ...]
    block: Block
    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...]
    limit: int | Parameter | None
    skip: int | Parameter | None = None
    distinct: bool = False

    @property
    def aggregates(self) -> bool:
        return any(has_aggregate(output.expr) for output in self.outputs)


class PropertyValue(msgspec.Struct, frozen=True):
    """A property and its new value. Fields of binding `ROW` in the value are properties of the row before the change."""

    property: str
    type: ValueType
    nullable: bool
    value: Expr


ROW: Final = -1
"""The binding of the changed row itself in the values and conditions of a change. Its ends, if it is an edge, are `src` and `dst`."""


class InsertNode(msgspec.Struct, frozen=True):
    """`id` is the given identity of a node without a key."""

    node: NodeType
    values: tuple[PropertyValue, ...]
    insertion: Insertion = Insertion.INSERT
    id: Expr | None = None


class InsertEdge(msgspec.Struct, frozen=True):
    edge: EdgeType
    source: Expr
    target: Expr
    values: tuple[PropertyValue, ...]
    insertion: Insertion = Insertion.INSERT
    id: Expr | None = None


class UpdateRows(msgspec.Struct, frozen=True):
    entity: EntityType
    values: tuple[PropertyValue, ...]
    where: Test


class UpdateBound(msgspec.Struct, frozen=True):
    """Of the entity that a match bound to `slot`; the row itself is that slot, not `ROW`."""

    slot: int
    entity: EntityType
    values: tuple[PropertyValue, ...]


class DeleteNodes(msgspec.Struct, frozen=True):
    """`cascades` are the edge types whose edges are deleted with the nodes, in name order."""

    node: NodeType
    where: Test
    cascades: tuple[EdgeType, ...]


class DeleteEdges(msgspec.Struct, frozen=True):
    edge: EdgeType
    where: Test


class DeleteBound(msgspec.Struct, frozen=True):
    """The entities that a match bound to `slot`."""

    slot: int
    entity: EntityType
    cascades: tuple[EdgeType, ...]


Change = InsertNode | InsertEdge | UpdateRows | UpdateBound | DeleteNodes | DeleteEdges | DeleteBound


class MatchedChanges(msgspec.Struct, frozen=True):
    """Changes for each distinct combination of the variables that they use, among the rows of a match."""

    variables: tuple[BoundVariable, ...]
    block: Block
    changes: tuple[Change, ...]


Statement = InsertNode | InsertEdge | UpdateRows | DeleteNodes | DeleteEdges | MatchedChanges


class TypedMutation(msgspec.Struct, frozen=True):
    """A mutation that has been checked: inserts and updates, or deletes, never both."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]


TypedQuery = TypedRead | TypedMutation


def type_of(expr: Expr) -> ValueType:
    """The type of an expression's values; a whole node is its id."""
    match expr:
        case Constant() | Parameter() | Field() | AggregateCall() | Arithmetic() | FunctionCall():
            return expr.type
        case NowCall():
            return DATETIME
        case TextSearch():
            return BOOL
        case NearestScore() | Bm25Score() | RrfScore():
            return F64
        case _:
            assert_never(expr)


def nullable(expr: Expr) -> bool:
    """Whether a result column of this expression may hold null."""
    match expr:
        case Constant() | NowCall():
            return False
        case Parameter() | Field():
            return expr.nullable
        case AggregateCall():
            return expr.function not in (AggregateFunction.COUNT, AggregateFunction.COLLECT)
        case Arithmetic(left, operator, right):
            by_zero = operator in (ArithmeticOperator.DIVIDE, ArithmeticOperator.REMAINDER)
            return by_zero or nullable(left) or nullable(right)
        case FunctionCall(Function.COALESCE, arguments):
            return all(nullable(argument) for argument in arguments)
        case FunctionCall(arguments=arguments):
            return any(nullable(argument) for argument in arguments)
        case TextSearch() | NearestScore() | Bm25Score() | RrfScore():
            return True
        case _:
            assert_never(expr)


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside an expression."""
    match expr:
        case Field() | Constant() | Parameter() | NowCall():  # first, because most expressions are one of these
            return ()
        case Arithmetic(left, _, right):
            return (left, right)
        case FunctionCall(arguments=arguments):
            return arguments
        case AggregateCall(argument=argument):
            return () if argument is None else (argument,)
        case TextSearch(field=field) | NearestScore(field=field) | Bm25Score(field=field):
            return (field,)
        case RrfScore(first, second):
            return (first, second)
        case _:
            assert_never(expr)


def holds(expr: Expr, *kinds: type) -> bool:
    """Whether an expression, or one inside it, is of one of these kinds."""
    if isinstance(expr, kinds):
        return True
    parts = parts_of(expr)
    return bool(parts) and any(holds(part, *kinds) for part in parts)


def has_aggregate(expr: Expr) -> bool:
    return holds(expr, AggregateCall)


def is_late(expr: Expr) -> bool:
    """Whether an expression has a score or an aggregate, which exist only after the match."""
    return holds(expr, AggregateCall, NearestScore, Bm25Score, RrfScore)


_NO_SLOTS: Final[frozenset[int]] = frozenset()


def slots_of(expr: Expr) -> frozenset[int]:
    """The variables that an expression reads."""
    if isinstance(expr, Field):
        return frozenset((expr.binding,))
    parts = parts_of(expr)
    return _NO_SLOTS.union(*map(slots_of, parts)) if parts else _NO_SLOTS


def exprs_of(test: Test) -> tuple[Expr, ...]:
    """The expressions that a test compares."""
    match test:
        case Condition(left, _, right):
            return (left, right)
        case InList(item, options):
            return (item, options)
        case IsNull(value):
            return (value,)
        case AllOf(terms) | AnyOf(terms):
            return tuple(expr for term in terms for expr in exprs_of(term))
        case Not(term):
            return exprs_of(term)
        case _:
            assert_never(test)


def is_list(expr: Expr) -> bool:
    return isinstance(type_of(expr), ListOf)
