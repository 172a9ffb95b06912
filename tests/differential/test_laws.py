"""Laws of the language on the engine: whatever the graph, the pattern and the conditions, two ways to ask give one answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.lang import parse_queries
from tests.harness.landing import land
from tests.harness.printer import print_queries
from tests.harness.random.graphs import RandomGraph, random_graph
from tests.harness.random.queries import Maker, random_query
from tests.samples import sample

SEEDS = (0, 1, 4, 7)
NOW_MS = 1_790_000_000_000
EXAMPLES = sample(40, whole=2_000)
MOST_ROWS = 4_000

lawful = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
numbers = st.integers(0, 2**32)
graphs = st.sampled_from(SEEDS)


@pytest.fixture(scope="module", autouse=True)
def _landed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    FOLDER.append(tmp_path_factory.mktemp("laws"))
    yield
    FOLDER.clear()
    landed.cache_clear()


FOLDER: list[Path] = []
"""Where the graphs are while the module's tests run; Hypothesis knows no fixtures that live longer than an example."""


@cache
def landed(seed: int) -> tuple[RandomGraph, Graph]:
    graph = random_graph(seed)
    return graph, land(FOLDER[0] / str(seed), graph.schema, graph.now)


def exact(value: object) -> str:
    """A row as text, with every digit of its floats. Both zeros are one number."""
    return json.dumps(_unsigned(value), ensure_ascii=False)


def _unsigned(value: object) -> object:
    match value:
        case float():
            return value + 0.0
        case list() | tuple():
            return [_unsigned(item) for item in value]
        case _:
            return value


class World:
    """A graph, a pattern in it, and the maker of what else is asked of its variables."""

    def __init__(self, seed: int, number: int) -> None:
        graph, self._real = landed(seed)
        self.maker = Maker(Random(f"law {number}"), graph.catalog, graph.now, plain=False)
        self.clauses = self.maker.clauses(1 + number % 3)
        self.names = sorted(self.maker.scope.variables)

    def bag(self, more: str = "", *, ids: bool = True, tail: str | None = None) -> Counter[str]:
        """The rows of the pattern with more clauses: the ids of its variables, or what `tail` returns."""
        shown = ", ".join(f"${name}.id as r{at}" for at, name in enumerate(self.names))
        returned = tail if tail is not None else f"return {{ {shown} }}" if ids else "return { count(*) as n }"
        parameters = ", ".join(f"${name}: {type_}" for name, type_ in self.maker.constants.declared)
        text = f"query q({parameters}) {{ match {{ {'  '.join(self.clauses)}  {more} }} {returned} }}"
        result = self._real.query(text, params=self.maker.constants.params)
        assume(len(result) <= MOST_ROWS)
        return Counter(map(exact, result.tuples()))

    def condition(self) -> str:
        """A condition on the variables of the pattern."""
        for _ in range(10):
            made = self.maker.condition() or self.maker.test()
            if made is not None:
                return made
        assume(False)
        raise AssertionError

    def block(self) -> str:
        for _ in range(10):
            made = self.maker.block()
            if made is not None:
                return made
        assume(False)
        raise AssertionError


@lawful
@given(graphs, numbers)
def test_two_negations_are_none(seed: int, number: int) -> None:
    world = World(seed, number)
    one = world.condition()
    assert world.bag(f"not (not ({one}))") == world.bag(f"({one})")


@lawful
@given(graphs, numbers)
def test_de_morgan(seed: int, number: int) -> None:
    world = World(seed, number)
    one, other = world.condition(), world.condition()
    assert world.bag(f"not (({one}) and ({other}))") == world.bag(f"(not ({one}) or not ({other}))")
    assert world.bag(f"not (({one}) or ({other}))") == world.bag(f"(not ({one}) and not ({other}))")


@lawful
@given(graphs, numbers)
def test_conditions_side_by_side_are_joined_by_and_in_any_order(seed: int, number: int) -> None:
    world = World(seed, number)
    one, other = world.condition(), world.condition()
    both = world.bag(f"({one})  ({other})")
    assert world.bag(f"(({one}) and ({other}))") == both
    assert world.bag(f"(({other}) and ({one}))") == both


@lawful
@given(graphs, numbers)
def test_a_condition_is_true_false_or_unknown_of_every_row(seed: int, number: int) -> None:
    """What is neither true nor false is what `c or not c` does not keep; no row is both."""
    world = World(seed, number)
    one = world.condition()
    holds, fails = world.bag(f"({one})"), world.bag(f"not ({one})")
    assert world.bag(f"(({one}) or not ({one}))") == holds + fails
    assert not world.bag(f"(({one}) and not ({one}))")
    assert holds + fails <= world.bag()


@lawful
@given(graphs, numbers)
def test_or_holds_where_one_of_two_does(seed: int, number: int) -> None:
    world = World(seed, number)
    one, other = world.condition(), world.condition()
    both = world.bag(f"({one})  ({other})")
    assert world.bag(f"(({one}) or ({other}))") == world.bag(f"({one})") + world.bag(f"({other})") - both


@lawful
@given(graphs, numbers)
def test_exists_is_not_turned_round(seed: int, number: int) -> None:
    world = World(seed, number)
    block = world.block()
    assert world.bag(f"exists {block}") + world.bag(f"not {block}") == world.bag()


@lawful
@given(graphs, numbers)
def test_either_is_the_union_of_exists(seed: int, number: int) -> None:
    world = World(seed, number)
    one, other = world.block(), world.block()
    both = world.bag(f"exists {one}  exists {other}")
    assert world.bag(f"either {one} or {other}") == world.bag(f"exists {one}") + world.bag(f"exists {other}") - both


@lawful
@given(graphs, numbers)
def test_an_optional_block_whose_variable_is_not_null_is_the_plain_match(seed: int, number: int) -> None:
    world = World(seed, number)
    known = set(world.maker.scope.variables)
    step = world.maker.onward()
    assume(step is not None)
    new = [name for name in world.maker.scope.variables if name not in known]
    assume(new)
    world.names = sorted(world.maker.scope.variables)
    plain = world.bag(str(step))
    assert world.bag(f"optional {{ {step} }}  ${new[0]} is not null") == plain
    # Every row of the pattern is there, with the block's rows or with nulls.
    world.names = sorted(known)
    without = world.bag(f"optional {{ {step} }}  ${new[0]} is null")
    assert set(world.bag(f"optional {{ {step} }}")) == set(world.bag())
    assert without == world.bag(f"not {{ {step} }}")


@lawful
@given(graphs, numbers)
def test_distinct_rows_are_the_rows_each_once(seed: int, number: int) -> None:
    world = World(seed, number)
    fields = [f"${name}.{property_.name}" for name in world.names for property_ in world.maker.scope.variables[name].type.properties]
    assume(fields)
    rng = Random(number)
    shown = ", ".join(f"{field} as r{at}" for at, field in enumerate(rng.sample(fields, min(len(fields), rng.randint(1, 3)))))
    rows = world.bag(tail=f"return {{ {shown} }}")
    distinct = world.bag(tail=f"return distinct {{ {shown} }}")
    assert distinct == Counter(set(rows))
    assert world.bag(tail=f"return distinct {{ {shown}, count(*) as n }}") == Counter(
        json.dumps([*json.loads(row), count], ensure_ascii=False) for row, count in rows.items()
    )


@lawful
@given(graphs, numbers, st.integers(0, 6), st.integers(0, 6))
def test_rows_skipped_and_rows_kept_are_all_rows(seed: int, number: int, skip: int, limit: int) -> None:
    world = World(seed, number)
    shown = ", ".join(f"${name}.id as r{at}" for at, name in enumerate(world.names))
    order = ", ".join(f"r{at}" for at in range(len(world.names)))
    tail = f"return {{ {shown} }} order {{ {order} }}"
    first, rest = world.bag(tail=f"{tail} limit {skip}"), world.bag(tail=f"{tail} skip {skip}")
    assert first + rest == world.bag()
    middle = world.bag(tail=f"{tail} skip {skip} limit {limit}")
    assert first + middle == world.bag(tail=f"{tail} limit {skip + limit}")


@lawful
@given(graphs, numbers)
def test_a_printed_query_gives_the_same_answer(seed: int, number: int) -> None:
    graph, real = landed(seed)
    query = random_query(Random(f"printed {number}"), graph.catalog, graph.now, now_ms=NOW_MS)
    assume(query.expected.limit is None and not query.expected.skip)  # which rows are cut may be left open
    printed = print_queries(parse_queries(query.text))
    asked = [real.query(text, params=query.params) for text in (query.text, printed)]
    assert asked[0].columns == asked[1].columns
    assert Counter(map(exact, asked[0].tuples())) == Counter(map(exact, asked[1].tuples()))
