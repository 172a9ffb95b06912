"""Each production of the query language, and each way a query file can be refused by its text alone."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang import parse_queries, select_query
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
    QueryFile,
    Read,
    Rrf,
    Search,
    Statement,
    StringLiteral,
    Traversal,
    Update,
    Value,
    Variable,
)
from omnigraph.lang.tree import ListType, Name, Scalar, ScalarType, VectorType
from tests.unit.lang.texts import QUERIES

A, B, F, P, R = (Variable(name) for name in "abfpr")
SLUG = PropertyRef(F, Name("slug"))
VEC = PropertyRef(F, Name("vec"))
ONE = IntegerLiteral(1)


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
    assert [query.name.text for query in parse_queries(QUERIES).queries] == ["similar", "change", "clear"]


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


@pytest.mark.parametrize("word", ["query", "match", "not", "limit", "count", "now", "true"])
def test_keywords_are_names_too(word: str) -> None:
    text = f"query {word}(${word}: I32) {{ match {{ ${word}: F {{ {word}: ${word} }} }} return {{ ${word}.{word} as {word} }} }}"
    (query,) = parse_queries(text).queries
    assert query.body == Read(
        (Binding(Variable(word), Name("F"), (PropertyMatch(Name(word), Variable(word)),)),),
        (Projection(PropertyRef(Variable(word), Name(word)), Name(word)),),
    )


# clauses


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("$f: Film", Binding(F, Name("Film"))),
        ("$f: Film { a: 1 }", Binding(F, Name("Film"), (PropertyMatch(Name("a"), ONE),))),
        ("$f: Film { a: $p, b: now(), }", Binding(F, Name("Film"), (PropertyMatch(Name("a"), P), PropertyMatch(Name("b"), Now())))),
        ("$a knows $b", Traversal(A, Name("knows"), B)),
        ("$a aCTEDIN $_", Traversal(A, Name("aCTEDIN"), Variable("_"))),
        ("$a $r:knows $b", Traversal(A, Name("knows"), B, edge_variable=R)),
        ("$a <knows> $b", Traversal(A, Name("knows"), B, undirected=True)),
        ("$a $r : <knows>{1,2} $b", Traversal(A, Name("knows"), B, R, undirected=True, hops=Hops(1, 2))),
        ("$a knows{0,}$b", Traversal(A, Name("knows"), B, hops=Hops(0))),
        ("$a contains $b", Traversal(A, Name("contains"), B)),
        ("$p contains $b", Filter(P, Containment.CONTAINS, B)),
        ("$p starts_with $b", Filter(P, Containment.STARTS_WITH, B)),
        ("$p knows $b", Traversal(P, Name("knows"), B)),
        ("$p $r:contains $b", Traversal(P, Name("contains"), B, edge_variable=R)),
        ("$a < $b", Filter(A, Comparison.LT, B)),
        ("$a < knows", Filter(A, Comparison.LT, AliasRef("knows"))),
        ("$f.slug = -1", Filter(SLUG, Comparison.EQ, IntegerLiteral(-1))),
        ('"x" contains $f.slug', Filter(StringLiteral("x"), Containment.CONTAINS, SLUG)),
        ("search($f.slug, $p)", Search(SLUG, P)),
        ("fuzzy($f.slug, $p, 1)", Fuzzy(SLUG, P, ONE)),
        ("match_text($f.slug, $p)", MatchText(SLUG, P)),
        ("search($f.slug, $p) = false", Filter(Search(SLUG, P), Comparison.EQ, BoolLiteral(value=False))),
        ("not = 1", Filter(AliasRef("not"), Comparison.EQ, ONE)),
        ("not { $a knows $b  not { $b: F } }", Negation((Traversal(A, Name("knows"), B), Negation((Binding(B, Name("F")),))))),
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
    assert read("match { $f: F } return { $f }") == Read((Binding(F, Name("F")),), (Projection(F),), (), None)


# mutations


def test_insert_update_delete() -> None:
    assignments = (Assignment(Name("a"), ONE), Assignment(Name("b"), P))
    where = Predicate(Name("slug"), Comparison.NE, Now())
    assert statements("insert F { a: 1, b: $p } update F set { a: 1 b: $p, } where slug != now() delete F where slug != now()") == (
        Insert(Name("F"), assignments),
        Update(Name("F"), assignments, where),
        Delete(Name("F"), where),
    )


@pytest.mark.parametrize("value", [ONE, P, Now(), StringLiteral("x"), ListLiteral((ONE,)), DateLiteral("d"), BoolLiteral(value=True)])
def test_values(value: Value) -> None:
    written = {Now(): "now()", P: "$p", ONE: "1", StringLiteral("x"): '"x"', ListLiteral((ONE,)): "[1]", DateLiteral("d"): 'date("d")'}
    text = written.get(value, "true")
    assert statements(f"insert F {{ a: {text} }}") == (Insert(Name("F"), (Assignment(Name("a"), value),)),)


# refusals: inside `query q($p: String) { .. }` unless the text starts with `query`

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
     "there is no null literal; pass null through a nullable parameter"),
    ("match { $f: F { a: $p«.»b } } return { $f }", "expected `,` or `}`, found `.`", None),
    ("match { $f.a =«=» 1 } return { $f }", "expected a value, found `=`", "equality is a single `=`"),
    ("match { $f.a = «1e5» } return { $f }", "invalid number: 1e5", None),
    ("match { $f.a = «18446744073709551616» } return { $f }",
     "invalid integer: 18446744073709551616 is greater than 18446744073709551615", None),
    ("match { $f.a = -«9223372036854775809» } return { $f }",
     "invalid integer: 9223372036854775809 is greater than 9223372036854775808", None),
    ('match { $f.a = "«\\x»" } return { $f }', "unsupported escape sequence: \\x", None),
    ("match { $f.a = 1 or «$f».b = 2 } return { $f }", "expected a comparison, found `$f`",
     "clauses stand side by side and must all hold; there is no `or`"),
    ("match { nott «{» $f: F } } return { $f }", "expected a comparison, found `{`", "did you mean `not`?"),
    ("match { not { «}» } return { $f }", "expected a clause, found `}`", None),
    ("match { $f.a «contain» 1 } return { $f }", "expected a comparison, found `contain`", "did you mean `contains`?"),
    ("match { bm25($f.a, 1) «}» return { $f }", "expected a comparison, found `}`", None),
    ("match { $a «not» { $b: F } } return { $f }", "expected an edge name, found `not`", "a negation is a clause of its own: `not { .. }`"),
    ("match { $a «Knows» $b } return { $f }", "expected an edge name, found `Knows`", "it starts with a lower-case letter: `knows`"),
    ("match { $a $b «knows» $c } return { $f }", "expected `:`, found `knows`", None),
    ("match { $a knows «b» } return { $f }", "expected the variable at the other end of the edge, found `b`",
     "variables start with `$`: `$b`"),
    ("match { $a knows{3«}» $b } return { $f }", "expected `,`, found `}`", "bounds have two ends: `{3,3}`"),
    ("match { $a knows{«,»3} $b } return { $f }", "expected the least number of hops, found `,`", None),
    ("match { $a <knows $b «}» return { $f }", "expected a comparison, found `}`", None),
    ("match { $f: F }\n«retrun» { $f }", "expected `return`, found `retrun`", "did you mean `return`?"),
    ("match { $f: F } return { «}»", "expected a value, found `}`", None),
    ("match { $f: F } return { $f as «}»", "expected an alias, found `}`", None),
    ("match { $f: F } return { $f as «Film» }", "expected an alias, found `Film`", "it starts with a lower-case letter: `film`"),
    ("match { $f: F } return { «cuont»($f) }", "expected a function, found `cuont`", "did you mean `count`?"),
    ("match { $f: F } return { count(«)» }", "expected a value, found `)`", None),
    ("match { $f: F } return { nearest(«f».vec, 1) }", "expected a vector property `$v.property`, found `f`", None),
    ("match { $f: F } return { nearest($f«,» 1) }", "expected `.`, found `,`", None),
    ("match { $f: F } return { rrf(«search»(a, b), bm25(a, b)) }", "expected `nearest(..)` or `bm25(..)`, found `search`", None),
    ("match { $f: F } return { $f } order { nearest($f.a, 1) «desc» }", "expected `,` or `}`, found `desc`",
     "`nearest` has no direction: the nearest come first"),
    ("match { $f: F } return { $f } order { a «b» }", "expected `}`, found `b`", "sort keys are separated by commas"),
    ("match { $f: F } return { $f } limit «-»1", "expected the greatest number of rows, found `-`", None),
    ("match { $f: F } return { $f } limit 1 «order» { $f }", "expected `}`, found `order`",
     "the parts of a read come in the order match, return, order, limit"),
    ("match { $f: F } return { $f } «limt» 1", "expected `}`, found `limt`", "did you mean `limit`?"),
    ("match { $f: F } return { $f } «insert» F { a: 1 }", "expected `}`, found `insert`", "a query either reads or changes the graph"),
    ("query q() { «}»", "expected `match`, `insert`, `update` or `delete`, found `}`", None),
    ("«instert» F { a: 1 }", "expected `match`, `insert`, `update` or `delete`, found `instert`", "did you mean `insert`?"),
    ("insert F { «}»", "expected a property name, found `}`", None),
    ("insert F { a: $f«.»b }", "expected a property name, found `.`", None),
    ("insert «f» { a: 1 }", "expected a node or edge type name, found `f`", None),
    ("query q() { update F set { a: 1 } «}»", "expected `where`, found `}`", None),
    ("update F «{» a: 1 } where b = 1", "expected `set`, found `{`", None),
    ("delete F where a «contains» 1", "expected one of = != < <= > >=, found `contains`", "`contains` and `starts_with` are for reads"),
    ("delete F where «$f».a = 1", "expected a property name, found `$f`", None),
    ("delete F where a = 1 «and» b = 2", "expected `match`, `insert`, `update` or `delete`, found `and`", None),
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
    ("query q() { delete A where b = 1«»", "expected `match`, `insert`, `update` or `delete`, found the end of the text", None),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message", "hint"), REFUSED)
def test_refusals(marked: str, message: str, hint: str | None) -> None:
    if not marked.startswith(("query", "«quer»")):
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
        (QUERIES, None, "query file contains multiple queries; pass --name"),
        (QUERIES, "nope", "query 'nope' not found"),
        ("", None, "query file contains no query"),
    ],
)
def test_selecting_what_is_not_there(text: str, name: str | None, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        select_query(parse_queries(text), name)
    assert caught.value.message == message
