"""The route of a link is chosen when its nodes are counted: a wrong guess of the plan costs time once, and never an answer."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from omnigraph.errors import Kind, LimitError
from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE
from omnigraph.exec.read.measure import Tally
from omnigraph.exec.read.routes import LinkRouter
from omnigraph.exec.read.view import View
from omnigraph.exec.read.walk import Reach
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph
from omnigraph.plan import ir, ops
from omnigraph.plan.explain import Explanation, Measured, Step
from omnigraph.plan.expr import type_ref
from omnigraph.plan.ops import LinkCosts, Route, RouteChoice
from omnigraph.plan.statistics import Availability
from omnigraph.plan.typed import Direction
from tests.reads import graph_of, knows, person, text_of

PEOPLE = 40
COSTS = LinkCosts(key_ms=1.0, pass_ms=1e6, far_key_ms=0.0, far_pass_ms=0.0, degree=0.0, directions=1, most=1e6, ready_ms=1e5, linked_ms=1e4)
"""An index answers at a millisecond for each node, and an adjacency is never worth it unless a test says so."""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """One person knows twenty, each of whom knows the next."""
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    people = [person(f"p{at:02d}", born=at) for at in range(PEOPLE)]
    star = [knows("p00", f"p{at:02d}", since=at) for at in range(1, 21)]
    chain = [knows(f"p{at:02d}", f"p{at + 1:02d}", since=at) for at in range(1, PEOPLE - 1)]
    return graph_of(tmp_path, *people, *star, *chain)


def view_of(graph: Graph) -> View:
    return graph.engine.view(graph.engine.manifest.snapshot())  # below the facade, which has no such choice


def routed(view: View, graph: Graph, costs: LinkCosts, *, guess: Route, forced: Route | None = None) -> tuple[LinkRouter, Tally]:
    edge, node = graph.catalog.edge("knows"), graph.catalog.node("Person")
    assert edge is not None
    assert node is not None
    people, tally = view.entities(node), Tally()
    link = ir.Link(type_ref(edge), 0, 1, Direction.OUT)
    choice = RouteChoice(guess, Route.INDEX, 0.0, 0.0, Availability.MISSING, costs)
    return LinkRouter(link, choice, view, (people, people), forced=forced, watch=Watch(), tally=tally), tally


def taken(tally: Tally) -> list[tuple[str, int]]:
    return [(route.route, route.nodes) for route in tally.measured.routes]


def test_many_nodes_where_few_were_expected_are_walked(graph: Graph) -> None:
    ways, tally = routed(view_of(graph), graph, msgspec.structs.replace(COSTS, ready_ms=20.0), guess=Route.INDEX)
    ways.hops(Direction.OUT, np.arange(PEOPLE))
    assert taken(tally) == [("adjacency", PEOPLE)]
    assert tally.ready_ms > 0


def test_few_nodes_where_many_were_expected_are_looked_up(graph: Graph) -> None:
    ways, tally = routed(view_of(graph), graph, COSTS, guess=Route.ADJACENCY)
    ways.hops(Direction.OUT, np.arange(2))
    assert taken(tally) == [("index", 2)]
    assert view_of(graph).availability(ways._link.edge.id) is Availability.MISSING


def test_lookups_end_when_they_have_cost_what_an_adjacency_does(graph: Graph) -> None:
    """However wrong the guess is: each call alone looks cheap, and together they are not."""
    view = view_of(graph)
    costs = msgspec.structs.replace(COSTS, ready_ms=50.0)
    ways, tally = routed(view, graph, costs, guess=Route.INDEX)
    for _ in range(200):
        ways.hops(Direction.OUT, np.arange(1))
    (first, looked_up), (second, walked) = taken(tally)
    assert (first, second) == ("index", "adjacency")
    assert looked_up < 50 < walked
    assert view.spent_ms(ways._link.edge.id) == 0, "the account begins anew with an adjacency"


def test_what_another_link_has_built_is_used(graph: Graph) -> None:
    view = view_of(graph)
    first, _ = routed(view, graph, COSTS, guess=Route.INDEX, forced=Route.ADJACENCY)
    first.hops(Direction.OUT, np.arange(2))
    second, tally = routed(view, graph, COSTS, guess=Route.INDEX)
    second.hops(Direction.OUT, np.arange(2))
    assert taken(tally) == [("adjacency", 2)]


def test_a_search_may_change_its_route_between_two_hops(graph: Graph) -> None:
    """One node is looked up; the twenty it leads to are too many."""
    reach = Reach(Direction.OUT, 1, 3, from_right=False)
    start = np.arange(1)
    ways, tally = routed(view_of(graph), graph, msgspec.structs.replace(COSTS, ready_ms=20.0), guess=Route.INDEX)
    found = ways.pairs(reach, start)
    assert [route for route, _ in taken(tally)] == ["index", "adjacency"]
    walked, _ = routed(view_of(graph), graph, COSTS, guess=Route.INDEX, forced=Route.ADJACENCY)
    scanned, _ = routed(view_of(graph), graph, COSTS, guess=Route.INDEX, forced=Route.SCAN)
    for other in (walked, scanned):
        assert [part.tolist() for part in other.pairs(reach, start)] == [part.tolist() for part in found]
        assert other.counts(reach, start).tolist() == [len(found.reached)]


# -- existence


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("hops", [(1, 1), (2, 2), (1, 3)])
def test_which_nodes_have_a_link_is_the_same_by_every_route(graph: Graph, direction: Direction, hops: tuple[int, int]) -> None:
    for from_right in (False, True):
        reach, nodes = Reach(direction, *hops, from_right=from_right), np.arange(PEOPLE)[::-1]
        ways = [routed(view_of(graph), graph, COSTS, guess=Route.INDEX, forced=route)[0] for route in Route]
        answers = [way.linked(reach, nodes).tolist() for way in ways]
        assert answers == [(ways[0].counts(reach, nodes) > 0).tolist()] * len(answers)


def test_a_link_of_which_only_the_existence_counts_needs_no_adjacency_the_first_time(graph: Graph) -> None:
    """One pass over the edges is cheaper than to build it; passes end when they have cost as much."""
    view, reach = view_of(graph), Reach(Direction.OUT, 1, 1, from_right=False)
    costs = msgspec.structs.replace(COSTS, ready_ms=1e4, linked_ms=10.0)
    ways, tally = routed(view, graph, costs, guess=Route.ADJACENCY)
    linked = ways.linked(reach, np.arange(PEOPLE))
    assert linked.tolist() == [True] * (PEOPLE - 1) + [False]
    assert taken(tally) == [("scan", PEOPLE)]
    view.spend(ways._link.edge.id, 1e4)
    assert ways.linked(reach, np.arange(PEOPLE)).tolist() == linked.tolist()
    assert taken(tally) == [("scan", PEOPLE), ("adjacency", PEOPLE)]


def test_a_few_nodes_are_looked_up_also_if_only_their_existence_counts(graph: Graph) -> None:
    ways, tally = routed(view_of(graph), graph, COSTS, guess=Route.INDEX)
    assert ways.linked(Reach(Direction.OUT, 1, 1, from_right=False), np.arange(2)).tolist() == [True, True]
    assert taken(tally) == [("index", 2)]


def test_a_wait_for_the_processor_is_not_charged_to_lookups(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a lookup takes long, and costs no more than on an idle one."""
    view = view_of(graph)
    ways, tally = routed(view, graph, COSTS, guess=Route.INDEX)
    clock = time.perf_counter
    monkeypatch.setattr("omnigraph.exec.read.routes.time.perf_counter", lambda: clock() * 1_000)
    ways.hops(Direction.OUT, np.arange(2))
    (route,) = tally.measured.routes
    assert view.spent_ms(ways._link.edge.id) < route.ms / 10


# -- explain


def steps(explanation: Explanation) -> dict[str, Step]:
    found: dict[str, Step] = {}
    waiting = [explanation.plan]
    while waiting:
        step = waiting.pop()
        found[step.operator] = step
        waiting += step.inputs
    return found


def measured(step: Step) -> Measured:
    assert step.actual is not None
    return step.actual


ALL = text_of("match { $p: Person  $p knows $q } return { $p.name, $q.name }")


def test_a_plan_that_did_not_run_has_no_facts(graph: Graph) -> None:
    explanation = graph.explain(ALL)
    assert all(step.actual is None for step in steps(explanation).values())
    assert "actual" not in str(explanation.to_json())


def test_facts_stand_beside_the_guesses(graph: Graph) -> None:
    explanation = graph.explain(ALL, analyze=True)
    by_name = steps(explanation)
    assert measured(by_name["scan"]).rows == PEOPLE
    assert measured(by_name["expand"]).rows == measured(by_name["project"]).rows == 20 + PEOPLE - 2
    assert measured(by_name["project"]).ms >= measured(by_name["expand"]).ms >= measured(by_name["scan"]).ms > 0
    (route,) = measured(by_name["expand"]).routes
    assert (route.route, route.calls, route.nodes) == ("adjacency", 1, PEOPLE)
    (line,) = (line for line in explanation.text.splitlines() if "expand" in line)
    assert "why: scan ~" in line
    assert "adjacency (to be built) ~" in line
    assert f"taken: adjacency from {PEOPLE} nodes in " in line
    assert "adjacency at hand in " in line
    assert f"rows; {20 + PEOPLE - 2} rows in " in line
    document = explanation.to_json()["plan"]
    assert isinstance(document, dict)
    assert document["actual"]["rows"] == 20 + PEOPLE - 2


def test_rows_that_are_only_counted_are_rows_of_their_step(graph: Graph) -> None:
    text = text_of("match { $p: Person  $p knows $q } return { $p.name, count($q) as n }")
    by_name = steps(graph.explain(text, analyze=True))
    assert measured(by_name["expand"]).rows == 20 + PEOPLE - 2
    assert measured(by_name["aggregate"]).rows == PEOPLE - 1


def test_the_inside_of_a_negation_is_measured_too(graph: Graph) -> None:
    by_name = steps(graph.explain(text_of("match { $p: Person  not { $p knows $_ } } return { $p.name }"), analyze=True))
    assert measured(by_name["anti join"]).rows == 1
    assert measured(by_name["outer rows"]).rows == PEOPLE
    assert measured(by_name["expand"]).rows == PEOPLE - 1, "each row that has a link once, not once for each link"


def test_an_analyzed_query_keeps_to_its_time(graph: Graph) -> None:
    text = text_of("match { $p: Person  $q: Person  $r: Person  $s: Person  $t: Person } return { count($t) as n }")
    with pytest.raises(LimitError) as told:
        graph.explain(text, analyze=True, timeout=0.05)
    assert told.value.kind is Kind.TIMEOUT


def test_an_operator_that_stands_twice_in_a_plan_is_measured_twice() -> None:
    from omnigraph.exec.read.measure import Recorder

    recorder = Recorder()
    first, second = ops.Empty(), ops.Empty()
    recorder.of(first).rows = 1
    assert recorder.measured(second) is None
    assert recorder.measured(first) == Measured(1, 0.0)
