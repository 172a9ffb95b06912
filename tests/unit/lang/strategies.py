"""Hypothesis strategies: schema and query trees, of the kind that a parser can make."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from omnigraph.lang.grammar.expression import CALLS
from omnigraph.lang.query import (
    Aggregate,
    AggregateFunction,
    AliasRef,
    Arithmetic,
    ArithmeticOperator,
    Assignment,
    Binding,
    Bm25,
    BoolLiteral,
    Change,
    Clause,
    Comparison,
    Condition,
    Conjunction,
    Containment,
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
    Hops,
    Insert,
    Insertion,
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
    NullOrder,
    NullTest,
    Optional,
    Ordering,
    Parameter,
    Path,
    Projection,
    PropertyMatch,
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
    "card", "_", "and", "or", "in", "is", "null", "distinct", "optional", "exists", "either", "path", "skip", "create", "upsert",
    "nulls", "first", "last", "ends_with", "collect", "coalesce", "length", "id", "type", "true", "false",
)
# fmt: on
TEST_WORDS = ("contains", "starts_with", "ends_with", "in", "is", "not", "and", "or")

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
# `not (..)` and `distinct (..)` have meanings of their own, and `date("..")` is a literal.
function_names = st.sampled_from(("lower", "coalesce", "length", "in", "nulls", "path")) | lower
functions = function_names.filter(lambda word: word not in (*CALLS, "not", "distinct", "date", "datetime", "true", "false"))
DISTINCT = (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG, AggregateFunction.COLLECT)


def calls(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ranking = st.builds(Nearest, property_refs, inner) | st.builds(Bm25, inner, inner)
    return (
        ranking
        | st.builds(Rrf, ranking, ranking, st.none() | inner)
        | st.builds(Search, inner, inner)
        | st.builds(Fuzzy, inner, inner, st.none() | inner)
        | st.builds(MatchText, inner, inner)
        | st.builds(Aggregate, st.sampled_from(AggregateFunction), inner)
        | st.builds(Aggregate, st.sampled_from(DISTINCT), inner, st.just(True))
        | st.just(Aggregate(AggregateFunction.COUNT, None))
        | st.builds(Arithmetic, inner, st.sampled_from(ArithmeticOperator), inner)
        | st.builds(Negative, inner)
        | st.builds(FunctionCall, st.builds(Name, functions), tuples(inner))
    )


alias_refs = st.builds(AliasRef, alias_word)
expressions: st.SearchStrategy[Expr] = st.recursive(values | property_refs | alias_refs, calls, max_leaves=4)

# conditions

text_searches = (
    st.builds(Search, expressions, expressions)
    | st.builds(Fuzzy, expressions, expressions)
    | st.builds(MatchText, expressions, expressions)
)
tests: st.SearchStrategy[Condition] = (
    st.builds(Filter, expressions, st.sampled_from((*Comparison, *Containment)), expressions)
    | st.builds(ListTest, expressions, variables | st.builds(ListLiteral, tuples(literals)), st.booleans())
    | st.builds(NullTest, expressions, st.booleans())
    | st.builds(Truth, property_refs | variables | alias_refs)
    | text_searches
)


def joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    terms = tuples(inner, least=2)
    return st.builds(Conjunction, terms) | st.builds(Disjunction, terms) | st.builds(Inversion, inner)


conditions: st.SearchStrategy[Condition] = st.recursive(tests, joined, max_leaves=5)

# reads

bindings = st.builds(Binding, variables, type_names, tuples(st.builds(PropertyMatch, names, values)))
hops = st.builds(Hops, st.integers(0, 9), st.none() | st.integers(0, 9))
traversals = st.builds(
    Traversal,
    variables,
    # Whether `$a contains $b` is a traversal hangs on the parameters; the grammar tests have both readings.
    tuples(st.builds(Name, lower.filter(lambda word: word not in TEST_WORDS)), least=1),
    variables,
    st.none() | variables,
    st.booleans(),
    st.none() | hops,
)
patterns = bindings | traversals | st.builds(Path, variables, traversals)


def separate(clauses: tuple[Clause, ...]) -> bool:
    """Behind a Bool by itself or a text search, a literal or a bare word is taken for the rest of a test."""
    alone = (Truth, Search, Fuzzy, MatchText)
    return not any(isinstance(_last_term(one), alone) and _begins_bare(other) for one, other in pairwise(clauses))


def _last_term(clause: Clause) -> Clause:
    return _last_term(clause.terms[-1]) if isinstance(clause, Conjunction | Disjunction) else clause


def _begins_bare(clause: Clause) -> bool:
    match clause:
        case Conjunction() | Disjunction():
            return _begins_bare(clause.terms[0])
        case Filter(left=value) | ListTest(item=value) | NullTest(value=value) | Truth(value=value):
            while isinstance(value, Arithmetic):
                value = value.left
            return isinstance(value, AliasRef | StringLiteral | IntegerLiteral | FloatLiteral | BoolLiteral)
        case _:
            return False


def blocks(inner: st.SearchStrategy[Clause]) -> st.SearchStrategy[Clause]:
    block = tuples(inner, least=1).filter(separate)
    return st.builds(Negation, block) | st.builds(Exists, block) | st.builds(Optional, block) | st.builds(Either, tuples(block, least=2))


clauses: st.SearchStrategy[Clause] = st.recursive(patterns | conditions, blocks, max_leaves=4)
matches = tuples(clauses, least=1, most=4).filter(separate)
projections = st.builds(Projection, expressions, st.none() | names)
orderings = st.builds(
    Ordering, expressions.filter(lambda e: not isinstance(e, Nearest)), st.booleans(), st.none() | st.sampled_from(NullOrder)
) | st.builds(Ordering, st.builds(Nearest, property_refs, expressions))
counts = st.none() | st.integers(0, 2**63 - 1) | variables


@st.composite
def reads(draw: st.DrawFn) -> Read:
    return Read(
        draw(matches),
        draw(tuples(projections, least=1, most=2)),
        draw(st.booleans()),
        draw(tuples(orderings, most=2)),
        draw(counts),
        draw(counts),
    )


# mutations

assignments = tuples(st.builds(Assignment, names, expressions), least=1)
changes: st.SearchStrategy[Change] = (
    st.builds(Insert, type_names, assignments, st.sampled_from(Insertion))
    | st.builds(Update, type_names, assignments, conditions)
    | st.builds(UpdateBound, variables, assignments)
    | st.builds(Delete, type_names, conditions)
    | st.builds(DeleteBound, tuples(variables, least=1))
)
matched_changes = st.builds(MatchedChanges, matches, tuples(changes, least=1))


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    """The changes behind a match block all belong to it, up to the next one."""
    alone = draw(tuples(changes, most=2))
    matched: tuple[Statement, ...] = draw(tuples(matched_changes, least=0 if alone else 1, most=2))
    return Mutation((*alone, *matched))


# files

parameters = st.lists(
    st.builds(Parameter, st.builds(Name, st.from_regex(r"p[A-Za-z0-9_]{0,4}", fullmatch=True)), parameter_shapes, st.booleans()),
    max_size=3,
    unique_by=lambda parameter: parameter.name,
).map(tuple)
queries = st.builds(Query, names, parameters, reads() | mutations(), st.none() | text, st.none() | text)
anonymous = st.builds(Query, st.just(Name("")), st.just(()), reads() | mutations())
query_files = st.lists(queries, max_size=2, unique_by=lambda query: query.name).map(lambda found: QueryFile(tuple(found))) | anonymous.map(
    lambda query: QueryFile((query,))
)
