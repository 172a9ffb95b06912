"""What the checker makes of a query: names resolved to types and slots, directions inferred, result columns known.

Variables are numbered: `TypedRead.variables[i]` is the variable that `Field(binding=i)` reads. Parameters and `now()` are
still open; `omnigraph.plan.lowering` and `omnigraph.plan.writes` fill them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import msgspec

from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.catalog.types import ListOf, ValueType
from omnigraph.errors import Span
from omnigraph.lang.query import AggregateFunction, Comparison, Containment
from omnigraph.plan.expr import BOOL, DATETIME, F64, Constant, Field


class Parameter(msgspec.Struct, frozen=True):
    """A declared parameter, and wherever `$name` reads it."""

    name: str
    type: ValueType
    nullable: bool


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


class AggregateCall(msgspec.Struct, frozen=True):
    """`count(x)`, `sum(x)`, ... with the type of its result."""

    function: AggregateFunction
    argument: Operand | Field | Ranking
    type: ValueType


Expr = Operand | Field | TextSearch | Ranking | AggregateCall


class Condition(msgspec.Struct, frozen=True):
    """`left operator right`: holds when it is true, not when it is null."""

    left: Expr
    operator: Comparison | Containment
    right: Expr


class Direction(StrEnum):
    """Which end of a stored edge the left variable of a traversal stands at."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class Link(msgspec.Struct, frozen=True):
    """One traversal: `left` and `right` are slots, as is `edge_slot` when the edge has a name."""

    edge: EdgeType
    left: int
    right: int
    direction: Direction
    low: int
    high: int
    edge_slot: int | None = None


class Block(msgspec.Struct, frozen=True):
    """A match block or the inside of a `not`. `nodes` are the slots first bound here, in order; `declared` those with a binding.

    `outer` are the slots of the blocks around it that it mentions, itself or further inside.
    """

    nodes: tuple[int, ...]
    declared: tuple[int, ...]
    links: tuple[Link, ...]
    conditions: tuple[Condition, ...]
    negations: tuple[Block, ...]
    outer: tuple[int, ...] = ()


class BoundVariable(msgspec.Struct, frozen=True):
    """A variable of the match; `name` is `_` when it is anonymous."""

    name: str
    type: EntityType


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
    key: Field | Ranking | OutputKey | UnsupportedOrder
    descending: bool = False


class TypedRead(msgspec.Struct, frozen=True):
    """A read that has been checked."""

    name: str
    parameters: tuple[Parameter, ...]
    variables: tuple[BoundVariable, ...]
    block: Block
    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...]
    limit: int | None

    @property
    def aggregates(self) -> bool:
        return any(isinstance(output.expr, AggregateCall) for output in self.outputs)


class PropertyValue(msgspec.Struct, frozen=True):
    """A property and its new value."""

    property: str
    type: ValueType
    nullable: bool
    value: Operand


class InsertNode(msgspec.Struct, frozen=True):
    node: NodeType
    values: tuple[PropertyValue, ...]


class InsertEdge(msgspec.Struct, frozen=True):
    edge: EdgeType
    source: Operand
    target: Operand
    values: tuple[PropertyValue, ...]


class UpdateNodes(msgspec.Struct, frozen=True):
    node: NodeType
    values: tuple[PropertyValue, ...]
    where: Condition


class DeleteNodes(msgspec.Struct, frozen=True):
    """`cascades` are the edge types whose edges are deleted with the nodes, in name order."""

    node: NodeType
    where: Condition
    cascades: tuple[EdgeType, ...]


class DeleteEdges(msgspec.Struct, frozen=True):
    edge: EdgeType
    where: Condition


Statement = InsertNode | InsertEdge | UpdateNodes | DeleteNodes | DeleteEdges
"""In `where` the row itself is binding 0; the ends of an edge are the columns `src` and `dst`."""


class TypedMutation(msgspec.Struct, frozen=True):
    """A mutation that has been checked: inserts and updates, or deletes, never both."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]


TypedQuery = TypedRead | TypedMutation


def type_of(expr: Expr) -> ValueType:
    """The type of an expression's values; a whole node is its id."""
    match expr:
        case Constant() | Parameter() | Field() | AggregateCall():
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
            return expr.function is not AggregateFunction.COUNT
        case TextSearch() | NearestScore() | Bm25Score() | RrfScore():
            return True
        case _:
            assert_never(expr)


def is_list(expr: Expr) -> bool:
    return isinstance(type_of(expr), ListOf)
