"""Every type error: its code, its message, and the piece of text it stands at (between « and »)."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidInput, Kind, LanguageError, ResourceLimitExceeded
from omnigraph.lang import parse_queries, select_query
from omnigraph.plan.check import check_mutation
from omnigraph.plan.type_codes import Code
from tests.unit.plan.cinema import checked, cinema, mutation_of, read_of, wrapped

FILM = "match { $f: Film } return "
VEC = "[1.0, 0.0, 0.0]"

READS: list[tuple[str | None, str, str]] = [
    ("T1", "match { $x: «Titel» } return { $x.title }", "unknown node type `Titel`"),
    ("T1", "match { $x: «ActedIn» } return { $x.role }", "unknown node type `ActedIn`"),
    ("T2", "match { $f: Film { «yeer»: 1 } } return { $f.slug }", "node type `Film` has no property `yeer`"),
    ("T3", 'match { $f: Film { year: «"x"» } } return { $f.slug }', "literal of type `String` does not fit `Film.year` of type `I32`"),
    ("T3", 'match { $f: Film { status: «"gone"» } } return { $f.slug }', "invalid enum value 'gone' for `Film.status`"),
    ("T3", "match { $f: Film { status: «1» } } return { $f.slug }", "literal of type `I64` does not fit `Film.status`"),
    ("T3", 'match { $f: Film { genres: «["a"]» } } return { $f.slug }', "list equality is not supported"),
    ("T3", "match { $f: Film { genres: «1» } } return { $f.slug }", "does not fit `Film.genres`"),
    ("T3", 'match { $s: Script { «body: "x"» } } return { $s.code }', "Blob property `Script.body` cannot be matched"),
    ("T3", "match { $f: Film { vec: «[1.0]» } } return { $f.slug }", "vector property `Film.vec` expects 3 dimensions, got 1"),
    ("T3", f"match {{ $f: Film {{ vec: «{VEC}» }} }} return {{ $f.slug }}", "vector equality is not supported"),
    ("T3", "match { $f: Film { year: «18446744073709551615» } } return { $f.slug }", "integer literal exceeds I64"),
    ("T4", "match { $p: Person  $p «knew» $q } return { $q.name }", "unknown edge `knew`"),
    ("T5", "match { $s: Studio  «$s» actedIn $f } return { $f.slug }", "`$s` is of type `Studio`, but edge `ActedIn`"),
    ("T5", "match { $s: Studio  $p actedIn «$s» } return { $p.name }", "`$s` is of type `Studio`, but edge `ActedIn`"),
    ("T5", "match { $p: Person  $s: Studio  $p actedIn «$s» } return { $p.name }", "this end of edge `ActedIn` is `Film`"),
    ("T5", "match { $x actedIn «$x» } return { $x }", "this end of edge `ActedIn` is `Film`"),
    ("T6", FILM + "{ «$g».slug }", "variable `$g` is not bound"),
    ("T6", FILM + "{ $f.«nope» }", "node type `Film` has no property `nope`"),
    ("T6", "match { «$f».year > 1  $f: Film } return { $f.slug }", "variable `$f` is not bound"),
    ("T6", "match { $f: Film  $_ actedIn $f  «$_».name = 1 } return { $f.slug }", "variable `$_` is not bound"),
    ("T6", "match { $p $r:actedIn $f  $r.«nope» = 1 } return { $f.slug }", "edge type `ActedIn` has no property `nope`"),
    ("T6", 'match { $f: Film  not { $f madeBy $s } «$s».name = "x" } return { $f.slug }', "variable `$s` is not bound"),
    ("T7", 'match { $f: Film  «$f.year = "x"» } return { $f.slug }', "`=` does not apply to `I32` and `String`"),
    ("T7", 'match { $f: Film  «$f.genres» = ["a"] } return { $f.slug }', "`[String]` cannot be compared with `=`"),
    ("T7", f"match {{ $f: Film  «$f.vec» = {VEC} }} return {{ $f.slug }}", "`Vector(3)` cannot be compared with `=`"),
    ("T7", 'match { $s: Script  «$s.body» = "x" } return { $s.code }', "`Blob` cannot be compared with `=`"),
    ("T7", 'match { $f: Film  «$f.year contains "x"» } return { $f.slug }', "`contains` does not apply to `I32` and `String`"),
    ("T7", "match { $f: Film  «$f.genres contains 1» } return { $f.slug }", "`contains` does not apply to `[String]` and `I64`"),
    ("T7", 'match { $f: Film  «$f.genres starts_with "x"» } return { $f.slug }', "`starts_with` does not apply"),
    ("T7", 'match { $f: Film  «$f» = "alien" } return { $f.slug }', "a node cannot be compared with `=`"),
    ("T7", "($b: Bool) match { $f: Film { year: «$b» } } return { $f.slug }", "parameter `$b` of type `Bool` does not match `Film.year`"),
    ("T7", "($g: [String]) match { $f: Film { genres: «$g» } } return { $f.slug }", "parameter `$g` of type `[String]` does not match"),
    ("T7", "match { $f: Film { year: «now()» } } return { $f.slug }", "now() does not match `Film.year` of type `I32`"),
    ("T7", "match { $f: Film  «$f.released < now()» } return { $f.slug }", "`<` does not apply to `Date` and `DateTime`"),
    ("T7", "match { $f: Film  $f.rating < «18446744073709551615» } return { $f.slug }", "integer literal exceeds I64"),
    ("T8", FILM + "{ sum(«$f.title») as s }", "sum needs a number, got `String`"),
    ("T8", FILM + "{ avg(«$f») as s }", "avg needs a number, got a node"),
    ("T8", FILM + "{ min(«$f.genres») as s }", "min needs a value that has an order, got `[String]`"),
    ("T8", FILM + "{ sum(«count($f)») as s }", "sum cannot take the aggregate count"),
    ("T8", FILM + '{ count(«search($f.plot, "x")») as s }', "count cannot take the text search search"),
    ("T9", "match { $f: Film  «not { $p: Person }» } return { $f.slug }", "a negation must mention a variable bound outside it"),
    ("T9", "match { $f: Film  «not { not { $f madeBy $s } }» } return { $f.slug }", "a negation must mention"),
    ("T9", FILM + "{ count($f) as n, «1 as one» }", "beside an aggregate only expressions with a variable"),
    ("T15", "match { $p: Person  $p influenced«{0,2}» $q } return { $q.name }", "hop bounds start at 1"),
    ("T15", "match { $p: Person  $p influenced«{3,1}» $q } return { $q.name }", "hop bounds run backwards"),
    ("T15", "match { $p: Person  $p influenced«{1,1001}» $q } return { $q.name }", "at most 1000 hops"),
    ("T15", "match { $p: Person  $p influenced«{1,}» $q } return { $q.name }", "hop bounds need an upper end"),
    ("T15", FILM + '{ $f.slug } order { nearest(«$f.title», "x") } limit 1', "nearest needs a vector property, got `String`"),
    ("T15", FILM + '{ $f.slug } order { nearest(«$g».vec, "x") } limit 1', "variable `$g` is not bound"),
    ("T15", FILM + '{ $f.slug } order { nearest($f.«nope», "x") } limit 1', "has no property `nope`"),
    ("T15", FILM + "{ $f.slug } order { nearest($f.vec, «[1.0,0.0]») } limit 1", "vector dimension mismatch"),
    ("T15", FILM + "{ $f.slug } order { nearest($f.vec, «5») } limit 1", "nearest query must be a vector or a String, got `I64`"),
    ("T15", FILM + "{ $f.slug } order { nearest($f.vec, «$f») } limit 1", "nearest query must be a vector or a String, got a node"),
    ("T15", FILM + "{ $f.slug } order { nearest($f.vec, «$f.title») } limit 1", "nearest query must be a literal or a parameter"),
    ("T15", "($q: [F32]) " + FILM + "{ $f.slug } order { nearest($f.vec, «$q») } limit 1", "nearest query must be a vector or a String"),
    ("T17", FILM + f"{{ $f.slug }} order {{ «nearest($f.vec, {VEC})» }}", "nearest ordering requires a limit"),
    ("T17", FILM + f"{{ nearest($f.vec, {VEC}) as d }} order {{ «d» }}", "nearest ordering requires a limit"),
    ("T18", FILM + f"{{ $f.slug as s }} order {{ nearest($f.vec, {VEC}), «s» }} limit 2", "cannot be combined with ordering by an alias"),
    ("T18", FILM + f"{{ $f.slug as s, nearest($f.vec, {VEC}) as d }} order {{ d, «s» }} limit 2", "cannot be combined"),
    ("T19", 'match { $f: Film  search(«$f.year», "x") } return { $f.slug }', "search field must be a String property, got `I32`"),
    ("T19", "match { $f: Film  search($f.plot, «5») } return { $f.slug }", "search query must be a String, got `I64`"),
    ("T19", 'match { $f: Film  search(«"a"», "x") } return { $f.slug }', "search field must be a String property"),
    ("T19", 'match { $f: Film  fuzzy(«$f.genres», "x") } return { $f.slug }', "fuzzy field must be a String property, got `[String]`"),
    ("T19", 'match { $f: Film  fuzzy($f.plot, "x", «1.5») } return { $f.slug }', "max_edits of fuzzy must be an integer"),
    ("T19", 'match { $f: Film  fuzzy($f.plot, "x", «-1») } return { $f.slug }', "max_edits of fuzzy must be an integer, 0 or more"),
    ("T19", "match { $f: Film  search($f.plot, «$f.title») } return { $f.slug }", "search query must be a literal or a parameter"),
    ("T20", FILM + "{ $f.slug } order { bm25($f.plot, «5») }", "bm25 query must be a String, got `I64`"),
    ("T20", FILM + '{ $f.slug } order { bm25(«$f», "a") }', "bm25 field must be a String property, got a node"),
    ("T20", 'match { $f: Film  match_text(«$f.vec», "x") } return { $f.slug }', "match_text field must be a String property"),
    ("T21", FILM + '{ $f.slug } order { rrf(bm25($f.plot, "a"), bm25($f.title, "a"), «0») } limit 1', "k of rrf must be greater than 0"),
    ("T21", FILM + '{ $f.slug } order { rrf(bm25($f.plot, "a"), bm25($f.title, "a"), «1.5») } limit 1', "k of rrf must be an integer"),
    ("T21", FILM + '{ $f.slug } order { «rrf(bm25($f.plot, "a"), bm25($f.title, "a"))» }', "rrf ordering requires a limit"),
    (
        "T21",
        'match { $f: Film  $g: Film } return { $f.slug } order { rrf(bm25($f.plot, "a"), «bm25($g.plot, "a")») } limit 1',
        "both rankings of rrf must rank the same variable",
    ),
    ("T22", "match { $p: Person  $p <«actedIn»> $f } return { $f.slug }", "`ActedIn` goes from `Person` to `Film`"),
    ("T23", "match { $p: Person  $p $r:influenced«{1,2}» $q } return { $q.name }", "takes no hop bounds"),
    ("T23", "match { $p: Person  $p $_:influenced«{1,2}» $q } return { $q.name }", "takes no hop bounds"),
    ("T23", "match { $p $r:actedIn $f } return { «$r» }", "`$r` is an edge and cannot be used as a node"),
    ("T23", "match { $p «$p»:actedIn $f } return { $f }", "`$p` cannot be both an edge and its endpoint"),
    ("T23", "match { $p: Person  $q «$p»:actedIn $f } return { $f }", "`$p` is already bound"),
    ("T23", "match { $p $r:actedIn $f  «$r» madeBy $s } return { $f }", "`$r` is an edge and cannot be used as a node"),
    ("T23", "match { $p $r:actedIn $f  «$r»: Film } return { $f }", "`$r` is an edge and cannot be used as a node"),
    ("T23", 'match { $p $r:actedIn $f  search(«$r.role», "x") } return { $f }', "search works on nodes"),
    ("T24", "match { $s: Script } return { «$s.body» }", "Blob property `body` cannot be read by a query"),
    ("T24", "match { $s: Script } return { count(«$s.body») as n }", "Blob property `body` cannot be read by a query"),
    ("T24", "match { $s: Script } return { $s.code } order { «$s.body» }", "Blob property `body` cannot be read by a query"),
    ("T24", "($b: Blob) match { $s: Script } return { «$b» as b }", "Blob parameter cannot be read by a query"),
    (None, FILM + "{ «$zz» }", "type error: variable `$zz` is not bound"),
    (None, "match { $f: Film { slug: «$zz» } } return { $f }", "type error: variable `$zz` is not bound"),
    (None, "match { $f: Film  «$f»: Person } return { $f }", "variable `$f` already bound to type `Film`, cannot rebind to `Person`"),
    (None, "match { $f actedIn $p  «$f»: Film } return { $f }", "variable `$f` already bound to type `Person`, cannot rebind to `Film`"),
    (None, "($v: «Vector(0)») " + FILM + "{ $f }", "unknown parameter type `Vector(0)` for `$v`"),
    (None, "($v: «[Blob]») " + FILM + "{ $f }", "unknown parameter type `[Blob]` for `$v`"),
    (None, "(«$__nanograph_now»: DateTime) " + FILM + "{ $f }", "parameter name `$__nanograph_now` is reserved"),
    (None, "match { $f: Film  $f.title = [«[1]»] } return { $f }", "nested list literals are not supported"),
    (None, 'match { $f: Film  $f.genres contains [1, «"a"»] } return { $f }', "list literal elements must share a compatible scalar type"),
    (None, 'match { $f: Film  $f.released = «date("1979-13-01")» } return { $f }', "invalid Date literal '1979-13-01'"),
    (None, 'match { $f: Film  $f.added_at = «datetime("noon")» } return { $f }', "invalid DateTime literal 'noon'"),
    (None, f"match {{ $f: Film  «nearest($f.vec, {VEC})» < 0.5 }} return {{ $f }}", "unsupported expression in filter"),
    (None, "match { $f: Film  «title» = 1 } return { $f }", "`title` is no value here"),
    (None, FILM + "{ $f.title as t, «t» }", "unsupported projection expression"),
    (None, FILM + '{ «search($f.plot, "x")» as t }', "unsupported projection expression"),
    ("T25", "match { $f: Film  («$f.year» and $f.year > 1) } return { $f }", "a condition must be a Bool, and this is `I32`"),
    ("T26", "match { $f: Film } return { $f.title as x, «$f.year as x» }", "two outputs are called `x`"),
    ("T26", "match { $f: Film } return { count($f), «count($f)» }", "two outputs are called `count(f)`"),
    ("T27", "match { $f: Film } return { «uper»($f.title) as t }", "unknown function `uper`"),
    ("T7", "match { $f: Film } return { «upper($f.year)» as t }", "`upper` does not apply to `I32`"),
    ("T7", "match { $f: Film } return { «$f.title + $f.year» as t }", "`+` does not apply to `String` and `I32`"),
    ("T7", 'match { $f: Film  «$f.year in ["a"]» } return { $f }', "`in` does not apply to `I32` and `[String]`"),
    ("T28", "($n: String) match { $f: Film } return { $f } limit «$n»", "`limit` needs an integer"),
    ("T28", "match { $f: Film } return { $f } skip «$n»", "`$n` is not a declared parameter"),
    ("T29", "match { $p: Person  $p actedIn|«influenced» $f } return { $p }", "`ActedIn` goes from `Person` to `Film`"),
    ("T23", "match { $p: Person  $p «$r»:actedIn|directed $f } return { $p }", "an edge variable stands for an edge of one type"),
    ("T30", "match { $p: Person  optional { $p actedIn $f }  «$f»: Film } return { $p }", "`$f` of an optional block may be null"),
    ("T6", "match { path $w = $p influenced{1,3} $q } return { «$w» }", "`$w` is a path and cannot be used as a node"),
    ("T7", "match { $p: Person } return { «nodes($p)» as n }", "`nodes` takes a path"),
    ("T9", "match { $p: Person  «exists { $f: Film }» } return { $p }", "`exists` must mention a variable"),
    ("T9", "match { $p: Person  «either { $p actedIn $f } or { $g: Film }» } return { $p }", "each block of `either` must mention"),
    ("T9", "match { $p: Person } return { «$p.born + count($p) as n» }", "beside an aggregate, in one expression"),
]

MUTATIONS: list[tuple[str | None, str, str]] = [
    ("T3", "insert Person { name: «5» }", "literal of type `I64` does not fit `Person.name` of type `String`"),
    ("T3", 'insert Script { code: "a", body: «"x"» }', "a literal cannot be a Blob (`Script.body`)"),
    ("T3", 'update Film set { status: «"gone"» } where slug = "a"', "invalid enum value 'gone' for `Film.status`"),
    ("T3", 'update Film set { vec: «[1.0]» } where slug = "a"', "vector property `Film.vec` expects 3 dimensions, got 1"),
    ("T3", "delete Person where born = «true»", "literal of type `Bool` does not fit `Person.born` of type `I32`"),
    ("T3", "delete ActedIn where from = «5»", "does not fit `ActedIn.from` of type `String`"),
    ("T7", "($b: Bool) insert Person { name: «$b» }", "parameter `$b` of type `Bool` does not fit `Person.name` of type `String`"),
    ("T7", 'update Person set { born: «now()» } where name = "Ada"', "now() does not fit `Person.born` of type `I32`"),
    ("T7", '($b: I32) insert Script { code: "a", body: «$b» }', "parameter `$b` of type `I32` does not fit `Script.body` of type `Blob`"),
    ("T7", '($v: Vector(2)) update Film set { vec: «$v» } where slug = "a"', "parameter `$v` of type `Vector(2)` does not fit `Film.vec`"),
    ("T10", "insert «Ghost» { a: 1 }", "unknown node or edge type `Ghost`"),
    ("T10", 'delete «actedIn» where from = "Ada"'.replace("actedIn", "Actedin"), "unknown node or edge type `Actedin`"),
    ("T11", 'update Film set { «nope»: 1 } where slug = "a"', "node type `Film` has no property `nope`"),
    ("T11", 'delete Script where «body» = "a"', "Blob property `Script.body` cannot be tested"),
    ("T11", 'delete Person where «from» = "a"', "node type `Person` has no property `from`"),
    ("T11", 'delete ActedIn where «src» = "a"', "edge type `ActedIn` has no property `src`"),
    ("T12", '«insert ActedIn { from: "Ada" }»', "insert of edge `ActedIn` misses its endpoint `to`"),
    ("T12", '«insert Film { slug: "x" }»', "insert of `Film` misses required property `status`"),
    ("T13", 'update Person set { born: 1, «born: 2» } where name = "Ada"', "property `born` is assigned twice"),
    ("T13", 'insert ActedIn { from: "a", «from: "b"», to: "c" }', "property `from` is assigned twice"),
    ("T14", "delete Person where name = «$who»", "`$who` is not a declared parameter"),
    (None, 'update ActedIn set { «from: "x"» } where from = "Ada"', "cannot update the endpoint 'from' of edge type `ActedIn`"),
    ("T10", "update «$p» set { born: 1 }", "`$p` is not bound by a match"),
    ("T30", "match { $p: Person  optional { $p actedIn $f } } update «$f» set { year: 1 }", "`$f` of an optional block may be null"),
    ("T30", 'match { optional { $p: Person } } insert ActedIn { from: «$p», to: "alien" }', "cannot be the end of a new edge"),
    ("T5", 'match { $f: Film } insert ActedIn { from: «$f», to: "alien" }', "`$f` is of type `Film`, but `ActedIn.from` is a `Person`"),
    (None, "insert Person { name: «who» }", "`who` is no value here"),
    ("T7", 'update Person set { born: «"a" + "b"» } where name = "Ada"', "does not fit `Person.born`"),
    ("T25", "delete Person where «name»", "a condition must be a Bool, and this is `String`"),
    ("T12", "«upsert Person { born: 1 }»", "upsert of `Person` misses its key property `name`"),
    (
        "D2",
        'insert Person { name: "Z" } «delete Person where name = "Ada"»',
        "mutation 'q' on the same query mixes inserts/updates and deletes; split into separate mutations: (1) inserts and updates",
    ),
    (None, 'update Person set { «name: "X"» } where name = "Ada"', "cannot update @key property 'name' — delete and re-insert instead"),
    (None, 'insert Person { name: "X", born: «3000000000» }', "integer value 3000000000 exceeds Int32 range"),
    (None, 'insert Person { name: "X", born: «1.5» }', "cannot convert Float(1.5) to Int32"),
    (None, 'insert Influenced { from: "a", to: "b", strength: «1' + "0" * 60 + ".0» }", "exceeds Float32 range"),
]


@pytest.mark.parametrize(("code", "marked", "message"), READS + MUTATIONS)
def test_refused_with_code_message_and_place(code: str | None, marked: str, message: str) -> None:
    text = marked.replace("«", "").replace("»", "")
    source = wrapped(marked)
    start, end = source.index("«"), source.index("»") - 1
    with pytest.raises(LanguageError) as caught:
        checked(text)
    error = caught.value
    assert error.kind is Kind.TYPE
    assert error.code == code
    assert message in error.message
    assert error.message.startswith("type error: " if code is None else f"type error: {code}: ")
    assert error.span is not None
    assert (error.span.start, error.span.end) == (start, end), f"stands at {wrapped(text)[error.span.start : error.span.end]!r}"
    assert error.rendered is not None


def test_a_mutation_without_a_name_is_not_named() -> None:
    with pytest.raises(LanguageError, match="D2: the mutation on the same query mixes"):
        check_mutation(select_query(parse_queries('insert Person { name: "Z" } delete Person where name = "Ada"'), None), cinema())


def test_every_code_has_a_case() -> None:
    assert {code for code, _, _ in READS + MUTATIONS if code is not None} == {code.value for code in Code}


def test_near_names_are_hinted() -> None:
    with pytest.raises(LanguageError) as caught:
        checked("match { $f: Film { yeer: 1 } } return { $f }")
    assert caught.value.hint == "did you mean `year`?"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # clauses before return, return before order, order before limits, limits before grouping
        (FILM + '{ $g.slug } order { nearest($f.title, "x") }', "T6"),
        (FILM + f"{{ count($f) as n, 1 as one }} order {{ nearest($f.vec, {VEC}) }}", "T17"),
        ('match { $f: Film  $f.year = "x" } return { $g.slug }', "T7"),
    ],
)
def test_first_error_wins(text: str, code: str) -> None:
    with pytest.raises(LanguageError) as caught:
        checked(text)
    assert caught.value.code == code


def test_read_and_mutation_entries_refuse_each_other() -> None:
    with pytest.raises(InvalidInput, match="is a mutation, and this is a read; run it with `mutate`"):
        read_of('delete Person where name = "Ada"')
    with pytest.raises(InvalidInput, match="is a read, and this is a mutation; run it with `query`"):
        mutation_of(FILM + "{ $f }")


@pytest.mark.parametrize("clause", ["$_: Film", "not { $f.year > 1 }", "$f madeBy $_"])
def test_steps_are_limited(clause: str) -> None:
    clauses = " ".join([clause] * 100)
    with pytest.raises(ResourceLimitExceeded) as caught:
        checked(f"match {{ $f: Film {clauses} }} return {{ $f }}")
    assert caught.value.facts["limit"] == 100
