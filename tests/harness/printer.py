"""Trees -> canonical text: for any tree that a parser made, parsing the text gives an equal tree again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Final, assert_never

from omnigraph.lang.query import (
    Aggregate,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Assignment,
    Binding,
    Bm25,
    BoolLiteral,
    Change,
    Clause,
    Condition,
    Conjunction,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    DeleteBound,
    Disjunction,
    Either,
    Exists,
    Expr,
    Filter,
    FloatLiteral,
    FunctionCall,
    Fuzzy,
    Insert,
    IntegerLiteral,
    Inversion,
    ListLiteral,
    ListTest,
    Literal,
    MatchedChanges,
    MatchText,
    Mutation,
    Nearest,
    Negation,
    Negative,
    Now,
    NullTest,
    Optional,
    Ordering,
    Path,
    Projection,
    PropertyRef,
    Query,
    QueryFile,
    Read,
    Rrf,
    Search,
    Statement,
    StringLiteral,
    Traversal,
    Truth,
    Update,
    UpdateBound,
    Variable,
)
from omnigraph.lang.schema import (
    Annotation,
    Argument,
    Cardinality,
    Check,
    Constraint,
    Declaration,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Schema,
    Unique,
)
from omnigraph.lang.tree import EnumType, ListType, PropertyShape, ScalarType, VectorType

LINE_WIDTH: Final = 100
"""A block that would pass this column is written one item to a line."""

_INDENT: Final = "  "


def print_schema(schema: Schema) -> str:
    """The schema in canonical layout; in each body properties come before constraints."""
    return "\n".join(_declaration(declaration) for declaration in schema.declarations)


def print_queries(file: QueryFile) -> str:
    """The queries in canonical layout."""
    return "\n".join(_query(query) for query in file.queries)


def print_expression(expr: Expr) -> str:
    """An expression as it is written in one line."""
    return _expression(expr)


# schemas


def _declaration(declaration: Declaration) -> str:
    match declaration:
        case InterfaceType(name, properties):
            return f"interface {name} {_body(properties, ())}\n"
        case NodeType(name, annotations, implements, properties, constraints):
            parents = f" implements {', '.join(map(str, implements))}" if implements else ""
            return f"node {name}{_annotations(annotations)}{parents} {_body(properties, constraints)}\n"
        case EdgeType(name, source, target, cardinality, annotations, properties, constraints):
            body = f" {_body(properties, constraints)}" if properties or constraints else ""
            return f"edge {name}: {source} -> {target}{_cardinality(cardinality)}{_annotations(annotations)}{body}\n"
        case _:
            assert_never(declaration)


def _cardinality(cardinality: Cardinality | None) -> str:
    return "" if cardinality is None else f" @card({cardinality.low}..{_open_end(cardinality.high)})"


def _body(properties: Iterable[Property], constraints: Iterable[Constraint]) -> str:
    lines = [*map(_property, properties), *map(_constraint, constraints)]
    return "\n".join(["{", *(_INDENT + line for line in lines), "}"]) if lines else "{}"


def _property(declared: Property) -> str:
    return f"{declared.name}: {_shape(declared.shape)}{'?' if declared.nullable else ''}{_annotations(declared.annotations)}"


def _shape(shape: PropertyShape) -> str:
    match shape:
        case ScalarType(scalar):
            return scalar.value
        case ListType(item):
            return f"[{item.value}]"
        case VectorType(dimension):
            return f"Vector({dimension})"
        case EnumType(values):
            return f"enum({', '.join(values)})"
        case _:
            assert_never(shape)


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case Key(columns):
            return f"@key({', '.join(map(str, columns))})"
        case Unique(columns):
            return f"@unique({', '.join(map(str, columns))})"
        case Index(columns):
            return f"@index({', '.join(map(str, columns))})"
        case Range(name, low, high):
            return f"@range({name}, {_open_end(low)}..{_open_end(high)})"
        case Check(name, pattern):
            return f"@check({name}, {_string(pattern)})"
        case _:
            assert_never(constraint)


def _annotations(annotations: Iterable[Annotation]) -> str:
    return "".join(f" {_annotation(annotation)}" for annotation in annotations)


def _annotation(annotation: Annotation) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    options = [f"{option.key}={_argument(option.value)}" for option in annotation.options]
    return f"@{annotation.name}({', '.join([_argument(annotation.value), *options])})"


def _argument(argument: Argument) -> str:
    return _string(argument.text) if argument.quoted else argument.text


# queries


def _query(query: Query) -> str:
    if query.anonymous:
        return "\n".join([*_query_body(query.body, 0), ""])
    parameters = ", ".join(f"${each.name}: {_shape(each.shape)}{'?' if each.nullable else ''}" for each in query.parameters)
    lines = [f"query {query.name}({parameters}){_documentation(query)} {{", *_query_body(query.body, 1), "}", ""]
    return "\n".join(lines)


def _documentation(query: Query) -> str:
    description = "" if query.description is None else f" @description({_string(query.description)})"
    instruction = "" if query.instruction is None else f" @instruction({_string(query.instruction)})"
    return description + instruction


def _query_body(body: Read | Mutation, depth: int) -> list[str]:
    if isinstance(body, Mutation):
        return [line for statement in body.statements for line in _statement(statement, depth)]
    lines = _inner("match", body.match, depth)
    lines += _block("return distinct " if body.distinct else "return ", [_projection(projection) for projection in body.returns], depth)
    if body.order:
        lines += _block("order ", [_ordering(ordering) for ordering in body.order], depth)
    for word, count in (("skip", body.skip), ("limit", body.limit)):
        if count is not None:
            lines.append(f"{_INDENT * depth}{word} {count}")
    return lines


def _block(opening: str, items: Sequence[str], depth: int, closing: str = "") -> list[str]:
    """Items in braces: on one line if they fit."""
    indent = _INDENT * depth
    line = f"{indent}{opening}{{ {', '.join(items)} }}{closing}"
    if len(line) <= LINE_WIDTH:
        return [line]
    return [
        f"{indent}{opening}{{",
        *(f"{indent}{_INDENT}{item}," for item in items[:-1]),
        f"{indent}{_INDENT}{items[-1]}",
        f"{indent}}}{closing}",
    ]


def _inner(opening: str, clauses: Iterable[Clause], depth: int) -> list[str]:
    """A block of clauses, one to a line."""
    return [f"{_INDENT * depth}{opening} {{", *_clauses(clauses, depth + 1), f"{_INDENT * depth}}}"]


def _clauses(clauses: Iterable[Clause], depth: int) -> list[str]:
    return [line for clause in clauses for line in _clause(clause, depth)]


def _clause(clause: Clause, depth: int) -> list[str]:
    match clause:
        case Negation(clauses):
            return _inner("not", clauses, depth)
        case Exists(clauses):
            return _inner("exists", clauses, depth)
        case Optional(clauses):
            return _inner("optional", clauses, depth)
        case Either(blocks):
            return [line for at, block in enumerate(blocks) for line in _inner("or" if at else "either", block, depth)]
        case Binding() | Traversal() | Path():
            return [_INDENT * depth + _pattern(clause)]
        case _:
            return [_INDENT * depth + _condition_clause(clause)]


def _pattern(clause: Binding | Traversal | Path) -> str:
    match clause:
        case Binding(bound, type_name, matches):
            inside = ", ".join(f"{match.property}: {_expression(match.value)}" for match in matches)
            return f"{bound}: {type_name} {{ {inside} }}" if matches else f"{bound}: {type_name}"
        case Traversal():
            return _traversal(clause)
        case Path(bound, traversal):
            return f"path {bound} = {_traversal(traversal)}"
        case _:
            assert_never(clause)


def _traversal(traversal: Traversal) -> str:
    edges = "|".join(map(str, traversal.edges))
    edge = f"<{edges}>" if traversal.undirected else edges
    bound = f"{traversal.edge_variable}:" if traversal.edge_variable is not None else ""
    hops = f"{{{traversal.hops.low},{_open_end(traversal.hops.high)}}}" if traversal.hops is not None else ""
    return f"{traversal.left} {bound}{edge}{hops} {traversal.right}"


def _projection(projection: Projection) -> str:
    return _expression(projection.value) + (f" as {projection.alias}" if projection.alias is not None else "")


def _ordering(ordering: Ordering) -> str:
    nulls = "" if ordering.nulls is None else f" nulls {ordering.nulls.value}"
    return _expression(ordering.key) + (" desc" if ordering.descending else "") + nulls


def _statement(statement: Statement, depth: int) -> list[str]:
    if isinstance(statement, MatchedChanges):
        return [*_inner("match", statement.match, depth), *(line for change in statement.changes for line in _change(change, depth))]
    return _change(statement, depth)


def _change(change: Change, depth: int) -> list[str]:
    match change:
        case Insert(type_name, assignments, insertion):
            return _block(f"{insertion.value} {type_name} ", _assignments(assignments), depth)
        case Update(type_name, assignments, where):
            return _block(f"update {type_name} set ", _assignments(assignments), depth, f" where {_condition(where)}")
        case UpdateBound(variable, assignments):
            return _block(f"update {variable} set ", _assignments(assignments), depth)
        case Delete(type_name, where):
            return [f"{_INDENT * depth}delete {type_name} where {_condition(where)}"]
        case DeleteBound(variables):
            return [f"{_INDENT * depth}delete {', '.join(map(str, variables))}"]
        case _:
            assert_never(change)


def _assignments(assignments: Iterable[Assignment]) -> list[str]:
    return [f"{assignment.property}: {_expression(assignment.value)}" for assignment in assignments]


# conditions


def _condition_clause(condition: Condition) -> str:
    """A condition among clauses. In parentheses where the clause before it would swallow its beginning, or a traversal begin."""
    text = _condition(condition)
    return f"({text})" if text.startswith("-") or _LIKE_A_TRAVERSAL.match(text) is not None else text


_LIKE_A_TRAVERSAL: Final = re.compile(r"\$\w+(?: [a-z]|$)")


def _condition(condition: Condition) -> str:
    match condition:
        case Filter(left, operator, right):
            return f"{_expression(left)} {operator.value} {_last(right)}"
        case ListTest(item, options, negated):
            return f"{_expression(item)} {'not in' if negated else 'in'} {_expression(options)}"
        case NullTest(value, negated):
            return f"{_expression(value)} {'is not null' if negated else 'is null'}"
        case Truth(value):
            return _last(value)
        case Search() | Fuzzy() | MatchText():
            return _expression(condition)
        case Conjunction(terms):
            return " and ".join(_term(term, Conjunction | Disjunction) for term in terms)
        case Disjunction(terms):
            return " or ".join(_term(term, Disjunction) for term in terms)
        case Inversion(term):
            return f"not ({_condition(term)})"
        case _:
            assert_never(condition)


def _term(term: Condition, looser: type | UnionType) -> str:
    return f"({_condition(term)})" if isinstance(term, looser) else _condition(term)


def _last(expr: Expr) -> str:
    """An expression that a parenthesis may follow, which would make a call of a bare word at its end."""
    text = _expression(expr)
    return f"({text})" if _ends_in_a_word(expr) else text


def _ends_in_a_word(expr: Expr) -> bool:
    match expr:
        case AliasRef():
            return True
        case Negative(operand):
            return _ends_in_a_word(operand)
        case Arithmetic(right=right):
            return _ends_in_a_word(right)
        case _:
            return False


# expressions

_PRODUCTS: Final = (ArithmeticOperator.MULTIPLY, ArithmeticOperator.DIVIDE, ArithmeticOperator.REMAINDER)


def _expression(expr: Expr) -> str:
    match expr:
        case Variable():
            return str(expr)
        case PropertyRef(bound, name):
            return f"{bound}.{name}"
        case AliasRef(name):
            return name
        case Now():
            return "now()"
        case Nearest(field, query):
            return _call("nearest", field, query)
        case Bm25(field, query):
            return _call("bm25", field, query)
        case Rrf(first, second, k):
            return _call("rrf", first, second, k)
        case Search(field, query):
            return _call("search", field, query)
        case Fuzzy(field, query, max_edits):
            return _call("fuzzy", field, query, max_edits)
        case MatchText(field, query):
            return _call("match_text", field, query)
        case Aggregate():
            return _aggregate(expr)
        case FunctionCall(name, arguments):
            return _call(name.text, *arguments)
        case Negative(IntegerLiteral() | FloatLiteral() | Arithmetic() as operand):
            return f"-({_expression(operand)})"
        case Negative(operand):
            return f"-{_expression(operand)}"
        case Arithmetic(left, operator, right):
            return f"{_operand(left, operator, left=True)} {operator.value} {_operand(right, operator, left=False)}"
        case _:
            return _literal(expr)


def _operand(operand: Expr, operator: ArithmeticOperator, *, left: bool) -> str:
    """A sum inside a product, and anything that would be read from the left otherwise, is in parentheses."""
    if not isinstance(operand, Arithmetic):
        return _expression(operand)
    closer = operand.operator in _PRODUCTS and operator not in _PRODUCTS
    same = (operand.operator in _PRODUCTS) == (operator in _PRODUCTS)
    return _expression(operand) if closer or (left and same) else f"({_expression(operand)})"


def _aggregate(aggregate: Aggregate) -> str:
    if aggregate.argument is None:
        return f"{aggregate.function.value}(*)"
    argument = _expression(aggregate.argument)
    if aggregate.distinct:
        return f"{aggregate.function.value}(distinct {argument})"
    # The word is a name like any other, and at the beginning must not be read as the keyword.
    shown = _DISTINCT_NAME.sub("(distinct)", argument)
    return f"{aggregate.function.value}({shown})"


_DISTINCT_NAME: Final = re.compile(r"^distinct\b(?!\()")


def _call(function: str, *arguments: Expr | None) -> str:
    return f"{function}({', '.join(_expression(argument) for argument in arguments if argument is not None)})"


def _literal(literal: Literal) -> str:
    match literal:
        case IntegerLiteral(value):
            return str(value)
        case FloatLiteral(value):
            return _float(value)
        case StringLiteral(value):
            return _string(value)
        case BoolLiteral(value):
            return "true" if value else "false"
        case DateLiteral(text):
            return f"date({_string(text)})"
        case DateTimeLiteral(text):
            return f"datetime({_string(text)})"
        case ListLiteral(items):
            return f"[{', '.join(map(_literal, items))}]"
        case _:
            assert_never(literal)


def _open_end(bound: int | float | None) -> str:
    """One end of a range; an open one is left out."""
    if bound is None:
        return ""
    return _float(bound) if isinstance(bound, float) else str(bound)


def _float(value: float) -> str:
    """The shortest digits that read back as the same float, with digits on both sides of the point and no exponent."""
    from decimal import Decimal  # slow to import, and floats are rare in queries

    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _string(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
