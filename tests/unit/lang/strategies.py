"""Hypothesis strategies: schema and query trees, of the kind that a parser can make."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Assignment,
    Binding,
    Bm25,
    BoolLiteral,
    Clause,
    Comparison,
    Containment,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expr,
    Filter,
    FloatLiteral,
    Fuzzy,
    Hops,
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
    Parameter,
    Predicate,
    Projection,
    PropertyMatch,
    PropertyRef,
    Query,
    QueryFile,
    Read,
    Rrf,
    Search,
    StringLiteral,
    Traversal,
    Update,
    Value,
    Variable,
)
from omnigraph.lang.schema import (
    Annotation,
    Argument,
    Cardinality,
    Check,
    Constraint,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Option,
    Property,
    Range,
    Schema,
    Unique,
)
from omnigraph.lang.tree import EnumType, ListType, Name, Scalar, ScalarType, VectorType

# Keywords of both languages: none is reserved, so each must survive as a name.
# fmt: off
KEYWORDS = (
    "node", "edge", "interface", "implements", "enum", "query", "match", "return", "order", "limit", "not", "as", "asc", "desc",
    "insert", "update", "delete", "set", "where", "from", "to", "now", "nearest", "search", "fuzzy", "match_text", "bm25", "rrf",
    "count", "sum", "avg", "min", "max", "date", "datetime", "contains", "starts_with", "key", "unique", "index", "range", "check",
    "card", "_",
)
# fmt: on
OPERATOR_WORDS = ("contains", "starts_with")

lower = st.sampled_from(KEYWORDS) | st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
upper = st.sampled_from(["Film", "String", "Vector", "I32"]) | st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True)
# A word that is a literal is never an alias, nor a bare annotation argument's name.
alias_word = lower.filter(lambda word: word not in ("true", "false"))
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

names = st.builds(Name, lower)
type_names = st.builds(Name, upper)


def tuples(items: st.SearchStrategy, *, least: int = 0, most: int = 3) -> st.SearchStrategy:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


# types

list_types = st.builds(ListType, st.sampled_from([scalar for scalar in Scalar if scalar is not Scalar.BLOB]))
scalar_types = st.builds(ScalarType, st.sampled_from(Scalar))
vector_types = st.builds(VectorType, st.integers(1, 2**31 - 1))
enum_values = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
enum_types = st.builds(EnumType, st.lists(enum_values, min_size=1, max_size=4, unique=True).map(tuple))
property_shapes = scalar_types | list_types | vector_types | enum_types
parameter_shapes = scalar_types | st.builds(ListType, st.sampled_from(Scalar)) | st.builds(VectorType, st.integers(0, 2**63 - 1))

# schemas

finite = st.floats(allow_nan=False, allow_infinity=False)
positive_number = st.integers(0, 2**64 - 1).map(str) | st.sampled_from(["0.5", "12.250", "007"])
literal_arguments = st.builds(Argument, text, st.just(True)) | st.builds(
    Argument, positive_number | st.sampled_from(["true", "false"]), st.just(False)
)
arguments = literal_arguments | st.builds(Argument, lower, st.just(False))
options = st.builds(Option, names, literal_arguments)
CONSTRAINT_NAMES = ("key", "unique", "index", "range", "check")
schema_annotations = st.builds(Annotation, lower) | st.builds(
    # `@key(..)` is a constraint, and `@card(..)` right after an edge's target its cardinality.
    Annotation,
    lower.filter(lambda word: word not in (*CONSTRAINT_NAMES, "card")),
    arguments,
    tuples(options, most=2),
)
properties = st.builds(Property, names, property_shapes, st.booleans(), tuples(schema_annotations))
bounds = st.integers(-(2**63), 2**64 - 1) | finite
ranges = st.builds(Range, names, bounds, st.none() | bounds) | st.builds(Range, names, st.none(), bounds)
columns = tuples(names, least=1)
constraints: st.SearchStrategy[Constraint] = (
    st.builds(Key, columns) | st.builds(Unique, columns) | st.builds(Index, columns) | ranges | st.builds(Check, names, text)
)
cardinalities = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)).map(
    lambda pair: Cardinality(min(pair), max(pair))
) | st.builds(Cardinality, st.integers(0, 9))
interfaces = st.builds(InterfaceType, type_names, tuples(properties))
nodes = st.builds(NodeType, type_names, tuples(schema_annotations), tuples(type_names, most=2), tuples(properties), tuples(constraints))
edges = st.builds(
    EdgeType,
    type_names,
    type_names,
    type_names,
    st.none() | cardinalities,
    tuples(schema_annotations),
    tuples(properties),
    tuples(constraints),
)
schemas = st.builds(Schema, tuples(interfaces | nodes | edges, most=4))

# values and expressions

variables = st.builds(Variable, lower)
leaf_literals: st.SearchStrategy[Literal] = (
    st.builds(IntegerLiteral, st.integers(-(2**63), 2**64 - 1))
    | st.builds(FloatLiteral, finite)
    | st.builds(StringLiteral, text)
    | st.builds(BoolLiteral, st.booleans())
    | st.builds(DateLiteral, text)
    | st.builds(DateTimeLiteral, text)
)
literals: st.SearchStrategy[Literal] = st.recursive(leaf_literals, lambda inner: st.builds(ListLiteral, tuples(inner)), max_leaves=5)
values: st.SearchStrategy[Value] = literals | variables | st.builds(Now)
property_refs = st.builds(PropertyRef, variables, names)


def calls(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ranking = st.builds(Nearest, property_refs, inner) | st.builds(Bm25, inner, inner)
    return (
        ranking
        | st.builds(Rrf, ranking, ranking, st.none() | inner)
        | st.builds(Search, inner, inner)
        | st.builds(Fuzzy, inner, inner, st.none() | inner)
        | st.builds(MatchText, inner, inner)
        | st.builds(Aggregate, st.sampled_from(AggregateFunction), inner)
    )


expressions: st.SearchStrategy[Expr] = st.recursive(values | property_refs | st.builds(AliasRef, alias_word), calls, max_leaves=4)

# reads

bindings = st.builds(Binding, variables, type_names, tuples(st.builds(PropertyMatch, names, values)))
hops = st.builds(Hops, st.integers(0, 9), st.none() | st.integers(0, 9))
traversals = st.builds(
    Traversal,
    variables,
    # Whether `$a contains $b` is a traversal hangs on the parameters; the grammar tests have both readings.
    st.builds(Name, lower.filter(lambda word: word not in ("not", *OPERATOR_WORDS))),
    variables,
    st.none() | variables,
    st.booleans(),
    st.none() | hops,
)
text_searches = (
    st.builds(Search, expressions, expressions)
    | st.builds(Fuzzy, expressions, expressions)
    | st.builds(MatchText, expressions, expressions)
)
# Behind a text search, `contains` and `starts_with` are operators: an alias of that name cannot begin the next clause.
left_sides = expressions.filter(lambda side: not (isinstance(side, AliasRef) and side.name in OPERATOR_WORDS))
filters = st.builds(Filter, left_sides, st.sampled_from(Comparison), expressions) | st.builds(
    Filter, property_refs | literals, st.sampled_from(Containment), expressions
)
clauses: st.SearchStrategy[Clause] = st.recursive(
    bindings | traversals | filters | text_searches, lambda inner: st.builds(Negation, tuples(inner, least=1)), max_leaves=4
)
projections = st.builds(Projection, expressions, st.none() | names)
orderings = st.builds(Ordering, expressions.filter(lambda e: not isinstance(e, Nearest)), st.booleans()) | st.builds(
    Ordering, st.builds(Nearest, property_refs, expressions)
)


@st.composite
def reads(draw: st.DrawFn) -> Read:
    return Read(
        draw(tuples(clauses, least=1, most=4)),
        draw(tuples(projections, least=1, most=2)),
        draw(tuples(orderings, most=2)),
        draw(st.none() | st.integers(0, 2**63 - 1)),
    )


# mutations

assignments = tuples(st.builds(Assignment, names, values), least=1)
predicates = st.builds(Predicate, names, st.sampled_from(Comparison), values)
statements = (
    st.builds(Insert, type_names, assignments)
    | st.builds(Update, type_names, assignments, predicates)
    | st.builds(Delete, type_names, predicates)
)
mutations = st.builds(Mutation, tuples(statements, least=1))

# files

parameters = st.lists(
    st.builds(Parameter, st.builds(Name, st.from_regex(r"p[A-Za-z0-9_]{0,4}", fullmatch=True)), parameter_shapes, st.booleans()),
    max_size=3,
    unique_by=lambda parameter: parameter.name,
).map(tuple)
queries = st.builds(Query, names, parameters, reads() | mutations, st.none() | text, st.none() | text)
query_files = st.lists(queries, max_size=2, unique_by=lambda query: query.name).map(lambda found: QueryFile(tuple(found)))
