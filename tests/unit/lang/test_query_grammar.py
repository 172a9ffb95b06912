"""Each production of the query language, and each way a query file can be refused by its text alone."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang import parse_queries, select_query
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
from omnigraph.lang.tree import ListType, Name, Scalar, ScalarType, VectorType
from tests.unit.lang.texts import QUERIES

A, B, F, P, R, W = (Variable(name) for name in "abfprw")
SLUG = PropertyRef(F, Name("slug"))
VEC = PropertyRef(F, Name("vec"))
ONE, TWO = IntegerLiteral(1), IntegerLiteral(2)
SLUG_IS_ONE = Filter(SLUG, Comparison.EQ, ONE)
SLUG_IS_TWO = Filter(SLUG, Comparison.EQ, TWO)
ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER = ArithmeticOperator


def via(left: Variable, edge: str, right: Variable) -> Traversal:
    return Traversal(left, (Name(edge),), right)


def read(text: str) -> Read:
    body = parse_queries(f"query q($p: String) {{ {text} }}").queries[0].body
    assert isinstance(body, Read)
    return body


def clauses(text: str) -> tuple[Clause, ...]:
    return read(f"match {{ {text} }} return {{ $f }}").match


def projected(text: str) -> Expr:
    (projection,) = read(f"match {{ $f: F }} return {{ {text} }}").returns
    return projection.value


def statements(text: str) -> tuple[Statement, ...]:
    body = parse_queries(f"query q() {{ {text} }}").queries[0].body
    assert isinstance(body, Mutation)
    return body.statements


# files, queries, parameters


def test_an_empty_text_has_no_queries() -> None:
    assert parse_queries(" /* nothing */ ") == QueryFile()


def test_a_file_keeps_its_queries_in_order() -> None:
    assert [query.name.text for query in parse_queries(QUERIES).queries] == ["similar", "change", "more", "upkeep", "unlink", "clear"]


def test_parameters() -> None:
    (query,) = parse_queries("query q($a: String, $b: [Blob]?, $c: Vector(0)) { delete A where b = 1 }").queries
    assert query.parameters == (
        Parameter(Name("a"), ScalarType(Scalar.STRING)),
        Parameter(Name("b"), ListType(Scalar.BLOB), nullable=True),
        Parameter(Name("c"), VectorType(0)),
    )


def test_annotations_in_either_order() -> None:
    (query,) = parse_queries('query q() @instruction("i") @description("d\\n") { delete A where b = 1 }').queries
    assert (query.description, query.instruction) == ("d\n", "i")


# fmt: off
WORDS = [
    "query", "match", "not", "limit", "count", "now", "true", "and", "or", "in", "is", "null", "distinct", "optional", "exists", "either",
    "path", "skip", "create", "upsert", "insert", "update", "delete", "set", "where", "nulls", "first", "last", "asc", "desc", "ends_with",
    "contains", "collect", "coalesce", "length", "return", "order", "as", "date", "id", "type", "from", "to",
]
# fmt: on


@pytest.mark.parametrize("word", WORDS)
def test_keywords_are_names_too(word: str) -> None:
    text = f"query {word}(${word}: I32) {{ match {{ ${word}: F {{ {word}: ${word} }} }} return {{ ${word}.{word} as {word} }} }}"
    (query,) = parse_queries(text).queries
    assert query.body == Read(
        (Binding(Variable(word), Name("F"), (PropertyMatch(Name(word), Variable(word)),)),),
        (Projection(PropertyRef(Variable(word), Name(word)), Name(word)),),
    )


@pytest.mark.parametrize("word", WORDS)
def test_keywords_are_properties_and_aliases_in_every_place(word: str) -> None:
    own = PropertyRef(F, Name(word))
    tested = clauses(f"$f.{word} = $f.{word} $f.{word} in [1] $f.{word} is null ($f.{word} or $f.{word} = 1)")
    assert tested == (
        Filter(own, Comparison.EQ, own),
        ListTest(own, ListLiteral((ONE,))),
        NullTest(own),
        Disjunction((Truth(own), Filter(own, Comparison.EQ, ONE))),
    )
    if word == "true":
        return  # by itself it is a literal
    found = read(f"match {{ $f: F }} return {{ $f.{word} - $f.{word} as {word} }} order {{ {word}, {word} desc nulls last }}")
    assert found.returns == (Projection(Arithmetic(own, SUBTRACT, own), Name(word)),)
    assert found.order == (Ordering(AliasRef(word)), Ordering(AliasRef(word), descending=True, nulls=NullOrder.LAST))
    bare = AliasRef(word)
    assert statements(f"update F set {{ {word}: {word} + 1, a: {word} }} where {word} = 1 or {word} is not null") == (
        Update(
            Name("F"),
            (Assignment(Name(word), Arithmetic(bare, ADD, ONE)), Assignment(Name("a"), bare)),
            Disjunction((Filter(bare, Comparison.EQ, ONE), NullTest(bare, negated=True))),
        ),
    )
    assert statements(f"delete F where {word} delete F where {word} and {word}") == (
        Delete(Name("F"), Truth(bare)),
        Delete(Name("F"), Conjunction((Truth(bare), Truth(bare)))),
    )


@pytest.mark.parametrize("word", [word for word in WORDS if word != "not"])
def test_keywords_are_edges_too(word: str) -> None:
    assert clauses(f"$a {word} $b") == (via(A, word, B),)
    assert clauses(f"$a {word}{{1,2}} $b $a <{word}|{word}> $b $a $r:{word} $b path $w = $a {word} $b") == (
        Traversal(A, (Name(word),), B, hops=Hops(1, 2)),
        Traversal(A, (Name(word), Name(word)), B, undirected=True),
        Traversal(A, (Name(word),), B, edge_variable=R),
        Path(W, via(A, word, B)),
    )


@pytest.mark.parametrize("word", ["And", "Or", "In", "Is", "Null", "Not", "Match", "Distinct", "Optional", "Path", "Create"])
def test_keywords_with_a_capital_are_types(word: str) -> None:
    assert clauses(f"$f: {word} {{ a: 1 }}") == (Binding(F, Name(word), (PropertyMatch(Name("a"), ONE),)),)
    assert statements(f"create {word} {{ a: 1 }}") == (Insert(Name(word), (Assignment(Name("a"), ONE),), Insertion.CREATE),)


# a query without a name


def test_a_bare_read_is_a_query_without_a_name() -> None:
    (query,) = parse_queries("// films\nmatch { $f: F  $f.slug in $slugs } return { $f } skip $n limit 2").queries
    assert query.anonymous
    assert query.parameters == ()
    assert query.body == Read((Binding(F, Name("F")), ListTest(SLUG, Variable("slugs"))), (Projection(F),), skip=Variable("n"), limit=2)
    assert select_query(parse_queries("match { $f: F } return { $f }"), None).anonymous


@pytest.mark.parametrize("word", ["insert", "create", "upsert"])
def test_a_bare_mutation_is_a_query_without_a_name(word: str) -> None:
    (query,) = parse_queries(f"{word} F {{ a: $a }} delete F where b").queries
    assert query.anonymous
    assert query.body == Mutation(
        (Insert(Name("F"), (Assignment(Name("a"), A),), Insertion(word)), Delete(Name("F"), Truth(AliasRef("b"))))
    )


def test_a_test_is_no_traversal_where_parameters_are_not_declared() -> None:
    (query,) = parse_queries('match { $tags contains $f.slug  $s starts_with "a"  $flag or $f.slug = 1  $a in $b } return { $f }').queries
    assert isinstance(query.body, Read)
    assert query.body.match == (
        Filter(Variable("tags"), Containment.CONTAINS, SLUG),
        Filter(Variable("s"), Containment.STARTS_WITH, StringLiteral("a")),
        Disjunction((Truth(Variable("flag")), SLUG_IS_ONE)),
        via(A, "in", B),
    )


# clauses


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("$f: Film", Binding(F, Name("Film"))),
        ("$f: Film { a: 1 }", Binding(F, Name("Film"), (PropertyMatch(Name("a"), ONE),))),
        ("$f: Film { a: $p, b: now(), }", Binding(F, Name("Film"), (PropertyMatch(Name("a"), P), PropertyMatch(Name("b"), Now())))),
        ("$a knows $b", via(A, "knows", B)),
        ("$a aCTEDIN $_", via(A, "aCTEDIN", Variable("_"))),
        ("$a $r:knows $b", Traversal(A, (Name("knows"),), B, edge_variable=R)),
        ("$a <knows> $b", Traversal(A, (Name("knows"),), B, undirected=True)),
        ("$a $r : <knows>{1,2} $b", Traversal(A, (Name("knows"),), B, R, undirected=True, hops=Hops(1, 2))),
        ("$a knows{0,}$b", Traversal(A, (Name("knows"),), B, hops=Hops(0))),
        ("$a contains $b", via(A, "contains", B)),
        ("$p contains $b", Filter(P, Containment.CONTAINS, B)),
        ("$p starts_with $b", Filter(P, Containment.STARTS_WITH, B)),
        ("$p knows $b", via(P, "knows", B)),
        ("$p $r:contains $b", Traversal(P, (Name("contains"),), B, edge_variable=R)),
        ("$a < $b", Filter(A, Comparison.LT, B)),
        ("$a < knows", Filter(A, Comparison.LT, AliasRef("knows"))),
        ("$f.slug = -1", Filter(SLUG, Comparison.EQ, IntegerLiteral(-1))),
        ('"x" contains $f.slug', Filter(StringLiteral("x"), Containment.CONTAINS, SLUG)),
        ("search($f.slug, $p)", Search(SLUG, P)),
        ("fuzzy($f.slug, $p, 1)", Fuzzy(SLUG, P, ONE)),
        ("match_text($f.slug, $p)", MatchText(SLUG, P)),
        ("search($f.slug, $p) = false", Filter(Search(SLUG, P), Comparison.EQ, BoolLiteral(value=False))),
        ("not = 1", Filter(AliasRef("not"), Comparison.EQ, ONE)),
        ("$a knows{3} $b", Traversal(A, (Name("knows"),), B, hops=Hops(3, 3))),
        ("$a knows|likes $b", Traversal(A, (Name("knows"), Name("likes")), B)),
        ("$a <knows|likes>{1,2} $b", Traversal(A, (Name("knows"), Name("likes")), B, undirected=True, hops=Hops(1, 2))),
        ("path $w = $a knows{1,5} $b", Path(W, Traversal(A, (Name("knows"),), B, hops=Hops(1, 5)))),
        ("path $w = $a <knows|likes> $b", Path(W, Traversal(A, (Name("knows"), Name("likes")), B, undirected=True))),
        ("path = 1", Filter(AliasRef("path"), Comparison.EQ, ONE)),
        ("$p ends_with $b", Filter(P, Containment.ENDS_WITH, B)),
        ("$a ends_with $b", via(A, "ends_with", B)),
        ('$f.slug ends_with "x"', Filter(SLUG, Containment.ENDS_WITH, StringLiteral("x"))),
        ("$p in $b", ListTest(P, B)),
        ("$a in $b", via(A, "in", B)),
        ("$a in [1]", ListTest(A, ListLiteral((ONE,)))),
        ("$p is $b", via(P, "is", B)),
        ("$p and $b", via(P, "and", B)),
        ("$p and $p", Conjunction((Truth(P), Truth(P)))),
        ("$a or $f.slug", Disjunction((Truth(A), Truth(SLUG)))),
        ("$f.slug in []", ListTest(SLUG, ListLiteral())),
        ("$f.slug not in $p", ListTest(SLUG, P, negated=True)),
        ("$a not in $p", ListTest(A, P, negated=True)),
        ("$f is null", NullTest(F)),
        ("$f.slug is not null", NullTest(SLUG, negated=True)),
        ("$f.slug + 1 is null", NullTest(Arithmetic(SLUG, ADD, ONE))),
        ("$f.slug", Truth(SLUG)),
        ("($f)", Truth(F)),
        ("exists { $a knows $b }", Exists((via(A, "knows", B),))),
        ("optional { $a knows $b }", Optional((via(A, "knows", B),))),
        (
            "either { $a: F } or { $b: F } or { $f: F }",
            Either(((Binding(A, Name("F")),), (Binding(B, Name("F")),), (Binding(F, Name("F")),))),
        ),
        ("optional { exists { not { $f: F } } }", Optional((Exists((Negation((Binding(F, Name("F")),)),)),))),
        ("not { $a knows $b  not { $b: F } }", Negation((via(A, "knows", B), Negation((Binding(B, Name("F")),))))),
    ],
)
def test_clauses(text: str, clause: Clause) -> None:
    assert clauses(text) == (clause,)


@pytest.mark.parametrize("comparison", Comparison)
def test_comparisons(comparison: Comparison) -> None:
    assert clauses(f"$f.slug{comparison.value}$p") == (Filter(SLUG, comparison, P),)


def test_clauses_are_separated_by_whitespace() -> None:
    found = clauses("$f.slug = $p $a knows $b $b: F { a: 1 } search(a, b) $a <e> $b not { $a = now() } 1 < 2")
    assert [type(clause).__name__ for clause in found] == [
        "Filter", "Traversal", "Binding", "Search", "Traversal", "Negation", "Filter",
    ]  # fmt: skip
    found = clauses(
        "$f.a optional { $f: F } $f.a not { $f: F } $f.a is null ($f.a) $f.a in $p exists { $f: F } $f.a path $w = $a e $b"
        " $f.a search(a, b)"
        " $f.a and $p path $w = $a e $b $f.a or $p exists { $f: F } not ($f.a) (1 < 2) either { $f: F } or { $f: F } $a <e|d> $b 1 < 2"
    )
    assert [type(clause).__name__ for clause in found] == [
        "Truth", "Optional", "Truth", "Negation", "NullTest", "Truth", "ListTest", "Exists", "Truth", "Path", "Truth", "Search",
        "Conjunction", "Path", "Disjunction", "Exists", "Inversion", "Filter", "Either", "Traversal", "Filter",
    ]  # fmt: skip


def test_a_minus_belongs_to_the_value_before_it() -> None:
    with pytest.raises(LanguageError):
        clauses("$f.slug = 1 -1 < 2")
    assert clauses("$f.slug = 1 (-1 < 2)") == (SLUG_IS_ONE, Filter(IntegerLiteral(-1), Comparison.LT, TWO))
    assert read("match { $f: F } return { $f.slug -1 }").returns == (Projection(Arithmetic(SLUG, SUBTRACT, ONE)),)
    assert read("match { $f: F } return { $f.slug, -1 }").returns == (Projection(SLUG), Projection(IntegerLiteral(-1)))


# conditions


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("($f.slug = 1)", SLUG_IS_ONE),
        ("(($f.slug = 1))", SLUG_IS_ONE),
        ("$f.slug = 1 or $f.slug = 2", Disjunction((SLUG_IS_ONE, SLUG_IS_TWO))),
        ("($f.slug = 1 or $f.slug = 2)", Disjunction((SLUG_IS_ONE, SLUG_IS_TWO))),
        ("$f.slug = 1 and $f.slug = 2 or $f.slug", Disjunction((Conjunction((SLUG_IS_ONE, SLUG_IS_TWO)), Truth(SLUG)))),
        ("$f.slug or $f.slug = 1 and $f.slug = 2", Disjunction((Truth(SLUG), Conjunction((SLUG_IS_ONE, SLUG_IS_TWO))))),
        ("($f.slug or $f.slug = 1) and $f.slug = 2", Conjunction((Disjunction((Truth(SLUG), SLUG_IS_ONE)), SLUG_IS_TWO))),
        ("($f.slug = 1 and $f.slug = 2) and $f.slug", Conjunction((Conjunction((SLUG_IS_ONE, SLUG_IS_TWO)), Truth(SLUG)))),
        ("not ($f.slug = 1)", Inversion(SLUG_IS_ONE)),
        ("not (not ($f.slug)) or not ($f.slug = 1)", Disjunction((Inversion(Inversion(Truth(SLUG))), Inversion(SLUG_IS_ONE)))),
        ("search($f.slug, $p) and $f.slug", Conjunction((Search(SLUG, P), Truth(SLUG)))),
        ("not (search($f.slug, $p))", Inversion(Search(SLUG, P))),
        ("$f.slug is null or $f.slug in [1]", Disjunction((NullTest(SLUG), ListTest(SLUG, ListLiteral((ONE,)))))),
        ("$f.slug and 1 = 2", Conjunction((Truth(SLUG), Filter(ONE, Comparison.EQ, TWO)))),
        ("($f.slug + 1) * 2 > 1", Filter(Arithmetic(Arithmetic(SLUG, ADD, ONE), MULTIPLY, TWO), Comparison.GT, ONE)),
        ("(($f.slug) + 1 > 1)", Filter(Arithmetic(SLUG, ADD, ONE), Comparison.GT, ONE)),
        ("($f.slug) in [1]", ListTest(SLUG, ListLiteral((ONE,)))),
        ("($f) is null", NullTest(F)),
        ("-$f.slug < -1", Filter(Negative(SLUG), Comparison.LT, IntegerLiteral(-1))),
    ],
)
def test_conditions(text: str, condition: Condition) -> None:
    assert clauses(text) == (condition,)


# expressions


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("1", ONE),
        ("- 1.5", FloatLiteral(-1.5)),
        ("18446744073709551615", IntegerLiteral(2**64 - 1)),
        ("-9223372036854775808", IntegerLiteral(-(2**63))),
        ('"a\\tb"', StringLiteral("a\tb")),
        ("true", BoolLiteral(value=True)),
        ('date("1979-05-25")', DateLiteral("1979-05-25")),
        ('datetime("x")', DateTimeLiteral("x")),
        ("[]", ListLiteral()),
        ('[1, [true], "a"]', ListLiteral((ONE, ListLiteral((BoolLiteral(value=True),)), StringLiteral("a")))),
        ("$f", F),
        ("$f . slug", SLUG),
        ("now()", Now()),
        ("now", AliasRef("now")),
        ("date", AliasRef("date")),
        ("trueish", AliasRef("trueish")),
        ("nearest($f.vec, [1.0])", Nearest(VEC, ListLiteral((FloatLiteral(1.0),)))),
        ("bm25($f.slug, $p)", Bm25(SLUG, P)),
        ("rrf(nearest($f.vec, $p), bm25($f.slug, $p))", Rrf(Nearest(VEC, P), Bm25(SLUG, P))),
        ("rrf(bm25($f.slug, $p), nearest($f.vec, $p), 1)", Rrf(Bm25(SLUG, P), Nearest(VEC, P), ONE)),
        ("fuzzy($f.slug, $p)", Fuzzy(SLUG, P)),
        *((f"{function.value}($f)", Aggregate(function, F)) for function in AggregateFunction),
        ("count(*)", Aggregate(AggregateFunction.COUNT, None)),
        ("count(distinct $f)", Aggregate(AggregateFunction.COUNT, F, distinct=True)),
        ("sum(distinct ($f.slug + 1))", Aggregate(AggregateFunction.SUM, Arithmetic(SLUG, ADD, ONE), distinct=True)),
        ("avg(distinct -$f.slug)", Aggregate(AggregateFunction.AVG, Negative(SLUG), distinct=True)),
        ("collect(distinct distinct)", Aggregate(AggregateFunction.COLLECT, AliasRef("distinct"), distinct=True)),
        ("count(distinct)", Aggregate(AggregateFunction.COUNT, AliasRef("distinct"))),
        ("count(distinct + 1)", Aggregate(AggregateFunction.COUNT, Arithmetic(AliasRef("distinct"), ADD, ONE))),
        ("sum($f.slug) / count(*)", Arithmetic(Aggregate(AggregateFunction.SUM, SLUG), DIVIDE, Aggregate(AggregateFunction.COUNT, None))),
        ("1 + 2 * $f.slug", Arithmetic(ONE, ADD, Arithmetic(TWO, MULTIPLY, SLUG))),
        ("(1 + 2) * $f.slug", Arithmetic(Arithmetic(ONE, ADD, TWO), MULTIPLY, SLUG)),
        ("1 - 2 - $f.slug", Arithmetic(Arithmetic(ONE, SUBTRACT, TWO), SUBTRACT, SLUG)),
        ("1 - (2 - $f.slug)", Arithmetic(ONE, SUBTRACT, Arithmetic(TWO, SUBTRACT, SLUG))),
        ("1 / 2 % $f.slug", Arithmetic(Arithmetic(ONE, DIVIDE, TWO), REMAINDER, SLUG)),
        ("1--1", Arithmetic(ONE, SUBTRACT, IntegerLiteral(-1))),
        ("-$f.slug * 2", Arithmetic(Negative(SLUG), MULTIPLY, TWO)),
        ("-(1)", Negative(ONE)),
        ("- -1", Negative(IntegerLiteral(-1))),
        ("-($f.slug + 1)", Negative(Arithmetic(SLUG, ADD, ONE))),
        ("$f.slug - now()", Arithmetic(SLUG, SUBTRACT, Now())),
        ("lower($f.slug)", FunctionCall(Name("lower"), (SLUG,))),
        ("pi()", FunctionCall(Name("pi"))),
        (
            'coalesce($f.slug, upper("a"), 1 + 2)',
            FunctionCall(Name("coalesce"), (SLUG, FunctionCall(Name("upper"), (StringLiteral("a"),)), Arithmetic(ONE, ADD, TWO))),
        ),
        ("date($f.slug)", FunctionCall(Name("date"), (SLUG,))),
        ('datetime(date("x"))', FunctionCall(Name("datetime"), (DateLiteral("x"),))),
        ("round(avg($f.slug), 1)", FunctionCall(Name("round"), (Aggregate(AggregateFunction.AVG, SLUG), ONE))),
        ("null", AliasRef("null")),
    ],
)
def test_expressions(text: str, expr: Expr) -> None:
    assert projected(text) == expr


# return, order, limit


def test_commas_between_projections_are_optional() -> None:
    expected = (Projection(F), Projection(SLUG, Name("s")), Projection(ONE))
    assert read("match { $f: F } return { $f, $f.slug as s, 1, }").returns == expected
    assert read("match { $f: F } return { $f $f.slug as s 1 }").returns == expected


def test_order_and_limit() -> None:
    found = read("match { $f: F } return { $f } order { nearest($f.vec, $p), $f.slug desc, n asc, desc, asc desc } limit 0")
    assert found.limit == 0
    assert found.order == (
        Ordering(Nearest(VEC, P)),
        Ordering(SLUG, descending=True),
        Ordering(AliasRef("n")),
        Ordering(AliasRef("desc")),
        Ordering(AliasRef("asc"), descending=True),
    )


def test_without_order_and_limit() -> None:
    assert read("match { $f: F } return { $f }") == Read((Binding(F, Name("F")),), (Projection(F),))


def test_distinct_skip_and_parameters_of_the_counts() -> None:
    found = read("match { $f: F } return distinct { $f, distinct } order { $f.slug + 1 desc nulls last, a nulls first } skip $p limit $n")
    assert found == Read(
        (Binding(F, Name("F")),),
        (Projection(F), Projection(AliasRef("distinct"))),
        distinct=True,
        order=(
            Ordering(Arithmetic(SLUG, ADD, ONE), descending=True, nulls=NullOrder.LAST),
            Ordering(AliasRef("a"), nulls=NullOrder.FIRST),
        ),
        skip=P,
        limit=Variable("n"),
    )
    assert read("match { $f: F } return { $f } skip 3") == Read((Binding(F, Name("F")),), (Projection(F),), skip=3)


# mutations


def test_insert_update_delete() -> None:
    assignments = (Assignment(Name("a"), ONE), Assignment(Name("b"), P))
    where = Filter(AliasRef("slug"), Comparison.NE, Now())
    assert statements("insert F { a: 1, b: $p } update F set { a: 1 b: $p, } where slug != now() delete F where slug != now()") == (
        Insert(Name("F"), assignments),
        Update(Name("F"), assignments, where),
        Delete(Name("F"), where),
    )


@pytest.mark.parametrize("insertion", Insertion)
def test_ways_to_insert(insertion: Insertion) -> None:
    assert statements(f"{insertion.value} F {{ a: 1 }}") == (Insert(Name("F"), (Assignment(Name("a"), ONE),), insertion),)


def test_a_condition_of_a_change_is_a_condition_like_any_other() -> None:
    assert statements("delete F where (a = 1 or not (b)) and c in [1] and d is null and e starts_with f + 1") == (
        Delete(
            Name("F"),
            Conjunction(
                (
                    Disjunction((Filter(AliasRef("a"), Comparison.EQ, ONE), Inversion(Truth(AliasRef("b"))))),
                    ListTest(AliasRef("c"), ListLiteral((ONE,))),
                    NullTest(AliasRef("d")),
                    Filter(AliasRef("e"), Containment.STARTS_WITH, Arithmetic(AliasRef("f"), ADD, ONE)),
                )
            ),
        ),
    )


def test_changes_behind_a_match_belong_to_it() -> None:
    bound = Binding(F, Name("F"))
    found = statements(
        "insert F { a: 1 } match { $f: F } update $f set { n: $f.n + 1, m: m } delete $f, $r create G { from: $f, to: $f }"
        " match { $f: F } upsert G { a: 1 } update F set { a: 1 } where a delete F where a"
    )
    one = (Assignment(Name("a"), ONE),)
    assert found == (
        Insert(Name("F"), one),
        MatchedChanges(
            (bound,),
            (
                UpdateBound(
                    F,
                    (
                        Assignment(Name("n"), Arithmetic(PropertyRef(F, Name("n")), ADD, ONE)),
                        Assignment(Name("m"), AliasRef("m")),
                    ),
                ),
                DeleteBound((F, R)),
                Insert(Name("G"), (Assignment(Name("from"), F), Assignment(Name("to"), F)), Insertion.CREATE),
            ),
        ),
        MatchedChanges(
            (bound,),
            (
                Insert(Name("G"), one, Insertion.UPSERT),
                Update(Name("F"), one, Truth(AliasRef("a"))),
                Delete(Name("F"), Truth(AliasRef("a"))),
            ),
        ),
    )


def test_a_flag_ends_a_condition() -> None:
    flag = Conjunction((Truth(AliasRef("a")), Truth(P)))
    assert statements("delete F where a and $p delete $f") == (Delete(Name("F"), flag), DeleteBound((F,)))
    assert statements("delete F where a and $p update $f set { a: 1 }") == (
        Delete(Name("F"), flag),
        UpdateBound(F, (Assignment(Name("a"), ONE),)),
    )
    assert clauses("not ($p) $a knows $b ($f.slug) $a knows $b") == (
        Inversion(Truth(P)), via(A, "knows", B), Truth(SLUG), via(A, "knows", B),
    )  # fmt: skip


def test_values_of_assignments_are_expressions() -> None:
    assert statements('insert F { a: b + 1 c: now() d: coalesce(d, "x"), e: -e }') == (
        Insert(
            Name("F"),
            (
                Assignment(Name("a"), Arithmetic(AliasRef("b"), ADD, ONE)),
                Assignment(Name("c"), Now()),
                Assignment(Name("d"), FunctionCall(Name("coalesce"), (AliasRef("d"), StringLiteral("x")))),
                Assignment(Name("e"), Negative(AliasRef("e"))),
            ),
        ),
    )


@pytest.mark.parametrize("value", [ONE, P, Now(), StringLiteral("x"), ListLiteral((ONE,)), DateLiteral("d"), BoolLiteral(value=True)])
def test_values(value: Value) -> None:
    written = {Now(): "now()", P: "$p", ONE: "1", StringLiteral("x"): '"x"', ListLiteral((ONE,)): "[1]", DateLiteral("d"): 'date("d")'}
    text = written.get(value, "true")
    assert statements(f"insert F {{ a: {text} }}") == (Insert(Name("F"), (Assignment(Name("a"), value),)),)


# refusals: inside `query q($p: String) { .. }` unless the text starts with `query` or `bare`

REFUSED = [
    # text with the offending place between « and », message, hint
    ("match { $f: Film { «}» } return { $f }", "expected a property match, found `}`", "leave out the empty braces"),
    ("match { $f: Film«,» $p: P } return { $f }", "expected a clause, found `,`", "clauses are separated by whitespace, not by commas"),
    ("match { «}» return { $f }", "expected a clause, found `}`", None),
    ("match { $f: «film» } return { $f }", "expected a node type name, found `film`", "type names start with a capital letter: `Film`"),
    ("match { $f: F { a «=» 1 } } return { $f }", "expected `:`, found `=`", None),
    ("match { $f: F { a: 1 «b»: 2 } } return { $f }", "expected `,` or `}`, found `b`", None),
    ("match { $f: F { a: «b» } } return { $f }", "expected a value, found `b`", 'strings are written in quotes: `"b"`'),
    ("match { $f: F { a: «null» } } return { $f }", "expected a value, found `null`",
     "there is no null literal; pass null through a nullable parameter, or test with `is null`"),
    ("match { $f: F { a: $p«.»b } } return { $f }", "expected `,` or `}`, found `.`", None),
    ("match { $f.a =«=» 1 } return { $f }", "expected a value, found `=`", "equality is a single `=`"),
    ("match { $f.a = «1e5» } return { $f }", "invalid number: 1e5", None),
    ("match { $f.a = «18446744073709551616» } return { $f }",
     "invalid integer: 18446744073709551616 is greater than 18446744073709551615", None),
    ("match { $f.a = -«9223372036854775809» } return { $f }",
     "invalid integer: 9223372036854775809 is greater than 9223372036854775808", None),
    ('match { $f.a = "«\\x»" } return { $f }', "unsupported escape sequence: \\x", None),
    ("match { $f.a = 1 or «}» return { $f }", "expected a value, found `}`", None),
    ("match { $f.a = 1 or «$a» knows $b } return { $f }", "expected a test, found `$a`",
     "a traversal cannot be part of a condition; join blocks with `either { .. } or { .. }`"),
    ("match { $f.a = 1 and ($f.a = 1 or «$a» knows $b) } return { $f }", "expected a test, found `$a`", None),
    ("match { not «$f».a = 1 } return { $f }", "expected a comparison, found `$f`", "a condition is negated in parentheses: `not (..)`"),
    ("match { ($f.a = 1 «}» return { $f }", "expected `)`, found `}`", None),
    ("match { ($f.a + 1) «}» return { $f }", "expected a comparison, found `}`", None),
    ("match { 1 + 2 «}» return { $f }", "expected a comparison, found `}`", None),
    ("match { $f.a + «}» return { $f }", "expected a value, found `}`", None),
    ("match { $f.a «1» } return { $f }", "expected a comparison, found `1`", None),
    ("match { $f.a in «1» } return { $f }", "expected a list, found `1`",
     "`in` takes a list of literals or a list parameter: `in [1, 2]`, `in $values`"),
    ("match { $f.a not in «(»1) } return { $f }", "expected a list, found `(`", None),
    ("match { $f.a «not» [1] } return { $f }", "expected a comparison, found `not`", None),
    ("match { $f.a is «nul» } return { $f }", "expected `null`, found `nul`", "did you mean `null`?"),
    ("match { $f.a is not «}» return { $f }", "expected `null`, found `}`", None),
    ("match { exist «{» $f: F } } return { $f }", "expected a comparison, found `{`", "did you mean `exists`?"),
    ("match { optinal «{» $f: F } } return { $f }", "expected a comparison, found `{`", "did you mean `optional`?"),
    ("match { optional { «}» } return { $f }", "expected a clause, found `}`", None),
    ("match { either { $f: F } «}» return { $f }", "expected `or`, found `}`", None),
    ("match { either { $f: F } «and» { $f: F } } return { $f }", "expected `or`, found `and`", None),
    ("match { either { $f: F } or «$f».a } return { $f }", "expected `{`, found `$f`", None),
    ("match { path $w «$a» knows $b } return { $f }", "expected `=`, found `$a`", "a path is written `path $w = $a knows{1,5} $b`"),
    ("match { path $w = $a «}» return { $f }", "expected an edge name, found `}`", None),
    ("match { $a knows| «$b» } return { $f }", "expected an edge name, found `$b`", None),
    ("match { $a <knows|likes «$b» } return { $f }", "expected `>`, found `$b`", None),
    ("match { $a knows{3,2«,»1} $b } return { $f }", "expected `}`, found `,`", None),
    ('match { serch($f.a, "x") «}» return { $f }', "expected a comparison, found `}`", "did you mean `search`?"),
    ("match { nott «{» $f: F } } return { $f }", "expected a comparison, found `{`", "did you mean `not`?"),
    ("match { not { «}» } return { $f }", "expected a clause, found `}`", None),
    ("match { $f.a «contain» 1 } return { $f }", "expected a comparison, found `contain`", "did you mean `contains`?"),
    ("match { bm25($f.a, 1) «}» return { $f }", "expected a comparison, found `}`", None),
    ("match { $a «not» { $b: F } } return { $f }", "expected an edge name, found `not`", "a negation is a clause of its own: `not { .. }`"),
    ("match { $a «Knows» $b } return { $f }", "expected an edge name, found `Knows`", "it starts with a lower-case letter: `knows`"),
    ("match { $a $b «knows» $c } return { $f }", "expected `:`, found `knows`", None),
    ("match { $a knows «b» } return { $f }", "expected the variable at the other end of the edge, found `b`",
     "variables start with `$`: `$b`"),
    ("match { $a knows{3 «4»} $b } return { $f }", "expected `,`, found `4`", "bounds have two ends: `{3,3}`"),
    ("match { $a knows{«,»3} $b } return { $f }", "expected the least number of hops, found `,`", None),
    ("match { $a <knows «$b» } return { $f }", "expected `>`, found `$b`", None),
    ("match { $f: F }\n«retrun» { $f }", "expected `return` or a change, found `retrun`", "did you mean `return`?"),
    ("match { $f: F } «updat» $f set { a: 1 }", "expected `return` or a change, found `updat`", "did you mean `update`?"),
    ("query q() { match { $f: F } «}»", "expected `return` or a change, found `}`", None),
    ("match { $f: F } return «distinc» { $f }", "expected `{`, found `distinc`", "did you mean `distinct`?"),
    ("match { $f: F } return { distinct «$f» }", "expected `,` or `}`, found `$f`",
     "`distinct` stands before the braces: `return distinct { .. }`"),
    ("match { $f: F } return { $f.a «>» 1 }", "expected a value, found `>`", None),
    ("match { $f: F } return { 1 + «}»", "expected a value, found `}`", None),
    ("match { $f: F } return { lower($f.a, «)» }", "expected a value, found `)`", None),
    ("match { $f: F } return { min(«distinct» $f.a) }", "expected a value, found `distinct`",
     "`min` is the same with and without `distinct`"),
    ("match { $f: F } return { sum(«*») }", "expected a value, found `*`", None),
    ("match { $f: F } return { «}»", "expected a value, found `}`", None),
    ("match { $f: F } return { $f as «}»", "expected an alias, found `}`", None),
    ("match { $f: F } return { $f as «Film» }", "expected an alias, found `Film`", "it starts with a lower-case letter: `film`"),
    ("match { $f: F } return { count(«)» }", "expected a value, found `)`", None),
    ("match { $f: F } return { nearest(«f».vec, 1) }", "expected a vector property `$v.property`, found `f`", None),
    ("match { $f: F } return { nearest($f«,» 1) }", "expected `.`, found `,`", None),
    ("match { $f: F } return { rrf(«search»(a, b), bm25(a, b)) }", "expected `nearest(..)` or `bm25(..)`, found `search`", None),
    ("match { $f: F } return { $f } order { nearest($f.a, 1) «desc» }", "expected `,` or `}`, found `desc`",
     "`nearest` has no direction: the nearest come first"),
    ("match { $f: F } return { $f } order { a «b» }", "expected `}`, found `b`", "sort keys are separated by commas"),
    ("match { $f: F } return { $f } order { $f.a nulls «}»", "expected `first` or `last`, found `}`", None),
    ("match { $f: F } return { $f } order { $f.a nulls «frist» }", "expected `first` or `last`, found `frist`", "did you mean `first`?"),
    ("match { $f: F } return { $f } order { $f.a desc «asc» }", "expected `}`, found `asc`", "sort keys are separated by commas"),
    ("match { $f: F } return { $f } skip «-»1", "expected the number of rows to skip, found `-`", None),
    ("match { $f: F } return { $f } limit «1.5»", "expected the greatest number of rows, found `1.5`", None),
    ("match { $f: F } return { $f } limit $f«.»a", "expected `}`, found `.`", None),
    ("match { $f: F } return { $f } limit 1 «skip» 2", "expected `}`, found `skip`",
     "the parts of a read come in the order match, return, order, skip, limit"),
    ("match { $f: F } return { $f } limit «-»1", "expected the greatest number of rows, found `-`", None),
    ("match { $f: F } return { $f } limit 1 «order» { $f }", "expected `}`, found `order`",
     "the parts of a read come in the order match, return, order, skip, limit"),
    ("match { $f: F } return { $f } «limt» 1", "expected `}`, found `limt`", "did you mean `limit`?"),
    ("match { $f: F } return { $f } «insert» F { a: 1 }", "expected `}`, found `insert`", "a query either reads or changes the graph"),
    ("query q() { «}»", "expected `match`, `insert`, `update` or `delete`, found `}`", None),
    ("«instert» F { a: 1 }", "expected `match`, `insert`, `update` or `delete`, found `instert`", "did you mean `insert`?"),
    ("insert F { «}»", "expected a property name, found `}`", None),
    ("insert F { a: b «>» 1 }", "expected a property name, found `>`", None),
    ("upsert F { «}»", "expected a property name, found `}`", None),
    ("«upsrt» F { a: 1 }", "expected `match`, `insert`, `update` or `delete`, found `upsrt`", "did you mean `upsert`?"),
    ("insert «f» { a: 1 }", "expected a node or edge type name, found `f`", None),
    ("query q() { update F set { a: 1 } «}»", "expected `where`, found `}`", None),
    ("update F «{» a: 1 } where b = 1", "expected `set`, found `{`", None),
    ("update $f «{» a: 1 }", "expected `set`, found `{`", None),
    ("delete F where a = 1 or «}»", "expected a value, found `}`", None),
    ("delete F where not «a» = 1", "expected a comparison, found `a`", "a condition is negated in parentheses: `not (..)`"),
    ("delete F where a «b»", "expected a comparison, found `b`", None),
    ("delete F where «}»", "expected a value, found `}`", None),
    ("delete $f «where» a = 1", "expected `match`, `insert`, `update` or `delete`, found `where`",
     "`where` goes with a type; which rows a variable stands for is said in the match block"),
    ("delete $a, «F»", "expected a variable, found `F`", None),
    ("match { $f: F } delete $f «return» { $f }", "expected `match`, `insert`, `update` or `delete`, found `return`",
     "a query either reads or changes the graph"),
    ("match { $f: F } delete $f match { $f: F } «return» { $f }", "expected a change, found `return`",
     "a query either reads or changes the graph"),
    ("«quer» q() {}", "expected `query`, found `quer`", "did you mean `query`?"),
    ("query «Q»() {}", "expected a query name, found `Q`", "it starts with a lower-case letter: `q`"),
    ("query q «{»}", "expected `(`, found `{`", "a query without parameters is written `query name() { .. }`"),
    ("query q(«p»: I32) {}", "expected a parameter, found `p`", "parameters start with `$`: `$p: String`"),
    ("query q($p «I32») {}", "expected `:`, found `I32`", "a parameter has a type: `$p: String`"),
    ("query q($p: «enum»(a)) {}", "expected a type, found `enum`", None),
    ("query q($p: I32, «$p»: I64) {}", "duplicate parameter `$p`", None),
    ("query q() { delete A where b = 1 } query «q»() {}", "duplicate query 'q'", None),
    ('query q() «@descripton»("x") {}', "expected `@description`, `@instruction` or `{`, found `@descripton`",
     "did you mean `@description`?"),
    ('query q() @description("x") «@description»("y") {}', "query 'q' declares @description multiple times", None),
    ("query q() @description(«x») {}", "expected a string, found `x`", None),
    ("query q() { delete A where b = 1«»", "expected `}`, found the end of the text", None),
    ("bare match { $f: F } return { $f } «query» q() {}", "expected the end of the query, found `query`",
     "a file holds named queries, or one query without a name"),
    ("bare match { $f: F } return { $f } limit 1 «order» { $f }", "expected the end of the query, found `order`",
     "the parts of a read come in the order match, return, order, skip, limit"),
    ("bare match { $f: F } return { $f } «}»", "expected the end of the query, found `}`", None),
    ("bare insert F { a: 1 } «}»", "expected the end of the query, found `}`", None),
    ("bare «upsrt» F { a: 1 }", "expected `query`, found `upsrt`", "did you mean `upsert`?"),
    ("bare «mtch» { $f: F } return { $f }", "expected `query`, found `mtch`", "did you mean `match`?"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message", "hint"), REFUSED)
def test_refusals(marked: str, message: str, hint: str | None) -> None:
    if marked.startswith("bare "):
        marked = marked.removeprefix("bare ")
    elif not marked.startswith(("query", "«quer»")):
        marked = f"query q($p: String) {{ {marked} }}"
    start, end = marked.index("«"), marked.index("»") - 1
    with pytest.raises(LanguageError) as caught:
        parse_queries(marked.replace("«", "").replace("»", ""), name="a.gq")
    error = caught.value
    assert (error.kind, error.code, error.message) == (Kind.SYNTAX, "Q000", f"parse error: {message}")
    assert error.span is not None
    assert (error.span.start, error.span.end) == (start, end)
    line = marked[:start].count("\n") + 1
    assert error.position == (line, start - marked.rfind("\n", 0, start))
    assert str(error).startswith(f"a.gq:{line}:{error.position.column}: parse error: ")
    if hint is not None:
        assert error.hint == hint


# selecting


def test_a_query_is_selected_by_name_or_by_being_alone() -> None:
    file = parse_queries(QUERIES)
    assert select_query(file, "change") is file.queries[1]
    alone = QueryFile(file.queries[:1])
    assert select_query(alone, None) is file.queries[0]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (QUERIES, None, "the text has 6 queries: similar, change, more, upkeep, unlink, clear; name one of them"),
        (QUERIES, "nope", "query 'nope' not found; the text has 6 queries: similar, change, more, upkeep, unlink, clear"),
        ("", None, "the text has no query"),
    ],
)
def test_selecting_what_is_not_there(text: str, name: str | None, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        select_query(parse_queries(text), name)
    assert caught.value.message == message
