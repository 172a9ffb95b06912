"""Conditions, blocks, paths, interfaces, arithmetic and functions, as the brute-force interpreter follows them."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from omnigraph.errors import InvalidInput, Kind
from tests.harness.brute import answer, read_lines
from tests.harness.brute.values import conjunction, disjunction, inversion
from tests.unit.catalog.schemas import catalog_of

CATALOG = catalog_of("""
interface Named { k: String @key  n: I64? }
node A implements Named { b: Bool?  f: F32?  g: F64?  u: U64?  tags: [String]?  d: Date?  at: DateTime? }
node C implements Named { c: I32? }
node B { name: String @key }
edge To: A -> A { w: I32? }
edge Like: A -> A
edge Own: A -> B
edge Has: C -> B
edge Near: A -> C
""")


def a(key: str, **values: Any) -> dict[str, Any]:
    return {"type": "A", "data": {"k": key, **values}}


def c(key: str, **values: Any) -> dict[str, Any]:
    return {"type": "C", "data": {"k": key, **values}}


def b(name: str) -> dict[str, Any]:
    return {"type": "B", "data": {"name": name}}


def edge(name: str, source: str, target: str, **values: Any) -> dict[str, Any]:
    return {"edge": name, "from": source, "to": target, "data": values}


def to(source: str, target: str, id_: str | None = None) -> dict[str, Any]:
    return edge("To", source, target, **({} if id_ is None else {"id": id_}))


def ask(body: str, *records: dict[str, Any], params: object = None, now_ms: int = 0) -> list[Any]:
    """The rows of a read; a row of one cell is that cell. `($x: I32) ...` declares parameters."""
    declared, body = body[1:].split(") ", 1) if body.startswith("($") else ("", body)
    data = read_lines("\n".join(map(json.dumps, records)), CATALOG)
    found = answer(f"query q({declared}) {{ {body} }}", params, catalog=CATALOG, data=data, now_ms=now_ms)
    return [row[0] if len(row) == 1 else row for row in found.rows]


def keys(condition: str, *records: dict[str, Any], params: object = None) -> list[Any]:
    declared, condition = condition[1:].split(") ", 1) if condition.startswith("($p:") else ("", condition)
    head = f"({declared}) " if declared else ""
    return ask(f"{head}match {{ $a: A  {condition} }} return {{ $a }} order {{ $a.k }}", *records, params=params)


def value(expression: str, **properties: Any) -> Any:
    (found,) = ask(f"match {{ $a: A }} return {{ {expression} as v }}", a("x", **properties))
    return found


# conditions


def test_the_tables_of_three_valued_logic() -> None:
    rank = {False: 0, None: 1, True: 2}
    for one, other in product(rank, rank):
        assert conjunction([one, other]) is min(one, other, key=rank.__getitem__)
        assert disjunction([one, other]) is max(one, other, key=rank.__getitem__)
        assert inversion(conjunction([one, other])) is disjunction([inversion(one), inversion(other)])
        assert inversion(inversion(one)) is one


ROWS = (a("f", b=False, n=1), a("t", b=True, n=2), a("u"))


def test_unknown_is_neither_true_nor_false() -> None:
    assert keys("$a.b", *ROWS) == ["t"]
    assert keys("not ($a.b)", *ROWS) == ["f"]
    assert keys("not ($a.n = 1)", *ROWS) == ["t"]
    assert keys("($a.n = 1 or $a.n is null)", *ROWS) == ["f", "u"]
    assert keys("not ($a.n = 1 and $a.b)", *ROWS) == ["f", "t"]
    assert keys("not ($a.n = 1) or not ($a.b)", *ROWS) == ["f", "t"]
    assert keys("$a.n is not null", *ROWS) == ["f", "t"]
    assert keys("not ($a.n is null)", *ROWS) == ["f", "t"]
    assert keys("not { $a.n = 1 }", *ROWS) == ["t", "u"]


def test_a_list_is_a_chain_of_or() -> None:
    assert keys("$a.n in [1, 3]", *ROWS) == ["f"]
    assert keys("$a.n not in [1, 3]", *ROWS) == ["t"]
    assert keys("$a.n in []", *ROWS) == []
    assert keys("$a.n not in []", *ROWS) == ["f", "t", "u"]
    assert keys("($p: [I64]?) $a.n in $p", *ROWS, params={"p": [2]}) == ["t"]
    assert keys("($p: [I64]?) $a.n in $p", *ROWS) == []
    assert keys("($p: [I64]?) $a.n not in $p", *ROWS) == []
    assert keys("$a.f in [0.1]", a("x", f=0.1)) == ["x"]


def test_texts_end() -> None:
    assert keys('$a.k ends_with "b"', a("ab"), a("ba")) == ["ab"]


# blocks


def test_exists_and_either_add_no_rows() -> None:
    rows = (a("x", n=1), a("y"), a("z"), to("x", "y"), to("x", "z"), to("z", "z"), edge("Like", "y", "x"))
    assert keys("exists { $a to $b }", *rows) == ["x", "z"]
    assert keys("exists { $a to $b  $b.n = 1 }", *rows) == []
    assert keys("either { $a to $_ } or { $a like $_ }", *rows) == ["x", "y", "z"]
    assert keys("either { $a.n = 1 } or { $a like $_ } or { $a to $a }", *rows) == ["x", "y", "z"]
    assert keys('not { $a.k != ""  either { $a to $_ } or { $a.n = 1 } }', *rows) == ["y"]
    assert keys("exists { $a to $b }  $b: A", *rows) == ["x"] * 3 + ["z"] * 3


def test_an_optional_block_keeps_the_row() -> None:
    rows = (a("x", n=1), a("y"), to("x", "x", "e1"), to("x", "y", "e2"))
    both = "match { $a: A  optional { $a $e:to $b } } return { $a, $b, $e.id as e, $b.n as n } order { $a.k, $b.k }"
    assert ask(both, *rows) == [("x", "x", "e1", 1), ("x", "y", "e2", None), ("y", None, None, None)]
    assert keys("optional { $a to $b }  $b is null", *rows) == ["y"]
    assert keys("optional { $a to $b }  $b is not null", *rows) == ["x", "x"]
    assert keys("optional { $a to $b }  $b.n = 1", *rows) == ["x"]
    assert keys("optional { $a to $b  $b.n > 5 }", *rows) == ["x", "y"]
    assert keys("optional { $a to $b }  $b to $c", *rows) == ["x", "x"]
    assert keys("optional { $a to $b }  not { $b to $c }", *rows) == ["x", "y"]
    assert ask("match { $a: A  optional { $a to $b } } return { count($b) as n, count(*) as m }", *rows) == [(2, 3)]
    assert ask('match { optional { $a: A { k: "no" } } } return { $a, type($a) as t, coalesce($a.n, 1.5) as n }', *rows) == [
        (None, None, 1.5)
    ]


def test_optional_blocks_nest() -> None:
    rows = (a("x"), a("y"), b("o"), to("x", "y"))
    found = ask("match { $a: A  optional { $a to $b  optional { $b own $o } } } return { $a, $b, $o } order { $a.k }", *rows)
    assert found == [("x", "y", None), ("y", None, None)]


# paths


def path(bounds: str, *records: dict[str, Any], start: str = "a", end: str | None = None) -> list[Any]:
    target = "" if end is None else f'$b: A {{ k: "{end}" }} '
    clauses = f'$a: A {{ k: "{start}" }} {target} path $w = $a {bounds} $b'
    return ask(f"match {{ {clauses} }} return {{ nodes($w) as n, edges($w) as e }} order {{ $b.k }}", *records)


DIAMOND = (
    *map(a, "abcde"), to("a", "c", "1"), to("a", "b", "9"), to("b", "d", "2"), to("c", "d", "3"), to("b", "d", "0"), to("d", "e", "4"),
)  # fmt: skip


def test_of_the_shortest_paths_the_smallest_is_bound() -> None:
    assert path("to{1,5}", *DIAMOND, end="d") == [(["a", "b", "d"], ["9", "0"])]
    assert path("to{1,5}", *DIAMOND, end="e") == [(["a", "b", "d", "e"], ["9", "0", "4"])]
    assert path("to{1,2}", *DIAMOND, end="e") == []
    assert path("<to>{1,5}", *DIAMOND, start="e", end="a") == [(["e", "d", "b", "a"], ["4", "0", "9"])]
    assert path("to|like{1,5}", *DIAMOND, edge("Like", "a", "d", id="5"), end="d") == [(["a", "d"], ["5"])]
    assert path("to", *DIAMOND) == [(["a", "b"], ["9"]), (["a", "c"], ["1"])]


def test_a_path_is_as_long_as_its_bounds_demand() -> None:
    loops = (a("a"), a("b"), to("a", "b", "1"), to("b", "b", "2"), to("a", "a", "3"))
    assert path("to{1,3}", *loops) == [(["a", "a"], ["3"]), (["a", "b"], ["1"])]
    assert path("to{2,2}", *loops) == [(["a", "a", "b"], ["3", "1"])]
    assert ask('match { $a: A { k: "b" }  path $w = $a to $a } return { length($w) as n }', *loops) == [1]


def test_a_path_that_is_not_there_is_null() -> None:
    text = "match { $a: A  optional { path $w = $a to{1,2} $b } } return { $a, length($w) as n, nodes($w) as v } order { $a.k }"
    assert ask(text, a("x"), a("y"), to("x", "y", "e")) == [("x", 1, ["x", "y"]), ("y", None, None)]


# interfaces

MIXED = (a("x", n=1), c("x", n=2, c=7), c("y"), b("o"), edge("Own", "x", "o"), edge("Has", "y", "o"), edge("Near", "x", "x"))


def test_an_interface_is_the_union_of_its_types() -> None:
    found = ask("match { $x: Named } return { type($x) as t, $x.id as i, $x.n as n } order { t, i }", *MIXED)
    assert found == [("A", "x", 1), ("C", "x", 2), ("C", "y", None)]
    assert ask('match { $x: Named { id: "x" } } return { type($x) as t } order { t }', *MIXED) == ["A", "C"]
    assert ask("match { $x: Named  $x.n > 1 } return { type($x) as t }", *MIXED) == ["C"]


def test_each_row_of_an_interface_follows_the_edges_of_its_type() -> None:
    assert ask("match { $x: Named  $x own $o } return { type($x) as t, $o }", *MIXED) == [("A", "o")]
    assert ask("match { $x: Named  $x has $o } return { $x, $o }", *MIXED) == [("y", "o")]
    assert ask("match { $o: B  $x: Named  $x has $o } return { type($x) as t, $x as i }", *MIXED) == [("C", "y")]
    # both ends of the edge are of the interface: one direction, from what can be its source
    assert ask("match { $x: Named  $x near $y } return { type($x) as t, type($y) as u }", *MIXED) == [("A", "C")]


# arithmetic


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3.5),
        ("6 / 2", 3.0),
        ("7 / 0", None),
        ("7.5 / 0.0", None),
        ("7 % 0", None),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("1 + 0.5", 1.5),
        ("-(3)", -3),
        ('"a" + "b"', "ab"),
        ("$a.n + 1", None),
        ("9223372036854775806 + 1", 2**63 - 1),
        ("18446744073709551614 + 1", 2**64 - 1),
        ('datetime("2024-01-01T00:00:01Z") - datetime("2024-01-01T00:00:00Z")', 1000),
        ('datetime("2024-01-01T00:00:00Z") + 1500', "2024-01-01T00:00:01.500Z"),
        ('datetime("2024-01-01T00:00:00Z") - 1', "2023-12-31T23:59:59.999Z"),
        ('date("2024-02-28") + 2', "2024-03-01"),
        ('date("2024-03-01") - 1', "2024-02-29"),
    ],
)
def test_arithmetic(expression: str, expected: object) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "expression",
    ["9223372036854775807 + 1", "-9223372036854775808 - 1", "9223372036854775807 * 2", "$a.u - 1", "-$a.u", "abs(-9223372036854775808)"],
)
def test_integers_do_not_run_over(expression: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        value(expression, **({} if expression != "-$a.u" else {"u": 1}), **({"u": 0} if expression == "$a.u - 1" else {}))
    assert caught.value.kind is Kind.NUMERIC_OVERFLOW


def test_unsigned_integers_stay_unsigned() -> None:
    assert value("$a.u + 1", u=2**63) == 2**63 + 1
    assert value("$a.u - 1", u=2**64 - 1) == 2**64 - 2
    assert value("$a.u % 10", u=2**64 - 1) == 5


def test_only_the_total_of_a_sum_has_to_fit() -> None:
    rows = (a("x", n=2**63 - 1), a("y", n=2**63 - 1), a("z", n=-(2**63)))
    assert ask("match { $a: A } return { sum($a.n) as s }", *rows) == [2**63 - 2]
    with pytest.raises(InvalidInput) as caught:
        ask("match { $a: A } return { sum($a.n) as s }", *rows[:2])
    assert caught.value.kind is Kind.NUMERIC_OVERFLOW
    assert ask("match { $a: A } return { sum($a.u) as s }", a("x", u=2**63), a("y", u=2**63 - 1)) == [2**64 - 1]


# functions


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('lower("ÄB")', "äb"),
        ('upper("äb")', "ÄB"),
        ('trim("  a b ")', "a b"),
        ('length("日本")', 2),
        ("length($a.tags)", 2),
        ('substring("abcdef", 1, 3)', "bcd"),
        ('substring("abc", 2, 9)', "c"),
        ('substring("abc", 9, 1)', ""),
        ("coalesce($a.n, 5)", 5),
        ("coalesce($a.n, $a.g)", 2.5),
        ("coalesce(1, $a.g)", 1.0),
        ("coalesce($a.n, $a.u)", None),
        ("abs(-3)", 3),
        ("abs(-2.5)", 2.5),
        ("round(2.5)", 3.0),
        ("round(-2.5)", -3.0),
        ("round(2.25, 1)", 2.3),
        ("round(1250, -2)", 1300),
        ("round(7)", 7),
        ("floor(-2.5)", -3.0),
        ("ceil(2.1)", 3.0),
        ("floor(7)", 7),
        ('year(date("1969-12-31"))', 1969),
        ('month(datetime("2024-03-01T12:30:15.25Z"))', 3),
        ('day(datetime("1969-12-31T23:59:59.999Z"))', 31),
        ('hour(datetime("1969-12-31T23:59:59.999Z"))', 23),
        ('date(datetime("1969-12-31T23:59:59.999Z"))', "1969-12-31"),
        ('datetime(date("2024-03-01"))', "2024-03-01T00:00:00.000Z"),
        ("date($a.at)", None),
        ("lower($a.k)", "x"),
        ("type($a)", "A"),
        ("id($a)", "x"),
        ("$a.id", "x"),
    ],
)
def test_functions(expression: str, expected: object) -> None:
    found = value(expression, g=2.5, tags=["a", ""])
    assert found == expected
    assert type(found) is type(expected)


def test_an_edge_tells_its_ends() -> None:
    text = "match { $a $e:to $b  $e.from != $e.to } return { $e.id as i, $e.from as f, $e.to as t, type($e) as y }"
    assert ask(text, a("x"), a("y"), to("x", "y", "e"), to("x", "x", "f")) == [("e", "x", "y", "To")]


# results


def test_distinct_rows_are_cut_after_they_are_made_distinct() -> None:
    rows = (a("p", n=1), a("q", n=1), a("r"), a("s"), a("t", n=2))
    assert ask("match { $a: A } return distinct { $a.n as n } order { n }", *rows) == [None, 1, 2]
    assert ask("match { $a: A } return distinct { $a.n as n } order { n desc } skip 1 limit 1", *rows) == [1]
    assert ask("match { $a: A } return distinct { $a.n } order { $a.n desc nulls first }", *rows) == [None, 2, 1]
    assert ask("match { $a: A } return distinct { $a.g as g }", a("x", g=0.0), a("y", g=-0.0)) == [0.0]


def test_nulls_stand_where_they_are_told_to() -> None:
    rows = (a("p", n=1), a("r"), a("t", n=2))
    for order, expected in {"": "rpt", "desc": "tpr", "nulls last": "ptr", "desc nulls first": "rtp", "nulls first": "rpt"}.items():
        assert ask(f"match {{ $a: A }} return {{ $a }} order {{ $a.n {order} }}", *rows) == list(expected)


def test_rows_are_skipped_before_they_are_counted() -> None:
    rows = [a(str(n)) for n in range(5)]
    assert ask("($s: I32, $l: U64) match { $a: A } return { $a } order { $a.k } skip $s limit $l", *rows, params={"s": 1, "l": 2}) == [
        "1",
        "2",
    ]
    assert ask("match { $a: A } return { $a } order { $a.k } skip 9", *rows) == []
    with pytest.raises(InvalidInput):
        ask("($s: I32) match { $a: A } return { $a } skip $s", *rows, params={"s": -1})


def test_any_expression_orders() -> None:
    rows = (a("x", n=-3), a("y", n=1), a("z", n=2))
    assert ask("match { $a: A } return { $a } order { abs($a.n) desc }", *rows) == ["x", "z", "y"]


def test_aggregates_of_expressions_and_expressions_of_aggregates() -> None:
    rows = (a("p", n=1, b=True), a("q", n=1), a("r", b=False), a("s", n=4, d="2024-01-02"))
    text = """match { $a: A } return {
      count(*) as r, count(distinct $a.n) as c, sum(distinct $a.n) as s, avg(distinct $a.n) as v, collect($a.n) as l,
      collect(distinct $a.n) as d, sum($a.n) / count(*) as m, round(avg($a.n), 1) as w, min($a.b) as x, max($a.d) as y, sum($a.n + 1) as z
    }"""
    assert ask(text, *rows) == [(4, 2, 5, 2.5, [1, 1, 4], [1, 4], 1.5, 2.0, False, "2024-01-02", 9)]
    assert ask("match { $a: A } return { collect($a.n) as l, coalesce(sum($a.n), 0) as s }") == [([], 0)]
    assert ask("match { $a: A } return { $a.n % 2 as o, collect($a) as l } order { o }", *rows) == [
        (None, ["r"]),
        (0, ["s"]),
        (1, ["p", "q"]),
    ]


def test_a_query_without_a_name_takes_its_parameters_where_they_stand() -> None:
    data = read_lines(json.dumps(a("x", d="2024-01-02")), CATALOG)
    found = answer("match { $a: A { d: $d } } return { $a }", {"d": "2024-01-02"}, catalog=CATALOG, data=data)
    assert found.rows == (("x",),)
