"""Trees -> canonical text: for any tree that a parser made, parsing the text gives an equal tree again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from omnigraph.lang.query import (
    Aggregate,
    AliasRef,
    Assignment,
    Binding,
    Bm25,
    BoolLiteral,
    Clause,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expr,
    Filter,
    FloatLiteral,
    Fuzzy,
    Insert,
    IntegerLiteral,
    ListLiteral,
    Literal,
    MatchText,
    Mutation,
    Nearest,
    Negation,
    Now,
    Ordering,
    Predicate,
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
    Update,
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
    parameters = ", ".join(f"${each.name}: {_shape(each.shape)}{'?' if each.nullable else ''}" for each in query.parameters)
    lines = [f"query {query.name}({parameters}){_documentation(query)} {{", *_query_body(query.body), "}", ""]
    return "\n".join(lines)


def _documentation(query: Query) -> str:
    description = "" if query.description is None else f" @description({_string(query.description)})"
    instruction = "" if query.instruction is None else f" @instruction({_string(query.instruction)})"
    return description + instruction


def _query_body(body: Read | Mutation) -> list[str]:
    if isinstance(body, Mutation):
        return [line for statement in body.statements for line in _statement(statement)]
    lines = [f"{_INDENT}match {{", *_clauses(body.match, 2), f"{_INDENT}}}"]
    lines += _block("return ", [_projection(projection) for projection in body.returns])
    if body.order:
        lines += _block("order ", [_ordering(ordering) for ordering in body.order])
    if body.limit is not None:
        lines.append(f"{_INDENT}limit {body.limit}")
    return lines


def _block(opening: str, items: Sequence[str], closing: str = "") -> list[str]:
    """Items in braces, inside a query: on one line if they fit."""
    line = f"{_INDENT}{opening}{{ {', '.join(items)} }}{closing}"
    if len(line) <= LINE_WIDTH:
        return [line]
    return [f"{_INDENT}{opening}{{", *(f"{_INDENT * 2}{item}," for item in items[:-1]), _INDENT * 2 + items[-1], f"{_INDENT}}}{closing}"]


def _clauses(clauses: Iterable[Clause], depth: int) -> list[str]:
    lines: list[str] = []
    for clause in clauses:
        if isinstance(clause, Negation):
            lines += [f"{_INDENT * depth}not {{", *_clauses(clause.clauses, depth + 1), f"{_INDENT * depth}}}"]
        else:
            lines.append(_INDENT * depth + _clause(clause))
    return lines


def _clause(clause: Binding | Traversal | Filter | Search | Fuzzy | MatchText) -> str:
    match clause:
        case Binding(bound, type_name, matches):
            inside = ", ".join(f"{match.property}: {_expression(match.value)}" for match in matches)
            return f"{bound}: {type_name} {{ {inside} }}" if matches else f"{bound}: {type_name}"
        case Traversal():
            return _traversal(clause)
        case Filter(left, operator, right):
            return f"{_expression(left)} {operator.value} {_expression(right)}"
        case Search() | Fuzzy() | MatchText():
            return _expression(clause)
        case _:
            assert_never(clause)


def _traversal(traversal: Traversal) -> str:
    edge = f"<{traversal.edge}>" if traversal.undirected else traversal.edge.text
    bound = f"{traversal.edge_variable}:" if traversal.edge_variable is not None else ""
    hops = f"{{{traversal.hops.low},{_open_end(traversal.hops.high)}}}" if traversal.hops is not None else ""
    return f"{traversal.left} {bound}{edge}{hops} {traversal.right}"


def _projection(projection: Projection) -> str:
    return _expression(projection.value) + (f" as {projection.alias}" if projection.alias is not None else "")


def _ordering(ordering: Ordering) -> str:
    return _expression(ordering.key) + (" desc" if ordering.descending else "")


def _statement(statement: Statement) -> list[str]:
    match statement:
        case Insert(type_name, assignments):
            return _block(f"insert {type_name} ", _assignments(assignments))
        case Update(type_name, assignments, where):
            return _block(f"update {type_name} set ", _assignments(assignments), f" where {_predicate(where)}")
        case Delete(type_name, where):
            return [f"{_INDENT}delete {type_name} where {_predicate(where)}"]
        case _:
            assert_never(statement)


def _assignments(assignments: Iterable[Assignment]) -> list[str]:
    return [f"{assignment.property}: {_expression(assignment.value)}" for assignment in assignments]


def _predicate(predicate: Predicate) -> str:
    return f"{predicate.property} {predicate.comparison.value} {_expression(predicate.value)}"


# expressions


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
        case Aggregate(function, argument):
            return _call(function.value, argument)
        case _:
            return _literal(expr)


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
