"""A plan that is filled with other values is the plan that they would have had; reads whose plan depends on the values have no template."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.template import plan_template, same_plan_for_all
from tests.samples import sample
from tests.unit.plan.cinema import read_of
from tests.unit.plan.test_planner import statistics

HEAD = "($n: String, $m: String, $y: I32, $r: F64, $u: U64, $d: Date, $t: DateTime, $v: Vector(3), $b: I64) "
ONE: dict[str, object] = {"n": "a", "m": "b", "y": 1, "r": 0.5, "u": 7, "d": "2020-01-01", "t": "2020-01-01T00:00:00Z"}
ONE |= {"v": [1.0, 0.0, 0.0], "b": 3}
OTHER: dict[str, object] = {"n": "", "m": "it's", "y": -(2**31), "r": 1e300, "u": 2**64 - 1, "d": "1900-12-31", "t": "1900-01-01T00:00:00Z"}
OTHER |= {"v": [0.1, 0.2, -0.3], "b": 2**62}

FIXED = [
    "$f.slug = $n",
    "$n != $f.slug",
    "$f.slug > $n",
    "$f.status = $n",
    "$f.title starts_with $n",
    "$f.title contains $n",
    "$f.year = $y",
    "$y < $f.year",
    "$f.rating >= $r",
    "$f.votes = $u",
    "$f.released <= $d",
    "$f.added_at = $t",
    "not { $f.year = $y }",
    "$f.year = $y and $f.slug = $n",
    "search($f.plot, $n)",
    "fuzzy($f.plot, $n, 1)",
    "match_text($f.plot, $n)",
    "$p.name = $n",
    "$p: Person { name: $m }",
    "$p actedIn $f",
    "exists { $p actedIn $f  $f.slug = $m }",
    "optional { $f madeBy $s  $s.name = $n }",
    "$f.year > 3 or $f.year < 1",
]
"""Conditions after which the same operators follow, whatever the values are."""

DEPENDING = [
    "$f.year = $b",  # a number that the property may be unable to hold
    "$f.rating = $y",
    "$f.year = $y or $f.year = 3",
    "$f.slug = $n or $f.slug = $m",
    "$f.genres contains $n",
    "$n = $m",
    "$f.added_at < now()",
    "$f.year + $y > 3",
    "lower($n) = $f.slug",
    "fuzzy($f.plot, $n, $y)",
    "$n is null",
]

RETURNS = [
    "return { $f.slug as s }",
    "return { $f.slug as s, nearest($f.vec, $v) as near, bm25($f.plot, $m) as best } order { near } limit 3",
    "return { $f.slug as s } order { nearest($f.vec, $v) } limit 3",
    "return { $f.slug as s } order { nearest($f.vec, $m) } limit 3",
    "return { $f.slug as s } order { bm25($f.plot, $n) } skip 1 limit 3",
    "return { $f.slug as s } order { rrf(nearest($f.vec, $v), bm25($f.plot, $n)) } limit 3",
    "return { $f.year as y, count($f) as n } order { bm25($f.plot, $m) } limit 3",
    "return distinct { $f.year as y } order { y desc }",
]


@settings(max_examples=sample(300, whole=5_000), deadline=None)
@given(st.lists(st.sampled_from(FIXED), max_size=4, unique=True), st.sampled_from(RETURNS), st.booleans())
def test_a_filled_template_is_the_plan_of_the_values(clauses: list[str], returns: str, known: bool) -> None:
    """X-02: one plan serves all calls: with other values it equals the plan that is made for them."""
    read = read_of(f"{HEAD}match {{ $f: Film  $p: Person  {'  '.join(clauses)} }} {returns}")
    told = statistics() if known else statistics(film=0, person=5, acted=0, indexed=())
    one, other = bind_parameters(read.parameters, ONE), bind_parameters(read.parameters, OTHER)
    assert same_plan_for_all(read)
    template = plan_template(read, one, told)
    for values in (one, other):
        assert template.filled(values) == plan_read(read, values, now_ms=5, statistics=told)


@pytest.mark.parametrize("clause", DEPENDING)
def test_a_read_whose_plan_depends_on_the_values_has_no_template(clause: str) -> None:
    read = read_of(f"{HEAD}match {{ $f: Film  {clause} }} return {{ $f.slug as s }}")
    assert not same_plan_for_all(read)


@pytest.mark.parametrize(
    "returns",
    [
        "return { $f.slug as s } limit $b",
        "return { $f.slug as s } skip $b limit 3",
        "return { $n as s }",
        "return { $f.year + $y as s }",
        "return { $f.slug as s, now() as t }",
        "return { sum($f.year + $y) as s }",
        "return { $f.slug as s } order { rrf(nearest($f.vec, $v), bm25($f.plot, $n), $b) } limit 3",
    ],
)
def test_a_value_that_is_counted_or_computed_with_has_no_template(returns: str) -> None:
    assert not same_plan_for_all(read_of(f"{HEAD}match {{ $f: Film }} {returns}"))


def test_values_that_a_search_refuses_are_refused_by_a_template() -> None:
    read = read_of("($v: Vector(3)) match { $f: Film } return { $f.slug as s } order { nearest($f.vec, $v) } limit 3")
    template = plan_template(read, bind_parameters(read.parameters, {"v": [1, 0, 0]}), statistics())
    with pytest.raises(InvalidInput, match="all zeros"):
        template.filled(bind_parameters(read.parameters, {"v": [0, 0, 0]}))
