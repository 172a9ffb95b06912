"""A link, expected rows and statistics -> estimates in milliseconds and the cheapest route.

Measured as CPU on two cores with warm files. A lookup in a BTREE takes about 1 ms, and 0.05 to 0.18 ms for each key. A scan of
texts takes 40 ns a row if one filter holds all texts, 110 ns a row if each row is looked up in a hash table, and 0.7 µs for each
text. Building an adjacency of two million edges takes 0.5 to 0.7 s, and 0.15 s for the ids of a million nodes; mapping its file
2 ms, and 3 ms for a million edges to compare its checksum; searching it 20 ns for each pair visited. Only the ratios matter. A wrong
estimate costs time and never changes an answer.
"""

from __future__ import annotations

from typing import Final, assert_never

from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import ID, Constant, Field
from omnigraph.plan.ir import AllOf, AnyOf, Compare, Link, LogicalScan, Matches, OneOf, Predicate, Prefix, computes
from omnigraph.plan.ops import LinkCosts, Restrict, Route, RouteChoice
from omnigraph.plan.statistics import (
    MOST_HOPS,
    Availability,
    EdgeStatistics,
    NodeStatistics,
    Statistics,
    degree,
    scanned_rows,
    selectivity,
)
from omnigraph.plan.typed import Direction, TextMode

_CALL_MS: Final = 1.0
_KEY_MS: Final = 0.05
_SCAN_ROW_MS: Final = 4e-5
_MANY: Final = 2.7
"""A scan that looks up each row in a hash table costs this many times as much as one with a filter."""
_MATCH_MS: Final = 7e-4
"""Testing scanned rows against a set of texts, for each text of the set."""
_FEW: Final = 1_000
"""The number of texts that fit into one filter. An index, if one exists, answers it."""
_BATCH: Final = 65_536
"""The number of nodes from which a link is followed at a time. A scan is repeated for each batch."""
_ID_MS: Final = 0.07
_BUILD_CALLS: Final = 2
"""The fixed cost of a build, which reads up to three tables and writes as many files, in calls."""
_BUILD_EDGE_MS: Final = 3e-4
"""Reading both ends of an edge and sorting it into one direction. To turn the other direction takes a third of that."""
_BUILD_NODE_MS: Final = 1.5e-4
"""Reading the id of a node, and a hash table over the ids of its type."""
_EXTEND_EDGE_MS: Final = 5e-5
"""Keeping an edge of an older adjacency: 8 ns if rows were only added, 0.2 µs if some were moved or deleted."""
_LINKED_EDGE_MS: Final = 2.2e-4
"""Finding out whether a node at one end of an edge has an edge at all."""
PASS_SHARE: Final = 0.9
"""A pass that only finds out which nodes have an edge must cost at most this share of an adjacency, which stays."""
_WALK_MS: Final = 2e-5
_MEMORY_MS: Final = 0.05
_FILE_MS: Final = 2.0
_FILE_EDGE_MS: Final = 3.5e-6
_FILE_NODE_MS: Final = 1.2e-5
"""Comparing the checksum of a cached file: 8 bytes for an edge, about 30 for the id of a node."""


def choose_route(link: Link, rows: float, statistics: Statistics, *, from_left: bool, far: LogicalScan | None = None) -> RouteChoice:
    """The cheapest route for the expected rows. An adjacency that must be built costs its build, minus the time that queries
    have already spent without it. `far` is the scan of the nodes at the other end, or None if both ends are bound.
    """
    edge = _edge(link, statistics)
    costs = _costs(link, edge, statistics, from_left=from_left, far=far)
    hops = min(link.high, MOST_HOPS)
    asked_ms = lookup_ms(costs, rows, hops=hops)
    walked_ms = max(costs.ready_ms - edge.spent_ms, _MEMORY_MS) + walk_ms(costs, rows, hops=hops)
    lookup = lookup_route(costs, rows)
    route = lookup if asked_ms <= walked_ms else Route.ADJACENCY
    return RouteChoice(route, lookup, asked_ms, walked_ms, edge.adjacency, costs)


def only_existence(choice: RouteChoice) -> RouteChoice:
    """The choice for a link of one hop of which only the existence counts."""
    if choice.costs.linked_ms >= choice.lookup_ms:
        return choice
    route = Route.SCAN if choice.costs.linked_ms <= choice.adjacency_ms * PASS_SHARE else Route.ADJACENCY
    return RouteChoice(route, Route.SCAN, choice.costs.linked_ms, choice.adjacency_ms, choice.adjacency, choice.costs)


def lookup_ms(costs: LinkCosts, nodes: float, *, hops: int) -> float:
    """The cost of following a link from `nodes` nodes without its adjacency."""
    total = 0.0
    calls = max(1.0, nodes / _BATCH)
    for frontier in _frontiers(costs, nodes, hops):
        total += calls * hop_ms(costs, frontier / calls, frontier * costs.degree / calls)
    return total


def hop_ms(costs: LinkCosts, nodes: float, reached: float) -> float:
    """The cost of one call that finds the edges of `nodes` nodes without an adjacency, and the nodes that they reach."""
    near = _found_ms(nodes, costs.key_ms, costs.pass_ms)
    far = _found_ms(reached, costs.far_key_ms, costs.far_pass_ms)
    return costs.directions * (near + far)


def lookup_route(costs: LinkCosts, nodes: float) -> Route:
    """The cheaper of index and scan for the edges of `nodes` nodes. A small number always uses the index."""
    if costs.key_ms is None:
        return Route.SCAN
    return Route.INDEX if nodes <= _FEW or costs.key_ms * nodes <= costs.pass_ms else Route.SCAN


def walk_ms(costs: LinkCosts, nodes: float, *, hops: int) -> float:
    """The cost of following a link with its adjacency in memory."""
    return sum(_WALK_MS * frontier * max(costs.degree, 1.0) for frontier in _frontiers(costs, nodes, hops))


def _frontiers(costs: LinkCosts, nodes: float, hops: int) -> list[float]:
    """The number of nodes that each hop starts from."""
    found = [max(nodes, 1.0)]
    while len(found) < hops:
        found.append(min(max(found[-1] * costs.degree, 1.0), costs.most))
    return found


def _found_ms(keys: float, key_ms: float | None, pass_ms: float) -> float:
    """The cost of finding the rows that have one of `keys` texts."""
    scanned = pass_ms * (1.0 if keys <= _FEW else _MANY) + _MATCH_MS * keys
    return _CALL_MS + (scanned if key_ms is None else min(key_ms * keys, scanned))


def _costs(link: Link, edge: EdgeStatistics, statistics: Statistics, *, from_left: bool, far: LogicalScan | None) -> LinkCosts:
    """`edge` are the statistics of the link's edges."""
    reached = None if far is None else statistics.node(far.type.id)
    far_rows = edge.ends / 2 if reached is None else reached.rows
    return LinkCosts(
        key_ms=_KEY_MS if edge.indexed else None,
        pass_ms=_SCAN_ROW_MS * edge.rows,
        far_key_ms=_KEY_MS if (reached is None and edge.indexed) or (reached is not None and ID in reached.indexed) else None,
        far_pass_ms=_SCAN_ROW_MS * far_rows,
        degree=degree(link, statistics, from_left=from_left),
        directions=2 if link.direction is Direction.BOTH else 1,
        most=float(max(edge.rows, 1)),
        ready_ms=_ready_ms(edge),
        linked_ms=3 * _CALL_MS + _LINKED_EDGE_MS * edge.rows + _BUILD_NODE_MS * edge.ends,
    )


def _ready_ms(edge: EdgeStatistics) -> float:
    """The time until the adjacency is ready."""
    match edge.adjacency:
        case Availability.MEMORY:
            return _MEMORY_MS
        case Availability.CACHE:
            return _FILE_MS + _FILE_EDGE_MS * edge.rows + _FILE_NODE_MS * edge.ends
        case Availability.MISSING:
            known = min(edge.adjacency_known, edge.rows)
            read = edge.rows - known
            # Where most edges are known, so are the ids of most nodes.
            nodes = _BUILD_NODE_MS * edge.ends * read / max(edge.rows, 1)
            return _BUILD_CALLS * _CALL_MS + _BUILD_EDGE_MS * read + _EXTEND_EDGE_MS * known + nodes
        case _:
            assert_never(edge.adjacency)


def _edge(link: Link, statistics: Statistics) -> EdgeStatistics:
    """The statistics of all edges that a link follows, as if they were one type. Only together do they have what each must have."""
    if len(link.edges) == 1:
        return statistics.edge(link.edges[0].id)
    edges = [statistics.edge(edge.id) for edge in link.edges]
    order = list(Availability)
    return EdgeStatistics(
        rows=sum(edge.rows for edge in edges),
        out_degree=sum(edge.out_degree for edge in edges),
        in_degree=sum(edge.in_degree for edge in edges),
        adjacency=max((edge.adjacency for edge in edges), key=order.index),
        indexed=all(edge.indexed for edge in edges),
        spent_ms=sum(edge.spent_ms for edge in edges),
        adjacency_known=sum(edge.adjacency_known for edge in edges),
        ends=sum(edge.ends for edge in edges),
    )


def choose_restriction(target: LogicalScan, reached: float, statistics: Statistics) -> Restrict:
    """Whether it is cheaper to find the nodes that satisfy the predicates first, or to test the nodes that were reached.

    What a predicate computes may overflow, which is an error only for a node that is reached.
    """
    if not target.where:
        return Restrict.NONE
    if any(computes(predicate) for predicate in target.where):
        return Restrict.AFTER
    known = statistics.node(target.type.id)
    if choose_indexes(target.where, known):
        before_ms = _CALL_MS + _KEY_MS * scanned_rows(target, statistics)
    else:
        before_ms = _CALL_MS + _SCAN_ROW_MS * known.rows
    after_ms = _CALL_MS + _ID_MS * reached
    return Restrict.BEFORE if before_ms <= after_ms else Restrict.AFTER


def choose_indexes(where: tuple[Predicate, ...], known: NodeStatistics) -> tuple[str, ...]:
    """The columns whose indexes answer the most selective predicate that indexes can answer; none for a full scan."""
    best: tuple[float, tuple[str, ...]] | None = None
    for predicate in where:
        columns = _text_index(predicate, known.texts) or _indexes_of(predicate, known.indexed)
        if not columns:
            continue
        share = selectivity(predicate, known)
        if best is None or share < best[0]:
            best = share, columns
    return () if best is None else best[1]


def _text_index(predicate: Predicate, texts: frozenset[str]) -> tuple[str, ...]:
    """The column whose index on words leads to the rows of a search."""
    match predicate:
        case Matches(text, True) if text.mode is not TextMode.FUZZY and text.field.column in texts:
            return (text.field.column,)
        case _:
            return ()


def _indexes_of(predicate: Predicate, indexed: frozenset[str]) -> tuple[str, ...]:
    """The columns whose indexes lead to the rows of a predicate. Of `or` every term needs one, of `and` one is enough."""
    match predicate:
        case Compare(Field(column=column), operator, Constant()) if operator is not Comparison.NE and column in indexed:
            return (column,)
        case OneOf(Field(column=column)) | Prefix(Field(column=column), Constant()) if column in indexed:
            return (column,)
        case AllOf(terms):
            return next(filter(None, (_indexes_of(term, indexed) for term in terms)), ())
        case AnyOf(terms):
            found = [_indexes_of(term, indexed) for term in terms]
            return tuple(dict.fromkeys(column for columns in found for column in columns)) if all(found) else ()
        case _:
            return ()
