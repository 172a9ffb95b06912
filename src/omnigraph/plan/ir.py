"""Logical plans: a closed union of frozen operators over numbered bindings. Parameters and `now()` are values here.

A row binds each number to one entity. An executor may keep rows as integers and read columns at each `LogicalFetch`. Every
tuple of predicates is a conjunction, and a predicate that is null does not hold. The physical operators are in `ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from omnigraph.catalog.types import ValueType
from omnigraph.lang.query import AggregateFunction, Comparison
from omnigraph.plan.expr import Atom, Constant, Field, TypeRef
from omnigraph.plan.typed import Direction, TextMode

# expressions


class _Struct(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    pass


class TextMatch(_Struct, frozen=True):
    """Whether the tokens of a text match those of a query; null where the text is null."""

    mode: TextMode
    field: Field
    query: str
    max_edits: int = 0


class Score(_Struct, frozen=True):
    """The score that the rank operator of that slot computed for the row; null if the ranked entity was not a candidate."""

    slot: int


class Cell(_Struct, frozen=True):
    """The result column at `index` of the aggregate below."""

    index: int


Expr = Constant | Field | TextMatch | Score

# predicates


class Compare(_Struct, frozen=True):
    """Compares by value across numeric types; strings by their UTF-8 bytes, `false` before `true`."""

    left: Expr
    operator: Comparison
    right: Expr


class OneOf(_Struct, frozen=True):
    """The field equals one of `values`, which are of the field's own type."""

    field: Field
    values: tuple[Atom, ...]


class Includes(_Struct, frozen=True):
    """The list `items` holds `item`."""

    items: Expr
    item: Expr


class Substring(_Struct, frozen=True):
    """`text` contains `part`, case-sensitive."""

    text: Expr
    part: Expr


class Prefix(_Struct, frozen=True):
    """`text` begins with `prefix`, case-sensitive."""

    text: Expr
    prefix: Expr


class Matches(_Struct, frozen=True):
    """The result of the text match is `wanted`."""

    text: TextMatch
    wanted: bool


class NotNull(_Struct, frozen=True):
    """The field is not null: the rest of a comparison that every value passes."""

    field: Field


class Never(_Struct, frozen=True):
    """False: the rest of a comparison that no value passes."""


Predicate = Compare | OneOf | Includes | Substring | Prefix | Matches | NotNull | Never

# rankings


class Nearest(_Struct, frozen=True):
    """By cosine distance to a vector, or to the embedding of a text; null and zero vectors are not candidates."""

    field: Field
    query: tuple[float, ...] | str


class Bm25(_Struct, frozen=True):
    """By BM25 score; a text without any token of the query is not a candidate."""

    field: Field
    query: str


class Fusion(_Struct, frozen=True):
    """Reciprocal ranks added: sum of 1 / (k + rank), ranks of distinct entities from 1, `depth` of them per arm."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: int
    depth: int | None


Ranking = Nearest | Bm25 | Fusion

# operators


class LogicalScan(_Struct, frozen=True):
    """Bind every entity of a type for which `where` holds, and read `columns` of it."""

    binding: int
    type: TypeRef
    where: tuple[Predicate, ...] = ()
    columns: tuple[str, ...] = ()


class LogicalArgument(_Struct, frozen=True):
    """The distinct rows of the outer plan, restricted to these bindings. The root of the inner plan of an anti join."""

    bindings: tuple[int, ...]


class Link(_Struct, frozen=True):
    """One traversal: pairs (left, right), each once, such that a search of `low` to `high` hops from left emits right.

    With `edge_binding` one row per stored edge instead. `where` and `columns` are about that edge.
    """

    edge: TypeRef
    left: int
    right: int
    direction: Direction
    low: int = 1
    high: int = 1
    edge_binding: int | None = None
    where: tuple[Predicate, ...] = ()
    columns: tuple[str, ...] = ()


class LogicalPattern(_Struct, frozen=True):
    """Scans and links joined in no order yet; `argument` are the bindings of the outer plan."""

    scans: tuple[LogicalScan, ...]
    links: tuple[Link, ...]
    argument: tuple[int, ...] = ()


class LogicalExpand(_Struct, frozen=True):
    """Follow a link from its bound end to the other, which `target` describes."""

    input: LogicalPlan
    link: Link
    from_left: bool
    target: LogicalScan


class LogicalConnect(_Struct, frozen=True):
    """Keep rows whose two ends are linked; with an edge binding, one row per edge between them."""

    input: LogicalPlan
    link: Link


class LogicalCrossProduct(_Struct, frozen=True):
    left: LogicalPlan
    right: LogicalPlan


class LogicalJoin(_Struct, frozen=True):
    """Pairs of rows whose fields are equal, first of each pair on the left; a null never matches."""

    left: LogicalPlan
    right: LogicalPlan
    on: tuple[tuple[Field, Field], ...]


class LogicalFilter(_Struct, frozen=True):
    input: LogicalPlan
    where: tuple[Predicate, ...]


class LogicalAntiJoin(_Struct, frozen=True):
    """Keep rows for which `inner`, started from their bindings `on`, has no row."""

    input: LogicalPlan
    inner: LogicalPlan
    on: tuple[int, ...]


class LogicalRank(_Struct, frozen=True):
    """Compute a score for the ranked entity of every row. `only_candidates` drops rows without one.

    With `top`, only that many of the best entities are needed.
    """

    input: LogicalPlan
    slot: int
    ranking: Ranking
    only_candidates: bool
    top: int | None = None


class Read(_Struct, frozen=True):
    binding: int
    columns: tuple[str, ...]


class LogicalFetch(_Struct, frozen=True):
    """Read columns of bound entities."""

    input: LogicalPlan
    reads: tuple[Read, ...]


class Call(_Struct, frozen=True):
    """An aggregate over the rows of a group."""

    function: AggregateFunction
    argument: Expr
    type: ValueType


class LogicalAggregate(_Struct, frozen=True):
    """One row per group. The outputs that are not calls form the group key. Without a key there is always one row."""

    input: LogicalPlan
    outputs: tuple[Field | Call, ...]


class LogicalProject(_Struct, frozen=True):
    input: LogicalPlan
    outputs: tuple[Expr, ...]


class SortKey(_Struct, frozen=True):
    """Nulls are smallest."""

    key: Expr | Cell
    descending: bool = False


class LogicalOrder(_Struct, frozen=True):
    """By `keys`, then by the ids of the bindings in `ties`."""

    input: LogicalPlan
    keys: tuple[SortKey, ...]
    ties: tuple[int, ...]


class LogicalLimit(_Struct, frozen=True):
    input: LogicalPlan
    count: int


class LogicalEmpty(_Struct, frozen=True):
    """No rows."""


LogicalPlan = (
    LogicalScan
    | LogicalArgument
    | LogicalPattern
    | LogicalExpand
    | LogicalConnect
    | LogicalCrossProduct
    | LogicalJoin
    | LogicalFilter
    | LogicalAntiJoin
    | LogicalRank
    | LogicalFetch
    | LogicalAggregate
    | LogicalProject
    | LogicalOrder
    | LogicalLimit
    | LogicalEmpty
)


class Binding(_Struct, frozen=True):
    """The variable behind a binding number."""

    name: str
    type: TypeRef


class Column(_Struct, frozen=True):
    """A column of the result."""

    name: str
    type: ValueType
    nullable: bool


class LogicalRead(_Struct, frozen=True):
    """A whole read: its plan, its bindings and its result columns."""

    name: str
    root: LogicalPlan
    bindings: tuple[Binding, ...]
    columns: tuple[Column, ...]


EMPTY: Final = LogicalEmpty()
NEVER: Final = Never()


def map_inputs(plan: LogicalPlan, change: Callable[[LogicalPlan], LogicalPlan]) -> LogicalPlan:
    """The operator with `change` applied to its inputs. Returns the same object if no input changed."""
    match plan:  # most operators have one input, so they are matched first
        case (
            LogicalExpand()
            | LogicalConnect()
            | LogicalFilter()
            | LogicalRank()
            | LogicalFetch()
            | LogicalAggregate()
            | LogicalProject()
            | LogicalOrder()
            | LogicalLimit()
        ):
            new = change(plan.input)
            return plan if new is plan.input else msgspec.structs.replace(plan, input=new)
        case LogicalScan() | LogicalArgument() | LogicalPattern() | LogicalEmpty():
            return plan
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            new_left, new_right = change(left), change(right)
            return plan if new_left is left and new_right is right else msgspec.structs.replace(plan, left=new_left, right=new_right)
        case LogicalAntiJoin(input_, inner, on):
            new_input, new_inner = change(input_), change(inner)
            return plan if new_input is input_ and new_inner is inner else LogicalAntiJoin(new_input, new_inner, on)
        case _:
            assert_never(plan)


def bound_by(plan: LogicalPlan) -> frozenset[int]:
    """The bindings of the rows of this plan."""
    match plan:
        case LogicalScan(binding=binding):
            return frozenset((binding,))
        case LogicalArgument(bindings):
            return frozenset(bindings)
        case LogicalPattern(scans, links, argument):
            edges = (link.edge_binding for link in links if link.edge_binding is not None)
            return frozenset((*argument, *(scan.binding for scan in scans), *edges))
        case LogicalExpand(input_, link, _, target):
            return bound_by(input_) | _edge_of(link) | {target.binding}
        case LogicalConnect(input_, link):
            return bound_by(input_) | _edge_of(link)
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return bound_by(left) | bound_by(right)
        case (
            LogicalAntiJoin()
            | LogicalFilter()
            | LogicalRank()
            | LogicalFetch()
            | LogicalAggregate()
            | LogicalProject()
            | LogicalOrder()
            | LogicalLimit()
        ):
            return bound_by(plan.input)
        case LogicalEmpty():
            return frozenset()
        case _:
            assert_never(plan)


def _edge_of(link: Link) -> frozenset[int]:
    return frozenset() if link.edge_binding is None else frozenset((link.edge_binding,))


def fields_of(predicate: Predicate) -> tuple[Field, ...]:
    """Every field a predicate reads."""
    match predicate:
        case Compare(left, _, right):
            return (*expr_fields(left), *expr_fields(right))
        case Includes(left, right) | Substring(left, right) | Prefix(left, right):
            return (*expr_fields(left), *expr_fields(right))
        case OneOf(field=field) | NotNull(field):
            return (field,)
        case Matches(text=text):
            return (text.field,)
        case Never():
            return ()
        case _:
            assert_never(predicate)


def expr_fields(expr: Expr) -> tuple[Field, ...]:
    match expr:
        case Field():
            return (expr,)
        case TextMatch(field=field):
            return (field,)
        case Constant() | Score():
            return ()
        case _:
            assert_never(expr)


def reads_bindings(predicate: Predicate) -> frozenset[int]:
    """The bindings that a predicate reads."""
    return frozenset(field.binding for field in fields_of(predicate))
