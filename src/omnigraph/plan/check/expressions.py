"""Expressions of a read -> typed expressions, with the type errors of each kind of operand."""

from __future__ import annotations

from typing import assert_never

from omnigraph.catalog.types import INTEGERS, NUMBERS, ListOf, ValueType, VectorOf, scalar_of
from omnigraph.lang.grammar.expression import CALLS, NO_NULL
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Bm25,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    FunctionCall,
    Fuzzy,
    IntegerLiteral,
    ListLiteral,
    MatchText,
    Nearest,
    Negative,
    Now,
    PropertyRef,
    Rrf,
    Search,
    StringLiteral,
    Variable,
)
from omnigraph.lang.query import Expr as ExprTree
from omnigraph.lang.tree import Name, Scalar, Syntax
from omnigraph.plan.check.literals import constant
from omnigraph.plan.check.scope import Scope
from omnigraph.plan.expr import BLOB, F64, I64, ID, STRING, TYPE, U64, Constant, Field
from omnigraph.plan.functions import NAMES, OF_VARIABLES, Function, arithmetic_type, result_type, signature
from omnigraph.plan.type_codes import Code, nearest_name, refused
from omnigraph.plan.typed import (
    AggregateCall,
    Bm25Score,
    Expr,
    NearestScore,
    NowCall,
    Operand,
    Parameter,
    PathType,
    Ranking,
    RrfScore,
    TextMode,
    TextSearch,
    has_aggregate,
    type_of,
)
from omnigraph.plan.typed import Arithmetic as TypedArithmetic
from omnigraph.plan.typed import FunctionCall as TypedCall
from omnigraph.plan.values import described


def typed(tree: ExprTree, scope: Scope, expected: ValueType | None = None) -> Expr:
    """Any expression but the alias of an output. `expected` is the type of the place, for a parameter that is not declared."""
    match tree:
        case Variable():
            return _variable(tree, scope, expected)
        case PropertyRef():
            return scope.field(tree)
        case IntegerLiteral() | FloatLiteral() | StringLiteral() | BoolLiteral() | DateLiteral() | DateTimeLiteral() | ListLiteral():
            return constant(tree)
        case Now():
            return NowCall()
        case Search() | MatchText() | Fuzzy():
            return text_search(tree, scope)
        case Nearest() | Bm25() | Rrf():
            return ranking(tree, scope)
        case Aggregate():
            return _aggregate(tree, scope)
        case Arithmetic(left, operator, right):
            one, other = pair(left, right, scope, expected=expected)
            return _arithmetic(one, operator, other, tree)
        case Negative(inside):
            return _arithmetic(Constant(I64, 0), ArithmeticOperator.SUBTRACT, typed(inside, scope, expected), tree)
        case FunctionCall():
            return _function(tree, scope, expected)
        case AliasRef():
            return _bare_word(tree, scope)
        case _:
            assert_never(tree)


def _bare_word(tree: AliasRef, scope: Scope) -> Field:
    """A property of the row, in a change; in a read a bare word is no value."""
    if tree.name == "null" and (scope.row is None or scope.row.property(tree.name) is None):
        raise refused(None, "`null` is no value here", tree, hint=NO_NULL)
    if scope.row is None:
        raise refused(None, f"`{tree.name}` is no value here", tree, hint=f"a property is written `$v.{tree.name}`")
    if scope.row.property(tree.name) is None and tree.name not in ("id", "from", "to"):
        known = (property_.name for property_ in scope.row.properties)
        hint = nearest_name(tree.name, known) or f'a property of the row is a bare word, a text stands in quotes: `"{tree.name}"`'
        raise refused(Code.WRITE_PROPERTY, f"{scope.row.kind} type `{scope.row.name}` has no property `{tree.name}`", tree, hint=hint)
    return scope.own(Name(tree.name, span=tree.span))


def pair(left: ExprTree, right: ExprTree, scope: Scope, *, expected: ValueType | None = None) -> tuple[Expr, Expr]:
    """Two sides of an operator. An undeclared parameter on one side takes the type of the other."""
    if _is_open(left, scope):
        other = typed(right, scope, expected)
        return typed(left, scope, _value_type(other)), other
    one = typed(left, scope, expected)
    return one, typed(right, scope, _value_type(one))


def _is_open(tree: ExprTree, scope: Scope) -> bool:
    return isinstance(tree, Variable) and scope.parameters.is_open(tree.name)


def _value_type(expr: Expr) -> ValueType | None:
    """The type of an expression as a value; a node has none."""
    return None if is_entity(expr) else type_of(expr)


def is_entity(expr: Expr) -> bool:
    return isinstance(expr, Field) and expr.entity


def _variable(tree: Variable, scope: Scope, expected: ValueType | None) -> Parameter | Field:
    """A parameter shadows a match variable of the same name."""
    parameter = scope.parameter(tree, expected)
    if parameter is not None:
        return parameter
    found = scope.node(tree)
    if found is None:
        raise scope.unbound(tree)
    return scope.entity(found[0])


def any_entity(tree: Variable, scope: Scope) -> Field | None:
    """The node or edge that a variable is bound to; None for a parameter, a path and an unbound name."""
    slot = scope.slot(tree)
    if slot is None or scope.parameters.get(tree.name) is not None or isinstance(scope.variables[slot].type, PathType):
        return None
    return scope.entity(slot)


# arithmetic and functions


def _arithmetic(left: Expr, operator: ArithmeticOperator, right: Expr, tree: Arithmetic | Negative) -> TypedArithmetic:
    one, other = _value_type(left), _value_type(right)
    type_ = None if one is None or other is None else arithmetic_type(one, operator, other)
    if type_ is None:
        sides = tree.operand if isinstance(tree, Negative) else tree
        what = f"`-` does not apply to {what_is(right)}" if isinstance(tree, Negative) else ""
        raise refused(Code.OPERANDS, what or f"`{operator}` does not apply to {what_is(left)} and {what_is(right)}", sides)
    return TypedArithmetic(left, operator, right, type_)


def _function(tree: FunctionCall, scope: Scope, expected: ValueType | None) -> Expr:
    name = tree.name.text
    if name in OF_VARIABLES or (name == Function.LENGTH and _path_slot(tree, scope) is not None):
        return _of_variable(tree, scope)
    if name not in NAMES:
        hint = nearest_name(name, (*NAMES, *CALLS)) or f"the functions are {', '.join(NAMES)}"
        raise refused(Code.FUNCTION, f"unknown function `{name}`", tree.name, hint=hint)
    function = Function(name)
    arguments: list[Expr] = []
    for position, argument in enumerate(tree.arguments):
        place = _argument_type(function, position, arguments, expected)
        arguments.append(typed(argument, scope, place))
    entities = [at for at, argument in enumerate(arguments) if is_entity(argument)]
    type_ = None if entities else result_type(function, [type_of(argument) for argument in arguments])
    if type_ is None:
        given = ", ".join(what_is(argument) for argument in arguments) or "nothing"
        raise refused(Code.OPERANDS, f"`{name}` does not apply to {given}", tree, hint=f"it is called as `{signature(function)}`")
    return TypedCall(function, tuple(arguments), type_)


def _argument_type(function: Function, position: int, before: list[Expr], expected: ValueType | None) -> ValueType | None:
    """The type of an argument, for a parameter that is not declared."""
    match function, position:
        case ((Function.LOWER | Function.UPPER | Function.TRIM | Function.LENGTH | Function.SUBSTRING), 0):
            return STRING
        case ((Function.SUBSTRING | Function.ROUND), _) if position:
            return I64
        case Function.COALESCE, _:
            return expected if not before else _value_type(before[0])
        case ((Function.ABS | Function.ROUND | Function.FLOOR | Function.CEIL), _):
            return expected
        case _:
            return None


def _path_slot(tree: FunctionCall, scope: Scope) -> int | None:
    if len(tree.arguments) != 1 or not isinstance(tree.arguments[0], Variable):
        return None
    slot = scope.slot(tree.arguments[0])
    return slot if slot is not None and isinstance(scope.variables[slot].type, PathType) else None


def _of_variable(tree: FunctionCall, scope: Scope) -> Field:
    """`id($v)` and `type($v)` of an entity; `nodes($w)`, `edges($w)` and `length($w)` of a path."""
    name = tree.name.text
    (argument, *more) = tree.arguments or (None,)
    if name in ("nodes", "edges", "length"):
        slot = _path_slot(tree, scope)
        if slot is None:
            raise refused(Code.OPERANDS, f"`{name}` takes a path", tree, hint="bind one: `path $w = $a knows{1,5} $b`")
        optional = scope.variables[slot].optional
        return Field(slot, name, I64 if name == "length" else ListOf(Scalar.STRING), optional)
    found = any_entity(argument, scope) if isinstance(argument, Variable) and not more else None
    if found is None:
        raise refused(Code.OPERANDS, f"`{name}` takes a variable that is bound to a node or an edge", tree)
    return Field(found.binding, TYPE if name == "type" else ID, STRING, found.nullable)


def path_field(tree: Variable, scope: Scope) -> Field | None:
    """A path variable as a value that is null where the path is: its length."""
    slot = scope.slot(tree)
    if slot is None or not isinstance(scope.variables[slot].type, PathType):
        return None
    return Field(slot, "length", I64, scope.variables[slot].optional)


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
    edits = operand(typed(tree, scope, I64), tree, Code.SEARCH, "max_edits of fuzzy")
    if scalar_of(type_of(edits)) not in INTEGERS or (isinstance(edits, Constant) and isinstance(edits.value, int) and edits.value < 0):
        raise refused(Code.SEARCH, "max_edits of fuzzy must be an integer, 0 or more", tree)
    return edits


def _text_and_query(field_tree: ExprTree, query_tree: ExprTree, scope: Scope, code: Code, function: str) -> tuple[Field, Operand]:
    """The two arguments that all text functions share: a String property of a node, and a String."""
    field = typed(field_tree, scope)
    if not isinstance(field, Field) or field.entity or scalar_of(field.type) is not Scalar.STRING:
        raise refused(code, f"{function} field must be a String property, got {what_is(field)}", field_tree)
    if scope.of_edge(field):
        raise refused(Code.EDGE_VARIABLE, f"{function} works on nodes, and this is a property of an edge", field_tree)
    query = typed(query_tree, scope, STRING)
    if is_entity(query) or scalar_of(type_of(query)) is not Scalar.STRING:
        raise refused(code, f"{function} query must be a String, got {what_is(query)}", query_tree)
    return field, operand(query, query_tree, code, f"{function} query")


def what_is(expr: Expr) -> str:
    return "a node" if is_entity(expr) else described(type_of(expr))


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
    query = typed(tree.query, scope, field.type)
    _check_vector_query(query, field.type, tree.query)
    return NearestScore(field, operand(query, tree.query, Code.HOPS_OR_NEAREST, "nearest query"))


def _check_vector_query(query: Expr, wanted: VectorOf, at: Syntax) -> None:
    type_ = type_of(query)
    match type_:
        case VectorOf(dimension):
            length = dimension
        case ListOf(item) if item in NUMBERS and isinstance(query, Constant) and isinstance(query.value, tuple):
            length = len(query.value)
        case _ if scalar_of(type_) is Scalar.STRING and not is_entity(query):
            return
        case _:
            raise refused(Code.HOPS_OR_NEAREST, f"nearest query must be a vector or a String, got {what_is(query)}", at)
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
    k = operand(typed(tree.k, scope, I64), tree.k, Code.FUSION, "k of rrf")
    if scalar_of(type_of(k)) not in INTEGERS:
        raise refused(Code.FUSION, f"k of rrf must be an integer, got {what_is(k)}", tree.k)
    if isinstance(k, Constant) and isinstance(k.value, int) and k.value <= 0:
        raise refused(Code.FUSION, "k of rrf must be greater than 0", tree.k)
    return RrfScore(first, second, k)


# aggregates


def _aggregate(tree: Aggregate, scope: Scope) -> AggregateCall:
    function = tree.function
    if tree.argument is None:
        return AggregateCall(function, None, I64)
    argument = typed(tree.argument, scope)
    if has_aggregate(argument) or isinstance(argument, TextSearch):
        raise refused(Code.AGGREGATE_ARGUMENT, f"{function} cannot take {_call_name(argument)}", tree.argument)
    require_readable(argument, tree.argument)
    return AggregateCall(function, argument, _aggregate_type(function, argument, tree.argument), tree.distinct)


def _call_name(call: Expr) -> str:
    match call:
        case AggregateCall(function=function):
            return f"the aggregate {function}"
        case TextSearch(mode=mode):
            return f"the text search {mode}"
        case _:
            return "an expression with an aggregate"


def _aggregate_type(function: AggregateFunction, argument: Expr, at: Syntax) -> ValueType:
    type_ = type_of(argument)
    scalar = None if is_entity(argument) else scalar_of(type_)
    match function:
        case AggregateFunction.COUNT:
            return I64
        case AggregateFunction.SUM | AggregateFunction.AVG:
            if scalar not in NUMBERS:
                raise refused(Code.AGGREGATE_ARGUMENT, f"{function} needs a number, got {what_is(argument)}", at)
            if function is AggregateFunction.AVG or scalar not in INTEGERS:
                return F64
            return U64 if scalar is Scalar.U64 else I64
        case AggregateFunction.MIN | AggregateFunction.MAX:
            if scalar is None:
                raise refused(Code.AGGREGATE_ARGUMENT, f"{function} needs a value that has an order, got {what_is(argument)}", at)
            return type_
        case AggregateFunction.COLLECT:
            if is_entity(argument):
                return ListOf(Scalar.STRING)
            if scalar is None:
                raise refused(Code.AGGREGATE_ARGUMENT, f"collect needs single values, got {what_is(argument)}", at)
            return ListOf(scalar)
        case _:
            assert_never(function)


def require_readable(expr: Expr, at: Syntax) -> None:
    """A Blob has an API of its own and cannot be returned by a read."""
    if is_blob(type_of(expr)):
        what = f"property `{expr.column}`" if isinstance(expr, Field) else "parameter"
        raise refused(
            Code.BLOB, f"Blob {what} cannot be read by a query", at, hint="blobs are read one at a time, by type, id and property"
        )


def is_blob(type_: ValueType) -> bool:
    return type_ == BLOB
