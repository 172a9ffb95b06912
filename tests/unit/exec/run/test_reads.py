"""Whole reads: of any branch at any commit, within their limits, with indexes that are there, missing or stale."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, LimitError, NotFound, ResourceLimitExceeded
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph
from omnigraph.plan.ops import Route
from tests.mutations import build_indexes
from tests.reads import acted, ask, bag, film, graph_of, knows, load, person, routed, text_of

NAMES = "match { $p: Person } return { $p.name as n }"


def change(graph: Graph, body: str, *, branch: str = "main") -> None:
    graph.mutate(f"query c() {{ {body} }}", branch=branch)


# -- time travel


READS = {
    "rows": NAMES,
    "filtered": "match { $p: Person  $p.born > 10 } return { $p.name as n, $p.born as b }",
    "negated": "match { $p: Person  not { $p knows $q } } return { $p.name as n }",
    "one hop": "match { $p: Person  $p knows $q } return { $p.name as p, $q.name as q }",
    "two hops": "match { $p: Person  $p knows{2,2} $q } return { $p.name as p, $q.name as q }",
    "grouped": "match { $p: Person  $p knows $q } return { $p.name as p, count($q) as n }",
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, list[tuple[int, str, dict[str, list[tuple[object, ...]]]]]]:
    """Insert, link, update, delete: each version with what it answered when it was new."""
    graph = graph_of(tmp_path_factory.mktemp("history"), person("a", born=1), person("b", born=20))
    steps = [
        'insert Person { name: "c" born: 30 }',
        'insert Knows { from: "a" to: "b" } insert Knows { from: "b" to: "c" }',
        'update Person set { born: 11 } where name = "a"',
        'delete Person where name = "b"',
        'insert Person { name: "b" }',
    ]
    seen = []
    for step in ("", *steps):
        if step:
            change(graph, step)
        now = graph.snapshot()
        seen.append((now.manifest_version, now.commit_id, {name: bag(graph, body) for name, body in READS.items()}))
    return graph, seen


@pytest.mark.parametrize("name", READS)
def test_a_read_at_a_version_answers_as_of_it(
    history: tuple[Graph, list[tuple[int, str, dict[str, list[tuple[object, ...]]]]]], name: str
) -> None:
    """T-01, T-02: rows, values, edges and paths are those of that version, by number and by commit, with either route."""
    graph, seen = history
    assert len({repr(answers[name]) for _, _, answers in seen}) > 1, "the history never changes this answer"
    for version, commit, answers in seen:
        assert bag(graph, READS[name], at=version) == answers[name]
        assert bag(graph, READS[name], at=commit) == answers[name]
    assert all(routed(graph, READS[name], route) == seen[-1][2][name] for route in Route)


def test_a_version_that_never_was_is_not_found(tmp_path: Path) -> None:
    """T-03"""
    graph = graph_of(tmp_path, person("a"))
    for at in (99, "01ARZ3NDEKTSV4RRFFQ69G5FAV", datetime(2001, 1, 1, tzinfo=UTC)):
        with pytest.raises(NotFound):
            ask(graph, NAMES, at=at)


def test_a_moment_shows_the_newest_commit_before_it(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a"))
    then = graph.commits()[0].created_at
    load(graph, person("b"))
    assert ask(graph, NAMES, at=then) == [("a",)]
    assert bag(graph, NAMES, at=datetime.now(UTC)) == [("a",), ("b",)]


def test_branches_have_histories_of_their_own(tmp_path: Path) -> None:
    """T-04"""
    graph = graph_of(tmp_path, person("a"))
    graph.branches.create("work")
    load(graph, person("b"), knows("a", "b"), branch="work")
    load(graph, person("c"))
    hop = "match { $p: Person  $p knows $q } return { $p, $q }"
    assert bag(graph, NAMES) == [("a",), ("c",)]
    assert bag(graph, NAMES, branch="work") == [("a",), ("b",)]
    assert (bag(graph, hop), bag(graph, hop, branch="work")) == ([], [("a", "b")])
    assert graph.query(text_of(NAMES), branch="work").commit_id == graph.snapshot("work").commit_id


def test_old_versions_are_read_with_the_schema_of_their_day(tmp_path: Path) -> None:
    """D-14: A version of the past is read with the schema of its time.

    T-05: a renamed type is the same table; a new type of the old name is another.
    """
    graph = graph_of(tmp_path, person("a"), schema="node Person { name: String @key }")
    old = graph.snapshot().manifest_version
    graph.apply_schema('node Human @rename_from("Person") { name: String @key }')
    assert ask(graph, "match { $h: Human } return { $h.name }") == [("a",)]
    graph.apply_schema("node Human { name: String @key }\nnode Person { name: String @key }")
    assert ask(graph, "match { $p: Person } return { $p.name }") == []
    assert ask(graph, "match { $p: Person } return { $p.name }", at=old) == [("a",)]
    with pytest.raises(og.LanguageError):
        ask(graph, "match { $h: Human } return { $h.name }", at=old)


def test_a_graph_opened_for_reading_answers(tmp_path: Path) -> None:
    graph_of(tmp_path, person("a"), person("b"), knows("a", "b"))
    reader = og.open(tmp_path / "graph.omni", mode="r")
    assert ask(reader, "match { $p: Person  $p knows $q } return { $q }") == [("b",)]


# -- indexes


def test_indexes_change_the_plan_and_not_the_answer(tmp_path: Path) -> None:
    """X-02, X-03, X-14: equality and order go through an index, rows that it does not cover yet are found all the same."""
    people = [person(f"p{at}", born=at, nickName=f"nick{at % 10}", grade="abc"[at % 3], at="2024-03-01T12:30:15.25Z") for at in range(50)]
    graph = graph_of(tmp_path, *people)
    bodies = {
        "name": 'match { $p: Person { name: "p7" } } return { $p }',
        "nickName": 'match { $p: Person { nickName: "nick3" } } return { $p }',
        "born": "match { $p: Person  $p.born >= 40.5 } return { $p }",
        "grade": 'match { $p: Person { grade: "b" } } return { $p }',
        "at": 'match { $p: Person  $p.at <= datetime("2024-03-01T12:30:15.25Z") } return { $p }',
    }
    before = {column: bag(graph, body) for column, body in bodies.items()}
    assert "full scan" in graph.explain(text_of(bodies["name"])).text
    build_indexes(graph, "node:Person", *bodies)
    for column, body in bodies.items():
        assert f"index on {column}" in graph.explain(text_of(body)).text
        assert bag(graph, body) == before[column]
    load(graph, person("late", born=45, nickName="nick3", grade="b", at="2020-01-01"))
    for column, body in bodies.items():
        assert bag(graph, body) == (before[column] if column == "name" else sorted([*before[column], ("late",)], key=repr))


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("$p.born = 2.7", []),
        ("$p.born < 3000000000", ["a", "b"]),
        ("$p.born != 2.7", ["a", "b"]),
        ("$p.born > -3000000000", ["a", "b"]),
        ("2.5 < $p.born", ["b"]),
        ("$p.score = 0.1", ["a"]),
        ("$p.votes = 18446744073709551615", ["a"]),
        ("$p.rank > 9007199254740992.0", ["a"]),
        ('$p.day = date("1979-05-25")', ["a"]),
    ],
)
def test_literals_keep_their_value_whatever_the_column_can_hold(tmp_path: Path, filter_: str, expected: list[str]) -> None:
    """X-05: A literal that its column cannot hold is compared by its value, never truncated and never null.

    X-06: nothing is cut off, no filter is dropped; only a 32-bit float narrows its literal.
    """
    rows = (
        person("a", born=2, score=0.1, votes=2**64 - 1, rank=2**53 + 1, day="1979-05-25"),
        person("b", born=3, score=0.2, votes=0, rank=2**53, day="1979-05-26"),
        person("c"),
    )
    graph = graph_of(tmp_path, *rows)
    assert [name for (name,) in bag(graph, f"match {{ $p: Person  {filter_} }} return {{ $p }}")] == expected


def test_predicates_about_two_variables_compare_by_value(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", born=1979, height=1979.0, nickName="Alien"), film("x", year=1979, title="Alien vs Heat"))
    for filter_ in (
        "$p.born = $f.year",
        "$p.height = $f.year",
        "$f.title contains $p.nickName",
        "$f.title starts_with $p.nickName",
        "$p.born <= $f.year",
    ):
        assert ask(graph, f"match {{ $p: Person  $f: Film  {filter_} }} return {{ $p, $f }}") == [("a", "x")]
    assert ask(graph, "match { $p: Person  $f: Film  $p.height < $f.year } return { $p }") == []


# -- one snapshot


def test_a_reader_sees_one_snapshot_while_others_write(tmp_path: Path) -> None:
    """Both values are always changed in one commit, so no read ever finds them apart."""
    graph = graph_of(tmp_path, person("a", born=0), person("b", born=0))
    done = threading.Event()
    seen: list[list[tuple[object, ...]]] = []

    def work() -> None:
        while not done.is_set():
            seen.append(ask(graph, "match { $p: Person  $q: Person  $p.name != $q.name } return { $p.born as p, $q.born as q }"))

    readers = [threading.Thread(target=work) for _ in range(3)]
    for reader in readers:
        reader.start()
    for at in range(1, 9):
        change(graph, f'update Person set {{ born: {at} }} where name != ""')
    done.set()
    for reader in readers:
        reader.join(60)
    assert seen
    assert all(len(rows) == 2 and p == q for rows in seen for p, q in rows)


# -- limits


def test_a_text_to_embed_is_refused_without_a_provider_and_explained_all_the_same(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    for query, parameter in (('"x"', ""), ("$t", "$t: String"), ("$t", "$t: String?")):
        text = f"query q({parameter}) {{ match {{ $p: Person }} return {{ $p }} order {{\n nearest($p.vec, {query}) }} limit 1 }}"
        with pytest.raises(og.InvalidInput) as refused:
            graph.query(text, params={"t": "x"} if parameter else {})
        assert (refused.value.kind, refused.value.facts["property"]) == (Kind.EMBEDDING_MISSING, "vec")
        assert "rank" in graph.explain(text, params={"t": "x"} if parameter else {}).text


def test_a_query_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a"))
    with pytest.raises(LimitError) as ended:
        graph.query(text_of(NAMES), timeout=1e-9)
    assert ended.value.kind is Kind.TIMEOUT
    assert graph.query(text_of(NAMES), timeout=60).row_count == 1
    for wrong in (0, -1, float("nan")):
        with pytest.raises(og.InvalidInput):
            graph.query(text_of(NAMES), timeout=wrong)


def test_another_thread_may_cancel_a_query(tmp_path: Path) -> None:
    """The product has so many pairs that only the cancellation ends it."""
    graph = graph_of(tmp_path, *(person(f"p{at}") for at in range(1000)))
    cancellation = og.Cancellation()
    ended: list[LimitError] = []

    def work() -> None:
        try:
            graph.query(text_of("match { $a: Person  $b: Person  $c: Person } return { count($c) as n }"), cancellation=cancellation)
        except LimitError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    cancellation.cancel()
    thread.join(30)
    assert [error.kind for error in ended] == [Kind.CANCELLED]


def test_a_cancelled_query_does_not_begin() -> None:
    cancellation = og.Cancellation()
    cancellation.cancel()
    with pytest.raises(LimitError):
        Watch(cancellation=cancellation).check()


def test_what_cannot_be_stopped_is_not_waited_for() -> None:
    """A call into storage, or the building of an adjacency: it has no moment at which to ask."""
    released = threading.Event()
    with pytest.raises(LimitError) as late:
        Watch(timeout_seconds=0.05).guard(released.wait)
    assert late.value.kind is Kind.TIMEOUT
    cancellation = og.Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(LimitError) as ended:
        Watch(cancellation=cancellation).guard(released.wait)
    assert ended.value.kind is Kind.CANCELLED
    released.set()


def test_a_process_does_not_end_under_work_that_was_left_behind() -> None:
    """Python is not taken down under a thread that is inside Lance: the process would abort."""
    program = (
        "import time\n"
        "from omnigraph.exec.read.watch import Watch\n"
        "Watch(timeout_seconds=0.01).guard(lambda: (time.sleep(0.3), print('ended')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "ended\n")


def test_what_work_under_a_limit_raises_is_raised_as_it_is() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        Watch(timeout_seconds=60).guard(fail)


PLACES = {"return": (1, 55), "order": (1, 72), "match": (1, 21)}


@pytest.mark.parametrize(
    ("body", "clause"),
    [
        ("match { $p: Person  $q: Person } return { $p, $q }", "return"),
        ("match { $p: Person  $q: Person } return { $p, $q } order { $p.name asc }", "order"),
        ("match { $p: Person  $q: Person } return { count($p) as n }", "match"),
    ],
)
def test_what_a_query_holds_is_bounded(tmp_path: Path, body: str, clause: str) -> None:
    graph = graph_of(tmp_path, *(person(f"p{at}") for at in range(40)))
    with pytest.raises(ResourceLimitExceeded) as refused:
        routed(graph, body, Route.INDEX, memory_bytes=300 if clause == "match" else 5_000)
    assert refused.value.facts["clause"] == clause
    assert refused.value.facts["limit"] in (300, 5_000)
    assert (refused.value.facts["line"], refused.value.facts["column"]) == PLACES[clause]
    assert f"({clause}, line 1, column " in refused.value.message


def test_a_limit_ends_the_work_early(tmp_path: Path) -> None:
    """A product of 10^18 rows, of which five are asked for."""
    graph = graph_of(tmp_path, *(person(f"p{at}") for at in range(1000)))
    six = "  ".join(f"$v{at}: Person" for at in range(6))
    assert len(ask(graph, f"match {{ {six} }} return {{ $v0, $v5 }} limit 5")) == 5
    assert ask(graph, f"match {{ {six} }} return {{ $v0 }} limit 0") == []


# -- shapes


def test_a_read_of_a_mutation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(og.InvalidInput, match="query 'm' is a mutation, and this is a read; run it with `mutate`"):
        graph_of(tmp_path).query('query m() { insert Person { name: "x" } }')


def test_rebinding_adds_filters_and_wildcards_never_join(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", born=1), person("b", born=1), film("f"), acted("a", "f"), acted("b", "f"))
    assert ask(graph, 'match { $p: Person { born: 1 }  $p: Person { name: "b" } } return { $p }') == [("b",)]
    assert ask(graph, "match { $f: Film  $_ actedIn $f  $_ actedIn $f } return { $f }") == [("f",)] * 4


def test_many_rows_keep_their_order_across_batches(tmp_path: Path) -> None:
    """More rows than travel together, through a fetch, a filter and an order."""
    import numpy as np
    import pyarrow as pa

    from tests.mutations import fill

    count = 150_000
    graph = graph_of(tmp_path, schema="node N { k: I64 @key  g: I64  t: String }\nedge E: N -> N")
    ids = pa.array([str(at) for at in range(count)])
    fill(graph, {"node:N": pa.table({"id": ids, "g": np.arange(count) % 1000, "k": np.arange(count), "t": ids})})
    fill(graph, {"edge:E": pa.table({"id": ids, "src": ids, "dst": ids.take(pa.array((np.arange(count) + 1) % count))})})
    rows = ask(graph, "match { $n: N  $n.k >= 70000 } return { $n.k as k, $n.t as t } order { k desc }")
    assert rows == [(at, str(at)) for at in range(count - 1, 69_999, -1)]
    hopped = ask(graph, "match { $n: N  $n e $m } return { $m.g as g, count($m) as c } order { g asc }")
    assert hopped == [(at, 150) for at in range(1000)]
    least = ask(graph, "match { $n: N  $n e $m } return { $n.k as k, $m.k as m } order { $n.g asc } limit 3")
    assert least == [(0, 1), (100_000, 100_001), (10_000, 10_001)], "ties go by the text of $m's id"
