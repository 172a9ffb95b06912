"""A read's tree -> `TypedRead`: match, then return, then order, then the rules on limits and grouping."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import scalar_of
from omnigraph.errors import Span
from omnigraph.lang.query import AliasRef, Ordering, Projection, Read
from omnigraph.plan.check.clauses import block_of
from omnigraph.plan.check.expressions import require_readable, typed
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.type_codes import NOW_PARAMETER, Code, refused
from omnigraph.plan.typed import (
    AggregateCall,
    Bm25Score,
    Expr,
    NearestScore,
    NowCall,
    OrderKey,
    Output,
    OutputKey,
    Parameter,
    RrfScore,
    TextSearch,
    TypedRead,
    UnsupportedOrder,
    nullable,
    type_of,
)


def typed_read(name: str, parameters: tuple[Parameter, ...], read: Read, catalog: Catalog) -> TypedRead:
    scope = Scope(catalog, parameters)
    block = block_of(read.match, scope)
    outputs = tuple(_output(projection, scope) for projection in read.returns)
    aggregate = any(isinstance(output.expr, AggregateCall) for output in outputs)
    order = tuple(_order_key(ordering, position, outputs, scope, aggregate=aggregate) for position, ordering in enumerate(read.order))
    _check_limits(read, order, outputs)
    if aggregate:
        _check_grouping(read, outputs)
    return TypedRead(name, parameters, tuple(scope.variables), block, outputs, order, read.limit)


# return


def _output(projection: Projection, scope: Scope) -> Output:
    tree = projection.value
    if isinstance(tree, AliasRef):
        raise refused(None, "unsupported projection expression", tree, hint=f"a property is written `$v.{tree.name}`")
    expr = typed(tree, scope)
    require_readable(expr, tree)
    if isinstance(expr, TextSearch):
        raise refused(None, "unsupported projection expression", tree, hint="text searches are clauses of `match`")
    name = _column_name(expr, scope) if projection.alias is None else projection.alias.text
    return Output(name, expr, type_of(expr), nullable(expr), projection.alias is not None)


def _column_name(expr: Expr, scope: Scope) -> str:
    """The name of a column without an alias."""
    match expr:
        case Field(binding=slot, column=column):
            variable = scope.variables[slot].name
            return variable if expr.whole else f"{variable}.{column}"
        case Parameter(name=name):
            return name
        case Constant():
            return "literal"
        case NowCall():
            return NOW_PARAMETER
        case AggregateCall(argument=argument):
            return _column_name(argument, scope)
        case NearestScore():
            return "nearest"
        case Bm25Score():
            return "bm25"
        case RrfScore():
            return "rrf"
        case TextSearch(mode=mode):
            return mode.value
        case _:
            assert_never(expr)


# order


def _order_key(ordering: Ordering, position: int, outputs: tuple[Output, ...], scope: Scope, *, aggregate: bool) -> OrderKey:
    tree = ordering.key
    if isinstance(tree, AliasRef):
        return OrderKey(_named(tree, outputs), ordering.descending)
    expr = typed(tree, scope)
    require_readable(expr, tree)
    match expr:
        case Field() if scalar_of(expr.type) is not None and not expr.whole:
            return OrderKey(_projected(expr, tree.span, outputs, scope) if aggregate else expr, ordering.descending)
        case NearestScore() | Bm25Score() | RrfScore() if position == 0:
            # Best first, even after `asc`: a ranking has one direction.
            return OrderKey(expr, descending=not isinstance(expr, NearestScore))
        case _:
            return OrderKey(UnsupportedOrder("unsupported ordering expression", tree.span))


def _named(tree: AliasRef, outputs: tuple[Output, ...]) -> OutputKey | UnsupportedOrder:
    """The result column of that name; of two, the last, which is the one in a JSON row."""
    found = [index for index, output in enumerate(outputs) if output.name == tree.name]
    if not found:
        return UnsupportedOrder(f"alias '{tree.name}' not found for ordering", tree.span)
    if scalar_of(outputs[found[-1]].type) is None:
        return UnsupportedOrder("unsupported ordering expression", tree.span)
    return OutputKey(found[-1])


def _projected(field: Field, span: Span, outputs: tuple[Output, ...], scope: Scope) -> OutputKey | UnsupportedOrder:
    """After grouping only the result columns are left: `$v.p` must be one of them, under its own name."""
    for index, output in enumerate(outputs):
        if output.expr == field and not output.aliased:
            return OutputKey(index)
    return UnsupportedOrder(f"alias '{_column_name(field, scope)}' not found for ordering", span)


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
        if not isinstance(output.expr, AggregateCall | Field):
            message = "beside an aggregate only variables and properties can be returned; they form the groups"
            raise refused(Code.GROUPING, message, projection)
