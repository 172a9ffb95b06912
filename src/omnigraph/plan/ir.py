"""Logical plans: a closed union of frozen operators over numbered bindings. Parameters and `now()` are values here.

A row binds each number to one entity, or to null after an optional block. An executor may keep rows as integers and read columns at
each `LogicalFetch`. Predicates are true, false or unknown, as in SQL; every tuple of predicates is a conjunction, and keeps the rows
for which it is true. The physical operators are in `ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from omnigraph.catalog.types import ValueType
from omnigraph.lang.query import AggregateFunction, ArithmeticOperator, Comparison, NullOrder
from omnigraph.plan.expr import Atom, Constant, Field, TypeRef
from omnigraph.plan.functions import Function
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
    parameter: str | None = None


class Score(_Struct, frozen=True):
    """The score that the rank operator of that slot computed for the row; null if the ranked entity was not a candidate."""

    slot: int


class Cell(_Struct, frozen=True):
    """The result column at `index` of the aggregate below."""

    index: int


class Arithmetic(_Struct, frozen=True):
    """Both sides have a type that the operator takes (`plan.functions`); null in, null out, and by zero null.

    A result of an integer type outside its range is the error `numeric_overflow`.
    """

    left: Expr
    operator: ArithmeticOperator
    right: Expr
    type: ValueType


class FunctionCall(_Struct, frozen=True):
    """A scalar function of the language. All but `coalesce` give null for a null argument."""

    function: Function
    arguments: tuple[Expr, ...]
    type: ValueType


Expr = Constant | Field | TextMatch | Score | Arithmetic | FunctionCall | Cell
"""A `Cell` stands only above an aggregate or a projection, and a field only below."""

# predicates


class Compare(_Struct, frozen=True):
    """Compares by value across numeric types; strings by their UTF-8 bytes, `false` before `true`."""

    left: Expr
    operator: Comparison
    right: Expr


class OneOf(_Struct, frozen=True):
    """The value equals one of `values`, which are of its own type. Unknown where it is null, unless `values` is empty."""

    value: Expr
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


class Suffix(_Struct, frozen=True):
    """`text` ends with `suffix`, case-sensitive."""

    text: Expr
    suffix: Expr


class Matches(_Struct, frozen=True):
    """The result of the text match is `wanted`."""

    text: TextMatch
    wanted: bool


class IsNull(_Struct, frozen=True):
    """Never unknown. The id of a binding is null where an optional block had no row."""

    value: Expr


class Decided(_Struct, frozen=True):
    """`truth` where the field is not null, else unknown: the rest of a comparison that every value passes, or none."""

    field: Field
    truth: bool


class Known(_Struct, frozen=True):
    """The same for every row; None is unknown."""

    truth: bool | None


class AllOf(_Struct, frozen=True):
    terms: tuple[Predicate, ...]


class AnyOf(_Struct, frozen=True):
    terms: tuple[Predicate, ...]


class Not(_Struct, frozen=True):
    term: Predicate


Predicate = Compare | OneOf | Includes | Substring | Prefix | Suffix | Matches | IsNull | Decided | Known | AllOf | AnyOf | Not

# rankings


class Nearest(_Struct, frozen=True):
    """By cosine distance to a vector, or to the embedding of a text; null and zero vectors are not candidates."""

    field: Field
    query: tuple[float, ...] | str
    parameter: str | None = None


class Bm25(_Struct, frozen=True):
    """By BM25 score; a text without any token of the query is not a candidate."""

    field: Field
    query: str
    parameter: str | None = None


class Fusion(_Struct, frozen=True):
    """Reciprocal ranks added: sum of 1 / (k + rank), ranks of distinct entities from 1, `depth` of them per arm."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: int
    depth: int | None


Ranking = Nearest | Bm25 | Fusion

# operators


class LogicalScan(_Struct, frozen=True):
    """Bind every entity of a node type, or of the types of an interface, for which `where` holds, and read `columns` of it."""

    binding: int
    type: TypeRef
    where: tuple[Predicate, ...] = ()
    columns: tuple[str, ...] = ()


class LogicalArgument(_Struct, frozen=True):
    """The distinct rows of the outer plan, restricted to these bindings. The root of the inner plan of a block."""

    bindings: tuple[int, ...]


class Link(_Struct, frozen=True):
    """One traversal: pairs (left, right), each once, such that a search of `low` to `high` hops from left emits right.

    A hop follows an edge of any of `edges`, which have the same ends. With `edge_binding` one row per stored edge instead; there is
    one edge type then, and `where` and `columns` are about that edge. With `path` a binding without an entity holds one shortest
    path of each pair, in the columns `nodes`, `edges` and `length`.
    """

    edges: tuple[TypeRef, ...]
    left: int
    right: int
    direction: Direction
    low: int = 1
    high: int = 1
    edge_binding: int | None = None
    where: tuple[Predicate, ...] = ()
    columns: tuple[str, ...] = ()
    path: int | None = None

    @property
    def edge(self) -> TypeRef:
        """The edge type of a link that follows only one."""
        (edge,) = self.edges
        return edge


class LogicalPattern(_Struct, frozen=True):
    """Scans and links joined in no order yet; `argument` are the bindings of the outer plan.

    With `input` the pattern goes on from those rows, whose bindings it may use.
    """

    scans: tuple[LogicalScan, ...]
    links: tuple[Link, ...]
    argument: tuple[int, ...] = ()
    input: LogicalPlan | None = None


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


class Inner(_Struct, frozen=True):
    """A block inside a match, started from the outer bindings `on`."""

    plan: LogicalPlan
    on: tuple[int, ...]


class LogicalSemiJoin(_Struct, frozen=True):
    """Keep rows for which at least one inner plan has a row, or, if not `wanted`, for which none has."""

    input: LogicalPlan
    inners: tuple[Inner, ...]
    wanted: bool


class LogicalOptional(_Struct, frozen=True):
    """Every row of the input with every row of the inner plan for it; `binds` are null where there is none."""

    input: LogicalPlan
    inner: Inner
    binds: tuple[int, ...]


class LogicalPaths(_Struct, frozen=True):
    """Read `columns` of the path of a link, for the pair of ends of every row: one of the shortest paths within the bounds.

    Of several shortest paths it is the one whose list of node ids, then of edge ids, is smallest.
    """

    input: LogicalPlan
    link: Link
    columns: tuple[str, ...] = ()


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
    """An aggregate over the rows of a group. `argument` is None for the number of rows; `distinct` leaves equal values out.

    `collect` gives a list without nulls, in the order of the rows; where nothing orders them, in that of the ids of `ties`.
    """

    function: AggregateFunction
    argument: Expr | None
    type: ValueType
    distinct: bool = False


class LogicalAggregate(_Struct, frozen=True):
    """One row per group. The outputs that are not calls form the group key. Without a key there is always one row.

    `ties` are the bindings whose ids order the rows of a group, if a call depends on their order.
    """

    input: LogicalPlan
    outputs: tuple[Expr | Call, ...]
    ties: tuple[int, ...] = ()


class LogicalProject(_Struct, frozen=True):
    """The outputs of every row; above an aggregate or another projection they are expressions over its cells."""

    input: LogicalPlan
    outputs: tuple[Expr, ...]


class LogicalDistinct(_Struct, frozen=True):
    """Result rows without repetitions: null equals null, NaN equals NaN, and -0.0 equals 0.0."""

    input: LogicalPlan


class SortKey(_Struct, frozen=True):
    """Nulls are smallest unless `nulls` says where they stand. Above an aggregate or a projection the key is a `Cell`."""

    key: Expr
    descending: bool = False
    nulls: NullOrder | None = None


class LogicalOrder(_Struct, frozen=True):
    """By `keys`, then by the ids of the bindings in `ties`."""

    input: LogicalPlan
    keys: tuple[SortKey, ...]
    ties: tuple[int, ...]


class LogicalLimit(_Struct, frozen=True):
    """The rows after the first `skip`, at most `count` of them; None is no limit."""

    input: LogicalPlan
    count: int | None
    skip: int = 0


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
    | LogicalSemiJoin
    | LogicalOptional
    | LogicalPaths
    | LogicalRank
    | LogicalFetch
    | LogicalAggregate
    | LogicalProject
    | LogicalDistinct
    | LogicalOrder
    | LogicalLimit
    | LogicalEmpty
)


class Binding(_Struct, frozen=True):
    """The variable behind a binding number; a path has no type."""

    name: str
    type: TypeRef | None


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
NEVER: Final = Known(truth=False)
UNKNOWN: Final = Known(truth=None)


_ONE_INPUT: Final = (
    LogicalExpand,
    LogicalConnect,
    LogicalFilter,
    LogicalPaths,
    LogicalRank,
    LogicalFetch,
    LogicalAggregate,
    LogicalProject,
    LogicalDistinct,
    LogicalOrder,
    LogicalLimit,
)


def map_inputs(plan: LogicalPlan, change: Callable[[LogicalPlan], LogicalPlan]) -> LogicalPlan:
    """The operator with `change` applied to its inputs. Returns the same object if no input changed."""
    if isinstance(plan, _ONE_INPUT):  # most operators, and every rule asks for each: one test of a tuple is faster than many patterns
        new = change(plan.input)
        return plan if new is plan.input else msgspec.structs.replace(plan, input=new)
    match plan:
        case LogicalPattern(input=input_) if input_ is not None:
            new = change(input_)
            return plan if new is input_ else msgspec.structs.replace(plan, input=new)
        case LogicalScan() | LogicalArgument() | LogicalPattern() | LogicalEmpty():
            return plan
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            new_left, new_right = change(left), change(right)
            return plan if new_left is left and new_right is right else msgspec.structs.replace(plan, left=new_left, right=new_right)
        case LogicalSemiJoin(input_, inners, wanted):
            new_input, new_inners = change(input_), tuple(_changed(inner, change) for inner in inners)
            same = new_input is input_ and all(new is old for new, old in zip(new_inners, inners, strict=True))
            return plan if same else LogicalSemiJoin(new_input, new_inners, wanted)
        case LogicalOptional(input_, inner, binds):
            new_input, new_inner = change(input_), _changed(inner, change)
            return plan if new_input is input_ and new_inner is inner else LogicalOptional(new_input, new_inner, binds)
        case _:
            assert_never(plan)


def _changed(inner: Inner, change: Callable[[LogicalPlan], LogicalPlan]) -> Inner:
    new = change(inner.plan)
    return inner if new is inner.plan else Inner(new, inner.on)


def bound_by(plan: LogicalPlan) -> frozenset[int]:
    """The bindings of the rows of this plan."""
    match plan:
        case LogicalScan(binding=binding):
            return frozenset((binding,))
        case LogicalArgument(bindings):
            return frozenset(bindings)
        case LogicalPattern(scans, links, argument, input_):
            before = frozenset[int]() if input_ is None else bound_by(input_)
            return before.union(argument, (scan.binding for scan in scans), *(_numbers(link.edge_binding, link.path) for link in links))
        case LogicalExpand(input_, link, _, target):
            return bound_by(input_).union((target.binding,), _numbers(link.edge_binding))
        case LogicalConnect(input_, link):
            return bound_by(input_).union(_numbers(link.edge_binding))
        case LogicalPaths(input_, link):
            return bound_by(input_).union(_numbers(link.path))
        case LogicalCrossProduct(left, right) | LogicalJoin(left, right):
            return bound_by(left) | bound_by(right)
        case LogicalOptional(input_, _, binds):
            return bound_by(input_).union(binds)
        case (
            LogicalSemiJoin()
            | LogicalFilter()
            | LogicalRank()
            | LogicalFetch()
            | LogicalAggregate()
            | LogicalProject()
            | LogicalDistinct()
            | LogicalOrder()
            | LogicalLimit()
        ):
            return bound_by(plan.input)
        case LogicalEmpty():
            return frozenset()
        case _:
            assert_never(plan)


def _numbers(*bindings: int | None) -> frozenset[int]:
    """The bindings of a link that it has."""
    return frozenset(binding for binding in bindings if binding is not None)


def fields_of(predicate: Predicate) -> tuple[Field, ...]:
    """Every field a predicate reads."""
    match predicate:
        case Compare(left, _, right):
            return (*expr_fields(left), *expr_fields(right))
        case Includes(left, right) | Substring(left, right) | Prefix(left, right) | Suffix(left, right):
            return (*expr_fields(left), *expr_fields(right))
        case OneOf(value=value) | IsNull(value):
            return expr_fields(value)
        case Decided(field):
            return (field,)
        case Matches(text=text):
            return (text.field,)
        case Known():
            return ()
        case AllOf(terms) | AnyOf(terms):
            return tuple(field for term in terms for field in fields_of(term))
        case Not(term):
            return fields_of(term)
        case _:
            assert_never(predicate)


def expr_fields(expr: Expr) -> tuple[Field, ...]:
    match expr:
        case Field():
            return (expr,)
        case TextMatch(field=field):
            return (field,)
        case Arithmetic(left=left, right=right):
            return (*expr_fields(left), *expr_fields(right))
        case FunctionCall(arguments=arguments):
            return tuple(field for argument in arguments for field in expr_fields(argument))
        case Constant() | Score() | Cell():
            return ()
        case _:
            assert_never(expr)


def output_fields(output: Expr | Call) -> tuple[Field, ...]:
    """Every field that an output of an aggregate reads."""
    if isinstance(output, Call):
        return () if output.argument is None else expr_fields(output.argument)
    return expr_fields(output)


def computes(predicate: Predicate) -> bool:
    """Whether evaluating a predicate may fail with an overflow."""
    return any(isinstance(expr, Arithmetic | FunctionCall) for expr in _exprs(predicate))


def _exprs(predicate: Predicate) -> tuple[Expr, ...]:
    """The expressions that a predicate compares."""
    match predicate:
        case Compare(left, _, right):
            return (left, right)
        case Includes(left, right) | Substring(left, right) | Prefix(left, right) | Suffix(left, right):
            return (left, right)
        case OneOf(value=value) | IsNull(value):
            return (value,)
        case Decided(field):
            return (field,)
        case AllOf(terms) | AnyOf(terms):
            return tuple(expr for term in terms for expr in _exprs(term))
        case Not(term):
            return _exprs(term)
        case Matches() | Known():
            return ()
        case _:
            assert_never(predicate)


def reads_bindings(predicate: Predicate) -> frozenset[int]:
    """The bindings that a predicate reads."""
    return frozenset(field.binding for field in fields_of(predicate))
