"""A read's tree -> `TypedRead`: match, then return, then order, then the rules on limits and grouping."""

from __future__ import annotations

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import INTEGERS, ListOf, VectorOf, scalar_of
from omnigraph.lang.expression_text import expression_text
from omnigraph.lang.query import AliasRef, Ordering, Projection, Read, Variable
from omnigraph.plan.check.clauses import block_of, names_bound_by
from omnigraph.plan.check.expressions import require_readable, typed
from omnigraph.plan.check.scope import Parameters, Scope
from omnigraph.plan.expr import I64
from omnigraph.plan.type_codes import Code, refused
from omnigraph.plan.typed import (
    AggregateCall,
    Bm25Score,
    Expr,
    NearestScore,
    OrderKey,
    Output,
    OutputKey,
    Parameter,
    RrfScore,
    TextSearch,
    TypedRead,
    UnsupportedOrder,
    has_aggregate,
    holds,
    nullable,
    parts_of,
    slots_of,
    type_of,
)
from omnigraph.plan.values import described


def typed_read(name: str, parameters: tuple[Parameter, ...], read: Read, catalog: Catalog, *, anonymous: bool) -> TypedRead:
    known = Parameters(parameters, variables=names_bound_by(read.match) if anonymous else None)
    scope = Scope(catalog, known)
    block = block_of(read.match, scope)
    outputs = tuple(_output(projection, scope) for projection in read.returns)
    _check_names(read, outputs)
    aggregates = any(has_aggregate(output.expr) for output in outputs)
    by_output = read.distinct or aggregates
    order = tuple(_order_key(ordering, position, outputs, scope, by_output=by_output) for position, ordering in enumerate(read.order))
    if order:
        _check_limits(read, order, outputs)
    if aggregates:
        _check_grouping(read, outputs)
    skip, limit = _count(read.skip, scope, "skip"), _count(read.limit, scope, "limit")
    return TypedRead(name, known.all(), tuple(scope.variables), block, outputs, order, limit, skip, read.distinct)


def _count(count: int | Variable | None, scope: Scope, clause: str) -> int | Parameter | None:
    if not isinstance(count, Variable):
        return count
    parameter = scope.parameter(count, I64)
    if parameter is None:
        raise refused(Code.COUNT, f"`{count}` is not a declared parameter", count, hint=f"`{clause}` takes an integer or a parameter")
    if scalar_of(parameter.type) not in INTEGERS:
        message = f"`{clause}` needs an integer, and parameter `{count}` is of type {described(parameter.type)}"
        raise refused(Code.COUNT, message, count, hint=f"declare it as `{count}: I64`")
    return parameter


# return


def _output(projection: Projection, scope: Scope) -> Output:
    tree = projection.value
    if isinstance(tree, AliasRef):
        raise refused(None, "unsupported projection expression", tree, hint=f"a property is written `$v.{tree.name}`")
    expr = typed(tree, scope)
    require_readable(expr, tree)
    if _searches(expr):
        raise refused(None, "unsupported projection expression", tree, hint="text searches are clauses of `match`")
    name = expression_text(tree) if projection.alias is None else projection.alias.text
    return Output(name, expr, type_of(expr), nullable(expr), projection.alias is not None)


def _searches(expr: Expr) -> bool:
    return holds(expr, TextSearch)


def _check_names(read: Read, outputs: tuple[Output, ...]) -> None:
    seen: set[str] = set()
    for projection, output in zip(read.returns, outputs, strict=True):
        if output.name in seen:
            message = f"two outputs are called `{output.name}`"
            raise refused(Code.OUTPUT_NAME, message, projection, hint="give one of them another name: `.. as other`")
        seen.add(output.name)


# order


def _order_key(ordering: Ordering, position: int, outputs: tuple[Output, ...], scope: Scope, *, by_output: bool) -> OrderKey:
    tree = ordering.key
    if isinstance(tree, AliasRef):
        return OrderKey(_named(tree, outputs), ordering.descending, ordering.nulls)
    expr = typed(tree, scope)
    require_readable(expr, tree)
    if isinstance(expr, NearestScore | Bm25Score | RrfScore):
        if position:
            return OrderKey(UnsupportedOrder("unsupported ordering expression", tree.span))
        # Best first, even after `asc`: a ranking has one direction.
        return OrderKey(expr, descending=not isinstance(expr, NearestScore))
    if _searches(expr) or scalar_of(type_of(expr)) is None or not (slots_of(expr) or has_aggregate(expr)):
        return OrderKey(UnsupportedOrder("unsupported ordering expression", tree.span))
    if by_output or has_aggregate(expr):
        return OrderKey(_projected(ordering, expr, outputs), ordering.descending, ordering.nulls)
    return OrderKey(expr, ordering.descending, ordering.nulls)


def _named(tree: AliasRef, outputs: tuple[Output, ...]) -> OutputKey | UnsupportedOrder:
    """The result column of that name."""
    for index, output in enumerate(outputs):
        if output.name == tree.name:
            if isinstance(output.type, ListOf | VectorOf):
                return UnsupportedOrder("unsupported ordering expression", tree.span)
            return OutputKey(index)
    return UnsupportedOrder(f"alias '{tree.name}' not found for ordering", tree.span)


def _projected(ordering: Ordering, expr: Expr, outputs: tuple[Output, ...]) -> OutputKey | UnsupportedOrder:
    """After grouping, and with `distinct`, only the result columns are left: a sort key must be one of them."""
    for index, output in enumerate(outputs):
        if output.expr == expr:
            return OutputKey(index)
    return UnsupportedOrder(f"alias '{expression_text(ordering.key)}' not found for ordering", ordering.key.span)


# limits and grouping


def _check_limits(read: Read, order: tuple[OrderKey, ...], outputs: tuple[Output, ...]) -> None:
    ranked = [_ranked(key, outputs) for key in order]
    for ordering, expr in zip(read.order, ranked, strict=True):
        if isinstance(expr, NearestScore):
            if read.limit is None:
                raise refused(Code.NEAREST_LIMIT, "nearest ordering requires a limit", ordering)
            others = [other for other in read.order if other is not ordering and isinstance(other.key, AliasRef)]
            if others:
                raise refused(Code.NEAREST_ALIAS, "nearest ordering cannot be combined with ordering by an alias", others[0])
        if isinstance(expr, RrfScore) and read.limit is None:
            raise refused(Code.FUSION, "rrf ordering requires a limit", ordering)


def _ranked(key: OrderKey, outputs: tuple[Output, ...]) -> Expr | None:
    """The expression of a sort key, with an alias resolved."""
    match key.key:
        case OutputKey(index):
            return outputs[index].expr
        case UnsupportedOrder():
            return None
        case expr:
            return expr


def _check_grouping(read: Read, outputs: tuple[Output, ...]) -> None:
    for projection, output in zip(read.returns, outputs, strict=True):
        if has_aggregate(output.expr):
            if _reads_row(output.expr):
                message = "beside an aggregate, in one expression, a variable would have many values"
                raise refused(Code.GROUPING, message, projection, hint="return the variable as a column of its own; it forms the groups")
        elif not slots_of(output.expr):
            message = "beside an aggregate only expressions with a variable can be returned; they form the groups"
            raise refused(Code.GROUPING, message, projection)


def _reads_row(expr: Expr) -> bool:
    """Whether an expression reads a variable outside of its aggregates."""
    if isinstance(expr, AggregateCall):
        return False
    parts = parts_of(expr)
    return any(_reads_row(part) for part in parts) if parts else bool(slots_of(expr))
