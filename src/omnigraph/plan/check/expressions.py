"""Expressions of a read -> typed expressions, with the type errors of each kind of operand."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.types import INTEGERS, NUMBERS, ListOf, Plain, ValueType, VectorOf, scalar_of
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Bm25,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    MatchText,
    Nearest,
    Now,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Variable,
)
from omnigraph.lang.query import Expr as ExprTree
from omnigraph.lang.tree import Scalar, Syntax
from omnigraph.plan.check.literals import constant
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import F64, I64, Constant, Field, whole
from omnigraph.plan.type_codes import Code, refused
from omnigraph.plan.typed import (
    AggregateCall,
    Bm25Score,
    Expr,
    NearestScore,
    NowCall,
    Operand,
    Parameter,
    Ranking,
    RrfScore,
    TextMode,
    TextSearch,
    type_of,
)
from omnigraph.plan.values import described


def typed(tree: ExprTree, scope: Scope) -> Expr:
    """Any expression but an alias, which only the caller can resolve."""
    match tree:
        case IntegerLiteral() | FloatLiteral() | StringLiteral() | BoolLiteral() | DateLiteral() | DateTimeLiteral() | ListLiteral():
            return constant(tree)
        case Variable():
            return _variable(tree, scope)
        case Now():
            return NowCall()
        case PropertyRef():
            return scope.field(tree)
        case Search() | MatchText() | Fuzzy():
            return text_search(tree, scope)
        case Nearest() | Bm25() | Rrf():
            return ranking(tree, scope)
        case Aggregate():
            return _aggregate(tree, scope)
        case AliasRef():
            raise refused(None, f"`{tree.name}` is no value here", tree, hint=f"a property is written `$v.{tree.name}`")
        case _:
            assert_never(tree)


def _variable(tree: Variable, scope: Scope) -> Parameter | Field:
    """A parameter shadows a match variable of the same name."""
    parameter = scope.parameters.get(tree.name)
    if parameter is not None:
        return parameter
    found = scope.node(tree)
    if found is None:
        raise scope.unbound(tree)
    return whole(found[0])


def operand(expr: Expr, at: Syntax, code: Code, what: str) -> Operand:
    """A value that is known before rows are read. Only such a value can be a query text, a vector or a count."""
    if isinstance(expr, Constant | Parameter | NowCall):
        return expr
    raise refused(code, f"{what} must be a literal or a parameter", at)


# text search


def text_search(tree: Search | MatchText | Fuzzy, scope: Scope) -> TextSearch:
    match tree:
        case Search():
            return TextSearch(TextMode.SEARCH, *_text_and_query(tree.field, tree.query, scope, Code.SEARCH, "search"))
        case MatchText():
            return TextSearch(TextMode.MATCH_TEXT, *_text_and_query(tree.field, tree.query, scope, Code.TEXT_RANK, "match_text"))
        case Fuzzy():
            field, query = _text_and_query(tree.field, tree.query, scope, Code.SEARCH, "fuzzy")
            return TextSearch(TextMode.FUZZY, field, query, _max_edits(tree.max_edits, scope))
        case _:
            assert_never(tree)


def _max_edits(tree: ExprTree | None, scope: Scope) -> Operand | None:
    if tree is None:
        return None
    edits = operand(typed(tree, scope), tree, Code.SEARCH, "max_edits of fuzzy")
    if scalar_of(type_of(edits)) not in INTEGERS or (isinstance(edits, Constant) and isinstance(edits.value, int) and edits.value < 0):
        raise refused(Code.SEARCH, "max_edits of fuzzy must be an integer, 0 or more", tree)
    return edits


def _text_and_query(field_tree: ExprTree, query_tree: ExprTree, scope: Scope, code: Code, function: str) -> tuple[Field, Operand]:
    """The two arguments that all text functions share: a String property of a node, and a String."""
    field = typed(field_tree, scope)
    if not isinstance(field, Field) or field.whole or scalar_of(field.type) is not Scalar.STRING:
        raise refused(code, f"{function} field must be a String property, got {_described(field)}", field_tree)
    if scope.of_edge(field):
        raise refused(Code.EDGE_VARIABLE, f"{function} works on nodes, and this is a property of an edge", field_tree)
    query = typed(query_tree, scope)
    if (isinstance(query, Field) and query.whole) or scalar_of(type_of(query)) is not Scalar.STRING:
        raise refused(code, f"{function} query must be a String, got {_described(query)}", query_tree)
    return field, operand(query, query_tree, code, f"{function} query")


def _described(expr: Expr) -> str:
    return "a node" if isinstance(expr, Field) and expr.whole else described(type_of(expr))


# rankings


def ranking(tree: Nearest | Bm25 | Rrf, scope: Scope) -> Ranking:
    scope.step()
    match tree:
        case Nearest():
            return _nearest(tree, scope)
        case Bm25():
            return _bm25(tree, scope)
        case Rrf():
            return _rrf(tree, scope)
        case _:
            assert_never(tree)


def _nearest(tree: Nearest, scope: Scope) -> NearestScore:
    field = scope.field(tree.field, code=Code.HOPS_OR_NEAREST)
    if scope.of_edge(field):
        raise refused(Code.EDGE_VARIABLE, "nearest works on nodes, and this is a property of an edge", tree.field)
    if not isinstance(field.type, VectorOf):
        raise refused(Code.HOPS_OR_NEAREST, f"nearest needs a vector property, got {described(field.type)}", tree.field)
    query = typed(tree.query, scope)
    _check_vector_query(query, field.type, tree.query)
    return NearestScore(field, operand(query, tree.query, Code.HOPS_OR_NEAREST, "nearest query"))


def _check_vector_query(query: Expr, wanted: VectorOf, at: Syntax) -> None:
    type_ = type_of(query)
    match type_:
        case VectorOf(dimension):
            length = dimension
        case ListOf(item) if item in NUMBERS and isinstance(query, Constant) and isinstance(query.value, tuple):
            length = len(query.value)
        case _ if scalar_of(type_) is Scalar.STRING and not (isinstance(query, Field) and query.whole):
            return
        case _:
            raise refused(Code.HOPS_OR_NEAREST, f"nearest query must be a vector or a String, got {_described(query)}", at)
    if length != wanted.dimension:
        raise refused(
            Code.HOPS_OR_NEAREST, f"vector dimension mismatch: property has {wanted.dimension} dimensions, the query {length}", at
        )


def _bm25(tree: Bm25, scope: Scope) -> Bm25Score:
    return Bm25Score(*_text_and_query(tree.field, tree.query, scope, Code.TEXT_RANK, "bm25"))


def _rrf(tree: Rrf, scope: Scope) -> RrfScore:
    first = _nearest(tree.first, scope) if isinstance(tree.first, Nearest) else _bm25(tree.first, scope)
    second = _nearest(tree.second, scope) if isinstance(tree.second, Nearest) else _bm25(tree.second, scope)
    if first.field.binding != second.field.binding:
        raise refused(Code.FUSION, "both rankings of rrf must rank the same variable", tree.second)
    if tree.k is None:
        return RrfScore(first, second)
    k = operand(typed(tree.k, scope), tree.k, Code.FUSION, "k of rrf")
    if scalar_of(type_of(k)) not in INTEGERS:
        raise refused(Code.FUSION, f"k of rrf must be an integer, got {_described(k)}", tree.k)
    if isinstance(k, Constant) and isinstance(k.value, int) and k.value <= 0:
        raise refused(Code.FUSION, "k of rrf must be greater than 0", tree.k)
    return RrfScore(first, second, k)


# aggregates


def _aggregate(tree: Aggregate, scope: Scope) -> AggregateCall:
    argument = typed(tree.argument, scope)
    function = tree.function
    if isinstance(argument, AggregateCall | TextSearch):
        raise refused(Code.AGGREGATE_ARGUMENT, f"{function} cannot take {_call_name(argument)}", tree.argument)
    require_readable(argument, tree.argument)
    type_ = type_of(argument)
    node = isinstance(argument, Field) and argument.whole
    scalar = None if node else scalar_of(type_)
    match function:
        case AggregateFunction.COUNT:
            return AggregateCall(function, argument, I64)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            if scalar not in NUMBERS:
                raise refused(Code.AGGREGATE_ARGUMENT, f"{function} needs a number, got {_described(argument)}", tree.argument)
            return AggregateCall(function, argument, F64)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            if scalar not in NUMBERS and scalar is not Scalar.STRING:
                raise refused(Code.AGGREGATE_ARGUMENT, f"{function} needs a number or a String, got {_described(argument)}", tree.argument)
            return AggregateCall(function, argument, type_)
        case _:
            assert_never(function)


def _call_name(call: AggregateCall | TextSearch) -> str:
    return f"the aggregate {call.function}" if isinstance(call, AggregateCall) else f"the text search {call.mode}"


def require_readable(expr: Expr, at: Syntax) -> None:
    """A Blob has an API of its own and cannot be returned by a read."""
    if is_blob(type_of(expr)):
        what = f"property `{expr.column}`" if isinstance(expr, Field) else "parameter"
        raise refused(
            Code.BLOB, f"Blob {what} cannot be read by a query", at, hint="blobs are read one at a time, by type, id and property"
        )


def is_blob(type_: ValueType) -> bool:
    return type_ == Plain(Scalar.BLOB)
