"""Random graphs and queries: the same for the same seed, valid, and varied; and failures made small."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, LanguageError, OmniGraphError
from omnigraph.lang import parse_queries, select_query
from omnigraph.lang.query import (
    Arithmetic,
    Change,
    Delete,
    DeleteBound,
    FunctionCall,
    Insert,
    MatchedChanges,
    Mutation,
    Negative,
    Update,
    UpdateBound,
)
from omnigraph.plan.check import check_read
from tests.harness.agree import disagreement
from tests.harness.brute import Answer, Data, Row, TooManyRows, answer, change, read_lines, write_lines
from tests.harness.engine import Table
from tests.harness.random.changes import random_change, with_unique_edge
from tests.harness.random.graphs import RandomGraph, random_graph
from tests.harness.random.kinds import KINDS, kinds_of
from tests.harness.random.queries import random_query
from tests.harness.shrink import Case, catalog_of, shrunk

NOW_MS = 1_790_000_000_000

PRINT = """
from random import Random
from tests.harness.random.graphs import random_graph
from tests.harness.random.queries import random_query
graph = random_graph(3)
print(graph.schema, graph.branch)
for number in range(5):
    query = random_query(Random(f"query 3 {number}"), graph.catalog, graph.now, now_ms=0)
    print(query.text, query.params)
"""


def test_a_seed_means_the_same_in_every_process() -> None:
    def printed(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True, check=True).stdout

    assert printed("1") == printed("2")


def graphs() -> list[RandomGraph]:
    return [random_graph(seed) for seed in range(8)]


def test_ids_are_unique_inside_a_type_and_shared_between_types() -> None:
    shared = 0
    for graph in graphs():
        for data in (graph.first, graph.now, graph.branch):
            for rows in (*data.nodes.values(), *data.edges.values()):
                assert len({row["id"] for row in rows}) == len(rows)
        types = [{row["id"] for row in rows} for rows in graph.first.nodes.values()]
        shared += any(one & other for one in types for other in types if one is not other)
    assert shared > 2


def test_a_graph_changes_and_its_branch_once_more() -> None:
    for graph in graphs():
        assert graph.first != graph.now != graph.branch


def test_the_data_of_a_graph_survives_its_lines() -> None:
    for graph in graphs():
        assert read_lines(write_lines(graph.first, graph.catalog), graph.catalog) == graph.first


def test_graphs_hold_what_traversals_stumble_over() -> None:
    parallel = loops = 0
    for graph in graphs():
        for rows in graph.first.edges.values():
            ends = [(row["src"], row["dst"]) for row in rows]
            parallel += len(set(ends)) < len(ends)
        loops += any(
            row["src"] == row["dst"] for edge in graph.catalog.edges if edge.source == edge.target for row in graph.first.edges[edge.name]
        )
    assert parallel > 4
    assert loops > 4


def test_queries_are_valid_and_most_find_something() -> None:
    found = total = 0
    for graph in graphs():
        for number in range(10):
            query = random_query(Random(f"{graph.seed} {number}"), graph.catalog, graph.first, now_ms=NOW_MS)
            check_read(select_query(parse_queries(query.text), None), graph.catalog)
            assert query.expected == answer(query.text, query.params, catalog=graph.catalog, data=graph.first, now_ms=NOW_MS)
            total += 1
            found += bool(query.expected.rows)
    assert found >= 0.6 * total


def test_every_construct_and_operator_has_a_name() -> None:
    graph = random_graph(1)
    seen: set[str] = set()
    for number in range(120):
        query = random_query(Random(number), graph.catalog, graph.first, now_ms=NOW_MS)
        seen |= set(+kinds_of(query.text, query.params, graph.catalog, now_ms=NOW_MS))
    assert seen <= KINDS
    assert len(seen) > 0.6 * len(KINDS)


# agreeing


def expected(*classes: list[tuple[object, ...]], limit: int | None = None, skip: int = 0) -> Answer:
    return Answer(("c",), tuple(map(tuple, classes)), limit, skip)


@pytest.mark.parametrize(
    ("wanted", "rows", "agree"),
    [
        (expected([(1,), (2,)]), [(2,), (1,)], True),
        (expected([(1,), (2,)]), [(1,), (1,)], False),
        (expected([(1,), (1,)]), [(1,)], False),
        (expected([(1,)], [(2,)]), [(2,), (1,)], False),
        (expected([(1,), (2,)], [(3,)]), [(2,), (1,), (3,)], True),
        (expected([(1,), (2,)], [(3,)], limit=1), [(2,)], True),
        (expected([(1,), (2,)], [(3,)], limit=1), [(3,)], False),
        (expected([(1,), (2,)], limit=1), [(1,), (2,)], False),
        (expected([], limit=0), [], True),
        (expected([(1,), (2,)], [(3,)], skip=1), [(1,), (3,)], True),
        (expected([(1,), (2,)], [(3,)], skip=1), [(2,), (3,)], True),
        (expected([(1,), (2,)], [(3,)], skip=2), [(3,)], True),
        (expected([(1,), (2,)], [(3,)], skip=2), [(2,)], False),
        (expected([(1,), (2,)], [(3,)], skip=1, limit=1), [(1,)], True),
        (expected([(1,), (2,)], [(3,)], skip=1, limit=1), [(3,)], False),
        (expected([(1,), (2,)], skip=9), [], True),
        (expected([(0.1 + 0.2,)]), [(0.3,)], True),
        (expected([(0.0,)]), [(-0.0,)], True),
        (expected([(1,)]), [(1.0,)], False),
        (expected([(1,)]), [(True,)], False),
        (expected([(None,)]), [(0,)], False),
        (expected([([1.0, None],)]), [([1.0, None],)], True),
        (expected([([],)]), [(None,)], False),
        (expected([(0.1,)]), [(0.10000000149011612,)], False),
    ],
)
def test_an_answer_is_right_up_to_what_was_promised(wanted: Answer, rows: list[tuple[object, ...]], agree: bool) -> None:
    assert (disagreement(wanted, Table(("c",), tuple(rows))) is None) == agree


def test_columns_are_compared_by_name() -> None:
    assert disagreement(expected([]), Table(("d",), ())) is not None


# shrinking


SCHEMA = """
node Alpha { key: String @key  tag: I32  note: String? }
node Beta { key: I32 @key }
edge Follows: Alpha -> Alpha { at: Date? }
edge Owns: Alpha -> Beta
"""


def test_every_new_piece_of_a_query_can_be_left_out() -> None:
    """The failure here: a condition on the tag under an `or`, in a block in a block."""
    nodes: dict[str, list[Row]] = {"Alpha": [{"id": "a", "key": "a", "tag": 1, "note": None}], "Beta": []}
    text = """query q($l: [I32], $n: I64) {
      match {
        $a: Alpha  optional { path $w = $a <follows|follows>{1,3} $b }
        either { $a.tag in [1, 2] } or { $a.key != ""  exists { $a.key != "" ($a.note is null or not ($a.tag > 1 and $a.tag in $l)) } }
      }
      return distinct { lower($a.key) + "x" as k, length($w) as n, -$a.tag as m } order { m desc nulls last, k } skip $n limit 5
    }"""

    def fails(case: Case) -> bool:
        try:
            answer(case.text, case.params, catalog=catalog_of(case.schema), data=case.data)
        except LanguageError:
            return False
        return "tag > 1" in case.text

    whole = Case(SCHEMA, Data(nodes, {"Follows": [], "Owns": []}), text, {"l": [1], "n": 0})
    assert fails(whole)
    small = shrunk(whole, fails, seconds=60)
    assert " ".join(small.text.split()) == "query q() { match { $a: Alpha $a.tag > 1 } return { $a.key as k } }"
    assert small.params == {}
    assert small.data == Data({"Alpha": []}, {})


def test_a_failure_is_made_as_small_as_it_gets() -> None:
    """The failure here: somebody follows somebody whose tag is larger."""
    names = [f"n{number}" for number in range(12)]
    nodes: dict[str, list[Row]] = {"Alpha": [{"id": name, "key": name, "tag": at % 5, "note": None} for at, name in enumerate(names)]}
    nodes["Beta"] = [{"id": str(number), "key": number} for number in range(3)]
    follows: list[Row] = [{"id": name, "src": name, "dst": names[(at * 7 + 1) % 12], "at": None} for at, name in enumerate(names)]
    owns: list[Row] = [{"id": name, "src": name, "dst": str(at % 3)} for at, name in enumerate(names)]
    text = """query q($unused: I32, $n: I32) {
      match { $a: Alpha  $b: Beta  $a follows{1,2} $c  $c.tag > $a.tag  not { $a.tag = $n  $c.tag = 7 } }
      return { $a, $c, $b as b } order { $a.tag } limit 50
    }"""

    def fails(case: Case) -> bool:
        if "tag >" not in case.text:
            return False
        try:
            return bool(answer(case.text, case.params, catalog=catalog_of(case.schema), data=case.data).rows)
        except LanguageError:
            return False

    whole = Case(SCHEMA, Data(nodes, {"Follows": follows, "Owns": owns}), text, {"unused": 1, "n": 3})
    assert fails(whole)
    small = shrunk(whole, fails, seconds=60)
    assert {name: len(rows) for name, rows in small.data.nodes.items()} == {"Alpha": 2}
    assert {name: len(rows) for name, rows in small.data.edges.items()} == {"Follows": 1}
    assert " ".join(small.text.split()).startswith("query q() { match { $a follows $c $c.tag > $a.tag } return { $")
    assert small.params == {}
    assert "note" not in small.schema


# changes


def _kinds_of_change(each: Change, *, matched: bool, catalog: Catalog) -> Iterator[str]:
    behind = " behind a match" if matched else ""
    match each:
        case Insert(type_name=name, insertion=insertion):
            yield f"{insertion.value} {'node' if catalog.node(name.text) else 'edge'}{behind}"
        case Update(type_name=name):
            yield f"update {'node' if catalog.node(name.text) else 'edge'}{behind}"
        case Delete(type_name=name):
            yield f"delete {'node' if catalog.node(name.text) else 'edge'}{behind}"
        case UpdateBound():
            yield "update a variable"
        case DeleteBound(variables=variables):
            yield "delete a variable" if len(variables) == 1 else "delete variables"
    for assignment in getattr(each, "assignments", ()):
        yield from ("a value calculated" for _ in range(isinstance(assignment.value, Arithmetic | FunctionCall | Negative)))


KINDS_OF_CHANGES = {
    *(f"{word} {what}" for word in ("insert", "create", "upsert", "update", "delete") for what in ("node", "edge")),
    *("insert edge behind a match", "create edge behind a match", "upsert edge behind a match"),
    *("update a variable", "delete a variable", "delete variables", "a value calculated"),
}


def test_changes_are_valid_of_every_kind_and_seldom_refused() -> None:
    found: Counter[str] = Counter()
    refused: Counter[Kind] = Counter()
    made = 0
    for seed in range(12):
        _, catalog, data = with_unique_edge(random_graph(seed))
        for number in range(25):
            mutation = random_change(Random(f"{seed} {number}"), catalog, data)
            body = parse_queries(mutation.text).queries[0].body
            assert isinstance(body, Mutation)
            for statement in body.statements:
                matched = isinstance(statement, MatchedChanges)
                for each in statement.changes if isinstance(statement, MatchedChanges) else (statement,):
                    found.update(_kinds_of_change(each, matched=matched, catalog=catalog))
            made += 1
            try:
                change(mutation.text, mutation.params, catalog=catalog, data=data, now_ms=NOW_MS, steps=30_000)
            except OmniGraphError as error:
                refused[error.kind] += 1
            except TooManyRows:
                pass
    assert set(refused) <= {Kind.VALIDATION, Kind.KEY_CONFLICT, Kind.AMBIGUOUS_UPDATE}
    assert refused.total() < 0.3 * made
    rare = {kind: found[kind] for kind in KINDS_OF_CHANGES if found[kind] < 0.01 * made}
    assert not rare
