"""Laws: every rule keeps the answers, whatever the query, the graph and the statistics; and nothing but our errors escapes."""

from __future__ import annotations

import re
from typing import Any, assert_never

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput, LanguageError, ResourceLimitExceeded
from omnigraph.ids import TypeId
from omnigraph.lang import parse_queries
from omnigraph.plan import ir
from omnigraph.plan.check import check, check_read
from omnigraph.plan.explain import explain
from omnigraph.plan.expr import Field
from omnigraph.plan.lowering import lower
from omnigraph.plan.operation import operation_of
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.rules import RULES, optimize
from omnigraph.plan.rules.prune_columns import delivered
from omnigraph.plan.statistics import EdgeStatistics, NodeStatistics, Statistics
from omnigraph.plan.typed import TypedRead
from omnigraph.plan.writes import plan_mutation
from tests.samples import sample
from tests.unit.plan.cinema import cinema, query_of, wrapped
from tests.unit.plan.evaluate import Graph, rows_of
from tests.unit.plan.test_check_errors import MUTATIONS, READS
from tests.unit.plan.test_meaning import ORDERED, UNORDERED

# (clause, variables it binds, variables it needs)
CLAUSES: list[tuple[str, str, str]] = [
    ("$p: Person", "p", ""),
    ("$q: Person { born: 1 }", "q", ""),
    ("$f: Film", "f", ""),
    ("$f: Film { year: 1 }", "f", ""),
    ("$g: Film", "g", ""),
    ("$s: Studio", "s", ""),
    ("$p actedIn $f", "pf", ""),
    ("$f actedIn $q", "qf", "f"),
    ("$p $r:actedIn $g", "prg", ""),
    ("$p influenced $q", "pq", ""),
    ("$p influenced{1,3} $q", "pq", ""),
    ("$q influenced{2,3} $p", "pq", ""),
    ("$p <influenced> $q", "pq", ""),
    ("$p <influenced>{2,2} $q", "pq", ""),
    ("$p influenced{1,2} $p", "p", ""),
    ("$p directed{2,3} $f", "pf", ""),
    ("$f madeBy $s", "fs", ""),
    ("$g madeBy $s", "gs", ""),
    ("$_ actedIn $f", "f", ""),
    ("$f.year > 1.5", "", "f"),
    ("$f.year < $g.year", "", "fg"),
    ("$p.born != $q.born", "", "pq"),
    ("$p.born <= 1", "", "p"),
    ("$f.year = $g.year", "", "fg"),
    ("$p.born = $q.born", "", "pq"),
    ("$r.billing >= 0.5", "", "r"),
    ("$r.billing = $f.year", "", "rf"),
    ('$f.genres contains "a"', "", "f"),
    ('["F0", "F1"] contains $f.slug', "", "f"),
    ('search($f.plot, "x") = false', "", "f"),
    ('search($g.plot, "x y")', "", "g"),
    ("1 < 2", "", ""),
    ("2 < 1", "", ""),
    ("$f.year < 3000000000", "", "f"),
    ("not { $p directed $f }", "", "pf"),
    ("not { $f madeBy $_ }", "", "f"),
    ("not { $p influenced $z  $z.born > 1 }", "", "p"),
    ("not { $h: Film  $h.year < $f.year }", "", "f"),
    ("not { $f.year = 1 }", "", "f"),
    ("not { $h: Film  $h.year = $g.year  $h madeBy $s }", "", "gs"),
    ("not { $f.year > 3000000000 }", "", "f"),
    ("not { $p directed{2,3} $f }", "", "p"),
    ("not { $p actedIn $k  not { $k madeBy $s } }", "", "ps"),
    ("not { $p actedIn $k  not { $k.year < $f.year  $k madeBy $_ } }", "", "pf"),
    ("not { $p $e:actedIn $f  $e.billing < $r.billing }", "", "pfr"),
    ("($f.year = 1 or $f.year > 2 or $f.rating is null)", "", "f"),
    ('not ($f.year = 1 and not ($f.rating > 1.0 or $f.title in ["t", "u"]))', "", "f"),
    ("($f.year < $g.year or $f.rating is not null)", "", "fg"),
    ("$p.born not in [1, 2]", "", "p"),
    ("$p.born + 1 > $q.born * 2", "", "pq"),
    ("$f.year - 1 in [0, 1]", "", "f"),
    ("exists { $p actedIn $k  $k.year > 1 }", "", "p"),
    ("either { $p directed $f } or { $f madeBy $s }", "", "pfs"),
    ("either { $p influenced $q } or { $p.born = $q.born } or { $q actedIn $_ }", "", "pq"),
    ("optional { $p directed $o }", "o", "p"),
    ("optional { $f madeBy $t  $t.city = $f.title }", "t", "f"),
    ("optional { $p influenced $u  optional { $u actedIn $v } }", "uv", "p"),
    ("$o.year > 1", "", "o"),
    ("$t is null", "", "t"),
    ("($o is null or $o.year < $f.year)", "", "of"),
    ("$o madeBy $w", "w", "o"),
    ("not { $u actedIn $_ }", "", "u"),
    ("$p actedIn|directed $x", "px", ""),
    ("path $z = $p influenced{1,3} $y", "py", ""),
]
RANKINGS = st.sampled_from(
    [
        "nearest($f.vec, [1, 0.5, 0])",
        'bm25($f.plot, "x")',
        'bm25($f.plot, "x y") desc',
        'rrf(nearest($f.vec, [0, 1, 0]), bm25($f.plot, "y"))',
        "d",
        "d desc",
    ]
)
PROPERTY = {
    "p": "born",
    "q": "name",
    "f": "year",
    "g": "slug",
    "s": "city",
    "r": "billing",
    "o": "year",
    "t": "city",
    "u": "born",
    "v": "slug",
    "w": "name",
    "x": "year",
    "y": "name",
}


@st.composite
def reads(draw: st.DrawFn) -> tuple[str, bool]:
    """A read that types, and whether its rows are ordered."""
    bound: set[str] = set()
    clauses: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        clause, binds, _ = draw(st.sampled_from([clause for clause in CLAUSES if bound.issuperset(clause[2])]))
        if ("$r:" in clause and "r" in bound) or ("path" in clause and clause in clauses):
            continue
        clauses.append(clause)
        bound.update(binds)
    assume(bound)
    names = sorted(bound)
    returned = [f"${name}.{PROPERTY[name]}" for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))]
    match = f"match {{ {' '.join(clauses)} }}"
    if "path $z" in match:
        returned.append("length($z) as hops, nodes($z) as via")
    if draw(st.booleans()):
        columns = returned if "via" not in returned[-1] else returned[:-1]
        if draw(st.booleans()):
            return f"{match} return distinct {{ {' '.join(columns)} }} order {{ {columns[0]} nulls last }} skip 1", False
        names_ = ", ".join(f"count(distinct {column}) as n{at}" for at, column in enumerate(columns))
        return f"{match} return {{ {names_}, count(*) + 1 as rows }}", False
    returned = [column for column in returned if "via" not in column] if draw(st.booleans()) else returned
    if "via" not in returned[-1] and draw(st.booleans()):
        return f"{match} return {{ {' '.join(returned)} count({returned[0]}) as n }}", False
    if draw(st.booleans()):
        return f"{match} return {{ {' '.join(returned)} }}", False
    if "f" in bound and draw(st.booleans()):
        returned.append(draw(st.sampled_from(["nearest($f.vec, [1, 1, 0]) as d", 'bm25($f.plot, "x y") as d'])))
        return f"{match} return {{ {' '.join(returned)} }} order {{ {draw(RANKINGS)} }} limit {draw(st.integers(0, 4))}", True
    tail = draw(st.sampled_from(["", "limit 3", "limit 0", "skip 1 limit 2", "skip 2"]))
    first = returned[0]
    key = draw(st.sampled_from([f"{first} desc", f"{first} nulls last", f"coalesce({first}, {first}) desc nulls first"]))
    return f"{match} return {{ {' '.join(returned)} }} order {{ {key} }} {tail}", True


_SMALL = st.none() | st.integers(0, 2)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    people = {f"P{n}": {"name": f"P{n}", "born": draw(_SMALL)} for n in range(3)}
    films = {
        f"F{n}": {
            "slug": f"F{n}",
            "title": "t",
            "year": draw(st.integers(0, 2)),
            "genres": draw(st.none() | st.sampled_from([("a",), ("b",)])),
            "plot": draw(st.none() | st.sampled_from(["x", "y", "", "x y z"])),
            "vec": draw(st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2), st.just(0))),
        }
        for n in range(3)
    }
    studios = {f"S{n}": {"name": f"S{n}", "city": None} for n in range(2)}
    nodes: dict[str, dict[str, dict[str, Any]]] = {"Person": people, "Film": films, "Studio": studios}
    edges: dict[str, dict[str, dict[str, Any]]] = {}
    for name, source, target in (
        ("ActedIn", people, films),
        ("Directed", people, films),
        ("Influenced", people, people),
        ("MadeBy", films, studios),
    ):
        pairs = draw(st.lists(st.tuples(st.sampled_from(sorted(source)), st.sampled_from(sorted(target)), _SMALL), max_size=5))
        edges[name] = {f"{name}{n}": {"src": src, "dst": dst, "billing": small} for n, (src, dst, small) in enumerate(pairs)}
    return Graph(nodes, edges)


@st.composite
def known(draw: st.DrawFn) -> Statistics:
    nodes = {node.id: NodeStatistics(draw(st.sampled_from([0, 1, 10**6])), frozenset({"slug"})) for node in cinema().nodes}
    degree = st.sampled_from([0.0, 0.5, 40.0])
    edges: dict[TypeId, EdgeStatistics] = {
        edge.id: EdgeStatistics(draw(st.sampled_from([0, 10**6])), draw(degree), draw(degree)) for edge in cinema().edges
    }
    return Statistics(nodes, edges)


@settings(max_examples=sample(300, whole=5000), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(query=reads(), graph=graphs(), statistics=known())
def test_every_rule_keeps_the_answers(query: tuple[str, bool], graph: Graph, statistics: Statistics) -> None:
    text, ordered = query
    read = check_read(query_of(text), cinema())
    plain = lower(read, {}, now_ms=0)
    expected = rows_of(plain, graph)
    root = plain.root
    for rule in RULES:
        root = rule(root, statistics)
        rows = rows_of(ir.LogicalRead(plain.name, root, plain.bindings, plain.columns), graph)
        if ordered:
            assert rows == expected, rule.__name__
        else:
            assert sorted(rows, key=repr) == sorted(expected, key=repr), rule.__name__


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(query=reads(), statistics=known())
def test_rules_have_nothing_left_to_do(query: tuple[str, bool], statistics: Statistics) -> None:
    """Law: a rule that ran just now changes nothing, except the last, which runs once."""
    root = lower(check_read(query_of(query[0]), cinema()), {}, now_ms=0).root
    for rule in RULES[:-1]:
        root = rule(root, statistics)
        assert rule(root, statistics) == root, rule.__name__


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(query=reads(), statistics=known())
def test_every_column_is_delivered_before_it_is_needed(query: tuple[str, bool], statistics: Statistics) -> None:
    root = optimize(lower(check_read(query_of(query[0]), cinema()), {}, now_ms=0).root, statistics)
    _require_delivered(root, frozenset())


def _require_delivered(plan: ir.LogicalPlan, outer: frozenset[tuple[int, str]]) -> None:
    """`outer` are the columns that come with the argument of a block."""
    match plan:
        case ir.LogicalScan() | ir.LogicalArgument() | ir.LogicalPattern() | ir.LogicalEmpty():
            return
        case ir.LogicalCrossProduct(left, right) | ir.LogicalJoin(left, right):
            _require_delivered(left, outer)
            _require_delivered(right, outer)
            fields = [field for pair in plan.on for field in pair] if isinstance(plan, ir.LogicalJoin) else []
            assert _columns_of(fields) <= delivered(left) | delivered(right) | outer
        case ir.LogicalSemiJoin(input_, inners):
            _require_delivered(input_, outer)
            for inner in inners:
                _require_delivered(inner.plan, outer | delivered(input_))
        case ir.LogicalOptional(input_, inner):
            _require_delivered(input_, outer)
            _require_delivered(inner.plan, outer | delivered(input_))
        case (
            ir.LogicalExpand()
            | ir.LogicalConnect()
            | ir.LogicalFilter()
            | ir.LogicalPaths()
            | ir.LogicalRank()
            | ir.LogicalFetch()
            | ir.LogicalAggregate()
            | ir.LogicalProject()
            | ir.LogicalDistinct()
            | ir.LogicalOrder()
            | ir.LogicalLimit()
        ):
            _require_delivered(plan.input, outer)
            if not isinstance(plan.input, ir.LogicalEmpty):
                assert _columns_of(_fields_needed(plan)) <= delivered(plan.input) | outer
        case _:
            assert_never(plan)


def _fields_needed(plan: ir.LogicalPlan) -> list[Field]:
    match plan:
        case ir.LogicalFilter(_, where):
            return [field for predicate in where for field in ir.fields_of(predicate)]
        case ir.LogicalProject(_, outputs):
            return [field for output in outputs for field in ir.expr_fields(output)]
        case ir.LogicalAggregate(_, outputs):
            return [field for output in outputs for field in ir.output_fields(output)]
        case ir.LogicalOrder(_, keys):
            return [field for key in keys for field in ir.expr_fields(key.key)]
        case _:
            return []


def _columns_of(fields: list[Field]) -> set[tuple[int, str]]:
    return {(field.binding, field.column) for field in fields if not field.whole}


_CORPUS = [case[1].replace("«", "").replace("»", "") for case in READS + MUTATIONS] + [case[1] for case in UNORDERED + ORDERED]
_TOKEN = re.compile(r'"[^"]*"|\$?\w+|\S', re.ASCII)
_WORDS = sorted({token for text in _CORPUS for token in _TOKEN.findall(text)} | {"9223372036854775807", "0", "[]", "-1.5"})
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4), max_leaves=4
)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A text of the corpus with a few tokens dropped, doubled or replaced."""
    tokens = _TOKEN.findall(wrapped(draw(st.sampled_from(_CORPUS))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at : at + 1] = draw(st.sampled_from([[], [tokens[at]] * 2]) | st.sampled_from(_WORDS).map(lambda word: [word]))
        assume(tokens)
    return " ".join(tokens)


_LEAVES = st.sampled_from(
    [
        "$f",
        "$p",
        "$r",
        "$x",
        "$n",
        "$v",
        "$l",
        "$t",
        "$f.year",
        "$f.slug",
        "$f.rating",
        "$f.votes",
        "$f.genres",
        "$f.status",
        "$f.vec",
        "$f.plot",
        "$f.added_at",
        "$f.released",
        "$p.born",
        "$p.email",
        "$r.billing",
        "$r.role",
        "$s.body",
        "$f.nope",
        "$_.name",
        "now()",
        "1",
        "-1",
        "2.5",
        "18446744073709551615",
        '"x"',
        '"released"',
        "true",
        "[]",
        "[1,2.5]",
        '["a"]',
        "[1,0,0]",
        "a",
        "b",
        "f",
        'date("1979-05-25")',
        'date("x")',
        'datetime("2024-01-01")',
    ]
)


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.sampled_from(["search", "match_text", "fuzzy", "bm25"])
    return (
        st.builds("{}({}, {})".format, two, inner, inner)
        | st.builds("nearest($f.{}, {})".format, st.sampled_from(["vec", "title"]), inner)
        | st.builds("rrf(bm25($f.plot, {}), nearest($f.vec, {}), {})".format, inner, inner, inner)
        | st.builds("{}({})".format, st.sampled_from(["count", "sum", "avg", "min", "max"]), inner)
    )


_EXPRESSIONS = st.recursive(_LEAVES, _calls, max_leaves=3)


@st.composite
def wild(draw: st.DrawFn) -> str:
    """A read with any expression anywhere: most do not type, and those that do must plan."""
    operators = st.sampled_from(["=", "!=", "<", ">=", "contains", "starts_with"])
    filters = draw(st.lists(st.builds("{} {} {}".format, _EXPRESSIONS, operators, _EXPRESSIONS), max_size=2))
    negated = draw(st.lists(st.builds("not {{ $h: Film $h.year {} {} }}".format, operators, _EXPRESSIONS), max_size=1))
    returns = draw(st.lists(st.builds("{}{}".format, _EXPRESSIONS, st.sampled_from(["", " as a", " as b"])), min_size=1, max_size=3))
    order = draw(st.lists(st.builds("{}{}".format, _EXPRESSIONS, st.sampled_from(["", " desc"])), max_size=2))
    ordered = f"order {{ {', '.join(order)} }}" if order else ""
    parameters = "$n: I32?, $v: Vector(3)?, $l: [String]?, $t: String"
    clauses = " ".join([*filters, *negated])
    match = f"match {{ $f: Film $p $r:actedIn $f $s: Script {clauses} }}"
    return f"query q({parameters}) {{ {match} return {{ {', '.join(returns)} }} {ordered} {draw(st.sampled_from(['', 'limit 2']))} }}"


@settings(max_examples=sample(600, whole=10000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=mangled() | wild(), values=st.lists(_JSON, min_size=3, max_size=3))
def test_only_our_errors_escape(text: str, values: list[Any]) -> None:
    try:
        queries = parse_queries(text).queries
    except (LanguageError, ResourceLimitExceeded):
        return
    for query in queries:
        try:
            typed = check(query, cinema())
            operation_of(typed, cinema())
            given_ = {parameter.name: value for parameter, value in zip(typed.parameters, values, strict=False)} | {"t": "text"}
            bound = bind_parameters(typed.parameters, given_)
            if isinstance(typed, TypedRead):
                explanation = explain(plan_read(typed, bound, now_ms=0))
                assert explanation.text
            else:
                plan_mutation(typed, bound, now_ms=0)
        except (LanguageError, InvalidInput, ResourceLimitExceeded):
            continue


def test_the_longest_walk_is_planned() -> None:
    text = "match { $p: Person  $p <influenced>{999,1000} $q } return { $q }"
    typed = check(query_of(text), cinema())
    assert isinstance(typed, TypedRead)
    assert explain(plan_read(typed, {}, now_ms=0)).text


def test_the_largest_query_is_planned_and_explained() -> None:
    clauses = " ".join(f"$p{n} influenced $p{n + 1}" for n in range(97))
    text = f"match {{ $p0: Person {clauses} $p1.born < $p90.born  not {{ $p5 directed $f }} }} return {{ $p97.name }} order {{ $p9.born }}"
    typed = check(query_of(text), cinema())
    assert isinstance(typed, TypedRead)
    assert explain(plan_read(typed, {}, now_ms=0)).text.count("expand") == 98
