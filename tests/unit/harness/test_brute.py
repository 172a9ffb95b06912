"""The rules of the language that are easy to get wrong, as the brute-force interpreter follows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph.errors import LanguageError
from tests.harness.brute import Data, TooManyRows, answer, read_lines, write_lines
from tests.harness.brute.text import distance
from tests.unit.catalog.schemas import catalog_of

SCHEMA = """
node A { k: String @key  n: I32?  f: F32?  g: F64?  u: U64?  tags: [String]?  fs: [F32]?  at: DateTime? }
node B { n: I32  d: Date  @key(n, d) }
edge To: A -> A { w: I32? }
edge At: A -> B
edge Back: B -> A
"""
CATALOG = catalog_of(SCHEMA)


def a(key: str, **values: Any) -> dict[str, Any]:
    return {"type": "A", "data": {"k": key, **values}}


def edge(name: str, source: str, target: str, **values: Any) -> dict[str, Any]:
    return {"edge": name, "from": source, "to": target, "data": values}


def data(*records: dict[str, Any]) -> Data:
    return read_lines("\n".join(map(json.dumps, records)), CATALOG)


def ask(body: str, *records: dict[str, Any], declared: str = "", params: object = None, now_ms: int = 0) -> list[Any]:
    """The rows of a read; a row of one cell is that cell."""
    found = answer(f"query q({declared}) {{ {body} }}", params, catalog=CATALOG, data=data(*records), now_ms=now_ms)
    return [row[0] if len(row) == 1 else row for row in found.rows]


ALL = "match { $a: A } return"


# ids


@pytest.mark.parametrize(
    ("type_", "value", "spelled"),
    [
        ("String", "Blade Runner", "Blade Runner"),
        ("Bool", True, "true"),
        ("U64", 2**64 - 1, "18446744073709551615"),
        ("F32", 0.1, "0.1"),
        ("F64", 2.0, "2"),
        ("F64", 1e21, "1000000000000000000000"),
        ("F64", 1e-7, "0.0000001"),
        ("F64", -0.0, "0"),
        ("Date", "1979-05-25", "3431"),
        ("DateTime", "2024-01-02T20:00:00Z", "1704225600000"),
    ],
)
def test_a_key_has_one_spelling(type_: str, value: object, spelled: str) -> None:
    catalog = catalog_of(f"node K {{ k: {type_} @key }}")
    rows = read_lines(json.dumps({"type": "K", "data": {"k": value}}), catalog)
    assert rows.nodes["K"][0]["id"] == spelled


def test_a_composite_key_is_a_list_in_the_order_of_names() -> None:
    assert data({"type": "B", "data": {"n": 7, "d": "1970-01-02"}}).nodes["B"][0]["id"] == '["1","7"]'


def test_lines_are_read_as_they_were_written() -> None:
    rows = data(a("x", n=1, f=0.1, u=2**64 - 1, tags=["s"], at="2024-01-01"), edge("To", "x", "x", id="e", w=3))
    assert read_lines(write_lines(rows, CATALOG), CATALOG) == rows


# comparisons


@pytest.mark.parametrize("how", ["=", "!=", "<", "<=", ">", ">="])
def test_null_matches_nothing(how: str) -> None:
    assert ask(f"match {{ $a: A  $a.n {how} 1 }} return {{ $a }}", a("x")) == []
    assert ask(f"match {{ $a: A  $a.n {how} $a.n }} return {{ $a }}", a("x")) == []
    assert ask(f"match {{ $a: A  $a.n {how} $p }} return {{ $a }}", a("x", n=1), declared="$p: I32?") == []


def test_a_null_inside_a_negation_keeps_the_row() -> None:
    assert ask("match { $a: A  not { $a.n = 1 } } return { $a }", a("x"), a("y", n=1), a("z", n=2)) == ["x", "z"]
    assert ask("match { $a: A  not { $a.n != 1 } } return { $a }", a("x"), a("y", n=1), a("z", n=2)) == ["x", "y"]


def test_numbers_of_all_kinds_are_compared_by_value() -> None:
    rows = (a("x", n=1, g=1.0, u=2**64 - 1), a("y", n=2, g=2.5, u=2**63))
    assert ask("match { $a: A  $a.n = $a.g } return { $a }", *rows) == ["x"]
    assert ask("match { $a: A  $a.n > 1.5 } return { $a }", *rows) == ["y"]
    assert ask("match { $a: A  $a.n < 3000000000 } return { $a }", *rows) == ["x", "y"]
    assert ask("match { $a: A  $a.u > $a.n } return { $a }", *rows) == ["x", "y"]
    # 2^64 - 1 is no double: the nearest one is 2^64
    assert ask("match { $a: A  $a.u = $p } return { $a }", *rows, declared="$p: F64", params={"p": 2.0**64}) == []


def test_what_is_given_beside_a_narrow_float_is_narrowed() -> None:
    rows = (a("x", f=0.1, g=0.1, fs=[0.1]),)
    assert ask("match { $a: A { f: 0.1 } } return { $a }", *rows) == ["x"]
    assert ask("match { $a: A  0.1 = $a.f } return { $a }", *rows) == ["x"]
    assert ask("match { $a: A  $a.f > 0.1 } return { $a }", *rows) == []
    assert ask("match { $a: A  $a.f = $p } return { $a }", *rows, declared="$p: F64", params={"p": 0.1}) == ["x"]
    assert ask("match { $a: A  $a.fs contains 0.1 } return { $a }", *rows) == ["x"]
    assert ask("match { $a: A  [0.1, 2] contains $a.f } return { $a }", *rows) == ["x"]
    # two properties are compared as they are stored
    assert ask("match { $a: A  $a.f = $a.g } return { $a }", *rows) == []
    assert ask("match { $a: A  $a.f < 1000000000000000000000000000000000000000000.0 } return { $a }", *rows) == ["x"]


def test_contains_looks_into_lists_and_texts() -> None:
    rows = (a("ab", tags=["a", ""]), a("b%", tags=[]), a("c"))
    assert ask('match { $a: A { tags: "a" } } return { $a }', *rows) == ["ab"]
    assert ask('match { $a: A  $a.tags contains "" } return { $a }', *rows) == ["ab"]
    assert ask('match { $a: A  $a.k contains "" } return { $a }', *rows) == ["ab", "b%", "c"]
    assert ask('match { $a: A  $a.k contains "%" } return { $a }', *rows) == ["b%"]
    assert ask("match { $a: A  $a.tags contains $a.k } return { $a }", *rows) == []
    assert ask('match { $a: A  "abc" starts_with $a.k } return { $a }', *rows) == ["ab"]
    assert ask("match { $a: A  [] contains $a.k } return { $a }", *rows) == []


def test_now_is_the_instant_of_the_query() -> None:
    rows = (a("old", at="1970-01-01"), a("new", at="2030-01-01"))
    assert ask("match { $a: A  $a.at < now() } return { $a, now() as t }", *rows, now_ms=1) == [("old", "1970-01-01T00:00:00.001Z")]


def test_a_parameter_hides_a_variable_of_its_name() -> None:
    assert ask("match { $a: A } return { $a, $a.k }", a("x"), declared="$a: I32", params={"a": 5}) == [(5, "x")]


# walks

LOOP = (a("x"), a("y"), edge("To", "x", "x"), edge("To", "x", "y"), edge("To", "y", "x"))


@pytest.mark.parametrize(
    ("start", "step", "ends"),
    [
        ("x", "to", ["x", "y"]),
        ("y", "to", ["x"]),
        ("x", "to{2,2}", []),  # back at x is visited, and x is no longer in the frontier
        ("y", "to{2,2}", ["x"]),  # by the self-edge of x, reached at the first hop
        ("y", "to{1,2}", ["x"]),
        ("x", "to{1,9}", ["x", "y"]),
        ("x", "<to>", ["x", "y"]),
        ("y", "<to>{2,3}", ["x"]),
    ],
)
def test_a_walk_emits_a_self_edge_and_never_its_start_again(start: str, step: str, ends: list[str]) -> None:
    body = f'match {{ $a: A {{ k: "{start}" }}  $a {step} $b }} return {{ $b }} order {{ $b.k }}'
    assert ask(body, *LOOP) == ends


def test_a_walk_is_defined_from_the_left_whichever_end_is_bound() -> None:
    assert ask('match { $b: A { k: "x" }  $a to{2,2} $b } return { $a }', *LOOP) == ["y"]
    assert ask("match { $a: A  $b: A  $a to{2,2} $b } return { $a, $b }", *LOOP) == [("y", "x")]
    assert ask("match { $a to{2,2} $b } return { $a, $b }", *LOOP) == [("y", "x")]


def test_a_variable_at_both_ends_asks_for_a_self_edge() -> None:
    assert ask("match { $a to $a } return { $a }", *LOOP) == ["x"]
    assert ask("match { $a to{2,3} $a } return { $a }", *LOOP) == []


def test_parallel_edges_are_one_way_and_two_edges() -> None:
    rows = (a("x"), a("y"), edge("To", "x", "y", w=1), edge("To", "x", "y", w=2))
    assert ask("match { $a: A  $a to $b } return { $b }", *rows) == ["y"]
    assert ask("match { $a: A  $a $e:to $b } return { $e.w }", *rows) == [1, 2]
    assert ask("match { $a: A  $a $_:to $b } return { $b }", *rows) == ["y"]
    assert ask("match { $a: A  $a <to> $b } return { $a, $b }", *rows) == [("x", "y"), ("y", "x")]


def test_an_undirected_edge_is_bound_both_ways_and_a_self_edge_once() -> None:
    rows = (a("x"), a("y"), edge("To", "x", "y", w=1), edge("To", "x", "x", w=2))
    found = ask("match { $a: A  $a $e:<to> $b } return { $a, $b, $e.w } order { $e.w, $a.k }", *rows)
    assert found == [("x", "y", 1), ("y", "x", 1), ("x", "x", 2)]


def test_each_wildcard_is_its_own_node_and_does_not_collapse_rows() -> None:
    rows = (a("x"), a("y"), a("z"), edge("To", "x", "y"), edge("To", "x", "z"))
    assert ask("match { $a: A  $a to $_ } return { $a }", *rows) == ["x", "x"]
    assert ask("match { $a: A  $a to $_  $a to $_ } return { $a }", *rows) == ["x"] * 4


def test_types_decide_the_direction_between_two_types() -> None:
    rows = (a("x"), {"type": "B", "data": {"n": 1, "d": "1970-01-01"}}, edge("At", "x", '["0","1"]'), edge("Back", '["0","1"]', "x"))
    assert ask("match { $b: B  $b at $a } return { $a }", *rows) == ["x"]
    assert ask("match { $b: B  $a back $b } return { $a }", *rows) == ["x"]
    assert ask("match { $a at{2,3} $b } return { $a }", *rows) == []
    assert ask("match { $b: B  not { $b at $a } } return { $b }", *rows) == []


def test_an_edge_without_one_of_its_ends_contributes_nothing() -> None:
    rows = (a("x"), a("z"), edge("To", "x", "gone", w=1), edge("To", "gone", "z", w=2))
    for step in ("to", "to{1,2}", "<to>", "$e:to", "$e:<to>"):
        assert ask(f"match {{ $a: A  $a {step} $_ }} return {{ $a }}", *rows) == []


# negation


def test_negations_nest_and_keep_their_variables_to_themselves() -> None:
    rows = (a("x"), a("y"), a("z"), edge("To", "x", "y"), edge("To", "y", "z"))
    assert ask("match { $a: A  not { $a to $b  not { $b to $c } } } return { $a }", *rows) == ["x", "z"]
    assert ask("match { $a: A  not { $a to $b }  $b: A } return { $a, $b }", *rows) == [("z", "x"), ("z", "y"), ("z", "z")]


# results


def test_aggregates_leave_nulls_out() -> None:
    rows = (a("x", n=1, g=0.5), a("y"), a("z", n=3))
    aggregates = "{ count($a) as c, count($a.n) as n, sum($a.n) as s, avg($a.n) as v, min($a.g) as l, max($a.k) as m }"
    (found,) = ask(f"{ALL} {aggregates}", *rows)
    assert found == (3, 2, 4, 2.0, 0.5, "z")
    assert [type(cell) for cell in found[2:4]] == [int, float]
    assert ask("match { $a: A } return { sum($a.n) as s, count($a.n) as n }", a("y")) == [(None, 0)]


def test_nothing_is_one_group_unless_there_are_keys() -> None:
    assert ask(f"{ALL} {{ count($a) as c, max($a.n) as m }}") == [(0, None)]
    assert ask(f"{ALL} {{ $a.n, count($a) as c }}") == []
    assert ask(f"{ALL} {{ count($a) as c }} limit 0") == []


def test_nulls_are_one_group() -> None:
    assert ask(f"{ALL} {{ $a.n, count($a) as c }} order {{ $a.n }}", a("x"), a("y"), a("z", n=1)) == [(None, 2), (1, 1)]


def test_null_is_the_smallest_and_ids_break_ties() -> None:
    rows = (a("z", n=1), a("x", n=1), a("y"), a("w", n=2))
    assert ask(f"{ALL} {{ $a }} order {{ $a.n }}", *rows) == ["y", "x", "z", "w"]
    assert ask(f"{ALL} {{ $a }} order {{ $a.n desc }}", *rows) == ["w", "x", "z", "y"]
    assert ask(f"{ALL} {{ $a, 1 as one }} order {{ one }}", *rows) == [("w", 1), ("x", 1), ("y", 1), ("z", 1)]


def test_ties_of_several_variables_are_broken_in_the_order_of_their_names() -> None:
    rows = (a("x"), a("y"))
    found = ask("match { $b: A  $a: A } return { $a as p, $b as q } order { $a.n }", *rows)
    assert found == [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]


def test_the_answer_says_which_order_is_promised() -> None:
    rows = data(a("x", n=1), a("y", n=1), a("z", n=2))

    def classes(tail: str) -> list[int]:
        found = answer(f"query q() {{ match {{ $a: A }} return {tail} }}", None, catalog=CATALOG, data=rows)
        return [len(class_) for class_ in found.classes]

    assert classes("{ $a }") == [3]
    assert classes("{ $a } order { $a.n }") == [1, 1, 1]
    assert classes("{ $a.k, max($a.n) as m } order { m }") == [2, 1]


def test_results_have_their_names_in_the_rows() -> None:
    text = 'query q($p: I32) { match { $a: A } return { $a, $a.n, $p, 1, "x", count($a.n), sum($a.g) as s } }'
    with pytest.raises(LanguageError):
        answer(text, {"p": 1}, catalog=CATALOG, data=data())
    text = "query q($p: I32) { match { $a: A } return { $a, $a.n, $p, 1, ($a.n+1)*2, -($a.n - (1-2)), now(), lower(upper($a.k)) } }"
    assert answer(text, {"p": 1}, catalog=CATALOG, data=data()).columns == (
        "a", "a.n", "p", "1", "(a.n + 1) * 2", "-(a.n - (1 - 2))", "now()", "lower(upper(a.k))",
    )  # fmt: skip
    text = "query q() { match { $a: A } return { count($a), sum($a.g), count( * ), count(distinct $a.n) } }"
    assert answer(text, {}, catalog=CATALOG, data=data()).columns == ("count(a)", "sum(a.g)", "count(*)", "count(distinct a.n)")


def test_loops_stop_when_told_to() -> None:
    rows = data(*(a(str(n)) for n in range(20)))
    with pytest.raises(TooManyRows):
        answer("query q() { match { $a: A  $b: A  $c: A } return { $a } }", None, catalog=CATALOG, data=rows, steps=1000)


def test_edits_are_counted() -> None:
    assert [distance("thief", other) for other in ("thief", "thif", "theif", "chef", "")] == [0, 1, 2, 2, 5]
