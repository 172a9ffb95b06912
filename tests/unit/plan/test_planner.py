"""Which operators are chosen, where predicates and columns end up, and what statistics change."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.ids import TypeId
from omnigraph.plan import ir, ops
from omnigraph.plan.explain import explain
from omnigraph.plan.expr import Constant
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.statistics import NO_STATISTICS, Availability, EdgeStatistics, NodeStatistics, Statistics, statistics_of
from tests.unit.plan.cinema import cinema, read_of


def statistics(
    *,
    film: int = 1000,
    person: int = 1000,
    acted: int = 5000,
    indexed: tuple[str, ...] = ("slug", "year"),
    ready: Availability = Availability.MISSING,
) -> Statistics:
    catalog = cinema()
    rows: dict[TypeId, int] = {}
    for name, count in (("Film", film), ("Person", person), ("Studio", 10)):
        node = catalog.node(name)
        assert node is not None
        rows[node.id] = count
    for name, count in (("ActedIn", acted), ("Influenced", acted), ("MadeBy", film)):
        edge = catalog.edge(name)
        assert edge is not None
        rows[edge.id] = count
    film_type, person_type, acted_type = catalog.node("Film"), catalog.node("Person"), catalog.edge("ActedIn")
    assert film_type is not None
    assert person_type is not None
    assert acted_type is not None
    return statistics_of(
        catalog,
        rows,
        indexed={
            film_type.id: frozenset(indexed),
            person_type.id: frozenset({"name"}),
            **{edge.id: frozenset({"src", "dst"}) for edge in catalog.edges},
        },
        adjacency={acted_type.id: ready},
    )


def planned(text: str, known: Statistics = NO_STATISTICS, given: object = None) -> ops.ReadPlan:
    read = read_of(text)
    return plan_read(read, bind_parameters(read.parameters, given), now_ms=0, statistics=known)


def root_scan(plan: ops.ReadPlan) -> ops.Scan:
    op: ops.Op = plan.root
    while not isinstance(op, ops.Scan):
        assert not isinstance(op, ops.Argument | ops.Empty)
        op = op.left if isinstance(op, ops.CrossProduct | ops.Join) else op.input
    return op


def expansions(plan: ops.ReadPlan) -> list[ops.Expand]:
    """From the root outwards."""
    found: list[ops.Expand] = []
    op: ops.Op = plan.root
    while not isinstance(op, ops.Scan | ops.Argument | ops.Empty):
        if isinstance(op, ops.Expand):
            found.append(op)
        op = op.left if isinstance(op, ops.CrossProduct | ops.Join) else op.input
    return found[::-1]


def name_of(plan: ops.ReadPlan, binding: int) -> str:
    return plan.bindings[binding].name


# where predicates and columns go


def test_point_lookup_is_one_scan_with_everything_in_it() -> None:
    plan = planned('match { $f: Film { slug: "alien" } } return { $f.title, $f.year }', statistics())
    assert isinstance(plan.root, ops.Project)
    scan = plan.root.input
    assert isinstance(scan, ops.Scan)
    assert scan.indexes == ("slug",)
    assert scan.columns == ("title", "year")
    assert scan.rows == pytest.approx(1.0)


def test_predicate_on_a_reached_node_goes_into_its_scan() -> None:
    plan = planned('match { $p: Person { name: "Ada" } $p actedIn $f  $f.year > 1990 } return { $f.slug }', statistics())
    (expand,) = expansions(plan)
    assert [type(predicate) for predicate in expand.target.where] == [ir.Compare]
    assert expand.target.columns == ("slug",)
    assert expand.restrict is ops.Restrict.AFTER


def test_predicate_on_an_edge_goes_into_its_link() -> None:
    (expand,) = expansions(planned("match { $p: Person  $p $r:actedIn $f  $r.billing > 1.5 } return { $r.role }"))
    assert len(expand.link.where) == 1
    assert expand.link.columns == ("role",)


def test_predicate_on_two_nodes_waits_for_both_and_no_longer() -> None:
    plan = planned("match { $p: Person  $p actedIn $f  $p directed $g  $f.year < $g.year  $f madeBy $s } return { $p }")
    spelled = explain(plan).text
    assert spelled.index("filter  where: $f.year < $g.year") < spelled.index("$p -ActedIn-> $f")


def test_negation_sinks_to_what_it_needs() -> None:
    plan = planned("match { $p: Person  $p actedIn $f  not { $p directed $g } } return { $f }")
    (expand,) = expansions(plan)
    assert isinstance(expand.input, ops.SemiJoin)


def test_columns_only_needed_after_a_limit_are_fetched_after_it() -> None:
    plan = planned("match { $f: Film } return { $f.plot } order { $f.rating desc } limit 2")
    assert isinstance(plan.root, ops.Project)
    fetch = plan.root.input
    assert isinstance(fetch, ops.Fetch)
    assert fetch.reads == (ir.Read(0, ("plot",)),)
    assert isinstance(fetch.input, ops.Sort)
    assert fetch.input.limit == 2
    assert isinstance(fetch.input.input, ops.Scan)
    assert fetch.input.input.columns == ("rating",)


def test_outer_columns_read_inside_a_negation_are_delivered() -> None:
    plan = planned("match { $f: Film  not { $g: Film  $g.year < $f.year } } return { $f }")
    assert root_scan(plan).columns == ("year",)


def test_whole_nodes_need_no_column() -> None:
    plan = planned("match { $p: Person  $p actedIn $f } return { $f }")
    assert root_scan(plan).columns == ()
    assert isinstance(plan.root, ops.Project)
    assert isinstance(plan.root.input, ops.Expand)


def test_equality_between_components_is_a_join() -> None:
    plan = planned("match { $p: Person  $q: Person  $p.email = $q.email  $p.born < $q.born } return { $p, $q }")
    assert isinstance(plan.root, ops.Project)
    assert isinstance(plan.root.input, ops.Filter)
    join = plan.root.input.input
    assert isinstance(join, ops.Join)
    assert [(left.column, right.column) for left, right in join.on] == [("email", "email")]
    assert isinstance(join.left, ops.Scan)
    assert join.left.columns == ("born", "email")


def test_equality_with_an_outer_variable_is_a_join_too() -> None:
    plan = planned("match { $p: Person  not { $q: Person  $q.email = $p.email } } return { $p }")
    assert isinstance(plan.root, ops.Project)
    assert isinstance(plan.root.input, ops.SemiJoin)
    assert isinstance(plan.root.input.inners[0].root, ops.Join)
    assert root_scan(plan).columns == ("email",)


def test_numbers_of_two_types_are_not_joined_by_hash() -> None:
    assert "join" not in explain(planned("match { $f: Film  $g: Film  $f.rating = $g.year } return { $f }")).text


# what statistics change


def test_root_is_the_scan_with_the_fewest_expected_rows() -> None:
    text = 'match { $p: Person  $p actedIn $f  $f: Film { slug: "alien" } } return { $p.name }'
    assert name_of(planned(text, statistics()), root_scan(planned(text, statistics())).binding) == "f"
    few = statistics(person=1, film=1_000_000, indexed=())
    text = "match { $f: Film { year: 1979 }  $p: Person  $p actedIn $f } return { $p.name }"
    assert name_of(planned(text, few), root_scan(planned(text, few)).binding) == "p"


def test_without_statistics_the_first_binding_is_the_root() -> None:
    plan = planned("match { $f: Film  $p: Person  $p actedIn $f } return { $p.name }")
    assert name_of(plan, root_scan(plan).binding) == "f"
    assert expansions(plan)[0].reverse


def test_index_route_for_few_rows_and_adjacency_for_many() -> None:
    few = planned('match { $p: Person { name: "Ada" } $p actedIn $f } return { $f }', statistics(acted=5_000_000))
    assert expansions(few)[0].choice.route is ops.Route.INDEX
    many = planned("match { $p: Person  $p actedIn $f } return { $f }", statistics(person=100_000, film=200_000, acted=5_000))
    assert expansions(many)[0].choice.route is ops.Route.ADJACENCY


def test_negation_is_routed_by_the_rows_outside_it() -> None:
    plan = planned("match { $p: Person  not { $p actedIn $f } } return { $p }", statistics(person=100_000, acted=5_000))
    assert isinstance(plan.root, ops.Project)
    anti = plan.root.input
    assert isinstance(anti, ops.SemiJoin)
    assert not anti.wanted
    inner = anti.inners[0].root
    assert isinstance(inner, ops.Expand)
    assert inner.choice.route is ops.Route.ADJACENCY
    many = planned("match { $p: Person  not { $p actedIn $f } } return { $p }", statistics(person=100_000, acted=500_000))
    assert isinstance(many.root, ops.Project)
    assert isinstance(many.root.input, ops.SemiJoin)
    inner = many.root.input.inners[0].root
    assert isinstance(inner, ops.Expand)
    assert inner.choice.route is ops.Route.SCAN, "that a link exists is found out by one pass, for less than an adjacency"


def test_without_an_index_on_the_ends_the_edges_are_scanned() -> None:
    text = 'match { $p: Person { name: "Ada" } $p actedIn $f } return { $f }'
    acted = cinema().edge("actedIn")
    assert acted is not None
    known = Statistics(edges={acted.id: EdgeStatistics(10_000_000, indexed=False)})
    many = Statistics(edges={acted.id: EdgeStatistics(10_000_000, indexed=True)})
    unindexed, indexed = expansions(planned(text, known))[0].choice, expansions(planned(text, many))[0].choice
    assert unindexed.lookup_ms > 100 > indexed.lookup_ms
    assert (unindexed.route, indexed.route) == (ops.Route.SCAN, ops.Route.INDEX)


@pytest.mark.parametrize("nodes", [30_000, 90_000, 270_000, 1_000_000])
@pytest.mark.parametrize("indexed", [False, True])
def test_from_every_node_the_adjacency_is_built_whether_or_not_there_is_an_index(nodes: int, *, indexed: bool) -> None:
    acted, person, film = cinema().edge("actedIn"), cinema().node("Person"), cinema().node("Film")
    assert acted is not None
    assert person is not None
    assert film is not None
    edge = EdgeStatistics(2 * nodes, 2.0, 2.0, indexed=indexed, ends=2 * nodes)
    known = Statistics({person.id: NodeStatistics(nodes), film.id: NodeStatistics(nodes)}, {acted.id: edge})
    for text in ("match { $p: Person  $p actedIn $f } return { $f }", "match { $p: Person  $p actedIn $f  $q actedIn $f } return { $q }"):
        assert expansions(planned(text, known))[0].choice.route is ops.Route.ADJACENCY


@pytest.mark.parametrize("ready", [Availability.MEMORY, Availability.CACHE])
def test_adjacency_at_hand_is_preferred(ready: Availability) -> None:
    text = "match { $p: Person  $p actedIn $f } return { $f }"
    choice = expansions(planned(text, statistics(ready=ready)))[0].choice
    assert choice.route is ops.Route.ADJACENCY
    assert choice.adjacency is ready
    assert choice.adjacency_ms < choice.lookup_ms


def test_what_an_adjacency_costs_depends_on_where_it_is() -> None:
    text = 'match { $p: Person { name: "Ada" } $p actedIn $f } return { $f }'
    memory, cache, missing = (
        expansions(planned(text, statistics(ready=ready, acted=100_000)))[0].choice.adjacency_ms for ready in Availability
    )
    assert memory < 1 < cache < 5 < missing


def test_an_adjacency_is_built_once_asking_the_index_has_cost_as_much() -> None:
    text = 'match { $p: Person { name: "Ada" } $p actedIn $f } return { $f }'
    acted = cinema().edge("actedIn")
    assert acted is not None

    def route(spent_ms: float) -> ops.Route:
        return expansions(planned(text, Statistics(edges={acted.id: EdgeStatistics(2_000_000, spent_ms=spent_ms)})))[0].choice.route

    assert route(0.0) is route(500.0) is ops.Route.INDEX
    assert route(1600.0) is ops.Route.ADJACENCY


def test_target_predicates_are_applied_first_when_few_nodes_satisfy_them() -> None:
    text = "match { $p: Person  $p actedIn $f  $f: Film { year: 1979 } } return { $p }"
    known = statistics(person=10, film=100_000, acted=1_000_000)
    assert expansions(planned(text, known))[0].restrict is ops.Restrict.BEFORE


def test_target_predicates_that_compute_are_applied_to_the_nodes_that_are_reached() -> None:
    """A computation may overflow, which is no error for a node that the walk does not reach."""
    text = "match { $p: Person  $p actedIn $f  $f: Film { year: 1979 }  $f.year * 2 > 10 } return { $p }"
    known = statistics(person=10, film=100_000, acted=1_000_000)
    assert expansions(planned(text, known))[0].restrict is ops.Restrict.AFTER


def test_most_selective_index_is_named() -> None:
    plan = planned('match { $f: Film { year: 1979, slug: "alien" } } return { $f }', statistics())
    assert root_scan(plan).indexes == ("slug",)
    assert root_scan(planned("match { $f: Film { year: 1979 } } return { $f }", statistics())).indexes == ("year",)
    assert root_scan(planned("match { $f: Film  $f.year != 1979 } return { $f }", statistics())).indexes == ()
    assert root_scan(planned('match { $f: Film  $f.slug starts_with "a" } return { $f }', statistics())).indexes == ("slug",)
    assert root_scan(planned('match { $f: Film  ["a"] contains $f.slug } return { $f }', statistics())).indexes == ("slug",)


# ranking


def test_ranking_of_one_scan_is_bounded_by_the_limit() -> None:
    plan = planned('match { $f: Film { genres: "crime" } } return { $f } order { nearest($f.vec, [1, 0, 0]) } limit 5')
    assert isinstance(plan.root, ops.Project)
    assert isinstance(plan.root.input, ops.Sort)
    rank = plan.root.input.input
    assert isinstance(rank, ops.Rank)
    assert rank.top == 5
    assert rank.only_candidates


@pytest.mark.parametrize(
    "text",
    [
        "match { $f: Film  $f madeBy $s } return { $f } order { nearest($f.vec, [1, 0, 0]) } limit 5",
        "match { $f: Film  not { $f madeBy $s } } return { $f } order { nearest($f.vec, [1, 0, 0]) } limit 5",
        "match { $f: Film } return { nearest($f.vec, [1, 0, 0]) as d } order { d desc } limit 5",
        'match { $f: Film } return { bm25($f.plot, "x") as d } order { d } limit 5',
    ],
)
def test_ranking_is_not_bounded_where_rows_could_be_missed(text: str) -> None:
    assert '"top' not in json.dumps(explain(planned(text)).to_json())


def test_projected_score_drops_no_row() -> None:
    plan = planned("match { $f: Film } return { $f, nearest($f.vec, [1, 0, 0]) as d } order { $f.year }")
    facts = json.dumps(explain(plan).to_json())
    assert '"drops_others": false' in facts


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("($q: Vector(3)) match { $f: Film } return { $f } order { nearest($f.vec, $q) } limit 1", {"q": [0, 0, 0]}, "all zeros"),
        ("($q: String?) match { $f: Film } return { $f } order { nearest($f.vec, $q) } limit 1", {}, "its parameter is null"),
        ("($q: String?) match { $f: Film } return { $f } order { bm25($f.plot, $q) }", {}, "its parameter is null"),
        (
            '($k: I32) match { $f: Film } return { $f } order { rrf(bm25($f.plot, "a"), bm25($f.title, "a"), $k) } limit 1',
            {"k": 0},
            "k of rrf must be greater than 0",
        ),
        ('($k: I32) match { $f: Film  fuzzy($f.plot, "x", $k) } return { $f }', {"k": -1}, "max_edits of fuzzy"),
    ],
)
def test_search_parameters_that_make_no_sense(text: str, given: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(text, given=given)
    assert message in caught.value.message


# folding


@pytest.mark.parametrize(
    "clauses",
    [
        "$f: Film  1 > 2",
        "$f: Film  $f.year = 1979.5",
        "$f: Film  $f.year > 3000000000",
        "$p: Person  $p actedIn{2,3} $f",
        '$f: Film  "a" contains "b"',
        "$f: Film  [] contains $f.title",
    ],
)
def test_a_match_that_cannot_hold_is_empty(clauses: str) -> None:
    assert isinstance(planned(f"match {{ {clauses} }} return {{ $f }}").root, ops.Empty)


def test_aggregate_over_nothing_still_has_its_row() -> None:
    plan = planned("match { $f: Film  1 > 2 } return { count($f) as n }")
    assert isinstance(plan.root, ops.Aggregate)
    assert isinstance(plan.root.input, ops.Empty)


def test_what_always_holds_is_not_asked() -> None:
    assert root_scan(planned('match { $f: Film  1 < 2  "ab" starts_with "a"  [1, 2] contains 2.0 } return { $f }')).where == ()
    assert isinstance(planned("match { $f: Film  not { $f.year > 3000000000 } } return { $f }").root, ops.Project)
    assert "anti join" not in explain(planned("match { $f: Film  not { $f.year > 3000000000 } } return { $f }")).text


def test_now_is_the_instant_that_was_given() -> None:
    read = read_of("match { $f: Film  $f.added_at < now() } return { now() as t }")
    plan = plan_read(read, {}, now_ms=1234)
    (predicate,) = root_scan(plan).where
    assert isinstance(predicate, ir.Compare)
    assert predicate.right == Constant(read.outputs[0].type, 1234)
